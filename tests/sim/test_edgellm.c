// SPDX-License-Identifier: Apache-2.0
// The simulation of EdgeLLM. Texts and draft model follow their law; chains bring the tokens and
// take the time that a formula says; each part of EdgeLLM does what its name says; the claims are
// computed from the rows.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "sim/edgellm_claims.h"
#include "sim/edgellm_world.h"

#define C 0.8 /* correctness */

static ft_edgellm_config config(void)
{
    return (ft_edgellm_config){
        .k = {[FT_EDGELLM_ROW_SHARE] = 0.5,
              [FT_EDGELLM_IO_SHARE] = 0.9,
              [FT_EDGELLM_SP_LENGTH] = 3,
              [FT_EDGELLM_TREE_TOK] = 8,
              [FT_EDGELLM_TREE_MOST] = 24,
              [FT_EDGELLM_TOP_CONCENTRATION] = 3,
              [FT_EDGELLM_TEXT_CONCENTRATION] = 50,
              [FT_EDGELLM_NEXT_SHARE] = 0.4,
              [FT_EDGELLM_TEXTS] = 12,
              [FT_EDGELLM_TEXT_TOK] = 120},
        .pair = {{.name = "pair",
                  .class = FT_EDGELLM_IOT,
                  .s = {[FT_EDGELLM_DRAFT_S] = 0.5,
                        [FT_EDGELLM_VERIFY_S] = 8,
                        [FT_EDGELLM_PROACTIVE_S] = 1,
                        [FT_EDGELLM_STD_S] = 6},
                  .memory =
                      {.draft_gb = 1, .target_gb = 4, .budget_gb = 2, .budgets_gb = {1, 3}, .n = 2},
                  .dataset = {{.name = "one", .correctness = C}, {"two", 0.9, false}},
                  .n_datasets = 2}},
        .n_pairs = 1,
        .lengths = {2, 6},
        .n_lengths = 2,
        .trees = {8, 12},
        .n_trees = 2,
        .alphas = {0.05, 0.9},
        .n_alphas = 2,
        .widths = {{{2, 1, 1}}, {{1, 2}}},
        .n_widths = 2};
}

static ft_edgellm_result run(const ft_edgellm_config *c, const ft_edgellm_way *way, uint64_t seed)
{
    const ft_edgellm_opts opts = {.config = c, .pair = c->pair, .verify_s = 8, .seed = seed};
    ft_edgellm_result out;
    assert_int_equal(ft_edgellm_run(&opts, way, NULL, &out), FT_OK);
    assert_int_equal(out.tokens, 12 * 120);
    return out;
}

static double s_of(const ft_edgellm_config *c, ft_edgellm_method method, bool chain)
{
    ft_edgellm_result r =
        run(c, &(ft_edgellm_way){.method = method, .tok = 8, .alpha = 0.3f, .chain = chain}, 1);
    const double s = ft_edgellm_s_per_tok(&r);
    ft_edgellm_result_deinit(&r);
    return s;
}

static double seconds(const ft_edgellm_result *r)
{
    double s = 0;
    for (uint32_t i = 0; i < r->texts; i++)
        s += r->text_s[i];
    return s;
}

/* ---- the world ---- */

/* A candidate of chance p is the target's token with chance p, and the best one has the mean
 * correctness. Five standard deviations. */
static void test_law(void **state)
{
    const ft_edgellm_law law = {C, 2, 1e6, 0.5};
    const ft_edgellm_text text = ft_edgellm_text_make(&law, 7, 0);
    const int n = 20000;
    double said[3] = {0}, right[3] = {0};
    uint64_t context = text.root;
    for (int i = 0; i < n; i++) {
        ft_draft_children children;
        const int32_t next = ft_edgellm_look(&text, context, &children);
        assert_true(children.n >= 1 && children.n <= FT_DRAFT_RANKED);
        for (uint32_t k = 0; k < 3 && k < children.n; k++) {
            assert_true(children.at[k].token == (int32_t)k && children.at[k].logp <= 0);
            assert_true(k == 0 || children.at[k].logp <= children.at[k - 1].logp);
            said[k] += (double)expf(children.at[k].logp);
            right[k] += next == (int32_t)k;
        }
        assert_int_equal(ft_edgellm_look(&text, context, NULL), next); /* it does not change */
        context = ft_edgellm_behind(context, next);
    }
    assert_float_equal(right[0] / n, C, 5 * sqrt(C * (1 - C) / n));
    for (int k = 0; k < 3; k++)
        assert_float_equal(said[k] / n, right[k] / n, 5 * sqrt(0.25 / n));
}

static void test_texts_differ(void **state)
{
    const ft_edgellm_law law = {C, 2, 30, 0.5};
    double mean = 0, square = 0;
    const int n = 4000;
    for (int i = 0; i < n; i++) {
        const ft_edgellm_text text = ft_edgellm_text_make(&law, 3, (uint32_t)i);
        mean += text.law.correctness / n;
        square += text.law.correctness * text.law.correctness / n;
    }
    const double deviation = sqrt(C * (1 - C) / 31); /* of Beta(30 C, 30 (1 - C)) */
    assert_float_equal(mean, C, 5 * deviation / sqrt(n));
    assert_float_equal(sqrt(square - mean * mean), deviation, 0.06 * deviation);
    const ft_edgellm_text a = ft_edgellm_text_make(&law, 3, 0),
                          b = ft_edgellm_text_make(&law, 4, 0);
    assert_true(a.root != b.root);
    assert_true(ft_edgellm_behind(a.root, 0) != ft_edgellm_behind(a.root, 1));
}

/* ---- methods ---- */

static void test_alone(void **state)
{
    const ft_edgellm_config c = config();
    assert_float_equal(s_of(&c, FT_EDGELLM_STD, false), 6, 1e-9);
    assert_float_equal(s_of(&c, FT_EDGELLM_SPL, false), 0.9 * 6, 1e-9);
    assert_float_equal(s_of(&c, FT_EDGELLM_DRAFT, false), 0.5, 1e-9);
}

/* If every token is as sure as every other, a chain of L tokens brings (1 - C^(L + 1)) / (1 - C),
 * and an error is found unless all L are right. */
static void test_chain(void **state)
{
    ft_edgellm_config c = config();
    c.k[FT_EDGELLM_TOP_CONCENTRATION] = 1000;
    c.k[FT_EDGELLM_TEXT_CONCENTRATION] = 1e6;
    c.k[FT_EDGELLM_TEXTS] = 40;
    c.k[FT_EDGELLM_TEXT_TOK] = 1000;
    const ft_edgellm_opts opts = {.config = &c, .pair = c.pair, .verify_s = 8, .seed = 1};
    for (uint32_t length = 1; length <= 5; length += 2) {
        ft_edgellm_result r;
        const ft_edgellm_way way = {.method = FT_EDGELLM_SP, .tok = length};
        assert_int_equal(ft_edgellm_run(&opts, &way, NULL, &r), FT_OK);
        const double n = (double)r.verifications, right = pow(C, length);
        assert_float_equal((double)r.tokens / n, (1 - right * C) / (1 - C), 0.03);
        assert_float_equal((double)r.errors / n, 1 - right, 0.02);
        /* Behind a chain that was right, its last token has to be read, too. */
        assert_float_equal((double)r.drafted / n, length + right, 0.02);
        assert_float_equal(r.draft_s / n, 0.5 * (length + right * 0.5), 0.02);
        assert_float_equal(seconds(&r), r.draft_s + r.verify_s, 1e-6 * seconds(&r));
        assert_float_equal(r.verify_s, 8 * n, 1e-6);
        assert_true(r.proactive == 0 && r.branches == r.verifications);
        ft_edgellm_result_deinit(&r);
    }
}

/* A forward of SpecInfer computes a level; those over further rows take half as long each. The
 * first text token, then 2 rows, then 2: its third level is not computed. */
static void test_specinfer(void **state)
{
    const ft_edgellm_config c = config();
    ft_edgellm_result r = run(&c, &(ft_edgellm_way){.method = FT_EDGELLM_SPECINFER}, 1);
    const double n = (double)r.verifications;
    assert_true(r.drafted >= 5 * r.verifications && r.drafted <= 6 * r.verifications);
    assert_true(r.draft_s / n >= 0.5 * (1 + 1.5 + 1.5) && r.draft_s / n <= 0.5 * (1.5 + 1.5 + 1.5));
    assert_true(r.branches <= 2 * r.verifications);
    ft_edgellm_result_deinit(&r);
}

/* While a pass of 8 s runs, 8 forwards of 1 s fit, and the pass takes no longer. */
static void test_proactive(void **state)
{
    const ft_edgellm_config c = config();
    ft_edgellm_result r = run(&c, &(ft_edgellm_way){.method = FT_EDGELLM_ALL}, 1);
    assert_true(r.proactive > 7 * r.verifications && r.proactive <= 8 * r.verifications);
    assert_true(r.kept > 0 && r.kept < r.proactive);
    assert_float_equal(seconds(&r), r.draft_s + 8 * (double)r.verifications, 1e-6 * seconds(&r));
    ft_edgellm_result_deinit(&r);
    assert_true(s_of(&c, FT_EDGELLM_NO_PP, false) > s_of(&c, FT_EDGELLM_ALL, false));
    assert_true(s_of(&c, FT_EDGELLM_BNV, false) > s_of(&c, FT_EDGELLM_BNV_PP, false));
}

/* A draft ends once it is in doubt: with a high alpha after a token or two, with a low one when it
 * is full. Only verdicts move alpha, and only where it is not fixed. */
static void test_alpha(void **state)
{
    const ft_edgellm_config c = config();
    ft_edgellm_way way = {.method = FT_EDGELLM_FIXED, .alpha = 0.9f, .chain = true};
    ft_edgellm_result high = run(&c, &way, 1);
    way.alpha = 1e-5f;
    ft_edgellm_result low = run(&c, &way, 1);
    assert_float_equal(high.alpha / (double)high.verifications, 0.9, 1e-6);
    assert_true(high.in_doubt > low.in_doubt && low.drafted > high.drafted);
    assert_true(low.verifications < high.verifications);
    assert_true(high.branches == high.verifications);
    ft_edgellm_result_deinit(&high);
    ft_edgellm_result_deinit(&low);
    for (int method = FT_EDGELLM_ALL; method < FT_EDGELLM_METHODS; method++) {
        way = (ft_edgellm_way){.method = (ft_edgellm_method)method, .alpha = 0.3f};
        ft_edgellm_result r = run(&c, &way, 1);
        const double alpha = r.alpha / (double)r.verifications;
        assert_true(alpha > 0 && alpha < 1);
        ft_edgellm_result_deinit(&r);
    }
}

/* Readings of eq. (3) on chains: each moves alpha in its own way. As printed, alpha is at most
 * (N_all - 1) / N_all where a token was right, and the others have no such limit. */
static void test_readings(void **state)
{
    const ft_edgellm_config c = config();
    static const ft_edgellm_method of[] = {FT_EDGELLM_ALL, FT_EDGELLM_PRINTED, FT_EDGELLM_MEAN};
    double alpha[3];
    for (size_t i = 0; i < FT_COUNT(of); i++) {
        ft_edgellm_result r = run(&c, &(ft_edgellm_way){.method = of[i], .chain = true}, 1);
        alpha[i] = r.alpha / (double)r.verifications;
        ft_edgellm_result_deinit(&r);
        for (size_t k = 0; k < i; k++)
            assert_true(alpha[k] != alpha[i]);
    }
    for (size_t i = 0; i < FT_COUNT(of); i++)
        assert_true(i == 1 || alpha[1] < alpha[i]);
}

static void test_same_every_time(void **state)
{
    const ft_edgellm_config c = config();
    const ft_edgellm_way way = {.method = FT_EDGELLM_ALL};
    ft_edgellm_result a = run(&c, &way, 1), b = run(&c, &way, 1), other = run(&c, &way, 2);
    assert_memory_equal(a.text_s, b.text_s, a.texts * sizeof *a.text_s);
    assert_memory_not_equal(a.text_s, other.text_s, a.texts * sizeof *a.text_s);
    const ft_edgellm_gain same = ft_edgellm_compare(&a, &b);
    assert_true(same.times == 1 && same.error == 0);
    ft_edgellm_result_deinit(&a);
    ft_edgellm_result_deinit(&b);
    ft_edgellm_result_deinit(&other);
}

/* 2 times on average; the texts' differences from that are 0, 2 and -2 on a mean of 2. */
static void test_compare(void **state)
{
    double fast[] = {1, 2, 3}, slow[] = {2, 6, 4};
    const ft_edgellm_result a = {.text_s = fast, .texts = 3}, b = {.text_s = slow, .texts = 3};
    const ft_edgellm_gain gain = ft_edgellm_compare(&a, &b);
    assert_float_equal(gain.times, 2, 1e-12);
    assert_float_equal(gain.error, 1.96 * sqrt(8.0 / 6) / 2, 1e-12);
}

/* ---- the table ---- */

static const ft_edgellm_claim *claim_of(const ft_edgellm_claims *t, const char *name)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (strcmp(t->at[i].name, name) == 0)
            return &t->at[i];
    return NULL;
}

static double row_s(const ft_edgellm_table *t, const ft_edgellm_config *c, uint32_t dataset,
                    const char *name)
{
    for (size_t i = 0; i < t->n_rows; i++) {
        char text[96];
        ft_edgellm_way_name(c, &t->rows[i].way, text, sizeof text);
        if (t->rows[i].dataset == dataset && strcmp(text, name) == 0)
            return ft_edgellm_s_per_tok(&t->rows[i].sum);
    }
    fail_msg("no row %s", name);
    return 0;
}

static void check_ratio(const ft_edgellm_table *t, const ft_edgellm_config *c, const char *name,
                        const char *fast, const char *slow)
{
    ft_edgellm_claims claims;
    ft_edgellm_claims_make(c, t, &claims);
    const ft_edgellm_claim *claim = claim_of(&claims, name);
    double ours[2];
    assert_non_null(claim);
    for (uint32_t i = 0; i < 2; i++)
        ours[i] = row_s(t, c, i, slow) / row_s(t, c, i, fast);
    assert_float_equal(claim->ours[0], fmin(ours[0], ours[1]), 1e-9);
    assert_float_equal(claim->ours[1], fmax(ours[0], ours[1]), 1e-9);
    assert_true(claim->error > 0 && claim->reading[0]);
}

static void test_table(void **state)
{
    const ft_edgellm_config c = config();
    const ft_edgellm_table_opts opts = {.config = &c, .seed = 1};
    ft_edgellm_table t;
    ft_edgellm_claims claims;
    assert_int_equal(ft_edgellm_table_make(&opts, NULL, &t), FT_OK);
    ft_edgellm_claims_make(&c, &t, &claims);
    check_ratio(&t, &c, "edgellm over std, IoT", "edgellm", "std");
    check_ratio(&t, &c, "edgellm over sp, IoT", "edgellm", "sp 3");
    check_ratio(&t, &c, "edgellm over specinfer, IoT", "edgellm", "specinfer 2,1,1");
    check_ratio(&t, &c, "BNV: bnv over sp", "bnv 8", "sp 3");
    check_ratio(&t, &c, "PP: bnv+pp over bnv", "bnv+pp 8", "bnv 8");
    check_ratio(&t, &c, "SF: edgellm over bnv+pp", "edgellm", "bnv+pp 8");
    check_ratio(&t, &c, "pacer over best first", "edgellm", "best first");
    assert_non_null(strstr(claim_of(&claims, "edgellm over sp, IoT")->reading, "Over sp 2: "));
    assert_null(claim_of(&claims, "edgellm over sp, smartphones")); /* there is no such pair */
    assert_true(claim_of(&claims, "edgellm over std, IoT")->paper[0] == 2.9);
    assert_true(isnan(claim_of(&claims, "edgellm over specinfer, IoT")->paper[0]));
    assert_true(claim_of(&claims, "edgellm over the best sp")->ours[1] <=
                claim_of(&claims, "edgellm over sp, IoT")->ours[1]);
    const ft_edgellm_claim *memory =
        claim_of(&claims, "edgellm over sp, largest to smallest budget, IoT");
    assert_int_equal(t.n_budgets, 2);
    assert_true(t.budgets[0].verify_s > 8 && t.budgets[1].verify_s < 8);
    assert_true(memory && memory->ours[1] == t.budgets[0].gain.times &&
                memory->ours[0] == t.budgets[1].gain.times);
    ft_edgellm_table_deinit(&t);
    ft_edgellm_table_deinit(&t);
}

/* A reading says on which side of the paper's numbers ours are, beyond their error. */
static void test_reading(void **state)
{
    ft_edgellm_config c = config();
    const ft_edgellm_table_opts opts = {.config = &c, .seed = 1, .claims_only = true};
    for (double std_s = 1; std_s < 1000; std_s *= 10) {
        ft_edgellm_table t;
        ft_edgellm_claims claims;
        c.pair->s[FT_EDGELLM_STD_S] = std_s;
        assert_int_equal(ft_edgellm_table_make(&opts, NULL, &t), FT_OK);
        ft_edgellm_claims_make(&c, &t, &claims);
        const ft_edgellm_claim *claim = claim_of(&claims, "edgellm over std, IoT");
        const char *said = claim->ours[1] + claim->error < 2.9   ? "Less than in the paper. "
                           : claim->ours[0] - claim->error > 9.3 ? "More than in the paper. "
                                                                 : "s in the paper. ";
        if (!strstr(claim->reading, said))
            fail_msg("%g to %g: %s", claim->ours[0], claim->ours[1], claim->reading);
        assert_true(std_s > 1 || claim->ours[1] < 2.9);
        assert_true(std_s < 100 || claim->ours[0] > 9.3);
        ft_edgellm_table_deinit(&t);
    }
}

/* Without the rows that no claim needs, the claims are the same. */
static void test_claims_only(void **state)
{
    const ft_edgellm_config c = config();
    ft_edgellm_table_opts opts = {.config = &c, .seed = 1};
    ft_edgellm_table all, few;
    ft_edgellm_claims of_all, of_few;
    assert_int_equal(ft_edgellm_table_make(&opts, NULL, &all), FT_OK);
    opts.claims_only = true;
    assert_int_equal(ft_edgellm_table_make(&opts, NULL, &few), FT_OK);
    ft_edgellm_claims_make(&c, &all, &of_all);
    ft_edgellm_claims_make(&c, &few, &of_few);
    assert_true(few.n_rows < all.n_rows && of_few.n == of_all.n);
    for (uint32_t i = 0; i < of_all.n; i++) {
        assert_string_equal(of_all.at[i].name, of_few.at[i].name);
        assert_true(of_all.at[i].ours[0] == of_few.at[i].ours[0] &&
                    of_all.at[i].ours[1] == of_few.at[i].ours[1]);
    }
    ft_edgellm_table_deinit(&all);
    ft_edgellm_table_deinit(&few);
}

static bool stop_now(void)
{
    return true;
}

static void test_stopped(void **state)
{
    const ft_edgellm_config c = config();
    const ft_edgellm_table_opts opts = {.config = &c, .stop = stop_now};
    ft_edgellm_table t;
    ft_error err = {0};
    assert_int_equal(ft_edgellm_table_make(&opts, &err, &t), FT_CANCELLED);
    assert_true(t.rows == NULL && err.message[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_law),
        cmocka_unit_test(test_texts_differ),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_specinfer),
        cmocka_unit_test(test_proactive),
        cmocka_unit_test(test_alpha),
        cmocka_unit_test(test_readings),
        cmocka_unit_test(test_same_every_time),
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_claims_only),
        cmocka_unit_test(test_reading),
        cmocka_unit_test(test_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
