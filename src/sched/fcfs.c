// SPDX-License-Identifier: Apache-2.0
// First come, first served. Pure; the picks array serves as the only workspace.
//
// Rows come back with every forward, so a verification that finds no room in this batch's rows does
// not keep later, smaller ones out: it is first in the next. Blocks do not come back by themselves:
// once a work that would have fitted alone finds them taken by older work, nothing younger may take
// any.
#include <stdbool.h>

#include "sched/sched.h"

/* Room that is left while the batch is filled in. */
typedef struct room {
    uint32_t rows;    /* for either kind */
    uint32_t prefill; /* of them at most for prompts */
    uint32_t kept;    /* of them not for verifications, but the first */
    uint32_t blocks;
    bool blocks_closed;
} room;

static bool before(const ft_work *work, uint32_t a, uint32_t b)
{
    const ft_work *x = &work[a], *y = &work[b];
    if (x->kind != y->kind)
        return x->kind == FT_WORK_VERIFY;
    if (x->arrival_us != y->arrival_us)
        return x->arrival_us < y->arrival_us;
    return a < b;
}

static void sift_down(const ft_work *work, ft_pick *heap, size_t n, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(work, heap[child].index, heap[child + 1].index))
            child++;
        if (!before(work, heap[i].index, heap[child].index))
            return;
        ft_pick held = heap[i];
        heap[i] = heap[child];
        heap[child] = held;
    }
}

/* Heap sort of all work into picks: in place, and n log n whatever order the caller keeps. */
static void sort(const ft_work *work, size_t n, ft_pick *picks)
{
    for (size_t i = 0; i < n; i++)
        picks[i] = (ft_pick){.index = (uint32_t)i};
    for (size_t i = n / 2; i-- > 0;)
        sift_down(work, picks, n, i);
    for (size_t end = n; end > 1;) {
        ft_pick held = picks[0];
        picks[0] = picks[--end];
        picks[end] = held;
        sift_down(work, picks, end, 0);
    }
}

static bool take_blocks(room *r, uint32_t blocks, uint32_t free_at_start)
{
    if (blocks > 0 && (r->blocks_closed || blocks > r->blocks)) {
        r->blocks_closed |= blocks <= free_at_start;
        return false;
    }
    r->blocks -= blocks;
    return true;
}

/* The longest chunk that rows and blocks allow. */
static uint32_t grant_prefill(const ft_work *w, room *r, const ft_sched_limits *limits)
{
    uint32_t most = r->rows < r->prefill ? r->rows : r->prefill;
    uint32_t n = w->n_tok < most ? w->n_tok : most;
    if (r->blocks_closed && ft_work_blocks(w, n, limits->kv_block_tok) > 0)
        n = 0;
    while (n > 0 && ft_work_blocks(w, n, limits->kv_block_tok) > r->blocks) {
        uint32_t over = (w->n_past + n) % limits->kv_block_tok;
        over = over ? over : limits->kv_block_tok; /* give back the last block's rows */
        n = n > over ? n - over : 0;
    }
    if (n > 0)
        (void)take_blocks(r, ft_work_blocks(w, n, limits->kv_block_tok), limits->kv_blocks_free);
    if (n < w->n_tok && n < most &&
        ft_work_blocks(w, 1, limits->kv_block_tok) <= limits->kv_blocks_free)
        r->blocks_closed = true;
    r->rows -= n;
    r->prefill -= n;
    return n;
}

static size_t pick(const ft_work *work, size_t n, const ft_sched_limits *limits, int64_t now_us,
                   ft_pick *picks)
{
    room r = {.rows = limits->max_rows, .blocks = limits->kv_blocks_free};
    uint64_t prompts = 0;
    size_t n_verify = 0, out = 0;
    (void)now_us; /* who came first does not depend on it */
    for (size_t i = 0; i < n; i++) {
        n_verify += work[i].kind == FT_WORK_VERIFY;
        prompts += work[i].kind == FT_WORK_PREFILL ? work[i].n_tok : 0;
    }
    r.prefill = n_verify ? limits->max_prefill : limits->max_rows;
    r.kept = prompts < r.prefill ? (uint32_t)prompts : r.prefill;
    sort(work, n, picks);
    for (size_t i = 0; i < n; i++) {
        const ft_work *w = &work[picks[i].index];
        uint32_t granted = 0, kept = out == 0 ? 0 : r.kept;
        if (w->kind == FT_WORK_VERIFY) {
            if (w->n_tok + (uint64_t)kept <= r.rows &&
                take_blocks(&r, w->kv_blocks, limits->kv_blocks_free))
                granted = w->n_tok;
            r.rows -= granted;
        } else {
            if (out == 0 && r.prefill == 0) /* verifications wait, but none of them can run */
                r.prefill = 1;
            granted = grant_prefill(w, &r, limits);
        }
        if (granted > 0)
            picks[out++] = (ft_pick){.index = picks[i].index, .n_tok = granted};
    }
    return out;
}

const ft_sched_policy ft_sched_fcfs = {.name = "fcfs", .pick = pick};
