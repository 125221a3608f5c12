// SPDX-License-Identifier: Apache-2.0
// Settings of simulate qsv: the one that ships is taken, what is wrong is named.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/qsv_config.h"
#include "support/json_with.h"

static const char *shipped(void)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/sim/qsv-paper.json", getenv("FT_SOURCE_DIR"));
    return path;
}

static void test_shipped(void **state)
{
    ft_qsv_config c;
    ft_error err = {0};
    if (ft_qsv_config_load(shipped(), &err, &c) != FT_OK)
        fail_msg("%s", err.message);
    assert_true(c.n_l == 2 && c.l[0] == 240 && c.l[1] == 720 && c.code == FT_QSV_CODE_INDEX);
    assert_true(c.k[FT_QSV_LENGTH_MOST] == 12 && c.open[FT_QSV_DRAFT_MS]);
    assert_true(c.k[FT_QSV_RTT_MS] == 0 && !c.open[FT_QSV_RTT_MS]);
    /* from 20 kbit/s to 50 Mbit/s, and chains at kbit/s and at 2 and 6 Mbit/s */
    assert_int_equal(c.n_links, 12);
    assert_true(ft_qsv_link_kbit_s(&c.link[0]) == 20 && ft_qsv_link_kbit_s(&c.link[9]) == 50000);
    assert_true(c.link[0].rate.step_ns == 0 && c.link[9].rate.step_ns == 0);
    assert_true(c.link[10].rate.bits_per_s[1] == 200e3 && c.link[11].rate.bits_per_s[0] == 2e6);
    assert_true(c.link[11].rate.bits_per_s[1] == 6e6 && c.link[11].rate.step_ns == 100000000);
    assert_true(ft_qsv_link_kbit_s(&c.link[11]) == 4000);
    assert_string_equal(c.link[11].name, "markov mbit");
}

/* The shipped file with one field changed, as json_with has it. */
static ft_status with(const char *path, const char *value, ft_error *err)
{
    ft_qsv_config c;
    json_t *root = json_with(shipped(), path, value);
    *err = (ft_error){0};
    const ft_status status = ft_qsv_config_parse(root, err, &c);
    json_decref(root);
    return status;
}

static void refuse(const char *path, const char *value, const char *said)
{
    ft_error err;
    assert_int_equal(with(path, value, &err), FT_INVALID);
    if (!strstr(err.message, said))
        fail_msg("of %s it says: %s", path, err.message);
}

/* The demo's setting is the paper's, but for the messages and the round trip. */
static void test_shipped_demo(void **state)
{
    char path[1024];
    ft_qsv_config demo, paper;
    ft_error err = {0};
    snprintf(path, sizeof path, "%s/sim/qsv-demo.json", getenv("FT_SOURCE_DIR"));
    if (ft_qsv_config_load(path, &err, &demo) != FT_OK ||
        ft_qsv_config_load(shipped(), &err, &paper) != FT_OK)
        fail_msg("%s", err.message);
    assert_true(demo.code == FT_QSV_CODE_SHORTER && demo.n_links == paper.n_links);
    for (int i = 0; i < FT_QSV_CONSTS; i++)
        if (i != FT_QSV_MESSAGE_BITS && i != FT_QSV_RTT_MS)
            assert_true(!(demo.k[i] < paper.k[i] || demo.k[i] > paper.k[i]));
    assert_true(demo.k[FT_QSV_MESSAGE_BITS] > 0 && demo.k[FT_QSV_RTT_MS] > 0);
}

static void test_refused(void **state)
{
    refuse("kind", "\"foretoken simulate wisp\"", "kind");
    refuse("code", NULL, "code");
    refuse("code", "\"huffman\"", "adaptive");
    refuse("l", NULL, "l: 'value'");
    refuse("l.value", "[]", "l: 'value'");
    refuse("l.value", "[720, 240]", "rising");
    refuse("l.value", "[1, 2, 3, 4, 5]", "1 to 4");
    refuse("l.value", "[240.5]", "whole");
    refuse("l.value", "[65536]", "to 65535");
    refuse("l.why", NULL, "why");
    refuse("uplinks_kbit_s.value", "[0.5]", "uplinks_kbit_s");
    refuse("uplinks_kbit_s.value", "[20, \"50\"]", "uplinks_kbit_s");
    refuse("uplinks_kbit_s.open", "1", "open");
    refuse("markov", "{}", "markov");
    refuse("markov.0.name", "\"constant\"", "name");
    refuse("markov.0.name", "\"a'b\"", "name");
    refuse("markov.0.kbit_s", "[200, 20]", "kbit_s");
    refuse("markov.0.kbit_s", "[20]", "kbit_s");
    refuse("markov.0.stay", "1", "stay");
    refuse("markov.0.step_ms", "0", "step_ms");
    refuse("markov.1.why", "\"\"", "why");
    refuse("constants.draft_ms", NULL, "draft_ms");
    refuse("constants.verify_ms.value", "0", "verify_ms");
    refuse("constants.length_most.value", "2.5", "whole");
    refuse("constants.length_most.value", "65", "to 64");
    refuse("constants.draft", "{}", "no such constant");
}

static void test_taken(void **state)
{
    ft_error err;
    assert_int_equal(with("code", "\"adaptive\"", &err), FT_OK);
    assert_int_equal(with("code", "\"shorter\"", &err), FT_OK);
    assert_int_equal(with("markov", "[]", &err), FT_OK);
    assert_int_equal(with("l.value", "[8]", &err), FT_OK);
}

static void test_file(void **state)
{
    ft_qsv_config c;
    ft_error err = {0};
    assert_int_equal(ft_qsv_config_load("/nowhere/x.json", &err, &c), FT_IO);
    assert_non_null(strstr(err.message, "/nowhere/x.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped), cmocka_unit_test(test_shipped_demo),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_taken), cmocka_unit_test(test_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
