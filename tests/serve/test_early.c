// SPDX-License-Identifier: Apache-2.0
// Early drafts at the server: what fits the verdict begins the next round at once, the rest is
// dropped and changes nothing, wrong ones end their session alone, and nothing early outlives a
// stream. What must happen while a round is pending is done inside verdicts' callbacks, on the
// engine thread.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/local_client.h"
#include "support/target.h"

enum { PROMPT_TOK = 20, LONG_TOK = 40 };

/* What a client sends when a verdict of round `behind` comes: one draft, then up to two early
 * ones. */
typedef struct step {
    uint32_t behind;
    local_client *to;   /* NULL: itself */
    ft_msg_draft draft; /* round 0: none */
    ft_msg_draft early[2];
} step;

typedef struct script {
    const test_text *ref;
    step steps[4];
    bool taken[8];        /* by round: as the verdict said */
    uint32_t path[8];     /* nodes accepted */
    uint32_t gone_behind; /* the round behind whose verdict the stream is lost; 0: none */
} script;

/* False: the text is not clear. */
static bool reference_make(test_text *ref, ft_verifier *v, uint64_t seed)
{
    test_edge none = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    test_text_random(ref, PROMPT_TOK, seed);
    const ft_msg_open open = local_open_msg(ref, 0.8f, seed, LONG_TOK);
    if (!test_prompt_clear(ref, &open.sampling, LONG_TOK))
        return false;
    local_client *c = malloc(sizeof *c);
    local_open(c, v, &open, "me");
    while (ref->finish == FT_FINISH_NONE)
        assert_true(local_round(c, &none, ref));
    local_close(c);
    free(c);
    return true;
}

/* The first whose text is long and clear. */
static uint64_t reference_find(test_text *ref, ft_verifier *v, uint64_t seed)
{
    for (;; seed++) {
        if (reference_make(ref, v, seed) && ref->finish == FT_FINISH_LENGTH)
            return seed;
    }
}

/* A chain of what the target says from `base` on. */
static ft_msg_draft chain(const test_text *ref, uint32_t round, uint32_t base, uint32_t n)
{
    ft_msg_draft d = {.round = round, .base = base, .n = n};
    for (uint32_t i = 0; i < n; i++) {
        d.token[i] = ref->token[base + i];
        d.parent[i] = (int32_t)i - 1;
    }
    return d;
}

/* Behind a chain of n at `base`: what the target says behind it, and n_more below that; beside a
 * wrong top under its first node. */
static ft_msg_draft early_of(const test_text *ref, uint32_t round, uint32_t base, uint32_t n,
                             uint32_t n_more)
{
    ft_msg_draft d = {.round = round, .base = base, .n = 3 + n_more, .n_under = 2};
    d.token[0] = ref->token[base + 1] + 1;
    d.parent[0] = -1;
    d.under[0] = 0;
    d.token[1] = ref->token[base + n];
    d.parent[1] = -1;
    d.under[1] = (uint8_t)(n - 1);
    d.token[2] = 9;
    d.parent[2] = 0;
    for (uint32_t i = 0; i < n_more; i++) {
        d.token[3 + i] = ref->token[base + n + 1 + i];
        d.parent[3 + i] = i ? (int32_t)(2 + i) : 1;
    }
    return d;
}

static void post(local_client *c, const step *s)
{
    if (s->draft.round)
        local_send(c->session, &s->draft);
    for (int i = 0; i < 2; i++)
        if (s->early[i].round)
            local_send(c->session, &s->early[i]);
}

static void on_part(local_client *c, const ft_msg_verdict *v)
{
    script *s = c->user;
    if (v->round < 8) {
        s->taken[v->round] = v->early_taken;
        s->path[v->round] = v->n_path;
    }
    if (v->round == s->gone_behind) {
        ft_vsession_detach(c->session);
        c->session = NULL;
        return;
    }
    for (size_t i = 0; i < sizeof s->steps / sizeof s->steps[0]; i++)
        if (s->steps[i].behind == v->round)
            post(s->steps[i].to ? s->steps[i].to : c, &s->steps[i]);
}

typedef struct fixture {
    ft_verifier *v;
    test_text ref;
    ft_msg_open open;
    local_client c, other;
    script s;
} fixture;

static fixture *begin(ft_verifier_opts opts)
{
    fixture *f = calloc(1, sizeof *f);
    f->v = test_verifier_start(opts);
    uint64_t seed = reference_find(&f->ref, f->v, 50);
    f->open = local_open_msg(&f->ref, 0.8f, seed, LONG_TOK);
    f->open.n_prompt = PROMPT_TOK;
    f->s.ref = &f->ref;
    return f;
}

static void open_client(fixture *f)
{
    local_open(&f->c, f->v, &f->open, "me");
    memset(f->s.taken, 0, sizeof f->s.taken);
    f->c.user = &f->s;
    f->c.on_part = on_part;
}

/* Until n verdicts have come, and all that was done in their callbacks. */
static void wait_verdicts(local_client *c, uint32_t n)
{
    assert_true(local_wait_verdict(c, n));
    ft_verifier_tick(c->verifier);
}

/* Round 1, whose verdict the script waits for: one token. */
static void play(fixture *f)
{
    const ft_msg_draft first = {.round = 1, .base = PROMPT_TOK};
    open_client(f);
    local_send(f->c.session, &first);
}

static void end(fixture *f)
{
    test_verifier_expect_empty(f->v);
    ft_verifier_destroy(f->v);
    free(f);
}

enum { B2 = PROMPT_TOK + 1, B3 = B2 + 4 }; /* where rounds 2 and 3 hang: chains of 3 */

static step round2(const fixture *f, uint32_t n_more)
{
    return (step){.behind = 1,
                  .draft = chain(&f->ref, 2, B2, 3),
                  .early = {early_of(&f->ref, 3, B2, 3, n_more)}};
}

static void test_taken(void **state)
{
    fixture *f = begin((ft_verifier_opts){0});
    (void)state;
    f->s.steps[0] = round2(f, 2);
    /* behind the round that began early: another early one, of the tree as it was cut out */
    f->s.steps[1] = (step){.behind = 2, .early = {early_of(&f->ref, 4, B3, 2, 1)}};
    play(f);
    wait_verdicts(&f->c, 4);
    assert_true(f->s.taken[2] && f->s.taken[3] && !f->s.taken[4]);
    assert_int_equal(f->s.path[2], 3);
    assert_int_equal(f->s.path[3], 2);
    assert_int_equal(f->s.path[4], 1);
    assert_int_equal(f->c.verdict.length, B3 + 3 + 2);
    assert_int_equal(f->c.verdict.next[0], f->ref.token[B3 + 3 + 1]);
    assert_true(f->c.opened.limits.early_drafts);
    local_close(&f->c);
    const ft_verifier_stats s = test_verifier_stats(f->v);
    assert_int_equal(s.early_taken, 2);
    assert_int_equal(s.early_missed + s.early_late, 0);
    end(f);
}

/* Nothing of it fits, or there is nothing below what fits: the next draft comes as ever. */
static void test_missed(void **state)
{
    fixture *f = begin((ft_verifier_opts){0});
    (void)state;
    for (int i = 0; i < 4; i++) {
        f->s.steps[0] = round2(f, i == 0 ? 0 : 2);
        ft_msg_draft *early = &f->s.steps[0].early[0];
        early->token[1] += i == 1;
        early->under[1] = (uint8_t)(i == 2 ? 1 : 2);
        if (i == 3) /* the path ends elsewhere */
            f->s.steps[0].draft.token[2]++;
        play(f);
        wait_verdicts(&f->c, 2);
        assert_false(f->s.taken[2]);
        uint32_t base = f->c.verdict.length;
        const ft_msg_draft third = chain(&f->ref, 3, base, 3);
        local_send(f->c.session, &third);
        wait_verdicts(&f->c, 3);
        assert_int_equal(f->s.path[3], 3);
        local_close(&f->c);
        assert_int_equal(test_verifier_stats(f->v).early_missed, i + 1);
    }
    assert_int_equal(test_verifier_stats(f->v).early_taken, 0);
    end(f);
}

/* The verdict is out: no error, once a round. */
static void test_late(void **state)
{
    fixture *f = begin((ft_verifier_opts){0});
    (void)state;
    f->s.steps[0] = (step){.behind = 1, .draft = chain(&f->ref, 2, B2, 3)};
    f->s.steps[1] = (step){.behind = 2, .early = {early_of(&f->ref, 3, B2, 3, 2)}};
    play(f);
    wait_verdicts(&f->c, 2);
    const ft_msg_draft third = chain(&f->ref, 3, B3, 3);
    local_send(f->c.session, &third);
    wait_verdicts(&f->c, 3);
    assert_int_equal(f->s.path[3], 3);
    assert_false(f->s.taken[2]);
    assert_int_equal(test_verifier_stats(f->v).early_late, 1);
    local_close(&f->c);
    f->s.steps[1].early[1] = f->s.steps[1].early[0];
    play(f);
    assert_int_equal(local_wait_gone(&f->c), FT_INVALID);
    assert_non_null(strstr(f->c.message, "only one is"));
    local_detach(&f->c);
    end(f);
}

/* The text ends in the round before. */
static void test_end(void **state)
{
    fixture *f = begin((ft_verifier_opts){0});
    (void)state;
    f->open.max_tokens = 4;
    f->s.steps[0] = round2(f, 2);
    f->s.steps[1] = (step){.behind = 2, .early = {early_of(&f->ref, 3, B2, 3, 1)}};
    play(f);
    wait_verdicts(&f->c, 2);
    assert_false(f->s.taken[2]);
    assert_int_equal(f->c.verdict.finish, FT_FINISH_LENGTH);
    assert_int_equal(local_wait_gone(&f->c), FT_INVALID); /* the second of the round */
    local_detach(&f->c);
    f->s.steps[0].early[0].round = 0;
    play(f);
    wait_verdicts(&f->c, 2);
    ft_verifier_tick(f->v);
    assert_int_equal(f->c.n_gone, 0);
    assert_int_equal(test_verifier_stats(f->v).early_late, 1);
    local_close(&f->c);
    end(f);
}

static void test_wrong(void **state)
{
    fixture *f = begin((ft_verifier_opts){0});
    local_client *other = &f->other;
    test_text text = f->ref;
    test_edge none = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    const struct {
        ft_status code;
        const char *message;
    } says[] = {{FT_INVALID, "only one is"},        {FT_INVALID, "extends no tree"},
                {FT_INVALID, "extends no tree"},    {FT_INVALID, "Draft.under[1]: node 3"},
                {FT_INVALID, "equal siblings"},     {FT_INVALID, "token not in the vocabulary"},
                {FT_INVALID, "parent of node 3"},   {FT_INVALID, "65 nodes"},
                {FT_INVALID, "Draft.under: 1 ent"}, {FT_INVALID, "extends no tree"},
                {FT_INVALID, "extends no tree"}};
    (void)state;
    text.n = PROMPT_TOK;
    text.rounds = 0;
    text.finish = FT_FINISH_NONE;
    local_open(other, f->v, &f->open, "me");
    for (size_t i = 0; i < sizeof says / sizeof says[0]; i++) {
        step *s = &f->s.steps[0];
        *s = round2(f, 2);
        ft_msg_draft *e = &s->early[0];
        if (i == 0)
            s->early[1] = *e;
        e->round += i == 1;
        e->base += i == 2;
        e->under[1] = (uint8_t)(i == 3 ? 3 : 2);
        if (i == 4) {
            e->under[0] = 2;
            e->token[0] = e->token[1];
        }
        e->token[4] = i == 5 ? (int32_t)target.n_vocab : e->token[4];
        e->parent[3] = i == 6 ? 3 : e->parent[3];
        e->n = i == 7 ? 65 : e->n;
        e->n_under = i == 8 ? 1 : e->n_under;
        if (i == 9) /* behind a run */
            s->draft = (ft_msg_draft){.round = 2, .base = B2, .run = 5};
        if (i == 10) { /* before any draft */
            open_client(f);
            e->round = 1;
            e->base = PROMPT_TOK;
            local_send(f->c.session, e);
        } else {
            play(f);
        }
        assert_int_equal(local_wait_gone(&f->c), says[i].code);
        if (!strstr(f->c.message, says[i].message))
            fail_msg("%zu: '%s'", i, f->c.message);
        local_detach(&f->c);
        assert_true(local_round(other, &none, &text)); /* notices nothing */
        assert_int_equal(text.token[text.n - 1], f->ref.token[text.n - 1]);
    }
    local_close(other);
    end(f);
}

/* Two sessions in one pass: as the verdict of the first is given, the early draft of the second
 * comes. It is in time. */
static void test_in_the_pass(void **state)
{
    static _Atomic int64_t now_us = 1000000; /* stands, so nobody is to take turns */
    fixture *f = begin((ft_verifier_opts){.clock = test_shared_clock(&now_us)});
    local_client *conductor = calloc(1, sizeof *conductor);
    const ft_msg_draft first = {.round = 1, .base = PROMPT_TOK};
    script second = {.ref = &f->ref}, both = {.ref = &f->ref};
    (void)state;
    f->s.steps[0] = (step){.behind = 2, .to = &f->other, .early = {early_of(&f->ref, 3, B2, 3, 2)}};
    play(f); /* the first to come, so the first of a pass too */
    wait_verdicts(&f->c, 1);
    local_open(&f->other, f->v, &f->open, "me");
    f->other.user = &second;
    f->other.on_part = on_part;
    local_send(f->other.session, &first);
    wait_verdicts(&f->other, 1);
    both.steps[0] = (step){.behind = 1, .to = &f->c, .draft = chain(&f->ref, 2, B2, 3)};
    both.steps[1] = (step){.behind = 1, .to = &f->other, .draft = chain(&f->ref, 2, B2, 3)};
    local_open(conductor, f->v, &f->open, "me");
    conductor->user = &both;
    conductor->on_part = on_part;
    local_send(conductor->session, &first);
    wait_verdicts(&f->other, 3);
    assert_true(second.taken[2]);
    assert_int_equal(second.path[3], 2);
    local_close(conductor);
    local_close(&f->c);
    local_close(&f->other);
    assert_int_equal(test_verifier_stats(f->v).early_taken, 1);
    free(conductor);
    end(f);
}

/* The stream is lost behind a verdict that took the early draft: the round that it began is
 * withdrawn, and the verdict, asked for again, does not speak of it. */
static void test_lost_stream(void **state)
{
    fixture *f = begin((ft_verifier_opts){.session_ttl_s = 60});
    (void)state;
    for (int heard = 0; heard < 2; heard++) {
        f->s.steps[0] = round2(f, 2);
        f->s.gone_behind = 2;
        play(f);
        wait_verdicts(&f->c, 2);
        assert_true(f->s.taken[2]);
        ft_verifier_tick(f->v);
        const ft_msg_open resume = local_resume_msg(&f->c, heard ? B3 : B2);
        f->s.gone_behind = 0;
        local_open(&f->c, f->v, &resume, "me");
        local_wait_opened(&f->c);
        assert_int_equal(f->c.opened.last_round, 2);
        assert_int_equal(f->c.opened.length, B3);
        f->c.user = &f->s;
        f->c.on_part = on_part;
        if (!heard) {
            const step again = round2(f, 2); /* its early draft is late, of the tree of round 2 */
            memset(f->s.steps, 0, sizeof f->s.steps);
            post(&f->c, &again);
            wait_verdicts(&f->c, 1);
            assert_false(f->c.verdict.early_taken);
            assert_int_equal(f->c.verdict.length, B3);
            assert_int_equal(test_verifier_stats(f->v).early_late, 1);
        }
        /* what the early draft had behind it, as an ordinary one; early ones may follow it */
        const step third = {.draft = chain(&f->ref, 3, B3, 2)};
        post(&f->c, &third);
        wait_verdicts(&f->c, heard ? 1 : 2);
        assert_int_equal(f->c.verdict.n_path, 2);
        assert_false(f->c.verdict.early_taken);
        local_close(&f->c);
    }
    end(f);
}

/* A policy that looks at no trees drops them, and says so in its hints. */
static void test_no_trees(void **state)
{
    fixture *f = begin((ft_verifier_opts){.policy = &ft_sched_centralized});
    (void)state;
    f->s.steps[0] = round2(f, 2);
    play(f);
    wait_verdicts(&f->c, 2);
    assert_false(f->s.taken[2]);
    assert_int_equal(f->s.path[2], 0);
    assert_true(f->c.verdict.hints.no_trees);
    local_close(&f->c);
    assert_int_equal(test_verifier_stats(f->v).early_missed, 1);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken),       cmocka_unit_test(test_missed),
        cmocka_unit_test(test_late),        cmocka_unit_test(test_end),
        cmocka_unit_test(test_wrong),       cmocka_unit_test(test_in_the_pass),
        cmocka_unit_test(test_lost_stream), cmocka_unit_test(test_no_trees),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
