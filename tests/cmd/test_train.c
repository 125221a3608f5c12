// SPDX-License-Identifier: Apache-2.0
// `foretoken train predictor` on a trace that is made up, whose tokens are accepted with chances
// that follow from their features: what it reports is near what can be known, `trace --predictor`
// finds the same, and `run` drafts with its file without another text.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/rng.h"
#include "learn/predictor.h"
#include "learn/trace.h"
#include "support/program.h"
#include "support/tiny_gguf.h"

enum { TEXTS = 60, ROUNDS = 12, CHAIN = 5 };

static char *trace, *out;
static ft_error err;

static void must(ft_status status)
{
    if (status != FT_OK)
        fail_msg("%s: %s", ft_status_name(status), err.message);
}

/* Accepted with the chance that its confidence says, but for where entropy is high. */
static void add_round(ft_trace *store, const ft_trace_session *session, uint32_t number,
                      ft_rng *rng)
{
    ft_trace_node node[CHAIN];
    uint32_t path[CHAIN], n_path = 0;
    bool going = true;
    for (uint32_t i = 0; i < CHAIN; i++) {
        const float confidence = (float)ft_rng_unit(rng), entropy = 6 * (float)ft_rng_unit(rng);
        node[i] = (ft_trace_node){.token = 5, .parent = (int32_t)i - 1, .depth = (uint16_t)i};
        node[i].has_features = true;
        node[i].feature[FT_FEATURE_CONFIDENCE] = confidence;
        node[i].feature[FT_FEATURE_ENTROPY] = entropy;
        node[i].feature[FT_FEATURE_DEVIATION] = 2;
        node[i].feature[FT_FEATURE_POSITION] = (float)i;
        const double chance = 1 / (1 + exp(-10 * ((double)confidence - 0.5)));
        going = going && ft_rng_unit(rng) < (entropy > 3 ? 1 - chance : chance);
        if (going)
            path[n_path++] = i;
    }
    ft_trace_label(node, CHAIN, path, n_path, false);
    const ft_trace_round round = {.number = number,
                                  .length = 10 + number,
                                  .depth = CHAIN,
                                  .accepted = n_path,
                                  .next = 7,
                                  .n = CHAIN,
                                  .node = node};
    ft_trace_add(store, session, &round);
}

static int set_up(void **state)
{
    ft_trace *store;
    ft_rng rng;
    trace = tiny_temp_path();
    out = tiny_temp_path();
    unlink(trace);
    const ft_trace_opts opts = {.path = trace, .memory_bytes = 8 << 20};
    must(ft_trace_open(&opts, &err, &store));
    ft_rng_init(&rng, 9);
    for (uint32_t t = 0; t < TEXTS; t++) {
        ft_trace_session session = {.draft = 0xabc, .target = 0xdef};
        must(ft_trace_begin(&session, &err));
        session.id = t + 1; /* a random one would divide the texts differently each time */
        for (uint32_t r = 1; r <= ROUNDS; r++)
            add_round(store, &session, r, &rng);
    }
    ft_trace_close(store);
    return 0;
}

static int tear_down(void **state)
{
    unlink(trace);
    unlink(out);
    free(trace);
    free(out);
    return 0;
}

/* A file keeps weights with nine digits, so an odd token may fall on the threshold's other side. */
static void check_same_quality(const json_t *a, const json_t *b)
{
    static const char *const names[] = {"fpr", "recall", "balanced_accuracy", "auc", "ece"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(fabs(program_number(a, names[i]) - program_number(b, names[i])) < 5e-3);
}

static void test_trains(void **state)
{
    int status = -1;
    /* a part of so few texts would say little: all of them are tested on, too */
    json_t *o = program_json(&status,
                             "train predictor --trace '%s' --test '%s' -o '%s' --hidden 24,12 "
                             "--small 2 --epochs 80 --batch 32 --rate 0.01 --json",
                             trace, trace, out);
    assert_int_equal(status, 0);
    assert_non_null(o);
    const json_t *sizes = json_object_get(o, "sizes");
    assert_int_equal(json_array_size(sizes), 2);
    assert_int_equal(json_integer_value(json_object_get(o, "kept")), 0);
    const json_t *tested = json_object_get(json_array_get(sizes, 0), "tested");
    assert_true(program_number(tested, "balanced_accuracy") > 0.75);
    assert_true(program_number(tested, "auc") > 0.8);
    assert_true(program_number(tested, "fpr") < 0.4);
    assert_true(fabs(program_number(tested, "fpr") + program_number(tested, "specificity") - 1) <
                1e-9);
    assert_true(program_number(json_object_get(o, "test"), "texts") == TEXTS);
    json_t *judged = program_json(&status, "trace '%s' --predictor '%s' --json", trace, out);
    assert_int_equal(status, 0);
    assert_true(program_number(judged, "texts") == TEXTS);
    assert_true(program_number(judged, "samples") ==
                program_number(json_object_get(o, "test"), "samples"));
    check_same_quality(json_object_get(judged, "predictor"), tested);
    json_decref(judged);
    json_decref(o);
    ft_predictor p;
    must(ft_predictor_load(out, &err, &p));
    assert_true(p.draft == 0xabc && p.target == 0xdef);
    const float good[] = {0.95f, 1, 0, 2, 0}, bad[] = {0.05f, 1, 0, 2, 0};
    assert_true(ft_predictor_accepts(&p, good) && !ft_predictor_accepts(&p, bad));
    ft_predictor_deinit(&p);
}

/* The file for another draft, with another threshold. */
static void change_file(const char *fingerprint, double least)
{
    json_t *o = json_load_file(out, 0, NULL);
    assert_non_null(o);
    json_object_set_new(o, "draft", json_string(fingerprint));
    json_object_set_new(o, "least_log_odds", json_real(least));
    assert_int_equal(json_dump_file(o, out, 0), 0);
    json_decref(o);
}

static json_t *run_with(const char *target, const char *draft, const char *predictor)
{
    int status = -1;
    json_t *o = program_json(&status,
                             "run -m '%s' -md '%s' -p 'hello there' --raw -n 40 -t 1 --seed 5 "
                             "--draft 4 --json --predictor '%s'",
                             target, draft, predictor);
    assert_int_equal(status, 0);
    assert_non_null(o);
    return o;
}

/* The draft's features are none that the predictor was trained on, so its threshold is moved: once
 * it accepts every token, once none but the first of a round, which no predictor rules out. */
static void test_run_drafts_with_it(void **state)
{
    char *target = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 1});
    char *draft =
        tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 1, .n_layer = 1});
    int status = -1;
    /* the trace's draft is no file's */
    json_t *no = program_json(&status, "run -m '%s' -md '%s' -p x --json --predictor '%s'", target,
                              draft, out);
    assert_int_equal(status, 1);
    assert_null(no);
    json_t *info = program_json(&status, "info '%s' --json", draft);
    const char *fingerprint = json_string_value(json_object_get(info, "fingerprint"));
    json_t *without = run_with(target, draft, "none");
    change_file(fingerprint, -1e9);
    assert_null(program_json(&status, "trace '%s' --predictor '%s' --json", trace, out));
    assert_int_equal(status, 1);
    json_t *all = run_with(target, draft, out);
    change_file(fingerprint, 1e9);
    json_t *first = run_with(target, draft, out);
    const char *text = json_string_value(json_object_get(without, "text"));
    assert_string_equal(json_string_value(json_object_get(all, "text")), text);
    assert_string_equal(json_string_value(json_object_get(first, "text")), text);
    assert_true(program_number(without, "drafted") > program_number(without, "rounds"));
    assert_true(program_number(all, "drafted") == program_number(without, "drafted"));
    assert_true(program_number(all, "rounds") == program_number(without, "rounds"));
    assert_true(program_number(first, "drafted") == program_number(first, "rounds"));
    assert_true(program_number(first, "rounds") > 0);
    json_decref(first);
    json_decref(all);
    json_decref(without);
    json_decref(info);
    unlink(target);
    unlink(draft);
    free(target);
    free(draft);
}

/* Runs with a draft model whose predictor lies beside its file. Whether it is measured is in the
 * log; which rounds have it, time decides. flags: two words, or none. */
static void runs_with_it(const char *target, const char *draft, const char *const flags[2],
                         bool expected)
{
    char line[1024];
    bool seen = false;
    program run = program_start((const char *[]){"run", "-m", target, "-md", draft, "-p", "hello",
                                                 "--raw", "-n", "20", "-t", "1", "--no-memory",
                                                 flags[0], flags[1], NULL});
    while (fgets(line, sizeof line, run.out))
        seen = seen || strstr(line, "predictor=measured");
    assert_int_equal(program_wait_end(&run), 0);
    if (seen != expected)
        fail_msg("%s %s", flags[0], seen ? "has a predictor" : "has none");
}

/* It is left out where it is not wanted, where the draft is fixed, and from traces. */
static void test_it_is_found_beside_the_draft(void **state)
{
    char folder[] = "/tmp/ft-beside-XXXXXX", moved[64], trace_file[64], command[256];
    const char *const without[][2] = {
        {"--predictor", "none"}, {"--draft", "4"}, {"--trace", trace_file}};
    char *target = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 1});
    char *draft =
        tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 1, .n_layer = 1});
    int status = -1;
    assert_non_null(mkdtemp(folder));
    snprintf(moved, sizeof moved, "%s/draft.gguf", folder);
    snprintf(trace_file, sizeof trace_file, "%s/trace.db", folder);
    assert_int_equal(rename(draft, moved), 0);
    json_t *info = program_json(&status, "info '%s' --json", moved);
    runs_with_it(target, moved, (const char *[]){NULL, NULL}, false);
    change_file(json_string_value(json_object_get(info, "fingerprint")), 0);
    snprintf(command, sizeof command, "cp '%s' '%s/my-predictor.json'", out, folder);
    assert_int_equal(system(command), 0);
    runs_with_it(target, moved, (const char *[]){NULL, NULL}, true);
    runs_with_it(target, moved, (const char *[]){"--predictor", "auto"}, true);
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        runs_with_it(target, moved, without[i], false);
    json_decref(info);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
    unlink(target);
    free(target);
    free(draft);
}

static void test_what_is_refused(void **state)
{
    char *empty = tiny_temp_path();
    int status = -1;
    unlink(empty);
    json_t *o = program_json(&status, "train predictor --trace '%s' -o '%s' --json", empty, out);
    assert_null(o);
    assert_int_equal(status, 1);
    o = program_json(&status, "train predictor --trace '%s' -o '%s' --hidden 12,x --json", trace,
                     out);
    assert_null(o);
    assert_int_equal(status, 1);
    o = program_json(&status, "run -m /dev/null -p x --predictor '%s' --json", trace);
    assert_null(o);
    assert_int_equal(status, 1);
    unlink(empty);
    free(empty);
}

/* What models/ ships belongs together. */
static void test_shipped_pair(void **state)
{
    const char *dir = getenv("FT_SOURCE_DIR");
    char path[1024];
    int status = -1;
    ft_predictor p;
    assert_non_null(dir);
    snprintf(path, sizeof path, "%s/models/smollm2-draft-17m-predictor.json", dir);
    must(ft_predictor_load(path, &err, &p));
    json_t *info =
        program_json(&status, "info '%s/models/smollm2-draft-17m-q8_0.gguf' --json", dir);
    const char *fingerprint = json_string_value(json_object_get(info, "fingerprint"));
    assert_non_null(fingerprint);
    assert_true(p.draft == strtoull(fingerprint, NULL, 16));
    json_decref(info);
    ft_predictor_deinit(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trains),
        cmocka_unit_test(test_run_drafts_with_it),
        cmocka_unit_test(test_it_is_found_beside_the_draft),
        cmocka_unit_test(test_shipped_pair),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
