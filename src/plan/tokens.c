// SPDX-License-Identifier: Apache-2.0
// How many tokens a round brings, and how many rounds a text takes. Pure.
#include <math.h>

#include "plan/plan.h"

#define X(id, name) [FT_PLAN_##id] = name,
const char *const ft_plan_algorithm_name[FT_PLAN_ALGORITHMS + 1] = {FT_PLAN_ALGORITHM_LIST(X)};
#undef X

/* Eq. (7) as the sum 1 + alpha + ... + alpha^l: it also holds for alpha = 1, and rounds less. */
double ft_plan_tokens(double acceptance, uint32_t length)
{
    double sum = 1, power = 1;
    for (uint32_t i = 0; i < length; i++)
        sum += power *= acceptance;
    return sum;
}

/* Eq. (8). A quotient that is whole but for rounding errors is taken as whole. */
uint32_t ft_plan_rounds(uint32_t out_tok, double tokens_per_round)
{
    return (uint32_t)ceil(out_tok / tokens_per_round * (1 - 1e-12));
}
