/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of a prediction came true. A pure function of both texts: it does not depend on what was
 * drafted.
 */
#ifndef FT_SPEC_PREDICTION_H
#define FT_SPEC_PREDICTION_H

#include <stdint.h>

#include "base/status.h"

/* *came: how many of the prediction's tokens [n] are in the answer [n_answer], in passages of two
 * tokens or more; at the beginning and after such a passage one token suffices. Takes time in
 * proportion to both. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_prediction_came(const int32_t *prediction, uint32_t n,
                                            const int32_t *answer, uint32_t n_answer, ft_error *err,
                                            uint32_t *came);

#endif
