// SPDX-License-Identifier: Apache-2.0
// Puts verdicts of one pass together. A server computes one pass at a time. So verdicts of two
// passes come at least the second one's time apart, but for what the network changes; and to the
// microsecond two passes seldom take the same time. Pure.
#include "edge/batch_passes.h"

#include <string.h>

static bool same_pass(const ft_batch_pass *a, const ft_batch_pass *b)
{
    const int64_t apart_us = a->came_us - b->came_us;
    return a->us == b->us && (apart_us < 0 ? -apart_us : apart_us) < a->us;
}

static void drop(ft_batch_passes *p, size_t i)
{
    p->n--;
    memmove(&p->open[i], &p->open[i + 1], (p->n - i) * sizeof *p->open);
}

bool ft_batch_passes_heard(ft_batch_passes *p, const ft_batch_pass *verdict)
{
    for (size_t i = 0; i < p->n; i++) {
        ft_batch_pass *it = &p->open[i];
        if (!same_pass(it, verdict))
            continue;
        it->pass = ft_pass_sum(it->pass, verdict->pass);
        it->mixed |= verdict->mixed;
        it->grew = true;
        return false;
    }
    if (p->n == FT_BATCH_PASSES_OPEN)
        drop(p, 0);
    p->open[p->n] = *verdict;
    p->open[p->n++].grew = true;
    p->n_seen++;
    p->sum_s += (double)verdict->us * 1e-6;
    return true;
}

bool ft_batch_passes_take(ft_batch_passes *p, ft_batch_pass *out)
{
    for (size_t i = 0; i < p->n; i++)
        if (!p->open[i].grew) {
            *out = p->open[i];
            drop(p, i);
            return true;
        }
    for (size_t i = 0; i < p->n; i++)
        p->open[i].grew = false;
    return false;
}
