/* SPDX-License-Identifier: Apache-2.0
 * Writes a GGUF file in another weight type, through libllama. */
#ifndef FT_MODEL_QUANTIZE_H
#define FT_MODEL_QUANTIZE_H

#include "base/status.h"

/* type: "iq4_nl", "q4_0", "q8_0", "bf16", ... (any case). Requantizing quantized files is allowed.
 * Blocks until done. n_threads <= 0: all cores. FT_INVALID lists the known types. */
FT_WARN_UNUSED ft_status ft_model_quantize(const char *in, const char *out, const char *type,
                                           int n_threads, ft_error *err);

#endif
