// SPDX-License-Identifier: Apache-2.0
// bench/law and bench/law_prefix, on a tiny pair: the rows that were asked for, with figures that
// belong together; rules keep the target's law, and S-Q with coarse points does not.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/law.h"
#include "support/tiny_gguf.h"

static struct {
    char *target, *draft, *prompts;
} files;

static int set_up(void **state)
{
    const tiny_gguf_opts target = {.type = GGML_TYPE_Q4_0, .seed = 3};
    const tiny_gguf_opts draft = {.type = GGML_TYPE_Q8_0, .seed = 3}; /* about the same */
    files.target = tiny_gguf_temp(&target);
    files.draft = tiny_gguf_temp(&draft);
    files.prompts = tiny_temp_path();
    FILE *file = fopen(files.prompts, "w");
    if (!file)
        return -1;
    for (int i = 0; i < 4; i++)
        fprintf(file, "{\"prompt\": \"say %d\"}\n", i);
    fprintf(file, "{\"prompt\": \"%0400d\"}\n", 0); /* too long */
    tiny_quiet();
    return fclose(file);
}

static int tear_down(void **state)
{
    unlink(files.target);
    unlink(files.draft);
    unlink(files.prompts);
    free(files.target);
    free(files.draft);
    free(files.prompts);
    return 0;
}

static ft_bench_law_opts options(void)
{
    return (ft_bench_law_opts){.target = files.target,
                               .draft = files.draft,
                               .prompts = files.prompts,
                               .prefixes = 2,
                               .rounds = 3000,
                               .temps = {0.5, 1},
                               .n_temps = 2,
                               .l = "2,100",
                               .top_k = 5,
                               .n_ctx = 128,
                               .n_threads = 1};
}

static double number(const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);
    if (!json_is_number(v))
        fail_msg("no number %s", key);
    return json_number_value(v);
}

static void check_row(const json_t *row)
{
    const char *method = json_string_value(json_object_get(row, "method"));
    const bool biased = strcmp(method, "S-Q") == 0;
    assert_true(strcmp(method, "exact") == 0 || number(row, "l") > 0);
    assert_true(number(row, "tv_direct") > 0 && number(row, "tv_direct_second") > 0);
    assert_true(number(row, "entropy_target") > 0 && number(row, "entropy_target") <= log2(5));
    if (biased && number(row, "l") == 2) {
        assert_true(number(row, "p_first") < 1e-9);
        assert_true(number(row, "tv_first") > 3 * number(row, "tv_direct"));
    }
    if (biased)
        return;
    assert_true(number(row, "p_first") > 1e-5 && number(row, "p_second") > 1e-5);
    assert_true(number(row, "tv_first") < 3 * number(row, "tv_direct"));
    assert_true(number(row, "tv_second") < 3 * number(row, "tv_direct_second"));
    assert_true(fabs(number(row, "entropy") - number(row, "entropy_target")) < 0.1);
}

static void rows(void **state)
{
    const ft_bench_law_opts opts = options();
    ft_error err = {0};
    json_t *report, *row;
    size_t i;
    if (ft_bench_law(&opts, &err, &report) != FT_OK)
        fail_msg("%s", err.message);
    const json_t *list = json_object_get(report, "rows");
    assert_int_equal(number(report, "prefixes"), 2);
    assert_int_equal(json_array_size(list), 10); /* exact; ratio and S-Q twice; two temperatures */
    json_array_foreach(list, i, row) check_row(row);
    json_decref(report);
}

/* A prefix has what the target may choose, and rows that differ. */
static void prefixes(void **state)
{
    ft_error err = {0};
    ft_law_models m = {0};
    ft_law_prefix p;
    const ft_bench_reader_opts target = {.path = files.target, .n_ctx = 128, .n_threads = 1};
    const ft_bench_reader_opts draft = {.path = files.draft, .n_ctx = 128, .n_threads = 1};
    assert_int_equal(ft_bench_prompts_load(files.prompts, 0, &err, &m.prompts), FT_OK);
    assert_int_equal(ft_vocab_load(files.target, &err, &m.vocab), FT_OK);
    assert_int_equal(ft_bench_reader_init(&target, &err, &m.target), FT_OK);
    assert_int_equal(ft_bench_reader_init(&draft, &err, &m.draft), FT_OK);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(ft_law_prefix_init(&m, i, 5, &err, &p), FT_OK);
        assert_true(p.position >= 4);
        assert_int_equal(p.n_first, 5);
        assert_in_range(p.n_vocab, 5, 2 * 6 * 5);
        for (uint32_t k = 0; k < p.n_first; k++)
            assert_in_range(p.first[k], k > 0 ? p.first[k - 1] + 1 : 0, p.n_vocab - 1);
        float least = INFINITY;
        uint32_t larger = 0;
        for (uint32_t k = 0; k < p.n_first; k++)
            least = fminf(least, p.target[p.first[k]]);
        for (uint32_t t = 0; t < p.n_vocab; t++)
            larger += p.target[t] >= least;
        assert_int_equal(larger, p.n_first); /* its choices are the largest logits */
        assert_true(memcmp(p.target, p.target + p.n_vocab, p.n_vocab * sizeof *p.target) != 0);
        assert_true(memcmp(p.target, p.draft, p.n_vocab * sizeof *p.target) != 0);
        ft_law_prefix_deinit(&p);
    }
    assert_int_equal(ft_law_prefix_init(&m, 0, 5, &err, &p), FT_NOT_FOUND); /* it is too long */
    ft_law_prefix_deinit(&p);
    ft_bench_reader_deinit(&m.target);
    ft_bench_reader_deinit(&m.draft);
    ft_vocab_destroy(m.vocab);
    ft_bench_prompts_deinit(&m.prompts);
}

static void refusals(void **state)
{
    ft_bench_law_opts opts = options();
    ft_error err = {0};
    json_t *report;
    opts.l = "8,0";
    assert_int_equal(ft_bench_law(&opts, &err, &report), FT_INVALID);
    assert_non_null(strstr(err.message, "--l"));
    opts.l = "2000";
    assert_int_equal(ft_bench_law(&opts, &err, &report), FT_INVALID);
    opts.l = "8";
    opts.prefixes = 30;
    opts.rounds = 1;
    assert_int_equal(ft_bench_law(&opts, &err, &report), FT_NOT_FOUND);
    assert_null(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
