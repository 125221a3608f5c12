// SPDX-License-Identifier: Apache-2.0
// The prefix cache as sessions see it: a chat's next turn pays for what is new only, the text is
// the same with and without the cache, and nobody learns from it what another tenant asked.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/local_client.h"
#include "support/target.h"

#define BLOCK  16
#define TURNS  4
#define ASKED  50 /* tokens that the user adds a turn */
#define ANSWER 40

/* What an open costs: tokens that the cache had, rows of prompt that were computed. */
typedef struct cost {
    uint32_t cached, computed;
} cost;

/* A whole text in a session of its own. */
static cost turn(ft_verifier *v, test_text *text, const char *credential, test_style style)
{
    test_edge edge = test_edge_make(style, NULL, target.n_vocab, 1);
    ft_msg_open open = local_open_msg(text, 0.7f, 5, ANSWER);
    ft_verifier_stats before = test_verifier_stats(v);
    local_client c;
    uint32_t rows = 0;
    local_open(&c, v, &open, credential);
    local_wait_opened(&c);
    while (text->finish == FT_FINISH_NONE) {
        assert_true(local_round(&c, &edge, text));
        rows += c.draft.n;
    }
    rows += c.n_verdicts; /* each pass has a root */
    local_close(&c);
    ft_verifier_stats after = test_verifier_stats(v);
    return (cost){c.opened.cached_tokens, (uint32_t)(after.passes.sum - before.passes.sum) - rows};
}

/* The user's next words behind the text. */
static void ask(test_text *text, uint64_t seed)
{
    test_text more;
    test_text_random(&more, ASKED, seed);
    memcpy(text->token + text->n, more.token, ASKED * sizeof more.token[0]);
    text->n += ASKED;
    text->n_prompt = text->n;
    text->rounds = 0;
    text->finish = FT_FINISH_NONE;
}

/* What the user says in each turn so that the answer is clear. */
static void find_clear_turns(uint64_t seed[TURNS])
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    static test_text text, before;
    ft_msg_open open;
    memset(&text, 0, sizeof text);
    for (uint64_t i = 0; i < TURNS; i++) {
        before = text;
        seed[i] = i;
        do {
            text = before;
            ask(&text, seed[i] += TURNS);
            open = local_open_msg(&text, 0.7f, 5, ANSWER);
        } while (!test_prompt_clear(&text, &open.sampling, ANSWER));
        (void)turn(v, &text, "me", TEST_DRAFT_NONE);
    }
    ft_verifier_destroy(v);
}

static void test_next_turn_pays_for_what_is_new(void **state)
{
    static test_text text[2];
    uint64_t seed[TURNS];
    (void)state;
    find_clear_turns(seed);
    for (int style = 0; style < TEST_DRAFT_STYLES; style++) {
        for (int off = 0; off < 2; off++) {
            ft_verifier *v = test_verifier_start((ft_verifier_opts){.no_prefix_cache = off});
            uint32_t had = 0; /* tokens that were computed in the turn before */
            memset(&text[off], 0, sizeof text[off]);
            for (uint64_t i = 0; i < TURNS; i++) {
                ask(&text[off], seed[i]);
                uint32_t n = text[off].n;
                cost paid = turn(v, &text[off], "me", (test_style)style);
                assert_int_equal(paid.cached, off ? 0 : had / BLOCK * BLOCK);
                assert_int_equal(paid.computed, n - 1 - paid.cached);
                had = text[off].n - 1; /* a text's last token never is */
            }
            ft_verifier_stats s = test_verifier_stats(v);
            assert_int_equal(s.prefix_hit_tok > 0, !off);
            assert_int_equal(s.kv_blocks_cached > 0, !off);
            test_verifier_expect_empty(v); /* what is cached is free */
            ft_verifier_destroy(v);
        }
        assert_true(test_text_equal(&text[0], &text[1]));
    }
}

static void test_hit_rate_is_counted(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    test_text text;
    (void)state;
    for (int i = 0; i < 3; i++) {
        test_text_random(&text, 101, 3);
        (void)turn(v, &text, "me", TEST_DRAFT_NONE);
    }
    ft_verifier_stats s = test_verifier_stats(v);
    assert_int_equal(s.prefix_lookup_tok, 300);
    assert_int_equal(s.prefix_hit_tok, 2 * 96);
    ft_verifier_destroy(v);
}

/* Same prompt, other credential: nothing is found, whoever came before; without a credential all
 * are one tenant. */
static void test_tenants_are_apart(void **state)
{
    static const struct {
        const char *credential;
        bool known;
    } opens[] = {{"me", false}, {"you", false}, {"me", true},  {"", false},
                 {"", true},    {"mf", false},  {"you", true}, {NULL, true}};
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    (void)state;
    for (size_t i = 0; i < sizeof opens / sizeof opens[0]; i++) {
        test_text text;
        test_text_random(&text, 100, 3);
        cost paid = turn(v, &text, opens[i].credential, TEST_DRAFT_NONE);
        assert_int_equal(paid.cached, opens[i].known ? 96 : 0);
    }
    ft_verifier_destroy(v);
}

/* The first seed whose n random tokens get a clear text of `max_tok` tokens. */
static uint64_t find_clear(uint32_t n, float temperature, uint64_t seed, uint32_t max_tok)
{
    const ft_msg_sampling s = {.temperature = temperature, .top_p = 1, .seed = seed};
    uint64_t which = 0;
    static test_text text;
    do
        test_text_random(&text, n, which++);
    while (!test_prompt_clear(&text, &s, max_tok));
    return which - 1;
}

/* Sessions at the same time share what is settled, and end in any order. */
static void test_shared_while_running(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    test_edge edge = test_edge_make(TEST_DRAFT_MIXED, NULL, target.n_vocab, 1);
    static test_text text[3];
    local_client c[3];
    const uint64_t seed = find_clear(200, 0.7f, 5, ANSWER);
    (void)state;
    for (int i = 0; i < 3; i++) {
        test_text_random(&text[i], 200, seed);
        ft_msg_open open = local_open_msg(&text[i], 0.7f, 5, ANSWER);
        local_open(&c[i], v, &open, "me");
        local_wait_opened(&c[i]);
        assert_int_equal(c[i].opened.cached_tokens, i ? 192 : 0);
        assert_true(local_round(&c[i], &edge, &text[i]));
    }
    ft_verifier_stats s = test_verifier_stats(v);
    assert_true(s.kv_blocks - s.kv_blocks_free < 12 + 3 * 5); /* 12 shared, some each */
    local_close(&c[0]);
    for (int i = 1; i < 3; i++) {
        while (text[i].finish == FT_FINISH_NONE)
            assert_true(local_round(&c[i], &edge, &text[i]));
        local_close(&c[i]);
    }
    assert_true(test_text_equal(&text[1], &text[2]));
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
}

/* A detached session's KV is needed elsewhere: back again, it finds in the cache what nobody
 * took. */
static void test_pressure_leaves_what_it_can(void **state)
{
    ft_verifier *v = test_verifier_start(
        (ft_verifier_opts){.max_context = 256, .kv_tok = 512, .max_tree = 8, .session_ttl_s = 600});
    test_edge edge = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    static test_text text[2], ref;
    local_client c[2];
    const uint64_t seed = find_clear(240, 0, 1, 10);
    (void)state;
    for (int i = 0; i < 2; i++)
        test_text_random(&text[i], 240, seed + (uint64_t)i);
    ref = text[0];
    ft_msg_open open = local_open_msg(&ref, 0, 1, 10);
    local_generate(v, &open, &edge, &ref);
    for (int i = 0; i < 2; i++) {
        open = local_open_msg(&text[i], 0, 1, 10);
        local_open(&c[i], v, &open, "me");
        local_wait_opened(&c[i]);
        assert_true(local_round(&c[i], &edge, &text[i]));
    }
    /* Two texts of 16 blocks are in 32; a third of 5 makes the first of them give way. */
    test_text third;
    test_text_random(&third, 60, 9);
    ft_verifier_stats before = test_verifier_stats(v);
    (void)turn(v, &third, "me", TEST_DRAFT_NONE);
    ft_verifier_stats after = test_verifier_stats(v);
    assert_int_equal(after.kv_released - before.kv_released, 1);
    while (text[0].finish == FT_FINISH_NONE)
        assert_true(local_round(&c[0], &edge, &text[0]));
    assert_true(test_text_equal(&text[0], &ref));
    uint64_t computed = test_verifier_stats(v).chunks.sum - after.chunks.sum;
    assert_in_range(computed, 1, 150); /* of 240 */
    local_close(&c[0]);
    local_close(&c[1]);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_turn_pays_for_what_is_new),
        cmocka_unit_test(test_hit_rate_is_counted),
        cmocka_unit_test(test_tenants_are_apart),
        cmocka_unit_test(test_shared_while_running),
        cmocka_unit_test(test_pressure_leaves_what_it_can),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
