// SPDX-License-Identifier: Apache-2.0
// The trace store: labels of chains and trees; what was added is what is read; a bounded file keeps
// the youngest rounds; a killed writer leaves whole rounds; two writers share a file; files that
// are none, full disks, read-only folders and flipped bytes give errors that say so, never a crash.
#include <fcntl.h>
#include <grp.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/num.h"
#include "base/rng.h"
#include "learn/trace.h"
#include "learn/trace_db.h"

static char folder[64], path[80];

static int set_up(void **state)
{
    strcpy(folder, "/tmp/ft_trace_XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/trace.db", folder);
    return 0;
}

static int tear_down(void **state)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* ---- rounds to write ---- */

/* Node i of round `number` of a text, by which it is known again. */
static float feature_of(uint32_t number, uint32_t i, int f)
{
    return f == FT_FEATURE_POSITION ? (float)i : (float)number + (float)i / 64 + (float)f / 1024;
}

/* A chain of n of which `accepted` are; no features where number % 5 is 0. */
static void add_chain(ft_trace *t, const ft_trace_session *s, uint32_t number, uint32_t n,
                      uint32_t accepted)
{
    ft_trace_node node[FT_TRACE_NODES] = {0};
    uint32_t accepted_path[FT_TRACE_NODES];
    for (uint32_t i = 0; i < n; i++) {
        node[i] = (ft_trace_node){.token = (int32_t)(number + i),
                                  .parent = (int32_t)i - 1,
                                  .depth = (uint16_t)i,
                                  .has_features = number % 5 != 0};
        for (int f = 0; f < FT_FEATURES; f++)
            node[i].feature[f] = feature_of(number, i, f);
        accepted_path[i] = i;
    }
    ft_trace_label(node, n, accepted_path, accepted, false);
    const ft_trace_round round = {.number = number,
                                  .length = 10 + number,
                                  .depth = n,
                                  .accepted = accepted,
                                  .next = 7,
                                  .draft_us = 100,
                                  .rtt_us = -1,
                                  .queue_us = 5,
                                  .verify_us = 50,
                                  .n = n,
                                  .node = node};
    ft_trace_add(t, s, &round);
}

static ft_trace_session new_session(void)
{
    ft_trace_session s = {
        .draft = 1, .target = UINT64_MAX, .vocab = 3, .temperature = 0.5f, .top_k = 40};
    assert_int_equal(ft_trace_begin(&s, NULL), FT_OK);
    return s;
}

static ft_trace *must_open(const ft_trace_opts *opts)
{
    ft_trace *t = NULL;
    ft_error err = {0};
    if (ft_trace_open(opts, &err, &t) != FT_OK)
        fail_msg("%s", err.message);
    return t;
}

static ft_trace_summary must_summarize(void)
{
    ft_trace_summary s;
    ft_error err = {0};
    if (ft_trace_summarize(path, &err, &s) != FT_OK)
        fail_msg("%s", err.message);
    return s;
}

static int64_t number_in_file(const char *sql)
{
    sqlite3 *db = NULL;
    int64_t n = -1;
    assert_int_equal(ft_trace_db_read(path, NULL, &db), FT_OK);
    assert_int_equal(ft_trace_db_number(db, sql, &n), SQLITE_OK);
    sqlite3_close(db);
    return n;
}

/* ---- labels ---- */

static void expect_labels(const int32_t *parent, uint32_t n, const uint32_t *accepted,
                          uint32_t n_accepted, bool ended, const int8_t *wanted)
{
    ft_trace_node node[8] = {0};
    for (uint32_t i = 0; i < n; i++)
        node[i].parent = parent[i];
    ft_trace_label(node, n, accepted, n_accepted, ended);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(node[i].outcome, wanted[i]);
}

static void test_labels(void **state)
{
    static const int32_t chain[] = {-1, 0, 1, 2}, tree[] = {-1, -1, 0, 0, 1, 2, 2, 3};
    static const uint32_t two[] = {0, 1}, all[] = {0, 1, 2, 3}, branch[] = {0, 2};
    /* appendix B: accepted 1, the first rejected 0, later ones dropped */
    expect_labels(chain, 4, two, 2, false, (const int8_t[]){1, 1, 0, -1});
    expect_labels(chain, 4, NULL, 0, false, (const int8_t[]){0, -1, -1, -1});
    expect_labels(chain, 4, all, 4, false, (const int8_t[]){1, 1, 1, 1});
    /* the text has ended: nobody drew a token there */
    expect_labels(chain, 4, two, 2, true, (const int8_t[]){1, 1, -1, -1});
    /* 0 -> {2 -> {5, 6}, 3 -> 7}, 1 -> 4 */
    expect_labels(tree, 8, branch, 2, false, (const int8_t[]){1, 0, 1, 0, -1, 0, 0, -1});
    expect_labels(tree, 8, branch, 2, true, (const int8_t[]){1, 0, 1, 0, -1, -1, -1, -1});
    expect_labels(tree, 8, NULL, 0, false, (const int8_t[]){0, 0, -1, -1, -1, -1, -1, -1});
}

/* ---- writing and reading ---- */

typedef struct seen {
    uint32_t samples, accepted, sessions;
    int64_t session, round;
    uint32_t stop_at;
} seen;

static bool see(void *ctx, const ft_trace_sample *s)
{
    seen *all = ctx;
    const uint32_t number = (uint32_t)s->feature[FT_FEATURE_CONFIDENCE];
    all->sessions += s->session != all->session;
    all->session = s->session;
    assert_true(s->round >= all->round);
    all->round = s->round;
    assert_int_not_equal(number % 5, 0);
    for (int f = 0; f < FT_FEATURES; f++)
        assert_true(s->feature[f] == feature_of(number, s->index, f));
    assert_int_equal(s->depth, s->index);
    assert_int_equal(s->parent, (int32_t)s->index - 1);
    assert_true(s->draft == 1 && s->target == UINT64_MAX);
    all->accepted += s->accepted;
    all->samples++;
    return all->samples != all->stop_at;
}

static void test_round_trip(void **state)
{
    enum { ROUNDS = 30, NODES = 4 };
    seen all = {0}, some = {.stop_at = 5};
    ft_trace *t = must_open(&(ft_trace_opts){.path = path});
    for (int text = 0; text < 2; text++) {
        const ft_trace_session s = new_session();
        for (uint32_t i = 1; i <= ROUNDS; i++)
            add_chain(t, &s, i, NODES, i % (NODES + 1));
    }
    ft_trace_close(t);
    /* rounds with features: i % 5 accepted and, as it is never all four when i % 5 < 4, one
     * rejected */
    assert_int_equal(ft_trace_each_node(path, see, &all, NULL), FT_OK);
    assert_int_equal(all.sessions, 2);
    assert_int_equal(all.accepted, 2 * 6 * (1 + 2 + 3 + 4));
    assert_int_equal(all.samples, 2 * 6 * (2 + 3 + 4 + 4));
    assert_int_equal(ft_trace_each_node(path, see, &some, NULL), FT_OK);
    assert_int_equal(some.samples, 5);

    const ft_trace_summary s = must_summarize();
    assert_true(s.sessions == 2 && s.rounds == 2 * ROUNDS && s.nodes == 2 * ROUNDS * NODES);
    assert_true(s.pairs == 1 && s.samples == all.samples && s.n_depths == NODES);
    assert_true(s.accepted == all.accepted && s.judged == all.samples + 2 * 6);
    assert_true(s.depth[0].judged == 2 * ROUNDS && s.depth[0].accepted == 2 * 24);
    assert_true(s.depth[3].nodes == 2 * ROUNDS && s.depth[3].accepted == 2 * 6);
    assert_true(s.first_us > 1700000000000000 && s.last_us >= s.first_us && s.bytes > 0);
    assert_int_equal(number_in_file("SELECT count(*) FROM round WHERE rtt_us IS NULL AND next = 7 "
                                    "AND draft_us = 100 AND length = number + 10"),
                     2 * ROUNDS);
    /* 100 us a draft of four; of each five rounds 0 to 4 nodes were accepted */
    assert_int_equal(s.waste.tokens, 2 * 6 * (4 + 3 + 2 + 1));
    assert_int_equal(s.waste.wasted_us, 25 * s.waste.tokens);
    assert_int_equal(s.waste.useful_us + s.waste.wasted_us, 2 * ROUNDS * 100);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

typedef struct rounds_seen {
    uint32_t n, accepted, tokens, sessions, stop_at;
    int64_t session;
} rounds_seen;

static bool see_round(void *ctx, const ft_trace_drafted *r)
{
    rounds_seen *all = ctx;
    all->sessions += r->session != all->session;
    all->session = r->session;
    all->accepted += r->accepted;
    all->tokens += r->tokens;
    assert_int_equal(r->drafted, 4);
    assert_true(r->draft_us == 100 && r->rtt_us == -1);
    return ++all->n != all->stop_at;
}

/* Rounds of two texts that were written in turns come text by text. */
static void test_rounds(void **state)
{
    rounds_seen all = {0}, some = {.stop_at = 3};
    ft_trace *t = must_open(&(ft_trace_opts){.path = path});
    const ft_trace_session s[2] = {new_session(), new_session()};
    for (uint32_t i = 0; i < 20; i++)
        add_chain(t, &s[i % 2], 1 + i / 2, 4, i % 5);
    ft_trace_close(t);
    assert_int_equal(ft_trace_each_round(path, see_round, &all, NULL), FT_OK);
    assert_true(all.n == 20 && all.sessions == 2 && all.accepted == 4 * (1 + 2 + 3 + 4));
    assert_int_equal(all.tokens, all.accepted + 20);
    assert_int_equal(ft_trace_each_round(path, see_round, &some, NULL), FT_OK);
    assert_int_equal(some.n, 3);
}

/* A file whose rounds say what cannot be is damaged. */
static void test_strange_rounds(void **state)
{
    static const char *const strange[] = {"accepted = 9", "accepted = -1", "draft_us = -7",
                                          "verify_us = 9000000000000000000"};
    for (size_t i = 0; i < FT_COUNT(strange); i++) {
        rounds_seen all = {0};
        ft_error err = {0};
        sqlite3 *db = NULL;
        char sql[96];
        ft_trace *t = must_open(&(ft_trace_opts){.path = path});
        const ft_trace_session s = new_session();
        add_chain(t, &s, 1, 4, 2);
        ft_trace_close(t);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        snprintf(sql, sizeof sql, "UPDATE round SET %s", strange[i]);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        assert_int_equal(ft_trace_each_round(path, see_round, &all, &err), FT_CORRUPT);
        assert_non_null(strstr(err.message, "numbers of round"));
        assert_int_equal(all.n, 0);
    }
}

/* What is no number is not a feature. */
static void test_not_finite(void **state)
{
    seen all = {0};
    const ft_trace_session s = new_session();
    ft_trace_node node = {.parent = -1, .outcome = FT_TRACE_ACCEPTED, .has_features = true};
    const ft_trace_round round = {.number = 1, .next = -1, .n = 1, .node = &node};
    ft_trace *t = must_open(&(ft_trace_opts){.path = path});
    node.feature[FT_FEATURE_ENTROPY] = NAN;
    ft_trace_add(t, &s, &round);
    node.feature[FT_FEATURE_ENTROPY] = INFINITY;
    ft_trace_add(t, &s, &round);
    ft_trace_close(t);
    assert_int_equal(ft_trace_each_node(path, see, &all, NULL), FT_OK);
    assert_int_equal(all.samples, 0);
    assert_true(must_summarize().judged == 2);
    assert_int_equal(number_in_file("SELECT count(*) FROM round WHERE next IS NULL"), 2);
}

/* The file stays small, holds the youngest rounds, and nothing of the others. */
static void test_bound(void **state)
{
    enum { MOST = 1 << 20, PARTS = 40, ROUNDS = 600, NODES = 12 };
    struct stat info;
    for (int part = 0; part < PARTS; part++) { /* each goes on in the file of the last */
        const ft_trace_session s = new_session();
        ft_trace *t = must_open(&(ft_trace_opts){.path = path, .max_bytes = MOST});
        for (uint32_t i = 1; i <= ROUNDS; i++)
            add_chain(t, &s, i, NODES, 3);
        ft_trace_flush(t);
        assert_true(ft_trace_get_stats(t).rounds == ROUNDS && ft_trace_get_stats(t).dropped == 0);
        ft_trace_close(t);
        assert_int_equal(stat(path, &info), 0);
        assert_true(info.st_size <= MOST);
    }
    const ft_trace_summary all = must_summarize();
    assert_true(all.rounds > 500 && all.rounds < PARTS * ROUNDS / 2 && all.bytes > MOST / 2);
    assert_true(all.nodes == all.rounds * NODES);
    assert_int_equal(number_in_file("SELECT max(id) - min(id) + 1 FROM round"),
                     (int64_t)all.rounds);
    assert_int_equal(number_in_file("SELECT number FROM round ORDER BY id DESC LIMIT 1"), ROUNDS);
    assert_int_equal(number_in_file("SELECT count(*) FROM node WHERE round NOT IN "
                                    "(SELECT id FROM round)"),
                     0);
    /* a lower bound takes effect at once */
    ft_trace_close(must_open(&(ft_trace_opts){.path = path, .max_bytes = MOST / 4}));
    assert_int_equal(stat(path, &info), 0);
    assert_true(info.st_size <= MOST / 4);
    assert_true(must_summarize().rounds > 0);
}

/* Rounds for which there is no memory are counted; those that nobody can write, too. */
static void test_drops(void **state)
{
    const ft_trace_session s = new_session();
    ft_trace *t = must_open(&(ft_trace_opts){.path = path, .memory_bytes = 1024});
    for (uint32_t i = 1; i <= 10; i++)
        add_chain(t, &s, i, 200, 1); /* larger than all there is */
    assert_int_equal(ft_trace_get_stats(t).dropped, 10);
    for (uint32_t i = 1; i <= 2000; i++)
        add_chain(t, &s, i, 4, 1);
    ft_trace_flush(t);
    const ft_trace_stats stats = ft_trace_get_stats(t);
    ft_trace_close(t);
    assert_true(stats.rounds + stats.dropped == 2010 && stats.rounds > 0);
    assert_int_equal(must_summarize().rounds, stats.rounds);

    unlink(path);
    t = must_open(&(ft_trace_opts){.path = path, .max_bytes = 4096}); /* not even the tables fit */
    for (uint32_t i = 1; i <= 3; i++) {
        add_chain(t, &s, i, 200, 1);
        ft_trace_flush(t);
        assert_int_equal(ft_trace_get_stats(t).dropped, i);
    }
    ft_trace_close(t);
    assert_int_equal(must_summarize().rounds, 0);
}

/* ---- other processes ---- */

/* Runs `child` in a process of its own; what it wrote into its pipe comes back. */
static pid_t start(void (*child)(int out), int *in)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        child(ends[1]);
        _exit(0);
    }
    close(ends[1]);
    *in = ends[0];
    return pid;
}

static int exit_of(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

/* Writes until it is killed, and says how much is in the file whenever that grows. */
static void write_for_ever(int out)
{
    ft_trace *t = NULL;
    ft_trace_session s = {.draft = 1, .target = UINT64_MAX};
    uint64_t said = 0;
    if (ft_trace_open(&(ft_trace_opts){.path = path, .max_bytes = 2 << 20, .memory_bytes = 65536},
                      NULL, &t) != FT_OK ||
        ft_trace_begin(&s, NULL) != FT_OK)
        _exit(1);
    for (uint32_t i = 1;; i++) {
        add_chain(t, &s, i, 1 + i % 30, i % 2);
        const uint64_t rounds = ft_trace_get_stats(t).rounds;
        if (rounds > said && write(out, &rounds, sizeof rounds) != sizeof rounds)
            _exit(1);
        said = rounds;
    }
}

static void test_killed(void **state)
{
    ft_rng rng;
    uint64_t before = 0;
    ft_rng_init(&rng, 1);
    for (int kill_no = 0; kill_no < 6; kill_no++) {
        int in = -1;
        uint64_t said = 0;
        const uint32_t reports = 1 + ft_rng_below(&rng, 8);
        pid_t pid = start(write_for_ever, &in);
        for (uint32_t i = 0; i < reports; i++)
            assert_int_equal(read(in, &said, sizeof said), sizeof said);
        kill(pid, SIGKILL);
        assert_int_equal(exit_of(pid), 256 + SIGKILL);
        close(in);
        const ft_trace_summary all = must_summarize(); /* rounds without parts would fail it */
        assert_true(all.rounds >= 1 && (all.rounds >= said || all.bytes > (1 << 20)));
        assert_true(all.rounds >= before || all.bytes > (1 << 20));
        before = all.rounds;
        sqlite3 *db = NULL;
        sqlite3_stmt *row = NULL;
        assert_int_equal(ft_trace_db_read(path, NULL, &db), FT_OK);
        assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &row, NULL),
                         SQLITE_OK);
        assert_int_equal(sqlite3_step(row), SQLITE_ROW);
        assert_string_equal((const char *)sqlite3_column_text(row, 0), "ok");
        sqlite3_finalize(row);
        sqlite3_close(db);
    }
}

enum { SHARED_ROUNDS = 300 };

static void write_some(int out)
{
    ft_trace *t = NULL;
    ft_trace_session s = {.draft = 1, .target = UINT64_MAX};
    ft_error err = {0};
    ft_status status;
    do /* others may keep it for longer than a store waits, on a slow machine */
        status = ft_trace_open(&(ft_trace_opts){.path = path}, &err, &t);
    while (status == FT_UNAVAILABLE);
    if (status != FT_OK) {
        fprintf(stderr, "%s\n", err.message);
        _exit(1);
    }
    if (ft_trace_begin(&s, NULL) != FT_OK)
        _exit(1);
    for (uint32_t i = 1; i <= SHARED_ROUNDS; i++)
        add_chain(t, &s, i, 8, 2);
    ft_trace_close(t);
}

/* Processes that make one file together and write at the same time. */
static void test_shared(void **state)
{
    enum { WRITERS = 4 };
    pid_t pid[WRITERS];
    int in[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        pid[i] = start(write_some, &in[i]);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(exit_of(pid[i]), 0);
        close(in[i]);
    }
    const ft_trace_summary all = must_summarize();
    assert_true(all.sessions == WRITERS && all.rounds == WRITERS * SHARED_ROUNDS);
}

/* ---- files that cannot be ---- */

static void expect_refused(ft_status to_write, ft_status to_read);

/* Somebody keeps the file for himself. */
static void test_locked(void **state)
{
    sqlite3 *db = NULL;
    write_some(-1);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(ft_trace_db_run(db, "PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE; "
                                         "DELETE FROM node; DELETE FROM round"),
                     SQLITE_OK);
    expect_refused(FT_UNAVAILABLE, FT_UNAVAILABLE);
    sqlite3_close(db);
    assert_true(must_summarize().rounds == SHARED_ROUNDS);
}

static void expect_refused(ft_status to_write, ft_status to_read)
{
    ft_trace *t = NULL;
    ft_trace_summary s;
    ft_error err = {0};
    assert_int_equal(ft_trace_open(&(ft_trace_opts){.path = path}, &err, &t), to_write);
    assert_null(t);
    assert_non_null(strstr(err.message, path));
    err = (ft_error){0};
    assert_int_equal(ft_trace_summarize(path, &err, &s), to_read);
    assert_non_null(strstr(err.message, path));
}

static void write_file(const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

static void run_sql(const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void test_not_a_store(void **state)
{
    static const char text[] = "once upon a time there was a file that was long enough to have "
                               "a header of a hundred bytes, and was nevertheless no database.";
    ft_trace_summary s;
    assert_int_equal(ft_trace_summarize(path, NULL, &s), FT_NOT_FOUND);
    write_file(text, sizeof text);
    expect_refused(FT_CORRUPT, FT_CORRUPT);

    unlink(path);
    run_sql("CREATE TABLE recipes (id INTEGER)"); /* somebody else's */
    expect_refused(FT_PRECONDITION, FT_PRECONDITION);
    assert_int_equal(access(path, F_OK), 0);

    unlink(path);
    ft_trace_close(must_open(&(ft_trace_opts){.path = path}));
    run_sql("PRAGMA user_version=0");
    expect_refused(FT_PRECONDITION, FT_PRECONDITION);
    run_sql("PRAGMA user_version=1");
    assert_true(must_summarize().rounds == 0);
    run_sql("CREATE TRIGGER t AFTER INSERT ON round BEGIN DELETE FROM node; END");
    expect_refused(FT_CORRUPT, FT_CORRUPT);

    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refused(FT_IO, FT_IO);
}

/* In a folder that may only be read, by somebody who is not root: a new file is refused, one that
 * is there can be read. */
static void read_only_folder(int out)
{
    ft_trace *t = NULL;
    ft_trace_summary s;
    char other[96];
    if (geteuid() == 0 && (setgroups(0, NULL) || setgid(65534) || setuid(65534)))
        _exit(1);
    snprintf(other, sizeof other, "%s/other.db", folder);
    if (ft_trace_open(&(ft_trace_opts){.path = other}, NULL, &t) != FT_IO)
        _exit(2);
    if (ft_trace_open(&(ft_trace_opts){.path = path}, NULL, &t) != FT_IO)
        _exit(3);
    if (ft_trace_summarize(path, NULL, &s) != FT_OK || s.rounds != SHARED_ROUNDS)
        _exit(4);
}

static void test_read_only(void **state)
{
    int in = -1;
    write_some(-1);
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(folder, 0555), 0);
    assert_int_equal(exit_of(start(read_only_folder, &in)), 0);
    close(in);
    assert_int_equal(chmod(folder, 0755), 0);
}

/* A disk that fills up while rounds are written: dropped, counted, and the file stays whole. */
static void test_full_disk(void **state)
{
    const ft_trace_session s = new_session();
    struct rlimit limit, low;
    struct stat info;
    write_some(-1);
    const uint64_t before = must_summarize().rounds;
    assert_int_equal(stat(path, &info), 0);
    ft_trace *t = must_open(&(ft_trace_opts){.path = path});
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    low = limit;
    low.rlim_cur = (rlim_t)info.st_size / 4;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    for (uint32_t i = 1; i <= 400; i++)
        add_chain(t, &s, i, 40, 2);
    ft_trace_flush(t);
    const ft_trace_stats stats = ft_trace_get_stats(t);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ft_trace_close(t);
    assert_true(stats.dropped > 0 && stats.rounds + stats.dropped == 400);
    assert_true(must_summarize().rounds == before + stats.rounds);
}

/* ---- damage ---- */

static bool any(void *ctx, const ft_trace_sample *sample)
{
    for (int f = 0; f < FT_FEATURES; f++)
        assert_true(isfinite(sample->feature[f]));
    assert_true(sample->index < FT_TRACE_NODES && sample->parent < (int32_t)sample->index);
    return true;
}

static bool any_round(void *ctx, const ft_trace_drafted *r)
{
    assert_true(r->drafted > 0 && r->drafted <= FT_TRACE_NODES && r->accepted <= r->drafted);
    return true;
}

/* Whatever bytes are in the file: an error, or numbers that are in range. */
static void test_damage(void **state)
{
    enum { RUNS = 400, MOST = 1 << 20 };
    static unsigned char whole[MOST], bad[MOST];
    uint32_t errors = 0;
    ft_rng rng;
    write_some(-1);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(whole, 1, sizeof whole, f);
    fclose(f);
    assert_true(n > 8192 && n < sizeof whole);
    ft_rng_init(&rng, 7);
    for (int run = 0; run < RUNS; run++) {
        const uint32_t flips = 1 + ft_rng_below(&rng, 20);
        /* some anywhere, some where the structure is: the first page, and pages' beginnings */
        const uint32_t range = run % 3 == 0 ? 4096 : (uint32_t)n;
        size_t length = run % 10 == 0 ? ft_rng_below(&rng, (uint32_t)n) : n;
        ft_trace_summary s;
        ft_trace *t = NULL;
        ft_error err = {0};
        memcpy(bad, whole, n);
        for (uint32_t i = 0; i < flips; i++) {
            uint32_t at = ft_rng_below(&rng, range);
            if (run % 3 == 1)
                at = at / 4096 * 4096 + at % 64;
            bad[at] = (unsigned char)ft_rng_u32(&rng);
        }
        write_file(bad, length);
        errors += ft_trace_summarize(path, &err, &s) != FT_OK;
        if (ft_trace_each_node(path, any, NULL, &err) != FT_OK)
            assert_true(err.message[0]);
        if (ft_trace_each_round(path, any_round, NULL, &err) != FT_OK)
            assert_true(err.message[0]);
        if (ft_trace_open(&(ft_trace_opts){.path = path}, &err, &t) == FT_OK) {
            const ft_trace_session session = new_session();
            add_chain(t, &session, 1, 8, 2);
            ft_trace_close(t);
        }
        unlink(path);
        char log[96];
        snprintf(log, sizeof log, "%s-wal", path);
        unlink(log);
        snprintf(log, sizeof log, "%s-shm", path);
        unlink(log);
    }
    assert_true(errors > RUNS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels),
        cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_strange_rounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_finite, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bound, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_drops, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shared, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_locked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_a_store, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_read_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
    };
    ft_log_set_level(FT_LOG_ERROR); /* what is dropped is told */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
