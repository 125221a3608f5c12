// SPDX-License-Identifier: Apache-2.0
// The choice between our products and ggml's: measured once a type and class of widths, kept, and
// obeyed by the loader, which counts the memory that follows.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/gemm_choice.h"
#include "engine/gemm_kernel.h"
#include "ggml-cpu.h"
#include "model/model.h"
#include "support/tiny_gguf.h"

enum { MAX = 64 };

static ggml_backend_buffer_type_t host(void)
{
    return ggml_backend_cpu_buffer_type();
}

static void test_measured_once(void **state)
{
    ft_gemm_choice c[MAX];
    size_t before = ft_gemm_choices(c, MAX);
    bool packed = ft_gemm_choose(GGML_TYPE_Q8_0, 320, 64, host());
    assert_int_equal(ft_gemm_choices(c, MAX), before + 1);
    const ft_gemm_choice *last = &c[before];
    assert_int_equal(last->type, GGML_TYPE_Q8_0);
    assert_int_equal(last->n_in, 320);
    assert_int_equal(last->packed, packed);
    assert_non_null(last->kernel);
    assert_string_equal(last->rival, ggml_backend_buft_name(host()));
    for (int i = 0; i < FT_GEMM_CHOICE_ROWS; i++)
        assert_true(last->ours_us[i] > 0 && last->ggml_us[i] > 0);
    assert_true(last->ours_us[3] > last->ours_us[0]); /* 64 rows are more than one */

    assert_int_equal(ft_gemm_choose(GGML_TYPE_Q8_0, 480, 4096, host()), packed);
    assert_int_equal(ft_gemm_choices(c, MAX), before + 1);
    ft_gemm_choose(GGML_TYPE_Q8_0, 512, 64, host());
    ft_gemm_choose(GGML_TYPE_Q4_1, 320, 64, host());
    assert_int_equal(ft_gemm_choices(c, MAX), before + 3);
    assert_int_equal(ft_gemm_choices(c, 1), before + 3); /* no more than one is written */
}

/* However fast ggml's are: they depend on the batch. */
static void test_floats_are_packed(void **state)
{
    bool fast = ft_gemm_kernel_best(GGML_TYPE_BF16) != &ft_gemm_kernel_plain;
    bool packed = ft_gemm_choose(GGML_TYPE_BF16, 256, 64, host());
    assert_true(packed || !fast);
}

static bool never(enum ggml_type type, int64_t n_in, int64_t n_out,
                  ggml_backend_buffer_type_t rival)
{
    assert_non_null(rival);
    return false;
}

static bool only_down(enum ggml_type type, int64_t n_in, int64_t n_out,
                      ggml_backend_buffer_type_t rival)
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
static bool all(enum ggml_type type, int64_t n_in, int64_t n_out, ggml_backend_buffer_type_t rival)
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
    assert_true(memory.bytes <= ft_model_bytes(model));

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
        cmocka_unit_test(test_measured_once),
        cmocka_unit_test(test_floats_are_packed),
        cmocka_unit_test(test_obeyed),
        cmocka_unit_test(test_copies_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
