// SPDX-License-Identifier: Apache-2.0
// Configs of simulations: the ones that ship are taken, what is wrong is named.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/wisp_config.h"

static void load(ft_sim_config *out)
{
    char path[1024];
    ft_error err = {0};
    snprintf(path, sizeof path, "%s/sim/wisp-paper-32b.json", getenv("FT_SOURCE_DIR"));
    if (ft_sim_config_load(path, &err, out) != FT_OK)
        fail_msg("%s", err.message);
}

static void test_shipped(void **state)
{
    ft_sim_config c;
    (void)state;
    load(&c);
    assert_int_equal(c.n_classes, 4);
    assert_true(c.tokens_per_s[3] == 8 && c.k[FT_SIM_DRAFT_PER_S] == 50);
    assert_true(c.costs.us[FT_COST_ROW] == 143.39);
    assert_true(c.open[FT_SIM_RTT_MS] && !c.open[FT_SIM_DRAFT_PER_S] && c.open_pass);
    assert_true(c.paper_capacity[FT_SIM_MODE_FCFS][2] == 27);
}

/* The shipped file with a field of a constant changed. NULL value: the constant is missing. */
static void refuse(const char *constant, const char *field, json_t *value, const char *said)
{
    char path[1024];
    ft_sim_config c;
    ft_error err = {0};
    snprintf(path, sizeof path, "%s/sim/wisp-paper-32b.json", getenv("FT_SOURCE_DIR"));
    json_t *root = json_load_file(path, 0, NULL), *all = json_object_get(root, "constants");
    assert_non_null(all);
    if (!json_object_get(all, constant))
        json_object_set_new(all, constant, json_object());
    if (value)
        json_object_set_new(json_object_get(all, constant), field, value);
    else
        json_object_del(all, constant);
    assert_int_equal(ft_sim_config_parse(root, &err, &c), FT_INVALID);
    if (!strstr(err.message, constant) || !strstr(err.message, said))
        fail_msg("it says: %s", err.message);
    json_decref(root);
}

static void test_refused(void **state)
{
    (void)state;
    refuse("rtt_ms", NULL, NULL, "missing");
    refuse("rtt_ms", "value", json_string("20"), "from 0 to 10000");
    refuse("rtt_ms", "value", json_real(-1), "from 0 to 10000");
    refuse("seeds", "value", json_real(1.5), "whole");
    refuse("accept", "value", json_real(1.01), "to 1");
    refuse("accept", "why", json_string(""), "why");
    refuse("accept", "open", json_integer(1), "open");
    refuse("rtt", "value", json_real(1), "no such constant");
}

static void refuse_text(const char *text, const char *said)
{
    const char *path = "test_wisp_config.json"; /* in the tests' folder */
    ft_sim_config c;
    ft_error err = {0};
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(ft_sim_config_load(path, &err, &c), FT_INVALID);
    assert_non_null(strstr(err.message, said));
    remove(path);
}

static void test_not_json(void **state)
{
    ft_sim_config c;
    ft_error err = {0};
    (void)state;
    refuse_text("{\n\"kind\":", "line 2");
    refuse_text("{}", "kind");
    assert_int_equal(ft_sim_config_load("/nowhere/x.json", &err, &c), FT_IO);
}

static void test_scaled(void **state)
{
    (void)state;
    assert_true(ft_sim_const_scaled(FT_SIM_RTT_MS, 20, 2) == 40);
    assert_true(ft_sim_const_scaled(FT_SIM_DRAFT_FIXED, 5, 0.5) == 3); /* whole */
    assert_true(ft_sim_const_scaled(FT_SIM_ACCEPT, 0.75, 2) == 0.875); /* shares go towards 1 */
    assert_true(ft_sim_const_scaled(FT_SIM_ACCEPT, 0.75, 0.5) == 0.375);
    assert_true(ft_sim_const_scaled(FT_SIM_DRAFT_MOST, 1, 0.1) == 1); /* in range */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_not_json), cmocka_unit_test(test_scaled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
