// SPDX-License-Identifier: Apache-2.0
// Attention through ggml's operators alone, for any backend: set_rows writes rows of K and V,
// get_rows gathers contexts by slot, and flash attention runs under a mask that encodes the tree.
// The host writes tensors only through tensor_set.
//
// Segments of similar size are *grouped*: their rows are padded to a common number R and their
// contexts to a common length C, and one flash attention computes all G of them. So a layer takes a
// handful of kernels, however many sessions there are. Padding repeats a segment's own first row
// and first slot, masked, so nothing of another session is ever read. Padding gathers at most a
// quarter more than a context, unless there are more kinds of segments than groups. Lengths grow in
// steps, so that the shape (the list of R, C, G) stays the same over many passes; a graph fits
// every batch of its shape.
//
// Owned by the engine's thread.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/route.h"

typedef struct ggml_tensor tensor;

enum {
    MAX_GROUPS = 16,
    MAX_KINDS = 8,     /* kinds of segments; the other groups are for kinds that are split */
    CTX_STEP = 256,    /* CUDA's kernels need contexts that are multiples of it */
    MIN_GATHER = 8192, /* tokens that one group may gather in any case */
    LEVELS = 4         /* levels of coarseness */
};

/* n segments, each padded to `rows` rows and `ctx` tokens of context. */
typedef struct group {
    uint32_t rows, ctx, n;
} group;

typedef struct shape {
    group groups[MAX_GROUPS];
    uint32_t n_groups;
    bool exact; /* one group without padded rows: rows are in order */
} shape;

typedef struct group_inputs {
    tensor *index; /* I32 [ctx * n], slots of the contexts */
    tensor *mask;  /* F16 [ctx, rows, 1, n] */
    tensor *rows;  /* I32 [rows * n], numbers of rows in the batch; NULL if exact */
} group_inputs;

/* The inputs of a built graph. */
typedef struct graph_inputs {
    shape shape;
    tensor *pos;    /* I32 [n_rows] */
    tensor *slots;  /* I64 [n_rows] */
    tensor *output; /* I32 [n_rows], for each row its place in the groups' results; NULL if exact */
    group_inputs group[MAX_GROUPS];
} graph_inputs;

typedef struct portable_route {
    ft_route base;
    const ft_kv_store *store;
    const ft_batch *batch;
    uint32_t first_layer; /* the first layer with this route */
    uint32_t gather_tok;  /* most tokens that one group gathers, unless there are too many groups */
    bool bits;            /* gather rows of the pool as integers, so that F16 stays F16 */
    shape now;            /* shape of the present batch */
    uint32_t *order;      /* [max_rows], the batch's segments by group */
    graph_inputs graphs[FT_GRAPH_SLOTS + 1];
    void *staging; /* for one input */
    size_t staging_bytes;
} portable_route;

/* ---- grouping ---- */

static uint32_t context_of(const ft_attn_seg *seg)
{
    return seg->seq->n_past + seg->seq->n_pending;
}

static uint32_t power_of_two(uint32_t n)
{
    uint32_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

static uint32_t round_up(uint32_t n, uint32_t step)
{
    return (n + step - 1) / step * step;
}

/* Contexts grow in quarters of a power of two, or coarsely in powers of two. */
static uint32_t pad_ctx(uint32_t n, int level)
{
    uint32_t p = power_of_two(n);
    if (level > 0 || p <= CTX_STEP)
        return p < CTX_STEP ? CTX_STEP : p;
    return round_up(n, p / 8 < CTX_STEP ? CTX_STEP : p / 8);
}

static uint32_t pad_rows(uint32_t n, int level)
{
    uint32_t p = power_of_two(n);
    return level > 0 && (p & 0x55555555u) == 0 ? 2 * p : p; /* coarsely: powers of four */
}

static group kind_of(const portable_route *route, const ft_attn_seg *seg, int level)
{
    group kind = {pad_rows(seg->n_rows, level), pad_ctx(context_of(seg), level), 1};
    for (uint32_t i = 0; i < route->batch->n_segs && level > 1; i++) {
        const ft_attn_seg *other = &route->batch->segs[i];
        uint32_t rows = pad_rows(other->n_rows, level), ctx = pad_ctx(context_of(other), level);
        kind.rows = rows > kind.rows ? rows : kind.rows;
        if (level > 2)
            kind.ctx = ctx > kind.ctx ? ctx : kind.ctx;
    }
    return kind;
}

/* Lists the kinds of segments, at most MAX_KINDS. Returns their number; 0: there are more. */
static uint32_t list_kinds(const portable_route *route, int level, group *kinds)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < route->batch->n_segs; i++) {
        group kind = kind_of(route, &route->batch->segs[i], level);
        uint32_t k = 0;
        while (k < n && (kinds[k].rows != kind.rows || kinds[k].ctx != kind.ctx))
            k++;
        if (k == MAX_KINDS)
            return 0;
        if (k == n)
            kinds[n++] = kind;
        else
            kinds[k].n++;
    }
    return n;
}

/* Appends a kind's segments as one group, or as several if one would gather too much at once. */
static void add_groups(shape *s, group kind, uint64_t gather_tok)
{
    uint32_t most = gather_tok > kind.ctx ? (uint32_t)(gather_tok / kind.ctx) : 1;
    uint32_t pieces = (kind.n + most - 1) / most;
    for (uint32_t i = 0; i < pieces; i++) {
        group g = kind;
        g.n = kind.n / pieces + (i < kind.n % pieces);
        s->groups[s->n_groups++] = g;
    }
}

static bool is_exact(const portable_route *route)
{
    for (uint32_t i = 0; i < route->batch->n_segs; i++)
        if (route->now.n_groups > 1 || route->batch->segs[i].n_rows != route->now.groups[0].rows)
            return false;
    return true;
}

/* Sorts the batch's segments into groups. Called before the graph of the batch is fetched. */
static void begin(ft_route *base)
{
    portable_route *route = (portable_route *)base;
    const ft_batch *batch = route->batch;
    group kinds[MAX_KINDS];
    uint32_t n_kinds = 0, at = 0;
    uint64_t total = 0, gather_tok = route->gather_tok;
    int level = -1;
    while (n_kinds == 0 && ++level < LEVELS) /* the last level has one kind */
        n_kinds = list_kinds(route, level, kinds);
    for (uint32_t k = 0; k < n_kinds; k++)
        total += (uint64_t)kinds[k].ctx * kinds[k].n;
    /* Now there are no more pieces than groups left, not counting a kind's last piece. */
    if (gather_tok < 2 * total / (MAX_GROUPS - MAX_KINDS))
        gather_tok = 2 * total / (MAX_GROUPS - MAX_KINDS);
    memset(&route->now, 0, sizeof route->now); /* shapes are compared as bytes */
    for (uint32_t k = 0; k < n_kinds; k++) {
        add_groups(&route->now, kinds[k], gather_tok);
        for (uint32_t i = 0; i < batch->n_segs; i++) {
            group kind = kind_of(route, &batch->segs[i], level);
            if (kind.rows == kinds[k].rows && kind.ctx == kinds[k].ctx)
                route->order[at++] = i;
        }
    }
    route->now.exact = is_exact(route);
}

static bool fits(void *ctx, uint32_t slot)
{
    const portable_route *route = ctx;
    return memcmp(&route->graphs[slot].shape, &route->now, sizeof route->now) == 0;
}

/* ---- the graph ---- */

static tensor *input(ft_build *b, tensor *t)
{
    ggml_set_input(t);
    return t;
}

/* The largest need of a batch: all rows on the longest context, and another group beside it. */
static shape largest_shape(const portable_route *route, const ft_build *b)
{
    shape s;
    memset(&s, 0, sizeof s);
    s.groups[s.n_groups++] = (group){b->n_rows, route->gather_tok, 1};
    s.groups[s.n_groups++] = (group){1, CTX_STEP, 1};
    return s;
}

static void add_inputs(portable_route *route, ft_build *b)
{
    graph_inputs *in = &route->graphs[b->slot];
    shape largest = largest_shape(route, b);
    memset(in, 0, sizeof *in);
    memcpy(&in->shape, b->slot == FT_GRAPH_LARGEST ? &largest : &route->now, sizeof in->shape);
    in->pos = input(b, ggml_new_tensor_1d(b->ctx, GGML_TYPE_I32, b->n_rows));
    in->slots = input(b, ggml_new_tensor_1d(b->ctx, GGML_TYPE_I64, b->n_rows));
    if (!in->shape.exact)
        in->output = input(b, ggml_new_tensor_1d(b->ctx, GGML_TYPE_I32, b->n_rows));
    for (uint32_t i = 0; i < in->shape.n_groups; i++) {
        group g = in->shape.groups[i];
        group_inputs *gi = &in->group[i];
        gi->index = input(b, ggml_new_tensor_1d(b->ctx, GGML_TYPE_I32, (int64_t)g.ctx * g.n));
        gi->mask = input(b, ggml_new_tensor_4d(b->ctx, GGML_TYPE_F16, g.ctx, g.rows, 1, g.n));
        if (!in->shape.exact)
            gi->rows = input(b, ggml_new_tensor_1d(b->ctx, GGML_TYPE_I32, (int64_t)g.rows * g.n));
    }
}

/* [heads * head_dim, n_rows], maybe with gaps between rows -> [head_dim, heads, n_rows] with bias
 * and norm, and RoPE. */
static tensor *heads_of(ft_build *b, tensor *x, tensor *bias, tensor *norm, tensor *pos,
                        tensor *factors)
{
    const ft_hparams *hp = b->hparams;
    tensor *h = bias ? ggml_add(b->ctx, x, bias) : x;
    h = ggml_view_3d(b->ctx, h, hp->head_dim, h->ne[0] / hp->head_dim, h->ne[1],
                     hp->head_dim * h->nb[0], h->nb[1], 0);
    if (norm)
        h = ggml_mul(b->ctx, ggml_rms_norm(b->ctx, h, hp->rms_eps), norm);
    return ggml_rope_ext(b->ctx, h, pos, factors, (int)hp->n_rot, hp->rope_type,
                         (int)hp->n_ctx_train, hp->rope_base, hp->rope_scale, 0.0f, 1.0f, 0.0f,
                         0.0f);
}

static tensor *flat(ft_build *b, tensor *heads)
{
    return ggml_reshape_2d(b->ctx, heads, heads->ne[0] * heads->ne[1], heads->ne[2]);
}

/* Views the same bytes as rows of another type. */
static tensor *as_type(ft_build *b, tensor *t, enum ggml_type type)
{
    size_t from = ggml_type_size(t->type), to = ggml_type_size(type);
    tensor *v = ggml_view_2d(b->ctx, t, t->ne[0] * (int64_t)(from < to ? from : to) / (int64_t)to,
                             t->ne[1], t->nb[1], 0);
    v->type = type;
    v->ne[0] = t->ne[0] * (int64_t)from / (int64_t)to;
    v->nb[0] = to;
    return v;
}

/* [n_head_kv * head_dim, slots] by index -> [head_dim, ctx, n_head_kv, n]. get_rows would turn F16
 * into F32, twice the bytes; pairs of them as one integer go through as they are. */
static tensor *gather(ft_build *b, const portable_route *route, tensor *pool, tensor *index,
                      group g)
{
    tensor *rows;
    if (route->bits)
        rows = as_type(b, ggml_get_rows(b->ctx, as_type(b, pool, GGML_TYPE_I32), index),
                       GGML_TYPE_F16);
    else
        rows = ggml_get_rows(b->ctx, pool, index);
    rows = ggml_reshape_4d(b->ctx, rows, b->hparams->head_dim, b->hparams->n_head_kv, g.ctx, g.n);
    return ggml_permute(b->ctx, rows, 0, 2, 1, 3);
}

/* q: [n_head * head_dim, n_rows] of the batch; the result's columns are the group's padded rows. */
static tensor *attend_group(ft_build *b, const portable_route *route, tensor *q, tensor *k,
                            tensor *v, uint32_t i)
{
    const graph_inputs *in = &route->graphs[b->slot];
    const group_inputs *gi = &in->group[i];
    group g = in->shape.groups[i];
    float scale = 1.0f / sqrtf((float)b->hparams->head_dim);
    if (gi->rows)
        q = ggml_get_rows(b->ctx, q, gi->rows);
    q = ggml_reshape_4d(b->ctx, q, b->hparams->head_dim, b->hparams->n_head, g.rows, g.n);
    tensor *out = ggml_flash_attn_ext(
        b->ctx, ggml_permute(b->ctx, q, 0, 2, 1, 3), gather(b, route, k, gi->index, g),
        gather(b, route, v, gi->index, g), gi->mask, scale, 0.0f, 0.0f);
    ggml_prec_set_acc(out, GGML_PREC_F32);
    return ggml_reshape_2d(b->ctx, out, out->ne[0] * out->ne[1], (int64_t)g.rows * g.n);
}

/* Concatenates as a balanced tree, so that no row is copied more than log2(n) times. */
static tensor *join(ft_build *b, tensor **parts, uint32_t n)
{
    if (n == 1)
        return parts[0];
    return ggml_concat(b->ctx, join(b, parts, n / 2), join(b, parts + n / 2, n - n / 2), 1);
}

static tensor *attend(ft_build *b, uint32_t il, tensor *q, tensor *k, tensor *v, bool output)
{
    portable_route *route = b->route->ctx;
    const ft_layer *l = &b->weights->layers[il];
    graph_inputs *in = &route->graphs[b->slot];
    tensor *parts[MAX_GROUPS];
    if (il == route->first_layer)
        add_inputs(route, b);
    k = flat(b, heads_of(b, k, l->bk, l->k_norm, in->pos, l->rope_freqs));
    v = l->bv ? ggml_add(b->ctx, v, l->bv) : v;
    tensor *k_pool = ggml_set_rows(b->ctx, route->store->k[il], k, in->slots);
    tensor *v_pool = ggml_set_rows(b->ctx, route->store->v[il], v, in->slots);
    ggml_build_forward_expand(b->graph, k_pool);
    if (!output)
        return v_pool;
    q = flat(b, heads_of(b, q, l->bq, l->q_norm, in->pos, l->rope_freqs));
    for (uint32_t i = 0; i < in->shape.n_groups; i++) {
        parts[i] = attend_group(b, route, q, k_pool, v_pool, i);
        /* one after another, so that they share memory */
        ggml_build_forward_expand(b->graph, parts[i]);
    }
    tensor *all = join(b, parts, in->shape.n_groups);
    return in->output ? ggml_get_rows(b->ctx, all, in->output) : all;
}

/* ---- inputs ---- */

static void *staged(portable_route *route, size_t bytes)
{
    if (bytes > route->staging_bytes) {
        free(route->staging);
        route->staging = malloc(bytes);
        route->staging_bytes = route->staging ? bytes : 0;
    }
    return route->staging;
}

/* A pass without logits on a model with one layer reads no context: such inputs have no memory. */
static bool is_read(const tensor *t)
{
    return t && t->buffer;
}

static bool set_index(portable_route *route, group g, const uint32_t *segs, tensor *index)
{
    int32_t *slot = is_read(index) ? staged(route, ggml_nbytes(index)) : NULL;
    if (!slot)
        return !is_read(index);
    for (uint32_t j = 0; j < g.n; j++, slot += g.ctx) {
        const ft_attn_seg *seg = &route->batch->segs[segs[j]];
        uint32_t n = context_of(seg);
        for (uint32_t i = 0; i < g.ctx; i++)
            slot[i] = (int32_t)ft_kv_seq_slot(seg->seq, i < n ? i : 0);
    }
    ggml_backend_tensor_set(index, route->staging, 0, ggml_nbytes(index));
    return true;
}

/* A row of the mask: it shows committed tokens, ancestors and the node itself. */
static void fill_mask(const ft_attn_seg *seg, uint32_t row, uint32_t n_ctx, uint16_t *out)
{
    const uint16_t closed = ggml_fp32_to_fp16(-INFINITY), open = ggml_fp32_to_fp16(0.0f);
    uint32_t n_past = seg->seq->n_past;
    for (uint32_t i = 0; i < n_ctx; i++)
        out[i] = i < n_past ? open : closed;
    for (int32_t i = (int32_t)(seg->first_node + row); i >= 0;
         i = ft_kv_seq_parent(seg->seq, (uint32_t)i))
        out[n_past + (uint32_t)i] = open;
}

static bool set_mask(portable_route *route, group g, const uint32_t *segs, tensor *mask)
{
    uint16_t *out = is_read(mask) ? staged(route, ggml_nbytes(mask)) : NULL;
    if (!out)
        return !is_read(mask);
    for (uint32_t j = 0; j < g.n; j++) {
        const ft_attn_seg *seg = &route->batch->segs[segs[j]];
        for (uint32_t r = 0; r < g.rows; r++, out += g.ctx)
            fill_mask(seg, r < seg->n_rows ? r : 0, g.ctx, out);
    }
    ggml_backend_tensor_set(mask, route->staging, 0, ggml_nbytes(mask));
    return true;
}

static bool set_rows(portable_route *route, group g, const uint32_t *segs, tensor *rows)
{
    int32_t *out = is_read(rows) ? staged(route, ggml_nbytes(rows)) : NULL;
    if (!out)
        return !is_read(rows);
    for (uint32_t j = 0; j < g.n; j++) {
        const ft_attn_seg *seg = &route->batch->segs[segs[j]];
        for (uint32_t r = 0; r < g.rows; r++)
            *out++ = (int32_t)(seg->first_row + (r < seg->n_rows ? r : 0));
    }
    ggml_backend_tensor_set(rows, route->staging, 0, ggml_nbytes(rows));
    return true;
}

/* For each row of the batch, its place among the padded rows of all groups. */
static bool set_output(portable_route *route, tensor *output)
{
    int32_t *out = is_read(output) ? staged(route, ggml_nbytes(output)) : NULL;
    const uint32_t *segs = route->order;
    uint32_t at = 0;
    if (!out)
        return !is_read(output);
    for (uint32_t i = 0; i < route->now.n_groups; i++) {
        group g = route->now.groups[i];
        for (uint32_t j = 0; j < g.n; j++, at += g.rows) {
            const ft_attn_seg *seg = &route->batch->segs[*segs++];
            for (uint32_t r = 0; r < seg->n_rows; r++)
                out[seg->first_row + r] = (int32_t)(at + r);
        }
    }
    ggml_backend_tensor_set(output, out, 0, ggml_nbytes(output));
    return true;
}

static bool set_places(portable_route *route, const graph_inputs *in)
{
    const ft_batch *batch = route->batch;
    int64_t *slot = staged(route, batch->n_rows * sizeof *slot);
    if (!slot)
        return false;
    for (uint32_t i = 0; i < batch->n_rows; i++)
        slot[i] = batch->slot[i];
    ggml_backend_tensor_set(in->slots, slot, 0, batch->n_rows * sizeof *slot);
    ggml_backend_tensor_set(in->pos, batch->pos, 0, batch->n_rows * sizeof *batch->pos);
    return true;
}

static bool set_inputs(ft_route *base, uint32_t slot)
{
    portable_route *route = (portable_route *)base;
    const graph_inputs *in = &route->graphs[slot];
    const uint32_t *segs = route->order;
    bool ok = set_places(route, in) && set_output(route, in->output);
    for (uint32_t i = 0; i < in->shape.n_groups && ok; i++) {
        group g = in->shape.groups[i];
        ok = set_index(route, g, segs, in->group[i].index) &&
             set_mask(route, g, segs, in->group[i].mask) &&
             set_rows(route, g, segs, in->group[i].rows);
        segs += g.n;
    }
    return ok;
}

/* ---- creation ---- */

static void destroy(ft_route *base)
{
    portable_route *route = (portable_route *)base;
    free(route->order);
    free(route->staging);
    free(route);
}

/* Whether every backend that gathers can gather integers. False on the CPU: its flash attention
 * sums in F16 if K and V are F16. */
static bool gathers_bits(const ft_kv_store *store)
{
    struct ggml_init_params params = {.mem_size = 4 * ggml_tensor_overhead(), .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    int64_t width = (int64_t)store->n_head_kv * store->head_dim / 2;
    if (!ctx)
        return false;
    tensor *rows = ggml_get_rows(ctx, ggml_new_tensor_2d(ctx, GGML_TYPE_I32, width, CTX_STEP),
                                 ggml_new_tensor_1d(ctx, GGML_TYPE_I32, CTX_STEP));
    bool can = store->type == FT_KV_F16 && (store->n_head_kv * store->head_dim) % 2 == 0;
    for (uint32_t i = 0; i < store->n_layer && can; i++)
        if (!ft_kv_store_is_tiled(store, i)) {
            uint32_t place = ft_model_where_layer(store->model, i);
            can = place && ggml_backend_supports_op(store->backends->at[place], rows);
        }
    ggml_free(ctx);
    return can;
}

ft_status ft_route_portable_create(const ft_route_opts *opts, ft_route **out)
{
    uint32_t pool = pad_ctx(opts->store->n_blocks * FT_KV_BLOCK_TOK, 0);
    *out = NULL;
    portable_route *route = calloc(1, sizeof *route);
    if (!route)
        return FT_NOMEM;
    route->base = (ft_route){.ops = {attend, fits, route},
                             .begin = begin,
                             .set_inputs = set_inputs,
                             .destroy = destroy,
                             .nodes_per_layer = 40 + 20 * MAX_GROUPS,
                             .bytes = sizeof *route};
    route->store = opts->store;
    route->batch = opts->batch;
    route->gather_tok = pool > MIN_GATHER ? pool : MIN_GATHER;
    route->bits = gathers_bits(opts->store);
    while (ft_kv_store_is_tiled(opts->store, route->first_layer))
        route->first_layer++;
    route->order = calloc(opts->batch->max_rows, sizeof *route->order);
    if (!route->order) {
        destroy(&route->base);
        return FT_NOMEM;
    }
    *out = &route->base;
    return FT_OK;
}
