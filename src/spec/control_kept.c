// SPDX-License-Identifier: Apache-2.0
// A controller's knowledge as numbers. Kept: what models and machine take, and how much is
// accepted. Not kept: what concerns this hour alone, such as other sessions, a row's price and the
// load. Pure.
#include "spec/control_kept.h"

#include <math.h>
#include <stddef.h>

#include "spec/control_model.h"
#include "spec/tree.h"
#include "spec/tuning.h"

#define TIMES (ft_spec_tune->times)
#define TRIES (ft_spec_tune->tries)

typedef struct number {
    size_t at;
    double least, most;
    bool sum; /* fades: it counts for less than what is measured now */
} number;

#define LONGEST_US 3.6e9 /* an hour */

/* What may have changed of a slope between two processes: a share of what is not known of a new
 * one. Its deviation is a quarter of that one's. */
#define SINCE (1.0 / 16)

#define TIME(field)                                       \
    {                                                     \
        offsetof(ft_control, field), 0, LONGEST_US, false \
    }
#define SUM(field)                                \
    {                                             \
        offsetof(ft_control, field), 0, 1e6, true \
    }
#define RANGE(field, low, high)                       \
    {                                                 \
        offsetof(ft_control, field), low, high, false \
    }

static const number numbers[FT_CONTROL_KEPT] = {
    RANGE(draft.x, 0, FT_TREE_MAX),
    TIME(draft.y),
    TIME(draft.slope),
    RANGE(verify.x, 0, FT_TREE_MAX),
    TIME(verify.y),
    TIME(verify.slope),
    RANGE(forwards, 0.01, 2),
    TIME(rtt_us),
    TIME(queue_us),
    TIME(run_us),
    TIME(run_hint_us),
    SUM(missed),
    SUM(levels),
    SUM(trees.n),
    SUM(trees.nodes),
    SUM(trees.levels),
    SUM(trees.path),
    RANGE(draft.doubt, 0, 1),
    RANGE(verify.doubt, 0, 1),
};

static double *number_of(ft_control *c, const number *n)
{
    return (double *)((char *)c + n->at);
}

bool ft_control_keep(const ft_control *c, double out[FT_CONTROL_KEPT])
{
    ft_control copy = *c;
    if (c->draft.n == 0 || c->verify.n == 0 || c->trees.n <= 0)
        return false;
    for (size_t i = 0; i < FT_CONTROL_KEPT; i++)
        out[i] = *number_of(&copy, &numbers[i]);
    return true;
}

static bool is_legal(const ft_control *c)
{
    return c->draft.y > 0 && c->verify.y > 0 && c->levels > 0 && c->trees.n > 0 &&
           c->missed <= c->levels;
}

/* Of a slope, when another process begins with it: less sure than it was, but not as if nothing
 * were known. */
static double doubt_now(double doubt)
{
    const double most = TIMES.slope_doubt * TIMES.slope_doubt;
    return fmin(doubt + SINCE * most, most);
}

bool ft_control_take_up(ft_control *c, const double in[FT_CONTROL_KEPT])
{
    ft_control next = *c;
    for (size_t i = 0; i < FT_CONTROL_KEPT; i++) {
        const number *n = &numbers[i];
        if (!(in[i] >= n->least && in[i] <= n->most)) /* a NaN neither */
            return false;
        *number_of(&next, n) = n->sum ? in[i] * TRIES.kept : in[i];
    }
    if (!is_legal(&next))
        return false;
    next.draft.n = next.verify.n = 2; /* as much as two measurements: the next one counts a third */
    next.draft.doubt = doubt_now(next.draft.doubt);
    next.verify.doubt = doubt_now(next.verify.doubt);
    next.running = true; /* so a tree is tried at once if the estimates say that none pays */
    *c = next;
    return true;
}
