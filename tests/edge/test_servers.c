// SPDX-License-Identifier: Apache-2.0
// One edge and several servers (edge/servers.h): which one a text is opened at, where it goes when
// that one is lost, full or of another kind, and when texts come back to the first. The text is the
// same wherever it goes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "support/fake_verifier.h"
#include "support/tiny_model.h"

enum { A, B, C, N_SERVERS, N_TOKENS = 24 };

#define FOR_EVER UINT32_MAX

static ft_vocab *vocab;

static int setup(void **state)
{
    tiny_quiet();
    vocab = tiny_vocab();
    return 0;
}

static int teardown(void **state)
{
    ft_vocab_destroy(vocab);
    return 0;
}

typedef struct world {
    fake at[N_SERVERS];
    uint32_t n;      /* servers */
    bool drafts;     /* speculate every round; else runs */
    int64_t now_us;  /* the edge's clock; pauses take no time of it */
    int64_t look_us; /* of each look at it; 0: 20 */
    uint32_t reconnect_ms;
    bool same_target; /* required */
    ft_edge *edge;
    /* of the last text */
    char text[64];
    size_t n_text;
    ft_status status;
    ft_error err;
    ft_gen_stats stats;
    uint64_t targets[4]; /* that the sink was told first */
    uint32_t n_targets;
} world;

static int64_t look_us(void *ctx)
{
    world *w = ctx;
    return w->now_us += w->look_us ? w->look_us : 20;
}

static bool on_text(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    world *w = ctx;
    assert_true(w->n_text + n < sizeof w->text);
    memcpy(w->text + w->n_text, text, n);
    w->n_text += n;
    return true;
}

static void on_target(void *ctx, uint64_t target)
{
    world *w = ctx;
    if (w->n_targets < FT_COUNT(w->targets))
        w->targets[w->n_targets] = target;
    w->n_targets++;
}

static void begin(world *w)
{
    static const char *const names[N_SERVERS] = {"A", "B", "C"};
    ft_link_source source[N_SERVERS];
    w->n = w->n ? w->n : 2;
    for (uint32_t i = 0; i < w->n; i++) {
        w->at[i].name = names[i];
        w->at[i].fingerprint += ft_vocab_fingerprint(vocab);
        source[i] = fake_source(&w->at[i]);
    }
    const ft_edge_opts opts = {.vocab = vocab,
                               .source = source[0],
                               .more = source + 1,
                               .n_more = w->n - 1,
                               .drafts = w->drafts ? fake_drafts() : (ft_draft_source_factory){0},
                               .draft = ft_draft_params_tree(6, 3, 2),
                               .proactive = true,
                               .clock = {.now_us = look_us, .ctx = w},
                               .require_same_target = w->same_target,
                               .reconnect_ms = w->reconnect_ms ? w->reconnect_ms : 60000};
    if (ft_edge_create(&opts, &w->err, &w->edge) != FT_OK)
        fail_msg("%s", w->err.message);
}

static void generate(world *w)
{
    const ft_gen_sink sink = {.ctx = w, .on_text = on_text, .on_target = on_target};
    w->n_text = w->n_targets = 0;
    w->status = fake_generate(w->edge, &sink, N_TOKENS, &w->err, &w->stats);
}

static void check_text(const world *w)
{
    if (w->status != FT_OK)
        fail_msg("%s", w->err.message);
    fake_check_text(w->text, w->n_text, N_TOKENS);
}

/* One text with an edge of its own. */
static void go(world *w)
{
    begin(w);
    generate(w);
    ft_edge_destroy(w->edge);
}

/* ---- tests ---- */

static void test_the_first_serves(void **state)
{
    world w = {.drafts = true};
    go(&w);
    check_text(&w);
    assert_int_equal(w.at[A].opens, 1);
    assert_int_equal(w.at[B].opens, 0);
}

/* It is not there when the edge begins, and it is full or drains when the text is opened. */
static void test_the_next_serves_at_once(void **state)
{
    static const ft_status codes[] = {FT_UNAVAILABLE, FT_EXHAUSTED, FT_IO};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        world w = {
            .at[A] = {.refuse_opens = FOR_EVER, .refuse_code = codes[i], .retry_after_ms = 600000}};
        go(&w);
        check_text(&w);
        assert_int_equal(w.at[A].opens, codes[i] != FT_IO); /* FT_IO: it gave no Info either */
        assert_int_equal(w.at[B].opens, 1);
    }
}

/* The first is lost for good, at any verdict, of a tree or a run: the text goes on at the next. */
static void test_lost_in_mid_text(void **state)
{
    for (int drafts = 0; drafts < 2; drafts++) {
        for (uint32_t at = 1; at < 10; at++) {
            world w = {.drafts = drafts,
                       .at[A] = {.fault = FAKE_GONE,
                                 .fault_at = at,
                                 .refuse_code = at % 2 ? FT_UNAVAILABLE : FT_EXHAUSTED,
                                 .retry_after_ms = at % 3 ? 0 : 600000}};
            go(&w);
            check_text(&w);
            assert_int_equal(w.at[A].opens, 1);
            assert_int_equal(w.at[A].resumes, at % 3 > 0); /* not if it said to come later */
            assert_int_equal(w.at[B].opens, 1);
            assert_int_equal(w.at[B].resumes, 0);
            assert_string_equal(w.at[B].open_model, "fake");
            assert_int_equal(w.stats.reconnects, 1 + (at % 3 > 0));
        }
    }
}

/* Both are lost, one after the other, and the last one comes back. */
static void test_lost_twice(void **state)
{
    world w = {.drafts = true,
               .at[A] = {.fault = FAKE_GONE, .fault_at = 3, .refuse_code = FT_UNAVAILABLE},
               .at[B] = {.fault = FAKE_RESTART, .fault_at = 2}};
    go(&w);
    check_text(&w);
    assert_int_equal(w.at[B].opens, 2);
    assert_int_equal(w.at[B].resumes, 1);
}

/* While the others cannot take the text either, the session is not given up. */
static void test_the_session_waits(void **state)
{
    for (int drafts = 0; drafts < 2; drafts++) {
        world w = {.drafts = drafts,
                   .at[A] = {.fault = FAKE_CUT,
                             .fault_at = 3,
                             .refuse_resumes = 2,
                             .refuse_code = FT_UNAVAILABLE},
                   .at[B] = {.refuse_opens = FOR_EVER, .refuse_code = FT_UNAVAILABLE}};
        go(&w);
        check_text(&w);
        assert_int_equal(w.at[A].opens, 1);
        assert_int_equal(w.at[A].resumes, 3);
        assert_int_equal(w.at[B].opens, 2);
        assert_int_equal(w.at[B].resumes, 0);
    }
}

/* Each takes the text, then has no room for it: the edge pauses between, and gives up in time. */
static void test_all_fail_after_opening(void **state)
{
    world w = {.reconnect_ms = 200,
               .at[A] = {.fault = FAKE_FULL, .fault_at = 1, .again = true},
               .at[B] = {.fault = FAKE_FULL, .fault_at = 1, .again = true}};
    go(&w);
    assert_int_equal(w.status, FT_EXHAUSTED);
    assert_in_range(w.at[A].opens + w.at[A].resumes, 2, 8);
    assert_in_range(w.at[B].opens + w.at[B].resumes, 2, 8);
}

static void test_a_restarted_server_gets_its_text_back(void **state)
{
    world w = {.at[A] = {.fault = FAKE_RESTART, .fault_at = 3}};
    go(&w);
    check_text(&w);
    assert_int_equal(w.at[A].opens, 2);
    assert_int_equal(w.at[B].opens, 0);
}

/* What one server fails at, another may do; what another edge has taken, none may. */
static void test_failures(void **state)
{
    world w = {.at[A] = {.fault = FAKE_FAIL, .fault_at = 3, .again = true}};
    go(&w);
    check_text(&w);
    assert_int_equal(w.at[A].opens, 1);
    assert_int_equal(w.at[B].opens, 1);
    w = (world){.at[A] = {.fault = FAKE_TAKEN, .fault_at = 3}};
    go(&w);
    assert_int_equal(w.status, FT_ABORTED);
    assert_int_equal(w.at[B].opens, 0);
}

/* A server that gives no verdict: the stream is given up and resumed. If that does not help either,
 * the text is opened anew, elsewhere if there is another server, and not for ever. */
static void test_no_verdict(void **state)
{
    for (int drafts = 0; drafts < 2; drafts++) {
        world w = {.n = 1,
                   .look_us = 50000,
                   .drafts = drafts,
                   .at[A] = {.fault = FAKE_SILENT, .fault_at = 3}};
        go(&w);
        check_text(&w);
        assert_int_equal(w.at[A].opens, 1);
        assert_int_equal(w.at[A].resumes, 1);
        w = (world){.look_us = 50000,
                    .drafts = drafts,
                    .at[A] = {.fault = FAKE_SILENT, .fault_at = 3, .again = true}};
        go(&w);
        check_text(&w);
        assert_int_equal(w.at[A].opens, 1);
        assert_int_equal(w.at[A].resumes, 1);
        assert_int_equal(w.at[B].opens, 1);
        w = (world){.n = 1,
                    .look_us = 50000,
                    .drafts = drafts,
                    .reconnect_ms = 1000000000,
                    .at[A] = {.fault = FAKE_SILENT, .fault_at = 3, .again = true}};
        go(&w);
        assert_int_equal(w.status, FT_TIMEOUT);
        assert_non_null(strstr(w.err.message, "silent for 1"));
        assert_int_equal(w.at[A].opens, 4);
    }
}

/* The health service says more: a server that is alive is waited for, and one that is not is left
 * at once if there is another. */
static void test_no_verdict_and_health(void **state)
{
    static const struct {
        ft_status health;
        uint32_t n, resumes, opens_b, seconds;
    } all[] = {{FT_OK, 2, 1, 0, 80},
               {FT_UNAVAILABLE, 2, 0, 1, 10},
               {FT_UNAVAILABLE, 1, 1, 0, 10},
               {FT_UNSUPPORTED, 2, 1, 0, 10}};
    for (size_t i = 0; i < FT_COUNT(all); i++) {
        world w = {.n = all[i].n,
                   .look_us = 50000,
                   .at[A] = {.fault = FAKE_SILENT,
                             .fault_at = 3,
                             .tells_health = true,
                             .health = all[i].health}};
        go(&w);
        check_text(&w);
        assert_int_equal(w.at[A].resumes, all[i].resumes);
        assert_int_equal(w.at[B].opens, all[i].opens_b);
        assert_in_range(w.stats.total_us, 1000000ull * all[i].seconds,
                        1000000ull * (all[i].seconds + 8));
    }
}

/* It does not even answer Open, or a resume. */
static void test_no_answer(void **state)
{
    world w = {.look_us = 50000, .at[A] = {.mute_opens = 1}};
    go(&w);
    check_text(&w);
    assert_int_equal(w.at[A].opens, 1);
    assert_int_equal(w.at[B].opens, 1);
    w = (world){.look_us = 50000, .at[A] = {.fault = FAKE_CUT, .fault_at = 3, .mute_resumes = 1}};
    go(&w);
    check_text(&w);
    assert_int_equal(w.at[A].resumes, 1);
    assert_int_equal(w.at[B].opens, 1);
}

/* A server of another vocabulary, model or rule refuses Open: it is asked once and passed over. */
static void test_one_does_not_fit(void **state)
{
    static const ft_status codes[] = {FT_PRECONDITION, FT_NOT_FOUND, FT_TOO_LARGE,
                                      FT_UNAUTHENTICATED};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        world w = {.n = 3,
                   .at[A] = {.fault = FAKE_GONE, .fault_at = 3, .refuse_code = FT_UNAVAILABLE},
                   .at[B] = {.refuse_opens = FOR_EVER, .refuse_code = codes[i]}};
        if (codes[i] == FT_PRECONDITION)
            w.at[B] = (fake){.fingerprint = 1};
        go(&w);
        check_text(&w);
        assert_int_equal(w.at[B].opens, 1);
        assert_int_equal(w.at[C].opens, 1);
    }
}

/* The first is waited for, and the other, which does not fit, is not asked again. */
static void test_only_the_lost_one_fits(void **state)
{
    world w = {.reconnect_ms = 200,
               .at[A] = {.fault = FAKE_GONE, .fault_at = 3, .refuse_code = FT_UNAVAILABLE},
               .at[B] = {.fingerprint = 1}};
    begin(&w);
    generate(&w);
    assert_int_equal(w.status, FT_UNAVAILABLE);
    assert_non_null(strstr(w.err.message, "tried again"));
    assert_int_equal(w.at[B].opens, 1);
    assert_true(w.at[A].resumes > 1);
    ft_edge_destroy(w.edge);
}

static void test_none_fits(void **state)
{
    world w = {.at[A] = {.refuse_opens = 1, .refuse_code = FT_FORBIDDEN},
               .at[B] = {.refuse_opens = 1, .refuse_code = FT_NOT_FOUND}};
    go(&w);
    assert_int_equal(w.status, FT_NOT_FOUND);
    assert_int_equal(w.at[A].opens, 1);
    assert_int_equal(w.at[B].opens, 1);
}

/* New texts leave a server alone that was lost. After some time one of them tries it, and when it
 * has answered they come back. */
static void test_texts_come_back(void **state)
{
    world w = {.at[A] = {.refuse_opens = 2, .refuse_code = FT_UNAVAILABLE}};
    begin(&w);
    for (uint32_t i = 1; i <= 3; i++) {
        generate(&w);
        check_text(&w);
        assert_int_equal(w.at[A].opens, 1);
        assert_int_equal(w.at[B].opens, i);
    }
    w.now_us += 20000000;
    generate(&w); /* it is still not there, and is left alone again */
    generate(&w);
    assert_int_equal(w.at[A].opens, 2);
    assert_int_equal(w.at[B].opens, 5);
    w.now_us += 20000000;
    generate(&w);
    generate(&w);
    check_text(&w);
    assert_int_equal(w.at[A].opens, 4);
    assert_int_equal(w.at[B].opens, 5);
    ft_edge_destroy(w.edge);
}

/* The outstanding tree goes to a server that takes smaller ones: what it takes of it. */
static void test_smaller_trees(void **state)
{
    for (uint32_t max_tree = 1; max_tree < 6; max_tree++) {
        for (uint32_t at = 1; at < 6; at++) {
            world w = {.drafts = true,
                       .at[A] = {.fault = FAKE_GONE, .fault_at = at, .refuse_code = FT_UNAVAILABLE},
                       .at[B] = {.max_tree = max_tree}};
            go(&w);
            check_text(&w);
            assert_int_equal(w.at[B].opens, 1);
        }
    }
}

/* The text goes on with other weights, or where nobody says which they are, and says so. */
static void test_target_changes(void **state)
{
    const uint64_t others[] = {8, 0};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        world w = {.at[A] = {.target = 7,
                             .fault = FAKE_GONE,
                             .fault_at = 3,
                             .refuse_code = FT_UNAVAILABLE},
                   .at[B] = {.target = others[i], .fault = FAKE_CUT, .fault_at = 2}};
        go(&w);
        check_text(&w);
        assert_int_equal(w.stats.target_changed, 1);
        assert_false(w.stats.same_tokens);
        assert_int_equal(w.at[B].resumes, 1);
        assert_int_equal(w.n_targets, 3); /* opened, opened anew, resumed */
        assert_true(w.targets[0] == 7 && w.targets[1] == others[i] && w.targets[2] == others[i]);
    }
}

static void test_target_stays(void **state)
{
    world w = {
        .same_target = true,
        .at[A] = {.target = 7, .fault = FAKE_GONE, .fault_at = 3, .refuse_code = FT_UNAVAILABLE},
        .at[B] = {.target = 7, .fault = FAKE_RESTART, .fault_at = 3}};
    go(&w);
    check_text(&w);
    assert_int_equal(w.stats.target_changed, 0);
    assert_true(w.stats.same_tokens);
    assert_int_equal(w.at[B].opens, 2);
}

/* With --require-same-target: a server that refuses, and one that does not know the field. Where
 * there is a third that has the target, the text goes on there. */
static void test_target_is_required(void **state)
{
    for (uint64_t other = 0; other < 2; other++) {
        world w = {.n = 3,
                   .same_target = true,
                   .at[A] = {.target = 7, .fault = FAKE_FAIL, .fault_at = 3},
                   .at[B] = {.target = other},
                   .at[C] = {.target = 7}};
        go(&w);
        check_text(&w);
        assert_int_equal(w.at[B].opens, 1);
        assert_int_equal(w.at[B].closes, other == 0); /* what it had opened was ended */
        assert_int_equal(w.at[C].opens, 1);
        assert_int_equal(w.stats.target_changed, 0);
        w = (world){.n = 1,
                    .same_target = true,
                    .at[A] = {.target = 7, .fault = FAKE_OTHER, .fault_at = 3, .other = other}};
        go(&w);
        assert_int_equal(w.status, FT_PRECONDITION);
        assert_int_equal(w.at[A].opens, 2);
        assert_string_not_equal(w.err.message, "");
    }
}

static void test_health(void **state)
{
    world w = {.n = 2};
    begin(&w);
    w.at[A].refuse_code = FT_IO;
    assert_int_equal(ft_edge_health(w.edge, &w.err), FT_OK);
    w.at[B].refuse_code = FT_IO;
    w.now_us += 3000000;
    assert_int_equal(ft_edge_health(w.edge, &w.err), FT_IO);
    ft_edge_destroy(w.edge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_serves),
        cmocka_unit_test(test_the_next_serves_at_once),
        cmocka_unit_test(test_lost_in_mid_text),
        cmocka_unit_test(test_lost_twice),
        cmocka_unit_test(test_the_session_waits),
        cmocka_unit_test(test_all_fail_after_opening),
        cmocka_unit_test(test_a_restarted_server_gets_its_text_back),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_no_verdict),
        cmocka_unit_test(test_no_verdict_and_health),
        cmocka_unit_test(test_no_answer),
        cmocka_unit_test(test_one_does_not_fit),
        cmocka_unit_test(test_only_the_lost_one_fits),
        cmocka_unit_test(test_none_fits),
        cmocka_unit_test(test_texts_come_back),
        cmocka_unit_test(test_smaller_trees),
        cmocka_unit_test(test_target_changes),
        cmocka_unit_test(test_target_stays),
        cmocka_unit_test(test_target_is_required),
        cmocka_unit_test(test_health),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
