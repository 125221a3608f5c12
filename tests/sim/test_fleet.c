// SPDX-License-Identifier: Apache-2.0
// Fleets: cases small enough to work out by hand, and what must hold of any.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/fleet_search.h"
#include "sim/wisp_internal.h"

/* A pass takes 5 ms and 1 ms a row; drafting a token 10 ms. */
static ft_fleet_config small(void)
{
    ft_fleet_config c = {.server = {.n_classes = 2, .tokens_per_s = {5, 20}}};
    double *k = c.server.k;
    c.server.costs.us[FT_COST_PASS] = 5000;
    c.server.costs.us[FT_COST_ROW] = 1000;
    k[FT_SIM_DRAFT_PER_S] = 100;
    k[FT_SIM_ACCEPT] = 0.7;
    k[FT_SIM_PREDICTOR_KEEPS] = 1;
    k[FT_SIM_DRAFT_MOST] = 3;
    k[FT_SIM_RTT_MS] = 5;
    k[FT_SIM_JITTER_MS] = 1;
    k[FT_SIM_PROMPT_TOK] = 20;
    k[FT_SIM_RESPONSE_TOK] = 12;
    k[FT_SIM_MAX_ROWS] = 100;
    k[FT_SIM_MAX_SESSIONS] = 100;
    k[FT_SIM_KV_BLOCKS] = 1000;
    k[FT_SIM_PREFILL_MS] = 50;
    k[FT_SIM_EPSILON] = 0.05;
    c.k[FT_FLEET_TURNS] = 2;
    c.k[FT_FLEET_THINK_S] = 0.5;
    c.k[FT_FLEET_RING_POINTS] = 100;
    c.k[FT_FLEET_NOTICE_MS] = 100;
    c.k[FT_FLEET_RECONNECT_MS] = 1500;
    c.k[FT_FLEET_RAMP_S] = 1;
    c.k[FT_FLEET_MEASURE_S] = 6;
    c.k[FT_FLEET_LOST_S] = 2;
    c.k[FT_FLEET_ADDED_S] = 4;
    return c;
}

static ft_fleet_opts opts_of(const ft_fleet_config *c, ft_fleet_assign assign, uint32_t n_devices,
                             uint32_t n_servers)
{
    return (ft_fleet_opts){.config = c,
                           .assign = assign,
                           .n_devices = n_devices,
                           .n_servers = n_servers,
                           .seed = 5,
                           .n_threads = 2};
}

static ft_fleet_result run(const ft_fleet_opts *opts)
{
    ft_fleet_result r;
    ft_error err = {0};
    if (ft_fleet_run(opts, &err, &r) != FT_OK)
        fail_msg("%s", err.message);
    return r;
}

static ft_fleet_part all_of(const ft_fleet_result *r)
{
    ft_fleet_part all = {0};
    for (int i = 0; i < FT_FLEET_PARTS; i++)
        ft_fleet_part_add(&all, &r->part[i]);
    return all;
}

/* A prompt of 20 tokens and 12 of text are a turn: the next one's prompt has 32 tokens of before,
 * or 64. Of them all but the last one were computed, and full blocks are kept: 16, or 48. */
static void test_prefixes_by_hand(void **state)
{
    const ft_fleet_config c = small();
    const ft_fleet_opts opts = opts_of(&c, FT_FLEET_RING, 40, 3);
    const ft_fleet_result r = run(&opts);
    const ft_fleet_part all = all_of(&r);
    (void)state;
    assert_true(all.before_tok > 100 * 32 && all.before_tok % 32 == 0);
    assert_int_equal((all.before_tok - all.found_tok) % 16, 0);
    assert_true(all.found_tok * 2 > all.before_tok && all.found_tok * 4 < all.before_tok * 3);
    /* no second turn, nothing to be found */
    ft_fleet_config one = c;
    one.k[FT_FLEET_TURNS] = 1;
    const ft_fleet_opts of_one = opts_of(&one, FT_FLEET_RING, 40, 3);
    const ft_fleet_result without = run(&of_one);
    assert_true(all_of(&without).before_tok == 0 && all_of(&without).ended > 100);
}

/* By chance the server of the last turn is chosen one time in 8, and one of the last two servers
 * two times in 8. */
static void test_prefixes_at_random(void **state)
{
    const ft_fleet_config c = small();
    (void)state;
    for (int how = 0; how < FT_FLEET_ASSIGNS; how++) {
        const ft_fleet_opts opts = opts_of(&c, (ft_fleet_assign)how, 300, 8);
        const ft_fleet_result r = run(&opts);
        const ft_fleet_part all = all_of(&r);
        const double found = ft_fleet_found_share(&all);
        if (how == FT_FLEET_RING)
            assert_true(found > 0.5);
        else
            assert_true(found > 0.04 && found < 0.2);
    }
}

/* Each text that a user asked for has ended, was given up, or is unfinished; whatever happens. */
static void test_texts_are_conserved(void **state)
{
    ft_fleet_config c = small();
    (void)state;
    for (int how = 0; how < 2 * FT_FLEET_ASSIGNS; how++) {
        c.server.k[FT_SIM_ADMISSION_MS] = how < FT_FLEET_ASSIGNS ? 0 : 1500;
        c.server.k[FT_SIM_KV_BLOCKS] = how < FT_FLEET_ASSIGNS ? 1000 : 50;
        ft_fleet_opts opts = opts_of(&c, (ft_fleet_assign)(how % FT_FLEET_ASSIGNS), 300, 3);
        opts.accident = true;
        const ft_fleet_result r = run(&opts);
        const ft_fleet_part all = all_of(&r);
        uint64_t given_up = 0, judged = 0;
        for (int i = 0; i < FT_SIM_CLASSES; i++) {
            given_up += all.given_up[i];
            judged += all.r.texts[i];
            assert_true(all.r.slow[i] <= all.r.texts[i]);
        }
        assert_true(all.ended > 100 && r.unfinished <= 300);
        assert_int_equal(all.begun, all.ended + given_up + r.unfinished);
        assert_true(judged <= all.ended + r.unfinished);
        assert_true(all.found_tok <= all.before_tok);
        assert_int_equal(given_up > 0, how >= FT_FLEET_ASSIGNS);
        assert_true(r.part[FT_FLEET_PART_LOST].moved > 0);
        assert_int_equal(all.moved, r.part[FT_FLEET_PART_LOST].moved);
    }
}

/* A server is lost where nothing is late: its texts go on elsewhere, and its chats' KV is gone. */
static void test_lost_server(void **state)
{
    const ft_fleet_config c = small();
    ft_fleet_opts opts = opts_of(&c, FT_FLEET_RING, 60, 4);
    (void)state;
    const ft_fleet_result without = run(&opts);
    opts.accident = true;
    const ft_fleet_result with = run(&opts);
    const ft_fleet_part *lost = &with.part[FT_FLEET_PART_LOST];
    assert_int_equal(without.part[FT_FLEET_PART_LOST].ended, 0);
    assert_memory_equal(&without.part[FT_FLEET_PART_RAMP], &with.part[FT_FLEET_PART_RAMP],
                        sizeof *lost);
    assert_true(lost->moved > 0 && lost->moved < 60 / 2);
    assert_true(ft_fleet_found_share(lost) <
                ft_fleet_found_share(&with.part[FT_FLEET_PART_BEFORE]));
    assert_true(with.part[FT_FLEET_PART_AFTER].ended > 60);
}

/* Texts of 300 tokens, all of which are open when one of two servers is lost; the other one has
 * room for some of its texts. Nobody asks for a new text. */
static ft_fleet_config full(double reconnect_ms)
{
    ft_fleet_config c = small();
    c.server.k[FT_SIM_RESPONSE_TOK] = 300;
    c.server.k[FT_SIM_KV_BLOCKS] = 22;
    c.server.k[FT_SIM_ADMISSION_MS] = 500;
    c.k[FT_FLEET_TURNS] = 1;
    c.k[FT_FLEET_THINK_S] = 1e5;
    c.k[FT_FLEET_RECONNECT_MS] = reconnect_ms;
    c.k[FT_FLEET_MEASURE_S] = 8;
    c.k[FT_FLEET_LOST_S] = 1;
    c.k[FT_FLEET_ADDED_S] = 7.9;
    return c;
}

static uint64_t given_up(const ft_fleet_part *part)
{
    return part->given_up[0] + part->given_up[1];
}

/* A text that had begun waits reconnect_ms for room, from the loss on. */
static void test_moved_texts_wait(void **state)
{
    uint64_t lost[2], unfinished[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        const ft_fleet_config c = full(i == 0 ? 2000 : 1e6);
        ft_fleet_opts opts = opts_of(&c, FT_FLEET_RING, 24, 2);
        opts.accident = true;
        const ft_fleet_result r = run(&opts);
        const ft_fleet_part *part = &r.part[FT_FLEET_PART_LOST];
        assert_true(part->moved > 0 && part->begun == 0);
        lost[i] = given_up(part);
        unfinished[i] = r.unfinished;
    }
    assert_true(lost[0] > 0);
    assert_int_equal(lost[1], 0);
    assert_int_equal(unfinished[1], unfinished[0] + lost[0]);
}

/* A text that a server had opened is asked for once more when its time is over. Of the texts that
 * wait, only a moved one is late from its first request on. */
static void test_patience(void **state)
{
    const ft_fleet_config c = small();
    ft_sim_result out = {0};
    const ft_sim_opts times = {0};
    device d = {.speed = 5, .response = 12, .patience_us = 10500000};
    sim s = {.k = c.server.k, .devices = &d, .out = &out, .opts = &times};
    bool again;
    (void)state;
    s.now_us = 9000000;
    assert_int_equal(ft_sim_device_refused(&s, 0, &again), 1000000);
    assert_true(again && !d.running);
    s.now_us = 10000000; /* half a second is left */
    assert_int_equal(ft_sim_device_refused(&s, 0, &again), 2400000);
    assert_true(!again && out.refused == 1);
    d.taken = d.moved = true;
    assert_int_equal(ft_sim_device_refused(&s, 0, &again), 500000);
    assert_true(again && d.running);
    s.now_us = 10500000;
    (void)ft_sim_device_refused(&s, 0, &again);
    assert_true(!again && !d.running && out.refused == 2);
}

/* The KV of a text that goes on has prompt and text so far. */
static void test_admission_counts_the_text(void **state)
{
    const ft_fleet_config c = small();
    double k[FT_SIM_CONSTS];
    device d = {.speed = 5, .prompt = 20};
    ft_cost cost;
    memcpy(k, c.server.k, sizeof k);
    k[FT_SIM_KV_BLOCKS] = 10;
    sim s = {.k = k, .cost = &cost, .devices = &d};
    (void)state;
    ft_cost_init(&cost);
    ft_cost_prime(&cost, c.server.costs.us, c.server.costs.error);
    ft_gain_init(&s.usual_gain, NULL);
    assert_true(ft_sim_admits(&s, &d));
    d.done = 600; /* 620 tokens and a draft are 40 blocks, four times the pool: the most */
    assert_true(ft_sim_admits(&s, &d));
    d.done = 620;
    assert_false(ft_sim_admits(&s, &d));
}

static void test_threads_change_nothing(void **state)
{
    ft_fleet_config c = small();
    c.server.k[FT_SIM_ADMISSION_MS] = 500;
    (void)state;
    for (int how = 0; how < FT_FLEET_ASSIGNS; how++) {
        ft_fleet_opts opts = opts_of(&c, (ft_fleet_assign)how, 200, 5);
        opts.accident = true;
        opts.n_threads = 1;
        const ft_fleet_result one = run(&opts);
        opts.n_threads = 3;
        const ft_fleet_result three = run(&opts);
        for (int i = 0; i < FT_FLEET_PARTS; i++) {
            assert_int_equal(one.part[i].ended, three.part[i].ended);
            assert_int_equal(one.part[i].found_tok, three.part[i].found_tok);
            assert_int_equal(one.part[i].r.tokens_all, three.part[i].r.tokens_all);
            assert_int_equal(one.part[i].r.busy_us, three.part[i].r.busy_us);
        }
        opts.seed++;
        const ft_fleet_result other = run(&opts);
        assert_int_not_equal(all_of(&one).r.busy_us, all_of(&other).r.busy_us);
    }
}

/* One server whose users ask at once for one text after another is simulate wisp's. */
static void test_one_server_is_wisps(void **state)
{
    ft_fleet_config c = small();
    ft_sim_result wisp;
    ft_error err = {0};
    c.k[FT_FLEET_TURNS] = 1;
    c.k[FT_FLEET_THINK_S] = 1e-3;
    const ft_fleet_opts opts = opts_of(&c, FT_FLEET_RANDOM, 12, 1);
    const ft_sim_opts of_wisp = {.config = &c.server,
                                 .class = FT_SIM_MIXED,
                                 .n_devices = 12,
                                 .seed = 5,
                                 .ramp_us = 1000000,
                                 .from_us = 1000000,
                                 .until_us = 7000000};
    (void)state;
    const ft_fleet_result r = run(&opts);
    assert_int_equal(ft_sim_wisp_run(&of_wisp, &err, &wisp), FT_OK);
    const double ratio = (double)r.part[FT_FLEET_PART_BEFORE].r.tokens / (double)wisp.tokens;
    assert_true(ratio > 0.95 && ratio < 1.05);
}

/* The fewest that are enough: one fewer is not. */
static bool count_tries(void *ctx, const ft_fleet_search *search, uint32_t n_servers)
{
    return (*(int *)ctx)-- > 0;
}

static void test_needed(void **state)
{
    const ft_fleet_config c = small();
    int tries = 50;
    ft_fleet_search search = {
        .opts = opts_of(&c, FT_FLEET_RING, 150, 0), .trying = count_tries, .ctx = &tries};
    uint32_t n = 0, again = 0;
    ft_fleet_result r;
    ft_error err = {0};
    (void)state;
    assert_int_equal(ft_fleet_needed(&search, &err, &n, &r), FT_OK);
    assert_true(n > 1 && n < 150);
    assert_true(ft_fleet_late_share(&r.part[FT_FLEET_PART_BEFORE]) <= 0.05);
    ft_fleet_opts fewer = opts_of(&c, FT_FLEET_RING, 150, n - 1);
    r = run(&fewer);
    assert_true(ft_fleet_late_share(&r.part[FT_FLEET_PART_BEFORE]) > 0.05);
    for (search.guess = n > 2 ? n - 2 : 1; search.guess <= n + 2; search.guess += 2) {
        assert_int_equal(ft_fleet_needed(&search, &err, &again, &r), FT_OK);
        assert_int_equal(again, n);
    }
    tries = 1;
    assert_int_equal(ft_fleet_needed(&search, &err, &again, &r), FT_CANCELLED);
    ft_fleet_config never = c;
    never.server.tokens_per_s[1] = 1000; /* more than a device drafts */
    tries = 50;
    search.guess = 0;
    search.opts = opts_of(&never, FT_FLEET_RING, 10, 0);
    assert_int_equal(ft_fleet_needed(&search, &err, &again, &r), FT_EXHAUSTED);
}

/* If a server is lost, only its own keys move; each has about its part. */
static void test_ring(void **state)
{
    enum { N = 10, KEYS = 20000 };
    ft_fleet_servers s;
    ft_rng rng;
    uint32_t alive[N], load[N] = {0}, before[KEYS], got[N] = {0}, moved = 0;
    (void)state;
    ft_rng_init(&rng, 1);
    assert_int_equal(ft_fleet_servers_init(&s, N, 100, NULL), FT_OK);
    for (uint32_t i = 0; i < N; i++)
        alive[i] = i;
    ft_fleet_servers_set(&s, alive, N);
    for (uint32_t i = 0; i < KEYS; i++) {
        before[i] = ft_fleet_choose(&s, FT_FLEET_RING, ft_fleet_hash(i), load, &rng);
        got[before[i]]++;
    }
    for (uint32_t i = 0; i < N; i++)
        assert_in_range(got[i], KEYS / N / 2, KEYS / N * 2);
    alive[3] = N - 1;
    ft_fleet_servers_set(&s, alive, N - 1);
    for (uint32_t i = 0; i < KEYS; i++) {
        uint32_t now = ft_fleet_choose(&s, FT_FLEET_RING, ft_fleet_hash(i), load, &rng);
        moved += now != before[i];
        assert_true(now != 3 && (before[i] == 3 || now == before[i]));
    }
    assert_int_equal(moved, got[3]);
    ft_fleet_servers_deinit(&s);
}

/* Least load never takes the busiest of three, unless both looks fall on it. */
static void test_least(void **state)
{
    ft_fleet_servers s;
    ft_rng rng;
    uint32_t alive[3] = {0, 1, 2}, load[3] = {1, 9, 2}, got[3] = {0}, even[3] = {0};
    (void)state;
    ft_rng_init(&rng, 1);
    assert_int_equal(ft_fleet_servers_init(&s, 3, 1, NULL), FT_OK);
    ft_fleet_servers_set(&s, alive, 3);
    for (int i = 0; i < 9000; i++) {
        got[ft_fleet_choose(&s, FT_FLEET_LEAST, 0, load, &rng)]++;
        even[ft_fleet_choose(&s, FT_FLEET_RANDOM, 0, load, &rng)]++;
    }
    assert_in_range(got[0], 4800, 5200); /* 5/9 */
    assert_in_range(got[1], 850, 1150);  /* 1/9 */
    assert_in_range(even[1], 2850, 3150);
    ft_fleet_servers_deinit(&s);
}

static void test_refused(void **state)
{
    ft_fleet_config c = small();
    ft_fleet_result r;
    ft_error err = {0};
    ft_fleet_opts opts = opts_of(&c, FT_FLEET_RING, 0, 1);
    (void)state;
    assert_int_equal(ft_fleet_run(&opts, &err, &r), FT_INVALID);
    opts = opts_of(&c, FT_FLEET_RING, 1, 0);
    assert_int_equal(ft_fleet_run(&opts, &err, &r), FT_INVALID);
    opts = opts_of(&c, FT_FLEET_RING, 1, 1);
    opts.accident = true;
    assert_int_equal(ft_fleet_run(&opts, &err, &r), FT_INVALID);
    assert_non_null(strstr(err.message, "at least 2"));
    c.server.k[FT_SIM_KV_BLOCKS] = 6; /* three turns are 96 tokens, and a draft */
    opts.accident = false;
    assert_int_equal(ft_fleet_run(&opts, &err, &r), FT_INVALID);
    assert_non_null(strstr(err.message, "kv_blocks"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_prefixes_by_hand),
                                       cmocka_unit_test(test_prefixes_at_random),
                                       cmocka_unit_test(test_texts_are_conserved),
                                       cmocka_unit_test(test_lost_server),
                                       cmocka_unit_test(test_moved_texts_wait),
                                       cmocka_unit_test(test_patience),
                                       cmocka_unit_test(test_admission_counts_the_text),
                                       cmocka_unit_test(test_threads_change_nothing),
                                       cmocka_unit_test(test_one_server_is_wisps),
                                       cmocka_unit_test(test_needed),
                                       cmocka_unit_test(test_ring),
                                       cmocka_unit_test(test_least),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
