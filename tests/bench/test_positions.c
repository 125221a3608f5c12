// SPDX-License-Identifier: Apache-2.0
// Recording of positions with tiny models: a model beside itself agrees with itself; beside a
// coarser one the numbers fit each other; the same seed gives the same positions.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/positions.h"
#include "support/tiny_gguf.h"
#include "support/tiny_pair.h"

static ft_error err;
static tiny_pair pair;

static int set_up(void **state)
{
    tiny_quiet();
    pair = tiny_pair_make("{\"prompt\": \"One two.\"}\n{\"prompt\": \"Three four five.\"}\n");
    return 0;
}

static int tear_down(void **state)
{
    tiny_pair_remove(&pair);
    return 0;
}

static ft_positions record(const char *draft, int64_t seed)
{
    const ft_bench_positions_opts opts = {.target = pair.target,
                                          .draft = draft,
                                          .prompts = pair.prompts,
                                          .n_predict = 60,
                                          .n_ctx = 128,
                                          .n_threads = 1,
                                          .top_k = 6,
                                          .seed = seed,
                                          .temperature = {0.5, 1},
                                          .n_temperatures = 2,
                                          .l = {8, 720},
                                          .n_l = 2};
    ft_positions all;
    size_t skipped;
    if (ft_bench_positions(&opts, &err, &all, &skipped) != FT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(skipped, 0);
    assert_int_equal(all.n_texts, 4);
    return all;
}

static double share(const ft_positions *all, const ft_positions_text *text, uint32_t i, uint32_t k)
{
    return (double)text->count[i * text->n + k] / all->l[i];
}

/* Eq. (6). */
static double formula_bits(double n_vocab, double l)
{
    return ceil((lgamma(l + n_vocab) - lgamma(l + 1) - lgamma(n_vocab)) / log(2));
}

static void test_beside_itself(void **state)
{
    ft_positions all = record(pair.target, 1);
    assert_true(all.target != 0 && all.target == all.draft);
    for (uint32_t i = 0; i < 2; i++)
        assert_true(all.index_bits[i] == formula_bits(all.n_vocab, all.l[i]));
    for (size_t t = 0; t < all.n_texts; t++) {
        const ft_positions_text *text = &all.texts[t];
        assert_true(text->n >= 1 && text->n <= 60 && text->temperature == t % 2);
        for (uint32_t k = 0; k < text->n; k++) {
            assert_true(text->p[k] > 0 && text->p[k] == text->q[k] && text->rank[k] == 0);
            assert_true(text->top[k] >= text->q[k] && text->top[k] <= 1);
            for (uint32_t i = 0; i < 2; i++)
                assert_true(fabs(share(&all, text, i, k) - (double)text->q[k]) < 1.0 / all.l[i]);
        }
    }
    ft_positions_deinit(&all);
}

static void test_beside_another(void **state)
{
    ft_positions all = record(pair.draft, 1), again = record(pair.draft, 1);
    bool disagree = false;
    double accepted = 0, expected = 0;
    assert_true(all.target != all.draft);
    for (size_t t = 0; t < all.n_texts; t++) {
        const ft_positions_text *text = &all.texts[t];
        assert_int_equal(text->n, again.texts[t].n);
        assert_memory_equal(text->p, again.texts[t].p, text->n * sizeof *text->p);
        assert_memory_equal(text->rank, again.texts[t].rank, text->n);
        for (uint32_t k = 0; k < text->n; k++) {
            disagree |= text->rank[k] > 0;
            accepted += fmin(1, share(&all, text, 1, k) / (double)text->p[k]);
            expected += (double)text->sq_accept[text->n + k];
            assert_true(text->adaptive_bits[k] > 0 && text->sq_accept[k] > 0);
            assert_true(text->sq_accept[text->n + k] <= 1);
        }
        /* The more parts, the less bias; the other order has none. */
        assert_true(text->qs_tv[0] < 1e-6f && text->qs_tv[1] < 1e-6f);
        assert_true(text->sq_tv[0] > text->sq_tv[1] && text->sq_tv[1] > 0);
    }
    assert_true(disagree);
    /* At 720 parts a point is nearly q, so both orders accept as often, up to chance. */
    if (fabs(accepted - expected) > 0.1 * expected)
        fail_msg("%g are accepted, %g should be", accepted, expected);
    ft_positions_deinit(&all);
    ft_positions_deinit(&again);
}

/* What on_answer got. */
typedef struct answers {
    uint32_t n, n_most;
    uint32_t n_text[4];
    uint64_t seed[4];
    int32_t first[4];
} answers;

static ft_status take_answer(void *ctx, const ft_bench_answer *answer, ft_error *why)
{
    answers *a = ctx;
    if (a->n == a->n_most)
        return ft_error_set(why, FT_EXHAUSTED, "enough");
    assert_true(answer->prompt->n > 0 && answer->sampling.temperature == 1);
    a->n_text[a->n] = (uint32_t)answer->text->n;
    a->seed[a->n] = answer->sampling.seed;
    a->first[a->n++] = answer->text->id[0];
    return FT_OK;
}

/* Each text is handed out with its draws. A temperature that is named twice gives two texts. */
static void test_answers(void **state)
{
    answers got = {.n_most = 4};
    ft_bench_positions_opts opts = {.target = pair.target,
                                    .draft = pair.draft,
                                    .prompts = pair.prompts,
                                    .n_predict = 12,
                                    .n_ctx = 128,
                                    .n_threads = 1,
                                    .seed = 5,
                                    .temperature = {1, 1},
                                    .n_temperatures = 2,
                                    .l = {8},
                                    .n_l = 1,
                                    .on_answer = take_answer,
                                    .ctx = &got};
    ft_positions all;
    size_t skipped;
    assert_int_equal(ft_bench_positions(&opts, &err, &all, &skipped), FT_OK);
    assert_true(all.n_texts == 4 && got.n == 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(got.n_text[i], all.texts[i].n);
        assert_int_equal(got.seed[i], 5 + i);
    }
    assert_true(got.first[0] != got.first[1] || got.first[2] != got.first[3]);
    ft_positions_deinit(&all);
    got = (answers){.n_most = 1};
    assert_int_equal(ft_bench_positions(&opts, &err, &all, &skipped), FT_EXHAUSTED);
    assert_true(got.n == 1 && all.texts == NULL);
    assert_string_equal(err.message, "enough");
}

static bool stop_at_once(void)
{
    return true;
}

static void test_nothing_recorded(void **state)
{
    ft_bench_positions_opts opts = {.target = pair.target,
                                    .draft = pair.draft,
                                    .prompts = pair.prompts,
                                    .n_predict = 12,
                                    .n_ctx = 16, /* no prompt fits */
                                    .n_threads = 1,
                                    .temperature = {1},
                                    .n_temperatures = 1,
                                    .l = {8},
                                    .n_l = 1};
    ft_positions all;
    size_t skipped;
    assert_int_equal(ft_bench_positions(&opts, &err, &all, &skipped), FT_INVALID);
    assert_true(skipped == 2 && all.texts == NULL);
    opts.n_ctx = 128;
    opts.stop = stop_at_once;
    assert_int_equal(ft_bench_positions(&opts, &err, &all, &skipped), FT_INVALID);
    assert_non_null(strstr(err.message, "stopped"));
    opts.prompts = "/nonexistent/file";
    assert_int_not_equal(ft_bench_positions(&opts, &err, &all, &skipped), FT_OK);
    assert_non_null(strstr(err.message, "/nonexistent/file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beside_itself), cmocka_unit_test(test_beside_another),
        cmocka_unit_test(test_answers), cmocka_unit_test(test_nothing_recorded)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
