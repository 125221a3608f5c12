// SPDX-License-Identifier: Apache-2.0
// The memory behind the KV pool. Owned by the engine's thread. Reserved whole at creation; the system
// hands out its pages when they are first written.
#include "engine/store.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK FT_KV_BLOCK_TOK

static struct ggml_tensor *new_tensor(const ft_kv_store *store)
{
    int64_t row = (int64_t)store->n_head_kv * store->head_dim;
    int64_t slots = (int64_t)store->n_blocks * BLOCK;
    if (store->tiled)
        return ggml_new_tensor_1d(store->ctx, GGML_TYPE_F16, row * slots);
    return ggml_new_tensor_2d(store->ctx, GGML_TYPE_F16, row, slots);
}

ft_status ft_kv_store_init(ft_kv_store *store, const ft_kv_store_opts *opts)
{
    *store = (ft_kv_store){.tiled = opts->tiled,
                           .n_layer = opts->n_layer,
                           .n_head_kv = opts->n_head_kv,
                           .head_dim = opts->head_dim,
                           .n_blocks = opts->n_blocks};
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * 2 * opts->n_layer,
                                      .no_alloc = true};
    store->k = calloc(opts->n_layer, sizeof(struct ggml_tensor *));
    store->v = calloc(opts->n_layer, sizeof(struct ggml_tensor *));
    store->row = malloc((size_t)opts->n_head_kv * opts->head_dim * sizeof(uint16_t));
    store->ctx = ggml_init(params);
    if (!store->k || !store->v || !store->row || !store->ctx)
        goto fail;
    for (uint32_t i = 0; i < opts->n_layer; i++) {
        store->k[i] = new_tensor(store);
        store->v[i] = new_tensor(store);
    }
    store->buffer = ggml_backend_alloc_ctx_tensors(store->ctx, opts->backend);
    if (!store->buffer)
        goto fail;
    return FT_OK;
fail:
    ft_kv_store_deinit(store);
    return FT_NOMEM;
}

void ft_kv_store_deinit(ft_kv_store *store)
{
    ggml_backend_buffer_free(store->buffer);
    ggml_free(store->ctx);
    free(store->k);
    free(store->v);
    free(store->row);
    *store = (ft_kv_store){0};
}

size_t ft_kv_store_bytes(const ft_kv_store *store)
{
    return store->buffer ? ggml_backend_buffer_get_size(store->buffer) : 0;
}

static void move_tiled(const ft_kv_store *store, uint32_t layer, ft_kv_move m)
{
    uint32_t dim = store->head_dim, src = m.src % BLOCK, dst = m.dst % BLOCK;
    size_t page = (size_t)dim * BLOCK;
    for (uint32_t h = 0; h < store->n_head_kv; h++) {
        size_t from = ((size_t)(m.src / BLOCK) * store->n_head_kv + h) * page;
        size_t to = ((size_t)(m.dst / BLOCK) * store->n_head_kv + h) * page;
        uint16_t *k = store->k[layer]->data, *v = store->v[layer]->data;
        for (uint32_t d = 0; d < dim; d++)
            k[to + (size_t)d * BLOCK + dst] = k[from + (size_t)d * BLOCK + src];
        memcpy(v + to + (size_t)dst * dim, v + from + (size_t)src * dim, dim * sizeof *v);
    }
}

static void move_row(const ft_kv_store *store, struct ggml_tensor *t, ft_kv_move m)
{
    ggml_backend_tensor_get(t, store->row, m.src * t->nb[1], t->nb[1]);
    ggml_backend_tensor_set(t, store->row, m.dst * t->nb[1], t->nb[1]);
}

void ft_kv_store_move(void *ctx, const ft_kv_move *moves, uint32_t n)
{
    const ft_kv_store *store = ctx;
    for (uint32_t layer = 0; layer < store->n_layer; layer++)
        for (uint32_t i = 0; i < n; i++) {
            if (store->tiled) {
                move_tiled(store, layer, moves[i]);
            } else {
                move_row(store, store->k[layer], moves[i]);
                move_row(store, store->v[layer], moves[i]);
            }
        }
}
