// SPDX-License-Identifier: Apache-2.0
// Does walks in steps. A step chooses rows for all unfinished walks and runs the head for these
// rows. Then workers continue each walk as far as it has logits. The engine's thread owns the
// judge.
//
// Invariant: each run of the head computes, for every unfinished walk, the logits of the node at
// which the walk stands. So each step continues every such walk by at least one node, or ends it.
//
// This file knows no sessions, texts or verdicts.
#include "serve/judge.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/workers.h"
#include "sched/heads.h"

/* Each worker has a workspace of 40 bytes for each token of the vocabulary. One thread takes 15 to
 * 50 ms for 576 draws from a vocabulary of 49,152 tokens. A much larger number of workers would
 * only cost memory. */
#define WORKERS_MAX 16

_Static_assert(FT_TREE_MAX <= FT_HEADS_NODES, "trees must fit");

struct ft_judge {
    ft_judge_opts opts;
    ft_workers *workers;
    ft_rule_work **work; /* [workers] */
    ft_heads heads;
    ft_walk *walks; /* [max_rows] */
    uint32_t n_walks;
    uint32_t *going; /* [max_rows] walks that are not over */
    uint32_t n_going;
    float *reach;   /* [max_rows] how likely each wanted row is needed */
    uint32_t *rows; /* [max_rows] rows to compute in this step */
    ft_judge_stats stats;
};

ft_status ft_judge_create(const ft_judge_opts *opts, ft_error *err, ft_judge **out)
{
    ft_judge *j = calloc(1, sizeof *j);
    *out = NULL;
    if (!j)
        return ft_error_set(err, FT_NOMEM, "serve: out of memory");
    j->opts = *opts;
    ft_heads_init(&j->heads);
    j->walks = calloc(opts->max_rows, sizeof *j->walks);
    j->going = calloc(opts->max_rows, sizeof *j->going);
    j->reach = calloc(opts->max_rows, sizeof *j->reach);
    j->rows = calloc(opts->max_rows, sizeof *j->rows);
    ft_status status = ft_workers_create(opts->n_threads, WORKERS_MAX, err, &j->workers);
    size_t n = status == FT_OK ? (size_t)ft_workers_count(j->workers) : 0;
    j->work = calloc(n + 1, sizeof *j->work);
    if (status == FT_OK && (!j->walks || !j->going || !j->reach || !j->rows || !j->work))
        status = ft_error_set(err, FT_NOMEM, "serve: out of memory for walks");
    uint32_t n_vocab = ft_model_hparams(ft_engine_model(opts->engine))->n_vocab;
    for (size_t i = 0; i < n && status == FT_OK; i++)
        status = ft_rule_work_create(opts->rules ? opts->rules : ft_rules_default, n_vocab, err,
                                     &j->work[i]);
    if (status != FT_OK) {
        ft_judge_destroy(j);
        return status;
    }
    *out = j;
    return FT_OK;
}

void ft_judge_destroy(ft_judge *judge)
{
    ft_judge *j = judge;
    if (!j)
        return;
    for (int i = 0; j->workers && j->work && i < ft_workers_count(j->workers); i++)
        ft_rule_work_destroy(j->work[i]);
    ft_workers_destroy(j->workers);
    free(j->work);
    free(j->walks);
    free(j->going);
    free(j->reach);
    free(j->rows);
    free(j);
}

void ft_judge_clear(ft_judge *judge)
{
    judge->n_walks = 0;
}

ft_walk *ft_judge_add(ft_judge *judge)
{
    assert(judge->n_walks < judge->opts.max_rows);
    ft_walk *w = &judge->walks[judge->n_walks++];
    memset(w, 0, sizeof *w);
    return w;
}

ft_walk *ft_judge_walks(ft_judge *judge, size_t *n)
{
    *n = judge->n_walks;
    return judge->walks;
}

void ft_judge_get_stats(const ft_judge *judge, ft_judge_stats *out)
{
    *out = judge->stats;
}

uint32_t ft_judge_expect(const ft_judge *judge, uint32_t n_nodes)
{
    return ft_heads_expect(&judge->heads, n_nodes);
}

/* ---- a step ---- */

static int32_t node_of(const ft_verified *found, uint32_t i)
{
    return i ? (int32_t)found->path[i - 1] : -1;
}

/* Writes the rows that the head computes next into j->rows. Returns how many there are. */
static uint32_t choose_rows(ft_judge *j)
{
    ft_heads_plan plan = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->n_going; i++) {
        const ft_walk *w = &j->walks[j->going[i]];
        ft_heads_add(&plan, &j->heads, w->draft.tree->parent, w->draft.tree->n,
                     node_of(&w->found, w->found.n_path), j->reach + w->root_row);
    }
    float least = ft_heads_least(&plan, &j->heads);
    for (uint32_t i = 0; i < j->n_going; i++) {
        ft_walk *w = &j->walks[j->going[i]];
        uint32_t before = n;
        for (uint32_t row = w->root_row; row <= w->root_row + w->draft.tree->n; row++)
            if (j->reach[row] >= least)
                j->rows[n++] = row;
        w->n_rows += n - before;
    }
    return n;
}

static ft_status run_head(ft_judge *j, ft_error *err)
{
    uint32_t n = choose_rows(j);
    int64_t from_us = ft_clock_now_us(&j->opts.clock);
    ft_status status = ft_engine_head(j->opts.engine, j->rows, n, err);
    if (status != FT_OK)
        return status;
    int64_t us = ft_clock_now_us(&j->opts.clock) - from_us;
    ft_heads_observe(&j->heads, n, us);
    j->stats.heads++;
    j->stats.rows += n;
    j->stats.head_us += us;
    return FT_OK;
}

typedef struct source {
    const ft_engine *engine;
    uint32_t root_row;
} source;

static const float *logits_of(void *ctx, int32_t node)
{
    const source *s = ctx;
    return ft_engine_logits(s->engine, s->root_row + (uint32_t)(node + 1));
}

/* Continues the walk as far as it has logits. */
static void walk_on(void *ctx, size_t i, int worker)
{
    ft_judge *j = ctx;
    ft_walk *w = &j->walks[j->going[i]];
    source s = {j->opts.engine, w->root_row};
    uint32_t first = w->found.n_path;
    w->over =
        w->rule->walk(w->rule, j->work[worker], &w->draft, (ft_rows){logits_of, &s}, &w->found);
    const uint32_t n = w->found.n_path + (w->over && !w->found.refused);
    for (uint32_t k = first; j->opts.drew && k < n; k++)
        j->opts.drew(w, k, logits_of(&s, node_of(&w->found, k)),
                     k < w->found.n_path ? w->draft.tree->token[w->found.path[k]] : w->found.next);
}

/* ---- all of it ---- */

/* Learns from these walks how far later walks will go. */
static void learn(ft_judge *j)
{
    uint32_t n_nodes = 0;
    for (uint32_t i = 0; i < j->n_walks; i++) {
        const ft_walk *w = &j->walks[i];
        ft_heads_learn(&j->heads, w->draft.tree->parent, w->draft.tree->n, w->found.path,
                       w->found.n_path);
        n_nodes += w->draft.tree->n;
    }
    ft_heads_saw_pass(&j->heads, j->n_walks, n_nodes, j->stats.rows);
}

ft_status ft_judge_run(ft_judge *judge, ft_error *err)
{
    ft_judge *j = judge;
    j->stats = (ft_judge_stats){0};
    for (j->n_going = 0; j->n_going < j->n_walks; j->n_going++)
        j->going[j->n_going] = j->n_going;
    while (j->n_going > 0) {
        ft_status status = run_head(j, err);
        if (status != FT_OK)
            return status;
        ft_workers_run(j->workers, j->n_going, walk_on, j);
        uint32_t n = j->n_going;
        j->n_going = 0;
        for (uint32_t i = 0; i < n; i++)
            if (!j->walks[j->going[i]].over)
                j->going[j->n_going++] = j->going[i];
    }
    learn(j);
    return FT_OK;
}
