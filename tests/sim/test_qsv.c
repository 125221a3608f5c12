// SPDX-License-Identifier: Apache-2.0
// Rounds on positions: a replay has the law of rounds that draw drafts; times and bits are those of
// eq. (7) to (9); each method drafts what it says; the table finds best ways and says which claims
// hold.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "sim/qsv_table.h"
#include "support/positions.h"
#include "support/stats.h"

/* 50 kbit/s, and a chain that is nearly always at one rate or the other. */
static ft_qsv_config config(void)
{
    return (ft_qsv_config){
        .k = {[FT_QSV_DRAFT_MS] = 4,
              [FT_QSV_VERIFY_MS] = 20,
              [FT_QSV_VERIFY_TOKEN_MS] = 0.5,
              [FT_QSV_RTT_MS] = 6,
              [FT_QSV_MESSAGE_BITS] = 80,
              [FT_QSV_DOWN_KBIT_S] = 100,
              [FT_QSV_PROBABILITY_BITS] = 32,
              [FT_QSV_LENGTH_MOST] = 12,
              [FT_QSV_HEURISTIC_START] = 4,
              [FT_QSV_HEURISTIC_STEP] = 2,
              [FT_QSV_WIDTH_MOST] = 3,
              [FT_QSV_REPLAYS] = 4},
        .l = {240, 720},
        .n_l = 2,
        .link = {{"constant", {.bits_per_s = {50e3}}},
                 {"chain", {.bits_per_s = {1e6, 10e6}, .step_ns = 1000000000, .stay = 0.95}}},
        .n_links = 2};
}

/* Positions that the config fits, and the config. */
typedef struct world {
    ft_qsv_config config;
    ft_positions positions;
    ft_qsv_setting setting;
} world;

static void world_init(world *w, const ft_positions *positions)
{
    w->config = config();
    w->positions = *positions;
    assert_int_equal(ft_qsv_setting_init(&w->config, &w->positions, NULL, &w->setting), FT_OK);
}

static void world_deinit(world *w)
{
    ft_positions_deinit(&w->positions);
}

/* ---- the law ---- */

enum { DEPTH = 5, TRIALS = 20000 };

/* Accepted tokens of a round of quantize, then sample, as edge and server would do it. */
static uint32_t real_round(ft_rng *rng, const made_place *at, uint32_t k, double l)
{
    uint32_t accepted = 0;
    for (; accepted < DEPTH; accepted++) {
        double point[MADE_TOKENS];
        for (uint32_t i = 0; i < MADE_TOKENS; i++)
            point[i] = at[accepted].count[k][i] / l;
        const uint32_t y = made_draw(rng, point, MADE_TOKENS);
        if (ft_rng_unit(rng) >= fmin(1, at[accepted].p[y] / point[y]))
            break;
    }
    return accepted;
}

/* Texts of the target at these places, for replays. */
static ft_positions texts_at(ft_rng *rng, const made_place *at)
{
    ft_positions all = made_positions(1, 1, 1);
    for (uint32_t t = 0; t < TRIALS; t++) {
        ft_positions_text *text;
        assert_int_equal(ft_positions_add(&all, DEPTH + 1, NULL, &text), FT_OK);
        for (uint32_t i = 0; i <= DEPTH; i++) {
            const uint32_t x = made_draw(rng, at[i].p, MADE_TOKENS);
            text->p[i] = (float)at[i].p[x];
            for (uint32_t k = 0; k < MADE_L; k++) {
                text->count[k * text->n + i] = (uint16_t)at[i].count[k][x];
                text->adaptive_bits[k * text->n + i] = 1;
            }
        }
    }
    return all;
}

/* A distribution of hard and easy places in each; l = 8 is where points are worst. */
static void test_law(void **state)
{
    made_place at[DEPTH + 1];
    world w;
    ft_rng rng;
    ft_rng_init(&rng, 11);
    for (uint32_t i = 0; i <= DEPTH; i++)
        made_place_draw(&rng, i % 2, &at[i]);
    const ft_positions positions = texts_at(&rng, at);
    world_init(&w, &positions);
    for (uint32_t k = 0; k < 2; k++) {
        double real[DEPTH + 1] = {0}, replayed[DEPTH + 1] = {0};
        double expected = 0, tokens = 0;
        const ft_qsv_draft draft = {.kind = FT_QSV_QS, .length = DEPTH, .width = 1};
        ft_qsv_walk walk;
        w.setting.row[0] = k; /* l = 8, 240 */
        w.config.l[0] = w.positions.l[k];
        ft_qsv_walk_init(&walk, &w.setting, &w.config.link[0], 5, 0);
        for (uint32_t t = 0; t < TRIALS; t++) {
            ft_qsv_round round;
            ft_qsv_walk_text(&walk, t + 2); /* behind the two that came with the header */
            ft_qsv_walk_round(&walk, &draft, &round);
            replayed[round.accepted]++;
            expected += round.expected;
            tokens += round.tokens;
            real[real_round(&rng, at, k, w.positions.l[k])]++;
        }
        /* Both are draws, so the statistic of one against the other is about twice as large. */
        for (uint32_t i = 0; i <= DEPTH; i++)
            replayed[i] = real[i] + (replayed[i] - real[i]) / sqrt(2);
        assert_true(ft_chi_square_p(replayed, real, DEPTH + 1) > 1e-4);
        assert_true(fabs(expected - tokens) < 0.02 * tokens);
        assert_true(real[0] > 0.2 * TRIALS && real[0] < 0.9 * TRIALS);
    }
    world_deinit(&w);
}

/* ---- one round ---- */

/* One text: positions where all is accepted, but the third and the sixth, which never are. */
static ft_positions plain_text(void)
{
    ft_positions all = made_positions(1, 1, 1);
    ft_positions_text *text;
    assert_int_equal(ft_positions_add(&all, 20, NULL, &text), FT_OK);
    for (uint32_t i = 0; i < text->n; i++) {
        const bool good = i != 2 && i != 5;
        text->p[i] = 0.5f;
        text->q[i] = good ? 0.5f : 0;
        text->top[i] = i < 4 ? 0.9f : 0.3f;
        text->rank[i] = i == 2 ? FT_POSITIONS_RANKS : i == 5 ? 1 : 0;
        for (uint32_t k = 0; k < MADE_L; k++) {
            text->count[k * text->n + i] = good ? (uint16_t)all.l[k] : 0;
            text->sq_accept[k * text->n + i] = good;
            text->adaptive_bits[k * text->n + i] = 100 + 10 * k + i;
        }
    }
    return all;
}

static void assert_close(double a, double b)
{
    if (fabs(a - b) > 1e-6 * (1 + fabs(b)))
        fail_msg("%.9g is not %.9g", a, b);
}

/* A round of this draft at position `at` of the text. */
static ft_qsv_round round_at(const world *w, ft_qsv_draft draft, uint32_t at)
{
    ft_qsv_walk walk;
    ft_qsv_round round;
    ft_qsv_walk_init(&walk, &w->setting, &w->config.link[0], 1, 0);
    ft_qsv_walk_text(&walk, 2);
    walk.at = at;
    ft_qsv_walk_round(&walk, &draft, &round);
    assert_int_equal(walk.at, at + round.tokens);
    assert_close((double)walk.now_ns / 1e6,
                 round.draft_ms + round.up_ms + round.verify_ms + round.down_ms);
    return round;
}

static void test_times(void **state)
{
    const ft_positions positions = plain_text();
    world w;
    world_init(&w, &positions);
    const uint32_t index = w.positions.index_bits[2];
    const ft_qsv_draft qs = {.kind = FT_QSV_QS, .length = 4, .i_l = 1, .width = 1};
    ft_qsv_round r = round_at(&w, qs, 0);
    assert_true(r.levels == 4 && r.nodes == 4 && r.accepted == 2 && r.tokens == 3);
    assert_close(r.bits, 80 + 4 * (16 + index)); /* 49,152 tokens: 16 bits */
    assert_close(r.draft_ms, 4 * 4);
    assert_close(r.up_ms, ceil(r.bits / 8) * 8 / 50); /* whole bytes at 50 kbit/s */
    assert_close(r.verify_ms, 20 + 4 * 0.5);
    assert_close(r.down_ms, 6 + (16 + 3) / 100.0); /* a token, and one of five numbers */
    assert_close(r.expected, 3);

    w.config.code = FT_QSV_CODE_ADAPTIVE;
    r = round_at(&w, qs, 3); /* third row: 120 and the position */
    assert_close(r.bits, 80 + 4 * 16 + 123 + 124 + 125 + 126);
    assert_int_equal(r.accepted, 2);
    w.config.code = FT_QSV_CODE_SHORTER; /* 16 bytes, and three of head and length */
    r = round_at(&w, qs, 3);
    assert_close(r.bits, 80 + 4 * (16 + 8 * (16 + 3)));
    w.config.code = FT_QSV_CODE_INDEX;

    ft_qsv_draft draft = qs;
    draft.kind = FT_QSV_SQ;
    r = round_at(&w, draft, 0);
    assert_true(r.accepted == 2);
    assert_close(r.bits, 80 + 4 * (16 + index)); /* equal bits */
    draft.kind = FT_QSV_WHOLE;
    r = round_at(&w, draft, 0);
    assert_close(r.bits, 80 + 4 * (16 + 32 * 49152.0));
    assert_int_equal(r.accepted, 2);
    world_deinit(&w);
}

/* Verifications may be given by nodes, as they were measured. */
static void test_measured_verification(void **state)
{
    static const double verify_ms[] = {7, 8, 11, 12, 30};
    const ft_qsv_link link = {.rate = {.bits_per_s = {50e3}}};
    const ft_positions positions = plain_text();
    world w;
    ft_qsv_walk walk;
    ft_qsv_round r;
    world_init(&w, &positions);
    w.setting.verify_ms = verify_ms;
    for (uint32_t n = 1; n <= 4; n++) {
        const ft_qsv_draft draft = {.kind = FT_QSV_EXACT, .length = n, .width = 1};
        assert_close(round_at(&w, draft, 0).verify_ms, verify_ms[n]);
    }
    ft_qsv_walk_init(&walk, &w.setting, &link, 1, 0);
    ft_qsv_walk_plain(&walk, &r);
    assert_close(r.verify_ms, 7);
    world_deinit(&w);
}

/* A policy sees what an edge knows: of drafted tokens and of the one that came instead of a
 * rejected one what the points say, of the token behind a whole chain nothing. */
static void test_what_a_policy_sees(void **state)
{
    const ft_positions positions = plain_text();
    static const float seen[] = {1, 1, 0, 1, -1, 0, 1, -1, -1};
    static const uint32_t length[] = {4, 1, 3, 1};
    ft_qsv_walk walk;
    ft_qsv_round round;
    world w;
    world_init(&w, &positions);
    ft_qsv_walk_init(&walk, &w.setting, &w.config.link[0], 1, 0);
    ft_qsv_walk_text(&walk, 2);
    assert_int_equal(walk.past.n, 0);
    for (uint32_t i = 0; i < FT_COUNT(length); i++) {
        const ft_qsv_draft qs = {.kind = FT_QSV_QS, .length = length[i], .i_l = i % 2, .width = 1};
        ft_qsv_walk_round(&walk, &qs, &round); /* 2, 1, 0 and 1 are accepted */
    }
    ft_qsv_walk_plain(&walk, &round);
    assert_int_equal(walk.past.n, FT_COUNT(seen));
    assert_int_equal(walk.at, FT_COUNT(seen));
    for (uint32_t i = 0; i < FT_COUNT(seen); i++)
        assert_close((double)walk.past.confidence[i], (double)seen[i]);
    ft_qsv_walk_text(&walk, 2);
    assert_int_equal(walk.past.n, 0);
    world_deinit(&w);
}

static void test_exact(void **state)
{
    const ft_positions positions = plain_text();
    world w;
    world_init(&w, &positions);
    const ft_qsv_draft chain = {.kind = FT_QSV_EXACT, .length = 6, .width = 1};
    const ft_qsv_draft tree = {.kind = FT_QSV_EXACT, .length = 6, .width = 2};
    ft_qsv_round r = round_at(&w, chain, 0);
    assert_true(r.nodes == 6 && r.accepted == 2 && r.tokens == 3);
    assert_close(r.bits, 80 + 6 * 16);
    r = round_at(&w, tree, 0); /* position 2 is among nobody's children */
    assert_true(r.levels == 6 && r.nodes == 12 && r.accepted == 2 && r.tokens == 3);
    assert_close(r.bits, 80 + 12 * 16);
    assert_close(r.draft_ms, 6 * 4); /* a forward of the draft model a level */
    assert_close(r.verify_ms, 20 + 12 * 0.5);
    r = round_at(&w, chain, 3); /* position 5 is the second child, which has no children */
    assert_true(r.accepted == 2 && r.tokens == 3);
    r = round_at(&w, tree, 3);
    assert_true(r.accepted == 3 && r.tokens == 4);
    assert_close(r.expected, 4);
    world_deinit(&w);
}

static void test_end_of_text(void **state)
{
    const ft_positions positions = plain_text();
    world w;
    world_init(&w, &positions);
    const ft_qsv_draft draft = {.kind = FT_QSV_QS, .length = 4, .width = 1};
    ft_qsv_round r = round_at(&w, draft, 15); /* five left: four, and the target's own */
    assert_true(r.levels == 4 && r.accepted == 4 && r.tokens == 5);
    assert_close(r.expected, 5);
    r = round_at(&w, draft, 16); /* nothing is left behind the draft */
    assert_true(r.levels == 4 && r.accepted == 4 && r.tokens == 4);
    assert_close(r.expected, 4);
    r = round_at(&w, draft, 19);
    assert_true(r.levels == 1 && r.tokens == 1);
    world_deinit(&w);
}

static void test_threshold(void **state)
{
    const ft_positions positions = plain_text();
    world w;
    world_init(&w, &positions);
    ft_qsv_draft draft = {.kind = FT_QSV_QS, .length = 8, .width = 1, .threshold = 0.5};
    assert_int_equal(round_at(&w, draft, 0).levels, 4); /* unsure from position 4 on */
    assert_int_equal(round_at(&w, draft, 6).levels, 1); /* one in any case */
    draft.threshold = 0.2;
    assert_int_equal(round_at(&w, draft, 0).levels, 8);
    world_deinit(&w);
}

/* ---- ways ---- */

static ft_qsv_result run(const world *w, const ft_qsv_way *way, const uint32_t *texts, size_t n)
{
    const ft_qsv_opts opts = {.setting = &w->setting,
                              .link = &w->config.link[0],
                              .texts = texts,
                              .n_texts = n,
                              .replays = 2,
                              .seed = 1};
    ft_qsv_result r;
    ft_qsv_run(&opts, way, &r);
    return r;
}

static void test_ways(void **state)
{
    const uint32_t texts[] = {2};
    const ft_positions positions = plain_text();
    world w;
    world_init(&w, &positions);
    /* Without drafts: 20 ms a token; 0.16 ms down are over in the meantime. */
    ft_qsv_result r = run(&w, &(ft_qsv_way){.method = FT_QSV_METHOD_PLAIN}, texts, 1);
    assert_int_equal(r.tokens, 40);
    assert_close(ft_qsv_tokens_per_s(&r), 50);
    /* Of 4 tokens 2 are accepted, then all of 2, of 4, of 6, and of the 2 that are left of 8. */
    r = run(&w, &(ft_qsv_way){.method = FT_QSV_METHOD_HEURISTIC, .length = 4}, texts, 1);
    assert_true(r.tokens == 40 && r.rounds == 2 * 5);
    assert_true(r.levels == 2 * (4 + 2 + 4 + 6 + 2) && r.accepted == 2 * (2 + 2 + 4 + 6 + 2));
    r = run(&w, &(ft_qsv_way){.method = FT_QSV_METHOD_FIXED, .length = 3, .i_l = 1}, texts, 1);
    assert_true(r.tokens == 40 && r.l_sum == 720 * r.nodes);
    world_deinit(&w);
}

/* The policy chooses by what it sees: the rate at this moment. */
static void test_policy_and_chain(void **state)
{
    const ft_positions made = made_positions(3, 40, 50);
    const ft_policy like = {.n_lengths = 12, .n_l = 2, .l = {240, 720}};
    ft_policy policy;
    uint32_t texts[80];
    world w;
    for (uint32_t i = 0; i < 80; i++)
        texts[i] = i;
    world_init(&w, &made);
    assert_int_equal(ft_policy_init(&like, NULL, &policy), FT_OK);
    assert_int_equal(ft_qsv_check_policy(&w.config, &policy, NULL), FT_OK);
    /* The rate's first unit: 1 at 10 Mbit/s, 0 at 1 Mbit/s. It decides between 1 and 3 tokens. */
    const uint32_t unit = FT_POLICY_BY_TOKEN + FT_POLICY_BY_MEAN;
    policy.net.weight[0][(FT_POLICY_INPUTS - 1) * policy.net.shape.width[1] + unit] = 1;
    policy.net.weight[1][unit * FT_POLICY_TRUNK] = 1;
    policy.net.weight[2][2 * 2] = 1;
    policy.net.bias[2][0] = 0.5f;
    const ft_qsv_opts opts = {.setting = &w.setting,
                              .link = &w.config.link[1],
                              .texts = texts,
                              .n_texts = 80,
                              .replays = 20,
                              .seed = 1};
    ft_qsv_result r;
    ft_qsv_run(&opts, &(ft_qsv_way){.method = FT_QSV_METHOD_POLICY, .policy = &policy}, &r);
    assert_int_equal(r.tokens, 20 * 80 * 50);
    /* Half of the time at each rate; a text's end cuts some drafts. */
    const double mean = (double)r.levels / (double)r.rounds;
    assert_true(mean > 1.6 && mean < 2.4);
    policy.l[0] = 241;
    assert_int_equal(ft_qsv_check_policy(&w.config, &policy, NULL), FT_INVALID);
    ft_policy_deinit(&policy);
    world_deinit(&w);
}

/* ---- the table ---- */

static const ft_qsv_claim *claim_of(const ft_qsv_table *table, const char *what)
{
    for (size_t i = 0; i < table->n_claims; i++)
        if (strstr(table->claims[i].name, what))
            return &table->claims[i];
    fail_msg("there is no claim that says: %s", what);
    return NULL;
}

static void test_table(void **state)
{
    const ft_positions made = made_positions(1, 6, 60);
    ft_policy policy;
    const ft_policy like = {.n_lengths = 12, .n_l = 2, .l = {240, 720}};
    ft_qsv_table table[2];
    world w;
    world_init(&w, &made);
    assert_int_equal(ft_policy_init(&like, NULL, &policy), FT_OK);
    policy.net.bias[2][2 * 11] = 1; /* always 12 tokens */
    const ft_qsv_table_opts opts = {
        .config = &w.config, .positions = &w.positions, .policy = &policy, .seed = 1};
    for (int i = 0; i < 2; i++)
        assert_int_equal(ft_qsv_table_make(&opts, NULL, &table[i]), FT_OK);
    assert_int_equal(table[0].n_points, 2 * 2 * FT_QSV_METHODS);
    assert_memory_equal(table[0].points, table[1].points,
                        table[0].n_points * sizeof *table->points);
    for (size_t i = 0; i < table[0].n_points; i++)
        assert_int_equal(table[0].points[i].sum.tokens, 4 * 6 * 60);
    for (uint32_t link = 0; link < 2; link++) {
        const ft_qsv_point *fixed = ft_qsv_table_find(&table[0], 1, link, FT_QSV_METHOD_FIXED);
        const ft_qsv_point *always = ft_qsv_table_find(&table[0], 1, link, FT_QSV_METHOD_POLICY);
        const ft_qsv_point *sq = ft_qsv_table_find(&table[0], 1, link, FT_QSV_METHOD_SQ);
        assert_true(fixed->tokens_per_s >= always->tokens_per_s);
        assert_true(sq->way.length == fixed->way.length && sq->way.i_l == fixed->way.i_l);
        assert_true(ft_qsv_table_find(&table[0], 1, link, FT_QSV_METHOD_TREE)->tokens_per_s >
                    ft_qsv_table_find(&table[0], 1, link, FT_QSV_METHOD_CHAIN)->tokens_per_s);
    }
    /* 12 tokens take far too long, and the claim says why. */
    const ft_qsv_claim *worse = claim_of(&table[0], "chain: policy above every fixed pair");
    assert_true(!worse->holds && worse->margin < 0 && strstr(worse->reason, "uplink"));
    assert_false(claim_of(&table[0], "constant uplinks: policy")->holds);
    assert_true(claim_of(&table[0], "quantize, then sample keeps")->holds);
    assert_true(claim_of(&table[0], "sample, then quantize does not")->holds);
    assert_true(ft_qsv_law(&w.positions, 1, 0, true) > ft_qsv_law(&w.positions, 1, 1, true));
    for (int i = 0; i < 2; i++)
        ft_qsv_table_deinit(&table[i]);
    ft_policy_deinit(&policy);
    world_deinit(&w);
}

static bool stop_at_once(void)
{
    return true;
}

static void test_what_does_not_fit(void **state)
{
    const ft_positions made = made_positions(1, 1, 5);
    ft_error err = {0};
    ft_qsv_table table;
    world w;
    world_init(&w, &made);
    ft_qsv_table_opts opts = {.config = &w.config, .positions = &w.positions, .stop = stop_at_once};
    assert_int_equal(ft_qsv_table_make(&opts, &err, &table), FT_CANCELLED);
    assert_null(table.points);
    opts.stop = NULL;
    w.config.l[1] = 719;
    assert_int_equal(ft_qsv_table_make(&opts, &err, &table), FT_INVALID);
    assert_non_null(strstr(err.message, "719"));
    w.config.l[1] = 720;
    w.positions.temperature[w.positions.n_temperatures++] = 2;
    assert_int_equal(ft_qsv_table_make(&opts, &err, &table), FT_INVALID);
    assert_non_null(strstr(err.message, "temperature 2"));
    world_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_law),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_measured_verification),
        cmocka_unit_test(test_what_a_policy_sees),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_end_of_text),
        cmocka_unit_test(test_threshold),
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_policy_and_chain),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
