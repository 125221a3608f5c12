/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks down the trees of all sessions in one pass, on several threads. Each walk follows the rule
 * of its text (spec/rule.h). Logits are computed only where walks need them (sched/heads.h). The
 * server and the benchmarks use it. The engine's thread owns the judge. During ft_judge_run,
 * workers read logits and write walks; only one worker at a time writes a walk.
 *
 *   ft_engine_forward_rows -> ft_judge_clear, ft_judge_add... -> ft_judge_run -> the walks' `found`
 */
#ifndef FT_SERVE_JUDGE_H
#define FT_SERVE_JUDGE_H

#include "base/clock.h"
#include "engine/engine.h"
#include "spec/rule.h"

typedef struct ft_judge ft_judge;

/* The walk down one tree. The judge fills in the last three fields. */
typedef struct ft_walk {
    const ft_rule *rule; /* one of ft_judge_opts.rules */
    ft_drafted draft;
    uint32_t root_row; /* the root's index in the pass's wanted rows; node i has root_row + 1 + i */
    void *user;
    uint32_t n_rows; /* rows whose logits were computed for this walk */
    bool over;
    ft_verified found;
} ft_walk;

typedef struct ft_judge_opts {
    ft_engine *engine;           /* borrowed */
    const ft_rule *const *rules; /* ends with NULL; if NULL: ft_rules_default; create borrows it */
    ft_clock clock;    /* times runs of the head; affects which rows a run has, not results */
    uint32_t max_rows; /* the most wanted rows in a pass, and the most walks */
    int n_threads;     /* 0: all cores */
    /* A worker calls this for each token that a walk decides. i: the token's place in the walk,
     * from 0. logits: those of the node before the token. The pointer may be NULL. */
    void (*drew)(ft_walk *walk, uint32_t i, const float *logits, int32_t token);
} ft_judge_opts;

/* Creates a judge without walks. Error: FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_judge_create(const ft_judge_opts *opts, ft_error *err, ft_judge **out);
/* NULL is legal. */
void ft_judge_destroy(ft_judge *judge);

/* Removes all walks. */
void ft_judge_clear(ft_judge *judge);
/* Adds a walk, with all fields 0. There may be at most max_rows walks. The pointer is valid
 * until the next ft_judge_clear. */
ft_walk *ft_judge_add(ft_judge *judge);
/* The walks, in the order in which they were added. */
ft_walk *ft_judge_walks(ft_judge *judge, size_t *n);
/* Does all walks. Allocates no memory. Returns the errors of ft_engine_head. */
FT_WARN_UNUSED ft_status ft_judge_run(ft_judge *judge, ft_error *err);

/* Statistics of the last ft_judge_run. */
typedef struct ft_judge_stats {
    uint32_t heads, rows; /* runs of the head; rows whose logits they computed */
    int64_t head_us;
} ft_judge_stats;
void ft_judge_get_stats(const ft_judge *judge, ft_judge_stats *out);

/* Estimates how many rows of a tree of n_nodes nodes will get logits. The estimate is learnt from
 * recent passes. */
uint32_t ft_judge_expect(const ft_judge *judge, uint32_t n_nodes);

#endif
