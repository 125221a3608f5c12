/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans the batches of ft_batch_run by plan/plan.h: rounds without a barrier, tasks that leave
 * their batch when they are done, inputs that are not padded. The caller tells it what rounds have
 * shown (`known`); when that has changed, what is left is planned again.
 *
 * While the costs of both stations are not known, the first rounds are a trial: batches of 1, 2, 4,
 * ... tasks, with drafts of different lengths, which are as good for the texts as any others and
 * show what passes cost.
 *
 * Plans and estimates are pure functions; the planner keeps its present plan. One thread owns it.
 */
#ifndef FT_EDGE_BATCH_PLANNER_H
#define FT_EDGE_BATCH_PLANNER_H

#include "edge/batch_known.h"
#include "edge/batch_tasks.h"
#include "plan/plan.h"

/* Tasks of a batch at most: one forward of the draft model has a row of each. */
#define FT_BATCH_TASKS_MAX 256

/* X(NAME, "name"). BEST and PAPER as plan/plan.h; STATIC: batches of batch_most tasks (or 8) in the
 * order of the file. */
#define FT_BATCH_ALGORITHM_LIST(X) \
    X(BEST, "best")                \
    X(PAPER, "paper")              \
    X(STATIC, "static")
typedef enum ft_batch_algorithm {
#define X(id, name) FT_BATCH_##id,
    FT_BATCH_ALGORITHM_LIST(X)
#undef X
        FT_BATCH_ALGORITHMS
} ft_batch_algorithm;
extern const char *const ft_batch_algorithm_name[FT_BATCH_ALGORITHMS + 1]; /* ends with NULL */

typedef struct ft_batch_planner_opts {
    const ft_tasks *tasks; /* with their tokens; borrowed */
    uint32_t context;      /* tokens of a text at most */
    ft_batch_algorithm algorithm;
    uint32_t length_least, length_most; /* to FT_PLAN_LENGTH_MAX; 0: no drafts */
    uint32_t batch_most;                /* tasks of a batch at most; 0: the planner decides */
    uint32_t at_once;                   /* tasks under way at most */
    uint64_t kv_tok[FT_STATIONS];       /* of a station's KV, for all of them; 0: not known */
    /* One batch at a time, and while it is drafted for, nothing is verified. `sequence`: batches
     * are chosen for that; otherwise they are those of the pipeline. */
    bool one_at_a_time, sequence;
    const uint32_t *answer_tok; /* [tasks] of each answer, if they are known; NULL: they are not */
    ft_plan_watch watch;
} ft_batch_planner_opts;

/* A task that is not done. */
typedef struct ft_batch_left {
    uint32_t task;
    uint32_t tokens; /* of its answer so far */
    bool open;       /* both stations have its text in their KV */
} ft_batch_left;

/* Batches, in the order in which they go through the stations. */
typedef struct ft_batch_order {
    bool trial;           /* the costs are not known: ft_batch_trial_length says the lengths, and
                             tasks may be left out */
    uint32_t length;      /* tokens drafted for a task in a round; 0: no drafts */
    size_t n;             /* batches */
    const uint32_t *size; /* [n] tasks of each, > 0; to FT_BATCH_TASKS_MAX if there are drafts */
    const uint32_t *task; /* [sum of size] numbers of tasks, batch after batch */
    double left_s;        /* until all of them are done; not of a trial */
} ft_batch_order;

/* Rounds of each batch of a trial, and the length of each round. The first one's pass also reads
 * prompts, so its time tells nothing. */
#define FT_BATCH_TRIAL_ROUNDS 4
uint32_t ft_batch_trial_length(const ft_batch_planner_opts *opts, uint32_t round);

typedef struct ft_batch_planner {
    ft_batch_planner_opts how;
    ft_batch_known *known; /* borrowed */
    ft_batch_facts facts;  /* when the present plan was made */
    ft_plan_shape typical; /* a batch of it */
    uint32_t length;
    uint32_t *size, *task; /* [tasks] the present plan's */
    ft_plan_task *problem; /* [tasks] scratch */
} ft_batch_planner;

/* FT_NOMEM owes nothing. known: filled by the caller, who goes on to do so. */
FT_WARN_UNUSED ft_status ft_batch_planner_init(ft_batch_planner *p,
                                               const ft_batch_planner_opts *opts,
                                               ft_batch_known *known, ft_error *err);
/* All-zero is legal. */
void ft_batch_planner_deinit(ft_batch_planner *p);

/* Whether plans can be made: the costs that they need are known. */
bool ft_batch_planner_knows(const ft_batch_planner *p);

/* Plans these tasks: all of left[0..n), n > 0, each once. *out is borrowed until the next call that
 * plans. FT_INVALID: a task does not fit; FT_NOMEM, FT_CANCELLED. */
FT_WARN_UNUSED ft_status ft_batch_planner_plan(ft_batch_planner *p, const ft_batch_left *left,
                                               size_t n, ft_error *err, ft_batch_order *out);

/* The plan with all its times, for people; owes a deinit. The numbers in plan->order count left[].
 * Errors as above; FT_PRECONDITION: the costs are not known. */
FT_WARN_UNUSED ft_status ft_batch_planner_make(ft_batch_planner *p, const ft_batch_left *left,
                                               size_t n, ft_error *err, ft_batch_plan *plan);

/* Whether so much has changed since the present plan that the rest should be planned anew. n:
 * tasks that are not done. */
bool ft_batch_planner_changed(const ft_batch_planner *p, size_t n);
/* Plans anew, if that is worth changing the batches as they are (`as_is`, whose tasks are those of
 * `left` in the same order). *out: as above; out->n is 0 if they should stay. */
FT_WARN_UNUSED ft_status ft_batch_planner_replan(ft_batch_planner *p, const ft_batch_left *left,
                                                 size_t n, const ft_batch_order *as_is,
                                                 ft_error *err, ft_batch_order *out);

#endif
