/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks down the trees of one pass, of all its sessions together: logits by need (sched/heads.h), tokens
 * drawn by rule `exact` on several threads. Used by the server and by what measures it. Owned by the
 * engine's thread; while it runs, its workers read logits and write one walk each.
 *
 *   ft_engine_forward_rows -> ft_judge_clear, ft_judge_add... -> ft_judge_run -> the walks' `found`
 */
#ifndef FT_SERVE_JUDGE_H
#define FT_SERVE_JUDGE_H

#include "base/clock.h"
#include "engine/engine.h"
#include "spec/verify.h"

typedef struct ft_judge ft_judge;

/* One tree's. The last three are not the caller's to fill in. */
typedef struct ft_walk {
    const ft_tree *tree; /* borrowed, as the sampling */
    const ft_sampling *sampling;
    uint32_t position; /* of the first drafted token in the text */
    uint32_t root_row; /* the root's among the pass's wanted rows; node i's is root_row + 1 + i */
    void *user;
    uint32_t n_rows; /* whose logits were computed for it */
    bool over;
    ft_verified found;
} ft_walk;

typedef struct ft_judge_opts {
    ft_engine *engine; /* borrowed */
    ft_clock clock;    /* times runs of the head, which decides what is run when and nothing else */
    uint32_t max_rows; /* wanted in a pass, at most; also the most walks */
    int n_threads;     /* 0: all cores */
    /* Each token that a walk draws, the i-th of it, from these logits. NULL: nobody is told. A worker. */
    void (*drew)(ft_walk *walk, uint32_t i, const float *logits, int32_t token);
} ft_judge_opts;

/* FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_judge_create(const ft_judge_opts *opts, ft_error *err, ft_judge **out);
/* NULL is legal. */
void ft_judge_destroy(ft_judge *judge);

/* No walks. */
void ft_judge_clear(ft_judge *judge);
/* One more, all-zero; there is room for max_rows. Borrowed until the next clear. */
ft_walk *ft_judge_add(ft_judge *judge);
/* The walks, in the order in which they were added. */
ft_walk *ft_judge_walks(ft_judge *judge, size_t *n);
/* Walks to the end. No allocation. A failure is ft_engine_head's. */
FT_WARN_UNUSED ft_status ft_judge_run(ft_judge *judge, ft_error *err);

/* Of the last run. */
typedef struct ft_judge_stats {
    uint32_t heads, rows; /* runs of the head; rows whose logits were computed */
    int64_t head_us;
} ft_judge_stats;
void ft_judge_get_stats(const ft_judge *judge, ft_judge_stats *out);

/* How many rows a tree of so many nodes will get logits for, by the recent runs. */
uint32_t ft_judge_expect(const ft_judge *judge, uint32_t n_nodes);

#endif
