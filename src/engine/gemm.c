// SPDX-License-Identifier: Apache-2.0
// Products with packed weights as custom operators. Threads of ggml's pool enter an operator
// together and claim work from counters in front of the rows. The operator that makes the rows
// resets the counters; ggml's barrier between operators orders the two. Otherwise stateless.
#include "engine/gemm.h"

#include <assert.h>
#include <stdatomic.h>

#include "engine/gemm_f.h"
#include "engine/gemm_kernel.h"
#include "ggml-backend.h"
#include "model/pack.h"

#define SHARES      8 /* at most; each is claimed from a counter of its own */
#define CLAIMS      4 /* a thread claims this part of what is left of a share, over its threads */
#define CHUNK_BYTES (256 << 10) /* bytes of rows in a chunk: half of a small L2 cache */
#define RANGE_UNITS 16 /* of a float row, for one thread: whole cache lines for any group size */

/* Rows in memory. (ggml aligns memory to 32 bytes and no more.) They are multiplied in groups of at
 * most as many as the kernel takes; group sizes differ by at most one. 8-bit rows are stored in
 * these groups, block by block: [group][n_in / 32][rows of the group]; float rows unit by unit
 * (gemm_f.h). */
typedef struct rows_head {
    /* The next piece for each reader. No two shares' counters are in one cache line. */
    struct {
        atomic_uint next[FT_GEMM_READERS];
        char apart[64 - FT_GEMM_READERS * sizeof(atomic_uint)];
    } shares[SHARES];
} rows_head;

typedef struct groups {
    uint32_t n, rows, longer; /* the first `longer` groups have one row more than `rows` */
} groups;

/* Groups of rows of a type: I8, F32 or BF16. */
static groups groups_of(enum ggml_type type, uint32_t n_rows)
{
    uint32_t most = ft_gemm_kernel_best(type == GGML_TYPE_I8 ? GGML_TYPE_Q8_0 : type)->group;
    uint32_t n = (n_rows + most - 1) / most;
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

static size_t row_bytes(enum ggml_type type, int64_t n_in)
{
    return type == GGML_TYPE_I8 ? (size_t)n_in / FT_PACK_BLOCK * sizeof(ft_gemm_block)
                                : ft_gemm_f_units(type, (uint32_t)n_in) * sizeof(uint32_t);
}

/* Float rows: where the units of a group start. */
static uint32_t *units_of(const struct ggml_tensor *rows, size_t n_units, uint32_t row)
{
    return (uint32_t *)((rows_head *)rows->data + 1) + row * n_units;
}

/* ---- making rows ---- */

enum ggml_type ft_gemm_rows_type(enum ggml_type weights)
{
    switch (weights) {
    case GGML_TYPE_BF16:
        return GGML_TYPE_BF16;
    case GGML_TYPE_F16:
    case GGML_TYPE_F32:
        return GGML_TYPE_F32;
    default:
        return GGML_TYPE_I8;
    }
}

typedef struct maker {
    const struct ggml_tensor *x;
    const float *weight; /* norm's */
    float eps;
    bool swiglu;
} maker;

/* Row number `row` of n_in values. */
static ft_gemm_f_row row_of(const maker *m, uint32_t row, uint32_t n_in)
{
    const float *x = (const float *)((const char *)m->x->data + row * m->x->nb[1]);
    return (ft_gemm_f_row){.x = x,
                           .weight = m->weight,
                           .factor = m->weight ? ft_gemm_f_rms_factor(x, n_in, m->eps) : 0,
                           .up = m->swiglu ? x + n_in : NULL};
}

/* Each thread writes a range of every row, because rows of a group share cache lines. */
static void make_float_rows(struct ggml_tensor *dst, int ith, int nth, const maker *m)
{
    uint32_t n_in = (uint32_t)(m->x->ne[0] / (m->swiglu ? 2 : 1));
    uint32_t n_units = (uint32_t)ft_gemm_f_units(dst->type, n_in);
    uint32_t lines = n_units / RANGE_UNITS + 1, n = (uint32_t)nth, i = (uint32_t)ith;
    ft_gemm_f_range range = {lines * i / n * RANGE_UNITS, lines * (i + 1) / n * RANGE_UNITS};
    range.end = range.end < n_units ? range.end : n_units;
    groups g = groups_of(dst->type, (uint32_t)m->x->ne[1]);
    for (uint32_t k = 0; k < g.n && range.begin < range.end; k++) {
        uint32_t first = group_begin(&g, k), n_rows = group_rows(&g, k);
        for (uint32_t r = 0; r < n_rows; r++) {
            ft_gemm_f_row row = row_of(m, first + r, n_in);
            ft_gemm_f_put(dst->type, &row, range, units_of(dst, n_units, first) + r, n_rows);
        }
    }
}

/* The rows of a group share cache lines. So threads divide blocks, and each writes a range of them
 * for every row of a group. */
static void make_8_bit_rows(struct ggml_tensor *dst, int ith, int nth, const maker *m)
{
    uint32_t n_blocks = (uint32_t)(m->x->ne[0] / (m->swiglu ? 2 : 1) / FT_PACK_BLOCK);
    uint32_t n_batches = (n_blocks + FT_GEMM_F_BLOCKS - 1) / FT_GEMM_F_BLOCKS;
    ft_gemm_quantize_fn *quantize = ft_gemm_kernel_best(GGML_TYPE_Q8_0)->quantize;
    groups g = groups_of(GGML_TYPE_I8, (uint32_t)m->x->ne[1]);
    uint64_t n = (uint64_t)g.n * n_batches, at = n * (uint32_t)ith / (uint32_t)nth;
    for (uint64_t end = n * (uint32_t)(ith + 1) / (uint32_t)nth; at < end;) {
        uint32_t i = (uint32_t)(at / n_batches), first = group_begin(&g, i);
        uint64_t last = (uint64_t)(i + 1) * n_batches < end ? (uint64_t)(i + 1) * n_batches : end;
        ft_gemm_f_range range = {(uint32_t)(at % n_batches) * FT_GEMM_F_BLOCKS,
                                 (uint32_t)(last - (uint64_t)i * n_batches) * FT_GEMM_F_BLOCKS};
        range.end = range.end < n_blocks ? range.end : n_blocks;
        for (uint32_t r = 0; r < group_rows(&g, i); r++) {
            ft_gemm_f_row row = row_of(m, first + r, n_blocks * FT_PACK_BLOCK);
            ft_gemm_f_quantize(quantize, &row, range, blocks_of(dst) + (size_t)first * n_blocks + r,
                               group_rows(&g, i));
        }
        at = last;
    }
}

static void make_rows(struct ggml_tensor *dst, int ith, int nth, const maker *m)
{
    if (ith == 0)
        for (int i = 0; i < SHARES * FT_GEMM_READERS; i++)
            atomic_store_explicit(
                &((rows_head *)dst->data)->shares[i / FT_GEMM_READERS].next[i % FT_GEMM_READERS], 0,
                memory_order_relaxed);
    if (dst->type == GGML_TYPE_I8)
        make_8_bit_rows(dst, ith, nth, m);
    else
        make_float_rows(dst, ith, nth, m);
}

static void make_op(struct ggml_tensor *dst, int ith, int nth, void *userdata)
{
    make_rows(dst, ith, nth, &(maker){.x = dst->src[0]});
}

static void make_norm_op(struct ggml_tensor *dst, int ith, int nth, void *userdata)
{
    maker m = {.x = dst->src[0], .weight = dst->src[1]->data, .eps = *(const float *)userdata};
    make_rows(dst, ith, nth, &m);
}

static void make_swiglu_op(struct ggml_tensor *dst, int ith, int nth, void *userdata)
{
    make_rows(dst, ith, nth, &(maker){.x = dst->src[0], .swiglu = true});
}

/* Adds the operator that makes rows of a type. */
typedef struct making {
    enum ggml_type type;
    int64_t n_in;
    ggml_custom_op_t op;
    void *userdata;
} making;

static ft_gemm_rows add_rows(struct ggml_context *ctx, struct ggml_tensor **args, int n_args,
                             const making *m)
{
    int64_t n_rows = args[0]->ne[1];
    size_t bytes = sizeof(rows_head) + (size_t)n_rows * row_bytes(m->type, m->n_in);
    int64_t n = (int64_t)((bytes - 1) / ggml_type_size(m->type) + 1);
    assert(m->n_in % (m->type == GGML_TYPE_I8 ? FT_PACK_BLOCK : 2) == 0 ||
           m->type == GGML_TYPE_F32);
    assert(args[0]->nb[0] == sizeof(float));
    return (ft_gemm_rows){.data = ggml_custom_4d(ctx, m->type, n, 1, 1, 1, args, n_args, m->op,
                                                 GGML_N_TASKS_MAX, m->userdata),
                          .n_in = (uint32_t)m->n_in,
                          .n_rows = (uint32_t)n_rows};
}

ft_gemm_rows ft_gemm_make(struct ggml_context *ctx, enum ggml_type type, struct ggml_tensor *x)
{
    return add_rows(ctx, &x, 1, &(making){type, x->ne[0], make_op, NULL});
}

ft_gemm_rows ft_gemm_make_norm(struct ggml_context *ctx, enum ggml_type type, struct ggml_tensor *x,
                               struct ggml_tensor *weight, const float *eps)
{
    struct ggml_tensor *args[] = {x, weight};
    return add_rows(ctx, args, 2, &(making){type, x->ne[0], make_norm_op, (void *)eps});
}

ft_gemm_rows ft_gemm_make_swiglu(struct ggml_context *ctx, enum ggml_type type,
                                 struct ggml_tensor *gate_up)
{
    return add_rows(ctx, &gate_up, 1, &(making){type, gate_up->ne[0] / 2, make_swiglu_op, NULL});
}

/* ---- multiplying ---- */

/* A product is computed in chunks of rows. A chunk stays in a core's L2 cache while tiles are
 * multiplied with it; a tile stays in L1.
 *
 * Tiles are divided into shares, one for each thread if there are not too many. A thread reads its
 * share from front to back. It claims tiles from the share's counter, fewer each time. When its
 * share is done, it helps with the others. So threads end within the time of a tile, and few claims
 * interrupt the work. */
typedef struct job {
    const struct ggml_tensor *dst;
    ft_gemm_tile_fn *multiply;
    groups groups;
    uint32_t groups_per_chunk;
    uint32_t n_tiles, n_shares;
    uint32_t claims;   /* a claim is at least one tile, and at most 1 / claims of what is left */
    ft_gemm_tile tile; /* what all tiles have in common */
    const ft_gemm_block *rows; /* 8-bit rows; NULL: float rows */
    size_t n_units;            /* of a float row */
} job;

static job job_of(const struct ggml_tensor *dst, uint32_t n_threads)
{
    enum ggml_type type = dst->src[0]->type;
    const ft_gemm_kernel *kernel = ft_gemm_kernel_best(type);
    size_t group_bytes = kernel->group * row_bytes(dst->src[1]->type, dst->src[0]->ne[0]);
    uint32_t n = (uint32_t)(CHUNK_BYTES / group_bytes);
    job j = {.dst = dst,
             .multiply = kernel->tile(type),
             .groups = groups_of(dst->src[1]->type, (uint32_t)dst->ne[1]),
             .groups_per_chunk = n ? n : 1,
             .n_tiles = (uint32_t)(dst->ne[0] / FT_PACK_ROWS),
             .n_shares = n_threads < SHARES ? n_threads : SHARES};
    j.claims = CLAIMS * ((n_threads - 1) / j.n_shares + 1);
    const struct ggml_tensor *w = dst->src[0], *res = dst->src[2];
    j.rows = dst->src[1]->type == GGML_TYPE_I8 ? blocks_of(dst->src[1]) : NULL;
    j.n_units = ft_gemm_f_units(dst->src[1]->type, (uint32_t)w->ne[0]);
    j.tile = (ft_gemm_tile){.n_in = (uint32_t)w->ne[0],
                            .n_blocks = (uint32_t)(w->ne[0] / FT_PACK_BLOCK),
                            .tile_bytes = ft_pack_tile_bytes(type, w->ne[0]),
                            .out_stride = dst->nb[1] / sizeof(float),
                            .residual_stride = res ? res->nb[1] / sizeof(float) : 0};
    return j;
}

/* Multiplies groups [begin, end) with n_tiles tiles of the weight: 16 outputs each. */
static void multiply_tiles(const job *j, uint32_t tile, uint32_t n_tiles, uint32_t begin,
                           uint32_t end)
{
    const struct ggml_tensor *dst = j->dst, *res = dst->src[2];
    ft_gemm_tile t = j->tile;
    t.weights = (const uint8_t *)dst->src[0]->data + tile * t.tile_bytes;
    t.n_tiles = n_tiles;
    for (uint32_t i = begin; i < end; i++) {
        size_t row = group_begin(&j->groups, i);
        t.n_rows = t.row_blocks = group_rows(&j->groups, i);
        if (j->rows)
            t.rows = j->rows + row * t.n_blocks;
        else
            t.units = units_of(dst->src[1], j->n_units, (uint32_t)row);
        t.out = (float *)dst->data + row * t.out_stride + (size_t)tile * FT_PACK_ROWS;
        if (res)
            t.residual =
                (const float *)res->data + row * t.residual_stride + (size_t)tile * FT_PACK_ROWS;
        t.prefetch = i == begin ? t.weights + t.tile_bytes : NULL;
        j->multiply(&t);
    }
}

/* Claims tiles of a share until none is left. */
static void multiply_share(const job *j, uint32_t share, atomic_uint *next)
{
    uint32_t first = j->n_tiles * share / j->n_shares;
    uint32_t n_tiles = j->n_tiles * (share + 1) / j->n_shares - first;
    uint32_t n = n_tiles * ((j->groups.n - 1) / j->groups_per_chunk + 1), at;
    /* Reading first: threads that come when all is done don't take the counter from each other. */
    while ((at = atomic_load_explicit(next, memory_order_relaxed)) < n) {
        uint32_t step = (n - at) / j->claims + ((n - at) < j->claims);
        at = atomic_fetch_add_explicit(next, step, memory_order_relaxed);
        for (uint32_t end = at + step < n ? at + step : n, run; at < end; at += run) {
            uint32_t begin = at / n_tiles * j->groups_per_chunk, left = j->groups.n - begin;
            uint32_t tile = at % n_tiles,
                     n_groups = left < j->groups_per_chunk ? left : j->groups_per_chunk;
            /* A tile stays in L1 for all groups of a chunk. */
            run = n_groups > 1 ? 1 : end - at < n_tiles - tile ? end - at : n_tiles - tile;
            multiply_tiles(j, first + tile, run, begin, begin + n_groups);
        }
    }
}

static void multiply_op(struct ggml_tensor *dst, int ith, int nth, void *userdata)
{
    rows_head *head = dst->src[1]->data;
    const job j = job_of(dst, (uint32_t)nth);
    uint32_t own = (uint32_t)ith * j.n_shares / (uint32_t)nth;
    for (uint32_t i = 0; i < j.n_shares; i++) {
        uint32_t share = (own + i) % j.n_shares;
        multiply_share(&j, share, &head->shares[share].next[(uintptr_t)userdata]);
    }
}

struct ggml_tensor *ft_gemm(struct ggml_context *ctx, struct ggml_tensor *weight,
                            ft_gemm_rows *rows, struct ggml_tensor *residual)
{
    struct ggml_tensor *args[] = {weight, rows->data, residual};
    assert(ft_is_packed(weight) && weight->ne[0] == rows->n_in);
    assert(rows->data->type == ft_gemm_rows_type(weight->type));
    assert(rows->n_readers < FT_GEMM_READERS);
    return ggml_custom_4d(ctx, GGML_TYPE_F32, weight->ne[1], rows->n_rows, 1, 1, args,
                          residual ? 3 : 2, multiply_op, GGML_N_TASKS_MAX,
                          (void *)(uintptr_t)rows->n_readers++);
}

/* ---- ggml's own product ---- */

/* True if ggml's product with these weights may round a row differently when other rows are in the
 * batch: its tiled kernels for floats, K-quants and plain IQ4_NL take over from some number of rows
 * on. */
static bool depends_on_batch(const struct ggml_tensor *w)
{
    ggml_backend_buffer_type_t place = ggml_backend_buffer_get_type(w->buffer);
    ggml_backend_dev_t device = ggml_backend_buft_get_device(place);
    if (device && ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU)
        return false; /* it may, but a row at a time would be no use of a device */
    switch (w->type) {
    case GGML_TYPE_Q8_0:
    case GGML_TYPE_Q4_0:
    case GGML_TYPE_Q4_1:
    case GGML_TYPE_Q5_0:
    case GGML_TYPE_Q5_1:
    case GGML_TYPE_MXFP4:
        return false;
    case GGML_TYPE_IQ4_NL: /* its repacked kernels do not; those are not the host's to read */
        return ggml_backend_buft_is_host(place);
    default:
        return true;
    }
}

struct ggml_tensor *ft_gemm_ggml(struct ggml_context *ctx, struct ggml_tensor *weight,
                                 struct ggml_tensor *x)
{
    if (!depends_on_batch(weight))
        return ggml_mul_mat(ctx, weight, x);
    struct ggml_tensor *rows = ggml_reshape_3d(ctx, x, x->ne[0], 1, x->ne[1]);
    struct ggml_tensor *y = ggml_mul_mat(ctx, weight, rows);
    return ggml_reshape_2d(ctx, y, y->ne[0], y->ne[2]);
}

/* ---- looking up ---- */

static void get_rows_op(struct ggml_tensor *dst, int ith, int nth, void *userdata)
{
    const struct ggml_tensor *w = dst->src[0];
    const int32_t *ids = dst->src[1]->data;
    (void)userdata;
    for (int64_t i = ith; i < dst->ne[1]; i += nth)
        ft_pack_get_row(w->type, w->ne[0], w->data, (size_t)ids[i],
                        (float *)((char *)dst->data + (size_t)i * dst->nb[1]));
}

struct ggml_tensor *ft_gemm_get_rows(struct ggml_context *ctx, struct ggml_tensor *weight,
                                     struct ggml_tensor *ids)
{
    struct ggml_tensor *args[] = {weight, ids};
    assert(ft_is_packed(weight) && ft_pack_has_rows(weight->type));
    return ggml_custom_4d(ctx, GGML_TYPE_F32, weight->ne[0], ids->ne[0], 1, 1, args, 2, get_rows_op,
                          GGML_N_TASKS_MAX, NULL);
}
