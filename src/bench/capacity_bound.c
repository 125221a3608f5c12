// SPDX-License-Identifier: Apache-2.0
// The bound of capacity_bound.h. No state.
#include "bench/capacity_bound.h"

#include <math.h>
#include <stddef.h>

#include "base/num.h"
#include "sched/cost.h"

#define STEPS        100   /* of the share that a drafted token's row costs, from 0 to 1 */
#define LEAST_SPREAD 1e-9  /* of squares: less is rounding */
#define LEAST_GAIN   1e-12 /* the same */
#define HALVINGS     60    /* of an interval of chances: below the precision of a double */

/* One way to serve a class. */
typedef struct option {
    double left; /* of a second: for how long rows may be computed */
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

/* For how long rows may be computed in passes of that length; < 0: there are no such passes. */
static double rows_s(const ft_capacity_times *t, double pass_s)
{
    if (pass_s < t->read_s)
        return -1;
    return ft_cost_other_us(pass_s, t->read_s) - t->pass_s;
}

/* The same in a round of that length. Of two passes, halves are best. */
static double rows_in_round_s(const ft_capacity_times *t, double round_s, bool drafts)
{
    const double one_s = rows_s(t, round_s - (drafts ? t->away_s : 0));
    return drafts ? fmax(one_s, 2 * rows_s(t, round_s / 2)) : one_s;
}

/* False: a draft's round takes longer than the promised speed allows, however empty the server
 * is. */
static bool option_of(const ft_capacity_times *t, double speed, uint32_t k, option *out)
{
    const double round_s = tokens_of(t->chance, k) / speed, rows = 1 + t->drafted * k;
    const double left_s = rows_in_round_s(t, round_s, k > 0);
    *out = (option){left_s / round_s, rows / round_s + speed * t->drafted * t->prompts};
    return left_s >= 0 && (k == 0 || rows_s(t, round_s - t->away_s) >= t->row_s * rows);
}

/* The fewest rows a second for a class that leaves so much; INFINITY: there is no such way. */
static double least_rows(const ft_capacity_times *t, double speed, double left, uint32_t *best)
{
    double least = INFINITY;
    for (uint32_t k = 0; k <= t->most; k++) {
        option o;
        if (!option_of(t, speed, k, &o) || o.left < left || o.rows >= least)
            continue;
        least = o.rows;
        *best = k;
    }
    return least;
}

/* What a second is worth: devices times row_s, if all classes leave so much. */
static double held_within(const ft_capacity_times *t, const float *tokens_per_s, uint32_t n,
                          double left, uint32_t *k)
{
    double rows = 0, fastest = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t of_class = 0;
        rows += least_rows(t, (double)tokens_per_s[i], left, &of_class) / n;
        if ((double)tokens_per_s[i] <= fastest)
            continue;
        fastest = (double)tokens_per_s[i];
        *k = of_class;
    }
    return left / rows;
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
            const double held = held_within(t, tokens_per_s, n, o.left, &of_fastest);
            if (held <= best)
                continue;
            best = held;
            bound.k = of_fastest;
        }
    }
    option alone;
    const double decoding = option_of(t, fastest, 0, &alone) ? alone.left / alone.rows : 0;
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
    const double w = p->weight, t = p->texts, d = p->drafts, y = p->pass_s - p->waited_s;
    const double more[] = {w,         w * t,     w * d,     w * y,     w * t * t,
                           w * d * d, w * t * d, w * t * y, w * d * y, w * y * y};
    double *const sums[] = {
        &s->n,         &s->texts,        &s->drafts,       &s->pass_s,        &s->texts_sq,
        &s->drafts_sq, &s->texts_drafts, &s->texts_pass_s, &s->drafts_pass_s, &s->pass_s_sq};
    if (w <= 0 || t <= 0 || y <= 0)
        return;
    for (size_t i = 0; i < FT_COUNT(sums); i++)
        *sums[i] += more[i];
    const double waits = w * p->waited_s / p->pass_s;
    s->read_s += waits * ft_cost_other_us(p->pass_s, y);
    s->read_n += waits;
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
    out->read_s = s->read_n > 0 ? s->read_s / s->read_n : 0;
    return true;
}
