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
    /* The time that prompt chunks may add to a forward, as `cost` predicts it. 0: no limit but the
     * rows. Each forward computes at least one row of a prompt, however small the budget is. A
     * budget that is smaller than the time of a pass of one row counts as that time. */
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

/* Chooses the work of the next pass: fills picks (at most n) and returns how many. It never exceeds
 * the limits, and never returns 0 if some work fits alone. It leaves out work that needs more
 * blocks than are free. The caller must make room for all work in turn; otherwise some may never
 * run. */
typedef size_t (*ft_sched_pick)(const ft_work *work, size_t n, const ft_sched_limits *limits,
                                int64_t now_us, ft_pick *picks);

typedef struct ft_sched_policy {
    const char *name;
    ft_sched_pick pick;
    /* When the next pass with verifications may start; n > 0 of them wait, the first one since
     * oldest_us. Until then the caller gives only prompts to `pick`. It asks again at that time, or
     * when one more verification arrives. NULL: they always start at once. */
    int64_t (*start_us)(size_t n, int64_t oldest_us, const ft_sched_limits *limits);
    bool awaits;    /* a pass may wait for drafts that are expected (sched/await.h) */
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

/* First come, first served, fair between tenants. Verifications run first: those of the tenant with
 * the smallest share of recent service, in order of arrival, then those of the next tenant. Prompt
 * chunks follow in the same order, in the room and time that is left: the first prompt takes all
 * that it can use, then the next one. While prompts wait, a part of the rows is reserved for them
 * (a quarter, or the rows that prefill_us allows); only the first verification may use it. So
 * neither kind of work starves the other. */
extern const ft_sched_policy ft_sched_fcfs;

/* Static batching (SLED's server): a pass has static_batch verifications, first come, first served.
 * A pass with fewer starts only when its first verification has waited static_wait_us. */
extern const ft_sched_policy ft_sched_static;

/* Centralized serving: the target decodes without drafts, one token a session in each pass
 * (continuous batching), first come, first served. */
extern const ft_sched_policy ft_sched_centralized;

/* Earliest deadline first. A batch takes all verifications that there is room for. Prompts run as
 * under fcfs. */
extern const ft_sched_policy ft_sched_edf;

/* WISP 4.3, Algorithm 1. The order of verifications is:
 *
 *   1. the one that has waited longest, of those that have waited more than twice their time
 *   2. those that must start now, earliest deadline first
 *   3. those that are already late: first the text that is owed most; a tenant that had less of the
 *      server comes sooner; texts whose promise is lost come last
 *   4. the others, by expected tokens for the time of the pass and by how soon they are due
 *
 * A verification joins the batch only if all that are in it still get their verdicts in time.
 * Those of the last two ranks join only while the pass is short enough for the promised speeds.
 * Prompts run in chunks in the time that is left. A pass may wait for drafts that are expected
 * (sched/await.h). Ranks 1 and 3, the limit on the pass's length and the waiting are not
 * in the paper: with them nothing waits for ever, and late work does not delay other work.
 * Needs limits->cost. */
extern const ft_sched_policy ft_sched_wisp;

/* The free KV blocks that the first n_tok rows of a work need. */
uint32_t ft_work_blocks(const ft_work *work, uint32_t n_tok, uint32_t kv_block_tok);

/* NULL if there is none of that name. */
const ft_sched_policy *ft_sched_find(const char *name);
/* The policy of a server that was asked for none: wisp if it promises speeds, otherwise fcfs. */
const ft_sched_policy *ft_sched_default(bool promises);
#define FT_SCHED_NAMES "fcfs, edf, wisp, static and centralized"

#endif
