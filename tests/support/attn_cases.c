// SPDX-License-Identifier: Apache-2.0
// See attn_cases.h. A setup is a pool of random K and V, up to SEQS sequences in it, each with a
// random tree or chain behind a random context, and the queries of all their nodes.
#include "support/attn_cases.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/attn.h"
#include "engine/attn_kernel.h"
#include "engine/f16.h"

#define N_BLOCKS    192
#define SEQS        8
#define MAX_ROWS    256
#define MAX_TREE    64
#define MAX_DIM     256
#define MAX_CTX     2048
#define MAX_THREADS 64

typedef struct setup {
    ft_kv_type type;
    ft_attn_geometry geo;
    ft_kv kv;
    ft_kv_seq seq[SEQS];
    ft_attn_seg segs[SEQS];
    ft_attn_batch batch;
    ft_attn_layer layer;
    void *pool; /* of the layer's K and V */
    uint32_t slot[MAX_ROWS], pos[MAX_ROWS];
    float *rope, *q;
    size_t page_bytes;
    ft_rng rng;
} setup;

static char message[256];

static const char *wrong(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return message;
}

static void noise(ft_rng *rng, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)ft_rng_normal(rng);
}

/* ---- setup ---- */

/* A sequence of n_past committed tokens with a random tree or chain of n pending ones behind, of
 * which the batch holds all from `first` on. */
static void add_seq(setup *s, uint32_t n_past, uint32_t n, uint32_t first, bool chain)
{
    int32_t parent[MAX_TREE];
    uint32_t path[MAX_CTX], i = s->batch.n_segs;
    ft_kv_seq *seq = &s->seq[i];
    ft_kv_seq_init(seq, &s->kv);
    bool ok = ft_kv_seq_reserve(seq, n_past + n) == FT_OK;
    if (ok && n_past) {
        for (uint32_t j = 0; j < n_past; j++)
            path[j] = j;
        ft_kv_seq_extend(seq, NULL, n_past);
        ok = ft_kv_seq_commit(seq, path, n_past, NULL, 0, NULL) == FT_OK;
    }
    ok = ok && ft_kv_seq_reserve(seq, n) == FT_OK;
    if (!ok) {
        fprintf(stderr, "attn_cases: no sequence\n");
        abort();
    }
    for (uint32_t j = 0; j < n; j++)
        parent[j] = (int32_t)ft_rng_below(&s->rng, j + 1) - 1;
    ft_kv_seq_extend(seq, chain ? NULL : parent, n);
    s->segs[i] = (ft_attn_seg){seq, s->batch.n_rows, n - first, first};
    for (uint32_t j = first; j < n; j++) {
        s->slot[s->batch.n_rows] = ft_kv_seq_slot(seq, n_past + j);
        s->pos[s->batch.n_rows++] = n_past + ft_kv_seq_depth(seq, j);
    }
    s->batch.n_segs++;
}

/* The order of blocks in the pool becomes random; K and V of every slot too. */
static void fill_pool(setup *s)
{
    const ft_attn_kernel *plain = ft_attn_kernel_plain(s->type);
    uint32_t dim = s->geo.head_dim;
    float head[MAX_DIM];
    for (uint32_t i = 0; i < s->batch.n_segs; i++)
        for (uint32_t b = 0; b + 1 < s->seq[i].n_block; b++) {
            uint32_t c = b + ft_rng_below(&s->rng, s->seq[i].n_block - b);
            uint32_t t = s->seq[i].block[b];
            s->seq[i].block[b] = s->seq[i].block[c];
            s->seq[i].block[c] = t;
        }
    s->page_bytes = ft_attn_page_bytes(s->type, dim);
    const size_t half_bytes = s->page_bytes * s->geo.n_head_kv;
    s->layer.block_bytes = 4 * half_bytes; /* as if there were another layer */
    s->pool = malloc(s->layer.block_bytes * N_BLOCKS);
    memset(s->pool, 0xff, s->layer.block_bytes * N_BLOCKS); /* not a number: nothing is written */
    s->layer.k = s->pool;
    s->layer.v = (char *)s->pool + half_bytes;
    for (uint32_t i = 0; i < s->batch.n_segs; i++)
        for (uint32_t t = 0; t < s->seq[i].n_past + s->seq[i].n_pending; t++)
            for (uint32_t h = 0; h < s->geo.n_head_kv; h++) {
                uint32_t slot = ft_kv_seq_slot(&s->seq[i], t);
                size_t page = slot / 16 * s->layer.block_bytes + h * s->page_bytes;
                noise(&s->rng, head, dim);
                plain->write_k(head, dim, (char *)s->layer.k + page, slot % 16);
                noise(&s->rng, head, dim);
                plain->write_v(head, dim, (char *)s->layer.v + page, slot % 16);
            }
}

static void init_geometry(setup *s, uint64_t seed)
{
    static const uint32_t groups[] = {1, 2, 3, 4, 7, 8, 32}, dims[] = {32, 64, 80, 96, 128, 256};
    memset(s, 0, sizeof *s);
    ft_rng_init(&s->rng, seed);
    s->type = (ft_kv_type)(seed % 3);
    uint32_t group = groups[ft_rng_below(&s->rng, 7)], dim = dims[ft_rng_below(&s->rng, 6)];
    if (dim % ft_attn_type_multiple(s->type) != 0)
        dim = 96;
    s->geo.n_head_kv = 1 + ft_rng_below(&s->rng, 3);
    s->geo.n_head = s->geo.n_head_kv * group;
    s->geo.head_dim = s->geo.n_rot = dim;
    s->geo.rope_neox = ft_rng_below(&s->rng, 2);
    s->batch.segs = s->segs;
    if (ft_kv_init(&s->kv, N_BLOCKS, NULL, NULL) != FT_OK) {
        fprintf(stderr, "attn_cases: no pool\n");
        abort();
    }
}

/* After the sequences were added. */
static void finish_setup(setup *s)
{
    uint32_t dim = s->geo.head_dim;
    fill_pool(s);
    size_t n_q = (size_t)s->batch.n_rows * s->geo.n_head * dim;
    s->q = malloc(n_q * sizeof *s->q);
    noise(&s->rng, s->q, n_q);
    s->rope = malloc((size_t)s->batch.n_rows * dim * sizeof(float));
    ft_rope_opts rope = {.n_rot = dim, .base = 10000, .scale = 1};
    for (uint32_t r = 0; r < s->batch.n_rows; r++)
        ft_rope_table(&rope, s->pos[r], s->rope + (size_t)r * dim);
    s->batch.row_slot = s->slot;
    s->batch.row_pos = s->pos;
    s->batch.rope = s->rope;
}

static void setup_deinit(setup *s)
{
    for (uint32_t i = 0; i < s->batch.n_segs; i++)
        ft_kv_seq_deinit(&s->seq[i]);
    ft_kv_deinit(&s->kv);
    free(s->pool);
    free(s->q);
    free(s->rope);
}

/* ---- running ---- */

typedef struct worker {
    ft_attn_plan *plan;
    const ft_attn_layer *layer;
    const ft_attn_rows *rows;
    float *out;
    unsigned ith;
    atomic_uint *next;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    ft_attn_run(w->plan, w->layer, w->rows, w->out, w->ith, w->next);
    return NULL;
}

/* The batch's plan is for n_threads; `real` of them exist, and do all of it. */
static float *run(setup *s, const ft_attn_batch *batch, const ft_attn_kernel *kernel,
                  unsigned n_threads, unsigned real)
{
    size_t width = (size_t)s->geo.n_head * s->geo.head_dim;
    float *out = calloc(s->batch.n_rows * width, sizeof *out);
    ft_attn_plan *plan = NULL;
    ft_attn_rows rows = {.q = s->q, .q_stride = width};
    ft_attn_layer layer = s->layer;
    layer.kernel = kernel;
    if (ft_attn_plan_create(&s->geo, MAX_ROWS, s->kv.n_blocks * FT_KV_BLOCK_TOK, n_threads,
                            &plan) != FT_OK)
        abort();
    for (int pass = 0; pass < 2; pass++) { /* the second finds what the first left behind */
        pthread_t threads[MAX_THREADS];
        worker workers[MAX_THREADS];
        atomic_uint next = 0;
        ft_attn_plan_batch(plan, batch);
        for (unsigned i = 0; i < real; i++)
            workers[i] = (worker){plan, &layer, &rows, out, i, &next};
        for (unsigned i = 1; i < real; i++)
            if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
                abort();
        work(&workers[0]);
        for (unsigned i = 1; i < real; i++)
            pthread_join(threads[i], NULL);
    }
    ft_attn_plan_destroy(plan);
    return out;
}

/* ---- attention by its definition ---- */

/* Written from the table in attn_layout.h, not through its functions. */
static double token_at(const setup *s, bool value, uint32_t slot, uint32_t head, uint32_t d)
{
    uint32_t dim = s->geo.head_dim, lane = slot % 16;
    const char *page = (const char *)(value ? s->layer.v : s->layer.k) +
                       slot / 16 * s->layer.block_bytes + head * s->page_bytes;
    const uint16_t *half = (const uint16_t *)page;
    const int8_t *bytes = (const int8_t *)page + dim / 32 * 16 * 2;
    if (s->type == FT_KV_F16)
        return ft_f16_to_f32(value ? half[lane * dim + d] : half[d * 16 + lane]);
    if (s->type == FT_KV_BF16)
        return ft_bf16_to_f32(value ? half[(lane / 2 * dim + d) * 2 + lane % 2]
                                    : half[(d / 2 * 16 + lane) * 2 + d % 2]);
    double scale = ft_f16_to_f32(half[d / 32 * 16 + lane]);
    return scale * (value ? bytes[lane * dim + d] : bytes[(d / 4 * 16 + lane) * 4 + d % 4]);
}

static void rotate(const setup *s, uint32_t row, const float *q, double *out)
{
    uint32_t half = s->geo.n_rot / 2;
    for (uint32_t i = 0; i < half; i++) {
        double angle = s->pos[row] * pow(10000.0, -2.0 * i / s->geo.n_rot);
        uint32_t a = s->geo.rope_neox ? i : 2 * i, b = s->geo.rope_neox ? i + half : 2 * i + 1;
        out[a] = q[a] * cos(angle) - q[b] * sin(angle);
        out[b] = q[a] * sin(angle) + q[b] * cos(angle);
    }
}

/* The query as its type rounds it; that is part of what the type is. */
static void query(const setup *s, uint32_t row, uint32_t head, double *out)
{
    uint32_t dim = s->geo.head_dim;
    const float *q = s->q + ((size_t)row * s->geo.n_head + head) * dim;
    float prepared[MAX_DIM], rounded[MAX_DIM * 2];
    rotate(s, row, q, out);
    if (s->type == FT_KV_F16)
        return;
    const ft_attn_kernel *plain = ft_attn_kernel_plain(s->type);
    ft_attn_head h = {
        .geo = &s->geo, .x = q, .rope = s->rope + (size_t)row * s->geo.n_rot, .scale = 1};
    plain->prepare(&h, prepared);
    plain->set_query(prepared, dim, rounded, 1, 0);
    for (uint32_t d = 0; d < dim; d++)
        out[d] = rounded[d] * (s->type == FT_KV_Q8_0 ? (double)rounded[dim + d / 32] : 1.0);
}

/* Attention of one row and head; returns the largest magnitude among the values. */
static double oracle(const setup *s, const ft_attn_seg *seg, uint32_t r, uint32_t head, double *out)
{
    static uint32_t slots[MAX_CTX];
    static double w[MAX_CTX];
    uint32_t dim = s->geo.head_dim, n = 0;
    uint32_t kv_head = head / (s->geo.n_head / s->geo.n_head_kv);
    double q[MAX_DIM], max = -INFINITY, sum = 0, largest = 0;
    for (uint32_t i = 0; i < seg->seq->n_past; i++)
        slots[n++] = ft_kv_seq_slot(seg->seq, i);
    for (int32_t i = (int32_t)(seg->first_node + r); i >= 0;
         i = ft_kv_seq_parent(seg->seq, (uint32_t)i))
        slots[n++] = ft_kv_seq_slot(seg->seq, seg->seq->n_past + (uint32_t)i);
    query(s, seg->first_row + r, head, q);
    for (uint32_t i = 0; i < n; i++) {
        w[i] = 0;
        for (uint32_t d = 0; d < dim; d++)
            w[i] += q[d] * token_at(s, false, slots[i], kv_head, d);
        w[i] /= sqrt(dim);
        max = w[i] > max ? w[i] : max;
    }
    memset(out, 0, dim * sizeof *out);
    for (uint32_t i = 0; i < n; i++) {
        w[i] = exp(w[i] - max);
        sum += w[i];
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t d = 0; d < dim; d++) {
            double v = token_at(s, true, slots[i], kv_head, d);
            out[d] += w[i] / sum * v;
            largest = fabs(v) > largest ? fabs(v) : largest;
        }
    return largest;
}

/* f16 and q8_0 differ from the definition by float rounding alone: 2e-4 is some 100 times what sums
 * of 2,000 terms of size 4 cost. bf16 rounds each weight to within 2^-9 of it; the weights' sum is
 * of the rounded ones, so a value is off by at most 2^-8 of the largest one. */
static const char *check_oracle(const setup *s, const float *got)
{
    double expected[MAX_DIM];
    uint32_t dim = s->geo.head_dim;
    for (uint32_t i = 0; i < s->batch.n_segs; i++)
        for (uint32_t r = 0; r < s->segs[i].n_rows; r += 3)
            for (uint32_t h = 0; h < s->geo.n_head; h += 2) {
                double largest = oracle(s, &s->segs[i], r, h, expected);
                double tolerance = 2e-4 + (s->type == FT_KV_BF16 ? largest / 256 : 0);
                size_t row = s->segs[i].first_row + r;
                const float *o = got + (row * s->geo.n_head + h) * dim;
                for (uint32_t d = 0; d < dim; d++)
                    if (!(fabs(o[d] - expected[d]) <= tolerance))
                        return wrong("type %d, segment %u, row %u, head %u: %g, not %g", s->type, i,
                                     r, h, o[d], expected[d]);
            }
    return NULL;
}

/* ---- cases ---- */

/* A random row alone must be what it is in the batch. */
static const char *check_alone(setup *s, const ft_attn_kernel *kernel, const float *all)
{
    size_t width = (size_t)s->geo.n_head * s->geo.head_dim;
    const ft_attn_seg *seg = &s->segs[ft_rng_below(&s->rng, s->batch.n_segs)];
    uint32_t r = ft_rng_below(&s->rng, seg->n_rows);
    ft_attn_seg one = {seg->seq, seg->first_row + r, 1, seg->first_node + r};
    ft_attn_batch batch = s->batch;
    batch.segs = &one;
    batch.n_segs = 1;
    float *out = run(s, &batch, kernel, 2, 1);
    size_t at = one.first_row * width;
    bool same = memcmp(out + at, all + at, width * sizeof *out) == 0;
    free(out);
    return same ? NULL : wrong("%s, type %d: a row alone differs", kernel->name, s->type);
}

/* All kernels give the bits of plain C, but the one whose instruction flushes tiny sums to zero: it
 * may be off by what is flushed, far below the smallest step of these sums. */
static const char *check_kernel(setup *s, const ft_attn_kernel *kernel, const float *plain)
{
    size_t n = (size_t)s->batch.n_rows * s->geo.n_head * s->geo.head_dim;
    const char *bad = NULL;
    float *first = NULL;
    for (unsigned threads = 1; !bad && threads <= 64; threads *= 8) {
        float *out = run(s, &s->batch, kernel, threads, 1);
        if (first && memcmp(out, first, n * sizeof *out) != 0)
            bad =
                wrong("%s, type %d: split for %u threads differs", kernel->name, s->type, threads);
        if (!first) {
            first = out;
            if (strcmp(kernel->name, "avx512-bf16") == 0) {
                for (size_t i = 0; i < n; i++)
                    if (!(fabsf(out[i] - plain[i]) <= 1e-6f))
                        bad = wrong("%s: %g, not %g", kernel->name, out[i], plain[i]);
            } else if (memcmp(out, plain, n * sizeof *out) != 0) {
                bad = wrong("%s, type %d differs from plain C", kernel->name, s->type);
            }
        } else {
            free(out);
        }
    }
    for (int i = 0; !bad && i < 4; i++)
        bad = check_alone(s, kernel, first);
    free(first);
    return bad;
}

const char *attn_case_kernels(uint64_t seed)
{
    setup s;
    init_geometry(&s, seed);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t n = 1 + ft_rng_below(&s.rng, 32), first = 0;
        if (ft_rng_below(&s.rng, 2))
            first = ft_rng_below(&s.rng, n);
        add_seq(&s, ft_rng_below(&s.rng, i == 0 ? 900 : 90), n, first,
                ft_rng_below(&s.rng, 3) == 0);
    }
    finish_setup(&s);
    const ft_attn_kernel *plain = ft_attn_kernel_plain(s.type), *others[FT_ATTN_KERNELS];
    size_t n_others = ft_attn_kernels(s.type, others) - 1;
    float *expected = run(&s, &s.batch, plain, 1, 1);
    const char *bad = check_oracle(&s, expected);
    if (!bad)
        bad = check_alone(&s, plain, expected);
    for (size_t k = 0; !bad && k < n_others; k++)
        if (s.geo.head_dim % others[k]->dim_multiple == 0)
            bad = check_kernel(&s, others[k], expected);
    free(expected);
    setup_deinit(&s);
    return bad;
}

const char *attn_case_threads(uint64_t seed)
{
    setup s;
    init_geometry(&s, seed);
    add_seq(&s, 1500 + ft_rng_below(&s.rng, 300), 1 + ft_rng_below(&s.rng, 40), 0, false);
    for (uint32_t i = 1; i < SEQS; i++)
        add_seq(&s, ft_rng_below(&s.rng, 100), 1 + ft_rng_below(&s.rng, 16), 0,
                ft_rng_below(&s.rng, 2));
    finish_setup(&s);
    const ft_attn_kernel *kernel = ft_attn_kernel_best(s.type, s.geo.head_dim);
    size_t bytes = sizeof(float) * s.batch.n_rows * s.geo.n_head * s.geo.head_dim;
    float *one = run(&s, &s.batch, kernel, 1, 1);
    const char *bad = NULL;
    for (unsigned threads = 2; !bad && threads <= 16; threads *= 2) {
        float *many = run(&s, &s.batch, kernel, threads, threads < 4 ? threads : 4);
        if (memcmp(many, one, bytes) != 0)
            bad = wrong("%s, type %d: %u threads differ from one", kernel->name, s.type, threads);
        free(many);
    }
    free(one);
    setup_deinit(&s);
    return bad;
}

const char *attn_case_writing(uint64_t seed)
{
    const uint32_t dim = 96;
    ft_kv_type type = (ft_kv_type)(seed % 3);
    size_t bytes = ft_attn_page_bytes(type, dim);
    const ft_attn_kernel *plain = ft_attn_kernel_plain(type), *others[FT_ATTN_KERNELS];
    char *page = calloc(6, bytes);
    const char *bad = NULL;
    ft_rng rng;
    ft_rng_init(&rng, seed);
    size_t n_others = ft_attn_kernels(type, others) - 1;
    for (size_t k = 0; !bad && k < n_others; k++) {
        for (uint32_t lane = 0; lane < 16; lane++) {
            float head[96];
            noise(&rng, head, dim);
            head[lane] *= 1e6f; /* beyond a half */
            head[lane + 1] *= 1e-6f;
            plain->write_k(head, dim, page, lane);
            plain->write_v(head, dim, page + bytes, lane);
            others[k]->write_k(head, dim, page + 2 * bytes, lane);
            others[k]->write_v(head, dim, page + 3 * bytes, lane);
            for (uint32_t v = 0; v < 2; v++)
                ft_attn_token_copy(type, dim, v == 1,
                                   (ft_attn_token){page + (4 + v) * bytes, 15 - lane},
                                   (ft_attn_token){page + v * bytes, lane});
        }
        if (memcmp(page, page + 2 * bytes, 2 * bytes) != 0)
            bad = wrong("%s, type %d writes otherwise than plain C", others[k]->name, type);
        for (uint32_t lane = 0; lane < 8; lane++) /* turned round twice */
            for (uint32_t v = 0; v < 2; v++) {
                char *p = page + (4 + v) * bytes;
                ft_attn_token spare = {page + 2 * bytes, 0}, a = {p, lane}, b = {p, 15 - lane};
                ft_attn_token_copy(type, dim, v == 1, spare, a);
                ft_attn_token_copy(type, dim, v == 1, a, b);
                ft_attn_token_copy(type, dim, v == 1, b, spare);
            }
        if (!bad && memcmp(page, page + 4 * bytes, 2 * bytes) != 0)
            bad = wrong("type %d: tokens copied back differ", type);
    }
    free(page);
    return bad;
}

const char *attn_case_halves(void)
{
    for (uint32_t h = 0; h < 65536; h++)
        if (ft_f32_bits(ft_f16_to_f32((ft_f16)h)) != ft_f32_bits(ft_f16_to_f32_soft((ft_f16)h)))
            return wrong("half %x to float", h);
    uint32_t bits = 1;
    for (uint32_t i = 0; i < 3000000; i++, bits = bits * 1664525 + 1013904223) {
        float x = ft_f32_of_bits(i & 1 ? bits : 0x33000000 + bits % 0x14800000);
        if (ft_f16_of(x) != ft_f16_of_soft(x))
            return wrong("float %x to half: %x, not %x", ft_f32_bits(x), ft_f16_of_soft(x),
                         ft_f16_of(x));
    }
    return NULL;
}
