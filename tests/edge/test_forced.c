// SPDX-License-Identifier: Apache-2.0
// Texts under a constraint that forces much: the text is the target's own, whatever drafts. What is
// forced is accepted without a draft model, and with one it saves the model's forwards. Drafts
// follow a constraint that is compiled late from then on.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "constrain/constraint.h"
#include "edge/edge.h"
#include "edge/edge_internal.h"
#include "local/link.h"
#include "spec/constrained.h"
#include "support/tiny_model.h"

enum { PROMPT = 40, ANSWER = 200, MAX_CONTEXT = 512, LATE = 60 };

/* Places with one token, with several that spell the same, and with a choice. */
static const char pattern[] = "(cabba=[a-f]{1,3};|dada=[0-9]{1,2},and baba\\.){40}";

static ft_vocab *vocab;
static ft_model *target, *draft;
static ft_verifier *verifier;

static int setup(void **state)
{
    tiny_gguf_opts large = {.type = GGML_TYPE_Q4_0, .seed = 1};
    tiny_gguf_opts small = {.type = GGML_TYPE_Q4_0, .seed = 2, .n_layer = 1};
    ft_error err = {0};
    tiny_quiet();
    target = tiny_model(&large, &vocab);
    draft = tiny_model(&small, NULL);
    const ft_verifier_opts opts = {.model = target,
                                   .vocab = vocab,
                                   .clock = ft_clock_monotonic(),
                                   .max_context = MAX_CONTEXT,
                                   .kv_tok = 4 * MAX_CONTEXT,
                                   .max_sessions = 8,
                                   .n_threads = 1};
    if (ft_verifier_create(&opts, &err, &verifier) != FT_OK)
        fail_msg("%s", err.message);
    return 0;
}

static int teardown(void **state)
{
    ft_verifier_destroy(verifier);
    ft_model_destroy(target);
    ft_model_destroy(draft);
    ft_vocab_destroy(vocab);
    return 0;
}

typedef struct text {
    int32_t id[MAX_CONTEXT];
    uint32_t n, drafted_late; /* late: in the rounds before token LATE */
    ft_gen_stats stats;
} text;

/* This edge may compile the constraint at token LATE; NULL: at once. */
static ft_edge *late;
static void let_compile(ft_edge *edge);

static bool on_text(void *ctx, const char *piece, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    text *t = ctx;
    for (size_t i = 0; i < n_tokens && t->n < MAX_CONTEXT; i++)
        t->id[t->n++] = tokens[i].id;
    if (late && t->n >= LATE)
        let_compile(late);
    return true;
}

static void on_told(void *ctx, const ft_told *told)
{
    text *t = ctx;
    if (t->n < LATE)
        t->drafted_late += told->drafted;
}

/* How a text is drafted for. */
typedef struct way {
    ft_draft_by by;
    bool model, no_forced, automatic, proactive;
    bool far; /* it compiles constraints itself, as where the server is elsewhere */
    ft_draft_params params;
} way;

static ft_edge *make_edge(const way *how)
{
    ft_error err = {0};
    ft_edge *edge = NULL;
    ft_edge_opts opts = {.vocab = vocab,
                         .draft_model = how->model ? draft : NULL,
                         .draft_by = how->by,
                         .no_forced = how->no_forced,
                         .source = ft_local_link_source(verifier),
                         .draft = how->params,
                         .automatic = how->automatic,
                         .proactive = how->proactive,
                         .early = how->proactive,
                         .clock = ft_clock_monotonic(),
                         .n_threads = 1};
    if (how->far)
        opts.source.grammars = NULL;
    if (ft_edge_create(&opts, &err, &edge) != FT_OK)
        fail_msg("%s", err.message);
    return edge;
}

/* For whom a text is; NULL: this process. */
static const ft_client_id *asks;

static void generate(ft_edge *edge, const ft_sampling *sampling, bool no_speculation, text *out)
{
    int32_t prompt[PROMPT];
    ft_error err = {0};
    for (uint32_t i = 0; i < PROMPT; i++)
        prompt[i] = 3 + (int32_t)((i * 37 + 11) % 256);
    ft_gen_request request = {.prompt = prompt,
                              .n_prompt = PROMPT,
                              .sampling = *sampling,
                              .constraint = {FT_CONSTRAINT_REGEX, pattern, strlen(pattern)},
                              .no_speculation = no_speculation,
                              .client = asks,
                              .max_tokens = ANSWER};
    const ft_gen_sink sink = {.ctx = out, .on_text = on_text, .on_told = on_told};
    request.sampling.answer_at = PROMPT;
    *out = (text){0};
    if (ft_edge_generate(edge, &request, &sink, &err, &out->stats) != FT_OK)
        fail_msg("%s", err.message);
}

static ft_sampling warm(float temperature, uint64_t seed)
{
    ft_sampling s = ft_sampling_default();
    s.temperature = temperature;
    s.seed = seed;
    return s;
}

static void test_same_text(void **state)
{
    const ft_draft_params chain = ft_draft_params_chain(6), tree = ft_draft_params_tree(32, 5, 8);
    const way ways[] = {
        {.params = tree},
        {.params = tree, .automatic = true},
        {.by = FT_DRAFT_BY_LOOKUP, .params = chain},
        {.by = FT_DRAFT_BY_LOOKUP, .params = tree, .automatic = true},
        {.by = FT_DRAFT_BY_BOTH, .model = true, .params = tree, .proactive = true},
        {.model = true, .params = chain},
        {.model = true, .params = tree},
        {.model = true, .params = tree, .proactive = true},
        {.model = true, .params = tree, .automatic = true, .proactive = true},
        {.model = true, .params = tree, .automatic = true},
        {.model = true, .no_forced = true, .params = tree},
    };
    const ft_sampling samplings[] = {warm(0, 0), warm(1, 3), warm(2, 4)};
    if (!ft_constrain_available())
        skip();
    for (size_t s = 0; s < sizeof samplings / sizeof *samplings; s++) {
        text plain, got;
        ft_edge *edge = make_edge(&(way){.params = ft_draft_params_chain(0)});
        generate(edge, &samplings[s], true, &plain);
        assert_int_equal(plain.stats.drafted, 0);
        assert_int_equal(plain.n, ANSWER);
        ft_edge_destroy(edge);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            edge = make_edge(&ways[i]);
            for (int k = 0; k < 2; k++) { /* the second text knows how the first was spelled */
                generate(edge, &samplings[s], false, &got);
                if (got.n != plain.n || memcmp(got.id, plain.id, plain.n * sizeof *plain.id) != 0)
                    fail_msg("sampling %zu, way %zu, text %d: another text", s, i, k);
                assert_true(ways[i].automatic || got.stats.accepted > 0);
            }
            generate(edge, &samplings[s], true, &got);
            assert_int_equal(got.stats.drafted, 0);
            assert_memory_equal(got.id, plain.id, plain.n * sizeof *plain.id);
            ft_edge_destroy(edge);
        }
    }
}

static text of_way(const way *how, const ft_sampling *sampling)
{
    text got;
    ft_edge *edge = make_edge(how);
    generate(edge, sampling, false, &got);
    generate(edge, sampling, false, &got);
    ft_edge_destroy(edge);
    return got;
}

/* Without a draft model more than a third of the text is drafted, rightly nearly always; with one,
 * fewer forwards bring more. */
static void test_what_it_brings(void **state)
{
    const ft_draft_params tree = ft_draft_params_tree(32, 3, 4);
    const ft_sampling greedy = warm(0, 0);
    if (!ft_constrain_available())
        skip();
    const text alone = of_way(&(way){.params = tree}, &greedy);
    assert_true(alone.stats.accepted > alone.n / 3);
    assert_true(alone.stats.accepted > alone.stats.drafted * 3 / 4);
    const text none = of_way(&(way){.params = tree, .no_forced = true}, &greedy);
    assert_int_equal(none.stats.drafted, 0);
    const text with = of_way(&(way){.model = true, .params = tree}, &greedy);
    const text without = of_way(&(way){.model = true, .no_forced = true, .params = tree}, &greedy);
    assert_true(with.stats.rounds < without.stats.rounds);
    assert_true(with.stats.forwards < without.stats.forwards);
}

/* ---- a constraint that is compiled late ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int n_held; /* guarded by lock: workers that compile nothing more */
static bool holds; /* guarded by lock: they stay */

static void hold(void *ctx)
{
    pthread_mutex_lock(&lock);
    n_held++;
    pthread_cond_broadcast(&changed);
    while (holds)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void release(void)
{
    pthread_mutex_lock(&lock);
    holds = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* From now on the edge compiles nothing, until `release`: each of the two workers that would is
 * held behind a constraint of its own. */
static void hold_workers(ft_edge *edge)
{
    static const ft_constraint other[] = {{FT_CONSTRAINT_REGEX, "x", 1},
                                          {FT_CONSTRAINT_REGEX, "y", 1}};
    const ft_grammars_opts opts = {.tokens = ft_constrained_tokens(vocab), .done = hold};
    ft_error err = {0};
    ft_grammars_destroy(edge->grammars);
    assert_int_equal(ft_grammars_create(&opts, &err, &edge->grammars), FT_OK);
    holds = true;
    n_held = 0;
    for (int i = 0; i < 2; i++) {
        ft_grammar *none;
        assert_int_equal(ft_grammars_get(edge->grammars, &other[i], NULL, &err, &none), FT_OK);
        assert_null(none);
        pthread_mutex_lock(&lock);
        while (n_held <= i)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
    }
}

static const ft_constraint constraint = {FT_CONSTRAINT_REGEX, pattern, sizeof pattern - 1};

static void let_compile(ft_edge *edge)
{
    ft_error err = {0};
    late = NULL;
    release();
    assert_int_equal(ft_edge_compile(edge, &constraint, NULL, 60000000, &err), FT_OK);
}

/* Until it is compiled nothing is known to be forced; then drafts bring as much as ever. */
static void test_late(void **state)
{
    const ft_draft_params tree = ft_draft_params_tree(32, 3, 4);
    const way ways[] = {
        {.far = true, .params = tree},
        {.far = true, .params = tree, .automatic = true},
        {.far = true, .by = FT_DRAFT_BY_LOOKUP, .params = tree},
        {.far = true, .model = true, .params = tree},
        {.far = true, .model = true, .params = tree, .automatic = true, .proactive = true},
        {.far = true, .model = true, .no_forced = true, .params = tree},
    };
    const ft_sampling samplings[] = {warm(0, 0), warm(1, 3)};
    if (!ft_constrain_available())
        skip();
    for (size_t s = 0; s < sizeof samplings / sizeof *samplings; s++) {
        text plain, got;
        ft_edge *edge = make_edge(&(way){.params = ft_draft_params_chain(0)});
        generate(edge, &samplings[s], true, &plain);
        ft_edge_destroy(edge);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            edge = make_edge(&ways[i]);
            hold_workers(edge);
            late = edge;
            generate(edge, &samplings[s], false, &got);
            assert_null(late);
            if (got.n != plain.n || memcmp(got.id, plain.id, plain.n * sizeof *plain.id) != 0)
                fail_msg("sampling %zu, way %zu: another text", s, i);
            if (i == 0) {
                assert_int_equal(got.drafted_late, 0);
                assert_true(got.stats.accepted > (plain.n - LATE) / 4);
            }
            ft_edge_destroy(edge);
        }
    }
}

/* What is compiled beforehand is known from the first round on. */
static void test_compiled_before(void **state)
{
    const ft_sampling greedy = warm(0, 0);
    ft_error err = {0};
    text got;
    if (!ft_constrain_available())
        skip();
    ft_edge *edge = make_edge(&(way){.far = true, .params = ft_draft_params_tree(32, 3, 4)});
    hold_workers(edge);
    assert_int_equal(ft_edge_compile(edge, &constraint, NULL, 1, &err), FT_TIMEOUT);
    release();
    assert_int_equal(ft_edge_compile(edge, &constraint, NULL, 60000000, &err), FT_OK);
    generate(edge, &greedy, false, &got);
    assert_true(got.drafted_late > 0);
    ft_edge_destroy(edge);
}

/* Where the edge is in the server's process, a constraint is compiled once: for the client that
 * asks, and for no other one. */
static void test_shared(void **state)
{
    static const ft_client_id clients[] = {{.address = "10.0.0.1"}, {.address = "10.0.0.2"}};
    const ft_sampling greedy = warm(0, 0);
    ft_error err = {0};
    ft_grammar *there[2];
    text got;
    if (!ft_constrain_available())
        skip();
    ft_edge *edge = make_edge(&(way){.params = ft_draft_params_tree(32, 3, 4)});
    assert_ptr_equal(edge->grammars, ft_verifier_grammars(verifier));
    asks = &clients[0];
    generate(edge, &greedy, false, &got);
    asks = NULL;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(ft_grammars_get(ft_verifier_grammars(verifier), &constraint,
                                         clients[i].address, &err, &there[i]),
                         FT_OK);
    assert_non_null(there[0]);
    assert_null(there[1]);
    ft_grammar_unref(there[0]);
    ft_edge_destroy(edge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_text), cmocka_unit_test(test_what_it_brings),
        cmocka_unit_test(test_late),      cmocka_unit_test(test_compiled_before),
        cmocka_unit_test(test_shared),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
