// SPDX-License-Identifier: Apache-2.0
// The packed layouts (pack.c, pack_k.c, pack_f.c): which shapes they take, their size, and where
// each value is.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "model/pack.h"

static const enum ggml_type types[] = {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                                       GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL,
                                       GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K,
                                       GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16};
#define N_TYPES (sizeof types / sizeof *types)
static const int64_t shapes[][2] = {{1, 16}, {3, 16}, {2, 48}, {18, 160}}; /* blocks of inputs */

/* Inputs that belong together in our layout. */
static int64_t block_of(enum ggml_type type)
{
    return type == GGML_TYPE_BF16 ? 2 : ggml_blck_size(type);
}

static void test_fits(void **state)
{
    for (size_t t = 0; t < N_TYPES; t++) {
        int64_t block = block_of(types[t]);
        assert_true(ft_pack_fits(types[t], block, 16));
        assert_false(ft_pack_fits(types[t], block, 8));
        assert_false(ft_pack_fits(types[t], block, 24));
        assert_int_equal(ft_pack_fits(types[t], block + 1, 16), block == 1);
        assert_false(ft_pack_fits(types[t], 0, 16));
        assert_false(ft_pack_fits(types[t], block, 0));
    }
    assert_false(ft_pack_fits(GGML_TYPE_Q3_K, 256, 16));
}

/* ---- values, where the header says that they are ---- */

/* Value k of a plain block: its bits, fifth ones included; 8-bit ones plus 128. */
static int plain_value(enum ggml_type type, const uint8_t *block, int k)
{
    const uint8_t *at = block + (ft_pack_has_min(type) ? 4 : 2);
    int fifth = ft_pack_has_fifth(type) ? at[k / 8] >> k % 8 & 1 : 0;
    if (type == GGML_TYPE_Q8_0)
        return at[k] ^ 0x80;
    at += ft_pack_has_fifth(type) ? 4 : 0;
    return 16 * fifth + (at[k % 16] >> (k < 16 ? 0 : 4) & 15);
}

/* quants: of a block of a tile. */
static int packed_value(enum ggml_type type, const uint8_t *quants, size_t row, int k)
{
    const size_t byte = 4 * row + (size_t)k % 4;
    if (type == GGML_TYPE_Q8_0)
        return quants[(size_t)k / 4 * 64 + byte];
    int fifth = ft_pack_has_fifth(type) ? quants[byte] >> k / 4 & 1 : 0;
    quants += ft_pack_has_fifth(type) ? 64 : 0;
    return 16 * fifth + (quants[(size_t)k / 8 * 64 + byte] >> (k % 8 < 4 ? 0 : 4) & 15);
}

/* Every bit of a plain block is found in the tile; as both have the same size, nothing is lost. */
static void check_blocks(enum ggml_type type, size_t n, const uint8_t *rows, const uint8_t *tile)
{
    const size_t scales = ft_pack_scale_bytes(type), quants = ft_pack_quant_bytes(type);
    for (size_t row = 0; row < 16; row++)
        for (size_t b = 0; b < n; b++) {
            const uint8_t *plain = rows + (row * n + b) * ggml_type_size(type);
            const uint8_t *pair = tile + b / 2 * 2 * (scales + quants);
            const uint8_t *of_scales = pair + b % 2 * scales;
            const uint8_t *of_quants =
                pair + (b / 2 * 2 + 1 == n ? 1 : 2) * scales + b % 2 * quants;
            assert_memory_equal(of_scales + 2 * row, plain, 2);
            if (ft_pack_has_min(type))
                assert_memory_equal(of_scales + 32 + 2 * row, plain + 2, 2);
            for (int k = 0; k < 32; k++)
                assert_int_equal(packed_value(type, of_quants, row, k),
                                 plain_value(type, plain, k));
        }
}

static void check_floats(enum ggml_type type, size_t n, const uint8_t *rows, const uint8_t *tile)
{
    const size_t unit = type == GGML_TYPE_F16 ? 2 : 4; /* n: of units in a row */
    for (size_t row = 0; row < 16; row++)
        for (size_t i = 0; i < n; i++)
            assert_memory_equal(tile + (i * 16 + row) * unit, rows + (row * n + i) * unit, unit);
}

static void test_values(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 3);
    for (size_t t = 0; t < N_TYPES; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            int64_t n_in = shapes[s][0] * block_of(types[t]), n_out = shapes[s][1];
            size_t bytes = ggml_row_size(types[t], n_in) * (size_t)n_out;
            size_t n_blocks = (size_t)shapes[s][0], tile = ft_pack_tile_bytes(types[t], n_in);
            uint8_t *plain = malloc(bytes), *packed = calloc(1, bytes);
            for (size_t i = 0; i < bytes; i++)
                plain[i] = (uint8_t)ft_rng_below(&rng, 256);
            assert_int_equal(tile * (size_t)n_out / 16, bytes);
            ft_pack(types[t], n_in, n_out, plain, packed);
            for (size_t at = 0; at < bytes; at += tile)
                if (ft_pack_has_rows(types[t]))
                    check_floats(types[t], n_blocks, plain + at, packed + at);
                else if (ggml_blck_size(types[t]) == 32) /* the others: test_pack_k.c */
                    check_blocks(types[t], n_blocks, plain + at, packed + at);
            assert_true(shapes[s][0] == 1 || memcmp(packed, plain, bytes) != 0);
            free(plain);
            free(packed);
        }
}

/* Row 21 (the sixth of the second tile), block 1 of a pair and block 2 alone, as the header
 * says. */
static void test_positions(void **state)
{
    enum { IN = 96, OUT = 32, ROW = 21, IN_TILE = 5 };
    uint8_t plain8[OUT][3][34] = {0}, plain4[OUT][3][18] = {0}, packed[OUT * 3 * 34];
    for (int b = 1; b < 3; b++) {
        for (int k = 0; k < 32; k++) {
            plain8[ROW][b][2 + k] = (uint8_t)(k - 7 * b);
            plain4[ROW][b][2 + k % 16] |= (uint8_t)((k * 7 % 16) << (k < 16 ? 0 : 4));
        }
        plain8[ROW][b][0] = (uint8_t)b, plain8[ROW][b][1] = 0x12;
    }
    ft_pack(GGML_TYPE_Q8_0, IN, OUT, plain8, packed);
    const uint8_t *tile = packed + ft_pack_tile_bytes(GGML_TYPE_Q8_0, IN);
    const size_t scales8[] = {0, 32, 2 * 544}, quants8[] = {64, 64 + 512, 2 * 544 + 32};
    for (int b = 1; b < 3; b++) {
        assert_int_equal(tile[scales8[b] + 2 * IN_TILE], b);
        assert_int_equal(tile[scales8[b] + 2 * IN_TILE + 1], 0x12);
        for (int k = 0; k < 32; k++)
            assert_int_equal(tile[quants8[b] + (size_t)(k / 4 * 64 + 4 * IN_TILE + k % 4)],
                             128 + k - 7 * b);
    }
    ft_pack(GGML_TYPE_Q4_0, IN, OUT, plain4, packed);
    tile = packed + ft_pack_tile_bytes(GGML_TYPE_Q4_0, IN);
    const size_t quants4[] = {64, 64 + 256, 2 * 288 + 32};
    for (int b = 1; b < 3; b++)
        for (int k = 0; k < 32; k++) {
            unsigned byte = tile[quants4[b] + (size_t)(k / 8 * 64 + 4 * IN_TILE + k % 4)];
            assert_int_equal(byte >> (k % 8 < 4 ? 0 : 4) & 15, k * 7 % 16);
        }
}

/* Row 21 again: value 7 of it. */
static void test_positions_of_floats(void **state)
{
    enum { IN = 10, OUT = 32, AT = 21 * IN + 7, IN_TILE = 5 };
    uint16_t plain[OUT * IN] = {0}, packed[OUT * IN];
    float plain32[OUT * IN] = {0}, packed32[OUT * IN];
    plain[AT] = 0x1234;
    plain32[AT] = 5;
    ft_pack(GGML_TYPE_F16, IN, OUT, plain, packed);
    assert_int_equal(packed[16 * IN + 7 * 16 + IN_TILE], 0x1234);
    ft_pack(GGML_TYPE_BF16, IN, OUT, plain, packed);
    assert_int_equal(packed[16 * IN + 3 * 32 + 2 * IN_TILE + 1], 0x1234);
    ft_pack(GGML_TYPE_F32, IN, OUT, plain32, packed32);
    assert_true(packed32[16 * IN + 7 * 16 + IN_TILE] == 5);
}

static void test_rows_of_floats(void **state)
{
    enum { IN = 134, OUT = 48 };
    static const enum ggml_type floats[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};
    ft_rng rng;
    ft_rng_init(&rng, 4);
    assert_false(ft_pack_has_rows(GGML_TYPE_Q8_0));
    for (size_t t = 0; t < 3; t++) {
        float values[OUT][IN], row[IN];
        char plain[sizeof values], packed[sizeof values];
        for (size_t i = 0; i < OUT * (size_t)IN; i++) /* numbers that every type has */
            values[i / IN][i % IN] = (float)ft_rng_below(&rng, 255) - 127;
        if (floats[t] == GGML_TYPE_F32)
            memcpy(plain, values, sizeof values);
        else if (floats[t] == GGML_TYPE_F16)
            ggml_fp32_to_fp16_row(values[0], (ggml_fp16_t *)plain, OUT * IN);
        else
            ggml_fp32_to_bf16_row(values[0], (ggml_bf16_t *)plain, OUT * IN);
        assert_true(ft_pack_has_rows(floats[t]));
        ft_pack(floats[t], IN, OUT, plain, packed);
        for (size_t r = 0; r < OUT; r++) {
            ft_pack_get_row(floats[t], IN, packed, r, row);
            assert_memory_equal(row, values[r], sizeof row);
        }
    }
}

static void test_mark(void **state)
{
    struct ggml_tensor t = {0};
    assert_false(ft_is_packed(&t));
    ft_pack_mark(&t);
    assert_true(ft_is_packed(&t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fits),           cmocka_unit_test(test_values),
        cmocka_unit_test(test_positions),      cmocka_unit_test(test_positions_of_floats),
        cmocka_unit_test(test_rows_of_floats), cmocka_unit_test(test_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
