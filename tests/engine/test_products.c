// SPDX-License-Identifier: Apache-2.0
// The choice between our products and ggml's: it follows from type and processor, is told, and is
// obeyed by the loader, which counts the memory that follows.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/products.h"
#include "engine/gemm_kernel.h"
#include "model/model.h"
#include "support/tiny_gguf.h"

enum { MAX = 64 };

/* From the type and the processor alone. */
static void test_rule(void **state)
{
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        if (!ft_pack_fits(t, 512, 64))
            continue;
        bool ours = ft_gemm_kernel_best(t) != &ft_gemm_kernel_plain;
        assert_int_equal(ft_products_choose(t, 512, 64), ours);
        assert_int_equal(ft_products_choose(t, 1024, 32), ours);
    }
}

static void test_names(void **state)
{
    static const char *const names[] = {"auto", "packed", "ggml"};
    ft_products p;
    ft_error err;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ft_products_parse(names[i], &err, &p), FT_OK);
        assert_int_equal(p, i);
    }
    assert_int_equal(ft_products_parse(NULL, &err, &p), FT_OK);
    assert_int_equal(p, FT_PRODUCTS_AUTO);
    assert_int_equal(ft_products_parse("fast", &err, &p), FT_INVALID);
}

/* What is asked for is what is done, and what is told. */
static void test_told(void **state)
{
    const tiny_gguf_opts file = {.type = GGML_TYPE_Q8_0, .n_embd = 128, .n_ff = 256};
    static const struct {
        ft_products products;
        const char *text;
    } cases[] = {{FT_PRODUCTS_PACKED, "packed q8_0"}, {FT_PRODUCTS_GGML, "ggml q8_0"}};
    char *path = tiny_gguf_temp(&file);
    for (int i = 0; i < 2; i++) {
        char text[FT_PRODUCTS_TEXT];
        ft_model *model = NULL;
        ft_model_info info;
        ft_model_opts opts = {.path = path};
        ft_products_apply(cases[i].products, &opts);
        assert_int_equal(ft_model_load(&opts, NULL, &model), FT_OK);
        const ft_model_products p = ft_model_get_memory(model).products;
        ft_products_text(&p, text);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(ft_is_packed(ft_model_weights(model)->output),
                         cases[i].products == FT_PRODUCTS_PACKED);
        assert_int_equal(ft_model_inspect(&opts, NULL, &info), FT_OK);
        assert_memory_equal(&info.memory.products, &p, sizeof p);
        ft_model_destroy(model);
    }
    unlink(path);
    free(path);
}

/* A text that is too long ends, and is a text. */
static void test_all_types(void **state)
{
    const ft_model_products all = {.packed = UINT64_MAX, .by_ggml = UINT64_MAX};
    char text[FT_PRODUCTS_TEXT];
    ft_products_text(&all, text);
    assert_int_equal(strlen(text), FT_PRODUCTS_TEXT - 1);
}

static bool never(enum ggml_type type, int64_t n_in, int64_t n_out)
{
    return false;
}

static bool only_down(enum ggml_type type, int64_t n_in, int64_t n_out)
{
    return n_in == 256;
}

static ft_model *load(const char *path, ft_pack_choice *choose)
{
    ft_model *model = NULL;
    const ft_model_opts opts = {.path = path, .choose = choose};
    assert_int_equal(ft_model_load(&opts, NULL, &model), FT_OK);
    return model;
}

static void test_obeyed(void **state)
{
    const tiny_gguf_opts file = {.type = GGML_TYPE_Q8_0, .n_embd = 128, .n_ff = 256, .tied = true};
    char *path = tiny_gguf_temp(&file);
    ft_model *model = load(path, never);
    ft_model_memory memory = ft_model_get_memory(model);
    assert_true(memory.bytes > 0);
    assert_int_equal(memory.packed_bytes, 0);
    assert_false(ft_is_packed(ft_model_weights(model)->layers[0].wdown));
    ft_model_destroy(model);

    model = load(path, only_down);
    const ft_weights *w = ft_model_weights(model);
    memory = ft_model_get_memory(model);
    assert_true(ft_is_packed(w->layers[0].wdown) && ft_is_packed(w->layers[1].wdown));
    assert_false(ft_is_packed(w->layers[0].wqkv));
    assert_int_equal(memory.packed_bytes, 2 * ggml_nbytes(w->layers[0].wdown));
    assert_int_equal(memory.copied_bytes, 0);
    ft_model_destroy(model);
    unlink(path);
    free(path);
}

/* A tied head that is packed exists beside the embedding that rows are looked up in. */
static bool all(enum ggml_type type, int64_t n_in, int64_t n_out)
{
    return true;
}

static void test_copies_are_counted(void **state)
{
    const tiny_gguf_opts file = {.type = GGML_TYPE_Q8_0, .n_vocab = 320, .tied = true};
    char *path = tiny_gguf_temp(&file);
    ft_model *model = load(path, all);
    const ft_weights *w = ft_model_weights(model);
    ft_model_memory memory = ft_model_get_memory(model);
    assert_ptr_not_equal(w->output, w->tok_embd);
    assert_int_equal(memory.copied_bytes, ggml_nbytes(w->output));
    assert_true(memory.packed_bytes > memory.copied_bytes);
    assert_true(memory.bytes >= memory.packed_bytes + ggml_nbytes(w->tok_embd));
    assert_true(memory.bytes <= ft_model_bytes_on(model, 0));

    ft_model_info info;
    const ft_model_opts opts = {.path = path, .choose = all};
    assert_int_equal(ft_model_inspect(&opts, NULL, &info), FT_OK);
    assert_memory_equal(&info.memory, &memory, sizeof memory);
    ft_model_destroy(model);
    unlink(path);
    free(path);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),   cmocka_unit_test(test_names),
        cmocka_unit_test(test_told),   cmocka_unit_test(test_all_types),
        cmocka_unit_test(test_obeyed), cmocka_unit_test(test_copies_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
