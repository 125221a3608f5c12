// SPDX-License-Identifier: Apache-2.0
// Edge and verifier with early drafts: the text is the target's alone, with and without them, and
// some of them are taken. A link in between holds each tree back until an early draft goes out
// behind it or the edge has had its time, and both reach the server together, so that what comes
// before a verdict does not depend on the machine; the edge's clock counts how often it is asked.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "edge/edge.h"
#include "local/link.h"
#include "support/gate.h"
#include "support/tiny_model.h"

enum {
    N_TOKENS = 80,
    N_PROMPT = 30,
    N_SEEDS = 5,
    N_WARM = 3,
    MAX_CONTEXT = 512,
    STEP_US = 1000,
    RTT_US = 100000,
    HELD_LOOKS = 100, /* of an edge that has nothing more to send */
    LOSE_EVERY = 7    /* messages, where streams are lost */
};

typedef struct models {
    ft_vocab *vocab;
    ft_model *target, *bad;
} models;

static models m;

static int setup(void **state)
{
    const tiny_gguf_opts target = {.type = GGML_TYPE_Q4_0, .seed = 1};
    const tiny_gguf_opts bad = {.type = GGML_TYPE_Q4_0, .seed = 2, .n_layer = 1};
    (void)state;
    tiny_quiet();
    m.target = tiny_model(&target, &m.vocab);
    m.bad = tiny_model(&bad, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ft_model_destroy(m.target);
    ft_model_destroy(m.bad);
    ft_vocab_destroy(m.vocab);
    return 0;
}

/* ---- the way between ---- */

typedef struct way {
    ft_verifier *verifier;
    ft_link_source inner;
    int64_t now_us;
    bool loses;      /* streams, now and then */
    bool old_server; /* says nothing of early drafts */
    uint32_t messages, early;
} way;

typedef struct held_link {
    ft_link link;
    way *way;
    ft_link *inner;
    ft_client_msg held; /* a tree */
    bool holds, lost;
    uint32_t looks;
    int64_t sent_us;
} held_link;

static int64_t tick(void *ctx)
{
    int64_t *now_us = ctx;
    return *now_us += STEP_US;
}

static ft_status let_go(held_link *l, ft_error *err)
{
    if (!l->holds)
        return FT_OK;
    l->holds = false;
    return l->inner->vt->send(l->inner, &l->held, err);
}

static ft_status held_send(ft_link *link, const ft_client_msg *msg, ft_error *err)
{
    held_link *l = (held_link *)link;
    l->lost = l->way->loses && ++l->way->messages % LOSE_EVERY == 0;
    if (msg->kind == FT_CLIENT_DRAFT && msg->draft.n > 0 && msg->draft.n_under == 0) {
        l->held = *msg;
        l->holds = true;
        l->looks = 0;
        l->sent_us = l->way->now_us;
        return FT_OK;
    }
    l->way->early += msg->kind == FT_CLIENT_DRAFT && msg->draft.n_under > 0;
    test_gate gate;
    test_gate_shut(&gate, l->way->verifier);
    ft_status status = let_go(l, err);
    if (status == FT_OK)
        status = l->inner->vt->send(l->inner, msg, err);
    test_gate_open(&gate);
    return status;
}

static ft_status held_recv(ft_link *link, int64_t timeout_us, ft_error *err, ft_server_msg **out)
{
    held_link *l = (held_link *)link;
    (void)timeout_us;
    *out = NULL;
    if (l->holds && l->looks++ < HELD_LOOKS)
        return ft_error_set(err, FT_TIMEOUT, "no message yet");
    ft_status status = let_go(l, err);
    if (status == FT_OK)
        status = l->inner->vt->recv(l->inner, 30000000, err, out);
    if (status != FT_OK)
        return status;
    if (l->lost) {
        ft_server_msg_free(*out);
        *out = NULL;
        return ft_error_set(err, FT_UNAVAILABLE, "lost");
    }
    (*out)->waited_us = 0; /* on the machine's clock it has */
    if ((*out)->kind == FT_SERVER_OPENED && l->way->old_server)
        (*out)->opened.limits.early_drafts = false;
    if ((*out)->kind == FT_SERVER_VERDICT) {
        int64_t took_us = l->way->now_us - l->sent_us - RTT_US;
        (*out)->verdict.queue_us = (*out)->verdict.others_us = (*out)->verdict.read_us = 0;
        (*out)->verdict.verify_us = took_us > 0 ? (uint32_t)took_us : 1;
        l->sent_us = l->way->now_us;
    }
    return FT_OK;
}

static uint32_t held_retry_after_ms(ft_link *link)
{
    return ((held_link *)link)->inner->vt->retry_after_ms(((held_link *)link)->inner);
}

static void held_bytes(ft_link *link, uint64_t *sent, uint64_t *received)
{
    (void)link;
    *sent = *received = 0;
}

static void held_cancel(ft_link *link)
{
    ((held_link *)link)->inner->vt->cancel(((held_link *)link)->inner);
}

static void held_destroy(ft_link *link)
{
    held_link *l = (held_link *)link;
    l->inner->vt->destroy(l->inner);
    free(l);
}

static const ft_link_vtable held_vtable = {.send = held_send,
                                           .recv = held_recv,
                                           .retry_after_ms = held_retry_after_ms,
                                           .bytes = held_bytes,
                                           .cancel = held_cancel,
                                           .destroy = held_destroy};

static ft_status way_open(void *ctx, ft_error *err, ft_link **out)
{
    held_link *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->link.vt = &held_vtable;
    l->way = ctx;
    *out = &l->link;
    return l->way->inner.open(l->way->inner.ctx, err, &l->inner);
}

static ft_status way_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    way *w = ctx;
    ft_status status = w->inner.info(w->inner.ctx, err, out);
    out->limits.early_drafts = out->limits.early_drafts && !w->old_server;
    return status;
}

/* ---- texts ---- */

typedef struct text {
    int32_t id[N_TOKENS + 8];
    uint32_t n;
    ft_gen_stats stats;
} text;

static bool on_text(void *ctx, const char *piece, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    text *t = ctx;
    (void)piece, (void)n;
    for (size_t i = 0; i < n_tokens && t->n < N_TOKENS + 8; i++)
        t->id[t->n++] = tokens[i].id;
    return true;
}

static void write_text(const ft_edge_opts *opts, float temperature, uint64_t seed, text *out)
{
    int32_t prompt[N_PROMPT];
    ft_error err = {0};
    ft_edge *edge = NULL;
    for (int32_t i = 0; i < N_PROMPT; i++)
        prompt[i] = 3 + (i * 37 + (int32_t)seed) % 256;
    ft_gen_request request = {.prompt = prompt,
                              .n_prompt = N_PROMPT,
                              .sampling = ft_sampling_default(),
                              .max_tokens = N_TOKENS};
    const ft_gen_sink sink = {.ctx = out, .on_text = on_text};
    request.sampling.temperature = temperature;
    request.sampling.seed = seed;
    out->n = 0;
    if (ft_edge_create(opts, &err, &edge) != FT_OK ||
        ft_edge_generate(edge, &request, &sink, &err, &out->stats) != FT_OK)
        fail_msg("%s", err.message);
    ft_edge_destroy(edge);
}

typedef struct setting {
    const ft_model *draft;
    bool early, automatic, loses, old_server;
} setting;

static uint32_t compare(ft_verifier *v, const setting *how, uint32_t warm, uint64_t seed)
{
    static text texts[N_SEEDS][N_WARM], drafted; /* the target's, written once */
    text *plain = &texts[seed][warm];
    const float temperature = 0.3f * (float)warm;
    way w = {.verifier = v,
             .inner = ft_local_link_source(v),
             .loses = how->loses,
             .old_server = how->old_server};
    ft_edge_opts opts = {.vocab = m.vocab, .source = w.inner, .clock = ft_clock_monotonic()};
    if (plain->n == 0)
        write_text(&opts, temperature, seed, plain);
    opts.source = (ft_link_source){.ctx = &w, .open = way_open, .info = way_info};
    opts.clock = (ft_clock){.now_us = tick, .ctx = &w.now_us};
    opts.draft_model = how->draft;
    opts.draft = ft_draft_params_tree(16, 3, 4);
    opts.proactive = true;
    opts.early = how->early;
    opts.automatic = how->automatic;
    opts.reconnect_ms = 1000000;
    opts.n_threads = 1;
    write_text(&opts, temperature, seed, &drafted);
    assert_int_equal(drafted.n, plain->n);
    assert_memory_equal(drafted.id, plain->id, plain->n * sizeof *plain->id);
    assert_int_equal(drafted.stats.finish, plain->stats.finish);
    assert_int_equal(drafted.stats.early_sent, w.early);
    assert_true(drafted.stats.early_taken <= drafted.stats.early_sent);
    if (!how->early || how->old_server)
        assert_int_equal(w.early, 0);
    return drafted.stats.early_taken;
}

static ft_verifier *make_verifier(void)
{
    const ft_verifier_opts opts = {.model = m.target,
                                   .vocab = m.vocab,
                                   .clock = ft_clock_monotonic(),
                                   .max_context = MAX_CONTEXT,
                                   .session_ttl_s = 60,
                                   .n_threads = 1};
    ft_error err = {0};
    ft_verifier *v = NULL;
    if (ft_verifier_create(&opts, &err, &v) != FT_OK)
        fail_msg("%s", err.message);
    return v;
}

static uint32_t compare_all(const setting *how)
{
    ft_verifier *v = make_verifier();
    ft_verifier_stats s;
    uint32_t taken = 0;
    for (uint64_t seed = 0; seed < N_SEEDS; seed++)
        for (uint32_t warm = 0; warm < N_WARM; warm++)
            taken += compare(v, how, warm, seed);
    ft_verifier_tick(v);
    ft_verifier_get_stats(v, &s);
    assert_true(s.early_taken >= taken); /* some of their verdicts may be lost */
    if (!how->loses)
        assert_int_equal(s.early_taken, taken);
    ft_verifier_destroy(v);
    return taken;
}

static void test_same_text(void **state)
{
    (void)state;
    assert_true(compare_all(&(setting){.draft = m.target, .early = true}) >= 3);
    assert_int_equal(compare_all(&(setting){.draft = m.target}), 0);
    compare_all(&(setting){.draft = m.bad, .early = true});
    compare_all(&(setting){.draft = m.target, .early = true, .automatic = true});
}

static void test_lost_streams(void **state)
{
    (void)state;
    assert_true(compare_all(&(setting){.draft = m.target, .early = true, .loses = true}) > 0);
}

/* Who does not say that it understands them gets none. */
static void test_old_server(void **state)
{
    (void)state;
    compare_all(&(setting){.draft = m.target, .early = true, .old_server = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_text),
        cmocka_unit_test(test_lost_streams),
        cmocka_unit_test(test_old_server),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
