// SPDX-License-Identifier: Apache-2.0
// A group's cycle is the time from one of its passes to its next one: its own pass, and then its
// edges' time to draft or the other group's pass, whichever is longer. The pass begins with the
// group's last draft, which comes later than the mean: so that time is the most that an edge should
// take. Both rhythms have a speed in tokens per microsecond, the sum over groups of gain / cycle.
// The pass waits for as many drafts as make that speed highest, if it is then higher than without
// waiting. A draft that would come while the pass runs is not left out: it would have to wait for
// the pass's end. Pure, no state.
#include "sched/await.h"

#include <math.h>

#include "base/sort.h"
#include "sched/tuning.h"

#define TUNE (ft_sched_tune->await)

#define STEPS 12 /* towards the length of a pass that fits to how many texts it has */

typedef struct group {
    ft_pass pass;
    double gain_tok, rest_us;
} group;

void ft_away_saw(ft_away *away, int64_t us)
{
    const double sample = us > 1 ? (double)us : 1;
    if (away->us.known)
        away->off_us += TUNE.weight * (fabs(sample - away->us.value) - away->off_us);
    ft_mean_saw(&away->us, sample, TUNE.weight);
}

double ft_away_most_us(const ft_away *away)
{
    return away->us.known ? away->us.value + TUNE.late * away->off_us : 0;
}

ft_known_us ft_away_until(const ft_away *away, int64_t verdict_us)
{
    if (!away->us.known)
        return ft_unknown();
    return ft_known(verdict_us + (int64_t)ft_away_most_us(away));
}

static group with(group g, const ft_await_text *text)
{
    g.pass = ft_pass_sum(g.pass, text->part);
    g.gain_tok += text->gain_tok;
    g.rest_us = fmax(g.rest_us, text->most_us);
    return g;
}

/* Tokens per microsecond. */
static double speed(const group *one, const group *other, const ft_cost *cost)
{
    const double one_us = (double)ft_cost_predict(cost, &one->pass);
    const double other_us = (double)ft_cost_predict(cost, &other->pass);
    const double one_cycle_us = one_us + fmax(one->rest_us, other_us);
    const double other_cycle_us = other_us + fmax(other->rest_us, one_us);
    return one->gain_tok / fmax(one_cycle_us, 1) + other->gain_tok / fmax(other_cycle_us, 1);
}

/* Of all texts, if no pass waits. A draft comes on average in the middle of a pass, and waits for
 * the next one, unless passes take longer than drafts: then two groups take turns. A pass has its
 * part of what comes in a cycle. */
static double speed_at_once(const ft_await_text *texts, size_t n, const ft_cost *cost)
{
    double gain_tok = 0, away_us = 0, cycle_us = 1;
    ft_pass all = {0};
    for (size_t i = 0; i < n; i++) {
        all = ft_pass_sum(all, texts[i].part);
        gain_tok += texts[i].gain_tok;
        away_us += texts[i].away_us * texts[i].gain_tok;
    }
    away_us /= fmax(gain_tok, 1e-9);
    double pass_us = ft_cost_predict_share(cost, &all, 0.5);
    for (int i = 0; i < STEPS; i++) {
        cycle_us = fmax(fmax(away_us + 1.5 * pass_us, 2 * pass_us), 1);
        pass_us += (ft_cost_predict_share(cost, &all, fmin(pass_us / cycle_us, 0.5)) - pass_us) / 2;
    }
    return gain_tok / cycle_us;
}

static bool sooner(const void *ctx, const void *a, const void *b)
{
    (void)ctx;
    return ((const ft_await_text *)a)->at_us < ((const ft_await_text *)b)->at_us;
}

int64_t ft_await_us(ft_await_text *texts, size_t n, const ft_cost *cost, int64_t now_us)
{
    group one = {0}, other = {0};
    size_t k = 0;
    ft_sort(texts, n, sizeof *texts, sooner, NULL);
    double rest_us = 0;
    for (size_t i = n; i-- > 0;)
        texts[i].rest_us = rest_us = fmax(rest_us, texts[i].most_us);
    for (size_t i = 0; i < n; i++)
        if (texts[i].at_us <= now_us)
            one = with(one, &texts[k++]);
        else
            other = with(other, &texts[i]);
    int64_t wait_us = 0;
    double best = fmax(speed(&one, &other, cost), speed_at_once(texts, n, cost));
    for (; k < n; k++) {
        one = with(one, &texts[k]);
        other.pass = ft_pass_minus(other.pass, texts[k].part);
        other.gain_tok -= texts[k].gain_tok;
        other.rest_us = k + 1 < n ? texts[k + 1].rest_us : 0;
        const double now = speed(&one, k + 1 < n ? &other : &(group){0}, cost);
        const int64_t end_us = texts[k].at_us + ft_cost_predict(cost, &one.pass);
        const bool apart = k + 1 == n || texts[k + 1].at_us >= end_us;
        if (apart && now > best * TUNE.least) {
            best = now;
            wait_us = texts[k].at_us - now_us;
        }
    }
    return wait_us;
}

bool ft_await_one_group(const ft_await_text *texts, size_t n, const ft_cost *cost)
{
    group all = {0}, half[2] = {{{0}, 0, 0}, {{0}, 0, 0}};
    for (size_t i = 0; i < n; i++) {
        all = with(all, &texts[i]);
        half[i % 2] = with(half[i % 2], &texts[i]);
    }
    return speed(&all, &(group){0}, cost) > speed(&half[0], &half[1], cost);
}
