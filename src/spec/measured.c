// SPDX-License-Identifier: Apache-2.0
// Rounds with something against rounds without it. The caller owns the state.
#include "spec/measured.h"

#include <math.h>
#include <string.h>

#include "spec/tuning.h"

/* A round counts so much less with each round of its side after it: about the last 500 count, of a
 * dozen short texts. Then a gain of 4 % is told from none. With half as many it must be 6 %; twice
 * as many follow a change of the load half as soon. */
#define FADE 0.998
/* Standard errors from which a difference is clear: by chance it is so in one case of 20. */
#define CLEAR 2
/* Of a speed: rounds that are all alike have no other error. */
#define ROUNDING 1e-6
/* Any sum of a thousand rounds of a minute, squared, is less. */
#define MOST_SUM 1e20

static double speed(const ft_measured_side *s)
{
    return s->us > 0 ? s->tokens / s->us : 0;
}

/* Of the speed. */
static double variance(const ft_measured_side *s)
{
    const double r = speed(s);
    const double off = s->tokens_sq - 2 * r * s->tokens_us + r * r * s->us_sq;
    return fmax(off, 0) / (s->us * s->us);
}

/* By how much rounds with it are faster, in standard errors of the difference; 0: not known. */
static double gain_errors(const ft_measured *m)
{
    const ft_measured_side *without = &m->side[0], *with = &m->side[1];
    if (fmin(without->n, with->n) < FT_MEASURED_LEAST || without->us <= 0 || with->us <= 0)
        return 0;
    const double error = sqrt(variance(with) + variance(without)) + ROUNDING * speed(without);
    return error > 0 ? (speed(with) - speed(without)) / error : 0;
}

bool ft_measured_pays(const ft_measured *m)
{
    return gain_errors(m) > 1;
}

/* Whether one side is chosen; else they alternate. */
static bool is_settled(const ft_measured *m)
{
    return fabs(gain_errors(m)) > CLEAR || fmin(m->side[0].n, m->side[1].n) >= FT_MEASURED_MOST;
}

bool ft_measured_with(const ft_measured *m)
{
    return m->with;
}

/* The side of the next interval. */
static void next_interval(ft_measured *m)
{
    const bool pays = ft_measured_pays(m);
    m->rounds = 0;
    if (!is_settled(m)) {
        m->with = !m->with;
        return;
    }
    m->intervals = m->with == pays ? m->intervals + 1 : 0;
    m->with = m->intervals >= FT_MEASURED_EVERY - 1 ? !pays : pays;
}

void ft_measured_saw(ft_measured *m, uint32_t tokens, int64_t us)
{
    ft_measured_side *s = &m->side[m->with];
    const double t = tokens, u = (double)us;
    const double more[] = {1, t, u, t * t, u * u, t * u};
    double *const sums[] = {&s->n, &s->tokens, &s->us, &s->tokens_sq, &s->us_sq, &s->tokens_us};
    if (us <= 0)
        return;
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        *sums[i] = FADE * *sums[i] + more[i];
    if (++m->rounds >= FT_MEASURED_INTERVAL)
        next_interval(m);
}

double ft_measured_tokens_per_s(const ft_measured *m, bool with)
{
    return 1e6 * speed(&m->side[with]);
}

/* ---- for the next process ---- */

_Static_assert(sizeof(ft_measured_side) * 2 == sizeof(double[FT_MEASURED_KEPT]),
               "a side has nothing but its sums");

void ft_measured_keep(const ft_measured *m, double out[FT_MEASURED_KEPT])
{
    memcpy(out, m->side, sizeof m->side);
}

bool ft_measured_take_up(ft_measured *m, const double in[FT_MEASURED_KEPT])
{
    ft_measured next = {0};
    double share[FT_MEASURED_KEPT];
    for (size_t i = 0; i < FT_MEASURED_KEPT; i++) {
        if (!(in[i] >= 0 && in[i] <= MOST_SUM)) /* a NaN neither */
            return false;
        share[i] = in[i] * ft_spec_tune->tries.kept;
    }
    memcpy(next.side, share, sizeof next.side);
    next.with = ft_measured_pays(&next);
    *m = next;
    return true;
}
