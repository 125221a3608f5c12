/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries out a plan for many tasks (Zhu et al., II-B): an edge that drafts for all tasks of a
 * batch at once, and a server that verifies them in one pass. The two are a pipeline: while the
 * server verifies one batch, the edge drafts the next one.
 *
 *   edge    | draft 1 | draft 2 | draft 3 | draft 1 | ...
 *   server            | verify 1 | verify 2 | verify 3 | verify 1 | ...
 *
 * The planner (edge/batch_planner.h) says which tasks are a batch and how long drafts are. A task
 * leaves its batch when it is done. What rounds show of times and acceptance goes to the planner,
 * and when that has changed, all tasks that are not done get new batches, those under way too. With
 * rule `exact` each text is what its task alone would get.
 *
 * One thread does everything. Answers go to a journal (edge/batch_journal.h). A lost server is
 * waited for as by any generation.
 */
#ifndef FT_EDGE_BATCH_H
#define FT_EDGE_BATCH_H

#include "base/clock.h"
#include "base/progress.h"
#include "edge/batch_journal.h"
#include "edge/batch_planner.h"
#include "edge/batch_tasks.h"
#include "edge/edge.h"

typedef struct ft_batch_opts {
    ft_edge *edge;         /* its draft is a chain as long as the longest plan's, or none */
    const ft_vocab *vocab; /* everything here is borrowed */
    const ft_tasks *tasks; /* with their tokens */
    ft_journal *journal;
    ft_batch_planner *planner; /* of these tasks; says how many are under way at once, > 0 */
    ft_sampling sampling;      /* of all tasks; each has its own seed */
    ft_clock clock;
    /* Asked often: true ends the batch (FT_CANCELLED), to be resumed. */
    bool (*cancelled)(void *ctx);
    void *ctx;
    ft_progress progress; /* tasks that are done */
} ft_batch_opts;

typedef struct ft_batch_stats {
    uint64_t rounds; /* of batches with drafts: each drafted and sent its drafts once */
    double passes;   /* of the server for them: a batch whose drafts went into two counts two */
    uint64_t joint;  /* drafts that were sent together with others, whose verdicts came */
    uint64_t drafted, accepted, tokens;
    double draft_s, wait_s; /* in the draft model; until verdicts came */
    double verify_s;        /* of the server's passes for all texts, each pass once */
    double planned_s; /* the batch's clock at its end, as the first plan had it; 0: no plan came */
    uint32_t n_anew;  /* how often the rest was planned anew after that */
} ft_batch_stats;

/* Works on all tasks that the journal has not done, until all are done (the caller then finishes
 * the journal) or something fails. Whatever it returns, the journal has all tokens that have come,
 * and *stats is filled. Errors are those of generations and of the journal. */
FT_WARN_UNUSED ft_status ft_batch_run(const ft_batch_opts *opts, ft_error *err,
                                      ft_batch_stats *stats);

#endif
