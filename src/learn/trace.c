// SPDX-License-Identifier: Apache-2.0
// The writing side of the trace store. Rounds are copied into a buffer of fixed size. When the
// buffer is half full or a second old, a thread takes it, gives the callers the other buffer, and
// writes the contents in one transaction. So callers only copy some kilobytes under a lock, which
// is never held longer than that.
//
//   ft_trace_add -> `filling` --swap--> `writing` --one transaction--> file
//        | full: dropped                    | fails: rolled back, dropped
//
// A transaction that would make the file too large deletes the oldest rounds first. A round's node
// rows, its own row and its session's row are in one transaction, so the file never holds a part of
// a round.
//
// Threads: `mutex` guards `filling` and the counters. From open to close, connection, statements
// and `writing` belong to the writing thread. Does not read traces (trace_read.c does).
#include "learn/trace.h"

#include <math.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cond.h"
#include "base/log.h"
#include "base/num.h"
#include "base/rng.h"
#include "base/thread.h"
#include "learn/trace_db.h"

#define DEFAULT_MEMORY (1 << 20)
#define BATCH_US       1000000 /* longest time that a round waits to be written */
/* In the file, added rounds take GROWTH times their size in memory. Up to SPARE_PAGES pages are
 * partly filled. */
#define GROWTH      2
#define SPARE_PAGES 8

/* A round in a buffer, its nodes behind it. */
typedef struct entry {
    ft_trace_session session;
    ft_trace_round round;
} entry;
_Static_assert(sizeof(ft_trace_node) % _Alignof(entry) == 0, "entries lie behind nodes");

typedef struct buffer {
    unsigned char *data;
    size_t n;
    uint64_t rounds;
} buffer;

typedef enum statement { ADD_SESSION, ADD_ROUND, ADD_NODE, STATEMENTS } statement;

static const char *const statement_sql[STATEMENTS] = {
    [ADD_SESSION] = "INSERT OR IGNORE INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [ADD_ROUND] = "INSERT INTO round VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [ADD_NODE] = "INSERT INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
};

/* Deletes the oldest sixteenth of the rounds, and what belongs to them. */
#define OLDEST "(SELECT min(id) + (max(id) - min(id)) / 16 FROM round)"
static const char delete_oldest_sql[] =
    "DELETE FROM node WHERE round <= " OLDEST "; DELETE FROM round WHERE id <= " OLDEST "; "
    "DELETE FROM session WHERE NOT EXISTS (SELECT 1 FROM round WHERE round.session = session.id)";

/* Pages that hold something. */
static const char used_sql[] =
    "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count";

struct ft_trace {
    size_t capacity; /* of each buffer */
    int64_t pages;   /* of the file at most */

    pthread_mutex_t mutex;
    /* wakes the writing thread: a round came, the buffer is half full, a flush waits, or the end */
    pthread_cond_t wake;
    pthread_cond_t over; /* for ft_trace_flush: a batch is done */
    /* guarded by mutex */
    buffer filling;
    bool stop, hurry;     /* hurry: somebody waits for a batch */
    uint64_t taken, done; /* batches */
    ft_trace_stats stats;

    /* the writing thread's */
    pthread_t thread;
    buffer writing;
    sqlite3 *db;
    sqlite3_stmt *stmt[STATEMENTS];
    bool failed; /* to write, and logged it */
};

/* ---- outcomes ---- */

void ft_trace_label(ft_trace_node *node, uint32_t n, const uint32_t *path, uint32_t n_path,
                    bool ended)
{
    for (uint32_t i = 0; i < n; i++)
        node[i].outcome = FT_TRACE_UNJUDGED;
    for (uint32_t i = 0; i < n_path; i++)
        node[path[i]].outcome = FT_TRACE_ACCEPTED;
    const int64_t end = !ended ? -2 : n_path > 0 ? (int64_t)path[n_path - 1] : -1;
    for (uint32_t i = 0; i < n; i++) {
        const int32_t parent = node[i].parent;
        bool asked = parent < 0 || node[parent].outcome == FT_TRACE_ACCEPTED;
        if (asked && parent != end && node[i].outcome != FT_TRACE_ACCEPTED)
            node[i].outcome = FT_TRACE_REJECTED;
    }
}

/* ---- the file; on the writing thread ---- */

/* Runs a statement whose values are bound. */
static int insert(ft_trace *t, statement which)
{
    (void)sqlite3_step(t->stmt[which]); /* reset returns its error */
    return sqlite3_reset(t->stmt[which]);
}

static int add_session(ft_trace *t, const ft_trace_session *s)
{
    sqlite3_stmt *stmt = t->stmt[ADD_SESSION];
    sqlite3_bind_int64(stmt, 1, s->id);
    sqlite3_bind_int64(stmt, 2, s->start_us);
    sqlite3_bind_int64(stmt, 3, (int64_t)s->draft);
    sqlite3_bind_int64(stmt, 4, (int64_t)s->target);
    sqlite3_bind_int64(stmt, 5, (int64_t)s->vocab);
    sqlite3_bind_double(stmt, 6, s->temperature);
    sqlite3_bind_int64(stmt, 7, s->top_k);
    sqlite3_bind_double(stmt, 8, s->top_p);
    sqlite3_bind_double(stmt, 9, s->min_p);
    sqlite3_bind_int64(stmt, 10, s->rule);
    return insert(t, ADD_SESSION);
}

static int add_node(ft_trace *t, int64_t round, uint32_t index, const ft_trace_node *node)
{
    sqlite3_stmt *stmt = t->stmt[ADD_NODE];
    bool finite = node->has_features;
    for (int f = 0; f < FT_FEATURES; f++)
        finite = finite && isfinite(node->feature[f]);
    sqlite3_bind_int64(stmt, 1, round);
    sqlite3_bind_int64(stmt, 2, index);
    sqlite3_bind_int(stmt, 3, node->parent);
    sqlite3_bind_int(stmt, 4, node->token);
    sqlite3_bind_int(stmt, 5, node->depth);
    if (node->outcome == FT_TRACE_UNJUDGED)
        sqlite3_bind_null(stmt, 6);
    else
        sqlite3_bind_int(stmt, 6, node->outcome);
    for (int f = 0; f < FT_FEATURES; f++)
        if (finite)
            sqlite3_bind_double(stmt, 7 + f, (double)node->feature[f]);
        else
            sqlite3_bind_null(stmt, 7 + f);
    return insert(t, ADD_NODE);
}

static int add_round(ft_trace *t, const entry *e, const ft_trace_node *node)
{
    const ft_trace_round *r = &e->round;
    const int64_t counts[] = {r->number, r->length, r->depth, r->n, r->accepted};
    const int64_t known[] = {r->next, r->draft_us, r->rtt_us, r->queue_us, r->verify_us};
    sqlite3_stmt *stmt = t->stmt[ADD_ROUND];
    int rc = add_session(t, &e->session), at = 1;
    if (rc != SQLITE_OK)
        return rc;
    sqlite3_bind_int64(stmt, at++, e->session.id);
    for (size_t i = 0; i < FT_COUNT(counts); i++)
        sqlite3_bind_int64(stmt, at++, counts[i]);
    for (size_t i = 0; i < FT_COUNT(known); i++, at++) /* what is not known is NULL */
        if (known[i] < 0)
            sqlite3_bind_null(stmt, at);
        else
            sqlite3_bind_int64(stmt, at, known[i]);
    rc = insert(t, ADD_ROUND);
    const int64_t id = sqlite3_last_insert_rowid(t->db);
    for (uint32_t i = 0; i < r->n && rc == SQLITE_OK; i++)
        rc = add_node(t, id, i, &node[i]);
    return rc;
}

/* Deletes the oldest rounds until `bytes` more fit, or nothing is left to delete. */
static int make_room(ft_trace *t, size_t bytes)
{
    const int64_t need = (int64_t)(GROWTH * bytes / 4096) + SPARE_PAGES;
    int64_t used = 0;
    int before, rc;
    do {
        before = sqlite3_total_changes(t->db);
        rc = ft_trace_db_number(t->db, used_sql, &used);
        if (rc == SQLITE_OK && used + need > t->pages)
            rc = ft_trace_db_run(t->db, delete_oldest_sql);
    } while (rc == SQLITE_OK && sqlite3_total_changes(t->db) != before);
    return rc;
}

static int write_all(ft_trace *t, const buffer *b)
{
    int rc = ft_trace_db_run(t->db, "BEGIN IMMEDIATE");
    if (rc == SQLITE_OK)
        rc = make_room(t, b->n);
    for (size_t at = 0; at < b->n && rc == SQLITE_OK;) {
        const entry *e = (const entry *)(const void *)(b->data + at);
        rc = add_round(t, e, (const ft_trace_node *)(const void *)(e + 1));
        at += sizeof *e + e->round.n * sizeof(ft_trace_node);
    }
    return rc == SQLITE_OK ? ft_trace_db_run(t->db, "COMMIT") : rc;
}

/* Writes the buffer's rounds; returns whether they are in the file. Only the first failure is
 * logged. */
static bool write_buffer(ft_trace *t, const buffer *b)
{
    ft_error err = {0};
    if (write_all(t, b) == SQLITE_OK)
        return true;
    ft_trace_db_fail(t->db, &err);
    if (!t->failed)
        FT_LOGW("learn", "rounds are not recorded: %s", err.message);
    t->failed = true;
    if (!sqlite3_get_autocommit(t->db) && ft_trace_db_run(t->db, "ROLLBACK") != SQLITE_OK)
        FT_LOGD("learn", "rollback failed: %s", sqlite3_errmsg(t->db));
    return false;
}

/* ---- the writing thread ---- */

/* Waits for a batch and takes it. Returns false if the store is being closed and no round is left.
 * Called under the mutex. */
static bool take_batch(ft_trace *t)
{
    while (!t->stop && t->filling.n == 0)
        pthread_cond_wait(&t->wake, &t->mutex);
    const int64_t deadline_us = ft_deadline_us(BATCH_US);
    while (!t->stop && !t->hurry && t->filling.n < t->capacity / 2 &&
           ft_cond_wait_until(&t->wake, &t->mutex, deadline_us)) {
    }
    const buffer empty = {.data = t->writing.data};
    t->writing = t->filling;
    t->filling = empty;
    t->hurry = false;
    t->taken += t->writing.n > 0;
    return t->writing.n > 0;
}

static void *writer_main(void *arg)
{
    ft_trace *t = arg;
    pthread_mutex_lock(&t->mutex);
    while (take_batch(t)) {
        pthread_mutex_unlock(&t->mutex);
        bool written = write_buffer(t, &t->writing);
        pthread_mutex_lock(&t->mutex);
        *(written ? &t->stats.rounds : &t->stats.dropped) += t->writing.rounds;
        t->done++;
        pthread_cond_broadcast(&t->over);
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

/* ---- for everybody ---- */

/* Makes the file smaller if it is larger than is allowed now. */
static int shrink(ft_trace *t)
{
    int64_t pages = 0;
    int rc = ft_trace_db_number(t->db, "PRAGMA page_count", &pages);
    if (rc != SQLITE_OK || pages <= t->pages)
        return rc;
    rc = ft_trace_db_run(t->db, "BEGIN IMMEDIATE");
    if (rc == SQLITE_OK)
        rc = make_room(t, 0);
    return rc == SQLITE_OK ? ft_trace_db_run(t->db, "COMMIT; PRAGMA incremental_vacuum") : rc;
}

static ft_status open_store(ft_trace *t, const ft_trace_opts *opts, ft_error *err)
{
    const uint64_t bytes = opts->max_bytes ? opts->max_bytes : FT_TRACE_DEFAULT_BYTES;
    ft_status status = ft_trace_db_write(opts->path, bytes, err, &t->db, &t->pages);
    for (int i = 0; i < STATEMENTS && status == FT_OK; i++)
        if (sqlite3_prepare_v3(t->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT, &t->stmt[i],
                               NULL) != SQLITE_OK)
            status = ft_trace_db_fail(t->db, err);
    if (status == FT_OK && shrink(t) != SQLITE_OK)
        status = ft_trace_db_fail(t->db, err);
    return status;
}

static void free_trace(ft_trace *t)
{
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(t->stmt[i]);
    sqlite3_close(t->db);
    pthread_cond_destroy(&t->wake);
    pthread_cond_destroy(&t->over);
    pthread_mutex_destroy(&t->mutex);
    free(t->filling.data);
    free(t->writing.data);
    free(t);
}

ft_status ft_trace_open(const ft_trace_opts *opts, ft_error *err, ft_trace **out)
{
    ft_trace *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return ft_error_set(err, FT_NOMEM, "trace: out of memory");
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->wake, NULL);
    pthread_cond_init(&t->over, NULL);
    t->capacity = (opts->memory_bytes ? opts->memory_bytes : DEFAULT_MEMORY) / 2;
    t->filling.data = malloc(t->capacity);
    t->writing.data = malloc(t->capacity);
    ft_status status = t->filling.data && t->writing.data
                           ? open_store(t, opts, err)
                           : ft_error_set(err, FT_NOMEM, "trace: out of memory");
    if (status == FT_OK)
        status = ft_thread_start(writer_main, t, err, &t->thread);
    if (status != FT_OK)
        free_trace(t);
    else
        *out = t;
    return status;
}

void ft_trace_close(ft_trace *trace)
{
    if (!trace)
        return;
    pthread_mutex_lock(&trace->mutex);
    trace->stop = true;
    pthread_cond_signal(&trace->wake);
    pthread_mutex_unlock(&trace->mutex);
    pthread_join(trace->thread, NULL);
    const ft_trace_stats *s = &trace->stats;
    ft_log(s->dropped ? FT_LOG_WARN : FT_LOG_INFO, "learn", "trace rounds=%llu dropped=%llu",
           (unsigned long long)s->rounds, (unsigned long long)s->dropped);
    free_trace(trace);
}

ft_status ft_trace_begin(ft_trace_session *session, ft_error *err)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    session->start_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    return ft_random_bytes(&session->id, sizeof session->id) == FT_OK
               ? FT_OK
               : ft_error_set(err, FT_IO, "trace: the kernel has no random bytes");
}

void ft_trace_add(ft_trace *trace, const ft_trace_session *session, const ft_trace_round *round)
{
    const size_t n = round->n < FT_TRACE_NODES ? round->n : FT_TRACE_NODES;
    const size_t nodes = n * sizeof *round->node, bytes = sizeof(entry) + nodes;
    entry e = {.session = *session, .round = *round};
    e.round.n = (uint32_t)n;
    e.round.node = NULL;
    pthread_mutex_lock(&trace->mutex);
    buffer *b = &trace->filling;
    if (b->n + bytes > trace->capacity) {
        trace->stats.dropped++;
    } else {
        const size_t before = b->n;
        memcpy(b->data + before, &e, sizeof e);
        memcpy(b->data + before + sizeof e, round->node, nodes);
        b->n += bytes;
        b->rounds++;
        /* the first round starts the wait for a batch; half a buffer ends it */
        if (before == 0 || (before < trace->capacity / 2 && b->n >= trace->capacity / 2))
            pthread_cond_signal(&trace->wake);
    }
    pthread_mutex_unlock(&trace->mutex);
}

void ft_trace_flush(ft_trace *trace)
{
    pthread_mutex_lock(&trace->mutex);
    const uint64_t last = trace->taken + (trace->filling.n > 0);
    while (trace->done < last) {
        trace->hurry = true;
        pthread_cond_signal(&trace->wake);
        pthread_cond_wait(&trace->over, &trace->mutex);
    }
    pthread_mutex_unlock(&trace->mutex);
}

ft_trace_stats ft_trace_get_stats(ft_trace *trace)
{
    pthread_mutex_lock(&trace->mutex);
    const ft_trace_stats stats = trace->stats;
    pthread_mutex_unlock(&trace->mutex);
    return stats;
}
