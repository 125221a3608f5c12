// SPDX-License-Identifier: Apache-2.0
// Products with packed weights as custom operators. Threads of ggml's pool enter an operator together
// and claim work from a counter that lies in front of the 8-bit rows; the operator that makes the rows
// sets it back, and ggml's barrier between operators orders the two. Stateless otherwise.
#include "engine/gemm.h"

#include <assert.h>
#include <stdatomic.h>

#include "engine/gemm_kernel.h"
#include "model/pack.h"

#define CLAIMS      4           /* a thread's share of the tiles is claimed in this many pieces */
#define CHUNK_BYTES (256 << 10) /* of rows at a time: half of a small second cache */

/* 8-bit rows in memory, which ggml aligns to 32 bytes and no more. Rows lie in groups of at most
 * FT_GEMM_GROUP, of sizes that differ by at most one; in a group, block by block: [group][n_in / 32]
 * [rows of the group]. */
typedef struct rows_head {
    atomic_uint next[FT_GEMM_READERS]; /* piece that each reader claims next */
} rows_head;

typedef struct groups {
    uint32_t n, rows, longer; /* the first `longer` groups have one row more than `rows` */
} groups;

static groups groups_of(uint32_t n_rows)
{
    uint32_t n = (n_rows + FT_GEMM_GROUP - 1) / FT_GEMM_GROUP;
    return (groups){n, n_rows / n, n_rows % n};
}

static uint32_t group_begin(const groups *g, uint32_t i)
{
    return i * g->rows + (i < g->longer ? i : g->longer);
}

static uint32_t group_rows(const groups *g, uint32_t i)
{
    return g->rows + (i < g->longer);
}

static ft_gemm_block *blocks_of(const struct ggml_tensor *rows)
{
    return (ft_gemm_block *)((rows_head *)rows->data + 1);
}

/* ---- making 8-bit rows ---- */

typedef struct maker {
    const struct ggml_tensor *x;
    const float *weight; /* norm's */
    float eps;
    bool swiglu;
} maker;

static void make_row(const maker *m, uint32_t row, uint32_t n_blocks, ft_gemm_block *out,
                     size_t stride)
{
    const ft_gemm_rounding *rounding = ft_gemm_kernel_best()->rounding;
    const float *x = (const float *)((const char *)m->x->data + row * m->x->nb[1]);
    if (m->weight)
        rounding->quantize_norm(x, m->weight, m->eps, n_blocks, out, stride);
    else if (m->swiglu)
        rounding->quantize_swiglu(x, x + (size_t)n_blocks * FT_PACK_BLOCK, n_blocks, out, stride);
    else
        rounding->quantize(x, n_blocks, out, stride);
}

static void make_rows(struct ggml_tensor *dst, int ith, int nth, const maker *m)
{
    uint32_t n_blocks = (uint32_t)(m->x->ne[0] / (m->swiglu ? 2 : 1) / FT_PACK_BLOCK);
    uint32_t n_rows = (uint32_t)m->x->ne[1], row = 0;
    groups g = groups_of(n_rows);
    if (ith == 0)
        for (int i = 0; i < FT_GEMM_READERS; i++)
            atomic_store_explicit(&((rows_head *)dst->data)->next[i], 0, memory_order_relaxed);
    for (uint32_t i = 0; i < g.n; i++) {
        ft_gemm_block *out = blocks_of(dst) + (size_t)group_begin(&g, i) * n_blocks;
        for (uint32_t r = 0; r < group_rows(&g, i); r++, row++)
            if ((int)(row % (uint32_t)nth) == ith)
                make_row(m, row, n_blocks, out + r, group_rows(&g, i));
    }
}

static void quantize_op(struct ggml_tensor *dst, int ith, int nth, void *userdata)
{
    make_rows(dst, ith, nth, &(maker){.x = dst->src[0]});
}

static void quantize_norm_op(struct ggml_tensor *dst, int ith, int nth, void *userdata)
{
    maker m = {.x = dst->src[0], .weight = dst->src[1]->data, .eps = *(const float *)userdata};
    make_rows(dst, ith, nth, &m);
}

static void quantize_swiglu_op(struct ggml_tensor *dst, int ith, int nth, void *userdata)
{
    make_rows(dst, ith, nth, &(maker){.x = dst->src[0], .swiglu = true});
}

static ft_gemm_rows add_rows(struct ggml_context *ctx, struct ggml_tensor **args, int n_args,
                             int64_t n_in, ggml_custom_op_t op, void *userdata)
{
    int64_t n_rows = args[0]->ne[1];
    int64_t bytes = (int64_t)sizeof(rows_head) +
                    n_rows * (n_in / FT_PACK_BLOCK) * (int64_t)sizeof(ft_gemm_block);
    assert(n_in % FT_PACK_BLOCK == 0 && args[0]->nb[0] == sizeof(float));
    return (ft_gemm_rows){.data = ggml_custom_4d(ctx, GGML_TYPE_I8, bytes, 1, 1, 1, args, n_args,
                                                 op, GGML_N_TASKS_MAX, userdata),
                          .n_in = (uint32_t)n_in,
                          .n_rows = (uint32_t)n_rows};
}

ft_gemm_rows ft_gemm_quantize(struct ggml_context *ctx, struct ggml_tensor *x)
{
    return add_rows(ctx, &x, 1, x->ne[0], quantize_op, NULL);
}

ft_gemm_rows ft_gemm_quantize_norm(struct ggml_context *ctx, struct ggml_tensor *x,
                                   struct ggml_tensor *weight, const float *eps)
{
    struct ggml_tensor *args[] = {x, weight};
    return add_rows(ctx, args, 2, x->ne[0], quantize_norm_op, (void *)eps);
}

ft_gemm_rows ft_gemm_quantize_swiglu(struct ggml_context *ctx, struct ggml_tensor *gate_up)
{
    return add_rows(ctx, &gate_up, 1, gate_up->ne[0] / 2, quantize_swiglu_op, NULL);
}

/* ---- multiplying ---- */

/* A product is done in chunks of rows that stay in a core's second cache while all tiles go by (a tile
 * stays in its first), and a chunk in pieces of tiles, which threads claim. */
typedef struct job {
    const struct ggml_tensor *dst;
    ft_gemm_tile_fn *multiply;
    groups groups;
    uint32_t groups_per_chunk;
    uint32_t n_tiles, tiles_per_piece, pieces; /* of a chunk */
} job;

static job job_of(const struct ggml_tensor *dst, uint32_t n_threads)
{
    size_t group_bytes =
        (size_t)dst->src[0]->ne[0] / FT_PACK_BLOCK * FT_GEMM_GROUP * sizeof(ft_gemm_block);
    uint32_t n = (uint32_t)(CHUNK_BYTES / group_bytes);
    job j = {.dst = dst,
             .multiply = ft_gemm_tile_best(dst->src[0]->type),
             .groups = groups_of((uint32_t)dst->ne[1]),
             .groups_per_chunk = n ? n : 1,
             .n_tiles = (uint32_t)(dst->ne[0] / FT_PACK_ROWS)};
    j.tiles_per_piece = n_threads == 1 ? j.n_tiles : j.n_tiles / (CLAIMS * n_threads);
    j.tiles_per_piece += j.tiles_per_piece == 0;
    j.pieces = (j.n_tiles + j.tiles_per_piece - 1) / j.tiles_per_piece;
    return j;
}

/* Groups [begin, end) with one tile of the weight: its 16 outputs. */
static void multiply_tile(const job *j, uint32_t tile, uint32_t begin, uint32_t end)
{
    const struct ggml_tensor *dst = j->dst, *w = dst->src[0], *res = dst->src[2];
    size_t tile_bytes = ft_pack_tile_bytes(w->type, w->ne[0]);
    const uint8_t *packed = (const uint8_t *)w->data + tile * tile_bytes;
    ft_gemm_tile t = {.weights = packed,
                      .n_blocks = (uint32_t)(w->ne[0] / FT_PACK_BLOCK),
                      .out_stride = dst->nb[1] / sizeof(float),
                      .residual_stride = res ? res->nb[1] / sizeof(float) : 0};
    for (uint32_t i = begin; i < end; i++) {
        size_t row = group_begin(&j->groups, i);
        t.n_rows = t.row_blocks = group_rows(&j->groups, i);
        t.rows = blocks_of(dst->src[1]) + row * t.n_blocks;
        t.out = (float *)dst->data + row * t.out_stride + (size_t)tile * FT_PACK_ROWS;
        if (res)
            t.residual =
                (const float *)res->data + row * t.residual_stride + (size_t)tile * FT_PACK_ROWS;
        t.ahead = i == begin && end - begin > 1 ? packed + tile_bytes : NULL;
        for (uint32_t r = 0; r < t.n_rows; r++) /* a store that misses holds up all behind it */
            __builtin_prefetch(t.out + r * t.out_stride, 1);
        j->multiply(&t);
    }
}

static void multiply_op(struct ggml_tensor *dst, int ith, int nth, void *userdata)
{
    rows_head *head = dst->src[1]->data;
    atomic_uint *next = &head->next[(uintptr_t)userdata];
    const job j = job_of(dst, (uint32_t)nth);
    for (;;) {
        uint32_t claim = atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
        uint32_t begin = claim / j.pieces * j.groups_per_chunk;
        if (begin >= j.groups.n)
            return;
        uint32_t left = j.groups.n - begin;
        uint32_t end = begin + (left < j.groups_per_chunk ? left : j.groups_per_chunk);
        uint32_t tile = claim % j.pieces * j.tiles_per_piece;
        for (uint32_t i = 0; i < j.tiles_per_piece && tile < j.n_tiles; i++, tile++)
            multiply_tile(&j, tile, begin, end);
    }
}

struct ggml_tensor *ft_gemm(struct ggml_context *ctx, struct ggml_tensor *weight,
                            ft_gemm_rows *rows, struct ggml_tensor *residual)
{
    struct ggml_tensor *args[] = {weight, rows->data, residual};
    assert(ft_is_packed(weight) && weight->ne[0] == rows->n_in);
    assert(rows->n_readers < FT_GEMM_READERS);
    return ggml_custom_4d(ctx, GGML_TYPE_F32, weight->ne[1], rows->n_rows, 1, 1, args,
                          residual ? 3 : 2, multiply_op, GGML_N_TASKS_MAX,
                          (void *)(uintptr_t)rows->n_readers++);
}
