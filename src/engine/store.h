/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory behind the KV pool: K and V of every layer, at the place of the layer's weights. There
 * are two layouts: tiled, for our CPU kernel, [block][layer][K, V][n_head_kv] pages of
 * attn_layout.h; and rows [slot][n_head_kv * head_dim], for ggml's operators on any backend. Both
 * take exactly the bytes of the type.
 *
 * Moves of rows are collected first, because the memory may be on a device. ft_kv_store_flush
 * carries them out before every pass, in one small graph for each backend.
 */
#ifndef FT_ENGINE_STORE_H
#define FT_ENGINE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/backends.h"
#include "engine/engine.h"
#include "engine/kv.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

/* K and V of the layers at one place. */
typedef struct ft_kv_part {
    struct ggml_context *ctx;
    ggml_backend_buffer_t buffer;
    ggml_gallocr_t galloc; /* of the graph that moves rows; NULL: no layer here has rows */
} ft_kv_part;

typedef struct ft_kv_store {
    const ft_model *model;
    const ft_backends *backends;
    bool all_rows;
    ft_kv_type type;
    uint32_t n_layer, n_head_kv, head_dim, n_blocks;
    struct ggml_tensor **k, **v; /* [n_layer] [n_head_kv * head_dim, slots]; tiled: NULL */
    char **tiles;                /* [n_layer] K of a tiled layer in the first block; rows: NULL */
    size_t half_bytes;           /* of K in a block of a layer; V lies behind it, and is as large */
    size_t block_bytes;          /* of a block: from its K to that of the next block */
    ft_kv_part part[FT_PLACES_MAX]; /* by place */
    bool any_rows, any_tiled;
    /* [n_moves] collected moves of rows: no dst twice, src as before all of them */
    ft_kv_move *moves;
    uint32_t *move_of; /* [slots] 1 + the number of the move to this slot; 0: none */
    uint32_t n_moves;
    int32_t *from; /* scratch space of a flush, as long as `moves` */
    int64_t *to;
    bool failed; /* a flush failed half-way: the pool's contents are no longer valid */
} ft_kv_store;

typedef struct ft_kv_store_opts {
    const ft_model *model;       /* borrowed */
    const ft_backends *backends; /* borrowed */
    bool all_rows;               /* rows also for the layers on the CPU */
    ft_kv_type kv_type;
    uint32_t n_blocks;
} ft_kv_store_opts;

/* FT_NOMEM: nothing needs a deinit then. */
FT_WARN_UNUSED ft_status ft_kv_store_init(ft_kv_store *store, const ft_kv_store_opts *opts);
void ft_kv_store_deinit(ft_kv_store *store);
/* Whether a layer is tiled. */
bool ft_kv_store_is_tiled(const ft_kv_store *store, uint32_t layer);
/* Whether the backends that hold rows can write and read rows of their type. */
bool ft_kv_store_type_works(const ft_kv_store *store);
/* Bytes at one place; in total. */
size_t ft_kv_store_bytes_on(const ft_kv_store *store, uint32_t place);
size_t ft_kv_store_bytes(const ft_kv_store *store);
/* For ft_kv.move; ctx is the store. */
void ft_kv_store_move(void *ctx, const ft_kv_move *moves, uint32_t n);
/* Carries out the collected moves. Call it before K or V are read or written. FT_NOMEM: nothing
 * was moved, and it can be called again. FT_INTERNAL: the moves failed half-way; every later call
 * fails, too. */
FT_WARN_UNUSED ft_status ft_kv_store_flush(ft_kv_store *store);

#endif
