// SPDX-License-Identifier: Apache-2.0
// Settings of fleets: the one that ships is taken, what is wrong is named.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/fleet_config.h"
#include "support/json_with.h"

static const char *shipped(void)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/sim/fleet.json", getenv("FT_SOURCE_DIR"));
    return path;
}

static void test_shipped(void **state)
{
    ft_fleet_config c;
    ft_error err = {0};
    if (ft_fleet_config_load(shipped(), &err, &c) != FT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(c.server.n_classes, 4);
    assert_true(c.server.costs.us[FT_COST_ROW] == 143.39);
    assert_true(c.server.k[FT_SIM_ACCEPT] == 0.7322 && c.server.k[FT_SIM_EPSILON] == 0.05);
    assert_true(c.server.k[FT_SIM_SEEDS] == 0 && c.k[FT_FLEET_TURNS] == 5);
    assert_true(c.k[FT_FLEET_ADDED_S] == 20);
}

static void refuse(const char *path, const char *value, const char *said)
{
    ft_fleet_config c;
    ft_error err = {0};
    json_t *root = json_with(shipped(), path, value);
    assert_int_equal(ft_fleet_config_parse(root, &err, &c), FT_INVALID);
    if (!strstr(err.message, said))
        fail_msg("%s = %s: it says: %s", path, value, err.message);
    json_decref(root);
}

static void test_refused(void **state)
{
    ft_fleet_config c;
    ft_error err = {0};
    refuse("kind", "\"foretoken simulate wisp\"", "'kind'");
    refuse("constants.turns.value", "1.5", "constants.turns: 'value'");
    refuse("constants.turns.value", "0", "from 1 to 1000");
    refuse("constants.think_s.value", "\"20\"", "constants.think_s");
    refuse("constants.think_s.why", "\"\"", "why");
    refuse("constants.seeds", "{\"value\": 1, \"why\": \"fleets have one seed\"}",
           "constants.seeds: there is no such constant");
    refuse("constants.lost_s.value", "25", "lost_s < added_s");
    refuse("constants.added_s.value", "30", "added_s < measure_s");
    refuse("constants.reconnect_ms.value", "-1", "reconnect_ms");
    refuse("costs.us.row", "-1", "row");
    refuse("classes_tokens_per_s", "[2, 1]", "classes_tokens_per_s");
    assert_int_equal(ft_fleet_config_load("/nowhere.json", &err, &c), FT_IO);
    assert_non_null(strstr(err.message, "/nowhere.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shipped),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
