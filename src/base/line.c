// SPDX-License-Identifier: Apache-2.0
// A line and its rate. The chain is computed backwards, so that any step can be asked for: with
// probability r a step draws its state anew by a fair coin, whatever the step before was. Otherwise
// it keeps the state (stay >= 1/2, r = 2 (1 - stay)) or changes it (stay < 1/2, r = 2 stay). Both
// give the chance `stay` of the same state again. Hence a state follows from the last step that
// drew one. Step 0 draws always, so each state has probability 1/2 at any time.
#include "base/line.h"

#include <math.h>
#include <stdio.h>

#include "base/rng.h"

#define DOMAIN 0x6c696e65u /* of the draws, so that a seed serves other draws, too */
/* Bounds of a rate with steps: one packet then never takes many steps. */
#define STEPS_LEAST_MBIT 0.001
#define STEPS_MOST_MBIT  100000.0

/* Whether the step draws its state anew; then *second is that state. */
static bool draws(const ft_line_rate *rate, int64_t step, bool *second)
{
    const uint32_t counter[4] = {(uint32_t)step, (uint32_t)((uint64_t)step >> 32), DOMAIN, 0};
    const uint32_t key[2] = {(uint32_t)rate->seed, (uint32_t)(rate->seed >> 32)};
    uint32_t out[4];
    ft_philox4x32(counter, key, out);
    *second = out[1] & 1;
    return step == 0 || (out[0] + 0.5) / 4294967296.0 < 2 * fmin(rate->stay, 1 - rate->stay);
}

/* The state at a step, from that of `known`, which is not later, or from a draw behind it. */
static bool state_at(const ft_line_rate *rate, int64_t step, int64_t known, bool second)
{
    int64_t back = step;
    bool drawn;
    for (; back > known; back--)
        if (draws(rate, back, &drawn)) {
            second = drawn;
            break;
        }
    return second ^ (rate->stay < 0.5 && ((step - back) & 1));
}

double ft_line_rate_at(const ft_line_rate *rate, int64_t since_ns)
{
    bool first;
    if (rate->step_ns <= 0)
        return rate->bits_per_s[0];
    (void)draws(rate, 0, &first);
    return rate->bits_per_s[state_at(rate, since_ns > 0 ? since_ns / rate->step_ns : 0, 0, first)];
}

ft_status ft_line_parse_steps(const char *flag, const char *text, ft_error *err, ft_line_rate *rate)
{
    double mbit[2];
    char rest;
    bool fine = sscanf(text, "%lf,%lf%c", &mbit[0], &mbit[1], &rest) == 2;
    for (int i = 0; i < 2 && fine; i++) {
        fine = mbit[i] >= STEPS_LEAST_MBIT && mbit[i] <= STEPS_MOST_MBIT;
        rate->bits_per_s[i] = mbit[i] * 1e6;
    }
    if (fine)
        return FT_OK;
    return ft_error_set(err, FT_INVALID,
                        "%s %s: two rates from %g to %g Mbit/s are wanted, as in 2,6", flag, text,
                        STEPS_LEAST_MBIT, STEPS_MOST_MBIT);
}

void ft_line_init(ft_line *line, const ft_line_rate *rate)
{
    *line = (ft_line){.rate = *rate};
    (void)draws(rate, 0, &line->second);
}

int64_t ft_line_wait_ns(const ft_line *line, int64_t now_ns)
{
    return line->begun && line->free_ns > now_ns ? line->free_ns - now_ns : 0;
}

/* Sends bits from at_ns on, within its step. Returns when they are sent or, with *bits left, when
 * the step ends. */
static int64_t send_in_step(ft_line *line, int64_t at_ns, double *bits)
{
    const ft_line_rate *rate = &line->rate;
    const int64_t step = (at_ns - line->began_ns) / rate->step_ns;
    const int64_t end_ns = line->began_ns + (step + 1) * rate->step_ns;
    line->second = state_at(rate, step, line->step, line->second);
    line->step = step;
    const double bits_per_s = rate->bits_per_s[line->second];
    const double room = (double)(end_ns - at_ns) / 1e9 * bits_per_s;
    if (*bits > room) {
        *bits -= room;
        return end_ns;
    }
    const int64_t sent_ns = at_ns + (int64_t)(*bits * 1e9 / bits_per_s);
    *bits = 0;
    return sent_ns;
}

int64_t ft_line_take(ft_line *line, int64_t now_ns, size_t n)
{
    const ft_line_rate *rate = &line->rate;
    double bits = (double)n * 8;
    if (rate->step_ns <= 0 && rate->bits_per_s[0] <= 0)
        return now_ns;
    if (!line->begun)
        line->began_ns = now_ns;
    line->begun = true;
    int64_t at_ns = now_ns + ft_line_wait_ns(line, now_ns);
    if (rate->step_ns <= 0)
        at_ns += (int64_t)(bits * 1e9 / rate->bits_per_s[0]);
    else
        while (bits > 0)
            at_ns = send_in_step(line, at_ns, &bits);
    return line->free_ns = at_ns;
}
