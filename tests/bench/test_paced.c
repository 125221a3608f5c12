// SPDX-License-Identifier: Apache-2.0
// A paced source draws the same trees as the one behind it and takes the device's time for them, on
// a clock that stands still but for the waits and for what a forward is said to take.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "spec/draft_engine.h"
#include "spec/drafter.h"
#include "bench/paced.h"
#include "support/drafts.h"

static ft_error err;

static void must(ft_status status)
{
    if (status != FT_OK)
        fail_msg("%s: %s", ft_status_name(status), err.message);
}

typedef struct world {
    int64_t now_us, slept_us;
    int64_t busy_us; /* added each time the clock is read: what the real forward takes */
} world;

static int64_t read_clock(void *ctx)
{
    world *w = ctx;
    int64_t now_us = w->now_us;
    w->now_us += w->busy_us;
    return now_us;
}

static void sleep_us(void *ctx, int64_t us)
{
    world *w = ctx;
    assert_true(us > 0);
    w->now_us += us;
    w->slept_us += us;
}

static void rounds(int64_t busy_us)
{
    enum { PROMPT = 30 };
    world w = {.now_us = 5, .busy_us = busy_us};
    ft_draft_device device = {
        .clock = {read_clock, &w}, .sleep_us = sleep_us, .sleep_ctx = &w, .us_per_forward = 1000};
    ft_sampling s = {.temperature = 0.8f, .top_p = 1, .seed = 2};
    ft_model *model = test_draft_model(GGML_TYPE_Q4_0, 6, 2048);
    ft_engine *engine = test_draft_engine(model, 1024, 16);
    ft_drafter *plain, *slow;
    ft_draft_source *source;
    int32_t text[PROMPT];
    uint32_t n = test_draft_prompt(text, PROMPT, 0);
    must(test_drafter_create(engine, &s, &err, &plain));
    must(ft_draft_engine_source(engine, &ft_rule_exact, NULL, &s, &err, &source));
    must(ft_draft_source_paced(source, &device, &err, &source));
    must(ft_drafter_create(source, &err, &slow));
    must(ft_drafter_reset(plain, text, n, &err));
    must(ft_drafter_reset(slow, text, n, &err));
    for (uint32_t round = 0; round < 6; round++) {
        ft_draft_params params = ft_draft_params_tree(20, 4, 4);
        ft_tree a, b;
        bool more;
        uint32_t path[FT_TREE_MAX];
        must(ft_drafter_draft(plain, &params, &err, &a));
        must(ft_drafter_draft(slow, &params, &err, &b));
        test_trees_equal(&a, &b);
        must(ft_drafter_proactive(plain, &params, &err, &more));
        must(ft_drafter_proactive(slow, &params, &err, &more));
        uint32_t n_path = test_tree_path(&a, round, path);
        must(ft_drafter_advance(plain, path, n_path, text, round % 2, &err));
        must(ft_drafter_advance(slow, path, n_path, text, round % 2, &err));
    }
    ft_drafter_stats stats;
    ft_drafter_get_stats(slow, &stats);
    int64_t forwards = (int64_t)stats.forwards;
    assert_int_equal(device.forwards, forwards);
    if (busy_us <= 1000) {
        assert_int_equal(w.slept_us, forwards * (1000 - busy_us));
        assert_int_equal(device.late, 0);
    } else {
        assert_int_equal(w.slept_us, 0);
        assert_int_equal(device.late, forwards);
        assert_int_equal(device.late_us, forwards * (busy_us - 1000));
    }
    ft_drafter_destroy(plain);
    ft_drafter_destroy(slow);
    ft_engine_destroy(engine);
    ft_model_destroy(model);
}

static void test_waits_for_the_rest(void **state)
{
    rounds(0);
    rounds(300);
    rounds(1000);
}

static void test_late_forwards_are_counted(void **state)
{
    rounds(1700);
}

/* Two drafters on one device share forwards, and with them the time. */
static void test_shared_forward(void **state)
{
    world w = {0};
    ft_draft_device device = {
        .clock = {read_clock, &w}, .sleep_us = sleep_us, .sleep_ctx = &w, .us_per_forward = 100};
    ft_sampling s = ft_sampling_default();
    ft_model *model = test_draft_model(GGML_TYPE_Q4_0, 6, 2048);
    ft_engine *engine = test_draft_engine(model, 1024, 64);
    ft_drafter *d[2];
    ft_tree tree[2], *trees[2] = {&tree[0], &tree[1]};
    ft_draft_params params[2] = {ft_draft_params_chain(3), ft_draft_params_chain(5)};
    int32_t text[10];
    for (uint32_t i = 0; i < 2; i++) {
        ft_draft_source *source;
        must(ft_draft_engine_source(engine, &ft_rule_exact, NULL, &s, &err, &source));
        must(ft_draft_source_paced(source, &device, &err, &source));
        must(ft_drafter_create(source, &err, &d[i]));
        must(ft_drafter_reset(d[i], text, test_draft_prompt(text, 10, i), &err));
    }
    must(ft_drafters_draft(d, 2, params, &err, trees));
    assert_int_equal(tree[0].n, 3);
    assert_int_equal(tree[1].n, 5);
    assert_int_equal(device.forwards, 5);
    assert_int_equal(w.slept_us, 500);
    ft_drafter_destroy(d[0]);
    ft_drafter_destroy(d[1]);
    ft_engine_destroy(engine);
    ft_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_for_the_rest),
        cmocka_unit_test(test_late_forwards_are_counted),
        cmocka_unit_test(test_shared_forward),
    };
    tiny_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
