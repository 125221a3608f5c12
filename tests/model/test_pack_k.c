// SPDX-License-Identifier: Apache-2.0
// The packed layout of K-quants as pack_k.h describes it: values read from it one by one against
// what ggml reads from the plain rows; the scales of superblocks, of which ggml sees few here, bit
// by bit.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "model/pack.h"
#include "model/pack_k.h"

/* Value k of a row's block: 4 bits, of which the header says where they are. */
static int nibble(const uint8_t quants[4][64], int row, int k)
{
    uint8_t byte = quants[k / 8][4 * row + k % 4];
    return k % 8 < 4 ? byte & 15 : byte >> 4;
}

static float value45(const ft_pack_scales *s, int q, int block, int row)
{
    int high = s->high[block % 4][row] >> (block < 4 ? 0 : 4);
    int scale = (s->low[block][row] & 15) + 16 * (high & 3);
    int min = (s->low[block][row] >> 4) + 16 * (high >> 2 & 3);
    return ggml_fp16_to_fp32(s->d[row]) * (float)scale * (float)q -
           ggml_fp16_to_fp32(s->dmin[row]) * (float)min;
}

static float value_at(enum ggml_type type, const uint8_t *tile, size_t n_super, int row, int i)
{
    size_t s = (size_t)i / 256;
    int block = i % 256 / 32, k = i % 32;
    if (type == GGML_TYPE_Q4_K) {
        const ft_pack_q4_k *p = (const ft_pack_q4_k *)tile + s;
        return value45(&p->scales, nibble(p->quants[block], row, k), block, row);
    }
    if (type == GGML_TYPE_Q5_K) {
        const ft_pack_q5_k *p = (const ft_pack_q5_k *)tile + s;
        int fifth = p->block[block].bits[4 * row + k % 4] >> k / 4 & 1;
        return value45(&p->scales, nibble(p->block[block].quants, row, k) + 16 * fifth, block, row);
    }
    ft_pack_q6_k_place at = ft_pack_q6_k_at(s, n_super);
    const ft_pack_q6_k *p = (const ft_pack_q6_k *)(tile + at.super);
    uint16_t d;
    memcpy(&d, tile + at.d + 2 * (size_t)row, 2);
    int upper = p->block[block].bits[k / 16][4 * row + k % 4] >> k % 16 / 4 * 2 & 3;
    int q = nibble(p->block[block].quants, row, k) + 16 * upper - 32;
    return ggml_fp16_to_fp32(d) * (float)p->scales[i % 256 / 16][row] * (float)q;
}

/* Any bytes, but d and dmin (first or last halves of a superblock) powers of two: products are
 * exact. */
static void fill(ft_rng *rng, enum ggml_type type, uint8_t *plain, size_t bytes)
{
    size_t block = ggml_type_size(type);
    for (size_t i = 0; i < bytes; i++)
        plain[i] = (uint8_t)ft_rng_below(rng, 256);
    const size_t d[] = {type == GGML_TYPE_Q6_K ? block - 2 : 0,
                        type == GGML_TYPE_Q6_K ? block - 2 : 2};
    for (size_t i = 0; i < bytes; i += block)
        for (size_t h = 0; h < 2; h++) {
            plain[i + d[h]] = 0;
            plain[i + d[h] + 1] &= 0xbc;
        }
}

static void check_values(ft_rng *rng, enum ggml_type type, size_t n_super)
{
    int64_t n_in = 256 * (int64_t)n_super;
    size_t bytes = ft_pack_tile_bytes(type, n_in);
    uint8_t *plain = malloc(2 * bytes), *packed = malloc(2 * bytes);
    float *values = malloc(sizeof *values * 32 * (size_t)n_in);
    fill(rng, type, plain, 2 * bytes);
    ggml_get_type_traits(type)->to_float(plain, values, 32 * n_in);
    ft_pack(type, n_in, 32, plain, packed);
    for (int row = 0; row < 32; row++)
        for (int i = 0; i < n_in; i++) {
            const uint8_t *tile = packed + (size_t)(row / 16) * bytes;
            float packed_value = value_at(type, tile, n_super, row % 16, i);
            float *plain_value = &values[row * n_in + i];
            assert_memory_equal(&packed_value, plain_value, sizeof(float));
        }
    free(plain);
    free(packed);
    free(values);
}

/* d and dmin of any bits. */
static void check_scales(ft_rng *rng, enum ggml_type type, size_t n_super)
{
    int64_t n_in = 256 * (int64_t)n_super;
    size_t bytes = ft_pack_tile_bytes(type, n_in);
    uint8_t *plain = malloc(bytes), *packed = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        plain[i] = (uint8_t)ft_rng_below(rng, 256);
    ft_pack(type, n_in, 16, plain, packed);
    for (size_t row = 0; row < 16; row++)
        for (size_t s = 0; s < n_super; s++) {
            const uint8_t *super = plain + (row * n_super + s) * ggml_type_size(type);
            if (type == GGML_TYPE_Q6_K) {
                assert_memory_equal(packed + ft_pack_q6_k_at(s, n_super).d + 2 * row,
                                    super + ggml_type_size(type) - 2, 2);
                continue;
            }
            const ft_pack_scales *to = type == GGML_TYPE_Q4_K
                                           ? &((const ft_pack_q4_k *)packed)[s].scales
                                           : &((const ft_pack_q5_k *)packed)[s].scales;
            assert_memory_equal(&to->d[row], super, 2);
            assert_memory_equal(&to->dmin[row], super + 2, 2);
        }
    free(plain);
    free(packed);
}

static void test_values(void **state)
{
    static const enum ggml_type types[] = {GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};
    ft_rng rng;
    ft_rng_init(&rng, 4);
    for (size_t t = 0; t < 3; t++) {
        assert_true(ft_pack_fits(types[t], 256, 16));
        for (size_t n_super = 1; n_super <= 4; n_super++) {
            check_values(&rng, types[t], n_super);
            check_scales(&rng, types[t], n_super);
        }
    }
    assert_false(ft_pack_fits(GGML_TYPE_Q2_K, 256, 16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
