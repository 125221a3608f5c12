// SPDX-License-Identifier: Apache-2.0
// Batches of tasks with tiny models: each text is what its task alone would get, whatever is
// drafted, however the tasks are batched, and however often they are planned anew; a batch that was
// interrupted, at any moment, ends with the same texts.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/num.h"
#include "edge/batch.h"
#include "local/link.h"
#include "support/tiny_model.h"

#define TASKS       8
#define N_TOKENS    24
#define MAX_CONTEXT 128

static ft_vocab *vocab;
static ft_model *target, *bad; /* drafts: the target itself, and one that knows nothing of it */
static ft_tasks tasks;
static ft_verifier *verifier;

static bool never(void *ctx)
{
    (void)ctx;
    return false;
}

/* The last task has no limit but the context, the one before is released later. */
static void make_tasks(void)
{
    char text[TASKS * 128];
    size_t at = 0;
    ft_error err = {0};
    const ft_tokenize_limits limits = {.cancelled = never, .max_tok = MAX_CONTEXT};
    for (int i = 0; i < TASKS; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "{\"id\":\"t%d\",\"prompt\":\"hello %d\"", i, i * i);
        if (i < TASKS - 1)
            at += (size_t)snprintf(text + at, sizeof text - at, ",\"max_tokens\":%d",
                                   N_TOKENS - 2 * i);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s}\n",
                               i == TASKS - 2 ? ",\"release_s\":0.05" : "");
    }
    assert_int_equal(ft_tasks_read(text, at, 5, &err, &tasks), FT_OK);
    assert_int_equal(ft_tasks_tokenize(&tasks, vocab, &limits, &err), FT_OK);
}

static int setup(void **state)
{
    const tiny_gguf_opts of_target = {.type = GGML_TYPE_Q4_0, .seed = 1};
    const tiny_gguf_opts of_bad = {.type = GGML_TYPE_Q4_0, .seed = 2, .n_layer = 1};
    ft_error err = {0};
    (void)state;
    tiny_quiet();
    target = tiny_model(&of_target, &vocab);
    bad = tiny_model(&of_bad, NULL);
    const ft_verifier_opts opts = {.model = target,
                                   .vocab = vocab,
                                   .clock = ft_clock_monotonic(),
                                   .max_context = MAX_CONTEXT,
                                   .kv_tok = 2 * TASKS * MAX_CONTEXT,
                                   .session_ttl_s = 60,
                                   .n_threads = 1};
    if (ft_verifier_create(&opts, &err, &verifier) != FT_OK)
        fail_msg("%s", err.message);
    make_tasks();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ft_verifier_destroy(verifier);
    ft_tasks_deinit(&tasks);
    ft_model_destroy(target);
    ft_model_destroy(bad);
    ft_vocab_destroy(vocab);
    return 0;
}

static ft_edge *make_edge(const ft_model *draft, uint32_t length)
{
    ft_error err = {0};
    ft_edge *edge = NULL;
    const ft_edge_opts opts = {.vocab = vocab,
                               .draft_model = draft,
                               .source = ft_local_link_source(verifier),
                               .draft = ft_draft_params_chain(length),
                               .max_generations = TASKS,
                               .draft_kv_tok = TASKS * (MAX_CONTEXT + 96),
                               .clock = ft_clock_monotonic(),
                               .n_threads = 1};
    if (ft_edge_create(&opts, &err, &edge) != FT_OK)
        fail_msg("%s", err.message);
    return edge;
}

static ft_sampling sampling_of(float temperature)
{
    ft_sampling s = ft_sampling_default();
    s.temperature = temperature;
    return s;
}

/* ---- what a task alone gets ---- */

typedef struct alone {
    ft_buf text;
    uint32_t tokens;
    ft_finish finish;
} alone;

static bool take_text(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                      size_t n_tokens)
{
    alone *a = ctx;
    (void)tokens;
    a->tokens += (uint32_t)n_tokens;
    return ft_buf_append(&a->text, text, n) == FT_OK;
}

static void generate_alone(float temperature, alone all[TASKS])
{
    ft_edge *edge = make_edge(NULL, 0);
    for (int i = 0; i < TASKS; i++) {
        const ft_task *t = &tasks.task[i];
        ft_gen_request request = {.prompt = t->tokens.id,
                                  .n_prompt = (uint32_t)t->tokens.n,
                                  .sampling = sampling_of(temperature),
                                  .max_tokens = t->max_tokens};
        all[i] = (alone){0};
        request.sampling.seed = t->seed;
        const ft_gen_sink sink = {.ctx = &all[i], .on_text = take_text};
        ft_gen_stats stats;
        ft_error err = {0};
        assert_int_equal(ft_edge_generate(edge, &request, &sink, &err, &stats), FT_OK);
        all[i].finish = stats.finish;
    }
    ft_edge_destroy(edge);
}

static void free_alone(alone all[TASKS])
{
    for (int i = 0; i < TASKS; i++)
        ft_buf_deinit(&all[i].text);
}

/* ---- batches ---- */

/* Cancels when it is asked for the n-th time; 0: never. */
typedef struct stopper {
    uint32_t at, asked;
} stopper;

static bool stops(void *ctx)
{
    stopper *s = ctx;
    return s->at > 0 && ++s->asked >= s->at;
}

typedef struct how {
    const ft_model *draft;
    uint32_t length, batch, at_once;
    float temperature;
    uint32_t kv_tok;
    bool costs; /* are told: there is no trial */
    uint32_t length_least;
    bool one_at_a_time;
} how;

/* Made-up costs: which plans are made is for other tests. */
static const ft_costs costs = {
    .us = {[FT_COST_PASS] = 300, [FT_COST_ROW] = 50, [FT_COST_INTERACTION] = 0.1}, .error = 0.1};

static ft_journal *open_journal(const char *path, bool resume)
{
    ft_journal *j;
    ft_error err = {0};
    const ft_journal_opts opts = {.out = path, .resume = resume, .n = TASKS};
    if (ft_journal_open(&opts, &err, &j) != FT_OK)
        fail_msg("%s", err.message);
    return j;
}

static ft_status run(ft_edge *edge, const how *h, ft_journal *journal, stopper *stop,
                     ft_batch_stats *stats)
{
    ft_error err = {0};
    ft_batch_known known;
    ft_batch_planner planner;
    const ft_batch_planner_opts plan = {.tasks = &tasks,
                                        .context = MAX_CONTEXT,
                                        .length_least = h->length_least,
                                        .length_most = h->length,
                                        .batch_most = h->batch,
                                        .at_once = h->at_once,
                                        .kv_tok = {h->kv_tok},
                                        .one_at_a_time = h->one_at_a_time};
    ft_batch_known_init(&known, 0.5);
    for (int i = 0; i < FT_STATIONS && h->costs; i++)
        ft_batch_known_costs(&known, (ft_station)i, &costs);
    assert_int_equal(ft_batch_planner_init(&planner, &plan, &known, &err), FT_OK);
    const ft_batch_opts opts = {.edge = edge,
                                .vocab = vocab,
                                .tasks = &tasks,
                                .journal = journal,
                                .planner = &planner,
                                .sampling = sampling_of(h->temperature),
                                .clock = ft_clock_monotonic(),
                                .cancelled = stops,
                                .ctx = stop};
    ft_status status = ft_batch_run(&opts, &err, stats);
    if (status != FT_OK && status != FT_CANCELLED)
        fail_msg("%s", err.message);
    ft_batch_planner_deinit(&planner);
    return status;
}

static void check_answers(ft_journal *journal, const alone all[TASKS])
{
    const ft_task_answers *a = ft_journal_answers(journal);
    assert_int_equal(a->n_done, TASKS);
    for (int i = 0; i < TASKS; i++) {
        assert_string_equal(a->answer[i].text, ft_buf_str(&all[i].text));
        assert_int_equal(a->answer[i].tokens, all[i].tokens);
        assert_int_equal(a->answer[i].finish, all[i].finish);
        assert_true(a->answer[i].ttft_s >= 0 && a->answer[i].total_s >= a->answer[i].ttft_s);
    }
}

static char *new_path(void)
{
    char *path = tiny_temp_path();
    unlink(path);
    return path;
}

/* Removes the output and its journal. */
static void remove_all(char *path)
{
    char part[512];
    snprintf(part, sizeof part, "%s.part", path);
    unlink(path);
    unlink(part);
    free(path);
}

static void test_same_texts(void **state)
{
    const how ways[] = {
        {.draft = target, 4, 3, 6, .costs = true, .length_least = 4},
        {.draft = bad, 4, 3, 6},
        {.draft = target, 5, 2, TASKS, 0.8f, .costs = true, .length_least = 1},
        {.draft = bad, 1, 4, 4, 0.8f, .length_least = 1},
        {.draft = target, 7, 1, 3, .costs = true, .length_least = 1, .one_at_a_time = true},
        {.draft = NULL, 0, 3, 6, 0.8f},
        {.draft = target, 8, 0, TASKS, 0.8f},
        {.draft = bad, 8, 0, TASKS, 0.8f, .costs = true}, /* may go on without drafts */
        {.draft = target, 3, 2, TASKS, .kv_tok = 2 * (MAX_CONTEXT + 128), .length_least = 3},
    };
    (void)state;
    for (size_t i = 0; i < FT_COUNT(ways); i++) {
        alone all[TASKS];
        ft_batch_stats stats;
        stopper go = {0};
        char *path = new_path();
        ft_edge *edge = make_edge(ways[i].draft, ways[i].length);
        ft_journal *journal = open_journal(path, false);
        generate_alone(ways[i].temperature, all);
        assert_int_equal(run(edge, &ways[i], journal, &go, &stats), FT_OK);
        check_answers(journal, all);
        if (ways[i].draft && (!ways[i].costs || ways[i].length_least > 0)) {
            assert_true(stats.drafted > 0 && stats.joint > 0 && stats.passes > 0);
            assert_true(stats.accepted <= stats.drafted);
            assert_true(stats.passes <= (double)stats.joint);
        }
        if (ways[i].draft == target)
            assert_true(stats.accepted > stats.drafted / 2);
        assert_true(stats.verify_s > 0);
        if (ways[i].costs)
            assert_true(stats.planned_s > 0);
        ft_journal_close(journal);
        ft_edge_destroy(edge);
        free_alone(all);
        remove_all(path);
    }
}

/* Stopped again and again, each time by a new process as far as the journal can tell. */
static void test_resumes(void **state)
{
    const how h = {.draft = bad, .length = 3, .batch = 3, .at_once = 6, .temperature = 0.8f};
    alone all[TASKS];
    char *path = new_path();
    ft_edge *edge = make_edge(h.draft, h.length);
    ft_status status = FT_CANCELLED;
    uint32_t n_runs = 0;
    (void)state;
    generate_alone(h.temperature, all);
    while (status == FT_CANCELLED) {
        ft_batch_stats stats;
        stopper stop = {.at = 40 + 7 * n_runs};
        ft_journal *journal = open_journal(path, n_runs > 0);
        const size_t n_done = ft_journal_answers(journal)->n_done;
        status = run(edge, &h, journal, &stop, &stats);
        assert_true(ft_journal_answers(journal)->n_done >= n_done);
        if (status == FT_OK)
            check_answers(journal, all);
        ft_journal_close(journal);
        n_runs++;
    }
    assert_true(n_runs > 2);
    ft_edge_destroy(edge);
    free_alone(all);
    remove_all(path);
}

/* Tokens that the journal has of an answer are all of it, but nobody came to say so. */
static void test_whole_already(void **state)
{
    const how h = {.draft = bad, .length = 3, .batch = 3, .at_once = 6};
    alone all[TASKS];
    char *path = new_path();
    ft_edge *edge = make_edge(h.draft, h.length);
    ft_journal *journal = open_journal(path, false);
    ft_task_answer *a = &ft_journal_answers(journal)->answer[0];
    ft_batch_stats stats;
    stopper go = {0};
    (void)state;
    generate_alone(h.temperature, all);
    while (a->ids.n < tasks.task[0].max_tokens)
        assert_int_equal(ft_tokens_append(&a->ids, tasks.task[0].tokens.id, 1), FT_OK);
    assert_int_equal(run(edge, &h, journal, &go, &stats), FT_OK);
    assert_int_equal(a->tokens, tasks.task[0].max_tokens);
    assert_int_equal(a->finish, FT_FINISH_LENGTH);
    for (int i = 1; i < TASKS; i++)
        assert_string_equal(ft_journal_answers(journal)->answer[i].text, ft_buf_str(&all[i].text));
    ft_journal_close(journal);
    ft_edge_destroy(edge);
    free_alone(all);
    remove_all(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_texts),
        cmocka_unit_test(test_resumes),
        cmocka_unit_test(test_whole_already),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
