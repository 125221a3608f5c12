// SPDX-License-Identifier: Apache-2.0
// Stages of a plan in the passes that foretoken makes, with the factors of sched/cost.h. Stateless.
#include "cmd/plan_costs.h"

/* A pass in numbers that need not be whole: a round brings so many tokens on the average. */
typedef struct shape {
    double rows, out;
    double ctx;    /* sum over rows of the tokens that a row attends to, itself among them */
    double cached; /* tokens of KV that are read */
} shape;

static double pass_s(const ft_costs *c, const shape *p)
{
    return (c->us[FT_COST_PASS] + c->us[FT_COST_ROW] * p->rows +
            c->us[FT_COST_LOGITS_ROW] * p->out + c->us[FT_COST_INTERACTION] * p->ctx +
            c->us[FT_COST_CACHED_TOK] * p->cached + (p->out > 0) * c->us[FT_COST_HEAD]) *
           1e-6;
}

/* A pass over `rows` tokens of each text, whose KV have `cached` tokens in all. */
static shape over_cached(const ft_plan_shape *batch, double rows, double cached)
{
    return (shape){.rows = batch->n * rows,
                   .out = batch->n * rows,
                   .ctx = rows * cached + batch->n * rows * (rows + 1) / 2,
                   .cached = cached};
}

/* A pass over all inputs and `more` tokens behind each. */
static shape over_inputs(const ft_plan_shape *batch, double more)
{
    const double in = (double)batch->in_sum;
    return (shape){.rows = in + batch->n * more,
                   .out = batch->n * (1 + more),
                   .ctx = (batch->in_squares + in * (2 * more + 1) + batch->n * more * (more + 1)) /
                          2};
}

/* Tokens in the KV of all texts when round n > 1 begins: all but the last of each. */
static double cached_at(const ft_plan_shape *batch, uint32_t round, double tokens)
{
    return (double)batch->in_sum + batch->n * ((round - 1) * tokens - 1);
}

static double draft_s(const ft_costs *c, const ft_plan_shape *batch, uint32_t length,
                      uint32_t round, double tokens)
{
    double s = 0;
    for (uint32_t i = 0; i < length; i++) {
        const shape pass =
            round == 1 && i == 0
                ? over_inputs(batch, 0)
                : over_cached(batch, 1, cached_at(batch, round, tokens) + (double)batch->n * i);
        s += pass_s(c, &pass);
    }
    return s;
}

static double verify_s(const ft_costs *c, const ft_plan_shape *batch, uint32_t length,
                       uint32_t round, double tokens)
{
    const shape pass = round == 1
                           ? over_inputs(batch, length)
                           : over_cached(batch, 1.0 + length, cached_at(batch, round, tokens));
    return pass_s(c, &pass);
}

typedef double stage_s(const ft_costs *c, const ft_plan_shape *batch, uint32_t length,
                       uint32_t round, double tokens);

static ft_plan_time time_of(stage_s *s, const ft_costs *c, const ft_plan_shape *batch,
                            uint32_t length, double tokens)
{
    const double second = s(c, batch, length, 2, tokens);
    return (ft_plan_time){s(c, batch, length, 1, tokens), second,
                          s(c, batch, length, 3, tokens) - second};
}

void ft_plan_costs_times(const void *ctx, const ft_plan_shape *batch, uint32_t length,
                         double tokens, ft_plan_time *draft, ft_plan_time *verify)
{
    const ft_plan_costs *c = ctx;
    ft_plan_pair_times(&c->pair, batch, length, tokens, draft, verify);
    if (c->draft)
        *draft = time_of(draft_s, c->draft, batch, length, tokens);
    if (c->verify)
        *verify = time_of(verify_s, c->verify, batch, length, tokens);
}
