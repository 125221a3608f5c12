// SPDX-License-Identifier: Apache-2.0
// The simulation of Zhu et al.: its setting, its cells, and its claims with few cells.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/zhu_claims.h"
#include "support/json_with.h"

static char shipped[1024];

static int set_up(void **state)
{
    snprintf(shipped, sizeof shipped, "%s/sim/zhu-paper.json", getenv("FT_SOURCE_DIR"));
    return 0;
}

/* The file has what is built in. */
static void test_shipped(void **state)
{
    ft_zhu_config file, built_in;
    ft_error err = {0};
    if (ft_zhu_config_load(shipped, &err, &file) != FT_OK)
        fail_msg("%s", err.message);
    ft_zhu_config_paper(&built_in);
    for (int i = 0; i < FT_ZHU_CONSTS; i++) {
        if (file.k[i] != built_in.k[i] || file.open[i] != built_in.open[i])
            fail_msg("constant %d: %g is not %g", i, file.k[i], built_in.k[i]);
    }
    for (int i = 0; i < FT_ZHU_PAIRS; i++) {
        assert_string_equal(file.pair[i].name, built_in.pair[i].name);
        const ft_plan_model *a[2] = {&file.pair[i].models.draft, &file.pair[i].models.verify};
        const ft_plan_model *b[2] = {&built_in.pair[i].models.draft,
                                     &built_in.pair[i].models.verify};
        for (int k = 0; k < 2; k++)
            assert_true(a[k]->layers == b[k]->layers && a[k]->hidden == b[k]->hidden &&
                        a[k]->ffn == b[k]->ffn && a[k]->c1 == b[k]->c1 && a[k]->c2 == b[k]->c2);
    }
}

static void refuse(const char *path, const char *value, const char *said)
{
    ft_zhu_config c;
    ft_error err = {0};
    json_t *root = json_with(shipped, path, value);
    assert_int_equal(ft_zhu_config_parse(root, &err, &c), FT_INVALID);
    if (!strstr(err.message, said))
        fail_msg("%s: %s", path, err.message);
    json_decref(root);
}

static void test_refused(void **state)
{
    ft_zhu_config c;
    ft_error err = {0};
    refuse("kind", "\"x\"", "'kind'");
    refuse("more", "1", "'more' is not known");
    refuse("pairs", "[]", "no list of 3");
    refuse("pairs.1.name", "\"a\\nb\"", "'name'");
    refuse("pairs.1.draft.layers", "2.5", "draft: 'layers'");
    refuse("pairs.1.verify.more", "2", "verify has a field");
    refuse("pairs.2.more", "2", "not name, draft and verify");
    refuse("constants.g0.value", "0", "constants.g0");
    refuse("constants.tasks.value", "10.5", "whole number");
    refuse("constants.own_outputs.value", "2", "from 0 to 1");
    refuse("constants.seeds", NULL, "constants.seeds");
    refuse("constants.more", "{}", "no such constant");
    assert_int_equal(ft_zhu_config_load("/nowhere.json", &err, &c), FT_IO);
}

static ft_zhu_cell run_cell(const ft_zhu_config *c, const ft_zhu_reading *reading,
                            const ft_zhu_point *point, uint64_t seed)
{
    ft_zhu_cell cell;
    ft_zhu_point read = *point;
    ft_error err = {0};
    read.reading = *reading;
    if (ft_zhu_cell_run(c, &read, seed, UINT32_MAX, &err, &cell) != FT_OK)
        fail_msg("%s", err.message);
    return cell;
}

static void test_cell(void **state)
{
    const ft_zhu_reading strong = {1e-3, false}, weak = {1e-6, false}, own = {1e-6, true};
    ft_zhu_config c;
    ft_zhu_config_paper(&c);
    const ft_zhu_point point = ft_zhu_point_of(&c, 1);
    const ft_zhu_cell a = run_cell(&c, &weak, &point, 3), b = run_cell(&c, &weak, &point, 3);
    const ft_zhu_cell other = run_cell(&c, &weak, &point, 4);
    for (uint32_t i = 0; i < FT_ZHU_SCHEMES; i++)
        assert_true(a.total_s[i] == b.total_s[i] && a.total_s[i] > 0);
    assert_true(a.total_s[0] != other.total_s[0]);
    /* With these constants the best length is 1 (and 0, where it may be). */
    assert_int_equal(a.length[FT_ZHU_PLANNED], 1);
    assert_int_equal(a.length[FT_ZHU_FROM_0], 0);
    assert_true(a.inf_s[FT_ZHU_FROM_0] < 0.6 * a.inf_s[FT_ZHU_PLANNED]);
    /* Stronger signals only change the upload; shorter outputs only the inference. */
    const ft_zhu_cell near = run_cell(&c, &strong, &point, 3), less = run_cell(&c, &own, &point, 3);
    assert_true(near.inf_s[0] == a.inf_s[0] && near.total_s[0] < a.total_s[0]);
    assert_true(less.inf_s[0] < a.inf_s[0]);
    assert_true(fabs((less.total_s[0] - less.inf_s[0]) - (a.total_s[0] - a.inf_s[0])) < 1e-9);
    for (uint32_t i = 0; i < FT_ZHU_SCHEMES; i++)
        assert_true(i == FT_ZHU_FROM_0 || a.total_s[i] >= a.total_s[FT_ZHU_PLANNED]);
    /* A cell with fewer tasks has the same users. */
    ft_zhu_point few = point;
    few.tasks = 10;
    assert_true(run_cell(&c, &weak, &few, 3).total_s[0] < a.total_s[0]);
}

static void test_range(void **state)
{
    double values[] = {5, NAN, 1, 4, 2, 3, 6, 7, 8, 9, 10, 11};
    const ft_zhu_range r = ft_zhu_range_of(values, 12);
    assert_true(r.median == 6 && r.low == 2 && r.high == 10);
    double none[] = {NAN};
    assert_true(isnan(ft_zhu_range_of(none, 1).median));
}

/* With the paper's setting and 12 cells: seven of eight claims are reached by our 90 % value, five
 * by the median. Maximum batches are the one that is not. */
static void test_claims(void **state)
{
    ft_zhu_config c;
    ft_zhu_claims claims;
    int median = 0, high = 0;
    ft_zhu_config_paper(&c);
    c.k[FT_ZHU_SEEDS] = 12;
    const ft_zhu_opts opts = {.config = &c, .reading = {1e-6, false}, .seed = 1};
    assert_int_equal(ft_zhu_claims_make(&opts, NULL, &claims), FT_OK);
    assert_int_equal(claims.n, 8);
    for (uint32_t i = 0; i < claims.n; i++) {
        const ft_zhu_claim *k = &claims.at[i];
        assert_true(k->ours.low <= k->ours.median && k->ours.median <= k->ours.high);
        assert_non_null(strstr(k->reading, "1e-06"));
        median += k->ours.median >= k->paper;
        high += k->ours.high >= k->paper;
        assert_true((k->ours.high < k->paper) == (strstr(k->name, "maximum") != NULL));
    }
    assert_int_equal(high, 7);
    assert_int_equal(median, 5);
}

static bool stopped(void)
{
    return true;
}

static void test_table(void **state)
{
    ft_zhu_config c;
    ft_zhu_table table;
    ft_zhu_config_paper(&c);
    c.k[FT_ZHU_SEEDS] = 1;
    ft_zhu_opts opts = {.config = &c, .reading = {1e-6, false}, .seed = 1};
    assert_int_equal(ft_zhu_table_make(&opts, NULL, &table), FT_OK);
    assert_int_equal(table.n, 3 * 5 + 2 * (6 + 7 + 8) + 3 * 3 * 5);
    for (uint32_t i = 0; i < table.n; i++)
        for (uint32_t k = 0; k < FT_ZHU_SCHEMES; k++)
            if (table.rows[i].schemes >> k & 1)
                assert_true(table.rows[i].total_s[k].median > 0);
    ft_zhu_table_deinit(&table);
    opts.figure = 9;
    opts.watch.stop = stopped;
    assert_int_equal(ft_zhu_table_make(&opts, NULL, &table), FT_CANCELLED);
    assert_null(table.rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cell),    cmocka_unit_test(test_range),
        cmocka_unit_test(test_claims),  cmocka_unit_test(test_table)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
