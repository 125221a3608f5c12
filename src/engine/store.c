// SPDX-License-Identifier: Apache-2.0
// The memory behind the KV pool. Owned by the engine's thread. It is reserved whole at creation;
// the system provides a page when it is first written. (A device's memory is cleared, because
// padding can gather any of it and must find finite numbers.)
//
// Invariants of the collected moves: no slot is the destination of two moves. A source means the
// contents before all moves, so that all can be read first and then all written.
#include "engine/store.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/attn_layout.h"

#define BLOCK     FT_KV_BLOCK_TOK
#define MOVES_MAX 4096 /* most collected moves; then they are flushed early */

static const enum ggml_type ggml_type_of[] = {
    [FT_KV_F16] = GGML_TYPE_F16, [FT_KV_BF16] = GGML_TYPE_BF16, [FT_KV_Q8_0] = GGML_TYPE_Q8_0};

const char *ft_kv_type_name(ft_kv_type type)
{
    return ggml_type_name(ggml_type_of[type]);
}

/* ---- memory ---- */

bool ft_kv_store_is_tiled(const ft_kv_store *store, uint32_t layer)
{
    return !store->all_rows && ft_model_where_layer(store->model, layer) == 0;
}

static struct ggml_tensor *new_rows(const ft_kv_store *store, struct ggml_context *ctx)
{
    return ggml_new_tensor_2d(ctx, ggml_type_of[store->type],
                              (int64_t)store->n_head_kv * store->head_dim,
                              (int64_t)store->n_blocks * BLOCK);
}

/* A session's blocks are all over the pool. With pages of 4 KB each block costs a page-table walk.
 * With huge pages passes at 512 positions were 6 % faster with 8 rows, and 10 % with single rows,
 * in an older layout. */
static void ask_for_huge_pages(ggml_backend_buffer_t buffer)
{
    const uintptr_t huge = 2u << 20;
    uintptr_t begin = (uintptr_t)ggml_backend_buffer_get_base(buffer);
    uintptr_t end = (begin + ggml_backend_buffer_get_size(buffer)) / huge * huge;
    begin = (begin + huge - 1) / huge * huge;
    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* a hint */
}

static uint32_t layers_at(const ft_kv_store *store, uint32_t place)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < store->n_layer; i++)
        n += ft_model_where_layer(store->model, i) == place;
    return n;
}

static bool allocate(ft_kv_part *part, ggml_backend_t backend)
{
    part->buffer = part->ctx ? ggml_backend_alloc_ctx_tensors(part->ctx, backend) : NULL;
    return part->buffer != NULL;
}

static struct ggml_context *new_context(size_t n_tensors)
{
    return ggml_init((struct ggml_init_params){.mem_size = ggml_tensor_overhead() * n_tensors,
                                               .no_alloc = true});
}

/* K and V of a block lie together for all layers. The system clears a page before a program gets
 * it. So a short text should need few huge pages. If each layer had its own memory, the first block
 * would take two huge pages in each layer. */
static bool make_tiles(ft_kv_store *store, ft_kv_part *part, uint32_t n_layers)
{
    store->half_bytes = ft_attn_page_bytes(store->type, store->head_dim) * store->n_head_kv;
    store->block_bytes = 2 * store->half_bytes * n_layers;
    if (store->n_blocks > INT64_MAX / store->block_bytes)
        return false;
    part->ctx = new_context(1);
    struct ggml_tensor *all =
        part->ctx ? ggml_new_tensor_1d(part->ctx, GGML_TYPE_I8,
                                       (int64_t)(store->block_bytes * store->n_blocks))
                  : NULL;
    if (!allocate(part, store->backends->at[0]))
        return false;
    char *at = all->data;
    for (uint32_t i = 0; i < store->n_layer; i++)
        if (ft_kv_store_is_tiled(store, i)) {
            store->tiles[i] = at;
            at += 2 * store->half_bytes;
        }
    ask_for_huge_pages(part->buffer);
    store->any_tiled = true;
    return true;
}

static bool make_rows(ft_kv_store *store, ft_kv_part *part, uint32_t place)
{
    ggml_backend_t backend = store->backends->at[place];
    part->ctx = new_context(2 * (size_t)store->n_layer);
    for (uint32_t i = 0; i < store->n_layer && part->ctx; i++)
        if (ft_model_where_layer(store->model, i) == place) {
            store->k[i] = new_rows(store, part->ctx);
            store->v[i] = new_rows(store, part->ctx);
        }
    if (!allocate(part, backend))
        return false;
    if (place)
        ggml_backend_buffer_clear(part->buffer, 0);
    else
        ask_for_huge_pages(part->buffer);
    store->any_rows = true;
    part->galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    return part->galloc != NULL;
}

static bool make_part(ft_kv_store *store, uint32_t place)
{
    const uint32_t n_layers = layers_at(store, place);
    if (n_layers == 0)
        return true;
    return place == 0 && !store->all_rows ? make_tiles(store, &store->part[place], n_layers)
                                          : make_rows(store, &store->part[place], place);
}

ft_status ft_kv_store_init(ft_kv_store *store, const ft_kv_store_opts *opts)
{
    const ft_hparams *hp = ft_model_hparams(opts->model);
    *store = (ft_kv_store){.model = opts->model,
                           .backends = opts->backends,
                           .all_rows = opts->all_rows,
                           .type = opts->kv_type,
                           .n_layer = hp->n_layer,
                           .n_head_kv = hp->n_head_kv,
                           .head_dim = hp->head_dim,
                           .n_blocks = opts->n_blocks};
    store->k = calloc(hp->n_layer, sizeof(struct ggml_tensor *));
    store->v = calloc(hp->n_layer, sizeof(struct ggml_tensor *));
    store->tiles = calloc(hp->n_layer, sizeof *store->tiles);
    bool ok = store->k && store->v && store->tiles;
    for (uint32_t place = 0; place < opts->backends->n && ok; place++)
        ok = make_part(store, place);
    if (ok && store->any_rows) {
        store->moves = malloc(MOVES_MAX * sizeof *store->moves);
        store->move_of = calloc((size_t)opts->n_blocks * BLOCK, sizeof *store->move_of);
        store->from = malloc(MOVES_MAX * sizeof *store->from);
        store->to = malloc(MOVES_MAX * sizeof *store->to);
        ok = store->moves && store->move_of && store->from && store->to;
    }
    if (ok)
        return FT_OK;
    ft_kv_store_deinit(store);
    return FT_NOMEM;
}

void ft_kv_store_deinit(ft_kv_store *store)
{
    for (uint32_t i = 0; i < FT_PLACES_MAX; i++) {
        ggml_gallocr_free(store->part[i].galloc);
        ggml_backend_buffer_free(store->part[i].buffer);
        ggml_free(store->part[i].ctx);
    }
    free(store->k);
    free(store->v);
    free(store->tiles);
    free(store->moves);
    free(store->move_of);
    free(store->from);
    free(store->to);
    *store = (ft_kv_store){0};
}

bool ft_kv_store_type_works(const ft_kv_store *store)
{
    struct ggml_init_params params = {.mem_size = 8 * ggml_tensor_overhead(), .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    if (!ctx)
        return false;
    int64_t width = (int64_t)store->n_head_kv * store->head_dim;
    struct ggml_tensor *pool = ggml_new_tensor_2d(ctx, ggml_type_of[store->type], width, BLOCK);
    struct ggml_tensor *read = ggml_get_rows(ctx, pool, ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 1));
    struct ggml_tensor *write =
        ggml_set_rows(ctx, pool, read, ggml_new_tensor_1d(ctx, GGML_TYPE_I64, 1));
    bool works = true;
    for (uint32_t i = 0; i < store->n_layer && works; i++) {
        ggml_backend_t backend = store->backends->at[ft_model_where_layer(store->model, i)];
        works = ft_kv_store_is_tiled(store, i) || (ggml_backend_supports_op(backend, read) &&
                                                   ggml_backend_supports_op(backend, write));
    }
    ggml_free(ctx);
    return works;
}

size_t ft_kv_store_bytes_on(const ft_kv_store *store, uint32_t place)
{
    ggml_backend_buffer_t buffer = store->part[place].buffer;
    return buffer ? ggml_backend_buffer_get_size(buffer) : 0;
}

size_t ft_kv_store_bytes(const ft_kv_store *store)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < FT_PLACES_MAX; i++)
        bytes += ft_kv_store_bytes_on(store, i);
    return bytes;
}

/* ---- moves ---- */

static void move_tiled(const ft_kv_store *store, uint32_t layer, ft_kv_move m)
{
    const size_t page = ft_attn_page_bytes(store->type, store->head_dim);
    char *const from = store->tiles[layer] + (size_t)(m.src / BLOCK) * store->block_bytes;
    char *const to = store->tiles[layer] + (size_t)(m.dst / BLOCK) * store->block_bytes;
    for (uint32_t h = 0; h < 2 * store->n_head_kv; h++) /* K's pages, then V's */
        ft_attn_token_copy(store->type, store->head_dim, h >= store->n_head_kv,
                           (ft_attn_token){to + h * page, m.dst % BLOCK},
                           (ft_attn_token){from + h * page, m.src % BLOCK});
}

/* Adds a move that happens after the collected ones. */
static void collect(ft_kv_store *store, ft_kv_move m)
{
    if (store->n_moves == MOVES_MAX && ft_kv_store_flush(store) != FT_OK) {
        store->failed = true;
        return;
    }
    if (store->move_of[m.src])
        m.src = store->moves[store->move_of[m.src] - 1].src;
    if (!store->move_of[m.dst])
        store->move_of[m.dst] = ++store->n_moves;
    store->moves[store->move_of[m.dst] - 1] = m;
}

void ft_kv_store_move(void *ctx, const ft_kv_move *moves, uint32_t n)
{
    ft_kv_store *store = ctx;
    for (uint32_t layer = 0; layer < store->n_layer && store->any_tiled; layer++)
        for (uint32_t i = 0; i < n && ft_kv_store_is_tiled(store, layer); i++)
            move_tiled(store, layer, moves[i]);
    for (uint32_t i = 0; i < n && store->any_rows; i++)
        collect(store, moves[i]);
}

static struct ggml_tensor *move_rows(struct ggml_context *ctx, struct ggml_tensor *pool,
                                     struct ggml_tensor *src, struct ggml_tensor *dst)
{
    /* Converts to F32 and back. F32 holds every F16 and BF16 number exactly. Q8_0 gives the same
     * bytes again: the largest value of a group stays 127 times its scale. */
    return ggml_set_rows(ctx, pool, ggml_get_rows(ctx, pool, src), dst);
}

/* Carries out all moves in the layers of one place, as one graph. *begun: K and V may have
 * changed. */
static ft_status flush_part(ft_kv_store *store, uint32_t place, bool *begun)
{
    ft_kv_part *part = &store->part[place];
    size_t n_nodes = 4 * (size_t)store->n_layer + 8;
    struct ggml_init_params params = {.mem_size = n_nodes * ggml_tensor_overhead() +
                                                  ggml_graph_overhead_custom(n_nodes, false),
                                      .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    ft_status status = FT_NOMEM;
    if (!ctx)
        return FT_NOMEM;
    struct ggml_cgraph *graph = ggml_new_graph_custom(ctx, n_nodes, false);
    struct ggml_tensor *src = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, store->n_moves);
    struct ggml_tensor *dst = ggml_new_tensor_1d(ctx, GGML_TYPE_I64, store->n_moves);
    ggml_set_input(src);
    ggml_set_input(dst);
    for (uint32_t i = 0; i < store->n_layer; i++) {
        if (ft_model_where_layer(store->model, i) != place)
            continue;
        ggml_build_forward_expand(graph, move_rows(ctx, store->k[i], src, dst));
        ggml_build_forward_expand(graph, move_rows(ctx, store->v[i], src, dst));
    }
    if (!ggml_gallocr_alloc_graph(part->galloc, graph))
        goto out;
    for (uint32_t i = 0; i < store->n_moves; i++) {
        store->from[i] = (int32_t)store->moves[i].src;
        store->to[i] = store->moves[i].dst;
    }
    ggml_backend_tensor_set(src, store->from, 0, store->n_moves * sizeof *store->from);
    ggml_backend_tensor_set(dst, store->to, 0, store->n_moves * sizeof *store->to);
    *begun = true;
    status = ft_backends_compute(store->backends, place, graph) == GGML_STATUS_SUCCESS
                 ? FT_OK
                 : FT_INTERNAL;
out:
    ggml_free(ctx);
    return status;
}

ft_status ft_kv_store_flush(ft_kv_store *store)
{
    ft_status status = store->failed ? FT_INTERNAL : FT_OK;
    bool begun = false;
    for (uint32_t i = 0; i < FT_PLACES_MAX && store->n_moves && status == FT_OK; i++)
        if (store->part[i].galloc)
            status = flush_part(store, i, &begun);
    if (status != FT_OK && begun) {
        store->failed = true; /* done twice, the moves would copy what they have overwritten */
        status = FT_INTERNAL;
    }
    if (status != FT_OK)
        return status;
    for (uint32_t i = 0; i < store->n_moves; i++)
        store->move_of[store->moves[i].dst] = 0;
    store->n_moves = 0;
    return FT_OK;
}
