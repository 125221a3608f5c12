// SPDX-License-Identifier: Apache-2.0
// bench/codec: rows of made-up distributions and of a tiny draft's, whose figures belong together.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/codec.h"
#include "support/tiny_gguf.h"

enum { DISTRIBUTIONS = 5 };

static double number(const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);
    if (!json_is_number(v))
        fail_msg("no number %s", key);
    return json_number_value(v);
}

static void check_row(const json_t *row, double vocab, double l)
{
    assert_true(number(row, "vocab") == vocab && number(row, "l") == l);
    assert_int_equal(number(row, "distributions"), DISTRIBUTIONS);
    assert_int_equal(number(row, "unchanged"), DISTRIBUTIONS);
    assert_true(number(row, "bits") == number(row, "formula_bits"));
    assert_true(number(row, "support") >= 1 && number(row, "support") <= l);
    const double ratio = number(row, "adaptive_bits") / number(row, "bits");
    assert_true(number(row, "adaptive_bits_ratio") > 0.999 * ratio &&
                number(row, "adaptive_bits_ratio") < 1.001 * ratio);
    static const char *const times[] = {"quantize_ms", "encode_ms", "decode_ms",
                                        "adaptive_encode_ms", "adaptive_decode_ms"};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        assert_true(number(row, times[i]) >= 0);
}

static json_t *measure(const char *draft, const char *prompts)
{
    const ft_bench_codec_opts opts = {.distributions = DISTRIBUTIONS,
                                      .seed = 1,
                                      .draft = draft,
                                      .prompts = prompts,
                                      .n_ctx = 512,
                                      .n_threads = 1,
                                      .temps = {0.5, 1},
                                      .n_temps = 2,
                                      .top_k = 40,
                                      .top_p = 1};
    ft_error err = {0};
    json_t *report;
    if (ft_bench_codec(&opts, &err, &report) != FT_OK)
        fail_msg("%s", err.message);
    return report;
}

static void made_up(void **state)
{
    static const double at[][2] = {{32000, 100}, {49152, 240}, {49152, 720}, {151936, 1000}};
    json_t *report = measure(NULL, NULL);
    const json_t *rows = json_object_get(report, "rows");
    assert_int_equal(json_array_size(rows), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *row = json_array_get(rows, i);
        check_row(row, at[i][0], at[i][1]);
        assert_string_equal(json_string_value(json_object_get(row, "source")), "zipf");
        assert_null(json_object_get(row, "temperature"));
    }
    json_decref(report);
}

static void of_a_draft(void **state)
{
    const tiny_gguf_opts tiny = {.type = GGML_TYPE_Q4_0, .seed = 3};
    char *draft = tiny_gguf_temp(&tiny), *prompts = tiny_temp_path();
    FILE *file = fopen(prompts, "w");
    assert_non_null(file);
    for (int i = 0; i < 20; i++) /* a text may end at once */
        fprintf(file, "{\"prompt\": \"say %d\"}\n", i);
    fclose(file);
    tiny_quiet();
    json_t *report = measure(draft, prompts);
    const json_t *rows = json_object_get(report, "rows");
    assert_int_equal(json_array_size(rows), 8);
    for (size_t i = 4; i < 8; i++) {
        const json_t *row = json_array_get(rows, i);
        check_row(row, 320, i % 2 ? 720 : 240);
        assert_string_equal(json_string_value(json_object_get(row, "source")), "draft");
        assert_true(number(row, "temperature") == (i < 6 ? 0.5 : 1));
        assert_true(number(row, "support") <= 40);
    }
    json_decref(report);
    unlink(draft);
    unlink(prompts);
    free(draft);
    free(prompts);
}

static void a_draft_without_prompts(void **state)
{
    const ft_bench_codec_opts opts = {.distributions = 1, .draft = "model.gguf"};
    ft_error err = {0};
    json_t *report;
    assert_int_equal(ft_bench_codec(&opts, &err, &report), FT_INVALID);
    assert_non_null(strstr(err.message, "--prompts"));
    assert_null(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_up),
        cmocka_unit_test(of_a_draft),
        cmocka_unit_test(a_draft_without_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
