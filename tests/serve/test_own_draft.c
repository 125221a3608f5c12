// SPDX-License-Identifier: Apache-2.0
// The server's own drafting: sessions in runs get trees of the server's draft model, and the texts
// are those without, beside edges that send trees, with good drafts and bad ones, with too small a
// pool or context, over lost streams.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/count_allocs.h"
#include "support/device.h"
#include "support/gate.h"
#include "support/local_client.h"
#include "support/target.h"
#include "support/tiny_model.h"

#define PROMPT_TOK 40
#define TEXT_TOK   90 /* generated at most */
#define SESSIONS   6
#define BUDGET     16

/* Draft models: the target itself, one that knows little of it, one with a short context. */
static ft_model *poor, *brief;

static int setup(void **state)
{
    int rc = test_target_setup(state);
    poor = tiny_model(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .n_layer = 1, .seed = 8}, NULL);
    brief =
        tiny_model(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .n_ctx_train = 96, .seed = 8}, NULL);
    return rc;
}

static int teardown(void **state)
{
    ft_model_destroy(poor);
    ft_model_destroy(brief);
    return test_target_teardown(state);
}

static ft_verifier_opts with_draft(const ft_model *draft)
{
    return (ft_verifier_opts){.draft_model = draft,
                              .draft_vocab = target.vocab,
                              .draft = ft_draft_params_tree(BUDGET, 4, 4),
                              .draft_always = true,
                              .session_ttl_s = 60};
}

/* ---- sessions that take turns ---- */

typedef struct member {
    local_client c;
    test_text ref, text;
    test_edge edge;
    uint32_t run; /* tokens a run; 0: an edge with trees */
    uint32_t round, n_over;
} member;

static void reference(member *m, ft_verifier *plain, float temperature, uint64_t seed)
{
    test_edge none = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    do {
        test_text_random(&m->ref, PROMPT_TOK, seed += 1000);
        ft_msg_open open = local_open_msg(&m->ref, temperature, 5, TEXT_TOK);
        if (test_prompt_clear(&m->ref, &open.sampling, TEXT_TOK))
            local_generate(plain, &open, &none, &m->ref);
    } while (m->ref.n < PROMPT_TOK + TEXT_TOK / 2);
}

static void member_open(member *m, ft_verifier *v, float temperature)
{
    test_text_init(&m->text, m->ref.token, PROMPT_TOK);
    ft_msg_open open = local_open_msg(&m->text, temperature, 5, TEXT_TOK);
    m->round = m->n_over = 0;
    local_open(&m->c, v, &open, "me");
}

static void member_ask(member *m)
{
    if (m->run > 0)
        m->c.draft = (ft_msg_draft){.round = m->round + 1, .base = m->text.n, .run = m->run};
    else
        test_draft(&m->c.draft, &m->edge, &m->text);
    m->round++;
    local_send(m->c.session, &m->c.draft);
}

/* Takes over what came; a run's tokens are those that were heard. */
static void member_hear(member *m)
{
    assert_true(local_wait_over(&m->c, ++m->n_over));
    if (m->run == 0) {
        assert_true(test_apply(&m->text, &m->c.draft, &m->c.verdict));
        return;
    }
    assert_int_equal(m->c.verdict.n_path, 0);
    uint32_t heard = m->c.n_heard - (m->text.n - PROMPT_TOK);
    memcpy(m->text.token + m->text.n, m->c.heard + m->text.n - PROMPT_TOK,
           heard * sizeof *m->c.heard);
    m->text.n += heard;
    m->text.finish = m->c.verdict.finish;
    if (m->text.finish == FT_FINISH_NONE)
        assert_int_equal(heard, m->run);
    assert_int_equal(m->c.verdict.length, m->text.n);
}

/* All texts to their ends, compared with what they must be. Rounds begin together. */
static void run_all(member *all, uint32_t n, ft_verifier *v, float temperature)
{
    test_gate gate;
    for (uint32_t i = 0; i < n; i++)
        member_open(&all[i], v, temperature);
    for (bool more = true; more;) {
        more = false;
        test_gate_shut(&gate, v);
        for (uint32_t i = 0; i < n; i++)
            if (all[i].text.finish == FT_FINISH_NONE)
                member_ask(&all[i]);
        test_gate_open(&gate);
        for (uint32_t i = 0; i < n; i++)
            if (all[i].text.finish == FT_FINISH_NONE) {
                member_hear(&all[i]);
                more = true;
            }
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_true(test_text_equal(&all[i].text, &all[i].ref));
        local_close(&all[i].c);
    }
}

/* n members, every third an edge with trees; runs of different lengths. */
static member *members(uint32_t n, float temperature)
{
    static const uint32_t runs[] = {TEXT_TOK, 13, 5};
    ft_verifier *plain = test_verifier_start((ft_verifier_opts){0});
    member *all = calloc(n, sizeof *all);
    for (uint32_t i = 0; i < n; i++) {
        reference(&all[i], plain, temperature, i);
        all[i].run = i % 3 == 2 ? 0 : runs[i / 2 % 3];
        all[i].edge = test_edge_make(TEST_DRAFT_TREE, &all[i].ref, target.n_vocab, i);
    }
    ft_verifier_destroy(plain);
    return all;
}

static void test_same_texts(void **state)
{
    const ft_model *drafts[] = {target.model, poor};
    for (int hot = 0; hot < 2; hot++) {
        member *all = members(SESSIONS, hot * 0.8f);
        for (int i = 0; i < 4; i++) {
            ft_verifier_opts opts = with_draft(drafts[i % 2]);
            opts.draft_always = i < 2;
            ft_verifier *v = test_verifier_start(opts);
            run_all(all, SESSIONS, v, hot * 0.8f);
            ft_verifier_stats s = test_verifier_stats(v);
            assert_true(s.own_drafted > 0 && s.own_forwards > 0 && s.own_rows >= s.own_forwards);
            assert_true(s.own_accepted <= s.own_drafted && s.accepted <= s.drafted);
            if (i == 0) /* it knows what the target will say */
                assert_true(s.rounds < s.tokens / 2);
            test_verifier_expect_empty(v);
            ft_verifier_destroy(v);
        }
        free(all);
    }
}

/* More rows of trees than a pass has: they take turns. */
static void test_more_than_a_pass(void **state)
{
    member *all = members(SESSIONS, 0.8f);
    ft_verifier_opts opts = with_draft(target.model);
    opts.max_batch_tok = 2 * (BUDGET + 1) + 4;
    opts.max_tree = 20;
    for (uint32_t i = 0; i < SESSIONS; i++)
        all[i].edge.max_tree = opts.max_tree;
    ft_verifier *v = test_verifier_start(opts);
    run_all(all, SESSIONS, v, 0.8f);
    assert_true(test_verifier_stats(v).own_accepted > 0);
    ft_verifier_destroy(v);
    free(all);
}

/* The draft's pool holds one text, or none; who has no room is decoded plainly. */
static void test_small_pool(void **state)
{
    static const uint32_t pools[] = {PROMPT_TOK + TEXT_TOK + 96, 48};
    member *all = members(SESSIONS, 0);
    for (int i = 0; i < 2; i++) {
        ft_verifier_opts opts = with_draft(target.model);
        opts.draft_kv_tok = pools[i];
        ft_verifier *v = test_verifier_start(opts);
        run_all(all, SESSIONS, v, 0);
        assert_int_equal(test_verifier_stats(v).own_drafted > 0, i == 0);
        ft_verifier_destroy(v);
    }
    free(all);
}

/* Behind the draft's context a text goes on without it. */
static void test_short_context(void **state)
{
    member *all = members(SESSIONS, 0.8f);
    ft_verifier *v = test_verifier_start(with_draft(brief));
    run_all(all, SESSIONS, v, 0.8f);
    assert_true(test_verifier_stats(v).own_drafted > 0);
    ft_verifier_destroy(v);
    free(all);
}

/* Where rows cost nothing beside passes, trees pay and stay; where a pass costs what its rows do,
 * they are given up. The clock counts the target's work alone. */
static void test_pays_or_not(void **state)
{
    member *all = members(SESSIONS, 0);
    for (int dear = 0; dear < 2; dear++) {
        test_work_clock work = {.pass_us = dear ? 10 : 20000, .row_us = dear ? 5000 : 1};
        ft_verifier_opts opts = with_draft(poor);
        if (!dear)
            opts.draft_model = target.model;
        opts.draft_always = false;
        opts.clock = test_work_clock_of(&work);
        ft_verifier *v = test_verifier_start(opts);
        atomic_store(&work.verifier, v);
        for (int i = 0; i < 3; i++)
            run_all(all, SESSIONS, v, 0);
        ft_verifier_stats before = test_verifier_stats(v);
        run_all(all, SESSIONS, v, 0);
        ft_verifier_stats after = test_verifier_stats(v);
        uint64_t drafted = after.own_drafted - before.own_drafted;
        uint64_t tokens = after.run_tokens - before.run_tokens;
        if (dear)
            assert_true(drafted < tokens / 8);
        else
            assert_true(drafted > tokens / 2);
        atomic_store(&work.verifier, NULL);
        ft_verifier_destroy(v);
    }
    free(all);
}

/* Rows of the server's own trees are the session's: at 35 ms a row, a text of 8 tokens/s whose
 * rounds verify 17 rows takes more than the engine's time, and no more can be promised beside it.
 * Plain runs take 28 % of it. */
static void test_trees_count_in_promises(void **state)
{
    const ft_costs costs = {.us = {[FT_COST_ROW] = 35000}, .error = 0.05};
    member *all = members(1, 0);
    for (int own = 0; own < 2; own++) {
        _Atomic int64_t now_us = 1000000; /* stands still: nothing is learnt from passes */
        ft_verifier_opts opts = own ? with_draft(poor) : (ft_verifier_opts){0};
        opts.costs = &costs;
        opts.clock = test_shared_clock(&now_us);
        opts.slo_tokens_per_s[0] = 8;
        opts.n_slo = 1;
        ft_verifier *v = test_verifier_start(opts);
        local_client *second = calloc(1, sizeof *second);
        member *m = &all[0];
        test_text_init(&m->text, m->ref.token, PROMPT_TOK);
        ft_msg_open open = local_open_msg(&m->text, 0, 5, TEXT_TOK);
        open.slo_tokens_per_s = 8;
        m->round = m->n_over = 0;
        m->run = 20;
        local_open(&m->c, v, &open, "me");
        member_ask(m);
        member_hear(m);
        assert_int_equal(test_verifier_stats(v).own_drafted > 0, own);
        local_open(second, v, &open, "you");
        ft_verifier_tick(v); /* it was answered */
        assert_int_equal(second->n_gone, own);
        if (own)
            assert_int_equal(local_wait_gone(second), FT_EXHAUSTED);
        local_detach(second);
        local_close(&m->c);
        ft_verifier_destroy(v);
        free(second);
    }
    free(all);
}

/* ---- lost streams ---- */

static void detach_now(local_client *c, const ft_msg_verdict *verdict)
{
    if (c->n_verdicts != 3)
        return;
    ft_vsession_detach(c->session);
    c->session = NULL;
}

static void test_detach_in_a_run(void **state)
{
    member *all = members(1, 0.8f);
    member *m = all;
    ft_verifier *v = test_verifier_start(with_draft(poor));
    member_open(m, v, 0.8f);
    local_wait_opened(&m->c);
    m->c.on_part = detach_now;
    member_ask(m);
    assert_true(local_wait_verdict(&m->c, 3));
    ft_verifier_tick(v);
    uint32_t heard = m->c.n_heard;
    assert_memory_equal(m->c.heard, m->ref.token + PROMPT_TOK, heard * sizeof *m->c.heard);
    ft_msg_open resume = local_resume_msg(&m->c, PROMPT_TOK + heard);
    local_open(&m->c, v, &resume, "me");
    local_wait_opened(&m->c);
    const ft_msg_draft rest = {.round = m->c.opened.last_round + 1,
                               .base = PROMPT_TOK + heard,
                               .run = m->ref.n - PROMPT_TOK - heard};
    local_send(m->c.session, &rest);
    assert_true(local_wait_over(&m->c, 1));
    assert_int_equal(m->c.n_heard, rest.run);
    assert_memory_equal(m->c.heard, m->ref.token + rest.base, rest.run * sizeof *m->c.heard);
    local_close(&m->c);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
    free(all);
}

/* ---- */

static void test_other_vocabulary(void **state)
{
    ft_error err = {0};
    ft_verifier *v = NULL;
    ft_vocab *vocab = NULL;
    char *path = tiny_gguf_temp(&(tiny_gguf_opts){.last_token = "other"});
    assert_int_equal(ft_vocab_load(path, &err, &vocab), FT_OK);
    ft_verifier_opts opts = test_verifier_opts(with_draft(poor));
    opts.draft_vocab = vocab;
    assert_int_equal(ft_verifier_create(&opts, &err, &v), FT_PRECONDITION);
    assert_null(v);
    assert_non_null(strstr(err.message, "draft of the same family with -md"));
    ft_vocab_destroy(vocab);
    unlink(path);
    free(path);
}

/* Runs with drafts allocate nothing but what ggml does in each pass. */
static void test_no_allocation(void **state)
{
    enum { LONG = 400, STEP = 8 };
    if (!COUNTS_ALLOCS || test_device()) { /* a device's library allocates as it likes */
        print_message("SKIPPED: allocations cannot be counted in this build\n");
        skip();
    }
    ft_verifier *v = test_verifier_start(with_draft(poor));
    local_client *c = calloc(2, sizeof *c);
    test_text *text = malloc(sizeof *text);
    ft_client_msg
        *msg[LONG / STEP + 1][2]; /* made before allocations are counted, as the wire does */
    uint32_t own = count_allocs_of_ggml(), round = 0;
    for (uint32_t i = 0, seed = 0; i < 2; i++) {
        test_edge none = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
        do { /* one that goes on for long */
            test_text_random(text, PROMPT_TOK, ++seed);
            ft_msg_open open = local_open_msg(text, 0, 1, LONG);
            local_generate(v, &open, &none, text);
        } while (text->finish != FT_FINISH_LENGTH);
        text->n = PROMPT_TOK;
        ft_msg_open open = local_open_msg(text, 0, 1, LONG);
        local_open(&c[i], v, &open, "me");
    }
    for (uint32_t r = 0; (r + 1) * STEP < LONG; r++)
        for (uint32_t i = 0; i < 2; i++)
            msg[r][i] = local_draft_msg(
                &(ft_msg_draft){.round = r + 1, .base = PROMPT_TOK + r * STEP, .run = STEP});
    ft_verifier_stats before = {0};
    while ((round + 1) * STEP < LONG) {
        if (round == 12) {
            before = test_verifier_stats(v);
            count_allocs(true);
        }
        for (uint32_t i = 0; i < 2; i++)
            ft_vsession_draft(c[i].session, msg[round][i]);
        round++;
        for (uint32_t i = 0; i < 2; i++)
            assert_true(local_wait_over(&c[i], round));
    }
    count_allocs(false);
    ft_verifier_stats after = test_verifier_stats(v);
    /* Behind the first rounds each pass of the draft has a run of the output head. */
    uint64_t runs = after.passes.n - before.passes.n + after.heads - before.heads +
                    2 * (after.own_forwards - before.own_forwards);
    uint32_t calls = count_allocs_taken(), ggml = own * (uint32_t)runs;
    assert_true(round > 20 && runs > 0);
    calls -= 2 * (round - 12); /* each message is freed, once */
    /* The sequences' tables of blocks grow with their texts. */
    if (calls < ggml || calls > ggml + 8)
        fail_msg("%u calls, %u are ggml's; the first one for %zu bytes", calls, ggml,
                 count_allocs_first_bytes());
    for (uint32_t i = 0; i < 2; i++)
        local_close(&c[i]);
    ft_verifier_destroy(v);
    free(text);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_texts),
        cmocka_unit_test(test_more_than_a_pass),
        cmocka_unit_test(test_small_pool),
        cmocka_unit_test(test_short_context),
        cmocka_unit_test(test_detach_in_a_run),
        cmocka_unit_test(test_other_vocabulary),
        cmocka_unit_test(test_no_allocation),
        cmocka_unit_test(test_pays_or_not),
        cmocka_unit_test(test_trees_count_in_promises),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
