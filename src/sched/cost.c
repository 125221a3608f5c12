// SPDX-License-Identifier: Apache-2.0
// The estimator of pass times. It fits
//
//     time = a + b rows + c rows with logits + d tokens attended to + e tokens of KV read
//            + f if there are logits
//
// by least squares after every pass, to the recent passes of every size. It keeps passes of all
// sizes, because a server in its steady state runs passes of one shape only, which say nothing
// about others. Old passes fade. Errors are relative to the pass's time. No factor is negative.
// Passes far from the fit weigh little (Huber's weights), because the machine was busy with
// something else.
//
// This is the time to compute a pass. Where weights are read from disk meanwhile, the two overlap,
// but not wholly: a pass also waits at times while computing is what takes longer. So its time is
//
//     (computing^3 + reading^3)^(1/3)
//
// which is at least the longer of both, and 1.26 times it where they are equal. The exponent was
// chosen by measured passes of 8 to 110 rows.
//
// Pure; the caller owns the state. A fit takes some microseconds.
#include "sched/cost.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "sched/tuning.h"

#define TUNE (ft_sched_tune->cost)

/* Of the data's weight. Keeps the pivots positive, and what data leave open as it was. */
#define RIDGE 1e-3

/* Times the mean of reading that one pass counts as, at most. */
#define READ_MOST 2

#define F(name, text) [FT_COST_##name] = text,
const char *const ft_cost_factor_name[FT_COST_FACTORS] = {FT_COST_FACTORS_LIST(F)};
#undef F

ft_pass ft_pass_plus(ft_pass pass, uint32_t n_past, uint32_t n, uint32_t n_out)
{
    pass.rows += n;
    pass.out += n_out;
    pass.ctx += (uint64_t)n * n_past + (uint64_t)n * (n + 1ull) / 2;
    pass.cached += n > 0 ? n_past : 0;
    return pass;
}

ft_pass ft_pass_minus(ft_pass pass, ft_pass part)
{
    pass.rows -= part.rows;
    pass.out -= part.out;
    pass.ctx -= part.ctx;
    pass.cached -= part.cached;
    return pass;
}

ft_pass ft_pass_sum(ft_pass pass, ft_pass more)
{
    pass.rows += more.rows;
    pass.out += more.out;
    pass.ctx += more.ctx;
    pass.cached += more.cached;
    return pass;
}

void ft_cost_init(ft_cost *cost)
{
    memset(cost, 0, sizeof *cost);
    cost->error = 1;
}

void ft_cost_prime(ft_cost *cost, const double us[FT_COST_FACTORS], double error)
{
    memcpy(cost->prior, us, sizeof cost->prior);
    memcpy(cost->us, us, sizeof cost->us);
    cost->error = fmin(error, 1);
    cost->bias = 0;
}

void ft_pass_factors(const ft_pass *pass, double out[FT_COST_FACTORS])
{
    out[FT_COST_PASS] = pass->rows > 0;
    out[FT_COST_ROW] = pass->rows;
    out[FT_COST_LOGITS_ROW] = pass->out;
    out[FT_COST_INTERACTION] = (double)pass->ctx;
    out[FT_COST_CACHED_TOK] = (double)pass->cached;
    out[FT_COST_HEAD] = pass->out > 0;
}

static double dot(const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < FT_COST_FACTORS; i++)
        sum += a[i] * b[i];
    return sum;
}

/* ---- the fit ---- */

typedef struct normal {
    double a[FT_COST_FACTORS][FT_COST_FACTORS], b[FT_COST_FACTORS];
} normal;

static void add(normal *m, const ft_cost *cost, const ft_cost_seen *seen, bool fitted)
{
    double x[FT_COST_FACTORS], guess = seen->us;
    double age = (double)(cost->n_seen - seen->at),
           weight = fmax(exp2(-age / TUNE.half_life), TUNE.faded);
    ft_pass_factors(&seen->pass, x);
    if (fitted) {
        guess = fmax(dot(cost->us, x), 1);
        double off = fabs(guess - seen->us) / guess;
        weight *= off > TUNE.huber ? TUNE.huber / off : 1;
    }
    weight /= guess * guess;
    for (int i = 0; i < FT_COST_FACTORS; i++) {
        for (int j = 0; j < FT_COST_FACTORS; j++)
            m->a[i][j] += weight * x[i] * x[j];
        m->b[i] += weight * x[i] * seen->us;
    }
}

/* Solves for the factors in `use` (Gauss), 0 for the
 * others. */
static void solve(normal m, const bool *use, double *x)
{
    for (int i = 0; i < FT_COST_FACTORS; i++)
        for (int j = 0; j < FT_COST_FACTORS; j++)
            if (!use[i] || !use[j])
                m.a[i][j] = i == j;
    for (int i = 0; i < FT_COST_FACTORS; i++)
        m.b[i] = use[i] ? m.b[i] : 0;
    for (int i = 0; i < FT_COST_FACTORS; i++)
        for (int j = i + 1; j < FT_COST_FACTORS; j++) {
            double f = m.a[j][i] / m.a[i][i];
            for (int k = i; k < FT_COST_FACTORS; k++)
                m.a[j][k] -= f * m.a[i][k];
            m.b[j] -= f * m.b[i];
        }
    for (int i = FT_COST_FACTORS; i-- > 0;) {
        x[i] = m.b[i];
        for (int j = i + 1; j < FT_COST_FACTORS; j++)
            x[i] -= m.a[i][j] * x[j];
        x[i] /= m.a[i][i];
    }
}

/* Least squares with no factor negative: the most negative one is left out until none is. */
static void fit(ft_cost *cost, bool fitted)
{
    normal m = {0};
    bool use[FT_COST_FACTORS];
    int worst;
    for (int kind = 0; kind < 2; kind++)
        for (int size = 0; size < FT_COST_SIZES; size++)
            for (int i = 0; i < FT_COST_KEPT; i++)
                if (cost->seen[kind][size][i].us > 0)
                    add(&m, cost, &cost->seen[kind][size][i], fitted);
    for (int i = 0; i < FT_COST_FACTORS; i++) {
        use[i] = m.a[i][i] > 0;
        m.b[i] += RIDGE * m.a[i][i] * cost->prior[i];
        m.a[i][i] *= 1 + RIDGE;
    }
    do {
        worst = -1;
        solve(m, use, cost->us);
        for (int i = 0; i < FT_COST_FACTORS; i++)
            if (cost->us[i] < 0 && (worst < 0 || cost->us[i] < cost->us[worst]))
                worst = i;
        if (worst >= 0)
            use[worst] = false;
    } while (worst >= 0);
    for (int i = 0; i < FT_COST_FACTORS; i++)
        if (m.a[i][i] == 0)
            cost->us[i] = cost->prior[i];
}

/* ---- */

static uint32_t size_class(uint32_t rows)
{
    uint32_t size = 0;
    while (rows > 1 && size < FT_COST_SIZES - 1) {
        rows /= 2;
        size++;
    }
    return size;
}

static double together_us(double computing_us, double reading_us)
{
    return reading_us > 0 ? cbrt(pow(computing_us, 3) + pow(reading_us, 3)) : computing_us;
}

double ft_cost_other_us(double us, double part_us)
{
    return part_us > 0 ? cbrt(pow(us, 3) - pow(part_us, 3)) : us;
}

/* The more a pass waited, the more it says about reading. A disk that did not answer for a while
 * says little. The slope is the derivative of together_us by its first argument. */
static void saw_reading(ft_cost *cost, double us, double computed_us)
{
    const double waited = 1 - computed_us / us, slope = pow(computed_us / us, 2);
    const double read_us = ft_cost_other_us(us, computed_us), before_us = cost->read_us;
    if (before_us > 0)
        cost->read_us +=
            TUNE.read_rate * waited * (fmin(read_us, READ_MOST * before_us) - before_us);
    else
        cost->read_us = read_us;
    cost->hidden += TUNE.read_rate * (1 - slope - cost->hidden);
}

void ft_cost_observe(ft_cost *cost, const ft_pass *pass, int64_t us)
{
    ft_cost_observe_read(cost, pass, us, 0);
}

void ft_cost_observe_read(ft_cost *cost, const ft_pass *pass, int64_t us, int64_t waited_us)
{
    if (pass->rows == 0 || us <= 0)
        return;
    const int64_t computed_us = waited_us < us ? us - waited_us : 1;
    if (ft_cost_predict(cost, pass) > 0) {
        double off = ((double)ft_cost_predict(cost, pass) - (double)us) / (double)us;
        cost->error += TUNE.error_rate * (fmin(fabs(off), 1) - cost->error);
        cost->bias += TUNE.error_rate * (fmin(off, 1) - cost->bias);
    }
    ft_cost_seen *ring = cost->seen[2 * pass->out < pass->rows][size_class(pass->rows)], *oldest;
    oldest = ring;
    for (int i = 1; i < FT_COST_KEPT; i++)
        if (ring[i].at < oldest->at)
            oldest = &ring[i];
    *oldest = (ft_cost_seen){.pass = *pass, .us = (float)computed_us, .at = ++cost->n_seen};
    if (waited_us > 0 || cost->read_us > 0)
        saw_reading(cost, (double)us, (double)computed_us);
    fit(cost, false);
    fit(cost, true);
}

double ft_cost_predict_share(const ft_cost *cost, const ft_pass *pass, double share)
{
    double x[FT_COST_FACTORS];
    ft_pass_factors(pass, x);
    for (int i = 0; i < FT_COST_FACTORS; i++)
        if (i != FT_COST_PASS && i != FT_COST_HEAD)
            x[i] *= share;
    return together_us(dot(cost->us, x), pass->rows > 0 ? cost->read_us : 0);
}

int64_t ft_cost_predict(const ft_cost *cost, const ft_pass *pass)
{
    return (int64_t)ft_cost_predict_share(cost, pass, 1);
}

double ft_cost_fixed_us(const ft_cost *cost)
{
    return together_us(cost->us[FT_COST_PASS] + cost->us[FT_COST_HEAD], cost->read_us);
}

double ft_cost_added_us(const ft_cost *cost, const ft_pass *part)
{
    double x[FT_COST_FACTORS];
    ft_pass_factors(part, x);
    x[FT_COST_PASS] = x[FT_COST_HEAD] = 0;
    return dot(cost->us, x) * (1 - cost->hidden);
}

uint32_t ft_cost_rows(const ft_cost *cost, const ft_pass *pass, uint32_t n_past, uint32_t most,
                      int64_t budget_us)
{
    uint32_t low = 0, high = most;
    double before_us = (double)ft_cost_predict(cost, pass);
    while (low < high) {
        uint32_t n = low + (high - low + 1) / 2;
        ft_pass with = ft_pass_plus(*pass, n_past, n, 0);
        double more_us = (double)ft_cost_predict(cost, &with) - before_us;
        if (more_us * (1 + cost->error) <= (double)budget_us)
            low = n;
        else
            high = n - 1;
    }
    return low;
}
