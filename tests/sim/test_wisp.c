// SPDX-License-Identifier: Apache-2.0
// Simulations (wisp.c, and its two sides wisp_device.c and wisp_server.c): cases small enough to
// work out by hand, and what must hold of any.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sched/tuning.h"
#include "sim/wisp_search.h"

/* A pass takes 10 ms and 1 ms a row; drafting a token 10 ms; no delays, no chance but the
 * seed's. */
static ft_sim_config exact(void)
{
    ft_sim_config c = {.n_classes = 2, .tokens_per_s = {50, 60}};
    c.costs.us[FT_COST_PASS] = 10000;
    c.costs.us[FT_COST_ROW] = 1000;
    c.k[FT_SIM_DRAFT_PER_S] = 100;
    c.k[FT_SIM_ACCEPT] = c.k[FT_SIM_PREDICTOR_KEEPS] = 1;
    c.k[FT_SIM_DRAFT_MOST] = c.k[FT_SIM_DRAFT_FIXED] = 2;
    c.k[FT_SIM_PROMPT_TOK] = 4;
    c.k[FT_SIM_RESPONSE_TOK] = 6;
    c.k[FT_SIM_MAX_ROWS] = 100;
    c.k[FT_SIM_MAX_SESSIONS] = 100;
    c.k[FT_SIM_KV_BLOCKS] = 100;
    c.k[FT_SIM_PREFILL_MS] = 1000;
    c.k[FT_SIM_EPSILON] = 0.05;
    c.k[FT_SIM_SEEDS] = c.k[FT_SIM_RAMP_TEXTS] = 1;
    c.k[FT_SIM_MEASURE_TEXTS] = 5;
    return c;
}

static ft_sim_result run(const ft_sim_config *c, ft_sim_mode mode, uint32_t class, uint32_t n,
                         int64_t until_us)
{
    ft_sim_result r;
    ft_error err = {0};
    const ft_sim_opts opts = {
        .config = c, .mode = mode, .class = class, .n_devices = n, .seed = 5, .until_us = until_us};
    if (ft_sim_wisp_run(&opts, &err, &r) != FT_OK)
        fail_msg("%s", err.message);
    return r;
}

/* Two prompts of 3 rows (the 4th token's is the first round's): 16 ms; six rounds of 2 rows: 72
 * ms. */
static void test_centralized_by_hand(void **state)
{
    ft_sim_config c = exact();
    ft_sim_result r = run(&c, FT_SIM_MODE_CENTRALIZED, FT_SIM_MIXED, 2, 88000);
    (void)state;
    assert_int_equal(r.tokens, 10); /* the last pass ends at 88 ms */
    r = run(&c, FT_SIM_MODE_CENTRALIZED, FT_SIM_MIXED, 2, 88001);
    assert_int_equal(r.tokens, 12);
    assert_int_equal(r.passes, 7);
    assert_int_equal(r.rows, 18);
    assert_int_equal(r.busy_us, 88000);
    /* 6 tokens in 88 ms are 68 tokens/s: as promised to both */
    assert_true(r.texts[0] == 1 && r.slow[0] == 0 && r.texts[1] == 1 && r.slow[1] == 0);
    assert_true(r.slow_from_first[0] == 0 && r.slow_from_first[1] == 0);
    /* behind the first one, at 28 ms, 5 in 60 ms: 83 tokens/s */
    c.tokens_per_s[1] = 83;
    r = run(&c, FT_SIM_MODE_CENTRALIZED, FT_SIM_MIXED, 2, 88001);
    assert_true(r.slow[1] == 1 && r.slow_from_first[1] == 0);
    c.tokens_per_s[1] = 84;
    r = run(&c, FT_SIM_MODE_CENTRALIZED, FT_SIM_MIXED, 2, 88001);
    assert_true(r.slow[1] == 1 && r.slow_from_first[1] == 1);
}

/* Drafts take 20 ms. A round holds all of the text: 2 * 6 rows, 22 ms, then 2 * 9, 28 ms: 90 ms for
 * 6 tokens, 66.7 a second. */
static void test_fcfs_by_hand(void **state)
{
    ft_sim_config c = exact();
    c.tokens_per_s[1] = 67;
    const ft_sim_result r = run(&c, FT_SIM_MODE_FCFS, FT_SIM_MIXED, 2, 90001);
    (void)state;
    assert_int_equal(r.tokens, 12);
    assert_int_equal(r.passes, 2);
    assert_int_equal(r.rows, 12 + 18);
    assert_int_equal(r.busy_us, 50000);
    assert_int_equal(r.drafted, 8);
    assert_int_equal(r.accepted, 8);
    assert_true(r.texts[0] == 1 && r.slow[0] == 0 && r.texts[1] == 1 && r.slow[1] == 1);
    /* behind the first three, at 42 ms, three in 48 ms: 62.5 a second */
    assert_true(r.slow_from_first[0] == (c.tokens_per_s[0] > 62.5) && r.slow_from_first[1] == 1);
}

/* Prompts are read while the first drafts are made. Rounds have 3 rows each: from 20 to 36 ms, and
 * after another draft, at 56 ms, one from then to 69 and one to 85: the server knows now how long
 * drafts take, and makes two groups. At 40 tokens/s a text has 150 ms. */
static void test_wisp_by_hand(void **state)
{
    ft_sim_config c = exact();
    c.tokens_per_s[0] = 40;
    const ft_sim_result r = run(&c, FT_SIM_MODE_WISP, 0, 2, 85001);
    (void)state;
    assert_int_equal(r.tokens, 12);
    assert_int_equal(r.passes, 4);
    assert_int_equal(r.rows, 6 + 6 + 3 + (3 + 3)); /* the first one reads its next prompt */
    assert_int_equal(r.late[0][FT_LATE_NONE], 4);
    assert_true(r.texts[0] == 2 && r.slow[0] == 0);
    assert_int_equal(run(&c, FT_SIM_MODE_WISP, 0, 2, 69001).tokens, 6 + 3);
}

/* A pass takes 40 ms. So one with both texts, and a rest of 20 ms while they draft, bring more than
 * two groups. Prompts are read by 46 ms; rounds run to 92, and from 112 to 158. */
static void test_one_group_by_hand(void **state)
{
    ft_sim_config c = exact();
    (void)state;
    c.costs.us[FT_COST_PASS] = 40000;
    const ft_sim_result r = run(&c, FT_SIM_MODE_WISP, 0, 2, 158001);
    assert_int_equal(r.tokens, 12);
    assert_int_equal(r.passes, 3);
}

/* A pass takes 200 ms; users come at any time. Texts come together, because passes wait for drafts
 * that are expected. By a policy that does not wait, each is verified in every second pass. */
static void test_waits_for_drafts(void **state)
{
    ft_sim_config c = exact();
    ft_sim_result r[2];
    ft_sim_opts opts = {.config = &c, .n_devices = 2, .ramp_us = 200000, .seed = 5};
    opts.until_us = 20000000;
    (void)state;
    c.costs.us[FT_COST_PASS] = 200000;
    c.k[FT_SIM_RESPONSE_TOK] = 600;
    for (int i = 0; i < 2; i++) {
        c.policy = i == 0 ? &ft_sched_wisp : &ft_sched_edf;
        assert_int_equal(ft_sim_wisp_run(&opts, NULL, &r[i]), FT_OK);
    }
    assert_true(r[0].tokens > r[1].tokens * 3 / 2);
    assert_true(r[0].passes < r[1].passes);
}

static void see_last(void *ctx, const ft_sim_round *round)
{
    *(ft_sim_round *)ctx = *round;
}

/* The last of the first two rounds: a pass of 16 ms, at once or, by policy static, after 5 ms. */
static ft_sim_round last_round(double tokens_per_s, bool waits, uint64_t late[FT_LATE_CAUSES])
{
    ft_sim_config c = exact();
    ft_sim_result r;
    ft_sim_round last = {0};
    c.tokens_per_s[0] = tokens_per_s;
    c.policy = waits ? &ft_sched_static : NULL;
    c.static_batch = 3;
    c.static_wait_us = 5000;
    const ft_sim_opts opts = {.config = &c,
                              .n_devices = 2,
                              .seed = 5,
                              .until_us = waits ? 41001 : 36001,
                              .on_round = see_last,
                              .ctx = &last};
    assert_int_equal(ft_sim_wisp_run(&opts, NULL, &r), FT_OK);
    assert_int_equal(r.rounds, 2);
    memcpy(late, r.late[0], sizeof r.late[0]);
    assert_int_equal(last.class, 0);
    return last;
}

/* A first round should bring 2 tokens, until rounds have shown more. It was away for 20 ms. At 60
 * tokens/s it has 33.3 ms, so 13.3 are left: its pass is too long. At 54 it has 37: there is time
 * for the pass, but not after a wait. At 101 nothing is left. */
static void test_late_by_hand(void **state)
{
    static const struct {
        double tokens_per_s;
        bool waits;
        ft_late late;
    } cases[] = {{50, false, FT_LATE_NONE},     {60, false, FT_LATE_LONG_PASS},
                 {60, true, FT_LATE_LONG_PASS}, {54, false, FT_LATE_NONE},
                 {54, true, FT_LATE_WAITING},   {101, false, FT_LATE_NETWORK}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t late[FT_LATE_CAUSES];
        const ft_sim_round r = last_round(cases[i].tokens_per_s, cases[i].waits, late);
        assert_int_equal(r.queue_us, cases[i].waits ? 5000 : 0);
        assert_int_equal(r.verify_us, 16000);
        assert_int_equal(r.late, cases[i].late);
        assert_int_equal(late[cases[i].late], 2);
    }
}

static uint64_t tokens_by(const ft_sim_config *c, int64_t until_us)
{
    return run(c, FT_SIM_MODE_WISP, FT_SIM_MIXED, 2, until_us).tokens;
}

/* Drafts of 4 tokens take 40 ms, a pass 60 and 1 a row, and texts are kept no lead. Prompts are
 * read by 66 ms. The first rounds are owed before that, so both run in one pass, to 136 ms. The
 * second ones come at 176 ms. A promise of 24.64 tokens/s needs its sixth token by 243.5 ms: there
 * is time for one round (65 ms), not for two (70 ms). The other one has time to wait. First come
 * first served knows no promises and makes two groups: to 131 and 196 ms, and then to 261 and 329.
 * The last pass also reads the prompt of the next text. */
static void test_policy_keeps_deadlines(void **state)
{
    ft_sched_tuning tuning = *ft_sched_tune;
    const ft_sched_tuning *before = ft_sched_tune;
    ft_sim_config c = exact();
    (void)state;
    tuning.promise.ahead = tuning.promise.ahead_sure = tuning.promise.ahead_more = 0;
    c.k[FT_SIM_DRAFT_MOST] = 4;
    c.k[FT_SIM_RESPONSE_TOK] = 10;
    c.k[FT_SIM_GUARD_MS] = 1;
    c.costs.us[FT_COST_PASS] = 60000;
    c.tokens_per_s[0] = 14;
    c.tokens_per_s[1] = 24.64;
    ft_sched_tune = &tuning;
    const uint64_t first = tokens_by(&c, 241500), both = tokens_by(&c, 309500);
    c.policy = &ft_sched_fcfs;
    const uint64_t plain = tokens_by(&c, 241500), plain_both = tokens_by(&c, 329500);
    ft_sched_tune = before;
    assert_int_equal(first, 10 + 5);
    assert_int_equal(both, 20);
    assert_int_equal(plain, 10);
    assert_int_equal(plain_both, 20);
}

/* Three would be a batch; two wait 5 ms: from 25 to 41 ms, and from 66 to 82. */
static void test_static_by_hand(void **state)
{
    ft_sim_config c = exact();
    (void)state;
    c.policy = &ft_sched_static;
    c.static_batch = 3;
    c.static_wait_us = 5000;
    assert_int_equal(run(&c, FT_SIM_MODE_WISP, 0, 2, 40900).tokens, 0);
    assert_int_equal(run(&c, FT_SIM_MODE_WISP, 0, 2, 41001).tokens, 6);
    assert_int_equal(run(&c, FT_SIM_MODE_WISP, 0, 2, 81900).tokens, 6);
    assert_int_equal(run(&c, FT_SIM_MODE_WISP, 0, 2, 82001).tokens, 12);
    c.static_batch = 1; /* one after another: from 20 to 33 ms and from 33 to 46 */
    assert_int_equal(run(&c, FT_SIM_MODE_WISP, 0, 2, 33001).tokens, 3);
    assert_int_equal(run(&c, FT_SIM_MODE_WISP, 0, 2, 46001).tokens, 6);
}

/* Rows take 10 ms. A text at 40 tokens/s takes 0.4 of the engine's time, so the other one is
 * refused, at 0 and at 1 s. The first one takes 140 ms: its draft is there at 20 ms, its prompt is
 * read at 40, and rounds end at 80 and 140. At 1.1 s its eighth text has had a round. */
static void test_admission_by_hand(void **state)
{
    ft_sim_config c = exact();
    (void)state;
    c.tokens_per_s[0] = 40;
    c.costs.us[FT_COST_ROW] = 10000;
    c.k[FT_SIM_ADMISSION_MS] = 1000;
    const ft_sim_result r = run(&c, FT_SIM_MODE_WISP, 0, 2, 1100000);
    assert_int_equal(r.tokens, 7 * 6 + 3);
    assert_int_equal(r.asked, 8 + 1);
    assert_int_equal(r.refused, 1);
    assert_true(r.texts[0] == 7 && r.slow[0] == 0);
    assert_int_equal(r.kept_tokens, 7 * 6);
    c.costs.us[FT_COST_ROW] = 1000; /* there is time for both */
    assert_int_equal(run(&c, FT_SIM_MODE_WISP, 0, 2, 1100000).refused, 0);
}

static ft_sim_config paper(void)
{
    char path[1024];
    ft_error err = {0};
    ft_sim_config c;
    snprintf(path, sizeof path, "%s/sim/wisp-paper-32b.json", getenv("FT_SOURCE_DIR"));
    if (ft_sim_config_load(path, &err, &c) != FT_OK)
        fail_msg("%s", err.message);
    return c;
}

static void test_deterministic_and_conserving(void **state)
{
    enum { N = 60 };
    const ft_sim_config c = paper();
    (void)state;
    for (int mode = 0; mode < FT_SIM_MODES; mode++) {
        uint64_t tokens[N], sum = 0;
        ft_sim_result a, b;
        ft_sim_opts opts = {.config = &c,
                            .mode = (ft_sim_mode)mode,
                            .class = FT_SIM_MIXED,
                            .n_devices = N,
                            .seed = 3,
                            .ramp_us = 1000000,
                            .from_us = 5000000,
                            .until_us = 60000000,
                            .tokens = tokens};
        assert_int_equal(ft_sim_wisp_run(&opts, NULL, &a), FT_OK);
        for (int i = 0; i < N; i++)
            sum += tokens[i];
        assert_int_equal(sum, a.tokens_all);
        assert_true(a.tokens > 0 && a.tokens < a.tokens_all);
        assert_true(a.busy_us <= 56000000 && a.accepted <= a.drafted);
        assert_true(a.most_rows <= 3300 && a.kv_blocks_least <= 18000);
        assert_int_equal(ft_sim_wisp_run(&opts, NULL, &b), FT_OK);
        assert_memory_equal(&a, &b, sizeof a);
        opts.seed = 4;
        assert_int_equal(ft_sim_wisp_run(&opts, NULL, &b), FT_OK);
        assert_memory_not_equal(&a, &b, sizeof a);
    }
}

/* A pool of two texts for twelve: KV gives way, everybody's text goes on. */
static void test_small_pool(void **state)
{
    ft_sim_config c = paper();
    uint64_t tokens[12];
    ft_sim_result r;
    (void)state;
    c.k[FT_SIM_KV_BLOCKS] = 260;
    for (int mode = 0; mode < FT_SIM_MODES; mode++) {
        const ft_sim_opts opts = {.config = &c,
                                  .mode = (ft_sim_mode)mode,
                                  .n_devices = 12,
                                  .until_us = 600000000,
                                  .tokens = tokens};
        assert_int_equal(ft_sim_wisp_run(&opts, NULL, &r), FT_OK);
        assert_true(r.kv_blocks_least < 260 && r.texts[0] > 0);
        assert_true(mode == FT_SIM_MODE_FCFS || r.kv_released > 0);
        for (int i = 0; i < 12; i++)
            assert_true(tokens[i] > 0);
    }
}

/* Three times as many devices as fit. Most texts are slow, unless some are refused. */
static void test_admission_keeps_promises(void **state)
{
    ft_sim_config c = paper();
    ft_sim_result all, some;
    ft_sim_opts opts = {.config = &c, .class = 3, .n_devices = 250, .seed = 1};
    (void)state;
    ft_sim_wisp_times(&opts);
    assert_int_equal(ft_sim_wisp_run(&opts, NULL, &all), FT_OK);
    assert_true(all.asked == 0 && 2 * all.slow[3] > all.texts[3]);
    c.k[FT_SIM_ADMISSION_MS] = 10000;
    assert_int_equal(ft_sim_wisp_run(&opts, NULL, &some), FT_OK);
    assert_true(some.refused > 0 && some.refused < some.asked);
    assert_true(20 * some.slow[3] < some.texts[3]);
    assert_true(5 * some.kept_tokens > 6 * all.kept_tokens);
}

static void test_refused(void **state)
{
    ft_sim_config c = exact();
    ft_sim_result r;
    ft_error err = {0};
    ft_sim_opts opts = {.config = &c, .n_devices = 1, .until_us = 1};
    (void)state;
    assert_int_equal(ft_sim_wisp_run(&opts, &err, &r), FT_OK);
    opts.n_devices = 0;
    assert_int_equal(ft_sim_wisp_run(&opts, &err, &r), FT_INVALID);
    opts.n_devices = 1;
    c.k[FT_SIM_KV_BLOCKS] = 1;
    assert_int_equal(ft_sim_wisp_run(&opts, &err, &r), FT_INVALID);
    assert_non_null(strstr(err.message, "kv_blocks"));
    c.k[FT_SIM_KV_BLOCKS] = 100;
    c.costs.us[FT_COST_ROW] = 1e8;
    assert_int_equal(ft_sim_wisp_run(&opts, &err, &r), FT_INVALID);
}

/* What is found is held, and one more is not; sharing work holds more than decoding for all, and
 * both more than reading every text again for every round. */
static void test_capacity(void **state)
{
    ft_sim_config c = paper();
    ft_sim_capacity found[FT_SIM_MODES];
    (void)state;
    c.k[FT_SIM_SEEDS] = 1;
    for (int mode = 0; mode < FT_SIM_MODES; mode++) {
        const ft_sim_search search = {
            .config = &c, .mode = (ft_sim_mode)mode, .class = 3, .seed = 1, .guess = 8};
        ft_sim_result r;
        ft_sim_opts opts = {.config = &c, .mode = (ft_sim_mode)mode, .class = 3, .seed = 1};
        assert_int_equal(ft_sim_wisp_capacity(&search, NULL, &found[mode]), FT_OK);
        assert_true(found[mode].n > 0 && found[mode].slow <= c.k[FT_SIM_EPSILON]);
        opts.n_devices = found[mode].n + 1;
        ft_sim_wisp_times(&opts);
        assert_int_equal(ft_sim_wisp_run(&opts, NULL, &r), FT_OK);
        assert_true((double)r.slow[3] > c.k[FT_SIM_EPSILON] * (double)r.texts[3]);
    }
    /* The paper's ratio at 8 tokens/s: 86 devices over 41. */
    assert_true(41 * found[FT_SIM_MODE_WISP].n >= 86 * found[FT_SIM_MODE_CENTRALIZED].n);
    assert_true(found[FT_SIM_MODE_CENTRALIZED].n > found[FT_SIM_MODE_FCFS].n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_centralized_by_hand),
        cmocka_unit_test(test_fcfs_by_hand),
        cmocka_unit_test(test_wisp_by_hand),
        cmocka_unit_test(test_one_group_by_hand),
        cmocka_unit_test(test_waits_for_drafts),
        cmocka_unit_test(test_late_by_hand),
        cmocka_unit_test(test_policy_keeps_deadlines),
        cmocka_unit_test(test_static_by_hand),
        cmocka_unit_test(test_deterministic_and_conserving),
        cmocka_unit_test(test_small_pool),
        cmocka_unit_test(test_admission_by_hand),
        cmocka_unit_test(test_admission_keeps_promises),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_capacity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
