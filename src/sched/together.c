// SPDX-License-Identifier: Apache-2.0
// Which drafts of a batch wait for the rest. A draft whose mates were verified without it counts
// them as there: it came late, and nothing is left to wait for. Pure, no state.
#include "sched/together.h"

#include "base/sort.h"

static bool same(const ft_together *a, const ft_together *b)
{
    return a->owner == b->owner && a->batch == b->batch;
}

static bool before(const void *ctx, const void *a, const void *b)
{
    const ft_together *x = a, *y = b;
    (void)ctx;
    if (x->owner != y->owner)
        return x->owner < y->owner;
    return x->batch != y->batch ? x->batch < y->batch : x->index < y->index;
}

/* Decides for one batch, of n drafts. Returns as ft_together_hold. */
static int64_t hold_batch(ft_together *drafts, size_t n, int64_t now_us)
{
    size_t here = 0;
    uint32_t expected = 0;
    int64_t first_us = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const ft_together *d = &drafts[i];
        if (d->expected > expected)
            expected = d->expected;
        if (!d->ready && !d->answered)
            continue;
        here++;
        if (d->arrival_us < first_us)
            first_us = d->arrival_us;
    }
    if (here == 0 || here >= expected || now_us - first_us >= FT_TOGETHER_HOLD_US)
        return -1;
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any |= drafts[i].held = drafts[i].ready;
    return any ? first_us + FT_TOGETHER_HOLD_US - now_us : -1;
}

int64_t ft_together_hold(ft_together *drafts, size_t n, int64_t now_us)
{
    int64_t left_us = -1;
    ft_sort(drafts, n, sizeof *drafts, before, NULL);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && same(&drafts[i], &drafts[end]); end++)
            drafts[end].held = false;
        const int64_t us = hold_batch(drafts + i, end - i, now_us);
        if (us >= 0 && (left_us < 0 || us < left_us))
            left_us = us;
    }
    return left_us;
}
