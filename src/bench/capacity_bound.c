// SPDX-License-Identifier: Apache-2.0
// The bound of capacity_bound.h. No state.
#include "bench/capacity_bound.h"

#include <math.h>
#include <stddef.h>

#include "base/num.h"

#define STEPS        100   /* of the share that a drafted token's row costs, from 0 to 1 */
#define LEAST_SPREAD 1e-9  /* of squares: less is rounding */
#define LEAST_GAIN   1e-12 /* the same */
#define HALVINGS     60    /* of an interval of chances: below the precision of a double */

/* One way to serve a class. */
typedef struct option {
    double need; /* of a second: what its rounds need of passes and waiting */
    double rows; /* a second and device, in rows of texts */
} option;

/* Tokens that a draft of k tokens brings, the target's own included. */
static double tokens_of(double chance, uint32_t k)
{
    double tokens = 1, reached = 1;
    for (uint32_t i = 0; i < k; i++)
        tokens += reached *= chance;
    return tokens;
}

/* False: a draft's round takes longer than the promised speed allows, however empty the server
 * is. */
static bool option_of(const ft_capacity_times *t, double speed, uint32_t k, option *out)
{
    const double rounds = speed / tokens_of(t->chance, k);
    const double waits = k > 0 ? fmin(t->pass_s, t->away_s) : 0, rows = 1 + t->drafted * k;
    *out = (option){rounds * (t->pass_s + waits), rounds * rows};
    return k == 0 || rounds * (t->pass_s + t->away_s + t->row_s * rows) <= 1;
}

/* The fewest rows a second for a class within this need; INFINITY: there is no such way. */
static double least_rows(const ft_capacity_times *t, double speed, double need, uint32_t *best)
{
    double least = INFINITY;
    for (uint32_t k = 0; k <= t->most; k++) {
        option o;
        if (!option_of(t, speed, k, &o) || o.need > need || o.rows >= least)
            continue;
        least = o.rows;
        *best = k;
    }
    return least;
}

/* What a second is worth: devices times row_s, if all classes keep to this need. */
static double held_within(const ft_capacity_times *t, const float *tokens_per_s, uint32_t n,
                          double need, uint32_t *k)
{
    double rows = 0, fastest = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t of_class = 0;
        rows += least_rows(t, (double)tokens_per_s[i], need, &of_class) / n;
        if ((double)tokens_per_s[i] <= fastest)
            continue;
        fastest = (double)tokens_per_s[i];
        *k = of_class;
    }
    return need < 1 ? (1 - need) / rows : 0;
}

ft_capacity_bound ft_capacity_bound_of(const ft_capacity_times *t, const float *tokens_per_s,
                                       uint32_t n)
{
    double best = 0, fastest = 0;
    ft_capacity_bound bound = {0};
    for (uint32_t i = 0; i < n; i++) {
        fastest = fmax(fastest, (double)tokens_per_s[i]);
        for (uint32_t k = 0; k <= t->most; k++) {
            option o;
            uint32_t of_fastest = 0;
            if (!option_of(t, (double)tokens_per_s[i], k, &o))
                continue;
            const double held = held_within(t, tokens_per_s, n, o.need, &of_fastest);
            if (held <= best)
                continue;
            best = held;
            bound.k = of_fastest;
        }
    }
    const double decoding = fmax(1 - fastest * t->pass_s, 0) / fastest;
    bound.decoding = decoding > 0 ? decoding / t->row_s : 0;
    bound.drafts = best > 0 ? best / t->row_s : 0;
    bound.ratio = decoding > 0 ? best / decoding : INFINITY;
    return bound;
}

/* p + p^2 + ... + p^k, for any k >= 0. */
static double accepted_of(double chance, double k)
{
    return chance < 1 ? chance * (1 - pow(chance, k)) / (1 - chance) : k;
}

double ft_capacity_chance(double drafted, double accepted)
{
    double low = 0, high = 1;
    if (accepted <= 0)
        return 0;
    if (accepted >= drafted)
        return 1;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;
        if (accepted_of(middle, drafted) < accepted)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- what passes take ---- */

void ft_capacity_saw_passes(ft_capacity_seen *s, const ft_capacity_passes *p)
{
    const double w = p->weight, t = p->texts, d = p->drafts, y = p->pass_s;
    const double more[] = {w,         w * t,     w * d,     w * y,     w * t * t,
                           w * d * d, w * t * d, w * t * y, w * d * y, w * y * y};
    double *const sums[] = {
        &s->n,         &s->texts,        &s->drafts,       &s->pass_s,        &s->texts_sq,
        &s->drafts_sq, &s->texts_drafts, &s->texts_pass_s, &s->drafts_pass_s, &s->pass_s_sq};
    if (w <= 0 || t <= 0 || y <= 0)
        return;
    for (size_t i = 0; i < FT_COUNT(sums); i++)
        *sums[i] += more[i];
}

/* A line through the passes' times over texts + drafted * drafts, neither of its numbers negative.
 * Returns the sum of the squared errors; INFINITY: all have the same rows. */
static double fit_line(const ft_capacity_seen *s, double drafted, ft_capacity_times *out)
{
    const double x = s->texts + drafted * s->drafts,
                 xx =
                     s->texts_sq + 2 * drafted * s->texts_drafts + drafted * drafted * s->drafts_sq,
                 xy = s->texts_pass_s + drafted * s->drafts_pass_s, spread = s->n * xx - x * x;
    if (spread <= LEAST_SPREAD * s->n * xx)
        return INFINITY;
    double slope = fmax((s->n * xy - x * s->pass_s) / spread, 0);
    double base = (s->pass_s - slope * x) / s->n;
    if (base < 0) {
        base = 0;
        slope = xy / xx;
    }
    *out = (ft_capacity_times){.pass_s = base, .row_s = slope, .drafted = drafted};
    return s->pass_s_sq + base * base * s->n + slope * slope * xx +
           2 * (base * slope * x - base * s->pass_s - slope * xy);
}

bool ft_capacity_fit(const ft_capacity_seen *s, ft_capacity_times *out)
{
    ft_capacity_times it;
    double best = fit_line(s, 1, &it);
    if (isinf(best))
        return false;
    for (int i = STEPS - 1; i >= 0; i--) {
        ft_capacity_times other;
        const double error = fit_line(s, (double)i / STEPS, &other);
        if (error >= best - LEAST_GAIN * s->pass_s_sq)
            continue;
        best = error;
        it = other;
    }
    out->pass_s = it.pass_s;
    out->row_s = it.row_s;
    out->drafted = it.drafted;
    return true;
}
