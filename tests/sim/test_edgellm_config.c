// SPDX-License-Identifier: Apache-2.0
// Settings of simulate edgellm: the one that ships is taken, what is wrong is named, and open
// numbers can be changed one at a time.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/edgellm_config.h"
#include "support/json_with.h"

static const char *shipped(void)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/sim/edgellm-paper.json", getenv("FT_SOURCE_DIR"));
    return path;
}

static ft_edgellm_config load(void)
{
    ft_edgellm_config c;
    ft_error err = {0};
    if (ft_edgellm_config_load(shipped(), &err, &c) != FT_OK)
        fail_msg("%s", err.message);
    return c;
}

/* Figure 20 and table I. */
static void test_shipped(void **state)
{
    const ft_edgellm_config c = load();
    const ft_edgellm_pair *mt5 = &c.pair[0], *llama = &c.pair[2];
    assert_int_equal(c.n_pairs, 3);
    assert_true(mt5->class == FT_EDGELLM_IOT && llama->class == FT_EDGELLM_PHONE);
    assert_true(mt5->s[FT_EDGELLM_DRAFT_S] == 0.33 && mt5->s[FT_EDGELLM_VERIFY_S] == 7.2 &&
                mt5->s[FT_EDGELLM_PROACTIVE_S] == 0.48);
    assert_true(llama->s[FT_EDGELLM_DRAFT_S] == 1.3 && llama->s[FT_EDGELLM_VERIFY_S] == 15.2 &&
                llama->s[FT_EDGELLM_PROACTIVE_S] == 2.5);
    assert_true(!mt5->open[FT_EDGELLM_STD_S] && llama->open[FT_EDGELLM_STD_S]);
    assert_true(llama->n_datasets == 3 && llama->dataset[0].correctness == 0.907);
    assert_true(!llama->dataset[0].open && c.pair[1].dataset[0].open);
    assert_true(c.pair[1].memory.n == 0 && llama->memory.n == 5);
    assert_true(c.n_lengths == 4 && c.lengths[3] == 16 && c.n_widths == 3);
    assert_true(c.widths[0].children[2] == 3 && c.widths[0].children[7] == 1 &&
                c.widths[0].children[8] == 0);
    assert_true(!c.open[FT_EDGELLM_ROW_SHARE] && c.open[FT_EDGELLM_NEXT_SHARE]);
}

/* The gaps' setting is the paper's, but for the times of the draft models. */
static void test_shipped_gaps(void **state)
{
    static const double gap[] = {230, 214, 59}; /* table III */
    char path[1024];
    ft_edgellm_config gaps, paper = load();
    ft_error err = {0};
    snprintf(path, sizeof path, "%s/sim/edgellm-gaps.json", getenv("FT_SOURCE_DIR"));
    if (ft_edgellm_config_load(path, &err, &gaps) != FT_OK)
        fail_msg("%s", err.message);
    for (uint32_t i = 0; i < paper.n_pairs; i++) {
        double *a = gaps.pair[i].s, *b = paper.pair[i].s;
        assert_float_equal(a[FT_EDGELLM_VERIFY_S] / a[FT_EDGELLM_DRAFT_S], gap[i], 0.01 * gap[i]);
        assert_float_equal(a[FT_EDGELLM_PROACTIVE_S] / a[FT_EDGELLM_DRAFT_S],
                           b[FT_EDGELLM_PROACTIVE_S] / b[FT_EDGELLM_DRAFT_S], 0.01);
        a[FT_EDGELLM_DRAFT_S] = b[FT_EDGELLM_DRAFT_S];
        a[FT_EDGELLM_PROACTIVE_S] = b[FT_EDGELLM_PROACTIVE_S];
        assert_memory_equal(a, b, FT_EDGELLM_TIMES * sizeof *a);
    }
    assert_memory_equal(gaps.k, paper.k, sizeof gaps.k);
}

/* The shipped file with one field changed, as json_with has it. */
static ft_status with(const char *path, const char *value, ft_error *err)
{
    ft_edgellm_config c;
    json_t *root = json_with(shipped(), path, value);
    *err = (ft_error){0};
    const ft_status status = ft_edgellm_config_parse(root, err, &c);
    json_decref(root);
    return status;
}

static void test_refused(void **state)
{
    static const struct {
        const char *path, *value, *said;
    } cases[] = {
        {"kind", "\"foretoken simulate qsv\"", "'kind'"},
        {"speed", "1", "'speed' is not known"},
        {"kind about", "1", "'kind about' is not known"},
        {"pairs", NULL, "'pairs'"},
        {"pairs", "[]", "'pairs'"},
        {"pairs", "[1]", "pairs is missing or no object"},
        {"pairs.0.name", "\"\"", "'name'"},
        {"pairs.0.name", "\"a\\nb\"", "'name'"},
        {"pairs.0.class", "\"desktop\"", "'class'"},
        {"pairs.0.speed", "1", "'speed' is not known"},
        {"pairs.0.constants.verify_s", NULL, "constants.verify_s"},
        {"pairs.0.constants.verify_s.value", "0", "constants.verify_s"},
        {"pairs.0.constants.verify_s.why", NULL, "why"},
        {"pairs.0.constants.pass_s", "1", "constants.pass_s"},
        {"pairs.0.datasets", "[]", "'datasets'"},
        {"pairs.0.datasets.0.correctness", "1.2", "'correctness'"},
        {"pairs.0.datasets.0.why", NULL, "why"},
        {"pairs.0.datasets.0.seed", "1", "'seed' is not known"},
        {"pairs.0.memory.draft_gb", "\"much\"", "'draft_gb'"},
        {"pairs.0.memory.budgets_gb", "[2, 1]", "memory.budgets_gb"},
        {"pairs.0.memory.budgets_gb", "[0.5, 1]", "less than draft_gb"},
        {"pairs.0.memory.budget_gb", "9", "nothing is read"},
        {"pairs.0.memory.gpu_gb", "9", "'gpu_gb' is not known"},
        {"lengths.value", "[4, 4]", "lengths"},
        {"lengths.value", "[1.5]", "lengths"},
        {"lengths.why", NULL, "why"},
        {"trees.value", "[257]", "trees"},
        {"alphas.value", "[1]", "alphas"},
        {"alphas", NULL, "alphas is missing"},
        {"widths.value", "[]", "widths"},
        {"widths.value", "[[2, 0]]", "widths"},
        {"widths.value", "[[16, 16]]", "widths"}, /* 272 nodes */
        {"widths.value", "[[1.5]]", "widths"},
        {"constants.texts.value", "1", "constants.texts"},
        {"constants.texts.value", "2.5", "constants.texts"},
        {"constants.next_share.value", "-1", "constants.next_share"},
        {"constants.seed", "{}", "constants.seed"},
    };
    ft_error err;
    assert_int_equal(with("about", "\"another\"", &err), FT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (with(cases[i].path, cases[i].value, &err) != FT_INVALID)
            fail_msg("%s was taken", cases[i].path);
        if (!strstr(err.message, cases[i].said))
            fail_msg("of %s it says: %s", cases[i].path, err.message);
    }
}

static void test_file(void **state)
{
    ft_edgellm_config c;
    ft_error err = {0};
    assert_int_equal(ft_edgellm_config_load("/nowhere/x.json", &err, &c), FT_IO);
    assert_non_null(strstr(err.message, "/nowhere/x.json"));
}

/* 0.95 of a pass reads what does not fit; the rest stays. */
static void test_verify_s(void **state)
{
    ft_edgellm_config c = load();
    ft_edgellm_pair *pair = &c.pair[2];
    pair->memory =
        (ft_edgellm_memory){.draft_gb = 3, .target_gb = 6, .budget_gb = 5, .budgets_gb = {3}};
    c.k[FT_EDGELLM_IO_SHARE] = 0.9;
    pair->s[FT_EDGELLM_VERIFY_S] = 10;
    assert_float_equal(ft_edgellm_verify_s(&c, pair, 5), 10, 1e-9);   /* 4 GB are read */
    assert_float_equal(ft_edgellm_verify_s(&c, pair, 3), 14.5, 1e-9); /* 6 GB */
    assert_float_equal(ft_edgellm_verify_s(&c, pair, 7), 5.5, 1e-9);  /* 2 GB */
    assert_float_equal(ft_edgellm_verify_s(&c, pair, 9), 1, 1e-9);    /* none */
    assert_float_equal(ft_edgellm_verify_s(&c, pair, 100), 1, 1e-9);
}

static const ft_edgellm_knob *find(const ft_edgellm_knob *knobs, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(knobs[i].name, name) == 0)
            return &knobs[i];
    return NULL;
}

static void test_knobs(void **state)
{
    ft_edgellm_config c = load();
    ft_edgellm_knob knobs[FT_EDGELLM_KNOBS];
    const uint32_t n = ft_edgellm_knobs(&c, knobs);
    const ft_edgellm_knob *share = find(knobs, n, "next_share"),
                          *most = find(knobs, n, "tree_most"),
                          *right = find(knobs, n, "correctness of Wikitext");
    assert_non_null(find(knobs, n, "std_s of LLaMA-2-7B, LLaMA-2-13B"));
    assert_null(find(knobs, n, "row_share")); /* the paper gives it */
    assert_null(find(knobs, n, "texts"));     /* changes the error alone */
    assert_true(share && most && right);
    c.k[FT_EDGELLM_NEXT_SHARE] = 0.4;
    ft_edgellm_knob_turn(share, 2); /* half of the way to 1 */
    assert_float_equal(c.k[FT_EDGELLM_NEXT_SHARE], 0.7, 1e-9);
    ft_edgellm_knob_turn(share, 0.5);
    assert_float_equal(c.k[FT_EDGELLM_NEXT_SHARE], 0.35, 1e-9);
    c.k[FT_EDGELLM_TREE_MOST] = 200;
    ft_edgellm_knob_turn(most, 2);
    assert_true(c.k[FT_EDGELLM_TREE_MOST] == FT_TREE_MAX);
    c.k[FT_EDGELLM_TREE_MOST] = 1;
    ft_edgellm_knob_turn(most, 0.5);
    assert_true(c.k[FT_EDGELLM_TREE_MOST] == 1);
    ft_edgellm_knob_turn(right, 2);
    assert_float_equal(c.pair[1].dataset[0].correctness, 0.908, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped),  cmocka_unit_test(test_shipped_gaps),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_file),
        cmocka_unit_test(test_verify_s), cmocka_unit_test(test_knobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
