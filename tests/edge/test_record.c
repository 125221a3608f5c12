// SPDX-License-Identifier: Apache-2.0
// What an edge records (edge/record.c): in every way to draft, accepted tokens and the target's own
// spell the text that came out, and each has the features that it was drafted with; a store that
// cannot keep anything changes no text and no statistics.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "edge/edge.h"
#include "local/link.h"
#include "support/target.h"
#include "support/tiny_gguf.h"

enum { N_PROMPT = 20, N_TOKENS = 60 };

static ft_model *draft;
static char *path;

static int set_up(void **state)
{
    ft_error err = {0};
    if (test_target_setup(state) != 0)
        return -1;
    ft_log_set_level(FT_LOG_ERROR); /* what is dropped is told */
    char *file = tiny_gguf_temp(
        &(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .embd_as_type = true, .seed = 7, .n_layer = 1});
    const ft_status status = ft_model_load(&(ft_model_opts){.path = file}, &err, &draft);
    unlink(file);
    free(file);
    path = tiny_temp_path();
    return status == FT_OK && path ? 0 : -1;
}

static int tear_down(void **state)
{
    ft_model_destroy(draft);
    unlink(path);
    free(path);
    return test_target_teardown(state);
}

/* ---- generations ---- */

typedef struct text {
    int32_t id[N_TOKENS + 1];
    uint32_t n;
    ft_gen_stats stats;
} text;

static bool on_text(void *ctx, const char *s, size_t n, const ft_gen_token *tokens, size_t n_tokens)
{
    text *t = ctx;
    for (size_t i = 0; i < n_tokens && t->n <= N_TOKENS; i++)
        t->id[t->n++] = tokens[i].id;
    return true;
}

static void generate(const ft_edge_opts *how, uint64_t seed, text *out)
{
    int32_t prompt[N_PROMPT];
    ft_error err = {0};
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.max_tree = FT_TREE_MAX});
    ft_edge *edge = NULL;
    ft_edge_opts opts = *how;
    opts.vocab = target.vocab;
    opts.draft_model = draft;
    opts.source = ft_local_link_source(v);
    opts.clock = ft_clock_monotonic();
    opts.n_threads = 1;
    for (int i = 0; i < N_PROMPT; i++)
        prompt[i] = 3 + (i * 37 + 11) % 256;
    const ft_gen_request request = {.prompt = prompt,
                                    .n_prompt = N_PROMPT,
                                    .sampling = {.temperature = 0.7f, .top_p = 1, .seed = seed},
                                    .max_tokens = N_TOKENS};
    const ft_gen_sink sink = {.ctx = out, .on_text = on_text};
    *out = (text){0};
    if (ft_edge_create(&opts, &err, &edge) != FT_OK ||
        ft_edge_generate(edge, &request, &sink, &err, &out->stats) != FT_OK)
        fail_msg("%s", err.message);
    ft_edge_destroy(edge);
    ft_verifier_destroy(v);
}

static ft_trace *open_store(uint64_t max_bytes)
{
    ft_error err = {0};
    ft_trace *t = NULL;
    unlink(path);
    if (ft_trace_open(&(ft_trace_opts){.path = path, .max_bytes = max_bytes}, &err, &t) != FT_OK)
        fail_msg("%s", err.message);
    return t;
}

/* ---- what is in the file ---- */

/* Each round's accepted tokens and the one behind them are the text's at the round's place. */
static void expect_spells(const text *t)
{
    /* a path is one branch, and nodes come before their children */
    static const char sql[] =
        "SELECT id, length, token FROM (SELECT round.id AS id, length, token, idx FROM round "
        "JOIN node ON node.round = round.id WHERE outcome = 1 UNION ALL "
        "SELECT id, length, next, 9999 FROM round WHERE next IS NOT NULL) ORDER BY id, idx";
    sqlite3 *db = NULL;
    sqlite3_stmt *row = NULL;
    int64_t round = 0;
    uint32_t at = 0, tokens = 0;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
    while (sqlite3_step(row) == SQLITE_ROW) {
        if (sqlite3_column_int64(row, 0) != round)
            at = (uint32_t)sqlite3_column_int(row, 1) - N_PROMPT;
        round = sqlite3_column_int64(row, 0);
        if (at < t->n) /* an end-of-generation token is not handed out */
            assert_int_equal(sqlite3_column_int(row, 2), t->id[at]);
        at++;
        tokens++;
    }
    sqlite3_finalize(row);
    sqlite3_close(db);
    assert_true(tokens >= t->stats.accepted + t->stats.rounds - 1);
}

/* Features that a draft model can have said; roots come first. */
static bool see(void *ctx, const ft_trace_sample *s)
{
    const float *f = s->feature;
    uint32_t *n = ctx;
    (*n)++;
    assert_true(f[FT_FEATURE_CONFIDENCE] > 0 && f[FT_FEATURE_CONFIDENCE] <= 1);
    assert_true(f[FT_FEATURE_ENTROPY] >= 0 && f[FT_FEATURE_MARGIN] >= 0 &&
                f[FT_FEATURE_MARGIN] <= 1 && f[FT_FEATURE_DEVIATION] > 0);
    assert_true(f[FT_FEATURE_POSITION] == (float)s->depth);
    assert_true((s->depth == 0) == (s->parent < 0));
    return true;
}

static void test_every_way_to_draft(void **state)
{
    const ft_edge_opts how[] = {
        {.draft = ft_draft_params_chain(4)},
        {.draft = ft_draft_params_tree(16, 4, 4)},
        {.draft = ft_draft_params_chain(3), .proactive = true},
        {.draft = ft_draft_params_tree(32, 5, 8), .proactive = true},
    };
    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        ft_edge_opts opts = how[i];
        ft_trace_summary s;
        uint32_t samples = 0;
        text plain, recorded;
        generate(&opts, i, &plain);
        opts.trace = open_store(0);
        generate(&opts, i, &recorded);
        ft_trace_close(opts.trace);
        assert_int_equal(recorded.n, plain.n);
        assert_memory_equal(recorded.id, plain.id, plain.n * sizeof *plain.id);
        assert_int_equal(ft_trace_summarize(path, NULL, &s), FT_OK);
        assert_true(s.sessions == 1 && s.rounds == recorded.stats.rounds && s.rounds > 0);
        assert_true(s.nodes == recorded.stats.drafted && s.accepted == recorded.stats.accepted);
        assert_true(s.accepted > 0 && s.judged > s.accepted);
        assert_int_equal(ft_trace_each_node(path, see, &samples, NULL), FT_OK);
        assert_true(samples == s.judged);
        expect_spells(&recorded);
    }
}

static void test_nothing_fits(void **state)
{
    ft_edge_opts opts = {.draft = ft_draft_params_chain(4)};
    text plain, dropped;
    generate(&opts, 1, &plain);
    opts.trace = open_store(4096); /* not even the tables */
    generate(&opts, 1, &dropped);
    ft_trace_flush(opts.trace);
    const ft_trace_stats stats = ft_trace_get_stats(opts.trace);
    ft_trace_close(opts.trace);
    assert_true(stats.rounds == 0 && stats.dropped == dropped.stats.rounds && stats.dropped > 0);
    assert_int_equal(dropped.n, plain.n);
    assert_memory_equal(dropped.id, plain.id, plain.n * sizeof *plain.id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_to_draft),
        cmocka_unit_test(test_nothing_fits),
    };
    tiny_quiet();
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
