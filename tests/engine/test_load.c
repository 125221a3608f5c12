// SPDX-License-Identifier: Apache-2.0
// load: which devices are opened, and what is said of those that there are not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/load.h"

/* Layers that stay on the CPU need no devices, whatever their names. */
static void test_none(void **state)
{
    const ft_device_opts none = {.names = "NOWHERE7", .n_gpu_layers = 0};
    ft_devices devices = {.n = 1};
    ft_error err = {0};
    (void)state;
    assert_int_equal(ft_devices_open(&none, &err, &devices), FT_OK);
    assert_int_equal(devices.n, 0);
}

static void test_unknown(void **state)
{
    const ft_model_opts opts = {.path = "/nowhere/at/all"};
    ft_device_opts where = FT_DEVICE_OPTS_INIT;
    ft_model *model = (ft_model *)&where;
    ft_devices devices;
    ft_error err = {0};
    (void)state;
    where.names = "NOWHERE7";
    assert_int_equal(ft_devices_open(&where, &err, &devices), FT_INVALID);
    assert_non_null(strstr(err.message, "NOWHERE7"));
    assert_int_equal(ft_model_load_on(&where, &opts, &err, &model), FT_INVALID);
    assert_null(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_none), cmocka_unit_test(test_unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
