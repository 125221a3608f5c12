// SPDX-License-Identifier: Apache-2.0
// Stages of a plan in the passes that foretoken makes, with the factors of sched/cost.h. Stateless.
#include "edge/stage_costs.h"

/* A pass in numbers that need not be whole: a round brings so many tokens on the average. */
typedef struct shape {
    double rows, out;
    double ctx;    /* sum over rows of the tokens that a row attends to, itself among them */
    double cached; /* tokens of KV that are read */
} shape;

static double pass_s(const double *us, const shape *p)
{
    return (us[FT_COST_PASS] + us[FT_COST_ROW] * p->rows + us[FT_COST_LOGITS_ROW] * p->out +
            us[FT_COST_INTERACTION] * p->ctx + us[FT_COST_CACHED_TOK] * p->cached +
            (p->out > 0) * us[FT_COST_HEAD]) *
           1e-6;
}

/* A pass over `rows` tokens of each text, `out` of them with logits. The KV of all texts have
 * `cached` tokens. */
static shape over_cached(const ft_plan_shape *batch, double rows, double out, double cached)
{
    return (shape){.rows = batch->n * rows,
                   .out = batch->n * out,
                   .ctx = rows * cached + batch->n * rows * (rows + 1) / 2,
                   .cached = cached};
}

/* A pass over all inputs and `more` tokens behind each. */
static shape over_inputs(const ft_plan_shape *batch, double more, double out)
{
    const double in = (double)batch->in_sum;
    return (shape){.rows = in + batch->n * more,
                   .out = batch->n * out,
                   .ctx = (batch->in_squares + in * (2 * more + 1) + batch->n * more * (more + 1)) /
                          2};
}

/* Tokens in the KV of all texts when a round begins: all but the last of each. */
static double cached_at(const ft_plan_shape *batch, uint32_t round, double tokens)
{
    return (double)batch->in_sum + batch->n * ((round - 1) * tokens - 1);
}

static double draft_s(const double *us, const ft_plan_shape *batch, uint32_t length, uint32_t round,
                      double tokens)
{
    double s = 0;
    for (uint32_t i = 0; i < length; i++) {
        const shape pass =
            over_cached(batch, 1, 1, cached_at(batch, round, tokens) + (double)batch->n * i);
        s += pass_s(us, &pass);
    }
    return s;
}

/* Logits are computed where the walk down a draft comes, which is once for each token that it
 * brings (serve/judge.h). */
static double verify_s(const double *us, const ft_plan_shape *batch, uint32_t length,
                       uint32_t round, double tokens)
{
    const shape pass = over_cached(batch, 1.0 + length, tokens, cached_at(batch, round, tokens));
    return pass_s(us, &pass);
}

/* What reading the inputs adds to the first draft, whose pass has all of their rows then, and not
 * one of each. The edge reads one after the other (edge/drafting.h), so each but the first costs a
 * pass more. */
static double draft_inputs_s(const double *us, const ft_plan_shape *batch)
{
    const shape inputs = over_inputs(batch, 0, 1),
                one = over_cached(batch, 1, 1, cached_at(batch, 1, 0));
    return pass_s(us, &inputs) - pass_s(us, &one) + (batch->n - 1.0) * us[FT_COST_PASS] * 1e-6;
}

/* What reading the inputs in the pass of the first round adds to it. */
static double verify_inputs_s(const double *us, const ft_plan_shape *batch, uint32_t length)
{
    const shape inputs = over_inputs(batch, length, 0),
                cached = over_cached(batch, 1.0 + length, 0, cached_at(batch, 1, 0));
    return pass_s(us, &inputs) - pass_s(us, &cached);
}

typedef double stage_s(const double *us, const ft_plan_shape *batch, uint32_t length,
                       uint32_t round, double tokens);

static ft_plan_time time_of(stage_s *s, const double *us, const ft_plan_shape *batch,
                            uint32_t length, double tokens)
{
    const double second = s(us, batch, length, 2, tokens);
    return (ft_plan_time){s(us, batch, length, 1, tokens), second,
                          s(us, batch, length, 3, tokens) - second};
}

void ft_stage_costs_times(const void *ctx, const ft_plan_shape *batch, uint32_t length,
                          double tokens, ft_plan_time *draft, ft_plan_time *verify)
{
    const ft_stage_costs *c = ctx;
    const double in = (double)batch->in_sum * 1e-6;
    ft_plan_pair_times(&c->pair, batch, length, tokens, draft, verify);
    if (c->draft)
        *draft = time_of(draft_s, c->draft, batch, length, tokens);
    if (c->draft && length > 0)
        draft->first_s += (1 - c->read) * (c->draft_read_us > 0 ? c->draft_read_us * in
                                                                : draft_inputs_s(c->draft, batch));
    if (c->verify) {
        *verify = time_of(verify_s, c->verify, batch, length, tokens);
        verify->first_s +=
            (1 - c->read) * (c->verify_read_us > 0 ? c->verify_read_us * in
                                                   : verify_inputs_s(c->verify, batch, length));
    }
}
