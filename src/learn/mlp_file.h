/* SPDX-License-Identifier: Apache-2.0
 *
 * Perceptrons in JSON files: the fields "layers" (widths), "biases" and "weights" (a list for each
 * layer) of the object that a predictor or a policy is. Any thread. Inside the room. */
#ifndef FT_LEARN_MLP_FILE_H
#define FT_LEARN_MLP_FILE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"
#include "learn/mlp.h"

#define FT_MLP_VALUE_MAX 1e9 /* of any number in a file */

/* Which networks a reader takes. */
typedef struct ft_mlp_limits {
    uint32_t n_inputs, n_outputs;
    size_t params_max;
} ft_mlp_limits;

/* Adds the fields to an object. False: out of memory, or `object` is NULL. */
bool ft_mlp_write(const ft_mlp *mlp, json_t *object);

/* FT_INVALID names the field; FT_NOMEM. Nothing is allocated before the sizes are checked. *out
 * needs a deinit in any case. */
FT_WARN_UNUSED ft_status ft_mlp_read(const json_t *object, const ft_mlp_limits *limits,
                                     ft_error *err, ft_mlp *out);

#endif
