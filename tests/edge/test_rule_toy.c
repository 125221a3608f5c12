// SPDX-License-Identifier: Apache-2.0
// A second verification rule (support/rule_toy.c), which exists in tests alone, is registered with
// server and edge and runs over gRPC: what spec/rule.h says is all that the rooms know of a rule.
// Texts are whole, have the target's law, and are greedy ones' where the text is greedy; bad
// evidence ends its own session and no other; a server without the rule refuses, and the edge goes
// on by the rule that every server has. Rule `ratio` (spec/rule_ratio.c) runs over it, too.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "edge/edge.h"
#include "serve/server.h"
#include "support/rule_toy.h"
#include "support/stats.h"
#include "support/tiny_model.h"

#define N_PROMPT 40
#define N_TOKENS 120
#define CHAIN    4
#define SEED     10 /* of a text that does not end before its length */
#define TEXTS    50 /* until a draft was made ahead of a verdict, at most */

static struct {
    ft_vocab *vocab;
    ft_model *target, *draft;
} m;

static int setup(void **state)
{
    const tiny_gguf_opts target = {.type = GGML_TYPE_Q4_0, .seed = 1};
    tiny_quiet();
    m.target = tiny_model(&target, &m.vocab);
    m.draft = tiny_model(&target, NULL);
    return 0;
}

static int teardown(void **state)
{
    ft_model_destroy(m.target);
    ft_model_destroy(m.draft);
    ft_vocab_destroy(m.vocab);
    return 0;
}

static void must(ft_status status, const ft_error *err)
{
    if (status != FT_OK)
        fail_msg("%s", err->message);
}

/* ---- the law ---- */

enum { VOCAB = 30, WALKS = 20000 };

typedef struct law {
    float target[VOCAB], draft[VOCAB];
} law;

static const float *target_row(void *ctx, int32_t node)
{
    return ((const law *)ctx)->target;
}

/* What comes out of a chain's first two positions fits the target, whatever the draft. */
static void the_law_is_the_targets(void **state)
{
    law l;
    ft_rng rng;
    ft_error err = {0};
    ft_rule_work *work;
    double seen[2][VOCAB] = {{0}}, expected[2][VOCAB], n_second = 0;
    ft_rng_init(&rng, 4);
    for (int i = 0; i < VOCAB; i++) {
        l.target[i] = 2 * (float)ft_rng_normal(&rng);
        l.draft[i] = l.target[i] + (float)ft_rng_normal(&rng);
    }
    must(ft_rule_work_create(rules_with_toy, VOCAB, &err, &work), &err);
    for (uint64_t seed = 0; seed < WALKS; seed++) {
        const ft_sampling s = {.temperature = 0.9f, .top_p = 1, .seed = seed};
        ft_buf evidence = {0};
        ft_tree tree;
        ft_tree_clear(&tree);
        for (uint32_t i = 0; i < 2; i++) {
            uint8_t bytes[3 * TOY_TOKENS];
            ft_draft_children c;
            const ft_draw d = {.sampling = &s, .logits = l.draft, .position = 9 + i, .round = 3};
            rule_toy.draw(&rule_toy, work, &d, &c, bytes);
            ft_tree_add(&tree, (int32_t)i - 1, c.at[0].token, 0);
            must(ft_evidence_append(&evidence, bytes, c.n_evidence), &err);
        }
        const ft_drafted draft = {.tree = &tree,
                                  .evidence = (const uint8_t *)evidence.data,
                                  .n_evidence = (uint32_t)evidence.len,
                                  .sampling = &s,
                                  .position = 9};
        const ft_rule_terms terms = rule_toy.terms(&rule_toy, VOCAB, &s);
        ft_verified v = {0};
        must(ft_rule_check(&rule_toy, &terms, &draft, &err), &err);
        assert_true(rule_toy.walk(&rule_toy, work, &draft, (ft_rows){target_row, &l}, &v));
        assert_null(v.refused);
        seen[0][v.n_path > 0 ? tree.token[0] : v.next]++;
        if (v.n_path > 0) {
            seen[1][v.n_path > 1 ? tree.token[1] : v.next]++;
            n_second++;
        }
        ft_buf_deinit(&evidence);
    }
    const ft_candidate *c;
    const ft_sampling s = {.temperature = 0.9f, .top_p = 1};
    const size_t n = ft_sampler_candidates(work->sampler, &s, l.target, &c);
    assert_int_equal(n, VOCAB);
    for (size_t i = 0; i < n; i++) {
        expected[0][c[i].token] = WALKS * exp((double)c[i].logp);
        expected[1][c[i].token] = n_second * exp((double)c[i].logp);
    }
    assert_true(n_second > WALKS / 3.0); /* the draft is worth something */
    assert_true(ft_chi_square_p(seen[0], expected[0], VOCAB) > 1e-4);
    assert_true(ft_chi_square_p(seen[1], expected[1], VOCAB) > 1e-4);
    ft_rule_work_destroy(work);
}

/* ---- over the wire ---- */

typedef struct place {
    ft_server *server;
    ft_wire_client *client;
    const ft_rule *const *rules;
    int port;
    bool restarted;
    /* of a link that lies about what the server offers */
    ft_link_source inner;
} place;

static void start_server(place *p)
{
    const ft_server_opts opts = {.verifier = {.model = m.target,
                                              .vocab = m.vocab,
                                              .rules = p->rules,
                                              .clock = ft_clock_monotonic(),
                                              .max_context = 512,
                                              .kv_tok = 4096,
                                              .max_sessions = 16,
                                              .session_ttl_s = 60,
                                              .n_threads = 1},
                                 .host = "127.0.0.1",
                                 .port = p->port};
    ft_error err = {0};
    must(ft_server_create(&opts, &err, &p->server), &err);
    p->port = ft_server_port(p->server);
}

static place open_place(const ft_rule *const *rules)
{
    place p = {.rules = rules};
    char address[32];
    ft_error err = {0};
    start_server(&p);
    snprintf(address, sizeof address, "127.0.0.1:%d", p.port);
    const ft_wire_client_opts opts = {.address = address};
    must(ft_wire_client_create(&opts, &err, &p.client), &err);
    return p;
}

static void close_place(place *p)
{
    ft_wire_client_destroy(p->client);
    ft_server_destroy(p->server, 0);
}

typedef struct text {
    int32_t ids[N_TOKENS];
    uint32_t n;
    ft_gen_stats stats;
    place *restart; /* at the tenth token; NULL: never */
} text;

static bool on_text(void *ctx, const char *shown, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    text *t = ctx;
    for (size_t i = 0; i < n_tokens && t->n < N_TOKENS; i++)
        t->ids[t->n++] = tokens[i].id;
    if (t->restart && t->n >= 10 && !t->restart->restarted) {
        t->restart->restarted = true;
        ft_server_destroy(t->restart->server, 0);
        start_server(t->restart);
    }
    return true;
}

typedef struct mode {
    const ft_rule *rule;
    bool automatic, proactive;
    const ft_policy *policy;
    double uplink_bits_per_s;
} mode;

static void generate(ft_link_source source, mode how, float temperature, text *t)
{
    const ft_edge_opts opts = {.vocab = m.vocab,
                               .draft_model = m.draft,
                               .source = source,
                               .rule = how.rule,
                               .policy = how.policy,
                               .uplink_bits_per_s = how.uplink_bits_per_s,
                               .draft = how.automatic ? ft_draft_params_tree(32, 8, 8)
                                                      : ft_draft_params_tree(CHAIN, CHAIN, 2),
                               .automatic = how.automatic,
                               .proactive = how.proactive,
                               .early = how.proactive,
                               .clock = ft_clock_monotonic(),
                               .n_threads = 1};
    int32_t prompt[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++)
        prompt[i] = 3 + (i * 37 + 11) % 256;
    const ft_gen_request request = {
        .prompt = prompt,
        .n_prompt = N_PROMPT,
        .sampling = {.temperature = temperature, .top_k = 8, .top_p = 1, .seed = SEED},
        .max_tokens = N_TOKENS};
    const ft_gen_sink sink = {.ctx = t, .on_text = on_text};
    ft_error err = {0};
    ft_edge *edge = NULL;
    must(ft_edge_create(&opts, &err, &edge), &err);
    must(ft_edge_generate(edge, &request, &sink, &err, &t->stats), &err);
    ft_edge_destroy(edge);
    assert_int_equal(t->n, t->stats.tokens);
    if (t->stats.finish == FT_FINISH_LENGTH)
        assert_int_equal(t->n, N_TOKENS);
}

static void check_same(const text *a, const text *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->ids, b->ids, a->n * sizeof *a->ids);
}

static void check_toy(const text *t)
{
    assert_string_equal(t->stats.rule, "toy");
    assert_false(t->stats.same_tokens);
    assert_int_equal(t->stats.early_sent, 0);
    assert_int_equal(t->stats.depth_sum, t->stats.drafted); /* chains */
}

static void it_runs_over_the_wire(void **state)
{
    place p = open_place(rules_with_toy);
    const ft_link_source source = ft_link_source_wire(p.client);
    text toy = {0}, again = {0}, exact = {0};
    generate(source, (mode){.rule = &rule_toy}, 0.8f, &toy);
    check_toy(&toy);
    assert_true(toy.stats.accepted > 0);
    assert_int_equal(toy.stats.finish, FT_FINISH_LENGTH);
    /* All of a chain is sent, but where the text has no room for it. */
    assert_true(toy.stats.drafted + CHAIN * (CHAIN - 1) / 2 >= CHAIN * toy.stats.rounds);
    generate(source, (mode){.rule = &rule_toy}, 0.8f, &again);
    check_same(&toy, &again); /* the same chains, the same text */
    generate(source, (mode){0}, 0.8f, &exact);
    assert_string_equal(exact.stats.rule, "exact");
    assert_true(exact.stats.same_tokens);
    assert_true(exact.n != toy.n || memcmp(exact.ids, toy.ids, toy.n * sizeof *toy.ids) != 0);
    close_place(&p);
}

static void nothing_adapts_to_what_was_drawn(void **state)
{
    place p = open_place(rules_with_toy);
    const ft_link_source source = ft_link_source_wire(p.client);
    for (int i = 0; i < 3; i++) {
        text t = {0};
        generate(source, (mode){.rule = &rule_toy, .automatic = i != 0, .proactive = i != 1}, 0.8f,
                 &t);
        if (t.stats.rounds > 0) /* the controller may prefer runs */
            check_toy(&t);
    }
    close_place(&p);
}

static void greedy_texts_are_the_targets(void **state)
{
    place p = open_place(rules_with_toy);
    const ft_link_source source = ft_link_source_wire(p.client);
    text toy = {0}, exact = {0};
    generate(source, (mode){0}, 0, &exact);
    generate(source, (mode){.rule = &rule_toy, .proactive = true}, 0, &toy);
    assert_string_equal(toy.stats.rule, "toy");
    assert_true(toy.stats.same_tokens);
    check_same(&toy, &exact);
    close_place(&p);
}

static void a_text_is_opened_anew(void **state)
{
    place p = open_place(rules_with_toy);
    text t = {.restart = &p};
    generate(ft_link_source_wire(p.client), (mode){.rule = &rule_toy}, 0.8f, &t);
    assert_true(p.restarted);
    assert_true(t.stats.reconnects >= 1);
    check_toy(&t);
    close_place(&p);
}

/* Rule `ratio` takes the same way: its points are evidence as any. */
static void ratio_runs_over_the_wire(void **state)
{
    place p = open_place(ft_rules_all);
    const ft_link_source source = ft_link_source_wire(p.client);
    text ratio = {0}, again = {0}, exact = {0}, greedy = {0};
    generate(source, (mode){.rule = &ft_rule_ratio}, 0.8f, &ratio);
    assert_string_equal(ratio.stats.rule, "ratio");
    assert_false(ratio.stats.same_tokens);
    assert_true(ratio.stats.accepted > 0);
    assert_int_equal(ratio.stats.depth_sum, ratio.stats.drafted); /* chains */
    for (int i = 0; i < 2; i++) { /* it does not depend on what there is time to draft ahead */
        again = (text){0};
        generate(source, (mode){.rule = &ft_rule_ratio, .proactive = i == 1}, 0.8f, &again);
        check_same(&ratio, &again);
    }
    generate(source, (mode){.rule = &ft_rule_ratio, .automatic = true, .proactive = true}, 0.8f,
             &(text){0});
    generate(source, (mode){.rule = &ft_rule_ratio, .proactive = true}, 0, &greedy);
    generate(source, (mode){0}, 0, &exact);
    check_same(&greedy, &exact);
    p.restarted = false;
    text anew = {.restart = &p};
    generate(source, (mode){.rule = &ft_rule_ratio}, 0.8f, &anew);
    assert_true(p.restarted && anew.stats.reconnects >= 1);
    close_place(&p);
}

/* A policy that chooses by what it sees, as its weights are any. */
static ft_policy any_policy(uint64_t draft)
{
    const ft_policy like = {.n_lengths = CHAIN, .n_l = 2, .l = {100, 300}, .draft = draft};
    ft_error err = {0};
    ft_policy p;
    ft_rng rng;
    ft_rng_init(&rng, 1);
    must(ft_policy_init(&like, &err, &p), &err);
    for (size_t i = 0; i < ft_mlp_n_params(&p.net.shape); i++)
        p.net.weight[0][i] = (float)ft_rng_normal(&rng);
    return p;
}

static void a_policy_chooses_length_and_l(void **state)
{
    place p = open_place(ft_rules_all);
    const ft_link_source source = ft_link_source_wire(p.client);
    ft_policy policy = any_policy(0);
    mode how = {.rule = &ft_rule_ratio, .policy = &policy, .uplink_bits_per_s = 1e6};
    text t = {0}, again = {0}, ahead = {0}, fixed = {0}, exact = {0};
    generate(source, how, 0.8f, &t);
    assert_true(t.stats.rounds > 10 && t.stats.policy_rounds == t.stats.rounds);
    assert_true(t.stats.drafted > t.stats.rounds && t.stats.drafted < CHAIN * t.stats.rounds - 10);
    assert_true(t.stats.l_sum > 100 * t.stats.drafted && t.stats.l_sum < 300 * t.stats.drafted);
    generate(source, how, 0.8f, &again); /* the same text and rate, the same choices */
    check_same(&t, &again);
    assert_true(t.stats.drafted == again.stats.drafted && t.stats.l_sum == again.stats.l_sum);
    how.proactive = true; /* nor do choices or text depend on what there is time for */
    for (int i = 0; i < TEXTS && ahead.stats.proactive_kept == 0; i++) {
        generate(source, how, 0.8f, &ahead);
        check_same(&t, &ahead);
        assert_true(t.stats.l_sum == ahead.stats.l_sum);
    }
    assert_true(ahead.stats.proactive_kept > 0);
    how.proactive = false;
    how.uplink_bits_per_s = 0; /* this line is too fast to be measured */
    generate(source, how, 0.8f, &fixed);
    assert_true(fixed.stats.policy_rounds == 0);
    assert_true(fixed.stats.l_sum == FT_RATIO_L_DEFAULT * fixed.stats.drafted);
    how.uplink_bits_per_s = 1e6;
    how.automatic = true;
    generate(source, how, 0, &exact); /* a greedy text has no points */
    assert_true(exact.stats.policy_rounds == 0 && exact.stats.l_sum == 0);
    ft_policy_deinit(&policy);
    close_place(&p);
}

static void a_policy_must_fit(void **state)
{
    place p = open_place(ft_rules_all);
    ft_policy policy = any_policy(ft_model_fingerprint(m.draft) + 1);
    const ft_edge_opts opts = {.vocab = m.vocab,
                               .draft_model = m.draft,
                               .source = ft_link_source_wire(p.client),
                               .rule = &ft_rule_ratio,
                               .draft = ft_draft_params_chain(4),
                               .policy = &policy,
                               .clock = ft_clock_monotonic(),
                               .n_threads = 1};
    ft_error err = {0};
    ft_edge *edge = NULL;
    assert_int_equal(ft_edge_create(&opts, &err, &edge), FT_PRECONDITION);
    assert_non_null(strstr(err.message, "draft model"));
    policy.draft--;
    policy.l[1] = FT_RATIO_L_MAX + 1;
    assert_int_equal(ft_edge_create(&opts, &err, &edge), FT_PRECONDITION);
    assert_non_null(strstr(err.message, "1025"));
    policy.l[1] = FT_RATIO_L_MAX;
    must(ft_edge_create(&opts, &err, &edge), &err);
    ft_edge_destroy(edge);
    ft_policy_deinit(&policy);
    close_place(&p);
}

/* ---- a server without it ---- */

static ft_status lying_open(void *ctx, ft_error *err, ft_link **out)
{
    const place *p = ctx;
    return p->inner.open(p->inner.ctx, err, out);
}

static ft_status lying_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    const place *p = ctx;
    ft_status status = p->inner.info(p->inner.ctx, err, out);
    out->limits.rules[out->limits.n_rules++] = TOY_ID;
    out->limits.max_evidence_bytes = 4096;
    return status;
}

static void a_server_without_it(void **state)
{
    place p = open_place(NULL);
    const ft_link_source honest = ft_link_source_wire(p.client);
    p.inner = honest;
    const ft_link_source lying = {.ctx = &p, .open = lying_open, .info = lying_info};
    text exact = {0}, offered = {0}, refused = {0};
    generate(honest, (mode){0}, 0.8f, &exact);
    generate(honest, (mode){.rule = &rule_toy}, 0.8f, &offered);
    generate(lying, (mode){.rule = &rule_toy}, 0.8f, &refused);
    check_same(&offered, &exact);
    check_same(&refused, &exact);
    assert_string_equal(refused.stats.rule, "exact");
    assert_true(refused.stats.same_tokens);
    assert_true(refused.stats.rounds > 0); /* it drafts on, by the other rule */
    close_place(&p);
}

/* A server with the rule is gone in the middle of a text, and the one in its place has it not. */
static void it_is_lost_in_a_text(void **state)
{
    place p = open_place(rules_with_toy);
    text t = {.restart = &p};
    p.rules = NULL;
    generate(ft_link_source_wire(p.client), (mode){.rule = &rule_toy}, 0.8f, &t);
    assert_string_equal(t.stats.rule, "exact");
    assert_false(t.stats.same_tokens); /* of its first tokens */
    close_place(&p);
}

/* ---- bad drafts ---- */

static ft_call *open_session(const place *p, uint32_t rule, float temperature)
{
    static const int32_t prompt[] = {3, 40, 77, 114};
    ft_client_msg msg = {.kind = FT_CLIENT_OPEN,
                         .open = {.protocol = FT_PROTOCOL,
                                  .vocab_fingerprint = ft_vocab_fingerprint(m.vocab),
                                  .sampling = {.temperature = temperature, .seed = 1},
                                  .rule = rule,
                                  .prompt = prompt,
                                  .n_prompt = 4}};
    ft_error err = {0};
    ft_call *call;
    must(ft_call_create(p->client, &err, &call), &err);
    must(ft_call_send(call, &msg, &err), &err);
    return call;
}

/* The next message of a stream, which must be of this kind. */
static ft_server_msg *expect(ft_call *call, ft_server_kind kind)
{
    ft_error err = {0};
    ft_server_msg *msg = NULL;
    must(ft_call_recv(call, 60000000, &err, &msg), &err);
    assert_int_equal(msg->kind, kind);
    return msg;
}

static void expect_refused(ft_call *call, ft_status code, const char *why)
{
    ft_error err = {0};
    ft_server_msg *msg = NULL;
    assert_int_equal(ft_call_recv(call, 60000000, &err, &msg), code);
    assert_null(strchr(err.message, '\n'));
    if (!strstr(err.message, why))
        fail_msg("'%s' lacks '%s'", err.message, why);
}

#define EVIDENCE(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

static const struct bad {
    const char *why;
    const uint8_t *evidence;
    uint32_t n_evidence;
    enum { CHAINED, FORKED, EARLY, EXACT } kind;
} bad[] = {
    {"ends in that of node 0 of 2", NULL, 0, CHAINED},
    {"ends in that of node 1 of 2", EVIDENCE(3, 9, 0, 200), CHAINED},
    {"ends in that of node 1 of 2", EVIDENCE(3, 9, 0, 200, 0x83, 0x80, 0x80, 0), CHAINED},
    {"1 bytes of evidence behind", EVIDENCE(3, 9, 0, 200, 3, 9, 0, 200, 3), CHAINED},
    {"node 1: it is not entries of three", EVIDENCE(3, 9, 0, 200, 2, 9, 0), CHAINED},
    {"node 1 has 15 bytes, at most 12",
     EVIDENCE(3, 9, 0, 200, 15, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), CHAINED},
    {"verifies chains: node 1", EVIDENCE(3, 9, 0, 200, 3, 9, 0, 200), FORKED},
    {"allows no early drafts", NULL, 0, EARLY},
    {"takes none here", EVIDENCE(3, 9, 0, 200, 3, 9, 0, 200), EXACT},
    /* what only the walk sees */
    {"round 1: its weights have another sum", EVIDENCE(3, 9, 0, 199, 3, 9, 0, 200), CHAINED},
    {"round 1: its tokens do not rise", EVIDENCE(6, 9, 0, 100, 8, 0, 100, 3, 9, 0, 200), CHAINED},
    {"round 1: its tokens do not rise", EVIDENCE(3, 9, 255, 200, 3, 9, 0, 200), CHAINED},
    {"round 1: it gives the node's token no weight", EVIDENCE(3, 8, 0, 200, 3, 9, 0, 200), CHAINED},
};

static void send_bad(ft_call *call, const struct bad *b)
{
    ft_client_msg msg = {.kind = FT_CLIENT_DRAFT,
                         .draft = {.round = b->kind == EARLY ? 2 : 1,
                                   .base = 4,
                                   .n = 2,
                                   .token = {9, 10},
                                   .parent = {-1, b->kind == FORKED ? -1 : 0},
                                   .evidence = b->evidence,
                                   .n_evidence = b->n_evidence,
                                   .n_under = b->kind == EARLY}};
    ft_error err = {0};
    must(ft_call_send(call, &msg, &err), &err);
}

/* Draft and verdict of a session that does nothing wrong. */
static void good_round(ft_call *call, uint32_t round, uint32_t base)
{
    /* all weight on one token, which is taken with its probability */
    const ft_client_msg msg = {.kind = FT_CLIENT_DRAFT,
                               .draft = {.round = round,
                                         .base = base,
                                         .n = 1,
                                         .token = {9},
                                         .parent = {-1},
                                         .evidence = (const uint8_t[]){3, 9, 0, 200},
                                         .n_evidence = 4}};
    ft_error err = {0};
    must(ft_call_send(call, &msg, &err), &err);
}

static void bad_evidence_ends_its_session(void **state)
{
    place p = open_place(rules_with_toy);
    ft_call *good = open_session(&p, TOY_ID, 0.8f);
    ft_server_msg *opened = expect(good, FT_SERVER_OPENED);
    uint32_t length = opened->opened.length;
    assert_int_equal(opened->opened.limits.n_rules, 2);
    assert_int_equal(opened->opened.limits.rules[1], TOY_ID);
    assert_int_equal(opened->opened.limits.max_evidence_bytes, 64 * (3 * TOY_TOKENS + 3));
    ft_server_msg_free(opened);
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ft_call *call = open_session(&p, bad[i].kind == EXACT ? 0 : TOY_ID, 0.8f);
        ft_server_msg_free(expect(call, FT_SERVER_OPENED));
        good_round(good, i + 1, length);
        send_bad(call, &bad[i]);
        ft_server_msg *msg = expect(good, FT_SERVER_VERDICT);
        assert_int_equal(msg->verdict.round, i + 1);
        length = msg->verdict.length;
        assert_int_equal(msg->verdict.finish, FT_FINISH_NONE);
        ft_server_msg_free(msg);
        expect_refused(call, FT_INVALID, bad[i].why);
        ft_call_destroy(call);
    }
    /* Too many bytes are not even decoded. */
    uint8_t large[4096] = {0};
    ft_call *call = open_session(&p, TOY_ID, 0.8f);
    ft_server_msg_free(expect(call, FT_SERVER_OPENED));
    send_bad(call, &(const struct bad){NULL, large, sizeof large, CHAINED});
    expect_refused(call, FT_INVALID, "Draft.evidence: 4096 bytes, at most 960");
    ft_call_destroy(call);
    ft_call_destroy(good);
    close_place(&p);
}

static void a_refusal_names_what_is_offered(void **state)
{
    place p = open_place(rules_with_toy);
    ft_call *call = open_session(&p, 7, 0.8f);
    expect_refused(call, FT_PRECONDITION,
                   "rule 7 is not offered here: open with 0 (exact), 900 (toy)");
    ft_call_destroy(call);
    close_place(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_law_is_the_targets),
        cmocka_unit_test(it_runs_over_the_wire),
        cmocka_unit_test(ratio_runs_over_the_wire),
        cmocka_unit_test(a_policy_chooses_length_and_l),
        cmocka_unit_test(a_policy_must_fit),
        cmocka_unit_test(nothing_adapts_to_what_was_drawn),
        cmocka_unit_test(greedy_texts_are_the_targets),
        cmocka_unit_test(a_text_is_opened_anew),
        cmocka_unit_test(a_server_without_it),
        cmocka_unit_test(it_is_lost_in_a_text),
        cmocka_unit_test(bad_evidence_ends_its_session),
        cmocka_unit_test(a_refusal_names_what_is_offered),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
