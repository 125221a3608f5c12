// SPDX-License-Identifier: Apache-2.0
// Tree attention on the CPU. Executes a work plan (attn_plan.c). One unit of work is some rows of a
// segment in one KV head. It goes tile by tile over the block table, through a kernel's inner
// loops. A block of K or V is loaded once for all rows and grouped query heads of the unit.
//
// How a unit finds its keys. The slots of positions below n_past, and of a plain chain, are in
// order of position: those blocks are read directly, for all rows of the unit at once. Behind
// n_past, the slots that a tree's row sees are scattered. Scores of the whole tail are computed in
// order of slot, and then each row gathers those of its ancestors into order of position. V is
// copied, row by row, into pages in order of position. Both ways give the same bits (attn.h).
//
// The spans of a split unit are kept separately in `parts`; the thread that finishes last merges
// them in order.
//
// During a pass each thread writes its own scratch memory and the spans that it claimed. No
// allocation.
#include <math.h>
#include <string.h>

#include "engine/attn_plan.h"

#define BLOCK       FT_KV_BLOCK_TOK
#define TILE_BLOCKS FT_ATTN_TILE_BLOCKS

typedef struct unit {
    const ft_attn_layer *layer;
    const ft_attn_seg *seg;
    const ft_attn_kernel *kernel;
    size_t page_bytes;
    uint32_t row0, n_rows, node0;
    uint32_t head_kv, head0, n_heads, nq;
    uint32_t n_past, n_pos; /* positions below n_pos are seen by some row */
    bool linear;            /* all rows see slots in order of position */
    uint32_t shared;        /* leading positions that all rows see in the same slots */
    uint32_t tail0;         /* first position whose slot may be out of order; a block's first */
    uint32_t n_seen[FT_ATTN_NQ]; /* positions that query i sees */
} unit;

/* ---- RoPE and writing ---- */

void ft_rope_table(const ft_rope_opts *opts, uint32_t pos, float *out)
{
    /* The angle is multiplied repeatedly, as in ggml, so that results stay comparable. */
    float theta = (float)pos, step = powf(opts->base, -2.0f / (float)opts->n_rot);
    for (uint32_t i = 0; i < opts->n_rot / 2; i++, theta *= step) {
        float angle = opts->scale * (theta / (opts->factors ? opts->factors[i] : 1.0f));
        out[2 * i] = cosf(angle);
        out[2 * i + 1] = sinf(angle);
    }
}

static void write_row(const ft_attn_plan *plan, const ft_attn_layer *layer,
                      const ft_attn_rows *rows, uint32_t row, uint32_t head, float *tmp)
{
    const ft_attn_kernel *kernel = layer->kernel;
    uint32_t dim = plan->geo.head_dim, slot = plan->batch->row_slot[row];
    size_t page = slot / BLOCK * layer->block_bytes + head * ft_attn_page_bytes(kernel->type, dim);
    size_t first = (size_t)head * dim;
    ft_attn_head k = {.geo = &plan->geo,
                      .x = rows->k + row * rows->k_stride + first,
                      .bias = layer->bk ? layer->bk + first : NULL,
                      .norm = layer->k_norm,
                      .rope = plan->batch->rope + (size_t)row * plan->geo.n_rot,
                      .scale = 1};
    kernel->prepare(&k, tmp);
    kernel->write_k(tmp, dim, (char *)layer->k + page, slot % BLOCK);
    const float *v = rows->v + row * rows->v_stride + first;
    if (layer->bv) {
        kernel->prepare(
            &(ft_attn_head){.geo = &plan->geo, .x = v, .bias = layer->bv + first, .scale = 1}, tmp);
        v = tmp;
    }
    kernel->write_v(v, dim, (char *)layer->v + page, slot % BLOCK);
}

void ft_attn_write(const ft_attn_plan *plan, const ft_attn_layer *layer, const ft_attn_rows *rows,
                   unsigned ith, unsigned nth)
{
    /* Head by head; each thread takes one range, because rows of one block share cache lines. */
    uint64_t n_rows = plan->batch->n_rows, n = n_rows * plan->geo.n_head_kv;
    for (uint64_t i = n * ith / nth; i < n * (ith + 1) / nth; i++)
        write_row(plan, layer, rows, (uint32_t)(i % n_rows), (uint32_t)(i / n_rows),
                  plan->scratch[ith].head);
}

/* ---- one unit ---- */

static size_t page_of(const unit *u, uint32_t block)
{
    return u->seg->seq->block[block] * u->layer->block_bytes + u->head_kv * u->page_bytes;
}

static void *k_page(const unit *u, uint32_t block)
{
    return (char *)u->layer->k + page_of(u, block);
}

static void *v_page(const unit *u, uint32_t block)
{
    return (char *)u->layer->v + page_of(u, block);
}

/* Index in the sequence (committed, then pending) of the token that row r sees at a position. */
static uint32_t index_at(const unit *u, const ft_attn_scratch *sc, uint32_t r, uint32_t pos)
{
    if (u->linear || pos < u->n_past)
        return pos;
    return u->n_past + sc->path[(size_t)r * FT_PENDING_MAX + (pos - u->n_past)];
}

static void unit_init(const ft_attn_plan *plan, const ft_attn_layer *layer, const ft_attn_chunk *c,
                      uint32_t part, unit *u)
{
    const ft_attn_seg *seg = &plan->batch->segs[c->seg];
    /* a KV head, or a part of its group if the group is large */
    uint32_t g0 = part % plan->n_sub * plan->sub;
    u->layer = layer;
    u->kernel = layer->kernel;
    u->page_bytes = ft_attn_page_bytes(layer->kernel->type, plan->geo.head_dim);
    u->seg = seg;
    u->row0 = c->row0;
    u->n_rows = c->n_rows;
    u->node0 = seg->first_node + (c->row0 - seg->first_row);
    u->head_kv = part / plan->n_sub;
    u->head0 = u->head_kv * plan->group + g0;
    u->n_heads = plan->group - g0 < plan->sub ? plan->group - g0 : plan->sub;
    u->nq = u->n_rows * u->n_heads;
    u->n_past = seg->seq->n_past;
    u->n_pos = c->n_pos;
    u->linear = u->node0 + u->n_rows <= seg->seq->n_chain;
    u->shared = u->linear ? u->n_past + u->node0 + 1 : u->n_past;
    u->tail0 = u->linear ? UINT32_MAX : u->n_past / BLOCK * BLOCK;
    for (uint32_t i = 0; i < u->nq; i++)
        u->n_seen[i] = plan->batch->row_pos[u->row0 + i / u->n_heads] + 1;
}

/* Prefetches K of a span's first tile while the queries are made. K of the other tiles is
 * prefetched while the values of the tile before are summed. */
static void prefetch_next(const ft_attn_plan *plan, const unit *u, uint32_t span)
{
    uint32_t pos = span * FT_ATTN_SPAN, end = pos + FT_ATTN_TILE;
    for (; pos < end && pos < u->n_pos && pos < u->tail0; pos += BLOCK) {
        const char *k = k_page(u, pos / BLOCK);
        for (size_t i = 0; i < u->page_bytes; i += 64)
            __builtin_prefetch(k + i);
    }
}

static void load_queries(const ft_attn_plan *plan, const unit *u, const ft_attn_rows *rows,
                         ft_attn_scratch *sc)
{
    uint32_t dim = plan->geo.head_dim;
    for (uint32_t i = 0; i < u->nq; i++) {
        uint32_t row = u->row0 + i / u->n_heads;
        size_t first = (size_t)(u->head0 + i % u->n_heads) * dim;
        ft_attn_head q = {.geo = &plan->geo,
                          .x = rows->q + row * rows->q_stride + first,
                          .bias = u->layer->bq ? u->layer->bq + first : NULL,
                          .norm = u->layer->q_norm,
                          .rope = plan->batch->rope + (size_t)row * plan->geo.n_rot,
                          .scale = plan->q_scale};
        u->kernel->prepare(&q, sc->head);
        u->kernel->set_query(sc->head, dim, sc->q, u->nq, i);
    }
}

/* Finds the ancestors of each row, and computes scores of every block of the tail that holds
 * one. */
static void prepare_tail(const ft_attn_plan *plan, const unit *u, ft_attn_scratch *sc)
{
    const ft_kv_seq *seq = u->seg->seq;
    uint32_t first = u->tail0 / BLOCK;
    bool used[FT_ATTN_TAIL_MAX / BLOCK + 1] = {[0] = u->n_past % BLOCK != 0};
    for (uint32_t r = 0; r < u->n_rows; r++) {
        uint16_t *path = sc->path + (size_t)r * FT_PENDING_MAX;
        for (int32_t i = (int32_t)(u->node0 + r); i >= 0; i = ft_kv_seq_parent(seq, (uint32_t)i)) {
            path[ft_kv_seq_depth(seq, (uint32_t)i)] = (uint16_t)i;
            used[(u->n_past + (uint32_t)i) / BLOCK - first] = true;
        }
    }
    const void *const nothing = NULL;
    for (uint32_t b = 0; b <= FT_ATTN_TAIL_MAX / BLOCK; b++)
        if (used[b]) {
            const void *k = k_page(u, first + b);
            u->kernel->scores(&(ft_attn_scores){.q = sc->q,
                                                .nq = u->nq,
                                                .dim = plan->geo.head_dim,
                                                .k = &k,
                                                .n_block = 1,
                                                .prefetch = &nothing,
                                                .s = sc->tail + (size_t)b * BLOCK,
                                                .s_stride = FT_ATTN_TAIL_MAX});
        }
}

/* Writes the scores of positions [pos0, end) to sc->s. */
static void tile_scores(const ft_attn_plan *plan, const unit *u, ft_attn_scratch *sc, uint32_t pos0,
                        uint32_t end)
{
    const void *k[TILE_BLOCKS], *prefetch[TILE_BLOCKS];
    uint32_t direct = end < u->tail0 ? end : u->tail0, n = 0;
    for (uint32_t pos = pos0; pos < direct; pos += BLOCK, n++) {
        k[n] = k_page(u, pos / BLOCK);
        prefetch[n] = v_page(u, pos / BLOCK);
    }
    if (n)
        u->kernel->scores(&(ft_attn_scores){.q = sc->q,
                                            .nq = u->nq,
                                            .dim = plan->geo.head_dim,
                                            .k = k,
                                            .n_block = n,
                                            .prefetch = prefetch,
                                            .s = sc->s,
                                            .s_stride = FT_ATTN_TILE});
    for (uint32_t i = 0; i < u->nq && end > u->tail0; i++) {
        uint32_t last = u->n_seen[i] < end ? u->n_seen[i] : end;
        float *s = sc->s + (size_t)i * FT_ATTN_TILE;
        const float *tail = sc->tail + (size_t)i * FT_ATTN_TAIL_MAX;
        for (uint32_t pos = pos0 > u->tail0 ? pos0 : u->tail0; pos < last; pos++)
            s[pos - pos0] = tail[index_at(u, sc, i / u->n_heads, pos) - u->tail0];
    }
}

/* Lanes [begin, end) of the tile at pos0, as row `row` of a unit sees them. */
typedef struct row_lanes {
    uint32_t row, pos0, begin, end;
} row_lanes;

/* The pages of their V: read in place, or copied. */
static void row_pages(const ft_attn_plan *plan, const unit *u, ft_attn_scratch *sc,
                      const row_lanes *lanes, const void **v)
{
    for (uint32_t b = lanes->begin / BLOCK; b * BLOCK < lanes->end; b++)
        v[b] = u->linear ? v_page(u, lanes->pos0 / BLOCK + b) : sc->page + b * u->page_bytes;
    for (uint32_t i = lanes->begin; !u->linear && i < lanes->end; i++) {
        uint32_t at = index_at(u, sc, lanes->row, lanes->pos0 + i);
        ft_attn_token to = {sc->page + i / BLOCK * u->page_bytes, i % BLOCK};
        ft_attn_token from = {v_page(u, at / BLOCK), at % BLOCK};
        ft_attn_token_copy(u->kernel->type, plan->geo.head_dim, true, to, from);
    }
}

/* Adds a tile's weighted V; first the positions that all rows share, for all rows at once. */
static void tile_values(const ft_attn_plan *plan, const unit *u, ft_attn_scratch *sc, uint32_t pos0,
                        bool fresh, float *acc)
{
    const void *v[TILE_BLOCKS], *prefetch[TILE_BLOCKS];
    uint32_t dim = plan->geo.head_dim, next = pos0 + FT_ATTN_TILE;
    uint32_t end = next < u->n_pos ? next : u->n_pos, shared = u->shared < end ? u->shared : end;
    uint32_t n_shared = shared > pos0 ? shared - pos0 : 0;
    if (pos0 + n_shared < end)
        n_shared &= ~1u; /* the rest must begin at a whole pair */
    uint32_t direct = u->n_pos < u->tail0 ? u->n_pos : u->tail0;
    for (uint32_t b = 0; b * BLOCK < n_shared; b++) {
        v[b] = v_page(u, pos0 / BLOCK + b);
        prefetch[b] = next + b * BLOCK < direct ? k_page(u, next / BLOCK + b) : NULL;
    }
    ft_attn_values args = {.p = sc->s,
                           .nq = u->nq,
                           .dim = dim,
                           .v = v,
                           .prefetch = prefetch,
                           .end = n_shared,
                           .fresh = fresh,
                           .acc = acc};
    if (n_shared) {
        u->kernel->values(&args);
        args.fresh = false;
    }
    args.nq = u->n_heads;
    args.begin = n_shared;
    args.prefetch = NULL;
    for (uint32_t r = 0; r < u->n_rows; r++) {
        uint32_t first = r * u->n_heads, n_pos = u->n_seen[first];
        if (n_pos <= pos0 + n_shared)
            continue;
        args.end = (n_pos < next ? n_pos : next) - pos0;
        row_pages(plan, u, sc, &(row_lanes){r, pos0, n_shared, args.end}, v);
        args.p = sc->s + (size_t)first * FT_ATTN_TILE;
        args.acc = acc + (size_t)first * dim;
        u->kernel->values(&args);
    }
}

/* Computes the sums of one span, for all rows that reach it. */
static void run_span(const ft_attn_plan *plan, const unit *u, ft_attn_scratch *sc, uint32_t span,
                     const ft_attn_sums *sums)
{
    uint32_t begin = span * FT_ATTN_SPAN, end = begin + FT_ATTN_SPAN, n[FT_ATTN_NQ];
    for (uint32_t pos0 = begin; pos0 < end && pos0 < u->n_pos; pos0 += FT_ATTN_TILE) {
        uint32_t last = pos0 + FT_ATTN_TILE < u->n_pos ? pos0 + FT_ATTN_TILE : u->n_pos;
        tile_scores(plan, u, sc, pos0, last);
        for (uint32_t i = 0; i < u->nq; i++)
            n[i] = u->n_seen[i] <= pos0 ? 0 : (u->n_seen[i] < last ? u->n_seen[i] : last) - pos0;
        u->kernel->weights(&(ft_attn_weights){.s = sc->s,
                                              .nq = u->nq,
                                              .dim = plan->geo.head_dim,
                                              .n = n,
                                              .fresh = pos0 == begin,
                                              .sums = *sums});
        tile_values(plan, u, sc, pos0, pos0 == begin, sums->acc);
    }
}

static void fold_span(const ft_attn_plan *plan, const unit *u, const ft_attn_sums *total,
                      const ft_attn_sums *sums, uint32_t span)
{
    for (uint32_t i = 0; i < u->nq; i++)
        if (u->n_seen[i] > span * FT_ATTN_SPAN)
            u->kernel->fold(total, sums, i, plan->geo.head_dim);
}

static void write_out(const ft_attn_plan *plan, const unit *u, const ft_attn_sums *total,
                      float *out)
{
    uint32_t dim = plan->geo.head_dim;
    size_t stride = (size_t)plan->geo.n_head * dim;
    for (uint32_t i = 0; i < u->nq; i++) {
        float *sum = total->sum + i * (size_t)16;
        const float *restrict acc = total->acc + (size_t)i * dim;
        for (uint32_t half = 8; half; half /= 2)
            for (uint32_t j = 0; j < half; j++)
                sum[j] += sum[j + half];
        float inverse = 1.0f / sum[0];
        float *restrict to =
            out + (u->row0 + i / u->n_heads) * stride + (size_t)(u->head0 + i % u->n_heads) * dim;
        for (uint32_t d = 0; d < dim; d++)
            to[d] = acc[d] * inverse;
    }
}

/* ---- a pass ---- */

static void run_whole(const ft_attn_plan *plan, const unit *u, ft_attn_scratch *sc, float *out)
{
    run_span(plan, u, sc, 0, &sc->total);
    for (uint32_t span = 1; span * FT_ATTN_SPAN < u->n_pos; span++) {
        run_span(plan, u, sc, span, &sc->span);
        fold_span(plan, u, &sc->total, &sc->span, span);
    }
    write_out(plan, u, &sc->total, out);
}

/* Computes some spans of a split unit. The thread that finishes the unit's last span merges all of
 * them. */
static void run_part(ft_attn_plan *plan, const unit *u, ft_attn_scratch *sc,
                     const ft_attn_item *item, uint32_t part, float *out)
{
    const ft_attn_chunk *c = &plan->chunks[item->chunk];
    uint32_t n_spans = (c->n_pos - 1) / FT_ATTN_SPAN + 1;
    size_t floats = ft_attn_part_floats(plan);
    float *base = plan->parts + (c->slot0 + (size_t)part * n_spans) * floats;
    atomic_uint *count = &plan->counts[c->count0 + part];
    for (uint32_t span = item->span0; span < item->span0 + item->n_spans; span++) {
        ft_attn_sums sums = ft_attn_part(base + span * floats);
        run_span(plan, u, sc, span, &sums);
    }
    uint32_t before = atomic_fetch_add_explicit(count, item->n_spans, memory_order_acq_rel);
    if (before + item->n_spans < n_spans)
        return;
    atomic_store_explicit(count, 0, memory_order_relaxed);
    ft_attn_sums total = ft_attn_part(base);
    for (uint32_t span = 1; span < n_spans; span++) {
        ft_attn_sums sums = ft_attn_part(base + span * floats);
        fold_span(plan, u, &total, &sums, span);
    }
    write_out(plan, u, &total, out);
}

void ft_attn_run(ft_attn_plan *plan, const ft_attn_layer *layer, const ft_attn_rows *rows,
                 float *out, unsigned ith, atomic_uint *next)
{
    ft_attn_scratch *sc = &plan->scratch[ith];
    for (;;) {
        uint32_t index = atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
        if (index / plan->n_units >= plan->n_items)
            return;
        /* Head by head: chunks of one segment are consecutive, and find its K and V in the
         * cache. */
        const ft_attn_item *item = &plan->items[index % plan->n_items];
        uint32_t part = index / plan->n_items;
        uint32_t last = (item->span0 + item->n_spans) * FT_ATTN_SPAN;
        unit u;
        unit_init(plan, layer, &plan->chunks[item->chunk], part, &u);
        prefetch_next(plan, &u, item->span0);
        load_queries(plan, &u, rows, sc);
        if (!u.linear && last > u.tail0)
            prepare_tail(plan, &u, sc);
        if (plan->chunks[item->chunk].split)
            run_part(plan, &u, sc, item, part, out);
        else
            run_whole(plan, &u, sc, out);
    }
}
