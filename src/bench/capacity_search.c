// SPDX-License-Identifier: Apache-2.0
// Doubling and bisection, with what a probe says about others as a guide while one end is open.
// Takes the share of slow texts to grow with the devices. Owned by whoever has the struct; keeps
// nothing else.
#include "bench/capacity_search.h"

#include <math.h>

#define NEAR    2.0 /* a share within this factor of epsilon is not believed at once */
#define CLOSE   0.8
#define STEP    0.1
#define CLEARLY 0.9

static uint32_t within(double n, uint32_t least, uint32_t most)
{
    return n < least ? least : n > most ? most : (uint32_t)n;
}

void ft_capacity_search_init(ft_capacity_search *s, uint32_t guess, uint32_t most, double epsilon,
                             double precision)
{
    *s = (ft_capacity_search){
        .epsilon = epsilon, .precision = precision, .most = most, .next = within(guess, 1, most)};
}

uint32_t ft_capacity_search_next(const ft_capacity_search *s)
{
    return s->next;
}

static bool is_near(const ft_capacity_search *s)
{
    double slow = (double)s->slow, bound = s->epsilon * (double)s->texts;
    return s->texts > 0 && slow > bound / NEAR && slow < bound * NEAR;
}

/* Where to go on behind `low`, of which alone something is known. Not in steps so small that they
 * could not tell; twice as many at most. A server that says it has just enough for these is near
 * its end. */
static uint32_t above(const ft_capacity_search *s, uint32_t enough_for)
{
    const double low = s->low;
    double n = 2 * low;
    if (enough_for > s->low)
        n = fmax(enough_for, ceil(low * (1 + s->precision)));
    else if (enough_for >= CLOSE * low)
        n = ceil(low * (1 + fmax(2 * s->precision, STEP)));
    return within(fmin(n, 2 * low), s->low + 1, s->most);
}

/* And of `high` alone: half as many at least, and clearly fewer. */
static uint32_t below(const ft_capacity_search *s, uint32_t enough_for)
{
    return within(fmin(enough_for, CLEARLY * s->high), (s->high + 1) / 2, s->high - 1);
}

static uint32_t choose(const ft_capacity_search *s, uint32_t enough_for)
{
    if (s->low >= s->most || s->high == 1)
        return 0;
    if (s->high == 0)
        return above(s, enough_for);
    if (s->low == 0)
        return below(s, enough_for);
    if (s->high - s->low <= fmax(1, s->precision * s->low))
        return 0;
    return s->low + (s->high - s->low) / 2;
}

void ft_capacity_search_saw(ft_capacity_search *s, uint64_t texts, uint64_t slow,
                            uint32_t enough_for)
{
    s->texts += texts;
    s->slow += slow;
    if (s->n_at++ == 0 && is_near(s))
        return;
    if (s->texts > 0 && (double)s->slow <= s->epsilon * (double)s->texts)
        s->low = s->next;
    else
        s->high = s->next;
    s->next = choose(s, enough_for);
    s->texts = s->slow = 0;
    s->n_at = 0;
}
