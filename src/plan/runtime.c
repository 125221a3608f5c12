// SPDX-License-Identifier: Apache-2.0
// Operations and seconds of passes as the paper has them. Pure.
#include "plan/runtime.h"

double ft_plan_operations(const ft_plan_model *m, double rows, double past)
{
    return 4 * m->layers * m->hidden * rows * (2 * m->hidden + past + rows + m->ffn);
}

double ft_plan_pass_s(const ft_plan_model *m, double operations, uint32_t tasks)
{
    return m->c1 * operations * tasks + m->c2;
}

/* Tokens of a text's KV when round n begins: its input and the output so far, without the last
 * token, which is yet to be read (I^kv of (13) and (14)). Before round 1 there are none. */
static double cached(const ft_plan_shape *batch, uint32_t round, double tokens)
{
    return (double)batch->in_max + (round - 1) * tokens - 1;
}

/* Eq. (13) and (19): l passes. The first one of round 1 reads the input; each other one a token. */
static double draft_s(const ft_plan_model *m, const ft_plan_shape *batch, uint32_t length,
                      uint32_t round, double tokens)
{
    double s = 0;
    for (uint32_t i = 0; i < length; i++) {
        const double operations = round == 1 && i == 0
                                      ? ft_plan_operations(m, batch->in_max, 0)
                                      : ft_plan_operations(m, 1, cached(batch, round, tokens) + i);
        s += ft_plan_pass_s(m, operations, batch->n);
    }
    return s;
}

/* Eq. (14) and (18): one pass over the draft, in round 1 also over the input. */
static double verify_s(const ft_plan_model *m, const ft_plan_shape *batch, uint32_t length,
                       uint32_t round, double tokens)
{
    const double operations =
        round == 1 ? ft_plan_operations(m, (double)batch->in_max + length, 0)
                   : ft_plan_operations(m, 1.0 + length, cached(batch, round, tokens));
    return ft_plan_pass_s(m, operations, batch->n);
}

/* What a round adds: the KV is longer by `tokens` in each pass. */
void ft_plan_pair_times(const void *ctx, const ft_plan_shape *batch, uint32_t length, double tokens,
                        ft_plan_time *draft, ft_plan_time *verify)
{
    const ft_plan_pair *pair = ctx;
    const ft_plan_model *d = &pair->draft, *v = &pair->verify;
    *draft =
        (ft_plan_time){draft_s(d, batch, length, 1, tokens), draft_s(d, batch, length, 2, tokens),
                       d->c1 * batch->n * length * 4 * d->layers * d->hidden * tokens};
    *verify =
        (ft_plan_time){verify_s(v, batch, length, 1, tokens), verify_s(v, batch, length, 2, tokens),
                       v->c1 * batch->n * 4 * v->layers * v->hidden * (1.0 + length) * tokens};
}
