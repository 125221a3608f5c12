/* SPDX-License-Identifier: Apache-2.0
 *
 * libllama on the same file, as the oracle and the alternative that benchmarks compare with. Owned by
 * one thread.
 */
#ifndef FT_CMD_ORACLE_H
#define FT_CMD_ORACLE_H

#include <stdint.h>

#include "base/status.h"

typedef struct ft_oracle ft_oracle;

/* Loads the model with libllama's defaults (repacked weights, flash attention as it chooses). n_ctx:
 * tokens of the one sequence. FT_IO where libllama refuses the file. */
FT_WARN_UNUSED ft_status ft_oracle_create(const char *path, uint32_t n_ctx, int n_threads,
                                          ft_error *err, ft_oracle **out);
void ft_oracle_destroy(ft_oracle *oracle);

/* Greedy continuation of prompt [n_prompt]: at most n tokens into out, fewer where an
 * end-of-generation token comes (not written). *n_out: how many. */
FT_WARN_UNUSED ft_status ft_oracle_greedy(ft_oracle *oracle, const int32_t *prompt,
                                          uint32_t n_prompt, uint32_t n, ft_error *err,
                                          int32_t *out, uint32_t *n_out);

#endif
