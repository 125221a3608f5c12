/* SPDX-License-Identifier: Apache-2.0
 *
 * What decides a text besides prompt, sampling, seed and rule: the target's weights and what
 * computes with them. Described in words (`kernels` of the wire's Info) and as a fingerprint
 * (`target`). Pure functions; any thread.
 */
#ifndef FT_ENGINE_TARGET_H
#define FT_ENGINE_TARGET_H

#include "engine/engine.h"
#include "model/model.h"

typedef struct ft_target {
    uint64_t weights; /* ft_fingerprints.weights */
    ft_model_products products;
    uint32_t n_gpu_layers; /* on devices */
    ft_kv_type kv_type;
    bool portable_attention;
} ft_target;

#define FT_TARGET_KERNELS 160
/* For example "packed q4_1 q8_0, kv f16": what multiplies (engine/products.h), then how K and V are
 * kept. */
void ft_target_kernels(const ft_target *target, char out[FT_TARGET_KERNELS]);
/* Never 0. It covers all fields, the words above, and the version of this program, with which
 * kernels and sampling may change; where ggml computes, also ggml's version and the processor's
 * instruction sets. Equal ones give the same text to the last bit, unless a device computes. */
uint64_t ft_target_fingerprint(const ft_target *target);

#endif
