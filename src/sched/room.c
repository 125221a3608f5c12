// SPDX-License-Identifier: Apache-2.0
// How policies fill a batch: one work after another in the order that the policy wants.
//
// A verification that finds too few rows in this batch does not keep smaller ones out that come
// later: all rows are free again in the next pass, and it will be the first there. Blocks do not
// become free by themselves. So as soon as work finds too few blocks, and would have fitted alone,
// no other work of this batch may take any. Pure.
#include "sched/room.h"

#include "sched/tuning.h"

static bool take_blocks(ft_room *r, uint32_t blocks, uint32_t free_at_start)
{
    if (blocks > 0 && (r->blocks_closed || blocks > r->blocks)) {
        r->blocks_closed |= blocks <= free_at_start;
        return false;
    }
    r->blocks -= blocks;
    return true;
}

/* The time that prompts may add to `pass`. In a pass without other work it must also cover the
 * fixed cost. So there it is at least the time of two passes of one row. */
static int64_t prefill_budget_us(const ft_sched_limits *limits, const ft_pass *pass,
                                 uint32_t n_past)
{
    const ft_pass one = ft_pass_plus((ft_pass){0}, n_past, 1, 0);
    int64_t least_us = ft_cost_predict(limits->cost, &one) * (pass->rows == 0 ? 2 : 1);
    return limits->prefill_us > least_us ? limits->prefill_us : least_us;
}

/* The longest chunk of a prompt that the time allows. */
static uint32_t rows_in_time(const ft_work *w, ft_room *r, const ft_sched_limits *limits)
{
    uint32_t most = w->n_tok < r->rows ? w->n_tok : r->rows;
    if (limits->prefill_us == 0 && r->latest_us == INT64_MAX)
        return most;
    int64_t now_us = ft_cost_predict(limits->cost, &r->pass), until_us = r->latest_us;
    if (r->until_us < 0 && limits->prefill_us > 0)
        r->until_us = now_us + prefill_budget_us(limits, &r->pass, w->n_past);
    if (limits->prefill_us > 0 && r->until_us < until_us)
        until_us = r->until_us;
    uint32_t n = ft_cost_rows(limits->cost, &r->pass, w->n_past, most, until_us - now_us);
    return n == 0 && !r->prompt_runs && most > 0 ? 1 : n;
}

/* The longest chunk that rows, time and blocks allow. */
static uint32_t grant_prefill(const ft_work *w, ft_room *r, const ft_sched_limits *limits)
{
    uint32_t most = rows_in_time(w, r, limits), n = most;
    if (r->blocks_closed && ft_work_blocks(w, n, limits->kv_block_tok) > 0)
        n = 0;
    while (n > 0 && ft_work_blocks(w, n, limits->kv_block_tok) > r->blocks) {
        uint32_t over = (w->n_past + n) % limits->kv_block_tok;
        over = over ? over : limits->kv_block_tok; /* give back the last block's rows */
        n = n > over ? n - over : 0;
    }
    if (n > 0)
        (void)take_blocks(r, ft_work_blocks(w, n, limits->kv_block_tok), limits->kv_blocks_free);
    if (n < most && ft_work_blocks(w, 1, limits->kv_block_tok) <= limits->kv_blocks_free)
        r->blocks_closed = true;
    r->prompt_runs |= n > 0;
    return n;
}

static uint32_t grant_verify(const ft_work *w, ft_room *r, const ft_sched_limits *limits,
                             bool first)
{
    uint64_t rows = w->n_tok + (uint64_t)(first ? 0 : r->kept);
    if (r->verifications == 0 || rows > r->rows ||
        !take_blocks(r, w->kv_blocks, limits->kv_blocks_free))
        return 0;
    r->verifications--;
    return w->n_tok;
}

/* Rows that verifications leave to the prompts that wait. */
static uint32_t kept_rows(const ft_work *work, size_t n, const ft_sched_limits *limits)
{
    uint64_t prompts = 0;
    const ft_work *oldest = NULL;
    for (size_t i = 0; i < n; i++) {
        if (work[i].kind != FT_WORK_PREFILL)
            continue;
        prompts += work[i].n_tok;
        if (!oldest || work[i].arrival_us < oldest->arrival_us)
            oldest = &work[i];
    }
    const uint32_t part = ft_sched_tune->batch.prompt_part;
    uint32_t kept = (limits->max_rows + part - 1) / part;
    if (oldest && limits->prefill_us > 0) {
        const ft_pass some = {.rows = 1};
        int64_t us = prefill_budget_us(limits, &some, oldest->n_past);
        uint32_t n_tok = ft_cost_rows(limits->cost, &some, oldest->n_past, kept, us);
        kept = n_tok ? n_tok : 1;
    }
    return prompts < kept ? (uint32_t)prompts : kept;
}

ft_room ft_room_of(const ft_work *work, size_t n, const ft_sched_limits *limits)
{
    return (ft_room){.rows = limits->max_rows,
                     .kept = kept_rows(work, n, limits),
                     .verifications = limits->max_verify ? limits->max_verify : UINT32_MAX,
                     .blocks = limits->kv_blocks_free,
                     .until_us = -1,
                     .latest_us = INT64_MAX};
}

uint32_t ft_room_grant(ft_room *room, const ft_work *w, const ft_sched_limits *limits)
{
    bool first = room->pass.rows == 0;
    uint32_t n = w->kind == FT_WORK_VERIFY ? grant_verify(w, room, limits, first)
                                           : grant_prefill(w, room, limits);
    room->rows -= n;
    room->pass =
        ft_pass_plus(room->pass, w->n_past, n, w->kind == FT_WORK_VERIFY && n > 0 ? w->n_out : 0);
    return n;
}
