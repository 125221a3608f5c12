// SPDX-License-Identifier: Apache-2.0
// Products with packed float weights: against sums in double precision, within what rounding can
// do; against ggml's own; every row alone against the row in any batch on any number of threads,
// bit for bit; every kernel that the machine can run (of gemm_bf16, gemm_avx512, gemm_avx2,
// gemm_neon) against gemm_f_plain, bit for bit; and the rows they read.
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/gemm.h"
#include "engine/gemm_f.h"
#include "engine/gemm_kernel.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "model/pack.h"
#include "support/gemm_product.h"

static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};
#define N_TYPES  3
#define MAX_ROWS 40

static void fill(ft_rng *rng, float *x, size_t n, float size)
{
    for (size_t i = 0; i < n; i++)
        x[i] = size * (float)ft_rng_normal(rng);
}

static void round_to(enum ggml_type type, const float *x, int64_t n, void *out)
{
    if (type == GGML_TYPE_F32)
        memcpy(out, x, (size_t)n * sizeof *x);
    else if (type == GGML_TYPE_F16)
        ggml_fp32_to_fp16_row(x, out, n);
    else
        ggml_fp32_to_bf16_row(x, out, n);
}

static void widen(enum ggml_type type, const void *x, int64_t n, float *out)
{
    if (type == GGML_TYPE_F32)
        memcpy(out, x, (size_t)n * sizeof *out);
    else if (type == GGML_TYPE_F16)
        ggml_fp16_to_fp32_row(x, out, n);
    else
        ggml_bf16_to_fp32_row(x, out, n);
}

static gemm_matrix matrix_of(ft_rng *rng, enum ggml_type type, int64_t n_in, int64_t n_out)
{
    size_t n = (size_t)(n_in * n_out);
    gemm_matrix m = gemm_matrix_alloc(type, n_in, n_out);
    fill(rng, m.values, n, 0.5f);
    round_to(type, m.values, (int64_t)n, m.plain);
    widen(type, m.plain, (int64_t)n, m.values);
    assert_true(ft_pack_fits(type, n_in, n_out));
    ft_pack(type, n_in, n_out, m.plain, m.packed);
    return m;
}

/* ---- whole products, as operators of a graph ---- */

/* A sum of n products, each added with one rounding, is off by at most n u sum |products| / (1 - n
 * u), u = 2^-24: no product passes more than n additions, that of the two parts included. The
 * residual adds one more. */
static void check_product(const gemm_matrix *m, const gemm_product *p, const float *y)
{
    size_t n_in = (size_t)m->n_in;
    float *x = malloc(n_in * sizeof *x);
    double u = ldexp(1, -24) * (double)(n_in + 2), bound = u / (1 - u);
    for (int64_t row = 0; row < p->n_rows; row++) {
        memcpy(x, p->x + row * m->n_in, n_in * sizeof *x);
        if (m->type == GGML_TYPE_BF16) {
            uint16_t *half = malloc(n_in * sizeof *half);
            round_to(m->type, x, m->n_in, half);
            widen(m->type, half, m->n_in, x);
            free(half);
        }
        for (int64_t o = 0; o < m->n_out; o++) {
            double sum = p->residual ? p->residual[row * m->n_out + o] : 0, size = fabs(sum);
            for (size_t i = 0; i < n_in; i++) {
                double term = (double)m->values[(size_t)o * n_in + i] * x[i];
                sum += term;
                size += fabs(term);
            }
            if (!(fabs(y[row * m->n_out + o] - sum) <= bound * size + FLT_MIN))
                fail_msg("%s %lldx%lld row %lld output %lld: %g, not %g", ggml_type_name(m->type),
                         (long long)m->n_out, (long long)m->n_in, (long long)row, (long long)o,
                         (double)y[row * m->n_out + o], sum);
        }
    }
    free(x);
}

static const int64_t shapes[][2] = {{2, 16}, {6, 48}, {34, 16}, {94, 64}, {576, 80}, {1026, 32}};

static void test_products(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 5);
    for (int t = 0; t < N_TYPES; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            int64_t odd = types[t] != GGML_TYPE_BF16 && s % 2; /* those take any number of inputs */
            gemm_matrix m = matrix_of(&rng, types[t], shapes[s][0] + odd, shapes[s][1]);
            size_t n_x = (size_t)m.n_in * MAX_ROWS, n_y = (size_t)m.n_out * MAX_ROWS;
            float *x = malloc(n_x * sizeof *x), *y = malloc(n_y * sizeof *y);
            float *residual = malloc(n_y * sizeof *residual);
            fill(&rng, x, n_x, 3.0f);
            fill(&rng, residual, n_y, 50.0f);
            for (int64_t n = 1; n <= MAX_ROWS; n += n < 10 ? 1 : 6) {
                gemm_product p = {
                    .m = &m, .packed = true, .n_rows = n, .x = x, .threads = 1 + (int)n % 3};
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

/* ggml rounds rows to F16 for F16 weights, which we do not: 2^-11 a value. With the others only the
 * order of summation differs. */
static void test_like_ggml(void **state)
{
    enum { IN = 576, OUT = 160 };
    ft_rng rng;
    ft_rng_init(&rng, 6);
    float *x = malloc(sizeof(float) * IN * MAX_ROWS);
    float *y = malloc(sizeof(float) * OUT * MAX_ROWS);
    float *theirs = malloc(sizeof(float) * OUT * MAX_ROWS);
    for (int t = 0; t < N_TYPES; t++) {
        gemm_matrix m = matrix_of(&rng, types[t], IN, OUT);
        fill(&rng, x, IN * MAX_ROWS, 1.0f);
        for (int64_t n = 1; n <= MAX_ROWS; n++) {
            gemm_product p = {.m = &m, .packed = true, .n_rows = n, .x = x, .threads = 2};
            gemm_product_run(&p, y);
            p.packed = false;
            gemm_product_run(&p, theirs);
            double error = 0, size = 0, most = types[t] == GGML_TYPE_F16 ? 1e-6 : 1e-12;
            for (int64_t i = 0; i < OUT * n; i++) {
                error += pow((double)y[i] - theirs[i], 2);
                size += pow(theirs[i], 2);
            }
            assert_true(size > 0);
            if (!(error <= most * size))
                fail_msg("%s, %lld rows: nmse %g", ggml_type_name(types[t]), (long long)n,
                         error / size);
        }
        gemm_matrix_free(&m);
    }
    free(x);
    free(y);
    free(theirs);
}

static void test_rows_are_independent(void **state)
{
    enum { IN = 610, OUT = 208 };
    ft_rng rng;
    ft_rng_init(&rng, 7);
    float *x = malloc(sizeof(float) * MAX_ROWS * IN);
    float *alone = malloc(sizeof(float) * MAX_ROWS * OUT);
    float *batch = malloc(sizeof(float) * MAX_ROWS * OUT);
    fill(&rng, x, MAX_ROWS * IN, 2.0f);
    for (int t = 0; t < N_TYPES; t++) {
        gemm_matrix m = matrix_of(&rng, types[t], IN, OUT);
        for (int64_t row = 0; row < MAX_ROWS; row++) {
            gemm_product p = {
                .m = &m, .packed = true, .n_rows = 1, .x = x + row * IN, .threads = 1};
            gemm_product_run(&p, alone + row * OUT);
        }
        for (int64_t n = 1; n <= MAX_ROWS; n++) {
            int64_t first = (int64_t)ft_rng_below(&rng, (uint32_t)(MAX_ROWS - n + 1));
            gemm_product p = {.m = &m,
                              .packed = true,
                              .n_rows = n,
                              .x = x + first * IN,
                              .threads = 1 + (int)n % 4};
            gemm_product_run(&p, batch);
            assert_memory_equal(batch, alone + first * OUT, sizeof(float) * OUT * (size_t)n);
        }
        gemm_matrix_free(&m);
    }
    free(x);
    free(alone);
    free(batch);
}

/* ---- kernels against the plain one, bit for bit ---- */

enum { TILE_ROWS = FT_GEMM_GROUP };

static void check_same_tile(ft_rng *rng, enum ggml_type type, ft_gemm_tile_fn *multiply,
                            uint32_t n_in, uint32_t n_rows)
{
    gemm_matrix m = matrix_of(rng, type, n_in, 16);
    enum ggml_type form = ft_gemm_rows_type(type);
    uint32_t n_units = (uint32_t)ft_gemm_f_units(form, n_in);
    float *x = malloc(n_in * sizeof *x), residual[TILE_ROWS * 17];
    float a[TILE_ROWS * 19] = {0}, b[TILE_ROWS * 19] = {0};
    uint32_t *units = malloc((TILE_ROWS + 3) * n_units * sizeof *units);
    for (size_t r = 0; r < TILE_ROWS; r++) {
        fill(rng, x, n_in, 3.0f);
        ft_gemm_f_put(form, &(ft_gemm_f_row){.x = x}, (ft_gemm_f_range){0, n_units}, units + r,
                      TILE_ROWS + 3);
    }
    fill(rng, residual, TILE_ROWS * 17, 9.0f);
    ft_gemm_tile t = {.weights = m.packed,
                      .n_tiles = 1,
                      .n_in = n_in,
                      .n_rows = n_rows,
                      .units = units,
                      .row_blocks = TILE_ROWS + 3,
                      .residual = n_rows % 2 ? residual : NULL,
                      .residual_stride = 17,
                      .out = a,
                      .out_stride = 19};
    multiply(&t);
    t.out = b;
    ft_gemm_f_plain(type)(&t);
    assert_memory_equal(a, b, sizeof a);
    free(x);
    free(units);
    gemm_matrix_free(&m);
}

static void test_same_tiles(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 10);
    const ft_gemm_kernel *all[FT_GEMM_KERNELS];
    size_t n = ft_gemm_kernels(all);
    for (int t = 0; t < N_TYPES; t++)
        for (size_t k = 0; k < n; k++) {
            ft_gemm_tile_fn *multiply = all[k]->tile(types[t]);
            if (!multiply)
                continue;
            print_message("%s: %s\n", ggml_type_name(types[t]), all[k]->name);
            for (uint32_t n_in = 2; n_in < 200; n_in += n_in < 20 ? 2 : 34)
                for (uint32_t n_rows = 1; n_rows <= TILE_ROWS; n_rows++)
                    check_same_tile(&rng, types[t], multiply,
                                    n_in + (types[t] != GGML_TYPE_BF16 && n_rows == 3), n_rows);
        }
}

/* ---- rows ---- */

/* Written in two parts, 3 units apart. */
static void put(enum ggml_type form, const ft_gemm_f_row *row, uint32_t n, float *values)
{
    uint32_t n_units = (uint32_t)ft_gemm_f_units(form, n), half = n_units / 2;
    uint32_t *units = malloc(3 * n_units * sizeof *units);
    ft_gemm_f_put(form, row, (ft_gemm_f_range){half, n_units}, units, 3);
    ft_gemm_f_put(form, row, (ft_gemm_f_range){0, half}, units, 3);
    for (uint32_t i = 0; i < n_units; i++)
        widen(form, &units[3 * (size_t)i], n / n_units, values + i * (n / n_units));
    free(units);
}

static void check_rows(ft_rng *rng, enum ggml_type form, uint32_t n, float size)
{
    float *x = malloc(2 * n * sizeof *x), *weight = malloc(n * sizeof *weight);
    float *y = malloc(n * sizeof *y);
    double rounding = form == GGML_TYPE_BF16 ? ldexp(1, -8) : 0, square = 0;
    fill(rng, x, 2 * n, size);
    fill(rng, weight, n, 1.0f);
    for (uint32_t i = 0; i < n; i++)
        square += (double)x[i] * x[i];
    put(form, &(ft_gemm_f_row){.x = x}, n, y);
    for (uint32_t i = 0; i < n; i++)
        assert_true(y[i] ==
                    (form == GGML_TYPE_F32 ? x[i] : ggml_bf16_to_fp32(ggml_fp32_to_bf16(x[i]))));
    float factor = ft_gemm_f_rms_factor(x, n, 1e-5f);
    put(form, &(ft_gemm_f_row){.x = x, .weight = weight, .factor = factor}, n, y);
    for (uint32_t i = 0; i < n; i++) {
        double expected = x[i] / sqrt(square / n + 1e-5) * weight[i];
        assert_true(fabs(y[i] - expected) <= (rounding + 4e-6) * fabs(expected));
    }
    put(form, &(ft_gemm_f_row){.x = x, .up = x + n}, n, y);
    for (uint32_t i = 0; i < n; i++) {
        double expected = x[i] / (1 + exp(-(double)x[i])) * x[n + i];
        assert_true(fabs(y[i] - expected) <= (rounding + 1e-6) * fabs(expected) + 1e-34);
    }
    free(x);
    free(weight);
    free(y);
}

static void test_rows(void **state)
{
    static const uint32_t sizes[] = {2, 30, 32, 94, 576};
    ft_rng rng;
    ft_rng_init(&rng, 8);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int round = 0; round < 40; round++) {
            check_rows(&rng, GGML_TYPE_F32, sizes[s], round % 2 ? 20.0f : 1.0f);
            check_rows(&rng, GGML_TYPE_BF16, sizes[s], round % 2 ? 20.0f : 1.0f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_like_ggml),
        cmocka_unit_test(test_rows_are_independent),
        cmocka_unit_test(test_same_tiles),
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
