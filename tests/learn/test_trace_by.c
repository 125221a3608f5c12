// SPDX-License-Identifier: Apache-2.0
// Groups of a trace file's nodes and texts, of files whose numbers are known.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "learn/trace_by.h"

#define NODES 1000

static char path[64];

static int set_up(void **state)
{
    ft_log_set_level(FT_LOG_ERROR);
    snprintf(path, sizeof path, "/tmp/ft_trace_by_XXXXXX");
    const int fd = mkstemp(path);
    close(fd);
    return fd >= 0 && unlink(path) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
    return 0;
}

static ft_trace *must_open(void)
{
    ft_trace *t = NULL;
    ft_error err = {0};
    if (ft_trace_open(&(ft_trace_opts){.path = path}, &err, &t) != FT_OK)
        fail_msg("%s", err.message);
    return t;
}

static ft_trace_session new_session(void)
{
    ft_trace_session s = {.draft = 1};
    assert_int_equal(ft_trace_begin(&s, NULL), FT_OK);
    return s;
}

/* Node i of the file, in drafts of one node: confidence rises, and the upper half is accepted;
 * entropy is always 2; three of ten have margin 0.25; deviation is 3, where rejected. */
static void fill_node(uint32_t i, ft_trace_node *node)
{
    const bool accepted = i >= NODES / 2;
    *node = (ft_trace_node){.token = 1,
                            .parent = -1,
                            .outcome = accepted ? FT_TRACE_ACCEPTED : FT_TRACE_REJECTED,
                            .has_features = true};
    node->feature[FT_FEATURE_CONFIDENCE] = (float)i / NODES;
    node->feature[FT_FEATURE_ENTROPY] = 2;
    node->feature[FT_FEATURE_MARGIN] = i % 10 < 3 ? 0.25f : 0.5f;
    node->feature[FT_FEATURE_DEVIATION] = accepted ? 1 : 3;
}

static void write_nodes(void)
{
    ft_trace *t = must_open();
    const ft_trace_session s = new_session();
    for (uint32_t k = 0; k < NODES; k++) {
        ft_trace_node node;
        const uint32_t i = (k * 389) % NODES; /* in no order */
        fill_node(i, &node);
        const ft_trace_round round = {.number = k + 1,
                                      .depth = 1,
                                      .accepted = node.outcome == FT_TRACE_ACCEPTED,
                                      .next = 7,
                                      .n = 1,
                                      .node = &node};
        ft_trace_add(t, &s, &round);
    }
    ft_trace_close(t);
}

static ft_trace_by group(ft_feature by)
{
    ft_trace_by out;
    ft_error err = {0};
    if (ft_trace_by_feature(path, by, &err, &out) != FT_OK)
        fail_msg("%s", err.message);
    return out;
}

static void near(double a, double b)
{
    if (!(fabs(a - b) < 1e-6))
        fail_msg("%g, not %g", a, b);
}

static void test_tenths(void **state)
{
    write_nodes();
    const ft_trace_by by = group(FT_FEATURE_CONFIDENCE);
    assert_true(by.nodes == NODES && by.accepted == NODES / 2);
    assert_int_equal(by.n, FT_TRACE_BINS);
    for (uint32_t b = 0; b < by.n; b++) {
        assert_int_equal(by.bin[b].nodes, NODES / FT_TRACE_BINS);
        assert_int_equal(by.bin[b].accepted, b < 5 ? 0 : NODES / FT_TRACE_BINS);
        near(by.bin[b].from, b * 0.1);
        near(by.bin[b].to, b * 0.1 + 0.099);
        near(by.bin[b].mean, b * 0.1 + 0.0495);
        /* Wilson's interval of 0 of 100: up to z^2 / (n + z^2) */
        near(by.bin[b].low, b < 5 ? 0 : 1 - 3.8416 / 103.8416);
        near(by.bin[b].high, b < 5 ? 3.8416 / 103.8416 : 1);
    }
    /* of x = 0, 1, ... with a step in the middle: sqrt(3)/2, and a little more as n is finite */
    const double n = NODES;
    near(by.pearson[FT_FEATURE_CONFIDENCE], 0.25 * n / sqrt((n * n - 1) / 12));
    near(by.pearson[FT_FEATURE_DEVIATION], -1);
    near(by.pearson[FT_FEATURE_MARGIN], 0);
    assert_true(isnan(by.pearson[FT_FEATURE_ENTROPY]));
}

/* Nodes with the same value are never in two bins. */
static void test_equal_values(void **state)
{
    write_nodes();
    const ft_trace_by entropy = group(FT_FEATURE_ENTROPY), margin = group(FT_FEATURE_MARGIN);
    assert_int_equal(entropy.n, 1);
    assert_true(entropy.bin[0].nodes == NODES && entropy.bin[0].accepted == NODES / 2);
    assert_true(entropy.bin[0].from == 2 && entropy.bin[0].to == 2);
    assert_int_equal(margin.n, 2);
    assert_true(margin.bin[0].nodes == 300 && margin.bin[1].nodes == 700);
    assert_true(margin.bin[0].to == 0.25 && margin.bin[1].from == 0.5);
}

/* Chains of four, of which i mod 5 tokens are accepted. */
static void add_chain(ft_trace *t, const ft_trace_session *s, uint32_t i, int64_t rtt_us)
{
    ft_trace_node node[4] = {0};
    const uint32_t path_of[4] = {0, 1, 2, 3};
    for (int32_t k = 0; k < 4; k++)
        node[k] = (ft_trace_node){
            .parent = k - 1, .depth = (uint16_t)k, .has_features = true, .feature = {0.5f}};
    ft_trace_label(node, 4, path_of, i % 5, false);
    const ft_trace_round round = {.number = i + 1,
                                  .depth = 4,
                                  .accepted = i % 5,
                                  .next = 7,
                                  .draft_us = 400,
                                  .rtt_us = rtt_us,
                                  .queue_us = 100,
                                  .verify_us = 1000,
                                  .n = 4,
                                  .node = node};
    ft_trace_add(t, s, &round);
}

static void test_depths(void **state)
{
    ft_trace *t = must_open();
    const ft_trace_session s = new_session();
    for (uint32_t i = 0; i < 100; i++)
        add_chain(t, &s, i, 500);
    ft_trace_close(t);
    const ft_trace_by by = group(FT_FEATURE_POSITION);
    assert_int_equal(by.n, 4);
    for (uint32_t d = 0; d < 4; d++) {
        assert_true(by.bin[d].from == d && by.bin[d].to == d && by.bin[d].mean == d);
        /* a node is judged if those before it were accepted */
        assert_int_equal(by.bin[d].nodes, 20 * (5 - d));
        assert_int_equal(by.bin[d].accepted, 20 * (4 - d));
    }
}

/* One text wastes all of its drafts, one half, one nothing; a fourth has no times. */
static void test_waste(void **state)
{
    static const uint32_t accepted[] = {0, 2, 4};
    ft_trace_waste by;
    ft_error err = {0};
    ft_trace *t = must_open();
    for (uint32_t k = 0; k < 4; k++) {
        const ft_trace_session s = new_session();
        for (uint32_t i = 0; i < 10; i++)
            add_chain(t, &s, accepted[k % 3], k == 3 ? -1 : 500);
    }
    ft_trace_close(t);
    assert_int_equal(ft_trace_by_waste(path, &err, &by), FT_OK);
    assert_int_equal(by.unknown_rounds, 10);
    assert_true(by.n == 3 && by.sum.texts == 3 && by.sum.rounds == 30);
    for (uint32_t b = 0; b < 3; b++) {
        const ft_trace_waste_bin *bin = &by.bin[b];
        assert_int_equal(bin->wasted_tokens, 2 * b);
        assert_true(bin->texts == 1 && bin->rounds == 10 && bin->drafted == 40);
        assert_int_equal(bin->waste.tokens, 20 * b);
        assert_int_equal(bin->waste.wasted_us, 2000 * b);
        assert_int_equal(bin->us, 10 * 2000); /* eq. (4) */
        /* all rounds take as long: eq. (10) says what was measured */
        near(ft_trace_waste_speed(bin), (5 - 2 * b) / 2000e-6);
        near(ft_trace_waste_expected(&by, 2 * b), ft_trace_waste_speed(bin));
    }
    near(by.pearson, -1);
}

static void test_no_file(void **state)
{
    ft_trace_by by;
    ft_trace_waste waste;
    ft_error err = {0};
    assert_int_equal(ft_trace_by_feature(path, FT_FEATURE_MARGIN, &err, &by), FT_NOT_FOUND);
    assert_int_equal(ft_trace_by_waste(path, &err, &waste), FT_NOT_FOUND);
    ft_trace_close(must_open()); /* nothing is in it */
    assert_int_equal(ft_trace_by_feature(path, FT_FEATURE_MARGIN, &err, &by), FT_OK);
    assert_int_equal(ft_trace_by_waste(path, &err, &waste), FT_OK);
    assert_true(by.n == 0 && waste.n == 0 && isnan(waste.pearson));
    near(ft_trace_waste_expected(&waste, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tenths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_equal_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_depths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_waste, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_file, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
