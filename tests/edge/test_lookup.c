// SPDX-License-Identifier: Apache-2.0
// Generations that draft by lookups, alone and beside a draft model, with predictions that are
// true, wrong and out of place: the text is always the target's own; true ones are accepted; what
// came of a prediction is counted by the texts alone.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "edge/edge.h"
#include "local/link.h"
#include "support/tiny_model.h"

enum { PROMPT = 40, ANSWER = 160, MAX_CONTEXT = 512 };

typedef struct world {
    ft_vocab *vocab;
    ft_model *target, *draft;
    ft_verifier *verifier;
} world;

static world w;

static int setup(void **state)
{
    tiny_gguf_opts target = {.type = GGML_TYPE_Q4_0, .seed = 1};
    tiny_gguf_opts draft = {.type = GGML_TYPE_Q4_0, .seed = 2, .n_layer = 1};
    ft_error err = {0};
    tiny_quiet();
    w.target = tiny_model(&target, &w.vocab);
    w.draft = tiny_model(&draft, NULL);
    const ft_verifier_opts opts = {.model = w.target,
                                   .vocab = w.vocab,
                                   .clock = ft_clock_monotonic(),
                                   .max_context = MAX_CONTEXT,
                                   .kv_tok = 4 * MAX_CONTEXT,
                                   .max_sessions = 8,
                                   .n_threads = 1};
    if (ft_verifier_create(&opts, &err, &w.verifier) != FT_OK)
        fail_msg("%s", err.message);
    return 0;
}

static int teardown(void **state)
{
    ft_verifier_destroy(w.verifier);
    ft_model_destroy(w.target);
    ft_model_destroy(w.draft);
    ft_vocab_destroy(w.vocab);
    return 0;
}

/* ---- a generation ---- */

typedef struct text {
    int32_t id[MAX_CONTEXT];
    uint32_t n;
    ft_gen_stats stats;
    bool why[FT_UNDRAFTED_N]; /* a verdict said so */
    uint32_t n_told;          /* verdicts */
    ft_undrafted first;       /* of the first one */
} text;

static void on_told(void *ctx, const ft_told *told)
{
    text *t = ctx;
    t->why[told->undrafted] = true;
    if (t->n_told++ == 0)
        t->first = told->undrafted;
}

static bool on_text(void *ctx, const char *piece, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    text *t = ctx;
    for (size_t i = 0; i < n_tokens && t->n < MAX_CONTEXT; i++)
        t->id[t->n++] = tokens[i].id;
    return true;
}

/* How a text is drafted for. */
typedef struct way {
    ft_draft_by by;
    bool model, automatic, proactive;
    ft_draft_params params;
} way;

static ft_edge *make_edge(const way *how)
{
    ft_error err = {0};
    ft_edge *edge = NULL;
    const ft_edge_opts opts = {.vocab = w.vocab,
                               .draft_model = how->model ? w.draft : NULL,
                               .draft_by = how->by,
                               .source = ft_local_link_source(w.verifier),
                               .draft = how->params,
                               .automatic = how->automatic,
                               .proactive = how->proactive,
                               .early = how->proactive,
                               .clock = ft_clock_monotonic(),
                               .n_threads = 1};
    if (ft_edge_create(&opts, &err, &edge) != FT_OK)
        fail_msg("%s", err.message);
    return edge;
}

static void generate(ft_edge *edge, const ft_sampling *sampling, const text *prediction, text *out)
{
    int32_t prompt[PROMPT];
    ft_error err = {0};
    for (uint32_t i = 0; i < PROMPT; i++)
        prompt[i] = 3 + (int32_t)((i * 37 + 11) % 256);
    const ft_gen_request request = {.prompt = prompt,
                                    .n_prompt = PROMPT,
                                    .prediction = prediction->id,
                                    .n_prediction = prediction->n,
                                    .sampling = *sampling,
                                    .max_tokens = ANSWER};
    const ft_gen_sink sink = {.ctx = out, .on_text = on_text, .on_told = on_told};
    *out = (text){0};
    if (ft_edge_generate(edge, &request, &sink, &err, &out->stats) != FT_OK)
        fail_msg("%s", err.message);
}

static void plain_text(const ft_sampling *sampling, text *out)
{
    ft_edge *edge = make_edge(&(way){.params = ft_draft_params_chain(0)});
    generate(edge, sampling, &(text){0}, out);
    assert_int_equal(out->stats.drafted, 0);
    ft_edge_destroy(edge);
}

/* The target's text; of those that are drawn, one that does not end soon. */
static ft_sampling long_text(float temperature, text *plain)
{
    ft_sampling s = ft_sampling_default();
    s.temperature = temperature;
    do {
        s.seed++;
        plain_text(&s, plain);
    } while (temperature > 0 && plain->n < ANSWER / 2);
    return s;
}

/* ---- tests ---- */

enum { NONE, TRUE_ONE, HALF, WRONG, SHIFTED, PREDICTIONS };

/* Predictions of a text, by how much of them is true. */
static void make_prediction(const text *plain, int which, text *out)
{
    *out = (text){.n = which == NONE ? 0 : plain->n};
    for (uint32_t i = 0; i < plain->n; i++) {
        out->id[i] = plain->id[i];
        if (which == WRONG || (which == HALF && i >= plain->n / 2))
            out->id[i] = (int32_t)(3 + (i * 91 + 5) % 250);
        if (which == SHIFTED)
            out->id[i] = i < 9 ? 7 : plain->id[i - 9];
    }
}

static void test_same_text(void **state)
{
    const ft_draft_params tree = ft_draft_params_tree(32, 16, 8), chain = ft_draft_params_chain(5);
    const way ways[] = {
        {.by = FT_DRAFT_BY_LOOKUP, .params = tree},
        {.by = FT_DRAFT_BY_LOOKUP, .params = chain},
        {.by = FT_DRAFT_BY_LOOKUP, .params = tree, .automatic = true},
        {.by = FT_DRAFT_BY_LOOKUP, .params = tree, .automatic = true, .proactive = true},
        {.by = FT_DRAFT_BY_BOTH, .model = true, .params = tree},
        {.by = FT_DRAFT_BY_BOTH, .model = true, .params = tree, .proactive = true},
        {.by = FT_DRAFT_BY_BOTH, .model = true, .params = tree, .automatic = true},
        {.by = FT_DRAFT_BY_AUTO, .model = true, .params = tree, .automatic = true},
        {.by = FT_DRAFT_BY_AUTO, .params = tree, .automatic = true},
        {.by = FT_DRAFT_BY_MODEL, .model = true, .params = chain},
    };
    const float temperatures[] = {0, 0.4f, 1};
    for (size_t t = 0; t < sizeof temperatures / sizeof *temperatures; t++) {
        text plain, prediction, got;
        const ft_sampling sampling = long_text(temperatures[t], &plain);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            ft_edge *edge = make_edge(&ways[i]); /* its texts learn from each other */
            for (int which = 0; which < PREDICTIONS; which++) {
                make_prediction(&plain, which, &prediction);
                generate(edge, &sampling, &prediction, &got);
                assert_int_equal(got.n, plain.n);
                assert_memory_equal(got.id, plain.id, plain.n * sizeof *plain.id);
                assert_true(got.stats.accepted <= got.stats.drafted);
                assert_true(got.stats.same_tokens);
            }
            ft_edge_destroy(edge);
        }
    }
}

/* With a fixed draft what is drafted does not depend on time. */
static void test_true_predictions_are_accepted(void **state)
{
    const ft_draft_params chain = ft_draft_params_chain(9);
    const way ways[] = {{.by = FT_DRAFT_BY_LOOKUP, .params = chain},
                        {.by = FT_DRAFT_BY_AUTO, .params = chain},
                        {.by = FT_DRAFT_BY_BOTH, .model = true, .params = chain}};
    text plain, prediction, got;
    const ft_sampling sampling = long_text(1, &plain); /* it hardly repeats itself */
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        ft_edge *edge = make_edge(&ways[i]);
        make_prediction(&plain, TRUE_ONE, &prediction);
        generate(edge, &sampling, &prediction, &got);
        assert_true(got.stats.rounds <= plain.n / (ways[i].model ? 3 : 8));
        assert_true(got.stats.accepted >= plain.n * 2 / 3);
        ft_edge_destroy(edge);
    }
}

/* Where lookups could draft, it is not for want of a model that nothing is drafted. */
static void test_says_why_nothing_is_drafted(void **state)
{
    const way lookup = {.by = FT_DRAFT_BY_LOOKUP, .params = ft_draft_params_tree(32, 16, 8)};
    const way none = {.by = FT_DRAFT_BY_AUTO, .params = lookup.params};
    text plain, prediction, got;
    const ft_sampling sampling = long_text(1, &plain);
    make_prediction(&plain, WRONG, &prediction);
    ft_edge *edge = make_edge(&lookup);
    generate(edge, &sampling, &(text){0}, &got);
    assert_true(got.why[FT_UNDRAFTED_NOT_FOUND] && !got.why[FT_UNDRAFTED_NO_MODEL]);
    ft_edge_destroy(edge);
    edge = make_edge(&none);
    generate(edge, &sampling, &(text){0}, &got);
    assert_true(got.why[FT_UNDRAFTED_NO_MODEL] && !got.why[FT_UNDRAFTED_NOT_FOUND]);
    generate(edge, &sampling, &prediction, &got); /* which lookups draft from */
    assert_false(got.why[FT_UNDRAFTED_NO_MODEL]);
    ft_edge_destroy(edge);
    assert_true(plain.why[FT_UNDRAFTED_ASKED] && !plain.why[FT_UNDRAFTED_NO_MODEL]);
}

/* What the caller is told does not depend on what was drafted, or whether. */
static void test_counts_by_the_texts(void **state)
{
    const way ways[] = {
        {.params = ft_draft_params_chain(0)},
        {.by = FT_DRAFT_BY_LOOKUP, .params = ft_draft_params_tree(32, 16, 8), .automatic = true},
        {.by = FT_DRAFT_BY_AUTO, .model = true, .params = ft_draft_params_chain(3)},
    };
    text plain, prediction, got;
    uint64_t half = 0;
    const ft_sampling sampling = long_text(1, &plain);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        ft_edge *edge = make_edge(&ways[i]);
        generate(edge, &sampling, &(text){0}, &got);
        assert_int_equal(got.stats.prediction_accepted + got.stats.prediction_rejected, 0);
        make_prediction(&plain, TRUE_ONE, &prediction);
        generate(edge, &sampling, &prediction, &got);
        assert_int_equal(got.stats.prediction_accepted, plain.n);
        assert_int_equal(got.stats.prediction_rejected, 0);
        make_prediction(&plain, HALF, &prediction);
        generate(edge, &sampling, &prediction, &got);
        half = i == 0 ? got.stats.prediction_accepted : half;
        assert_int_equal(got.stats.prediction_accepted, half);
        assert_int_equal(got.stats.prediction_rejected, plain.n - half);
        assert_true(half >= plain.n / 2 && half < plain.n * 3 / 4);
        ft_edge_destroy(edge);
    }
}

/* Matches that never hold are given up: the controller sends few of them. */
static void test_wrong_predictions_cost_little(void **state)
{
    const way lookup = {
        .by = FT_DRAFT_BY_LOOKUP, .params = ft_draft_params_tree(32, 32, 8), .automatic = true};
    text plain, prediction, got;
    const ft_sampling sampling = long_text(1, &plain);
    ft_edge *edge = make_edge(&lookup);
    make_prediction(&plain, WRONG, &prediction);
    for (int i = 0; i < 4; i++) {
        generate(edge, &sampling, &prediction, &got);
        assert_int_equal(got.n, plain.n);
        assert_true(got.stats.drafted < plain.n / 2);
    }
    ft_edge_destroy(edge);
}

/* A draft model in the target's process reads the prompt behind the first token, unless it drafts
 * ahead: then it need not wait. Lookups read nothing. */
static void test_where_reading_waits(void **state)
{
    text got;
    const ft_sampling sampling = long_text(1, &got);
    const way model = {.model = true, .params = ft_draft_params_chain(4)};
    way ahead = model, lookup = model;
    ahead.proactive = true;
    lookup.model = false;
    lookup.by = FT_DRAFT_BY_LOOKUP;
    ft_edge *edge = make_edge(&model);
    generate(edge, &sampling, &(text){0}, &got);
    assert_int_equal(got.first, FT_UNDRAFTED_READING);
    assert_true(got.why[FT_UNDRAFTED_NOT] && !got.why[FT_UNDRAFTED_OVER]);
    assert_in_range(got.stats.run_tokens, 1, 2); /* the first one, and one where no more may come */
    ft_edge_destroy(edge);
    edge = make_edge(&ahead);
    generate(edge, &sampling, &(text){0}, &got);
    assert_int_equal(got.first, FT_UNDRAFTED_NOT);
    assert_false(got.why[FT_UNDRAFTED_READING]);
    ft_edge_destroy(edge);
    edge = make_edge(&lookup);
    generate(edge, &sampling, &(text){0}, &got);
    assert_false(got.why[FT_UNDRAFTED_READING]);
    ft_edge_destroy(edge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_text),
        cmocka_unit_test(test_true_predictions_are_accepted),
        cmocka_unit_test(test_says_why_nothing_is_drafted),
        cmocka_unit_test(test_counts_by_the_texts),
        cmocka_unit_test(test_wrong_predictions_cost_little),
        cmocka_unit_test(test_where_reading_waits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
