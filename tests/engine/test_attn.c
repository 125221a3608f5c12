// SPDX-License-Identifier: Apache-2.0
// The CPU attention kernels on random shapes, block tables and trees: every instruction set
// (attn_avx2, attn_avx512, over attn_tile.h) gives the bits of attn_plain, which is near to attention
// in double precision; and the bits do not depend on the number of threads.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/attn.h"
#include "ggml.h"

#define N_BLOCKS 128
#define MAX_ROWS 96

typedef struct setup {
    ft_attn_geometry geo;
    ft_kv kv;
    ft_kv_seq seq[3];
    ft_attn_seg segs[3];
    ft_attn_batch batch;
    ft_attn_layer layer;
    uint32_t slot[MAX_ROWS], pos[MAX_ROWS];
    float *rope, *q;
    ft_rng rng;
} setup;

static float *noise(ft_rng *rng, size_t n)
{
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)ft_rng_normal(rng);
    return x;
}

static ft_f16 *noise_f16(ft_rng *rng, size_t n)
{
    ft_f16 *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = ggml_fp32_to_fp16((float)ft_rng_normal(rng));
    return x;
}

/* A sequence of n_past committed tokens with a random tree or chain of n pending ones behind. */
static void add_seq(setup *s, uint32_t i, uint32_t n_past, uint32_t n, bool chain)
{
    int32_t parent[MAX_ROWS];
    ft_kv_seq *seq = &s->seq[i];
    ft_kv_seq_init(seq, &s->kv);
    assert_int_equal(ft_kv_seq_reserve(seq, n_past + n), FT_OK);
    if (n_past) {
        uint32_t *path = malloc(n_past * sizeof *path);
        for (uint32_t j = 0; j < n_past; j++)
            path[j] = j;
        ft_kv_seq_extend(seq, NULL, n_past);
        assert_int_equal(ft_kv_seq_commit(seq, path, n_past, NULL, 0, NULL), FT_OK);
        free(path);
    }
    for (uint32_t j = 0; j < n; j++)
        parent[j] = (int32_t)ft_rng_below(&s->rng, j + 1) - 1;
    ft_kv_seq_extend(seq, chain ? NULL : parent, n);
    s->segs[i] = (ft_attn_seg){seq, s->batch.n_rows, n, 0};
    for (uint32_t j = 0; j < n; j++) {
        s->slot[s->batch.n_rows] = ft_kv_seq_slot(seq, n_past + j);
        s->pos[s->batch.n_rows++] = n_past + ft_kv_seq_depth(seq, j);
    }
    s->batch.n_segs++;
}

static void setup_init(setup *s, uint64_t seed)
{
    static const uint32_t groups[] = {1, 2, 3, 4, 7, 8, 32}, dims[] = {32, 64, 80, 128};
    memset(s, 0, sizeof *s);
    ft_rng_init(&s->rng, seed);
    uint32_t group = groups[ft_rng_below(&s->rng, 7)], dim = dims[ft_rng_below(&s->rng, 4)];
    s->geo.n_head_kv = 1 + ft_rng_below(&s->rng, 3);
    s->geo.n_head = s->geo.n_head_kv * group;
    s->geo.head_dim = s->geo.n_rot = dim;
    s->geo.rope_neox = seed & 1;
    assert_int_equal(ft_kv_init(&s->kv, N_BLOCKS, NULL, NULL), FT_OK);
    s->batch.segs = s->segs;
    for (uint32_t i = 0; i < 3; i++)
        add_seq(s, i, ft_rng_below(&s->rng, i == 0 ? 700 : 90), 1 + ft_rng_below(&s->rng, 32),
                ft_rng_below(&s->rng, 3) == 0);
    /* A random order of blocks in the pool. */
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t b = 0; b + 1 < s->seq[i].n_block; b++) {
            uint32_t c = b + ft_rng_below(&s->rng, s->seq[i].n_block - b);
            uint32_t t = s->seq[i].block[b];
            s->seq[i].block[b] = s->seq[i].block[c];
            s->seq[i].block[c] = t;
        }
    size_t pool = (size_t)N_BLOCKS * 16 * s->geo.n_head_kv * dim;
    s->layer.k = noise_f16(&s->rng, pool);
    s->layer.v = noise_f16(&s->rng, pool);
    s->q = noise(&s->rng, (size_t)s->batch.n_rows * s->geo.n_head * dim);
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
    for (uint32_t i = 0; i < 3; i++)
        ft_kv_seq_deinit(&s->seq[i]);
    ft_kv_deinit(&s->kv);
    free(s->layer.k);
    free(s->layer.v);
    free(s->q);
    free(s->rope);
}

/* With one caller thread that plays all of them in turn: what is claimed by whom may not matter. */
static float *run(setup *s, const ft_attn_kernel *kernel, uint32_t n_threads)
{
    size_t width = (size_t)s->geo.n_head * s->geo.head_dim;
    float *out = calloc(s->batch.n_rows * width, sizeof *out);
    ft_attn_plan *plan = NULL;
    atomic_uint next = 0;
    ft_attn_rows rows = {.q = s->q, .q_stride = width};
    ft_attn_layer layer = s->layer;
    layer.kernel = kernel;
    assert_int_equal(ft_attn_plan_create(&s->geo, MAX_ROWS, n_threads, &plan), FT_OK);
    ft_attn_plan_batch(plan, &s->batch);
    for (unsigned i = 0; i < n_threads; i++)
        ft_attn_run(plan, &layer, &rows, out, i, &next);
    ft_attn_plan_destroy(plan);
    return out;
}

static double key_at(const setup *s, const ft_f16 *k, uint32_t slot, uint32_t head, uint32_t d)
{
    size_t page = ((size_t)(slot / 16) * s->geo.n_head_kv + head) * s->geo.head_dim * 16;
    return ggml_fp16_to_fp32(k[page + (size_t)d * 16 + slot % 16]);
}

static double value_at(const setup *s, const ft_f16 *v, uint32_t slot, uint32_t head, uint32_t d)
{
    size_t page = ((size_t)(slot / 16) * s->geo.n_head_kv + head) * s->geo.head_dim * 16;
    return ggml_fp16_to_fp32(v[page + (size_t)(slot % 16) * s->geo.head_dim + d]);
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

/* Attention of one row and head in double precision, straight from its definition. */
static void oracle(const setup *s, const ft_attn_seg *seg, uint32_t r, uint32_t head, double *out)
{
    uint32_t dim = s->geo.head_dim, slots[1024], n = 0, row = seg->first_row + r;
    uint32_t kv_head = head / (s->geo.n_head / s->geo.n_head_kv);
    double q[128], w[1024], max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < seg->seq->n_past; i++)
        slots[n++] = ft_kv_seq_slot(seg->seq, i);
    for (int32_t i = (int32_t)r; i >= 0; i = ft_kv_seq_parent(seg->seq, (uint32_t)i))
        slots[n++] = ft_kv_seq_slot(seg->seq, seg->seq->n_past + (uint32_t)i);
    rotate(s, row, s->q + ((size_t)row * s->geo.n_head + head) * dim, q);
    for (uint32_t i = 0; i < n; i++) {
        w[i] = 0;
        for (uint32_t d = 0; d < dim; d++)
            w[i] += q[d] * key_at(s, s->layer.k, slots[i], kv_head, d);
        w[i] /= sqrt(dim);
        max = w[i] > max ? w[i] : max;
    }
    memset(out, 0, dim * sizeof *out);
    for (uint32_t i = 0; i < n; i++) {
        w[i] = exp(w[i] - max);
        sum += w[i];
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t d = 0; d < dim; d++)
            out[d] += w[i] / sum * value_at(s, s->layer.v, slots[i], kv_head, d);
}

static void check_oracle(const setup *s, const float *got)
{
    double expected[128];
    uint32_t dim = s->geo.head_dim;
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t r = 0; r < s->segs[i].n_rows; r++)
            for (uint32_t h = 0; h < s->geo.n_head; h++) {
                oracle(s, &s->segs[i], r, h, expected);
                size_t row = s->segs[i].first_row + r;
                const float *o = got + (row * s->geo.n_head + h) * dim;
                for (uint32_t d = 0; d < dim; d++)
                    if (fabs(o[d] - expected[d]) > 2e-4)
                        fail_msg("segment %u row %u head %u: %g, not %g", i, r, h, o[d],
                                 expected[d]);
            }
}

static void test_kernels(void **state)
{
    const ft_attn_kernel *kernels[] = {ft_attn_kernel_avx2(), ft_attn_kernel_avx512()};
    for (uint64_t seed = 1; seed <= 24; seed++) {
        setup s;
        setup_init(&s, seed);
        size_t bytes = sizeof(float) * s.batch.n_rows * s.geo.n_head * s.geo.head_dim;
        float *plain = run(&s, &ft_attn_kernel_plain, 1);
        if (seed % 4 == 0)
            check_oracle(&s, plain);
        for (size_t k = 0; k < 2; k++) {
            for (uint32_t threads = 1; kernels[k] && threads <= 64; threads *= 8) {
                float *out = run(&s, kernels[k], threads);
                if (memcmp(out, plain, bytes) != 0)
                    fail_msg("seed %d: %s on %u threads differs from plain C", (int)seed,
                             ft_attn_kernel_name(kernels[k]), threads);
                free(out);
            }
        }
        free(plain);
        setup_deinit(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
