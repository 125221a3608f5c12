// SPDX-License-Identifier: Apache-2.0
// An edge with a fallback target (edge/offline.h): when a text goes there, when it does not, and
// how it comes back. No token is missing or comes twice, wherever it was made.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "edge/offline.h"
#include "support/fake_verifier.h"
#include "support/tiny_model.h"

enum { N_TOKENS = 24, N_TARGETS = 8 };

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
    fake a, b, here; /* two servers, and the fallback target */
    bool two;        /* there is a server b */
    bool drafts;     /* speculate every round; else runs */
    bool same_target;
    uint32_t reconnect_ms; /* 0: 60,000 */
    uint32_t back_at;      /* the text's length at which a takes texts again; 0: never */
    int64_t now_us;        /* the edge's clock: each look at it takes a tenth of a second */
    ft_edge *edge;
    ft_error err;
    /* of the last text */
    char text[64];
    size_t n_text;
    ft_status status;
    ft_gen_stats stats;
    uint64_t targets[N_TARGETS]; /* that the sink was told, without repetitions */
    uint32_t n_targets;
    int64_t there_us; /* when it was told of the target 9 */
} world;

static int64_t look_us(void *ctx)
{
    return ((world *)ctx)->now_us += 100000;
}

static bool on_text(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    world *w = ctx;
    assert_true(w->n_text + n < sizeof w->text);
    memcpy(w->text + w->n_text, text, n);
    w->n_text += n;
    if (w->back_at && w->n_text >= w->back_at)
        w->a.refuse_opens = 0;
    return true;
}

static void on_target(void *ctx, uint64_t target)
{
    world *w = ctx;
    if (w->n_targets > 0 && w->targets[w->n_targets - 1] == target)
        return;
    assert_true(w->n_targets < N_TARGETS);
    if (target == 9)
        w->there_us = w->now_us;
    w->targets[w->n_targets++] = target;
}

static ft_status create(world *w)
{
    w->a.name = "A";
    w->b.name = "B";
    w->a.fingerprint += ft_vocab_fingerprint(vocab);
    w->b.fingerprint += ft_vocab_fingerprint(vocab);
    w->here.fingerprint += ft_vocab_fingerprint(vocab);
    const ft_link_source more = fake_source(&w->b);
    ft_link_source here = fake_source(&w->here);
    here.in_process = true;
    const ft_edge_opts opts = {.vocab = vocab,
                               .source = fake_source(&w->a),
                               .more = &more,
                               .n_more = w->two,
                               .fallback = &here,
                               .drafts = w->drafts ? fake_drafts() : (ft_draft_source_factory){0},
                               .draft = ft_draft_params_tree(6, 3, 2),
                               .proactive = true,
                               .clock = {.now_us = look_us, .ctx = w},
                               .require_same_target = w->same_target,
                               .reconnect_ms = w->reconnect_ms ? w->reconnect_ms : 60000};
    return ft_edge_create(&opts, &w->err, &w->edge);
}

static void begin(world *w)
{
    if (create(w) != FT_OK)
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
    assert_int_equal(w->stats.tokens, N_TOKENS);
    fake_check_text(w->text, w->n_text, N_TOKENS);
}

/* One text with an edge of its own, which must be whole. */
static void go(world *w)
{
    begin(w);
    generate(w);
    ft_edge_destroy(w->edge);
    check_text(w);
}

static fake gone_at(uint32_t verdict)
{
    return (fake){.fault = FAKE_GONE, .fault_at = verdict, .refuse_code = FT_UNAVAILABLE};
}

/* ---- there ---- */

/* The server is lost for good, at any verdict of a tree or a run. */
static void test_lost_in_mid_text(void **state)
{
    for (int drafts = 0; drafts < 2; drafts++)
        for (uint32_t at = 1; at < 10; at++) {
            world w = {.drafts = drafts, .a = gone_at(at)};
            go(&w);
            assert_true(w.a.opens > 1); /* it was asked again */
            assert_int_equal(w.here.opens, 1);
            assert_int_equal(w.stats.switches, 1);
            assert_in_range(w.stats.fallback_tokens, 1, N_TOKENS);
            assert_true(w.stats.same_tokens);
            assert_true(w.stats.total_us >= 2000000);
        }
}

/* A server that is back in time keeps its text. */
static void test_back_in_time(void **state)
{
    for (int drafts = 0; drafts < 2; drafts++)
        for (uint32_t at = 1; at < 6; at++) {
            world w = {.drafts = drafts,
                       .a = {.fault = FAKE_CUT,
                             .fault_at = at,
                             .refuse_resumes = 2,
                             .refuse_code = FT_UNAVAILABLE}};
            go(&w);
            assert_int_equal(w.a.resumes, 3);
            assert_int_equal(w.here.opens, 0);
            assert_int_equal(w.stats.switches + w.stats.fallback_tokens, 0);
        }
}

/* Another server comes first, at once. */
static void test_another_server_comes_first(void **state)
{
    world w = {.two = true, .drafts = true, .a = gone_at(3)};
    go(&w);
    assert_int_equal(w.b.opens, 1);
    assert_int_equal(w.here.opens, 0);
    w = (world){.two = true, .drafts = true, .a = gone_at(3), .b = gone_at(2)};
    go(&w);
    assert_int_equal(w.here.opens, 1);
    assert_int_equal(w.stats.switches, 1);
}

/* No server has room. */
static void test_full(void **state)
{
    world w = {.a = {.refuse_opens = FOR_EVER, .refuse_code = FT_EXHAUSTED}};
    go(&w);
    assert_int_equal(w.stats.fallback_tokens, N_TOKENS);
    assert_int_equal(w.stats.switches, 0); /* it was never anywhere else */
}

/* It says nothing any more. A server that says that it is alive is waited for. */
static void test_silent(void **state)
{
    for (int alive = 0; alive < 2; alive++) {
        world w = {.drafts = true,
                   .a = {.fault = FAKE_SILENT,
                         .fault_at = 3,
                         .refuse_resumes = alive ? 0 : FOR_EVER,
                         .refuse_code = FT_UNAVAILABLE,
                         .refuse_nth = 2,
                         .tells_health = true,
                         .health = alive ? FT_OK : FT_UNAVAILABLE},
                   .here.target = 9};
        go(&w);
        assert_int_equal(w.here.opens, !alive);
        assert_int_equal(w.a.resumes, alive);
        assert_true(alive || w.there_us < 10000000); /* the time of edges without it */
    }
}

/* While the edge is offline, the next text begins at the fallback target. */
static void test_next_texts(void **state)
{
    world w = {.drafts = true, .a = gone_at(3)};
    begin(&w);
    generate(&w);
    check_text(&w);
    generate(&w);
    check_text(&w);
    assert_int_equal(w.stats.fallback_tokens, N_TOKENS);
    assert_int_equal(w.stats.switches, 0);
    assert_int_equal(w.here.opens, 2);
    w.a.refuse_opens = 0;
    w.a.fault = FAKE_NONE;
    generate(&w); /* finds it */
    check_text(&w);
    assert_int_equal(w.stats.switches, 1);
    const uint32_t opens = w.here.opens;
    generate(&w); /* knows it */
    check_text(&w);
    assert_int_equal(w.stats.fallback_tokens, 0);
    assert_int_equal(w.here.opens, opens);
    ft_edge_destroy(w.edge);
}

static void test_no_server_at_start(void **state)
{
    world w = {.a = {.absent = true, .refuse_opens = FOR_EVER, .refuse_code = FT_UNAVAILABLE}};
    begin(&w);
    assert_int_equal(ft_edge_health(w.edge, &w.err), FT_OK);
    generate(&w);
    check_text(&w);
    assert_int_equal(w.stats.fallback_tokens, N_TOKENS);
    w.back_at = 6;
    generate(&w);
    check_text(&w);
    assert_int_equal(w.stats.switches, 1);
    assert_in_range(w.stats.fallback_tokens, 6, N_TOKENS - 1);
    ft_edge_destroy(w.edge);
}

/* A server that is there and does not fit is told of, not hidden. */
static void test_a_server_that_does_not_fit(void **state)
{
    world w = {.a = {.fingerprint = 1}};
    assert_int_equal(create(&w), FT_PRECONDITION);
}

/* ---- and back ---- */

static void test_back_in_mid_text(void **state)
{
    for (int drafts = 0; drafts < 2; drafts++)
        for (uint32_t back_at = 6; back_at < 16; back_at++) {
            world w = {.drafts = drafts, .back_at = back_at, .a = gone_at(3)};
            go(&w);
            assert_int_equal(w.stats.switches, 2);
            assert_in_range(w.stats.fallback_tokens, 1, N_TOKENS - 2);
            assert_int_equal(w.here.closes, 1);
            assert_int_equal(w.here.opens, 1);
        }
}

/* It would take the text, and then it does not: the text is at the fallback target again at once.
 */
static void test_changes_its_mind(void **state)
{
    for (int drafts = 0; drafts < 2; drafts++) {
        world w = {.drafts = drafts,
                   .a = {.fault = FAKE_CUT,
                         .fault_at = 2,
                         .refuse_resumes = FOR_EVER,
                         .refuse_nth = 3,
                         .refuse_code = FT_UNAVAILABLE}};
        go(&w);
        assert_int_equal(w.here.opens, 2);
        assert_int_equal(w.a.opens, 5); /* asked, refused, asked, taken */
        assert_int_equal(w.stats.switches, 2);
    }
}

/* The fallback target's own link breaks. */
static void test_its_link_breaks(void **state)
{
    static const fake_fault faults[] = {FAKE_CUT, FAKE_CUT_ANSWERED, FAKE_RESTART, FAKE_FAIL};
    for (size_t i = 0; i < FT_COUNT(faults); i++) {
        world w = {.drafts = true, .a = gone_at(3), .here = {.fault = faults[i], .fault_at = 2}};
        go(&w);
        assert_int_equal(w.here.opens, 1 + (i >= 2));
        assert_int_equal(w.stats.switches, 1);
    }
}

/* It has no room for long texts: then the server is waited for, as without it. */
static void test_it_cannot_take_the_text(void **state)
{
    world w = {.a = {.fault = FAKE_CUT,
                     .fault_at = 3,
                     .refuse_resumes = 30,
                     .refuse_code = FT_UNAVAILABLE},
               .here = {.refuse_opens = 1, .refuse_code = FT_TOO_LARGE}};
    go(&w);
    assert_int_equal(w.here.opens, 1);
    assert_int_equal(w.a.resumes, 31);
    assert_int_equal(w.stats.switches, 0);
}

/* ---- other weights ---- */

static void test_another_target(void **state)
{
    world w = {.drafts = true, .back_at = 8, .a = gone_at(3), .here.target = 8};
    w.a.target = 7;
    go(&w);
    assert_int_equal(w.stats.target_changed, 2);
    assert_false(w.stats.same_tokens);
    assert_int_equal(w.n_targets, 3);
    assert_true(w.targets[0] == 7 && w.targets[1] == 8 && w.targets[2] == 7);
}

static void test_the_same_target_is_required(void **state)
{
    for (uint64_t other = 0; other < 2; other++) {
        world w = {
            .same_target = true, .reconnect_ms = 4000, .a = gone_at(3), .here.target = other};
        w.a.target = 7;
        begin(&w);
        generate(&w);
        assert_int_equal(w.status, FT_UNAVAILABLE);
        assert_non_null(strstr(w.err.message, "tried again"));
        assert_int_equal(w.here.opens, 1);
        assert_int_equal(w.stats.fallback_tokens, 0);
        ft_edge_destroy(w.edge);
    }
    world w = {.same_target = true, .a = gone_at(3), .here.target = 7};
    w.a.target = 7;
    go(&w);
    assert_true(w.stats.same_tokens);
}

/* ---- the table ---- */

static void test_table(void **state)
{
    for (int s = 0; s < FT_OFFLINE_N_STATES; s++) {
        const bool here = ft_offline_here(&(ft_offline){.state = (ft_offline_state)s});
        assert_int_equal(ft_offline_next((ft_offline_state)s, FT_OFFLINE_TAKE), FT_AT_SERVER);
        assert_int_equal(ft_offline_next((ft_offline_state)s, FT_OFFLINE_SPURN) == FT_GONE, here);
        assert_int_equal(ft_offline_next((ft_offline_state)s, FT_OFFLINE_ASK) == FT_ASKING,
                         s == FT_AT_FALLBACK);
        assert_int_equal(ft_offline_next((ft_offline_state)s, FT_OFFLINE_LEAVE) == FT_RETURNING,
                         s == FT_BACK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost_in_mid_text),
        cmocka_unit_test(test_back_in_time),
        cmocka_unit_test(test_another_server_comes_first),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_next_texts),
        cmocka_unit_test(test_no_server_at_start),
        cmocka_unit_test(test_a_server_that_does_not_fit),
        cmocka_unit_test(test_back_in_mid_text),
        cmocka_unit_test(test_changes_its_mind),
        cmocka_unit_test(test_its_link_breaks),
        cmocka_unit_test(test_it_cannot_take_the_text),
        cmocka_unit_test(test_another_target),
        cmocka_unit_test(test_the_same_target_is_required),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
