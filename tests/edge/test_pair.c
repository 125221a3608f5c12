// SPDX-License-Identifier: Apache-2.0
// Edge and verifier with tiny models, in process and over loopback: the text depends on prompt and
// seed alone, whatever is drafted and whatever happens to server and stream; a cancelled generation
// leaves nothing behind. Exercises edge/steer.c by its choices, edge/drafting.c with good, bad and
// short drafts and crowded pools, and both links, local/link.c and edge/link_wire.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "constrain/constraint.h"
#include "edge/edge.h"
#include "local/link.h"
#include "serve/server.h"
#include "support/tiny_model.h"

#define N_TOKENS    48
#define MAX_CONTEXT 512
#define LONG_TEXT   300 /* no run holds it */

typedef struct models {
    ft_vocab *vocab, *other_vocab;
    ft_model *target;
    ft_model *same, *bad; /* drafts: the target itself, and one that knows nothing of it */
    ft_model *short_ctx;  /* the target with little context */
} models;

static models m;

static int setup(void **state)
{
    tiny_gguf_opts target = {.type = GGML_TYPE_Q4_0, .seed = 1};
    tiny_gguf_opts bad = {.type = GGML_TYPE_Q4_0, .seed = 2, .n_layer = 1};
    tiny_gguf_opts brief = target;
    tiny_gguf_opts other = target;
    tiny_quiet();
    brief.n_ctx_train = 24;
    other.last_token = "elsewhere";
    m.target = tiny_model(&target, &m.vocab);
    m.same = tiny_model(&target, NULL);
    m.bad = tiny_model(&bad, NULL);
    m.short_ctx = tiny_model(&brief, NULL);
    ft_model_destroy(tiny_model(&other, &m.other_vocab));
    return 0;
}

static int teardown(void **state)
{
    ft_model_destroy(m.target);
    ft_model_destroy(m.same);
    ft_model_destroy(m.bad);
    ft_model_destroy(m.short_ctx);
    ft_vocab_destroy(m.vocab);
    ft_vocab_destroy(m.other_vocab);
    return 0;
}

static ft_verifier_opts verifier_opts(void)
{
    return (ft_verifier_opts){.model = m.target,
                              .vocab = m.vocab,
                              .clock = ft_clock_monotonic(),
                              .max_context = MAX_CONTEXT,
                              .kv_tok = 8 * MAX_CONTEXT,
                              .max_sessions = 32,
                              .session_ttl_s = 60,
                              .n_threads = 1};
}

/* ---- one generation ---- */

typedef struct run {
    ft_sampling sampling;
    uint32_t max_tokens, n_prompt;
    bool no_speculation, logprobs;
    const char *const *stops;
    size_t n_stops;
    bool (*on_tokens)(void *ctx, uint32_t so_far); /* NULL: go on; false: cancel */
    void *ctx;
    uint32_t cancel_at_ask; /* 0: never */
    /* out */
    ft_status status;
    ft_error err;
    ft_gen_stats stats;
    int32_t ids[512];
    float logprob[512];
    uint32_t n, asks;
    ft_buf text;
    bool cancelled;
} run;

static bool on_text(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    run *r = ctx;
    if (!ft_utf8_valid(text, n) || r->n + n_tokens > 512)
        r->err.code = FT_INTERNAL; /* asserted behind the generation: threads must not jump */
    for (size_t i = 0; i < n_tokens && r->n < 512; i++) {
        if (tokens[i].has_logprob != r->logprobs)
            r->err.code = FT_INTERNAL;
        r->logprob[r->n] = tokens[i].logprob.logprob;
        r->ids[r->n++] = tokens[i].id;
    }
    if (r->on_tokens && !r->on_tokens(r->ctx, r->n))
        r->cancelled = true;
    return ft_buf_append(&r->text, text, n) == FT_OK;
}

static bool is_cancelled(void *ctx)
{
    run *r = ctx;
    r->asks++;
    return r->cancelled || (r->cancel_at_ask && r->asks >= r->cancel_at_ask);
}

/* What all texts of a test ask for; NULL: no penalties. */
static const ft_penalties *asked;
static ft_constraint fitting; /* so, too; all zeros: none */

static void generate(ft_edge *edge, run *r)
{
    int32_t prompt[MAX_CONTEXT];
    if (!r->n_prompt)
        r->n_prompt = 40;
    for (uint32_t i = 0; i < r->n_prompt; i++)
        prompt[i] = 3 + (int32_t)((i * 37 + 11) % 256);
    r->sampling.penalties = asked;
    r->sampling.answer_at = r->n_prompt;
    const ft_gen_request request = {.prompt = prompt,
                                    .n_prompt = r->n_prompt,
                                    .sampling = r->sampling,
                                    .constraint = fitting,
                                    .max_tokens = r->max_tokens,
                                    .stops = r->stops,
                                    .n_stops = r->n_stops,
                                    .logprobs = r->logprobs,
                                    .top_logprobs = r->logprobs ? 3 : 0,
                                    .no_speculation = r->no_speculation};
    const ft_gen_sink sink = {.ctx = r, .on_text = on_text, .cancelled = is_cancelled};
    r->status = ft_edge_generate(edge, &request, &sink, &r->err, &r->stats);
}

static void free_run(run *r)
{
    ft_buf_deinit(&r->text);
}

/* How much is drafted, by whose choice, and whether while a verdict is awaited. */
typedef struct mode {
    ft_draft_params params;
    bool automatic, proactive;
    ft_depth_rule depth;
    float alpha;
} mode;

enum { N_MODES = 12 };

static ft_draft_params paced_tree(uint32_t budget, uint32_t depth, uint32_t width)
{
    ft_draft_params params = ft_draft_params_tree(budget, depth, width);
    params.grow = FT_GROW_PACER;
    return params;
}

static ft_draft_params fixed_tree(uint32_t budget, uint32_t depth, uint32_t width)
{
    static const uint8_t children[FT_GROW_LEVELS] = {2, 1, 2, 1, 1};
    ft_draft_params params = ft_draft_params_tree(budget, depth, width);
    params.grow = FT_GROW_FIXED;
    memcpy(params.children, children, sizeof children);
    return params;
}

static mode mode_at(size_t i)
{
    const mode modes[N_MODES] = {
        {.params = ft_draft_params_chain(4)},
        {.params = ft_draft_params_tree(16, 4, 4)},
        {.params = ft_draft_params_chain(4), .proactive = true},
        {.params = ft_draft_params_tree(32, 5, 8), .proactive = true},
        {.params = ft_draft_params_tree(32, 8, 8), .automatic = true},
        {.params = paced_tree(24, 12, 2)},
        {.params = paced_tree(32, 5, 8), .proactive = true},
        {.params = fixed_tree(32, 5, 8), .proactive = true},
        {.params = paced_tree(32, 32, 1), .depth = FT_DEPTH_FALLBACK},
        {.params = ft_draft_params_chain(12), .depth = FT_DEPTH_FALLBACK, .alpha = 1e-4f},
        {.params = ft_draft_params_tree(32, 8, 8), .automatic = true, .depth = FT_DEPTH_FALLBACK},
        {.params = ft_draft_params_tree(32, 8, 8), .automatic = true, .proactive = true},
    };
    return modes[i];
}

static ft_edge *make_mode(ft_link_source source, const ft_model *draft, mode how,
                          uint32_t draft_kv_tok)
{
    ft_error err = {0};
    ft_edge *edge = NULL;
    const ft_edge_opts opts = {.vocab = m.vocab,
                               .draft_model = draft,
                               .source = source,
                               .draft = how.params,
                               .automatic = how.automatic,
                               .depth_rule = how.depth,
                               .alpha = how.alpha,
                               .proactive = how.proactive,
                               .clock = ft_clock_monotonic(),
                               .draft_kv_tok = draft_kv_tok,
                               .n_threads = 1};
    if (ft_edge_create(&opts, &err, &edge) != FT_OK)
        fail_msg("%s", err.message);
    return edge;
}

static ft_edge *make_edge(ft_link_source source, const ft_model *draft, ft_draft_params params,
                          uint32_t draft_kv_tok)
{
    return make_mode(source, draft, (mode){.params = params}, draft_kv_tok);
}

static ft_verifier *make_verifier(void)
{
    const ft_verifier_opts opts = verifier_opts();
    ft_error err = {0};
    ft_verifier *v = NULL;
    if (ft_verifier_create(&opts, &err, &v) != FT_OK)
        fail_msg("%s", err.message);
    return v;
}

/* The text by the target alone. */
static void plain_text(ft_verifier *v, run *r)
{
    ft_edge *edge = make_edge(ft_local_link_source(v), NULL, ft_draft_params_chain(0), 0);
    generate(edge, r);
    if (r->status != FT_OK)
        fail_msg("%s", r->err.message);
    ft_edge_destroy(edge);
}

static void check_same(const run *r, const run *plain)
{
    if (r->status != FT_OK)
        fail_msg("%s", r->err.message);
    assert_int_equal(r->err.code, FT_OK);
    assert_int_equal(r->n, plain->n);
    assert_memory_equal(r->ids, plain->ids, plain->n * sizeof plain->ids[0]);
    assert_int_equal(r->text.len, plain->text.len);
    assert_string_equal(ft_buf_str(&r->text), ft_buf_str(&plain->text));
    assert_int_equal(r->stats.finish, plain->stats.finish);
    assert_int_equal(r->stats.tokens, plain->stats.tokens);
}

static ft_sampling warm(float temperature)
{
    ft_sampling s = ft_sampling_default();
    s.temperature = temperature;
    s.seed = 77;
    return s;
}

static void check_nothing_left(ft_verifier *v)
{
    ft_verifier_stats s;
    ft_verifier_tick(v);
    ft_verifier_get_stats(v, &s);
    assert_int_equal(s.sessions, 0);
    assert_int_equal(s.kv_blocks, s.kv_blocks_free);
}

/* The same where the edge's Close may be under way yet; who forgets a session hangs here. */
static void wait_nothing_left(ft_verifier *v)
{
    ft_verifier_stats s;
    do {
        ft_verifier_tick(v);
        ft_verifier_get_stats(v, &s);
    } while (s.sessions > 0);
    check_nothing_left(v);
}

/* A session whose stream broke in a run is not taken up again: it stays for its time to live. */
static void wait_none_attached(ft_verifier *v)
{
    ft_verifier_stats s;
    do {
        ft_verifier_tick(v);
        ft_verifier_get_stats(v, &s);
    } while (s.sessions > s.sessions_detached);
}

/* ---- in process ---- */

/* Sums of the draft model's work that hold whatever was drafted. */
static void check_sums(const ft_gen_stats *s, bool proactive)
{
    assert_true(s->accepted <= s->drafted);
    assert_true(s->useful_draft_us + s->wasted_draft_us <= s->draft_us);
    assert_true(s->accepted < s->drafted || s->wasted_draft_us == 0);
    assert_true(s->depth_sum <= s->drafted && s->depth_sum >= s->rounds);
    assert_true(s->proactive_forwards <= s->forwards);
    assert_true(s->proactive_nodes >= s->proactive_forwards);
    assert_true(s->leaves <= s->rounds);
    assert_true(s->aligned <= s->leaves && s->matched <= s->aligned);
    assert_true(s->proactive_kept <= s->proactive_nodes);
    if (!proactive)
        assert_int_equal(s->proactive_forwards, 0);
    double gain = ft_gen_proactive_gain(s);
    assert_true(s->matched ? gain >= 0 : gain == 0);
}

static void same_text(void)
{
    const ft_model *drafts[] = {m.same, m.bad, m.short_ctx};
    ft_verifier *v = make_verifier();
    for (int warm_it = 0; warm_it < 2; warm_it++) {
        run plain = {.sampling = warm(warm_it ? 0.8f : 0), .max_tokens = N_TOKENS};
        plain_text(v, &plain);
        for (size_t d = 0; d < 3; d++) {
            for (size_t i = 0; i < N_MODES; i++) {
                run r = {.sampling = plain.sampling, .max_tokens = N_TOKENS};
                mode how = mode_at(i);
                ft_edge *edge = make_mode(ft_local_link_source(v), drafts[d], how, 0);
                generate(edge, &r);
                check_same(&r, &plain);
                check_sums(&r.stats, how.proactive);
                if (d == 2) { /* its context is shorter than the prompt */
                    assert_int_equal(r.stats.drafted, 0);
                } else if (!how.automatic) {
                    assert_true(r.stats.drafted > 0);
                }
                if (d == 0 && !how.automatic) { /* the target itself drafts: all of it is right */
                    assert_true(r.stats.accepted > 0);
                    assert_true(r.stats.rounds <= plain.n / 3);
                }
                free_run(&r);
                ft_edge_destroy(edge);
            }
        }
        free_run(&plain);
    }
    check_nothing_left(v);
    ft_verifier_destroy(v);
}

static void test_same_text(void **state)
{
    same_text();
}

/* A bias that is felt, and one that bars a token. */
static const ft_penalties strong = {.presence = 0.5f,
                                    .frequency = 0.4f,
                                    .repetition = 1.3f,
                                    .n_bias = 3,
                                    .bias_token = {40, 77, 200},
                                    .bias = {1.5f, -100, -1}};

/* Drafts of a model that is the target itself are all accepted, and change nothing. */
static void same_model(ft_verifier *v, const run *plain)
{
    run r = {.sampling = warm(0), .max_tokens = N_TOKENS};
    ft_edge *edge = make_mode(ft_local_link_source(v), m.same, mode_at(0), 0);
    generate(edge, &r);
    check_same(&r, plain);
    assert_true(r.stats.drafted > 0 && r.stats.accepted == r.stats.drafted);
    free_run(&r);
    ft_edge_destroy(edge);
}

/* Penalties look at the text so far, drafted tokens included: a draft model that is the target
 * itself is right with them, too. */
static void test_same_text_with_penalties(void **state)
{
    ft_verifier *v = make_verifier();
    run without = {.sampling = warm(0), .max_tokens = N_TOKENS}, with = without;
    plain_text(v, &without);
    asked = &strong;
    plain_text(v, &with);
    assert_true(with.n != without.n ||
                memcmp(with.ids, without.ids, with.n * sizeof *with.ids) != 0);
    for (uint32_t i = 0; i < with.n; i++)
        assert_int_not_equal(with.ids[i], 77);
    same_model(v, &with);
    free_run(&with);
    free_run(&without);
    ft_verifier_destroy(v);
    same_text();
    asked = NULL;
}

/* No model of random weights would write it by itself. */
static const ft_constraint words = {FT_CONSTRAINT_REGEX, "([aeiou]{1,4} ){90}", 19};

static void test_same_text_with_a_constraint(void **state)
{
    ft_verifier *v = make_verifier();
    fitting = ft_constrain_available() ? words : fitting;
    run plain = {.sampling = warm(0), .max_tokens = N_TOKENS};
    plain_text(v, &plain);
    assert_true(!fitting.n || strspn(ft_buf_str(&plain.text), "aeiou ") == plain.text.len);
    same_model(v, &plain);
    free_run(&plain);
    ft_verifier_destroy(v);
    same_text();
    fitting = (ft_constraint){0};
}

/* Drafts that a predictor ends, early or at once: the text does not know. */
static void test_same_text_with_a_predictor(void **state)
{
    const ft_mlp_shape shape = {1, {FT_FEATURES, 1}};
    ft_predictor p = {.scale = {1, 1, 1, 1, 1}};
    ft_error err = {0};
    uint32_t shorter = 0;
    ft_verifier *v = make_verifier();
    assert_int_equal(ft_mlp_init(&shape, &err, &p.mlp), FT_OK);
    p.mlp.weight[0][FT_FEATURE_CONFIDENCE] = 1;
    for (int warm_it = 0; warm_it < 2; warm_it++) {
        run plain = {.sampling = warm(warm_it ? 0.8f : 0), .max_tokens = N_TOKENS};
        plain_text(v, &plain);
        for (size_t i = 0; i < 2 * N_MODES; i++) {
            run r = {.sampling = plain.sampling, .max_tokens = N_TOKENS};
            mode how = mode_at(i / 2);
            how.params.predictor = &p;
            p.least = i % 2 ? 2 : 0.02f; /* 2: no probability is */
            ft_edge *edge = make_mode(ft_local_link_source(v), m.same, how, 0);
            generate(edge, &r);
            check_same(&r, &plain);
            check_sums(&r.stats, how.proactive);
            if (i % 2 && !how.automatic) /* the best first token is all that is left */
                assert_int_equal(r.stats.drafted, r.stats.rounds);
            if (!how.automatic)
                shorter += r.stats.drafted < how.params.budget * r.stats.rounds;
            free_run(&r);
            ft_edge_destroy(edge);
        }
        free_run(&plain);
    }
    assert_true(shorter >= 8);
    ft_predictor_deinit(&p);
    check_nothing_left(v);
    ft_verifier_destroy(v);
}

/* Speculation stops and comes back by itself: whatever the controller makes of its measurements,
 * many texts one after another are the plain ones. */
static void test_automatic_over_texts(void **state)
{
    ft_verifier *v = make_verifier();
    for (int proactive = 0; proactive < 2; proactive++) {
        mode how = {
            .params = ft_draft_params_tree(32, 8, 8), .automatic = true, .proactive = proactive};
        ft_edge *edge = make_mode(ft_local_link_source(v), m.bad, how, 0);
        uint32_t runs = 0;
        for (uint64_t seed = 1; seed <= 6; seed++) {
            run plain = {.sampling = warm(0.8f), .max_tokens = 200};
            plain.sampling.seed = seed;
            run r = plain;
            plain_text(v, &plain);
            generate(edge, &r);
            check_same(&r, &plain);
            check_sums(&r.stats, proactive);
            runs += r.stats.runs;
            free_run(&r);
            free_run(&plain);
        }
        assert_true(runs > 0); /* so bad a draft never pays */
        ft_edge_destroy(edge);
    }
    check_nothing_left(v);
    ft_verifier_destroy(v);
}

static void test_draft_context_fills_up(void **state)
{
    ft_verifier *v = make_verifier();
    run plain = {.sampling = warm(0.8f), .max_tokens = N_TOKENS, .n_prompt = 10};
    run r = plain;
    plain_text(v, &plain);
    ft_edge *edge = make_edge(ft_local_link_source(v), m.short_ctx, ft_draft_params_chain(4), 0);
    generate(edge, &r);
    check_same(&r, &plain);
    assert_true(r.stats.drafted > 0);
    assert_true(r.stats.drafted < N_TOKENS);
    free_run(&r);
    free_run(&plain);
    ft_edge_destroy(edge);
    ft_verifier_destroy(v);
}

static void test_no_speculation(void **state)
{
    ft_verifier *v = make_verifier();
    run r = {.max_tokens = 8, .sampling = warm(0), .no_speculation = true};
    ft_edge *edge = make_edge(ft_local_link_source(v), m.same, ft_draft_params_chain(4), 0);
    generate(edge, &r);
    assert_int_equal(r.status, FT_OK);
    assert_int_equal(r.stats.drafted, 0);
    assert_int_equal(r.stats.rounds, 0);
    assert_true(r.stats.run_tokens >= r.stats.tokens);
    free_run(&r);
    ft_edge_destroy(edge);
    ft_verifier_destroy(v);
}

static void test_max_tokens(void **state)
{
    ft_verifier *v = make_verifier();
    run plain = {.max_tokens = N_TOKENS, .sampling = warm(0.8f)};
    plain_text(v, &plain);
    for (size_t i = 0; i < N_MODES; i++) {
        ft_edge *edge = make_mode(ft_local_link_source(v), m.same, mode_at(i), 0);
        for (uint32_t n = 1; n <= 20 && n < plain.n; n++) {
            run r = {.max_tokens = n, .sampling = plain.sampling, .no_speculation = n > 10};
            generate(edge, &r);
            assert_int_equal(r.status, FT_OK);
            assert_int_equal(r.n, n);
            assert_int_equal(r.stats.finish, FT_FINISH_LENGTH);
            assert_memory_equal(r.ids, plain.ids, n * sizeof r.ids[0]);
            free_run(&r);
        }
        ft_edge_destroy(edge);
    }
    free_run(&plain);
    check_nothing_left(v);
    ft_verifier_destroy(v);
}

static void test_until_context_is_full(void **state)
{
    ft_verifier *v = make_verifier();
    for (size_t i = 0; i < 2 * N_MODES; i++) {
        run r = {
            .n_prompt = MAX_CONTEXT - 20, .sampling = warm(0.8f), .no_speculation = i >= N_MODES};
        ft_edge *edge = make_mode(ft_local_link_source(v), m.same, mode_at(i % N_MODES), 0);
        generate(edge, &r);
        assert_int_equal(r.status, FT_OK);
        if (r.stats.finish == FT_FINISH_LENGTH)
            assert_in_range(r.n, 19, 20);
        free_run(&r);
        ft_edge_destroy(edge);
    }
    check_nothing_left(v);
    ft_verifier_destroy(v);
}

static void test_stop_string(void **state)
{
    ft_verifier *v = make_verifier();
    run plain = {.max_tokens = N_TOKENS, .sampling = warm(0.8f)};
    plain_text(v, &plain);
    /* Two characters from the middle of the text, found by their lead bytes. */
    const char *text = ft_buf_str(&plain.text);
    size_t a = plain.text.len / 2, b;
    while ((text[a] & 0xC0) == 0x80)
        a++;
    b = a + 1;
    while ((text[b] & 0xC0) == 0x80)
        b++;
    char *stop = strndup(text + a, b - a);
    const char *stops[] = {stop};
    for (size_t i = 0; i < 2 * N_MODES; i++) {
        run r = {.max_tokens = N_TOKENS,
                 .sampling = plain.sampling,
                 .stops = stops,
                 .n_stops = 1,
                 .no_speculation = i >= N_MODES};
        ft_edge *edge = make_mode(ft_local_link_source(v), m.same, mode_at(i % N_MODES), 0);
        generate(edge, &r);
        assert_int_equal(r.status, FT_OK);
        assert_int_equal(r.stats.finish, FT_FINISH_STOP);
        assert_int_equal(r.text.len, (size_t)(strstr(text, stop) - text));
        assert_memory_equal(ft_buf_str(&r.text), text, r.text.len);
        free_run(&r);
        ft_edge_destroy(edge);
    }
    free(stop);
    free_run(&plain);
    check_nothing_left(v);
    ft_verifier_destroy(v);
}

static void test_logprobs(void **state)
{
    ft_verifier *v = make_verifier();
    run plain = {.max_tokens = 16, .sampling = warm(0.8f), .logprobs = true};
    plain_text(v, &plain);
    for (size_t i = 0; i < N_MODES; i++) {
        run r = {.max_tokens = 16, .sampling = plain.sampling, .logprobs = true};
        ft_edge *edge = make_mode(ft_local_link_source(v), m.same, mode_at(i), 0);
        generate(edge, &r);
        check_same(&r, &plain);
        for (uint32_t k = 0; k < r.n; k++) {
            assert_true(r.logprob[k] <= 0);
            assert_float_equal(r.logprob[k], plain.logprob[k], 1e-3);
        }
        free_run(&r);
        ft_edge_destroy(edge);
    }
    free_run(&plain);
    ft_verifier_destroy(v);
}

static bool stop_at_ten(void *ctx, uint32_t so_far)
{
    return so_far < 10;
}

static void test_cancel(void **state)
{
    ft_verifier *v = make_verifier();
    ft_edge *edge = make_edge(ft_local_link_source(v), m.same, ft_draft_params_chain(2), 0);
    run in_text = {.sampling = warm(0.8f), .on_tokens = stop_at_ten};
    generate(edge, &in_text);
    assert_int_equal(in_text.status, FT_CANCELLED);
    assert_in_range(in_text.n, 10, 13);
    check_nothing_left(v);
    for (uint32_t ask = 1; ask <= 3; ask++) { /* 400 tokens are several chunks of prompt */
        run in_prefill = {.sampling = warm(0.8f), .n_prompt = 400, .cancel_at_ask = ask};
        generate(edge, &in_prefill);
        assert_int_equal(in_prefill.status, FT_CANCELLED);
        assert_int_equal(in_prefill.n, 0);
        check_nothing_left(v);
        free_run(&in_prefill);
    }
    free_run(&in_text);
    ft_edge_destroy(edge);
    ft_verifier_destroy(v);
}

typedef struct job {
    ft_edge *edge;
    run r;
    pthread_t thread;
} job;

static void *work(void *ctx)
{
    job *j = ctx;
    generate(j->edge, &j->r);
    return NULL;
}

/* A draft pool for one text and a half: the others decode plainly until there is room. */
static void many_share_one_draft(mode how, uint32_t draft_kv_tok)
{
    enum { N = 6 };
    job jobs[N] = {0};
    ft_verifier *v = make_verifier();
    run plain = {.max_tokens = N_TOKENS, .sampling = warm(0.8f)};
    uint32_t drafted = 0;
    plain_text(v, &plain);
    ft_edge *edge = make_mode(ft_local_link_source(v), m.same, how, draft_kv_tok);
    for (int i = 0; i < N; i++) {
        jobs[i].edge = edge;
        jobs[i].r = (run){.max_tokens = N_TOKENS, .sampling = plain.sampling};
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, work, &jobs[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(jobs[i].thread, NULL);
        check_same(&jobs[i].r, &plain);
        check_sums(&jobs[i].r.stats, how.proactive);
        drafted += jobs[i].r.stats.drafted;
        free_run(&jobs[i].r);
    }
    assert_true(drafted > 0 || how.automatic);
    free_run(&plain);
    ft_edge_destroy(edge);
    check_nothing_left(v);
    ft_verifier_destroy(v);
}

static void test_many_share_one_draft(void **state)
{
    for (size_t i = 0; i < N_MODES; i++) {
        many_share_one_draft(mode_at(i), 208);
        many_share_one_draft(mode_at(i), 0);
    }
}

static void test_other_vocabulary(void **state)
{
    ft_error err = {0};
    ft_edge *edge = NULL;
    ft_verifier *v = make_verifier();
    const ft_edge_opts opts = {
        .vocab = m.other_vocab, .source = ft_local_link_source(v), .clock = ft_clock_monotonic()};
    assert_int_equal(ft_edge_create(&opts, &err, &edge), FT_PRECONDITION);
    assert_null(edge);
    assert_non_null(strstr(err.message, "same family"));
    ft_verifier_destroy(v);
}

/* ---- over the wire ---- */

typedef struct place {
    ft_server *server;
    int port;
    bool restarted, cut, paused;
    ft_link *link; /* the last one opened: to cut it */
    ft_link_source inner;
} place;

static ft_server *start_server(int port, uint32_t idle_s)
{
    ft_server_opts opts = {
        .verifier = verifier_opts(), .host = "127.0.0.1", .port = port, .token = "sesame"};
    opts.verifier.idle_s = idle_s;
    ft_error err = {0};
    ft_server *server = NULL;
    if (ft_server_create(&opts, &err, &server) != FT_OK)
        fail_msg("%s", err.message);
    return server;
}

static ft_wire_client *make_client(int port, const char *token)
{
    char address[32];
    ft_error err = {0};
    ft_wire_client *client = NULL;
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    const ft_wire_client_opts opts = {.address = address, .token = token};
    if (ft_wire_client_create(&opts, &err, &client) != FT_OK)
        fail_msg("%s", err.message);
    return client;
}

static bool restart_at_ten(void *ctx, uint32_t so_far)
{
    place *p = ctx;
    if (so_far < 10 || p->restarted)
        return true;
    p->restarted = true;
    ft_server_destroy(p->server, 0);
    p->server = start_server(p->port, 0);
    return true;
}

static ft_status remember_open(void *ctx, ft_error *err, ft_link **out)
{
    place *p = ctx;
    ft_status status = p->inner.open(p->inner.ctx, err, out);
    p->link = *out;
    return status;
}

static ft_status pass_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    place *p = ctx;
    return p->inner.info(p->inner.ctx, err, out);
}

static bool cut_at_ten(void *ctx, uint32_t so_far)
{
    place *p = ctx;
    if (so_far < 10 || p->cut)
        return true;
    p->cut = true;
    p->link->vt->cancel(p->link);
    return true;
}

/* The app takes no text for so long that the server ends the silent stream. */
static bool pause_at_ten(void *ctx, uint32_t so_far)
{
    place *p = ctx;
    ft_verifier *v = ft_server_verifier(p->server);
    ft_verifier_stats stats = {0};
    if (so_far < 10 || p->paused)
        return true;
    p->paused = true;
    while (stats.sessions_detached == 0) {
        ft_verifier_tick(v);
        ft_verifier_get_stats(v, &stats);
    }
    return true;
}

static void over_wire(bool (*on_tokens)(void *ctx, uint32_t so_far), float temperature,
                      const ft_model *draft, mode how)
{
    place p = {.server = start_server(0, on_tokens == pause_at_ten)};
    p.port = ft_server_port(p.server);
    run plain = {.max_tokens = LONG_TEXT, .sampling = warm(temperature)};
    plain_text(ft_server_verifier(p.server), &plain);
    ft_wire_client *client = make_client(p.port, "sesame");
    p.inner = ft_link_source_wire(client);
    const ft_link_source source = {.ctx = &p, .open = remember_open, .info = pass_info};
    ft_edge *edge = make_mode(source, draft, how, 0);
    run r = {
        .max_tokens = LONG_TEXT, .sampling = plain.sampling, .on_tokens = on_tokens, .ctx = &p};
    generate(edge, &r);
    check_same(&r, &plain);
    assert_true(r.stats.bytes_sent > 0);
    assert_true(r.stats.bytes_received > 0);
    if (on_tokens)
        assert_true(r.stats.reconnects >= 1);
    else
        assert_int_equal(r.stats.reconnects, 0);
    free_run(&plain);
    free_run(&r);
    ft_edge_destroy(edge);
    ft_wire_client_destroy(client);
    if (on_tokens)
        wait_none_attached(ft_server_verifier(p.server));
    else
        wait_nothing_left(ft_server_verifier(p.server));
    ft_server_destroy(p.server, 0);
}

/* In all modes and with runs alone. */
static void in_all_modes(bool (*on_tokens)(void *ctx, uint32_t so_far), float temperature)
{
    for (size_t i = 1; i < N_MODES; i++)
        over_wire(on_tokens, temperature, m.bad, mode_at(i));
    over_wire(on_tokens, temperature, NULL, mode_at(0));
}

static void test_wire(void **state)
{
    in_all_modes(NULL, 0);
    in_all_modes(NULL, 0.8f);
}

static void test_server_restart(void **state)
{
    in_all_modes(restart_at_ten, 0.8f);
    over_wire(restart_at_ten, 0, m.bad, mode_at(3));
}

/* A text that is opened anew knows where its answer began. */
static void test_asked_after_restart(void **state)
{
    fitting = words;
    for (int i = 0; i < 2 && ft_constrain_available(); i++)
        over_wire(i ? cut_at_ten : restart_at_ten, 0.8f * (float)i, m.bad, mode_at(3));
    fitting = (ft_constraint){0};
    asked = &strong;
    over_wire(restart_at_ten, 0.8f, m.bad, mode_at(3));
    over_wire(restart_at_ten, 0, NULL, mode_at(0));
    over_wire(cut_at_ten, 0.8f, m.same, mode_at(1));
    asked = NULL;
}

static void test_cut_stream(void **state)
{
    in_all_modes(cut_at_ten, 0.8f);
    over_wire(cut_at_ten, 0.8f, m.same, mode_at(3));
}

static void test_pause(void **state)
{
    over_wire(pause_at_ten, 0.8f, m.bad, mode_at(3));
    over_wire(pause_at_ten, 0.8f, NULL, mode_at(0));
}

static void test_wrong_token(void **state)
{
    ft_server *server = start_server(0, 0);
    ft_wire_client *client = make_client(ft_server_port(server), "barley");
    const ft_edge_opts opts = {
        .vocab = m.vocab, .source = ft_link_source_wire(client), .clock = ft_clock_monotonic()};
    ft_error err = {0};
    ft_edge *edge = NULL;
    assert_int_equal(ft_edge_create(&opts, &err, &edge), FT_UNAUTHENTICATED);
    ft_wire_client_destroy(client);
    ft_server_destroy(server, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_text),
        cmocka_unit_test(test_same_text_with_a_predictor),
        cmocka_unit_test(test_automatic_over_texts),
        cmocka_unit_test(test_draft_context_fills_up),
        cmocka_unit_test(test_same_text_with_penalties),
        cmocka_unit_test(test_asked_after_restart),
        cmocka_unit_test(test_same_text_with_a_constraint),
        cmocka_unit_test(test_no_speculation),
        cmocka_unit_test(test_max_tokens),
        cmocka_unit_test(test_until_context_is_full),
        cmocka_unit_test(test_stop_string),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_many_share_one_draft),
        cmocka_unit_test(test_other_vocabulary),
        cmocka_unit_test(test_wire),
        cmocka_unit_test(test_server_restart),
        cmocka_unit_test(test_cut_stream),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_wrong_token),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
