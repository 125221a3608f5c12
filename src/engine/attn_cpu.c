// SPDX-License-Identifier: Apache-2.0
// Tree attention on the CPU: splits a batch into units of work (segment, KV head, a few rows), and
// runs a unit tile by tile over the block table through a kernel's inner loops. A block of K or V is
// loaded once for all rows and grouped query heads of a unit.
//
// How a unit finds its keys. Positions below n_past, and those of a plain chain, lie in slots in order
// of position: their blocks are read directly, for all rows of the unit at once. What a tree's row
// sees behind n_past is scattered: scores of the whole tail are computed in order of slot, then
// gathered by each row's ancestors into order of position; V is read row by row through a list of
// addresses in order of position. Both ways give the same bits (attn.h).
//
// Few units on many threads (one long session): a unit is split into runs of tiles, their results
// are kept apart in `parts`, and whoever finishes last folds them in order.
//
// ft_attn_plan belongs to the engine's thread between passes; during a pass each thread writes its
// own scratch and, in split mode, its own parts. No allocation after creation.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/attn_kernel.h"
#include "engine/f16.h"

#define BLOCK           FT_KV_BLOCK_TOK
#define TILE_BLOCKS     (FT_ATTN_TILE / BLOCK)
#define TAIL_MAX        (FT_PENDING_MAX + BLOCK) /* slots of a tree and of the block it begins in */
#define TILES_PER_PART  2
#define PARTS_MAX_BYTES (16u << 20) /* above: no split; enough for 32k positions on 64 threads */

/* A row's part of a sequence: rows [row0, row0 + n_rows) of the batch. */
typedef struct chunk {
    uint32_t seg, row0, n_rows;
} chunk;

typedef struct scratch {
    float *q;       /* [dim, nq] */
    float *s;       /* [nq, TILE] */
    float *tail;    /* [nq, TAIL_MAX] scores in order of slot */
    float *acc;     /* [nq, dim] of a tile */
    float *total;   /* [nq, dim] */
    float *sum;     /* [nq, 16] of the total */
    float *max;     /* [nq] */
    float *head;    /* [dim] */
    uint16_t *path; /* [rows, FT_PENDING_MAX] pending nodes from the root to the row */
} scratch;

struct ft_attn_plan {
    ft_attn_geometry geo;
    float q_scale;                             /* 1 / sqrt(dim), and to powers of two */
    uint32_t group, sub, n_sub, rows_per_unit; /* query heads a KV head; of them in a unit */
    uint32_t n_threads, max_rows;
    const ft_attn_batch *batch;
    chunk *chunks; /* [max_rows] */
    uint32_t n_chunks;
    bool split;
    uint32_t n_parts, n_tiles; /* of the longest chunk; split mode only */
    float *parts;              /* [unit, tile, nq, 1 + 16 + dim] */
    atomic_uint *done;         /* [units in split mode], parts finished */
    uint32_t max_split_units;
    scratch *scratch; /* [n_threads] */
    void *memory;
    size_t bytes;
};

typedef struct unit {
    const ft_attn_layer *layer;
    const ft_attn_seg *seg;
    const ft_attn_kernel *kernel;
    uint32_t row0, n_rows, node0;
    uint32_t head_kv, head0, n_heads, nq;
    uint32_t n_past, n_pos; /* positions below n_pos are seen by some row */
    bool linear;            /* all rows see slots in order of position */
    uint32_t shared;        /* leading positions that all rows see in the same slots */
    uint32_t tail0;         /* first position whose slot may be out of order; a block's first */
} unit;

/* ---- creation ---- */

static size_t aligned(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* Memory handed out front to back; with no base, only counted. */
typedef struct carver {
    char *base;
    size_t used;
} carver;

static void *carve(carver *c, size_t bytes)
{
    void *p = c->base ? c->base + c->used : NULL;
    c->used += aligned(bytes);
    return p;
}

static void scratch_carve(scratch *s, carver *c, uint32_t dim, uint32_t rows)
{
    s->q = carve(c, sizeof(float) * FT_ATTN_NQ * dim);
    s->s = carve(c, sizeof(float) * FT_ATTN_NQ * FT_ATTN_TILE);
    s->tail = carve(c, sizeof(float) * FT_ATTN_NQ * TAIL_MAX);
    s->acc = carve(c, sizeof(float) * FT_ATTN_NQ * dim);
    s->total = carve(c, sizeof(float) * FT_ATTN_NQ * dim);
    s->sum = carve(c, sizeof(float) * FT_ATTN_NQ * 16);
    s->max = carve(c, sizeof(float) * FT_ATTN_NQ);
    s->head = carve(c, sizeof(float) * dim);
    s->path = carve(c, sizeof(uint16_t) * rows * FT_PENDING_MAX);
}

static size_t plan_carve(ft_attn_plan *plan, char *base)
{
    carver c = {base, 0};
    plan->chunks = carve(&c, sizeof(chunk) * plan->max_rows);
    plan->done = carve(&c, sizeof(atomic_uint) * plan->max_split_units);
    plan->scratch = carve(&c, sizeof(scratch) * plan->n_threads);
    for (uint32_t i = 0; i < plan->n_threads; i++) {
        scratch counted;
        scratch_carve(base ? &plan->scratch[i] : &counted, &c, plan->geo.head_dim,
                      plan->rows_per_unit);
    }
    plan->parts = carve(&c, plan->n_threads > 1 ? PARTS_MAX_BYTES : 0);
    return c.used;
}

ft_status ft_attn_plan_create(const ft_attn_geometry *geometry, uint32_t max_rows,
                              uint32_t n_threads, ft_attn_plan **out)
{
    *out = NULL;
    ft_attn_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return FT_NOMEM;
    plan->geo = *geometry;
    plan->q_scale = (float)(1.4426950408889634 / sqrt(geometry->head_dim));
    plan->group = geometry->n_head / geometry->n_head_kv;
    plan->n_sub = (plan->group + FT_ATTN_NQ - 1) / FT_ATTN_NQ;
    plan->sub = (plan->group + plan->n_sub - 1) / plan->n_sub;
    plan->rows_per_unit = FT_ATTN_NQ / plan->sub;
    plan->n_threads = n_threads;
    plan->max_rows = max_rows;
    plan->max_split_units = 2 * n_threads;
    plan->bytes = plan_carve(plan, NULL) + 64;
    plan->memory = malloc(plan->bytes);
    if (!plan->memory) {
        free(plan);
        return FT_NOMEM;
    }
    plan_carve(plan, (char *)aligned((size_t)plan->memory));
    for (uint32_t i = 0; i < plan->max_split_units; i++)
        atomic_init(&plan->done[i], 0);
    *out = plan;
    return FT_OK;
}

void ft_attn_plan_destroy(ft_attn_plan *plan)
{
    if (!plan)
        return;
    free(plan->memory);
    free(plan);
}

size_t ft_attn_plan_bytes(const ft_attn_plan *plan)
{
    return plan->bytes;
}

const ft_attn_kernel *ft_attn_kernel_best(uint32_t head_dim)
{
    const ft_attn_kernel *const all[] = {ft_attn_kernel_avx512(), ft_attn_kernel_avx2()};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] && head_dim % all[i]->dim_multiple == 0)
            return all[i];
    return &ft_attn_kernel_plain;
}

const char *ft_attn_kernel_name(const ft_attn_kernel *kernel)
{
    return kernel->name;
}

/* ---- the batch ---- */

static size_t part_floats(const ft_attn_plan *plan)
{
    return FT_ATTN_NQ * (1 + 16 + (size_t)plan->geo.head_dim);
}

static void plan_split(ft_attn_plan *plan)
{
    uint32_t n_units = plan->n_chunks * plan->geo.n_head_kv * plan->n_sub, last = 0;
    plan->split = false;
    if (plan->n_threads < 2 || n_units > plan->max_split_units)
        return;
    for (uint32_t i = 0; i < plan->batch->n_rows; i++)
        last = plan->batch->row_pos[i] > last ? plan->batch->row_pos[i] : last;
    plan->n_tiles = last / FT_ATTN_TILE + 1;
    plan->n_parts = (plan->n_tiles + TILES_PER_PART - 1) / TILES_PER_PART;
    size_t floats = (size_t)n_units * plan->n_tiles * part_floats(plan);
    plan->split = plan->n_parts > 1 && floats * sizeof(float) <= PARTS_MAX_BYTES;
}

void ft_attn_plan_batch(ft_attn_plan *plan, const ft_attn_batch *batch)
{
    plan->batch = batch;
    plan->n_chunks = 0;
    for (uint32_t i = 0; i < batch->n_segs; i++) {
        const ft_attn_seg *seg = &batch->segs[i];
        for (uint32_t r = 0; r < seg->n_rows; r += plan->rows_per_unit) {
            uint32_t left = seg->n_rows - r;
            plan->chunks[plan->n_chunks++] = (chunk){
                i, seg->first_row + r, left < plan->rows_per_unit ? left : plan->rows_per_unit};
        }
    }
    plan_split(plan);
}

/* ---- norm, RoPE, writing ---- */

void ft_rope_table(const ft_rope_opts *opts, uint32_t pos, float *out)
{
    /* The angle by repeated multiplication, as ggml does it, so that results stay comparable. */
    float theta = (float)pos, step = powf(opts->base, -2.0f / (float)opts->n_rot);
    for (uint32_t i = 0; i < opts->n_rot / 2; i++, theta *= step) {
        float angle = opts->scale * (theta / (opts->factors ? opts->factors[i] : 1.0f));
        out[2 * i] = cosf(angle);
        out[2 * i + 1] = sinf(angle);
    }
}

static void rope(const ft_attn_geometry *geo, const float *table, float *x)
{
    uint32_t half = geo->n_rot / 2, gap = geo->rope_neox ? half : 1, step = geo->rope_neox ? 1 : 2;
    for (uint32_t i = 0; i < half; i++) {
        float c = table[2 * i], s = table[2 * i + 1];
        float a = x[i * step], b = x[i * step + gap];
        x[i * step] = a * c - b * s;
        x[i * step + gap] = a * s + b * c;
    }
}

/* out[dim] = RoPE(norm(x + bias)). */
static void prepare_head(const ft_attn_plan *plan, const float *x, const float *bias,
                         const float *norm, uint32_t row, float *out)
{
    uint32_t dim = plan->geo.head_dim;
    for (uint32_t d = 0; d < dim; d++)
        out[d] = bias ? x[d] + bias[d] : x[d];
    if (norm) {
        double sum = 0;
        for (uint32_t d = 0; d < dim; d++)
            sum += (double)(out[d] * out[d]);
        float scale = 1.0f / sqrtf((float)(sum / dim) + plan->geo.rms_eps);
        for (uint32_t d = 0; d < dim; d++)
            out[d] = out[d] * scale * norm[d];
    }
    rope(&plan->geo, plan->batch->rope + (size_t)row * plan->geo.n_rot, out);
}

static void write_row(const ft_attn_plan *plan, const ft_attn_layer *layer,
                      const ft_attn_rows *rows, uint32_t row, uint32_t head, float *tmp)
{
    uint32_t dim = plan->geo.head_dim, slot = plan->batch->row_slot[row], lane = slot % BLOCK;
    size_t page = ((size_t)(slot / BLOCK) * plan->geo.n_head_kv + head) * dim * BLOCK;
    size_t first = (size_t)head * dim;
    prepare_head(plan, rows->k + row * rows->k_stride + first, layer->bk ? layer->bk + first : NULL,
                 layer->k_norm, row, tmp);
    ft_f16 *k = layer->k + page + lane;
    for (uint32_t d = 0; d < dim; d++)
        k[(size_t)d * BLOCK] = ft_f16_of(tmp[d]);
    const float *v = rows->v + row * rows->v_stride + first;
    if (layer->bv) {
        for (uint32_t d = 0; d < dim; d++)
            tmp[d] = v[d] + layer->bv[first + d];
        v = tmp;
    }
    ft_f16_row(v, layer->v + page + (size_t)lane * dim, dim);
}

void ft_attn_write(const ft_attn_plan *plan, const ft_attn_layer *layer, const ft_attn_rows *rows,
                   unsigned ith, unsigned nth)
{
    /* Head by head, each thread one run: rows of one block share cache lines. */
    uint64_t n_rows = plan->batch->n_rows, n = n_rows * plan->geo.n_head_kv;
    for (uint64_t i = n * ith / nth; i < n * (ith + 1) / nth; i++)
        write_row(plan, layer, rows, (uint32_t)(i % n_rows), (uint32_t)(i / n_rows),
                  plan->scratch[ith].head);
}

/* ---- one unit ---- */

static size_t page_of(const ft_attn_plan *plan, const unit *u, uint32_t block)
{
    return ((size_t)u->seg->seq->block[block] * plan->geo.n_head_kv + u->head_kv) *
           plan->geo.head_dim * BLOCK;
}

static const ft_f16 *value_at(const ft_attn_plan *plan, const unit *u, uint32_t i)
{
    return u->layer->v + page_of(plan, u, i / BLOCK) + (size_t)(i % BLOCK) * plan->geo.head_dim;
}

static uint32_t row_positions(const ft_attn_plan *plan, const unit *u, uint32_t r)
{
    return plan->batch->row_pos[u->row0 + r] + 1;
}

/* Index in the sequence (committed, then pending) of what row r sees at a position. */
static uint32_t index_at(const unit *u, const scratch *sc, uint32_t r, uint32_t pos)
{
    if (u->linear || pos < u->n_past)
        return pos;
    return u->n_past + sc->path[(size_t)r * FT_PENDING_MAX + (pos - u->n_past)];
}

static void unit_init(const ft_attn_plan *plan, const ft_attn_layer *layer, uint32_t index, unit *u)
{
    const chunk *c = &plan->chunks[index % plan->n_chunks];
    const ft_attn_seg *seg = &plan->batch->segs[c->seg];
    uint32_t part = index / plan->n_chunks; /* KV head and, for large groups, a part of the group */
    uint32_t g0 = part % plan->n_sub * plan->sub;
    u->layer = layer;
    u->kernel = layer->kernel;
    u->seg = seg;
    u->row0 = c->row0;
    u->n_rows = c->n_rows;
    u->node0 = seg->first_node + (c->row0 - seg->first_row);
    u->head_kv = part / plan->n_sub;
    u->head0 = u->head_kv * plan->group + g0;
    u->n_heads = plan->group - g0 < plan->sub ? plan->group - g0 : plan->sub;
    u->nq = u->n_rows * u->n_heads;
    u->n_past = seg->seq->n_past;
    u->n_pos = 0;
    for (uint32_t r = 0; r < u->n_rows; r++) {
        uint32_t n = row_positions(plan, u, r);
        u->n_pos = n > u->n_pos ? n : u->n_pos;
    }
    u->linear = u->node0 + u->n_rows <= seg->seq->n_chain;
    u->shared = u->linear ? u->n_past + u->node0 + 1 : u->n_past;
    u->tail0 = u->linear ? UINT32_MAX : u->n_past / BLOCK * BLOCK;
}

static void load_queries(const ft_attn_plan *plan, const unit *u, const ft_attn_rows *rows,
                         scratch *sc)
{
    uint32_t dim = plan->geo.head_dim;
    for (uint32_t r = 0; r < u->n_rows; r++)
        for (uint32_t g = 0; g < u->n_heads; g++) {
            size_t first = (size_t)(u->head0 + g) * dim;
            const float *q = rows->q + (u->row0 + r) * rows->q_stride + first;
            prepare_head(plan, q, u->layer->bq ? u->layer->bq + first : NULL, u->layer->q_norm,
                         u->row0 + r, sc->head);
            float *out = sc->q + r * u->n_heads + g;
            for (uint32_t d = 0; d < dim; d++)
                out[(size_t)d * u->nq] = sc->head[d] * plan->q_scale;
        }
}

/* Ancestors of each row, and scores of every block of the tail that holds one. */
static void prepare_tail(const ft_attn_plan *plan, const unit *u, scratch *sc)
{
    const ft_kv_seq *seq = u->seg->seq;
    uint32_t first = u->tail0 / BLOCK;
    bool used[TAIL_MAX / BLOCK + 1] = {[0] = u->n_past % BLOCK != 0};
    for (uint32_t r = 0; r < u->n_rows; r++) {
        uint16_t *path = sc->path + (size_t)r * FT_PENDING_MAX;
        for (int32_t i = (int32_t)(u->node0 + r); i >= 0; i = ft_kv_seq_parent(seq, (uint32_t)i)) {
            path[ft_kv_seq_depth(seq, (uint32_t)i)] = (uint16_t)i;
            used[(u->n_past + (uint32_t)i) / BLOCK - first] = true;
        }
    }
    const ft_f16 *const nothing = NULL;
    for (uint32_t b = 0; b <= TAIL_MAX / BLOCK; b++)
        if (used[b]) {
            const ft_f16 *k = u->layer->k + page_of(plan, u, first + b);
            u->kernel->scores(&(ft_attn_scores){.q = sc->q,
                                                .nq = u->nq,
                                                .dim = plan->geo.head_dim,
                                                .k = &k,
                                                .n_block = 1,
                                                .ahead = &nothing,
                                                .s = sc->tail + (size_t)b * BLOCK,
                                                .s_stride = TAIL_MAX});
        }
}

/* sc->s: scores of the positions from pos0 on, up to `end`. */
static void tile_scores(const ft_attn_plan *plan, const unit *u, scratch *sc, uint32_t pos0,
                        uint32_t end)
{
    const ft_f16 *k[TILE_BLOCKS], *ahead[TILE_BLOCKS];
    uint32_t direct = end < u->tail0 ? end : u->tail0, n = 0;
    for (uint32_t pos = pos0; pos < direct; pos += BLOCK, n++) {
        size_t page = page_of(plan, u, pos / BLOCK);
        k[n] = u->layer->k + page;
        ahead[n] = u->layer->v + page;
    }
    if (n)
        u->kernel->scores(&(ft_attn_scores){.q = sc->q,
                                            .nq = u->nq,
                                            .dim = plan->geo.head_dim,
                                            .k = k,
                                            .n_block = n,
                                            .ahead = ahead,
                                            .s = sc->s,
                                            .s_stride = FT_ATTN_TILE});
    for (uint32_t r = 0; r < u->n_rows && end > u->tail0; r++) {
        uint32_t n_pos = row_positions(plan, u, r), last = n_pos < end ? n_pos : end;
        for (uint32_t pos = pos0 > u->tail0 ? pos0 : u->tail0; pos < last; pos++) {
            uint32_t at = index_at(u, sc, r, pos) - u->tail0;
            for (uint32_t i = r * u->n_heads; i < (r + 1) * u->n_heads; i++)
                sc->s[(size_t)i * FT_ATTN_TILE + (pos - pos0)] =
                    sc->tail[(size_t)i * TAIL_MAX + at];
        }
    }
}

/* sc->acc: the tile's weighted sums of V; the positions that all rows share first, for all at once. */
static void tile_values(const ft_attn_plan *plan, const unit *u, scratch *sc, uint32_t pos0,
                        uint32_t end)
{
    const ft_f16 *v[FT_ATTN_TILE], *ahead[FT_ATTN_TILE];
    uint32_t dim = plan->geo.head_dim, shared = u->shared < end ? u->shared : end;
    uint32_t next = pos0 + FT_ATTN_TILE, n_shared = shared > pos0 ? shared - pos0 : 0;
    bool more = next + FT_ATTN_TILE <= u->n_pos && next + FT_ATTN_TILE <= u->tail0;
    for (uint32_t b = 0; b * BLOCK < n_shared; b++) {
        uint32_t at = pos0 / BLOCK + b;
        const ft_f16 *block = u->layer->v + page_of(plan, u, at), *k = NULL;
        if (more)
            k = u->layer->k + page_of(plan, u, at + TILE_BLOCKS);
        for (uint32_t i = 0; i < BLOCK; i++) {
            v[b * BLOCK + i] = block + (size_t)i * dim;
            ahead[b * BLOCK + i] = more ? k + (size_t)i * dim : NULL;
        }
    }
    ft_attn_values args = {.p = sc->s,
                           .nq = u->nq,
                           .dim = dim,
                           .v = v,
                           .ahead = more ? ahead : NULL,
                           .end = n_shared,
                           .fresh = true,
                           .acc = sc->acc};
    u->kernel->values(&args);
    args = (ft_attn_values){.nq = u->n_heads, .dim = dim, .v = v, .begin = n_shared};
    for (uint32_t r = 0; r < u->n_rows; r++) {
        uint32_t n_pos = row_positions(plan, u, r), n = n_pos < end ? n_pos - pos0 : end - pos0;
        if (n_pos <= pos0 || n <= n_shared)
            continue;
        for (uint32_t i = n_shared; i < n; i++)
            v[i] = value_at(plan, u, index_at(u, sc, r, pos0 + i));
        size_t first = (size_t)r * u->n_heads;
        args.p = sc->s + first * FT_ATTN_TILE;
        args.end = n;
        args.acc = sc->acc + first * dim;
        u->kernel->values(&args);
    }
}

/* Of query i, in a tile's kept part ([nq, 1 + 16 + dim]). */
static ft_attn_sums part_sums(float *part, uint32_t i, uint32_t dim)
{
    float *p = part + i * (size_t)(17 + dim);
    return (ft_attn_sums){p, p + 1, p + 17};
}

static ft_attn_sums total_sums(const scratch *sc, uint32_t i, uint32_t dim)
{
    return (ft_attn_sums){&sc->max[i], sc->sum + i * (size_t)16, sc->total + (size_t)i * dim};
}

static void copy_sums(const ft_attn_sums *to, const ft_attn_sums *from, uint32_t dim)
{
    *to->max = *from->max;
    memcpy(to->sum, from->sum, 16 * sizeof *to->sum);
    memcpy(to->acc, from->acc, dim * sizeof *to->acc);
}

/* One tile of all rows; with `part` its results go there ([nq, 1 + 16 + dim]), else into the total. */
static void run_tile(const ft_attn_plan *plan, const unit *u, scratch *sc, uint32_t tile,
                     float *part)
{
    uint32_t dim = plan->geo.head_dim, pos0 = tile * FT_ATTN_TILE;
    uint32_t end = pos0 + FT_ATTN_TILE < u->n_pos ? pos0 + FT_ATTN_TILE : u->n_pos;
    float max[FT_ATTN_NQ], sum[FT_ATTN_NQ][16];
    tile_scores(plan, u, sc, pos0, end);
    for (uint32_t i = 0; i < u->nq; i++) {
        uint32_t n_pos = row_positions(plan, u, i / u->n_heads);
        if (n_pos > pos0)
            u->kernel->softmax(sc->s + (size_t)i * FT_ATTN_TILE, (n_pos < end ? n_pos : end) - pos0,
                               &max[i], sum[i]);
    }
    tile_values(plan, u, sc, pos0, end);
    for (uint32_t i = 0; i < u->nq; i++) {
        if (row_positions(plan, u, i / u->n_heads) <= pos0)
            continue;
        ft_attn_sums from = {&max[i], sum[i], sc->acc + (size_t)i * dim};
        ft_attn_sums to = part ? part_sums(part, i, dim) : total_sums(sc, i, dim);
        if (part || tile == 0)
            copy_sums(&to, &from, dim);
        else
            u->kernel->fold(&to, &from, dim);
    }
}

/* Adds up the kept parts of tiles, in order. */
static void fold_parts(const ft_attn_plan *plan, const unit *u, scratch *sc, float *parts)
{
    uint32_t dim = plan->geo.head_dim;
    for (uint32_t i = 0; i < u->nq; i++) {
        uint32_t n_tiles = (row_positions(plan, u, i / u->n_heads) - 1) / FT_ATTN_TILE + 1;
        ft_attn_sums total = total_sums(sc, i, dim), tile = part_sums(parts, i, dim);
        copy_sums(&total, &tile, dim);
        for (uint32_t t = 1; t < n_tiles; t++) {
            tile = part_sums(parts + t * part_floats(plan), i, dim);
            u->kernel->fold(&total, &tile, dim);
        }
    }
}

static void write_out(const ft_attn_plan *plan, const unit *u, scratch *sc, float *out)
{
    uint32_t dim = plan->geo.head_dim;
    size_t stride = (size_t)plan->geo.n_head * dim;
    for (uint32_t i = 0; i < u->nq; i++) {
        float *sum = sc->sum + i * (size_t)16, *total = sc->total + (size_t)i * dim;
        for (uint32_t half = 8; half; half /= 2)
            for (uint32_t j = 0; j < half; j++)
                sum[j] += sum[j + half];
        float inverse = 1.0f / sum[0];
        float *to =
            out + (u->row0 + i / u->n_heads) * stride + (size_t)(u->head0 + i % u->n_heads) * dim;
        for (uint32_t d = 0; d < dim; d++)
            to[d] = total[d] * inverse;
    }
}

/* ---- a pass ---- */

static void run_whole(ft_attn_plan *plan, const unit *u, scratch *sc, float *out)
{
    for (uint32_t t = 0; t * FT_ATTN_TILE < u->n_pos; t++)
        run_tile(plan, u, sc, t, NULL);
    write_out(plan, u, sc, out);
}

static void run_part(ft_attn_plan *plan, const unit *u, scratch *sc, uint32_t index, uint32_t tile,
                     float *out)
{
    float *parts = plan->parts + (size_t)index * plan->n_tiles * part_floats(plan);
    uint32_t n_tiles = (u->n_pos - 1) / FT_ATTN_TILE + 1;
    uint32_t end = tile + TILES_PER_PART < n_tiles ? tile + TILES_PER_PART : n_tiles;
    uint32_t n_parts = (n_tiles + TILES_PER_PART - 1) / TILES_PER_PART;
    for (; tile < end; tile++)
        run_tile(plan, u, sc, tile, parts + tile * part_floats(plan));
    if (atomic_fetch_add_explicit(&plan->done[index], 1, memory_order_acq_rel) + 1 < n_parts)
        return;
    atomic_store_explicit(&plan->done[index], 0, memory_order_relaxed);
    fold_parts(plan, u, sc, parts);
    write_out(plan, u, sc, out);
}

void ft_attn_run(ft_attn_plan *plan, const ft_attn_layer *layer, const ft_attn_rows *rows,
                 float *out, unsigned ith, atomic_uint *next)
{
    scratch *sc = &plan->scratch[ith];
    uint32_t n_units = plan->n_chunks * plan->geo.n_head_kv * plan->n_sub;
    uint32_t per_unit = plan->split ? plan->n_parts : 1, n_items = n_units * per_unit;
    for (;;) {
        uint32_t item = atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
        if (item >= n_items)
            return;
        unit u;
        uint32_t index = item / per_unit, tile = item % per_unit * TILES_PER_PART;
        unit_init(plan, layer, index, &u);
        if (tile * FT_ATTN_TILE >= u.n_pos)
            continue;
        load_queries(plan, &u, rows, sc);
        if (!u.linear && (!plan->split || (tile + TILES_PER_PART) * FT_ATTN_TILE > u.tail0))
            prepare_tail(plan, &u, sc);
        if (plan->split)
            run_part(plan, &u, sc, index, tile, out);
        else
            run_whole(plan, &u, sc, out);
    }
}
