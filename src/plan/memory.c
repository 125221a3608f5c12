// SPDX-License-Identifier: Apache-2.0
// The memories of both stations. Pure.
#include "plan/memory.h"

#include <math.h>
#include <stdio.h>

/* Four matrices of attention and two of the feed-forward network, of 2 bytes a number. */
double ft_plan_weight_bytes(uint32_t layers, double hidden, double ffn)
{
    return layers * (8 * hidden * hidden + 4 * hidden * ffn);
}

double ft_plan_token_bytes(uint32_t layers, double hidden)
{
    return 4.0 * layers * hidden;
}

double ft_plan_kv_tokens(const ft_plan_memory *m, const ft_plan_shape *batch, uint64_t kv_sum)
{
    return m->padded ? (double)batch->n * ((double)batch->in_max + batch->out_max) : (double)kv_sum;
}

static bool holds(const ft_plan_memory *m, const ft_plan_shape *batch, uint64_t kv_sum)
{
    return m->most_bytes == 0 ||
           m->model_bytes + m->token_bytes * ft_plan_kv_tokens(m, batch, kv_sum) <= m->most_bytes;
}

bool ft_plan_fits(const ft_plan_problem *p, uint32_t length, const ft_plan_shape *batch,
                  uint64_t kv_sum)
{
    return (p->batch_most == 0 || batch->n <= p->batch_most) &&
           (length == 0 || holds(&p->draft, batch, kv_sum)) && holds(&p->verify, batch, kv_sum);
}

static ft_status check(const ft_plan_problem *p, uint32_t k, const ft_plan_memory *m,
                       const char *station, ft_error *err)
{
    const ft_plan_task *t = &p->tasks[k];
    const ft_plan_shape alone = {
        .n = 1, .in_max = t->in_tok, .out_max = t->out_tok, .in_sum = t->in_tok};
    const double tokens = floor((m->most_bytes - m->model_bytes) / m->token_bytes);
    char number[32];
    if (holds(m, &alone, (uint64_t)t->in_tok + t->out_tok))
        return FT_OK;
    snprintf(number, sizeof number, "%u", k + 1);
    if (tokens < 2)
        return ft_error_set(err, FT_INVALID,
                            "the %s station's %.4g GB of memory do not hold its model, %.4g GB, "
                            "and a text",
                            station, m->most_bytes / 1e9, m->model_bytes / 1e9);
    return ft_error_set(err, FT_INVALID,
                        "task %.64s alone exceeds the %s station's %.4g GB of memory: %u tokens of "
                        "input and %u of output; %.0f together would fit",
                        t->id ? t->id : number, station, m->most_bytes / 1e9, t->in_tok, t->out_tok,
                        tokens);
}

ft_status ft_plan_memory_check(const ft_plan_problem *p, ft_error *err)
{
    ft_status status = FT_OK;
    for (uint32_t k = 0; k < p->n && status == FT_OK; k++) {
        if (p->length_most > 0)
            status = check(p, k, &p->draft, "draft", err);
        if (status == FT_OK)
            status = check(p, k, &p->verify, "verify", err);
    }
    return status;
}
