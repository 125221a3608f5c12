/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory behind the KV pool: K and V of every layer, f16. Two layouts: tiled, for our CPU kernel
 * (attn.h), and rows [slot][n_head_kv * head_dim], for ggml's operators on any backend.
 */
#ifndef FT_ENGINE_STORE_H
#define FT_ENGINE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/kv.h"
#include "ggml-backend.h"
#include "ggml.h"

typedef struct ft_kv_store {
    bool tiled;
    uint32_t n_layer, n_head_kv, head_dim, n_blocks;
    struct ggml_tensor **k,
        **v; /* [n_layer], tiled: [elements], rows: [n_head_kv * head_dim, slots] */
    struct ggml_context *ctx;
    ggml_backend_buffer_t buffer;
    void *row; /* one row, for moves */
} ft_kv_store;

typedef struct ft_kv_store_opts {
    ggml_backend_t backend; /* tiled: must hold host memory */
    bool tiled;
    uint32_t n_layer, n_head_kv, head_dim, n_blocks;
} ft_kv_store_opts;

/* FT_NOMEM; then nothing is owed. */
FT_WARN_UNUSED ft_status ft_kv_store_init(ft_kv_store *store, const ft_kv_store_opts *opts);
void ft_kv_store_deinit(ft_kv_store *store);
size_t ft_kv_store_bytes(const ft_kv_store *store);
/* For ft_kv.move; ctx is the store. */
void ft_kv_store_move(void *ctx, const ft_kv_move *moves, uint32_t n);

#endif
