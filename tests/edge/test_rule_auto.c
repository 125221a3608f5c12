// SPDX-License-Identifier: Apache-2.0
// edge/rule_auto.c: which rule texts get, one after the other. Over a virtual way, where time
// depends on bytes alone; and over gRPC with rates that are given, so far apart that no machine's
// own times matter.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "edge/edge_internal.h"
#include "serve/server.h"
#include "support/tiny_model.h"
#include "support/virtual_way.h"

enum { N_TOKENS = 90, N_PROMPT = 20, MAX_CONTEXT = 256, CHAIN = 4 };

static struct {
    ft_vocab *vocab;
    ft_model *target, *draft; /* of the same weights, rounded: they agree now and then */
} m;

static int setup(void **state)
{
    const tiny_gguf_opts target = {.type = GGML_TYPE_Q8_0, .seed = 3};
    const tiny_gguf_opts draft = {.type = GGML_TYPE_Q4_0, .seed = 3};
    tiny_quiet();
    m.target = tiny_model(&target, &m.vocab);
    m.draft = tiny_model(&draft, NULL);
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

static ft_verifier_opts verifier_opts(const ft_rule *const *rules)
{
    return (ft_verifier_opts){.model = m.target,
                              .vocab = m.vocab,
                              .rules = rules,
                              .clock = ft_clock_monotonic(),
                              .n_threads = 1,
                              .max_context = MAX_CONTEXT,
                              .kv_tok = 8 * MAX_CONTEXT};
}

static ft_verifier *make_verifier(const ft_rule *const *rules)
{
    const ft_verifier_opts opts = verifier_opts(rules);
    ft_error err = {0};
    ft_verifier *v = NULL;
    must(ft_verifier_create(&opts, &err, &v), &err);
    return v;
}

static ft_edge *make_edge_that(bool automatic, ft_link_source source, ft_clock clock,
                               double uplink_bits_per_s)
{
    const ft_edge_opts opts = {.vocab = m.vocab,
                               .draft_model = m.draft,
                               .source = source,
                               .rule = &ft_rule_ratio,
                               .rule_auto = true,
                               .draft = automatic ? ft_draft_params_tree(32, 8, 8)
                                                  : ft_draft_params_chain(CHAIN),
                               .automatic = automatic,
                               .proactive = automatic,
                               .clock = clock,
                               .uplink_bits_per_s = uplink_bits_per_s,
                               .n_threads = 1};
    ft_error err = {0};
    ft_edge *edge = NULL;
    must(ft_edge_create(&opts, &err, &edge), &err);
    return edge;
}

static ft_edge *make_edge(ft_link_source source, ft_clock clock, double uplink_bits_per_s)
{
    return make_edge_that(false, source, clock, uplink_bits_per_s);
}

/* ---- texts ---- */

typedef struct text {
    uint32_t seed;
    float temperature;
    void (*on_tokens)(void *ctx, uint32_t so_far); /* NULL: nothing happens */
    void *ctx;
    uint32_t n;
    ft_gen_stats stats;
} text;

static bool on_text(void *ctx, const char *piece, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    text *t = ctx;
    t->n += (uint32_t)n_tokens;
    if (t->on_tokens)
        t->on_tokens(t->ctx, t->n);
    return true;
}

static void generate(ft_edge *edge, text *t)
{
    int32_t prompt[N_PROMPT];
    ft_error err = {0};
    for (uint32_t i = 0; i < N_PROMPT; i++)
        prompt[i] = 3 + (int32_t)((i * 37 + t->seed) % 250);
    const ft_gen_request request = {
        .prompt = prompt,
        .n_prompt = N_PROMPT,
        .sampling = {.temperature = t->temperature, .top_k = 40, .top_p = 1, .seed = t->seed},
        .max_tokens = N_TOKENS};
    const ft_gen_sink sink = {.ctx = t, .on_text = on_text};
    must(ft_edge_generate(edge, &request, &sink, &err, &t->stats), &err);
}

/* The rule of the next text, and why. */
static void expect(ft_edge *edge, uint32_t seed, const ft_rule *rule, ft_why why)
{
    text t = {.seed = seed, .temperature = 1};
    generate(edge, &t);
    if (strcmp(t.stats.rule, rule->name) != 0 || t.stats.rule_why != why)
        fail_msg("text %u: rule %s by reason %s instead of %s by %s", seed, t.stats.rule,
                 ft_why_name[t.stats.rule_why], rule->name, ft_why_name[why]);
    assert_int_equal(t.stats.same_tokens, rule == &ft_rule_exact);
    assert_int_equal(t.stats.point_bytes > 0, rule == &ft_rule_ratio);
    assert_int_equal(t.stats.texts[(rule == &ft_rule_ratio) * FT_WHY_N + why], 1);
}

/* ---- by measured rates ---- */

/* On a way where no message takes longer than another the rate stays unknown. */
static void a_rate_that_is_unknown(void **state)
{
    ft_verifier *v = make_verifier(ft_rules_all);
    virtual_way w = virtual_way_to(v, 0);
    ft_edge *edge = make_edge(virtual_way_source(&w), virtual_way_clock(&w), 0);
    for (uint32_t i = 0; i < 2 * (FT_RULE_TRY_AFTER + 1); i++) {
        const bool tries = i % (FT_RULE_TRY_AFTER + 1) == FT_RULE_TRY_AFTER;
        expect(edge, i, tries ? &ft_rule_ratio : &ft_rule_exact,
               tries ? FT_WHY_TRY : FT_WHY_UNKNOWN);
        assert_false(ft_edge_rate(edge).known);
    }
    ft_edge_destroy(edge);
    ft_verifier_destroy(v);
}

/* The rule of the first text after the rate was found. */
static void expect_at(ft_verifier *v, double bits_per_s, const ft_rule *rule)
{
    virtual_way w = virtual_way_to(v, bits_per_s);
    ft_edge *edge = make_edge(virtual_way_source(&w), virtual_way_clock(&w), 0);
    uint32_t i = 0;
    while (!ft_edge_rate(edge).known && i < FT_RULE_TRY_AFTER)
        expect(edge, i++, &ft_rule_exact, FT_WHY_UNKNOWN);
    assert_in_range(i, 1, FT_RULE_TRY_AFTER - 1);
    expect(edge, i, rule, FT_WHY_FASTER);
    ft_edge_destroy(edge);
}

static void a_rate_that_is_found(void **state)
{
    ft_verifier *v = make_verifier(ft_rules_all);
    expect_at(v, 2e4, &ft_rule_exact);
    expect_at(v, 2e6, &ft_rule_ratio);
    ft_verifier_destroy(v);
}

/* Where the controller chooses drafts, or none: the rule follows the rate as well. */
static void drafts_that_are_chosen(void **state)
{
    static const double rates[] = {2e4, 2e6};
    ft_verifier *v = make_verifier(ft_rules_all);
    for (size_t i = 0; i < 2; i++) {
        virtual_way w = virtual_way_to(v, rates[i]);
        ft_edge *edge =
            make_edge_that(true, virtual_way_source(&w), virtual_way_clock(&w), rates[i]);
        uint64_t with_points = 0;
        for (uint32_t k = 0; k < 12; k++) {
            text t = {.temperature = 1, .seed = k};
            generate(edge, &t);
            assert_true(t.stats.rule_why == FT_WHY_UNKNOWN || t.stats.rule_why == FT_WHY_FASTER);
            with_points += t.stats.point_bytes > 0;
        }
        assert_int_equal(with_points > 0, rates[i] == 2e6);
        ft_edge_destroy(edge);
    }
    ft_verifier_destroy(v);
}

/* Round trips of large messages, at 2 Mbit/s and with some noise. */
static void tell_rate(ft_edge *edge)
{
    for (uint32_t i = 0; i < FT_UPLINK_SAMPLES; i++) {
        const uint64_t bytes = 1000 + 400 * i;
        const ft_timing_trip trip = {FT_UPLINK_DRAFT, bytes,
                                     2 * VIRTUAL_HALF_RTT_US + 4 * (int64_t)bytes +
                                         (i % 2 ? 500 : -500)};
        ft_edge_saw_trip(edge, 0, &trip);
    }
}

/* A rate that texts do not tell stays known for some of them. */
static void a_rate_that_was_known(void **state)
{
    ft_verifier *v = make_verifier(ft_rules_all);
    virtual_way w = virtual_way_to(v, 0);
    ft_edge *edge = make_edge(virtual_way_source(&w), virtual_way_clock(&w), 0);
    expect(edge, 0, &ft_rule_exact, FT_WHY_UNKNOWN);
    tell_rate(edge);
    uint32_t n = 0; /* texts that began with a rate, after the last one that ended with one */
    for (text t = {.temperature = 1}; t.stats.rule_why != FT_WHY_UNKNOWN; t.seed++) {
        generate(edge, &t);
        assert_in_range(t.stats.rule_why, FT_WHY_UNKNOWN, FT_WHY_FASTER);
        n += t.stats.rule_why == FT_WHY_FASTER;
        if (t.stats.uplink_bits_per_s > 0)
            n = 0;
    }
    assert_int_equal(n, FT_EDGE_RATE_KEPT + 1); /* the first of them found it at its beginning */
    expect(edge, 100, &ft_rule_exact, FT_WHY_UNKNOWN);
    assert_false(ft_edge_rate(edge).known);
    ft_edge_destroy(edge);
    ft_verifier_destroy(v);
}

/* ---- by rates that are given, over gRPC ---- */

typedef struct place {
    const ft_rule *const *rules;
    ft_server *server;
    ft_wire_client *client;
    int port;
    bool restarted;
} place;

static void start_server(place *p)
{
    const ft_server_opts opts = {
        .verifier = verifier_opts(p->rules), .host = "127.0.0.1", .port = p->port};
    ft_error err = {0};
    must(ft_server_create(&opts, &err, &p->server), &err);
    p->port = ft_server_port(p->server);
}

static void restart(void *ctx, uint32_t so_far)
{
    place *p = ctx;
    if (p->restarted || so_far < 10)
        return;
    p->restarted = true;
    ft_server_destroy(p->server, 0);
    start_server(p);
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

/* Points take no time: the first text finds out how drafts fare, and that is enough. A text keeps
 * its rule when its server is lost. */
static void points_that_pay(void **state)
{
    place p = open_place(ft_rules_all);
    ft_edge *edge = make_edge(ft_link_source_wire(p.client), ft_clock_monotonic(), 1e12);
    text greedy = {.seed = 7},
         lost = {.temperature = 1, .seed = 2, .on_tokens = restart, .ctx = &p};
    expect(edge, 0, &ft_rule_exact, FT_WHY_UNKNOWN);
    generate(edge, &greedy);
    assert_string_equal(greedy.stats.rule, "exact");
    assert_int_equal(greedy.stats.rule_why, FT_WHY_GREEDY);
    generate(edge, &lost);
    assert_true(p.restarted && lost.stats.reconnects > 0);
    assert_string_equal(lost.stats.rule, "ratio");
    assert_int_equal(lost.stats.rule_why, FT_WHY_FASTER);
    ft_edge_destroy(edge);
    close_place(&p);
}

/* Points take seconds. They could be smaller than the edge fears, so it tries them, once. */
static void points_that_do_not_pay(void **state)
{
    place p = open_place(ft_rules_all);
    ft_edge *edge = make_edge(ft_link_source_wire(p.client), ft_clock_monotonic(), 1e3);
    uint32_t i = 0;
    expect(edge, i++, &ft_rule_exact, FT_WHY_UNKNOWN);
    while (i <= FT_RULE_TRY_AFTER)
        expect(edge, i++, &ft_rule_exact, FT_WHY_FASTER);
    expect(edge, i++, &ft_rule_ratio, FT_WHY_TRY);
    while (i < 2 * (FT_RULE_TRY_AFTER + 2))
        expect(edge, i++, &ft_rule_exact, FT_WHY_FASTER);
    ft_edge_destroy(edge);
    close_place(&p);
}

/* A server without `ratio`; and one that comes back without it. */
static void a_server_without_the_rule(void **state)
{
    place p = open_place(NULL);
    ft_edge *edge = make_edge(ft_link_source_wire(p.client), ft_clock_monotonic(), 1e12);
    for (uint32_t i = 0; i < 3; i++)
        expect(edge, i, &ft_rule_exact, FT_WHY_NOT_OFFERED);
    /* From an answer on, an edge knows what its server offers now. */
    p.rules = ft_rules_all;
    text t = {.temperature = 1, .seed = 3, .on_tokens = restart, .ctx = &p};
    generate(edge, &t);
    assert_true(p.restarted);
    assert_int_equal(t.stats.rule_why, FT_WHY_NOT_OFFERED);
    /* So the next text begins with `ratio`. */
    p.rules = NULL;
    p.restarted = false;
    text u = {.temperature = 1, .seed = 5, .on_tokens = restart, .ctx = &p};
    generate(edge, &u);
    assert_string_equal(u.stats.rule, "exact");
    assert_int_equal(u.stats.rule_why, FT_WHY_REFUSED);
    assert_false(u.stats.same_tokens); /* of its first tokens */
    expect(edge, 6, &ft_rule_exact, FT_WHY_NOT_OFFERED);
    ft_edge_destroy(edge);
    close_place(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_that_is_unknown),    cmocka_unit_test(a_rate_that_is_found),
        cmocka_unit_test(a_rate_that_was_known),     cmocka_unit_test(drafts_that_are_chosen),
        cmocka_unit_test(points_that_pay),           cmocka_unit_test(points_that_do_not_pay),
        cmocka_unit_test(a_server_without_the_rule),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
