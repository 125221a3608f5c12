// SPDX-License-Identifier: Apache-2.0
// Requantizing: every type that is offered works and can be loaded again, the input stays, bad
// calls leave nothing behind.
#include "model/quantize.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/model.h"
#include "model/vocab.h"
#include "support/tiny_gguf.h"

static void test_types(void **state)
{
    (void)state;
    struct {
        const char *type, *loaded;
        bool repackable;
    } cases[] = {
        {"f32", "F32", false},      {"f16", "F16", false},    {"bf16", "BF16", false},
        {"q8_0", "Q8_0", false},    {"Q4_0", "Q4_0", true},   {"q4_1", "Q4_1", false},
        {"iq4_nl", "IQ4_NL", true}, {"q4_k_s", "Q4_K", true}, {"q5_k_m", NULL, false},
        {"q6_k", "Q6_K", false},    {"q5_0", "Q5_0", false},  {"q5_1", "Q5_1", false},
        {"iq4_xs", NULL, false},    {"q3_k_m", NULL, false},  {"q2_k", NULL, false},
        {"q4_k_m", NULL, false},    {"q5_k_s", NULL, false},
    };
    /* From F16 and, with a second round of quantizing, from Q4_1, as the demo target comes. */
    for (int from = 0; from < 2; from++) {
        tiny_gguf_opts opts = {
            .type = from ? GGML_TYPE_Q4_1 : GGML_TYPE_F16, .n_embd = 256, .n_layer = 1};
        char *in = tiny_gguf_temp(&opts), *out = tiny_temp_path();
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            ft_error err = {0};
            ft_model *model = NULL;
            if (ft_model_quantize(in, out, cases[i].type, 1, &err) != FT_OK)
                fail_msg("%s", err.message);
            ft_model_opts load_opts = {.path = out};
            if (ft_model_load(&load_opts, &err, &model) != FT_OK)
                fail_msg("%s: %s", cases[i].type, err.message);
            if (cases[i].loaded)
                assert_string_equal(ft_model_type_name(model), cases[i].loaded);
            ft_model_destroy(model);
        }
        unlink(in);
        unlink(out);
        free(in);
        free(out);
    }
}

/* The tokenizer goes with the file: the draft and a requantized target stay a pair. */
static void test_vocabulary_stays(void **state)
{
    (void)state;
    tiny_gguf_opts opts = {0};
    char *in = tiny_gguf_temp(&opts), *out = tiny_temp_path();
    ft_error err = {0};
    ft_vocab *a = NULL, *b = NULL;
    assert_int_equal(ft_model_quantize(in, out, "q8_0", 1, &err), FT_OK);
    assert_int_equal(ft_vocab_load(in, &err, &a), FT_OK);
    assert_int_equal(ft_vocab_load(out, &err, &b), FT_OK);
    assert_true(ft_vocab_fingerprint(a) == ft_vocab_fingerprint(b));
    ft_vocab_destroy(a);
    ft_vocab_destroy(b);
    unlink(in);
    unlink(out);
    free(in);
    free(out);
}

static void test_bad_calls(void **state)
{
    (void)state;
    tiny_gguf_opts opts = {0};
    char *in = tiny_gguf_temp(&opts), *bad = tiny_temp_path();
    char link_path[600];
    ft_error err = {0};
    struct stat before, after;
    assert_int_equal(stat(in, &before), 0);
    assert_int_equal(ft_model_quantize(in, bad, "q9", 1, &err), FT_INVALID);
    assert_non_null(strstr(err.message, "'q9'"));
    assert_non_null(strstr(err.message, "iq4_nl"));
    assert_int_equal(ft_model_quantize(in, in, "q8_0", 1, &err), FT_INVALID);
    snprintf(link_path, sizeof link_path, "%s-link", in);
    assert_int_equal(symlink(in, link_path), 0);
    assert_int_equal(ft_model_quantize(in, link_path, "q8_0", 1, &err), FT_INVALID);
    unlink(link_path);
    assert_int_equal(ft_model_quantize(bad, link_path, "q8_0", 1, &err), FT_CORRUPT);
    assert_int_equal(ft_model_quantize("/nonexistent", link_path, "q8_0", 1, &err), FT_NOT_FOUND);
    assert_int_equal(ft_model_quantize(in, "/nonexistent/out", "q8_0", 1, &err), FT_IO);
    assert_non_null(strstr(err.message, "/nonexistent/out"));
    assert_int_not_equal(access(link_path, F_OK), 0);
    assert_int_equal(stat(in, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    unlink(in);
    unlink(bad);
    free(in);
    free(bad);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_vocabulary_stays),
        cmocka_unit_test(test_bad_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
