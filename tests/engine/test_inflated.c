// SPDX-License-Identifier: Apache-2.0
// Files with layers added by model/inflate.h: this engine's logits and greedy text are those of the
// old file bit for bit, by both attention routes, for prompts, single tokens and trees.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/inflate.h"
#include "support/same_logits.h"
#include "support/tiny_gguf.h"

static ft_model *load(const char *path)
{
    ft_error err = {0};
    ft_model *model = NULL;
    ft_model_opts opts = {.path = path}; /* all weights packed that can be: nothing is measured */
    if (ft_model_load(&opts, &err, &model) != FT_OK)
        fail_msg("%s", err.message);
    return model;
}

static void compare(const char *in, const char *out, ft_attn_route route)
{
    ft_model *a = load(in), *b = load(out);
    same_logits(a, b, route);
    ft_model_destroy(a);
    ft_model_destroy(b);
}

static void test_same(void **state)
{
    static const char *const families[] = {"llama", "qwen2", "qwen3"};
    static const enum ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,    GGML_TYPE_BF16,
                                           GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,   GGML_TYPE_Q4_1,
                                           GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL, GGML_TYPE_Q4_K,
                                           GGML_TYPE_Q6_K, GGML_TYPE_IQ3_S};
    (void)state;
    for (size_t f = 0; f < 3; f++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            ft_error err = {0};
            tiny_gguf_opts opts = {.arch = families[f],
                                   .type = types[t],
                                   .output_bias = f == 0,
                                   .rope_freqs = f == 0,
                                   .seed = 40 + f};
            char *in = tiny_gguf_temp(&opts), *out = tiny_temp_path();
            ft_inflate_opts inflate = {.in = in, .out = out, .n_layer = 5};
            if (ft_model_inflate(&inflate, &err, NULL) != FT_OK)
                fail_msg("%s", err.message);
            compare(in, out, FT_ATTN_CPU);
            compare(in, out, FT_ATTN_PORTABLE);
            unlink(in);
            unlink(out);
            free(in);
            free(out);
        }
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
