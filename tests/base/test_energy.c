// SPDX-License-Identifier: Apache-2.0
// Energy counters in a directory that looks as the kernel's.
#include "base/energy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/foretoken-energy-XXXXXX";

static void put(unsigned package, const char *file, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/intel-rapl:%u", root, package);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/intel-rapl:%u/%s", root, package, file);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_counters(void **state)
{
    assert_non_null(mkdtemp(root));
    const ft_energy none = ft_energy_now(root);
    assert_int_equal(none.n, 0);
    assert_true(ft_energy_joules(&none, &none) < 0);
    put(0, "energy_uj", "1000000\n");
    const ft_energy no_range = ft_energy_now(root);
    assert_int_equal(no_range.n, 0);
    put(0, "max_energy_range_uj", "262143328850\n");
    put(1, "energy_uj", "262143000000\n");
    put(1, "max_energy_range_uj", "262143328850\n");
    const ft_energy from = ft_energy_now(root);
    assert_int_equal(from.n, 2);
    put(0, "energy_uj", "3500000\n");
    put(1, "energy_uj", "671150\n"); /* it went round */
    const ft_energy to = ft_energy_now(root);
    assert_float_equal(ft_energy_joules(&from, &to), 3.5, 1e-9);
    assert_true(ft_energy_joules(&none, &to) < 0);
    char command[100];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counters)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
