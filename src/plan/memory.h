/* SPDX-License-Identifier: Apache-2.0
 *
 * What a batch takes of the stations' memories, eq. (9), (10), (24b). Pure; any thread. */
#ifndef FT_PLAN_MEMORY_H
#define FT_PLAN_MEMORY_H

#include "plan/plan.h"

/* Bytes of weights of a decoder with 2 bytes a parameter, eq. (9), and of K and V of a token in it,
 * the factor of eq. (10). */
double ft_plan_weight_bytes(uint32_t layers, double hidden, double ffn);
double ft_plan_token_bytes(uint32_t layers, double hidden);

/* Tokens of KV that a batch takes: b (I_m + O_m) where tasks are padded, eq. (10). kv_sum: the
 * tokens of all inputs and outputs. */
double ft_plan_kv_tokens(const ft_plan_memory *m, const ft_plan_shape *batch, uint64_t kv_sum);
/* Whether the stations can hold the batch if `length` tokens are drafted a round, and it has not
 * too many tasks. */
bool ft_plan_fits(const ft_plan_problem *p, uint32_t length, const ft_plan_shape *batch,
                  uint64_t kv_sum);
/* FT_INVALID names a task that does not fit alone at any of the problem's lengths. */
FT_WARN_UNUSED ft_status ft_plan_memory_check(const ft_plan_problem *p, ft_error *err);

#endif
