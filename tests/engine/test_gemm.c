// SPDX-License-Identifier: Apache-2.0
// Products with packed weights: against sums in double precision over the same 8-bit values,
// against ggml's own product, with every row alone against the row in any batch (bit for bit), for
// any number of threads; the three ways of making 8-bit rows; and every kernel that the machine can
// run (of gemm_vnni, gemm_avx2, gemm_dotprod, gemm_neon) against gemm_plain, bit for bit.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/rng.h"
#include "engine/gemm.h"
#include "engine/gemm_f.h"
#include "engine/gemm_kernel.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "model/pack.h"
#include "support/gemm_cases.h"
#include "support/gemm_product.h"

static const enum ggml_type types[] = {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                                       GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL,
                                       GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};
#define N_TYPES     9
#define N_LIKE_GGML 6 /* the first: ggml rounds what they are multiplied with in the same way */

static void fill(ft_rng *rng, float *x, size_t n, float size)
{
    for (size_t i = 0; i < n; i++)
        x[i] = size * ((float)ft_rng_below(rng, 20001) / 10000.0f - 1.0f);
}

/* n_in grows to whole blocks of the type. */
static gemm_matrix matrix_of(ft_rng *rng, enum ggml_type type, int64_t n_in, int64_t n_out)
{
    n_in = (n_in + ggml_blck_size(type) - 1) / ggml_blck_size(type) * ggml_blck_size(type);
    size_t n = (size_t)(n_in * n_out);
    gemm_matrix m = gemm_matrix_alloc(type, n_in, n_out);
    fill(rng, m.values, n, 2.0f);
    ggml_quantize_chunk(type, m.values, m.plain, 0, n_out, n_in, NULL);
    ggml_get_type_traits(type)->to_float(m.plain, m.values, (int64_t)n);
    ft_pack(type, n_in, n_out, m.plain, m.packed);
    return m;
}

/* x as 8-bit values stand for it. */
static void round_to_8_bits(const float *x, int64_t n, double *out)
{
    for (int64_t b = 0; b < n; b += 32) {
        float max = 0;
        for (int i = 0; i < 32; i++)
            max = fmaxf(max, fabsf(x[b + i]));
        double scale = ggml_fp16_to_fp32(ggml_fp32_to_fp16(max / 127));
        for (int i = 0; i < 32; i++)
            out[b + i] = scale * nearbyintf(x[b + i] * (max > 0 ? 127.0f / max : 0));
    }
}

static void check_product(const gemm_matrix *m, const gemm_product *p, const float *y)
{
    double *x = malloc((size_t)m->n_in * sizeof *x);
    for (int64_t row = 0; row < p->n_rows; row++) {
        round_to_8_bits(p->x + row * m->n_in, m->n_in, x);
        for (int64_t o = 0; o < m->n_out; o++) {
            double sum = p->residual ? p->residual[row * m->n_out + o] : 0, size = fabs(sum);
            for (int64_t i = 0; i < m->n_in; i++) {
                sum += m->values[o * m->n_in + i] * x[i];
                size += fabs(m->values[o * m->n_in + i] * x[i]);
            }
            /* Minima are multiplied with a sum that is kept in half precision. */
            bool has_min = m->type == GGML_TYPE_Q4_1 || m->type == GGML_TYPE_Q5_1;
            double tolerance = has_min ? 1e-3 : 2e-6;
            if (!(fabs(y[row * m->n_out + o] - sum) <= tolerance * size + 1e-6))
                fail_msg("%s %lldx%lld row %lld output %lld: %g, not %g", ggml_type_name(m->type),
                         (long long)m->n_out, (long long)m->n_in, (long long)row, (long long)o,
                         (double)y[row * m->n_out + o], sum);
        }
    }
    free(x);
}

static const int64_t shapes[][2] = {{32, 16}, {96, 48}, {576, 80}, {864, 112}};

/* A waiting thread spins, so that most products are done by one. */
static void test_products(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 5);
    for (int t = 0; t < N_TYPES; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            if (shapes[s][0] < ggml_blck_size(types[t]))
                continue;
            gemm_matrix m = matrix_of(&rng, types[t], shapes[s][0], shapes[s][1]);
            size_t n_x = (size_t)m.n_in * 40, n_y = (size_t)m.n_out * 40;
            float *x = malloc(n_x * sizeof *x), *y = malloc(n_y * sizeof *y);
            float *residual = malloc(n_y * sizeof *residual);
            fill(&rng, x, n_x, 3.0f);
            fill(&rng, residual, n_y, 50.0f);
            memset(x, 0, 32 * sizeof *x); /* a block without a largest value */
            for (int64_t n = 1; n <= 40; n += n < 26 ? 1 : 7) {
                gemm_product p = {
                    .m = &m, .packed = true, .n_rows = n, .x = x, .threads = n % 4 == 3 ? 3 : 1};
                gemm_product_run(&p, y);
                check_product(&m, &p, y);
                p.residual = residual;
                gemm_product_run(&p, y);
                check_product(&m, &p, y);
            }
            free(x);
            free(y);
            free(residual);
            gemm_matrix_free(&m);
        }
}

/* ggml rounds the same way; what differs is the order of summation. */
static void test_like_ggml(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 6);
    for (int t = 0; t < N_LIKE_GGML; t++) {
        gemm_matrix m = matrix_of(&rng, types[t], 576, 160);
        float *x = malloc(576 * 70 * sizeof *x);
        float *y = malloc(160 * 70 * sizeof *y), *theirs = malloc(160 * 70 * sizeof *theirs);
        fill(&rng, x, 576 * 70, 1.0f);
        for (int64_t n = 1; n <= 70; n++) {
            gemm_product p = {
                .m = &m, .packed = true, .n_rows = n, .x = x, .threads = 1 + (n % 16 == 0)};
            gemm_product_run(&p, y);
            p.packed = false;
            gemm_product_run(&p, theirs);
            double error = 0, size = 0;
            for (int64_t i = 0; i < 160 * n; i++) {
                error += pow(y[i] - theirs[i], 2);
                size += pow(theirs[i], 2);
            }
            assert_true(size > 0);
            if (error > 1e-6 * size)
                fail_msg("%s, %lld rows: nmse %g", ggml_type_name(types[t]), (long long)n,
                         error / size);
        }
        free(x);
        free(y);
        free(theirs);
        gemm_matrix_free(&m);
    }
}

/* Squared error of y against m x. */
static double error_of(const gemm_matrix *m, const float *x, int64_t n_rows, const float *y)
{
    double error = 0;
    for (int64_t row = 0; row < n_rows; row++)
        for (int64_t o = 0; o < m->n_out; o++) {
            double sum = 0;
            for (int64_t i = 0; i < m->n_in; i++)
                sum += (double)m->values[o * m->n_in + i] * x[row * m->n_in + i];
            error += pow(y[row * m->n_out + o] - sum, 2);
        }
    return error;
}

/* ggml multiplies K-quants with rows that have a scale for each 256 values, we for each 32: our
 * products must be no farther from the exact ones. */
static void test_no_worse_than_ggml(void **state)
{
    enum { ROWS = 17, IN = 1280, OUT = 96 };
    ft_rng rng;
    ft_rng_init(&rng, 11);
    float *x = malloc(sizeof(float) * ROWS * IN);
    float *y = malloc(sizeof(float) * ROWS * OUT), *theirs = malloc(sizeof(float) * ROWS * OUT);
    for (int t = N_LIKE_GGML; t < N_TYPES; t++)
        for (int mean = 0; mean < 3; mean++) {
            gemm_matrix m = matrix_of(&rng, types[t], IN, OUT);
            for (int i = 0; i < ROWS * IN; i++)
                x[i] = (float)(mean + ft_rng_normal(&rng));
            gemm_product p = {.m = &m, .packed = true, .n_rows = ROWS, .x = x, .threads = 2};
            gemm_product_run(&p, y);
            p.packed = false;
            gemm_product_run(&p, theirs);
            double ours = error_of(&m, x, ROWS, y), ggml = error_of(&m, x, ROWS, theirs);
            assert_true(ggml > 0);
            if (ours > ggml)
                fail_msg("%s, mean %d: squared error %g, ggml's %g", ggml_type_name(types[t]), mean,
                         ours, ggml);
            gemm_matrix_free(&m);
        }
    free(x);
    free(y);
    free(theirs);
}

static void test_rows_are_independent(void **state)
{
    enum { ROWS = 70, IN = 768, OUT = 208 };
    ft_rng rng;
    ft_rng_init(&rng, 7);
    float *x = malloc(sizeof(float) * ROWS * IN), *alone = malloc(sizeof(float) * ROWS * OUT);
    float *batch = malloc(sizeof(float) * ROWS * OUT);
    fill(&rng, x, ROWS * IN, 2.0f);
    for (int t = 0; t < N_TYPES; t++) {
        gemm_matrix m = matrix_of(&rng, types[t], IN, OUT);
        for (int64_t row = 0; row < ROWS; row++) {
            gemm_product p = {
                .m = &m, .packed = true, .n_rows = 1, .x = x + row * IN, .threads = 1};
            gemm_product_run(&p, alone + row * OUT);
        }
        for (int64_t n = 1; n <= ROWS; n++) {
            int64_t first = (int64_t)ft_rng_below(&rng, (uint32_t)(ROWS - n + 1));
            gemm_product p = {.m = &m,
                              .packed = true,
                              .n_rows = n,
                              .x = x + first * IN,
                              .threads = n % 10 == 0 ? 4 : 1};
            gemm_product_run(&p, batch);
            assert_memory_equal(batch, alone + first * OUT, sizeof(float) * OUT * (size_t)n);
        }
        gemm_matrix_free(&m);
    }
    free(x);
    free(alone);
    free(batch);
}

enum { WIDTH = 96, BLOCKS = WIDTH / 32 };

/* Blocks hold the values within a rounding step, and sums that fit their values. */
static void check_blocks(const ft_gemm_block *blocks, size_t stride, const double *values)
{
    for (int b = 0; b < BLOCKS; b++) {
        const ft_gemm_block *block = &blocks[(size_t)b * stride];
        int sum = 0;
        for (int i = 0; i < 32; i++) {
            double error = fabs(block->q[i] * (double)block->scale - values[32 * b + i]);
            assert_true(error <= 0.58 * block->scale + 1e-7);
            sum += block->q[i];
        }
        assert_int_equal(block->start8, -8 * sum);
        assert_int_equal(block->start128, -128 * sum);
        assert_int_equal(block->start32[0] + block->start32[1], -32 * sum);
        assert_true(fabs(block->sum - (double)block->scale * sum) <= 1e-3 * fabs(block->sum));
    }
}

static void check_8_bit_rows(ft_rng *rng, const ft_gemm_kernel *kernel, float size)
{
    const ft_gemm_f_range whole = {0, BLOCKS};
    ft_gemm_block blocks[2 * BLOCKS];
    float x[2 * WIDTH], weight[WIDTH];
    double expected[WIDTH];
    fill(rng, x, 2 * WIDTH, size);
    fill(rng, weight, WIDTH, 1.0f);
    for (int i = 0; i < WIDTH; i++)
        expected[i] = x[i];
    ft_gemm_f_quantize(kernel->quantize, &(ft_gemm_f_row){.x = x}, whole, blocks, 2);
    check_blocks(blocks, 2, expected);

    double square = 0;
    for (int i = 0; i < WIDTH; i++)
        square += (double)x[i] * x[i];
    for (int i = 0; i < WIDTH; i++)
        expected[i] = x[i] / sqrt(square / WIDTH + 1e-5) * weight[i];
    ft_gemm_f_row norm = {
        .x = x, .weight = weight, .factor = ft_gemm_f_rms_factor(x, WIDTH, 1e-5f)};
    ft_gemm_f_quantize(kernel->quantize, &norm, whole, blocks, 2);
    check_blocks(blocks, 2, expected);

    for (int i = 0; i < WIDTH; i++)
        expected[i] = x[i] / (1 + exp(-(double)x[i])) * x[WIDTH + i];
    ft_gemm_f_row swiglu = {.x = x, .up = x + WIDTH};
    ft_gemm_f_quantize(kernel->quantize, &swiglu, whole, blocks, 1);
    check_blocks(blocks, 1, expected);
}

static void test_8_bit_rows(void **state)
{
    const ft_gemm_kernel *kernels[FT_GEMM_KERNELS];
    size_t n = ft_gemm_kernels(kernels);
    ft_rng rng;
    for (size_t k = 0; k < n; k++) {
        ft_rng_init(&rng, 8);
        for (int round = 0; round < 200; round++)
            check_8_bit_rows(&rng, kernels[k], round % 2 ? 100.0f : 3.0f);
    }
}

/* A kernel is there if and only if the processor has what its file is compiled for; the plain one
 * takes every type; the best for a type is the first that takes it. */
static void test_kernels_that_there_are(void **state)
{
    const ft_cpu *cpu = ft_cpu_get();
    const ft_gemm_kernel *all[FT_GEMM_KERNELS];
    static const char *const names[FT_GEMM_KERNELS] = {
        "avx512 vnni", "avx512 bf16", "avx512", "avx2", "neon dotprod", "neon", "plain"};
    const bool has[FT_GEMM_KERNELS] = {cpu->vnni,    cpu->bf16, cpu->avx512, cpu->avx2,
                                       cpu->dotprod, cpu->neon, true};
    size_t n = ft_gemm_kernels(all), at = 0;
    for (size_t i = 0; i < FT_GEMM_KERNELS; i++)
        if (has[i]) {
            assert_true(at < n);
            assert_string_equal(all[at++]->name, names[i]);
        }
    assert_int_equal(at, n);
    for (int t = 0; t < GEMM_CASES_TYPES; t++) {
        enum ggml_type type = gemm_cases_types[t];
        size_t first = 0;
        while (first < n && !all[first]->tile(type))
            first++;
        assert_non_null(ft_gemm_kernel_plain.tile(type)); /* gemm_plain.c, gemm_k_plain.c */
        assert_ptr_equal(ft_gemm_kernel_best(type), all[first]);
    }
    assert_ptr_equal(ft_gemm_kernel_plain.tile(GGML_TYPE_Q6_K), ft_gemm_k_plain(GGML_TYPE_Q6_K));
    assert_null(ft_gemm_kernel_plain.tile(GGML_TYPE_I32));
#if defined(__x86_64__)
    if (cpu->avx2) /* gemm_rows_avx2.c */
        assert_ptr_equal(all[0]->quantize, ft_gemm_quantize_avx2);
#elif defined(__aarch64__)
    assert_ptr_equal(all[0]->quantize, ft_gemm_quantize_neon);
#endif
}

static void test_kernels_are_equal(void **state)
{
    const char *differs = gemm_cases_run(9);
    if (differs)
        fail_msg("the %s kernel is not the plain one, bit for bit", differs);
}

/* What this processor has, and what lesser ones have: their kernels and their groups of rows. */
static void test_lesser_processors(void **state)
{
    static const ft_cpu lesser[] = {
        {.avx2 = true, .avx512 = true}, {.avx2 = true}, {.neon = true}, {0}};
    const ft_gemm_kernel *best = ft_gemm_kernel_best(GGML_TYPE_Q8_0), *last = best;
    for (size_t i = 0; i < sizeof lesser / sizeof *lesser; i++) {
        ft_cpu_limit(&lesser[i]);
        const ft_gemm_kernel *kernel = ft_gemm_kernel_best(GGML_TYPE_Q8_0);
        if (kernel == last)
            continue;
        last = kernel;
        test_kernels_that_there_are(state);
        if (kernel == &ft_gemm_kernel_plain)
            continue; /* slow, and the others equal it */
        test_products(state);
        test_rows_are_independent(state);
    }
    assert_ptr_equal(ft_gemm_kernel_best(GGML_TYPE_Q8_0), &ft_gemm_kernel_plain);
    ft_cpu_limit(NULL);
    assert_ptr_equal(ft_gemm_kernel_best(GGML_TYPE_Q8_0), best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),           cmocka_unit_test(test_like_ggml),
        cmocka_unit_test(test_no_worse_than_ggml), cmocka_unit_test(test_rows_are_independent),
        cmocka_unit_test(test_8_bit_rows),         cmocka_unit_test(test_kernels_that_there_are),
        cmocka_unit_test(test_kernels_are_equal),  cmocka_unit_test(test_lesser_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
