// SPDX-License-Identifier: Apache-2.0
// Splits a batch's attention into work for threads: segments into chunks of rows whose queries fit
// one unit; units into spans of positions if one unit would keep other threads waiting. Threads
// claim the largest pieces first, so that no long piece starts last. A row's result does not depend
// on any of this (attn.h).
//
// Owned by the engine's thread. Everything is allocated at creation.
#include "engine/attn_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"

#define PARTS_MAX_BYTES \
    (16u << 20)            /* what does not fit is not split; 2,000 spans of 64 dimensions */
#define PIECES_A_THREAD 8  /* a piece is at most 1 / 8 of a thread's share of the work */
#define COST_CLASSES    32 /* of equal width; within a class pieces keep the order of the batch */

/* ---- creation ---- */

static size_t aligned(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* Hands out memory front to back; without a base it only counts. */
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

static ft_attn_sums carve_sums(carver *c, const ft_attn_plan *plan)
{
    float *base = carve(c, sizeof(float) * ft_attn_part_floats(plan));
    return base ? ft_attn_part(base) : (ft_attn_sums){0};
}

static void scratch_carve(ft_attn_scratch *s, carver *c, const ft_attn_plan *plan)
{
    uint32_t dim = plan->geo.head_dim;
    s->q = carve(c, sizeof(float) * FT_ATTN_NQ * (dim + dim / 16 + 1));
    s->s = carve(c, sizeof(float) * FT_ATTN_NQ * FT_ATTN_TILE);
    s->tail = carve(c, sizeof(float) * FT_ATTN_NQ * FT_ATTN_TAIL_MAX);
    s->head = carve(c, sizeof(float) * dim);
    s->page = carve(c, FT_ATTN_TILE_BLOCKS * ft_attn_page_bytes(FT_KV_F16, dim)); /* the largest */
    s->span = carve_sums(c, plan);
    s->total = carve_sums(c, plan);
    s->path = carve(c, sizeof(uint16_t) * plan->rows_per_unit * FT_PENDING_MAX);
}

static size_t plan_carve(ft_attn_plan *plan, char *base)
{
    carver c = {base, 0};
    size_t n_items = (size_t)plan->max_rows + plan->max_slots;
    plan->chunks = carve(&c, sizeof(ft_attn_chunk) * plan->max_rows);
    plan->items = carve(&c, sizeof(ft_attn_item) * n_items);
    plan->unsorted = carve(&c, sizeof(ft_attn_item) * n_items);
    plan->counts = carve(&c, sizeof(atomic_uint) * plan->max_slots);
    plan->scratch = carve(&c, sizeof(ft_attn_scratch) * plan->n_threads);
    for (uint32_t i = 0; i < plan->n_threads; i++) {
        ft_attn_scratch counted;
        scratch_carve(base ? &plan->scratch[i] : &counted, &c, plan);
    }
    plan->parts = carve(&c, sizeof(float) * ft_attn_part_floats(plan) * plan->max_slots);
    return c.used;
}

/* Sums of spans. A chunk is split if it costs more than a piece may (add_items); of such chunks
 * there are at most as many as pieces. Spans count as whole ones there, so twice as many. */
static uint32_t most_slots(uint32_t max_pos, uint32_t n_threads, size_t part_bytes)
{
    const uint64_t spans = (max_pos + FT_ATTN_SPAN - 1) / FT_ATTN_SPAN;
    const uint64_t needed = 2 * spans * n_threads * PIECES_A_THREAD;
    const uint64_t most = PARTS_MAX_BYTES / part_bytes;
    return n_threads == 1 ? 0 : (uint32_t)(needed < most ? needed : most);
}

ft_status ft_attn_plan_create(const ft_attn_geometry *geometry, uint32_t max_rows, uint32_t max_pos,
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
    plan->n_units = geometry->n_head_kv * plan->n_sub;
    plan->n_threads = n_threads;
    plan->max_rows = max_rows;
    size_t part = aligned(sizeof(float) * ft_attn_part_floats(plan));
    plan->max_slots = most_slots(max_pos, n_threads, part);
    plan->bytes = plan_carve(plan, NULL) + 64;
    plan->memory = malloc(plan->bytes);
    if (!plan->memory) {
        free(plan);
        return FT_NOMEM;
    }
    plan_carve(plan, (char *)aligned((size_t)plan->memory));
    /* lanes that no row sees are multiplied by zero, so they must be finite */
    for (uint32_t i = 0; i < n_threads; i++)
        memset(plan->scratch[i].page, 0,
               FT_ATTN_TILE_BLOCKS * ft_attn_page_bytes(FT_KV_F16, geometry->head_dim));
    for (uint32_t i = 0; i < plan->max_slots; i++)
        atomic_init(&plan->counts[i], 0);
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

/* ---- kernels ---- */

size_t ft_attn_kernels(ft_kv_type type, const ft_attn_kernel *out[FT_ATTN_KERNELS])
{
    const ft_cpu *cpu = ft_cpu_get();
    size_t n = 0;
#if defined(__x86_64__)
    const ft_attn_kernel *const all[] = {&ft_attn_bf16[type], &ft_attn_vnni[type],
                                         &ft_attn_avx512[type], &ft_attn_avx2[type]};
    const bool has[] = {cpu->bf16, cpu->vnni, cpu->avx512, cpu->avx2};
#elif defined(__aarch64__)
    const ft_attn_kernel *const all[] = {&ft_attn_neon[type]};
    const bool has[] = {cpu->neon};
#else
    const ft_attn_kernel *const all[] = {NULL};
    const bool has[] = {false};
    (void)cpu;
#endif
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (has[i] && all[i]->name)
            out[n++] = all[i];
    out[n++] = ft_attn_kernel_plain(type);
    return n;
}

const ft_attn_kernel *ft_attn_kernel_best(ft_kv_type type, uint32_t head_dim)
{
    const ft_attn_kernel *all[FT_ATTN_KERNELS];
    size_t n = ft_attn_kernels(type, all);
    for (size_t i = 0; i < n; i++)
        if (head_dim % all[i]->dim_multiple == 0)
            return all[i];
    return NULL;
}

/* ---- the batch ---- */

static uint32_t spans_of(const ft_attn_chunk *c)
{
    return (c->n_pos - 1) / FT_ATTN_SPAN + 1;
}

static uint64_t cost_of(const ft_attn_chunk *c, uint32_t span0, uint32_t n_spans)
{
    uint64_t begin = (uint64_t)span0 * FT_ATTN_SPAN, end = begin + (uint64_t)n_spans * FT_ATTN_SPAN;
    return ((end < c->n_pos ? end : c->n_pos) - begin) * c->n_rows;
}

static void add_chunks(ft_attn_plan *plan, uint32_t seg_index)
{
    const ft_attn_batch *batch = plan->batch;
    const ft_attn_seg *seg = &batch->segs[seg_index];
    for (uint32_t r = 0; r < seg->n_rows; r += plan->rows_per_unit) {
        uint32_t left = seg->n_rows - r;
        ft_attn_chunk *c = &plan->chunks[plan->n_chunks++];
        *c = (ft_attn_chunk){.seg = seg_index,
                             .row0 = seg->first_row + r,
                             .n_rows = left < plan->rows_per_unit ? left : plan->rows_per_unit};
        for (uint32_t i = 0; i < c->n_rows; i++) {
            uint32_t n = batch->row_pos[c->row0 + i] + 1;
            c->n_pos = n > c->n_pos ? n : c->n_pos;
        }
    }
}

/* Splits chunks into items that cost at most `limit`, while there are slots. */
static void add_items(ft_attn_plan *plan, uint64_t limit)
{
    uint32_t n_slots = 0, n_counts = 0;
    plan->n_items = 0;
    for (uint32_t i = 0; i < plan->n_chunks; i++) {
        ft_attn_chunk *c = &plan->chunks[i];
        uint32_t n_spans = spans_of(c), step = n_spans;
        uint64_t most = limit / ((uint64_t)FT_ATTN_SPAN * c->n_rows);
        if (plan->n_threads > 1 && most < n_spans &&
            (uint64_t)n_spans * plan->n_units <= plan->max_slots - n_slots)
            step = most > 1 ? (uint32_t)most : 1;
        c->split = step < n_spans;
        if (c->split) {
            c->slot0 = n_slots;
            c->count0 = n_counts;
            n_slots += n_spans * plan->n_units;
            n_counts += plan->n_units;
        }
        for (uint32_t span = 0; span < n_spans; span += step) {
            uint32_t n = n_spans - span < step ? n_spans - span : step;
            plan->unsorted[plan->n_items++] = (ft_attn_item){i, span, n, cost_of(c, span, n)};
        }
    }
}

/* Sorts the items by classes of cost, the largest first. */
static void sort_items(ft_attn_plan *plan)
{
    uint32_t first[COST_CLASSES + 1] = {0};
    uint64_t top = 1;
    for (uint32_t i = 0; i < plan->n_items; i++)
        top = plan->unsorted[i].cost > top ? plan->unsorted[i].cost : top;
    for (uint32_t i = 0; i < plan->n_items; i++)
        first[COST_CLASSES - plan->unsorted[i].cost * (COST_CLASSES - 1) / top]++;
    for (uint32_t k = 1; k <= COST_CLASSES; k++)
        first[k] += first[k - 1];
    for (uint32_t i = 0; i < plan->n_items; i++) {
        uint64_t k = COST_CLASSES - 1 - plan->unsorted[i].cost * (COST_CLASSES - 1) / top;
        plan->items[first[k]++] = plan->unsorted[i];
    }
}

void ft_attn_plan_batch(ft_attn_plan *plan, const ft_attn_batch *batch)
{
    uint64_t total = 0;
    plan->batch = batch;
    plan->n_chunks = 0;
    for (uint32_t i = 0; i < batch->n_segs; i++)
        add_chunks(plan, i);
    for (uint32_t i = 0; i < plan->n_chunks; i++)
        total += cost_of(&plan->chunks[i], 0, spans_of(&plan->chunks[i]));
    /* The limit is for one unit's piece; each piece exists n_units times. */
    add_items(plan, total * plan->n_units / ((uint64_t)plan->n_threads * PIECES_A_THREAD));
    sort_items(plan);
}
