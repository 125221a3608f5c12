// SPDX-License-Identifier: Apache-2.0
// The target in words and as a number. No state. Does not read the weights (model/fingerprint.c).
#include "engine/target.h"

#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/secret.h"
#include "engine/products.h"
#include "ggml.h"

void ft_target_kernels(const ft_target *t, char out[FT_TARGET_KERNELS])
{
    char products[FT_PRODUCTS_TEXT];
    const bool unit = t->kv_type == FT_KV_BF16 && ft_cpu_get()->bf16;
    ft_products_text(&t->products, products);
    snprintf(out, FT_TARGET_KERNELS, "%s, kv %s%s%s", products, ft_kv_type_name(t->kv_type),
             unit ? " by bf16 unit" : "", t->portable_attention ? ", attention ggml" : "");
}

/* The NUL keeps neighbours apart. */
static uint64_t add_text(uint64_t hash, const char *text)
{
    return ft_fnv64(hash, text, strlen(text) + 1);
}

uint64_t ft_target_fingerprint(const ft_target *t)
{
    char kernels[FT_TARGET_KERNELS];
    ft_target_kernels(t, kernels);
    uint64_t hash = ft_fnv64(FT_FNV64_INIT, &t->weights, sizeof t->weights);
    hash = ft_fnv64(hash, &t->n_gpu_layers, sizeof t->n_gpu_layers);
    hash = add_text(hash, kernels);
    hash = add_text(hash, FT_VERSION);
    if (t->products.by_ggml || t->portable_attention) {
        hash = add_text(add_text(hash, ggml_version()), ggml_commit());
        hash = ft_fnv64(hash, ft_cpu_get(), sizeof *ft_cpu_get());
    }
    return hash + (hash == 0);
}
