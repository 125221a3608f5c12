// SPDX-License-Identifier: Apache-2.0
// Texts through the verifier do not depend on drafts, on company in the batch, on KV pressure, nor
// on where rounds are cut; they end where they must.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/products.h"
#include "support/device.h"
#include "support/gate.h"
#include "support/local_client.h"
#include "support/target.h"

/* An open message whose filters depend on the seed. None on a device: there rounding decides what
 * is at a filter's edge. */
static ft_msg_open open_msg(const test_text *text, float temperature, uint64_t seed,
                            uint32_t max_tok)
{
    ft_msg_open open = local_open_msg(text, temperature, seed, max_tok);
    if (test_device())
        return open;
    open.sampling.top_k = seed % 2 ? 40 : 0;
    open.sampling.top_p = seed % 3 == 1 ? 0.9f : 1;
    open.sampling.min_p = seed % 5 == 2 ? 0.01f : 0;
    return open;
}

/* The text without any draft, in a verifier of its own, behind a prompt that makes it clear. */
static test_text *reference(uint32_t n_prompt, float temperature, uint64_t seed, uint32_t max_tok)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    test_text *text = malloc(sizeof *text);
    test_edge edge = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, seed);
    ft_msg_open open;
    uint64_t which = seed;
    do {
        test_text_random(text, n_prompt, which);
        open = open_msg(text, temperature, seed, max_tok);
        which += 1000;
    } while (!test_prompt_clear(text, &open.sampling, max_tok));
    local_generate(v, &open, &edge, text);
    assert_true(text->n > n_prompt);
    ft_verifier_destroy(v);
    return text;
}

static void test_drafts_change_nothing(void **state)
{
    static const float temperatures[] = {0, 0.8f, 1.5f};
    static const uint32_t prompts[] = {1, 17, 150};
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    (void)state;
    for (size_t p = 0; p < 3; p++)
        for (size_t t = 0; t < 3; t++) {
            test_text *ref = reference(prompts[p], temperatures[t], 10 * p + t, 60);
            for (int style = 0; style < TEST_DRAFT_STYLES; style++) {
                test_text text;
                test_text_init(&text, ref->token, ref->n_prompt);
                ft_msg_open open = open_msg(&text, temperatures[t], 10 * p + t, 60);
                test_edge edge = test_edge_make((test_style)style, ref, target.n_vocab, p);
                local_generate(v, &open, &edge, &text);
                assert_true(test_text_equal(&text, ref));
                if (style == TEST_DRAFT_PERFECT)
                    assert_true(text.rounds < ref->rounds && text.accepted > 0);
            }
            free(ref);
        }
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
}

/* Replicas are compared by it: what multiplies with the weights, and how K and V are kept. */
static void test_info_tells_kernels(void **state)
{
    char products[FT_PRODUCTS_TEXT], want[160];
    const ft_model_products p = ft_model_get_memory(target.model).products;
    ft_products_text(&p, products);
    for (int i = 0; i < 2; i++) {
        ft_msg_info info;
        ft_verifier *v = test_verifier_start((ft_verifier_opts){
            .kv_type = i ? FT_KV_Q8_0 : FT_KV_F16, .portable_attention = i == 0});
        ft_verifier_info(v, &info);
        snprintf(want, sizeof want, "%s, kv %s", products, i ? "q8_0" : "f16, attention ggml");
        assert_string_equal(info.kernels, want);
        ft_verifier_destroy(v);
    }
}

/* Info and Opened tell the same target; a text that requires it is taken. */
static void test_tells_its_target(void **state)
{
    static const int32_t prompt[] = {5, 6, 7};
    ft_msg_info info, other;
    local_client c;
    test_text text;
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.kv_type = FT_KV_Q8_0});
    ft_verifier_info(v, &other);
    ft_verifier_destroy(v);
    v = test_verifier_start((ft_verifier_opts){.kv_type = FT_KV_F16});
    ft_verifier_info(v, &info);
    assert_true(info.target != other.target && info.target != 0);
    test_text_init(&text, prompt, 3);
    ft_msg_open open = local_open_msg(&text, 0, 0, 1);
    open.target = info.target;
    local_open(&c, v, &open, "me");
    local_wait_opened(&c);
    assert_true(c.opened.target == info.target);
    local_close(&c);
    ft_verifier_destroy(v);
}

/* Info shows free blocks in eighths of the pool: a block more or less of another one's text is not
 * seen. */
static void test_info_hides_texts(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.kv_tok = 64 * FT_KV_BLOCK_TOK});
    uint32_t least = 64;
    (void)state;
    for (uint32_t n = 1; n <= 14; n++) { /* blocks of a text */
        local_client c;
        test_text text;
        ft_msg_info info;
        ft_verifier_stats stats;
        test_text_random(&text, n * FT_KV_BLOCK_TOK, n);
        ft_msg_open open = open_msg(&text, 0, 0, 8);
        test_edge edge = test_edge_make(TEST_DRAFT_WRONG, NULL, target.n_vocab, n);
        local_open(&c, v, &open, "me");
        local_wait_opened(&c);
        test_draft(&c.draft, &edge, &text);
        local_send(c.session, &c.draft);
        assert_true(local_wait_verdict(&c, 1));
        ft_verifier_tick(v);
        ft_verifier_get_stats(v, &stats);
        ft_verifier_info(v, &info);
        assert_int_equal(info.kv_blocks, 64);
        assert_int_equal(info.kv_blocks_free, stats.kv_blocks_free / 8 * 8);
        least = stats.kv_blocks_free < least ? stats.kv_blocks_free : least;
        local_close(&c);
    }
    assert_true(least < 56);
    ft_verifier_destroy(v);
}

/* Every max_tokens, with chains that reach beyond it. */
static void test_length_is_exact(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    test_text *ref = reference(9, 0, 3, 12);
    (void)state;
    assert_int_equal(ref->n, 9 + 12);
    assert_int_equal(ref->finish, FT_FINISH_LENGTH);
    for (uint32_t most = 1; most <= 12; most++) {
        test_text text;
        test_text_init(&text, ref->token, 9);
        ft_msg_open open = open_msg(&text, 0, 3, most);
        test_edge edge = test_edge_make(TEST_DRAFT_PERFECT, ref, target.n_vocab, most);
        local_generate(v, &open, &edge, &text);
        assert_int_equal(text.n, 9 + most);
        assert_int_equal(text.finish, FT_FINISH_LENGTH);
        assert_memory_equal(text.token, ref->token, text.n * sizeof text.token[0]);
    }
    free(ref);
    ft_verifier_destroy(v);
}

static void test_context_is_never_exceeded(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.max_context = 64});
    test_text text;
    (void)state;
    for (int style = 0; style < TEST_DRAFT_STYLES; style++) {
        uint32_t full = 0;
        for (uint64_t seed = 0; seed < 8; seed++) { /* some end by themselves before */
            test_text_random(&text, 63 - 10 * (uint32_t)style, seed);
            ft_msg_open open = open_msg(&text, 0, 5, style == 1 ? 1000 : 0);
            test_edge edge = test_edge_make((test_style)style, NULL, target.n_vocab, seed);
            local_generate(v, &open, &edge, &text);
            assert_true(text.n <= 64);
            assert_true(text.n == 64 || text.finish == FT_FINISH_STOP);
            full += text.n == 64 && text.finish == FT_FINISH_LENGTH;
        }
        assert_true(full > 0);
    }
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
}

/* At a high temperature the end-of-generation tokens come up by chance. */
static void test_stop_token_ends_the_text(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    uint32_t stops = 0, in_path = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        test_text *ref = reference(5, 3, seed, 300), text;
        for (uint32_t i = ref->n_prompt; i + 1 < ref->n; i++)
            assert_false(ft_vocab_is_eog(target.vocab, ref->token[i]));
        if (ref->finish == FT_FINISH_STOP) {
            assert_true(ft_vocab_is_eog(target.vocab, ref->token[ref->n - 1]));
            stops++;
        }
        test_text_init(&text, ref->token, 5);
        ft_msg_open open = open_msg(&text, 3, seed, 300);
        local_client c;
        test_edge edge = test_edge_make(TEST_DRAFT_PERFECT, ref, target.n_vocab, seed);
        local_open(&c, v, &open, "me");
        while (text.finish == FT_FINISH_NONE)
            assert_true(local_round(&c, &edge, &text));
        in_path += text.finish == FT_FINISH_STOP && c.verdict.n_next == 0;
        assert_true(test_text_equal(&text, ref));
        local_close(&c);
        free(ref);
    }
    assert_true(stops > 0 && in_path > 0); /* else this test shows nothing */
    ft_verifier_destroy(v);
}

/* ---- many at once ---- */

typedef struct many {
    test_text *ref, text;
    test_edge edge;
    local_client client;
    uint32_t n_verdicts;
    uint64_t seed;
    float temperature;
} many;

#define MANY 12

static many *many_create(uint32_t n, uint32_t prompt_most, uint32_t max_tok)
{
    many *all = calloc(n, sizeof *all);
    for (uint32_t i = 0; i < n; i++) {
        all[i].seed = 100 + i;
        all[i].temperature = 0.5f * (float)(i % 3);
        do { /* a text that goes on for all of max_tok */
            free(all[i].ref);
            all[i].seed += 100;
            assert_true(all[i].seed < 10000);
            all[i].ref =
                reference(1 + (i * 37) % prompt_most, all[i].temperature, all[i].seed, max_tok);
        } while (all[i].ref->finish != FT_FINISH_LENGTH);
        test_text_init(&all[i].text, all[i].ref->token, all[i].ref->n_prompt);
        all[i].edge = test_edge_make(TEST_DRAFT_MIXED, all[i].ref, target.n_vocab, i);
    }
    return all;
}

static void many_free(many *all, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free(all[i].ref);
    free(all);
}

/* Ends all sessions; all texts must be what they would have been alone. */
static void many_end(many *all, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_true(test_text_equal(&all[i].text, all[i].ref));
        local_close(&all[i].client);
    }
}

/* All in step: every session drafts at once, then all verdicts are awaited, until all texts have
 * ended. */
static void many_run(many *all, uint32_t n, ft_verifier *v, uint32_t max_tok)
{
    uint32_t open = n;
    test_gate gate;
    for (uint32_t i = 0; i < n; i++) {
        ft_msg_open o = open_msg(&all[i].text, all[i].temperature, all[i].seed, max_tok);
        local_open(&all[i].client, v, &o, "me");
    }
    while (open > 0) {
        test_gate_shut(&gate, v);
        for (uint32_t i = 0; i < n; i++) {
            many *m = &all[i];
            if (m->text.finish != FT_FINISH_NONE)
                continue;
            test_draft(&m->client.draft, &m->edge, &m->text);
            local_send(m->client.session, &m->client.draft);
        }
        test_gate_open(&gate);
        for (uint32_t i = 0; i < n; i++) {
            many *m = &all[i];
            if (m->text.finish != FT_FINISH_NONE)
                continue;
            if (!local_wait_verdict(&m->client, ++m->n_verdicts))
                fail_msg("gone: %s", m->client.message);
            assert_true(test_apply(&m->text, &m->client.draft, &m->client.verdict));
            open -= m->text.finish != FT_FINISH_NONE;
        }
    }
    many_end(all, n);
}

/* Texts of different lengths, trees of all shapes and all kinds of sampling share passes, and each
 * is what it would be alone. Nor do the threads that judge matter, nor where prompts are cut. */
static void test_company_changes_nothing(void **state)
{
    ft_verifier_stats s;
    many *all = many_create(MANY, 200, 40);
    (void)state;
    for (int n_threads = 1; n_threads <= 4; n_threads++) {
        ft_verifier *v = test_verifier_start(
            (ft_verifier_opts){.prefill_budget_us = 500, .n_threads = n_threads});
        for (uint32_t i = 0; i < MANY; i++) {
            test_text_init(&all[i].text, all[i].ref->token, all[i].ref->n_prompt);
            all[i].n_verdicts = 0;
        }
        many_run(all, MANY, v, 40);
        ft_verifier_get_stats(v, &s);
        assert_true(s.passes.n < s.rounds + s.chunks.n); /* they did share passes */
        test_verifier_expect_empty(v);
        ft_verifier_destroy(v);
    }
    many_free(all, MANY);
}

/* The pool holds about three of six: KV gives way (kv_room.c) and is computed again. */
static void test_pressure_changes_nothing(void **state)
{
    ft_verifier_stats s;
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.max_context = 160, .kv_tok = 3 * 160});
    (void)state;
    many *all = many_create(6, 100, 60);
    many_run(all, 6, v, 60);
    many_free(all, 6);
    ft_verifier_get_stats(v, &s);
    assert_true(s.kv_released > 0);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
}

/* Twenty sessions in a pool for two, on several threads: nobody waits for ever, nothing is lost. */
static void test_heavy_pressure_changes_nothing(void **state)
{
    ft_verifier_stats s;
    many *all = many_create(20, 40, 60);
    (void)state;
    for (int no_cache = 0; no_cache < 2; no_cache++) {
        ft_verifier *v = test_verifier_start((ft_verifier_opts){.max_context = 160,
                                                                .max_tree = 8,
                                                                .kv_tok = 2 * (160 + 9 + 32),
                                                                .n_threads = 3,
                                                                .no_prefix_cache = no_cache});
        for (uint32_t i = 0; i < 20; i++) {
            test_text_init(&all[i].text, all[i].ref->token, all[i].ref->n_prompt);
            all[i].edge.max_tree = 8;
            all[i].n_verdicts = 0;
        }
        many_run(all, 20, v, 60);
        ft_verifier_get_stats(v, &s);
        assert_true(s.kv_released > 20);
        test_verifier_expect_empty(v);
        ft_verifier_destroy(v);
    }
    many_free(all, 20);
}

/* The smallest pool that takes the context at all. */
static void test_pool_of_one(void **state)
{
    ft_verifier *v =
        test_verifier_start((ft_verifier_opts){.max_context = 160, .kv_tok = 160 + 64 + 33});
    (void)state;
    many *all = many_create(3, 100, 50);
    many_run(all, 3, v, 50);
    many_free(all, 3);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
}

/* ---- streams break and come back, sessions close and open anew, all under pressure ---- */

#define STORM 8

static void storm_open(many *m, ft_verifier *v)
{
    uint32_t left = 40 - (m->text.n - m->text.n_prompt);
    ft_msg_open o = open_msg(&m->text, m->temperature, m->seed, left);
    local_open(&m->client, v, &o, "me");
    local_wait_opened(&m->client);
    m->text.rounds = 0;
}

/* The stream breaks before, while or after the round is computed; then the round is sent again. */
static void storm_break(many *m, ft_verifier *v, bool late)
{
    local_client *c = &m->client;
    ft_msg_open o = local_resume_msg(c, m->text.n);
    ft_msg_draft again = c->draft;
    local_send(c->session, &c->draft);
    if (late)
        ft_verifier_tick(v);
    local_detach(c);
    local_open(c, v, &o, "me");
    local_wait_opened(c);
    c->draft = again;
    local_send(c->session, &c->draft);
    if (!local_wait_verdict(c, 1))
        fail_msg("gone: %s", c->message);
    assert_true(test_apply(&m->text, &c->draft, &c->verdict));
}

static void test_storm(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){
        .max_context = 160, .kv_tok = 4 * 160, .session_ttl_s = 3600, .max_batch_tok = 96});
    many *all = many_create(STORM, 60, 40);
    uint32_t open = STORM;
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 4);
    for (uint32_t i = 0; i < STORM; i++)
        storm_open(&all[i], v);
    while (open > 0) {
        many *m = &all[ft_rng_below(&rng, STORM)];
        uint32_t dice = ft_rng_below(&rng, 10);
        if (m->text.finish != FT_FINISH_NONE)
            continue;
        test_draft(&m->client.draft, &m->edge, &m->text);
        if (dice < 5) {
            assert_true(local_round(&m->client, &m->edge, &m->text));
        } else if (dice < 8) {
            storm_break(m, v, dice == 7);
        } else { /* given up amid a round, and opened again with the text so far */
            local_send(m->client.session, &m->client.draft);
            local_close(&m->client);
            storm_open(m, v);
        }
        open -= m->text.finish != FT_FINISH_NONE;
    }
    many_end(all, STORM);
    many_free(all, STORM);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
}

static void test_logprobs(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    test_text *ref = reference(9, 0, 3, 20), text[2];
    float got[2][20];
    (void)state;
    for (int run = 0; run < 2; run++) {
        local_client c;
        uint32_t n = 0;
        test_edge edge =
            test_edge_make(run ? TEST_DRAFT_TREE : TEST_DRAFT_NONE, ref, target.n_vocab, 1);
        test_text_init(&text[run], ref->token, 9);
        ft_msg_open open = open_msg(&text[run], 0, 3, 20);
        open.logprobs = true;
        open.top_logprobs = 5;
        local_open(&c, v, &open, "me");
        while (text[run].finish == FT_FINISH_NONE) {
            uint32_t before = text[run].n;
            assert_true(local_round(&c, &edge, &text[run]));
            assert_int_equal(c.verdict.n_logprobs, text[run].n - before);
            for (uint32_t i = 0; i < c.verdict.n_logprobs; i++) {
                assert_int_equal(c.logprobs[i].n_top, 5);
                assert_int_equal(c.logprobs[i].top[0].token, text[run].token[before + i]);
                assert_true(c.logprobs[i].top[0].logprob == c.logprobs[i].logprob);
                assert_true(c.logprobs[i].top[1].logprob <= c.logprobs[i].logprob);
                got[run][n++] = c.logprobs[i].logprob;
            }
        }
        assert_true(test_text_equal(&text[run], ref));
        local_close(&c);
    }
    for (size_t i = 0; i < sizeof got[0] / sizeof *got[0]; i++)
        assert_true(fabsf(got[0][i] - got[1][i]) <= 2 * test_rounding());
    free(ref);
    ft_verifier_destroy(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drafts_change_nothing),
        cmocka_unit_test(test_info_tells_kernels),
        cmocka_unit_test(test_tells_its_target),
        cmocka_unit_test(test_info_hides_texts),
        cmocka_unit_test(test_length_is_exact),
        cmocka_unit_test(test_context_is_never_exceeded),
        cmocka_unit_test(test_stop_token_ends_the_text),
        cmocka_unit_test(test_company_changes_nothing),
        cmocka_unit_test(test_pressure_changes_nothing),
        cmocka_unit_test(test_heavy_pressure_changes_nothing),
        cmocka_unit_test(test_pool_of_one),
        cmocka_unit_test(test_storm),
        cmocka_unit_test(test_logprobs),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
