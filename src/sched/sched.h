/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies: they choose the work of the next forward pass from state and the time. Pure; no thread,
 * socket or clock. The server and the simulator call the same functions.
 */
#ifndef FT_SCHED_SCHED_H
#define FT_SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/known.h"
#include "sched/cost.h"

typedef enum ft_work_kind {
    FT_WORK_PREFILL, /* may be split: any number of its tokens, in order */
    FT_WORK_VERIFY   /* all or nothing */
} ft_work_kind;

typedef struct ft_work {
    uint64_t id; /* the caller's */
    ft_work_kind kind;
    int64_t arrival_us;
    uint32_t n_tok;     /* rows: tree nodes and root, or prompt tokens left */
    uint32_t n_out;     /* of them with logits */
    uint32_t n_past;    /* tokens already in KV */
    uint32_t kv_blocks; /* free blocks that all its rows need */
    /* For policies that know deadlines: */
    ft_known_us deadline; /* when its verdict is due (WISP eq. (12)). Unknown: no promise, which
                           * counts as due patience_us (sched/tuning.h) after its arrival */
    int64_t even_us;      /* with a deadline: a verdict by then keeps the text's speed */
    int64_t owed_us;      /* with a deadline: when its text needs its next token; may be past */
    float tokens_per_s;   /* promised to its text; 0: no promise */
    bool edge_drafts;     /* its edge drafts between rounds: a round then waits for two passes */
    float gain_tok;       /* text that a verification is expected to bring (WISP eq. (5)), > 0 */
    float share;          /* of the server's recent service that its tenant had, 0 to 1 */
} ft_work;

typedef struct ft_sched_limits {
    uint32_t max_rows;   /* of one forward */
    uint32_t max_verify; /* verifications of one forward; 0: any number */
    /* Time that prompt chunks may add to a forward, as `cost` predicts it; 0: as long as there are
     * rows. Prompts go on at any budget, by one row a forward at least. A budget below what a pass
     * of one row takes counts as that: no order of service could delay a round less. */
    int64_t prefill_us;
    const ft_cost *cost; /* borrowed; not NULL unless prefill_us is 0 */
    uint32_t kv_blocks_free;
    uint32_t kv_block_tok; /* tokens a block, > 0 */
    int64_t guard_us;      /* time by which deadlines are kept early (WISP's delta, eq. (17)) */
    /* Of policy static: verifications of a pass, > 0, and how long the first waits for the
     * others. */
    uint32_t static_batch;
    int64_t static_wait_us;
} ft_sched_limits;

typedef struct ft_pick {
    uint32_t index; /* into work */
    uint32_t n_tok; /* rows granted */
} ft_pick;

/* Fills picks (at most n), returns how many. Never exceeds the limits; never returns 0 if some work
 * fits alone. Work that needs more blocks than are free is left out. The caller must make room at
 * least for the oldest work, or that waits for ever. */
typedef size_t (*ft_sched_pick)(const ft_work *work, size_t n, const ft_sched_limits *limits,
                                int64_t now_us, ft_pick *picks);

typedef struct ft_sched_policy {
    const char *name;
    ft_sched_pick pick;
    /* When verifications may start: n > 0 wait, the first since oldest_us. Until then the caller
     * gives `pick` only prompts, and asks again at that time or when one more arrives. NULL: they
     * always start at once. */
    int64_t (*start_us)(size_t n, int64_t oldest_us, const ft_sched_limits *limits);
    bool prices;    /* edges are told the price of a row (sched/price.h), and draft less for it */
    bool no_drafts; /* edges' trees are not verified: the target decodes by itself */
} ft_sched_policy;

/* Verifications that wait, for a policy that may hold a pass back. All-zero: none. */
typedef struct ft_hold {
    size_t n;
    int64_t oldest_us; /* arrival */
} ft_hold;
void ft_hold_add(ft_hold *hold, int64_t arrival_us);
/* For how long from now the policy holds them back; 0: not at all, or there are none. */
int64_t ft_hold_left_us(const ft_hold *hold, const ft_sched_policy *policy,
                        const ft_sched_limits *limits, int64_t now_us);

/* First come, first served: verifications in order of arrival, then prompt chunks in order of
 * arrival in what room and time is left: the oldest prompt takes all that it can use, then the
 * next. A part of the rows (a quarter, or what prefill_us buys) is kept for waiting prompts beside
 * all verifications but the first, so that neither starves the other. */
extern const ft_sched_policy ft_sched_fcfs;

/* Static batching (SLED's server): a pass verifies static_batch, first come, first served; one with
 * fewer runs only when the first of them has waited static_wait_us. */
extern const ft_sched_policy ft_sched_static;

/* Centralized serving: continuous batching of the target's own decoding, a token a session a pass,
 * first come, first served. */
extern const ft_sched_policy ft_sched_centralized;

/* Earliest deadline first, in as large batches as there is room for; prompts as fcfs has them. */
extern const ft_sched_policy ft_sched_edf;

/* WISP 4.3, Algorithm 1: verifications that must start now, by earliest deadline, then the others
 * by what they bring for their time and how soon they are due, as long as all that are in the batch
 * get their verdicts in time; prompts in chunks in what time is left. Where the listing is silent
 * or would hurt: what cannot be in time any more runs behind what must start now, unless it would
 * make that late, who is owed most first, tenants that had less sooner; texts whose promise is lost
 * come last; the one that has waited longest beyond twice its time goes before everything. So
 * nothing waits for ever, and nothing late holds others up. What need not start now only makes a
 * pass so long as lets the promised speeds be kept at all. Needs limits->cost. */
extern const ft_sched_policy ft_sched_wisp;

/* Blocks that the first n_tok rows of a work need. */
uint32_t ft_work_blocks(const ft_work *work, uint32_t n_tok, uint32_t kv_block_tok);

/* NULL if there is none of that name. */
const ft_sched_policy *ft_sched_find(const char *name);
#define FT_SCHED_NAMES "fcfs, edf, wisp, static and centralized"

#endif
