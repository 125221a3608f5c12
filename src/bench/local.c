// SPDX-License-Identifier: Apache-2.0
// The measurement of bench local. In each round the prompts are answered in groups; each method
// answers a group in one process, one method behind the other, so that noise hits all alike. From
// round to round another prompt of a group is the first one. One thread, which owns all state.
#include "bench/local.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cpu.h"
#include "bench/child.h"
#include "bench/local_report.h"
#include "bench/local_theirs.h"
#include "model/vocab.h"
#include "template/template.h"

#define ARGS_MAX   40
#define NUMBERS    6
#define NUMBER_SZ  40
#define HOW_SZ     64
#define GROUP_MOST FT_BENCH_LOCAL_ANSWERS
#define START_TOK  2 /* of an answer of which only the first token counts */

/* A group of prompts for one process. */
typedef struct group {
    size_t prompt[GROUP_MOST]; /* [n] in the order of their answers */
    size_t n, round;
} group;

/* ---- our side: the arguments of `run` ---- */

typedef struct arguments {
    const char *arg[ARGS_MAX + 1];
    size_t n;
    char number[NUMBERS][NUMBER_SZ], how[HOW_SZ];
    size_t n_numbers;
} arguments;

static void add(arguments *a, const char *flag, const char *value)
{
    a->arg[a->n++] = flag;
    if (value)
        a->arg[a->n++] = value;
}

static void add_number(arguments *a, const char *flag, double value)
{
    char *text = a->number[a->n_numbers++];
    snprintf(text, NUMBER_SZ, "%.10g", value);
    add(a, flag, text);
}

/* n: tokens of an answer. */
static void arguments_of(const ft_bench_local_opts *o, const ft_bench_local_method *method,
                         const char *prompts, int64_t n, arguments *a)
{
    *a = (arguments){0};
    add(a, "run", NULL);
    add(a, "-m", o->model);
    if (method->kind != FT_BENCH_LOCAL_PLAIN)
        add(a, "-md", o->draft);
    add(a, "--prompts", prompts);
    add_number(a, "-c", (double)o->n_ctx);
    add_number(a, "-n", (double)n);
    add_number(a, "-t", (double)o->n_threads);
    add_number(a, "--seed", (double)o->seed);
    add_number(a, "--temp", o->temp);
    add(a, "--json", NULL);
    snprintf(a->how, sizeof a->how, "%s", method->how);
    for (char *state, *word = strtok_r(a->how, " ", &state); word;
         word = strtok_r(NULL, " ", &state))
        add(a, word, NULL);
}

/* The group's prompts in a file of memory, which the child inherits. -1: there is none. */
static int prompts_file(const ft_bench_local_state *b, const group *g, char path[NUMBER_SZ])
{
    const int fd = memfd_create("prompts", 0);
    bool written = fd >= 0;
    for (size_t i = 0; i < g->n && written; i++) {
        json_t *line = json_pack("{s:s}", "prompt", b->prompts.items[g->prompt[i]].text);
        written = json_dumpfd(line, fd, JSON_COMPACT) == 0 && write(fd, "\n", 1) == 1;
        json_decref(line);
    }
    snprintf(path, NUMBER_SZ, "/proc/self/fd/%d", fd);
    if (written)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* ---- a process ---- */

static int be_theirs(void *ctx, FILE *out)
{
    return ft_bench_local_theirs(ctx, out);
}

/* What one of our processes is to do. */
typedef struct process {
    size_t method;
    const group *g;
    int64_t n;         /* tokens of an answer */
    const char *cache; /* its cache folder */
} process;

static ft_status run_process(const ft_bench_local_state *b, const process *p, ft_error *err,
                             ft_bench_child *child)
{
    arguments a;
    char path[NUMBER_SZ];
    const int fd = prompts_file(b, p->g, path);
    if (fd < 0)
        return ft_error_set(err, FT_IO, "no memory for a file of prompts");
    arguments_of(b->o, &ft_bench_local_methods[p->method], path, p->n, &a);
    const ft_bench_child_opts opts = {.args = a.arg, .cache = p->cache, .stop = b->o->stop};
    const ft_status status = ft_bench_child_run(&opts, err, child);
    close(fd);
    return status;
}

static ft_status run_ours(const ft_bench_local_state *b, size_t m, const group *g, ft_error *err,
                          ft_bench_child *child)
{
    char cache[FT_BENCH_LOCAL_CACHE_PATH];
    ft_bench_local_cache_path(&b->cache, m, cache);
    return run_process(b, &(process){m, g, b->o->n, cache}, err, child);
}

static ft_status run_theirs(const ft_bench_local_state *b, size_t m, const group *g, ft_error *err,
                            ft_bench_child *child)
{
    const ft_tokens *prompts[GROUP_MOST];
    for (size_t i = 0; i < g->n; i++)
        prompts[i] = &b->tokens[g->prompt[i]];
    ft_bench_local_theirs_opts theirs = {.model = b->o->model,
                                         .draft = b->o->draft,
                                         .method = &ft_bench_local_methods[m],
                                         .prompts = prompts,
                                         .n_prompts = g->n,
                                         .n = (uint32_t)b->o->n,
                                         .n_ctx = (uint32_t)b->o->n_ctx,
                                         .n_threads = (int)b->o->n_threads,
                                         .temperature = b->o->temp,
                                         .seed = (uint32_t)b->o->seed};
    const ft_bench_child_opts opts = {.call = be_theirs, .ctx = &theirs, .stop = b->o->stop};
    return ft_bench_child_run(&opts, err, child);
}

/* Keeps an answer, and its text: one that is there already must be the same. FT_CORRUPT. */
static ft_status keep(ft_bench_local_state *b, size_t m, const group *g, size_t i, const json_t *o,
                      ft_error *err)
{
    ft_bench_local_answer *a = ft_bench_local_at(&b->table, m, g->prompt[i], g->round);
    char **text = &b->texts[m * b->prompts.n + g->prompt[i]];
    const char *now = json_string_value(json_object_get(o, "text"));
    const double per_s = json_number_value(json_object_get(o, "tokens_per_s"));
    if (!now)
        return ft_error_set(err, FT_CORRUPT, "a child told of fewer answers than prompts");
    *a = (ft_bench_local_answer){
        .known = per_s > 0,
        .first = i == 0,
        .next = i == 0 && b->cells[m].answered,
        .ms_per_token = per_s > 0 ? 1e3 / per_s : 0,
        .ttft_ms = json_number_value(json_object_get(o, "ttft_ms")),
        .start_ms = json_number_value(json_object_get(o, "start_ms")),
        .rounds = json_number_value(json_object_get(o, "rounds")),
        .drafted = json_number_value(json_object_get(o, "drafted")),
        .accepted = json_number_value(json_object_get(o, "accepted")),
    };
    a->round_tokens = a->rounds * json_number_value(json_object_get(o, "tokens_per_round"));
    if (*text)
        b->cells[m].differs |= strcmp(*text, now) != 0;
    else if (!(*text = strdup(now)))
        return ft_error_set(err, FT_NOMEM, "out of memory");
    return FT_OK;
}

/* A method that fails has no figures, not those of its earlier answers either. */
static void drop(ft_bench_local_state *b, size_t m)
{
    const size_t n = b->prompts.n, answers = n * b->table.n_rounds;
    memset(ft_bench_local_at(&b->table, m, 0, 0), 0, answers * sizeof *b->table.answers);
    for (size_t p = 0; p < n; p++) {
        free(b->texts[m * n + p]);
        b->texts[m * n + p] = NULL;
    }
}

/* One method answers a group. One that fails is not run again: `why` says what it said.
 * FT_CANCELLED only. */
static ft_status answer_group(ft_bench_local_state *b, size_t m, const group *g, ft_error *err)
{
    ft_bench_child child;
    ft_error said = {0};
    ft_bench_local_cell *cell = &b->cells[m];
    if (cell->why[0])
        return FT_OK;
    ft_status status = ft_bench_local_is_theirs(m) ? run_theirs(b, m, g, &said, &child)
                                                   : run_ours(b, m, g, &said, &child);
    for (size_t i = 0; i < g->n && status == FT_OK; i++)
        status = keep(b, m, g, i, json_array_get(json_object_get(child.json, "answers"), i), &said);
    json_decref(child.json);
    if (status == FT_CANCELLED)
        return ft_error_set(err, FT_CANCELLED, "stopped");
    cell->answered = true;
    if (status != FT_OK) {
        snprintf(cell->why, sizeof cell->why, "%s", said.message);
        drop(b, m);
    }
    return FT_OK;
}

static ft_status measure(ft_bench_local_state *b, ft_error *err)
{
    const size_t most = (size_t)b->o->answers, n = b->prompts.n, rounds = b->table.n_rounds;
    const size_t all = rounds * ((n + most - 1) / most) * ft_bench_n_local_methods;
    ft_status status = FT_OK;
    size_t done = 0;
    for (size_t r = 0; r < rounds; r++)
        for (size_t at = 0; at < n; at += most) {
            group g = {.n = n - at < most ? n - at : most, .round = r};
            for (size_t i = 0; i < g.n; i++)
                g.prompt[i] = at + (i + r) % g.n;
            for (size_t m = 0; m < ft_bench_n_local_methods; m++) {
                ft_progress_report(&b->o->progress, done++, all);
                if (b->o->method[m] && status == FT_OK)
                    status = answer_group(b, m, &g, err);
            }
        }
    ft_progress_report(&b->o->progress, all, all);
    return status;
}

/* ---- starts ---- */

/* The second process finds what the first one has left in an empty cache folder: packed weights,
 * times of passes, what is learnt. */
static ft_status start_twice(ft_bench_local_state *b, size_t m, size_t round, ft_error *err)
{
    const group g = {.prompt = {round % b->prompts.n}, .n = 1};
    char path[FT_BENCH_LOCAL_CACHE_PATH];
    ft_bench_local_cache cache;
    ft_status status = ft_bench_local_cache_make(&cache, 1, err);
    ft_bench_local_cache_path(&cache, 0, path);
    for (size_t i = 0; i < FT_BENCH_LOCAL_STARTS && status == FT_OK; i++) {
        ft_bench_child child;
        status = run_process(b, &(process){m, &g, START_TOK, path}, err, &child);
        const json_t *answers = json_object_get(child.json, "answers");
        const json_t *ms = json_object_get(json_array_get(answers, 0), "start_ms");
        b->start_ms[i][round] = json_number_value(ms);
        json_decref(child.json);
    }
    ft_bench_local_cache_remove(&cache);
    return status;
}

/* Of the default method, if it is measured and works. */
static ft_status measure_starts(ft_bench_local_state *b, ft_error *err)
{
    ft_status status = FT_OK;
    size_t m = 0;
    while (ft_bench_local_methods[m].kind != FT_BENCH_LOCAL_DEFAULT)
        m++;
    if (!b->o->method[m] || b->cells[m].why[0])
        return FT_OK;
    for (size_t r = 0; r < b->table.n_rounds && status == FT_OK; r++)
        status = start_twice(b, m, r, err);
    return status;
}

/* ---- before and after ---- */

/* The prompts in tokens, as `run` makes them, so that no method of theirs does it in its time. */
static ft_status tokenize(ft_bench_local_state *b, ft_error *err)
{
    ft_vocab *vocab = NULL;
    ft_status status = ft_vocab_load(b->o->model, err, &vocab);
    for (size_t i = 0; i < b->prompts.n && status == FT_OK; i++) {
        const char *text = b->prompts.items[i].text;
        status = ft_template_ask(vocab, text, err, &b->tokens[i]);
        if (status == FT_UNSUPPORTED) /* no template */
            status = ft_vocab_tokenize(vocab, text, strlen(text), NULL, err, &b->tokens[i]);
    }
    ft_vocab_destroy(vocab);
    return status;
}

static ft_status prepare(ft_bench_local_state *b, ft_error *err)
{
    const ft_bench_local_opts *o = b->o;
    ft_status status = ft_bench_prompts_load(o->prompts, 0, err, &b->prompts);
    if (status == FT_OK)
        status = ft_bench_prompts_keep(&b->prompts, o->categories, (size_t)o->limit, err);
    if (status != FT_OK)
        return status;
    const size_t n = b->prompts.n;
    b->table = (ft_bench_local_table){ft_bench_n_local_methods, n, (size_t)o->rounds, NULL};
    b->table.answers =
        calloc(ft_bench_n_local_methods * n * b->table.n_rounds, sizeof *b->table.answers);
    b->texts = calloc(ft_bench_n_local_methods * n, sizeof *b->texts);
    b->tokens = calloc(n, sizeof *b->tokens);
    if (!b->table.answers || !b->texts || !b->tokens)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    status = ft_bench_local_cache_make(&b->cache, ft_bench_n_local_methods, err);
    return status == FT_OK ? tokenize(b, err) : status;
}

ft_status ft_bench_local(const ft_bench_local_opts *opts, ft_error *err, json_t **report)
{
    ft_bench_local_state b = {.o = opts};
    *report = NULL;
    ft_status status = prepare(&b, err);
    if (status == FT_OK)
        status = measure(&b, err);
    if (status == FT_OK)
        status = measure_starts(&b, err);
    if (status == FT_OK)
        *report = ft_bench_local_report(&b);
    for (size_t i = 0; b.texts && i < ft_bench_n_local_methods * b.prompts.n; i++)
        free(b.texts[i]);
    for (size_t i = 0; b.tokens && i < b.prompts.n; i++)
        ft_tokens_deinit(&b.tokens[i]);
    free(b.texts);
    free(b.tokens);
    free(b.table.answers);
    ft_bench_local_cache_remove(&b.cache);
    ft_bench_prompts_deinit(&b.prompts);
    return status;
}
