// SPDX-License-Identifier: Apache-2.0
// Packed files: their logits are those of the file that they were made from bit for bit, for every
// family and weight type, for prompts, single tokens and trees, by both attention routes. Kernels,
// fingerprints and sizes are told alike, and --kernels is held to what the file has.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/load.h"
#include "engine/products.h"
#include "model/pack_file.h"
#include "support/same_logits.h"
#include "support/tiny_gguf.h"

static void pack(const char *in, const char *out, ft_products products)
{
    ft_error err = {0};
    ft_model_opts choice = {0};
    ft_products_apply(products, &choice);
    ft_pack_file_opts opts = {
        .in = in, .out = out, .no_pack = choice.no_pack, .choose = choice.choose};
    if (ft_model_pack(&opts, &err) != FT_OK)
        fail_msg("%s", err.message);
}

/* map: mapped if it is a packed file. */
static ft_status load_as(const char *path, const char *kernels, bool map, ft_error *err,
                         ft_model **out)
{
    const ft_device_opts where = {.names = "none", .kernels = kernels};
    const ft_model_opts opts = {.path = path, .map = map};
    return ft_model_load_on(&where, &opts, err, out);
}

static ft_status load(const char *path, const char *kernels, ft_error *err, ft_model **out)
{
    return load_as(path, kernels, false, err, out);
}

static ft_model *load_one(const char *path, const char *kernels, bool map)
{
    ft_error err = {0};
    ft_model *model = NULL;
    if (load_as(path, kernels, map, &err, &model) != FT_OK)
        fail_msg("%s", err.message);
    return model;
}

static void compare_models(const ft_model *a, const ft_model *b)
{
    const ft_fingerprints f = ft_model_fingerprints(a), g = ft_model_fingerprints(b);
    const ft_model_memory m = ft_model_get_memory(a), n = ft_model_get_memory(b);
    assert_true(f.model == g.model && f.weights == g.weights);
    assert_memory_equal(&m, &n, sizeof m);
    assert_memory_equal(ft_model_hparams(a), ft_model_hparams(b), sizeof(ft_hparams));
    assert_string_equal(ft_model_name(a), ft_model_name(b));
    assert_string_equal(ft_model_type_name(a), ft_model_type_name(b));
    assert_int_equal(ft_model_repacked(a), ft_model_repacked(b));
    assert_int_equal(ft_model_bytes_on(a, 0), ft_model_bytes_on(b, 0));
}

static void check(const tiny_gguf_opts *opts, ft_products products)
{
    static const char *const kernels[] = {
        [FT_PRODUCTS_AUTO] = "auto", [FT_PRODUCTS_PACKED] = "packed", [FT_PRODUCTS_GGML] = "ggml"};
    char *in = tiny_gguf_temp(opts), *out = tiny_temp_path();
    pack(in, out, products);
    ft_model *a = load_one(in, kernels[products], false);
    for (int map = 0; map < 2; map++) {
        ft_model *b = load_one(out, kernels[products], map);
        if (!map) /* bytes of a mapped one have no padding */
            compare_models(a, b);
        same_logits(a, b, FT_ATTN_CPU);
        same_logits(a, b, FT_ATTN_PORTABLE);
        ft_model_destroy(b);
    }
    ft_model_destroy(a);
    unlink(in);
    unlink(out);
    free(in);
    free(out);
}

static void test_types(void **state)
{
    static const char *const families[] = {"llama", "qwen2", "qwen3"};
    static const enum ggml_type types[] = {
        GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q8_0,   GGML_TYPE_Q4_0,
        GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL, GGML_TYPE_Q4_K,
        GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_Q2_K, GGML_TYPE_Q3_K,   GGML_TYPE_IQ4_XS};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t f = 0; f < 3; f++) {
            tiny_gguf_opts opts = {.arch = families[f],
                                   .type = types[t],
                                   .output_bias = f == 0,
                                   .rope_freqs = f == 0,
                                   .tied = f == 1,
                                   .embd_as_type = t % 2 == 0,
                                   .seed = 40 + f};
            check(&opts, FT_PRODUCTS_AUTO);
            opts.tied = !opts.tied;
            opts.embd_as_type = !opts.embd_as_type;
            check(&opts, (ft_products)(t % 3));
        }
}

static void test_variants(void **state)
{
    const tiny_gguf_opts cases[] = {
        {.mixed_qkv = true, .tied = true, .seed = 5},
        {.type = GGML_TYPE_Q4_K, .finer = GGML_TYPE_Q6_K, .tied = true, .seed = 6},
        {.type = GGML_TYPE_Q8_0, .n_head = 4, .n_head_kv = 4, .head_dim = 40, .seed = 7},
        {.type = GGML_TYPE_Q8_0, .n_vocab = 331, .tied = true, .seed = 8}, /* no whole tiles */
        {.type = GGML_TYPE_F16, .n_vocab = 331, .embd_as_type = true, .tied = true, .seed = 9},
        {.type = GGML_TYPE_Q4_0, .n_embd = 96, .n_head = 4, .n_head_kv = 1, .head_dim = 24},
        {.type = GGML_TYPE_F32, .n_ff = 20000, .n_layer = 1}, /* a tile is more than a piece */
        {.n_layer = 17, .rope_linear = 4, .spm = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int p = 0; p < 3; p++)
            check(&cases[i], (ft_products)p);
}

static void refuse(const char *path, const char *kernels, const char *says)
{
    ft_error err = {0};
    ft_model *model = NULL;
    assert_int_equal(load(path, kernels, &err, &model), FT_INVALID);
    if (!strstr(err.message, says))
        fail_msg("'%s' does not say '%s'", err.message, says);
    assert_null(model);
}

/* The file fixes what multiplies. */
static void test_kernels(void **state)
{
    const tiny_gguf_opts opts = {.type = GGML_TYPE_Q8_0};
    char *in = tiny_gguf_temp(&opts), *out = tiny_temp_path();
    char text[FT_PRODUCTS_TEXT];
    ft_model *model = NULL;
    ft_error err = {0};
    pack(in, out, FT_PRODUCTS_PACKED);
    refuse(out, "ggml", "--kernels ggml");
    pack(in, out, FT_PRODUCTS_GGML);
    refuse(out, "packed", "--kernels packed");
    assert_int_equal(load(out, "auto", &err, &model), FT_OK);
    const ft_model_products products = ft_model_get_memory(model).products;
    ft_products_text(&products, text);
    assert_string_equal(text, "ggml q8_0");
    ft_model_destroy(model);
    unlink(in);
    unlink(out);
    free(in);
    free(out);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_types),
                                       cmocka_unit_test(test_variants),
                                       cmocka_unit_test(test_kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
