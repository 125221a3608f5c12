/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries out a plan for many tasks (Zhu et al., II-B): an edge that drafts for all tasks of a
 * batch at once, and a server that verifies them in one pass. The two are a pipeline: while the
 * server verifies one batch, the edge drafts the next one.
 *
 *   edge    | draft 1 | draft 2 | draft 3 | draft 1 | ...
 *   server            | verify 1 | verify 2 | verify 3 | verify 1 | ...
 *
 * A batch stays together until its last task ends; the others of it leave before. With rule `exact`
 * each text is what its task alone would get.
 *
 * One thread does everything. Answers go to a journal (edge/batch_journal.h). A lost server is
 * waited for as by any generation.
 */
#ifndef FT_EDGE_BATCH_H
#define FT_EDGE_BATCH_H

#include "base/clock.h"
#include "base/progress.h"
#include "edge/batch_journal.h"
#include "edge/batch_tasks.h"
#include "edge/edge.h"

/* Tasks of a batch at most: one forward of the draft model has a row of each. */
#define FT_BATCH_TASKS_MAX 256

/* What a planner makes: batches, in the order in which they begin. src/plan may know much more. */
typedef struct ft_batch_order {
    uint32_t length;      /* tokens drafted for a task in a round; 0: no drafts */
    size_t n;             /* batches */
    const uint32_t *size; /* [n] tasks of each, 1 to FT_BATCH_TASKS_MAX */
    const uint32_t *task; /* [sum of size] numbers of tasks, batch after batch */
} ft_batch_order;

typedef struct ft_batch_planner {
    void *ctx;
    /* Plans tasks that have been released and are in no plan yet: all of task[0..n), each once.
     * *out is borrowed until the next call. FT_NOMEM. */
    ft_status (*plan)(void *ctx, const uint32_t *task, size_t n, ft_error *err,
                      ft_batch_order *out);
} ft_batch_planner;

typedef struct ft_batch_opts {
    ft_edge *edge;         /* its draft is a chain as long as the longest plan's, or none */
    const ft_vocab *vocab; /* everything here is borrowed */
    const ft_tasks *tasks; /* with their tokens */
    ft_journal *journal;
    ft_batch_planner planner;
    ft_sampling sampling; /* of all tasks; each has its own seed */
    uint32_t at_once;     /* tasks whose texts are under way at most, > 0 */
    uint32_t kv_tok;      /* tokens of the draft model's KV for them all; 0: no limit */
    ft_clock clock;
    /* Asked often: true ends the batch (FT_CANCELLED), to be resumed. */
    bool (*cancelled)(void *ctx);
    void *ctx;
    ft_progress progress; /* tasks that are done */
} ft_batch_opts;

typedef struct ft_batch_stats {
    uint64_t rounds; /* of batches: each drafted and sent its drafts once */
    double passes;   /* of the server for them; a pass that took half of a batch counts half */
    uint64_t joint;  /* drafts that were sent together with others, whose verdicts came */
    uint64_t drafted, accepted, tokens;
    double draft_s, wait_s; /* in the draft model; until verdicts came */
    double verify_s;        /* of those passes */
} ft_batch_stats;

/* Works on all tasks that the journal has not done, until all are done (the caller then finishes
 * the journal) or something fails. Whatever it returns, the journal has all tokens that have come,
 * and *stats is filled. Errors are those of generations and of the journal. */
FT_WARN_UNUSED ft_status ft_batch_run(const ft_batch_opts *opts, ft_error *err,
                                      ft_batch_stats *stats);

#endif
