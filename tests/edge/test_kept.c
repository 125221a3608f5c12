// SPDX-License-Identifier: Apache-2.0
// edge/kept: the next process begins with what the last one learnt, and with nothing else: not with
// another server's, not with a broken file's. No text depends on it.
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

#include "base/log.h"
#include "base/num.h"
#include "edge/kept.h"
#include "local/link.h"
#include "support/caught_log.h"
#include "support/target.h"
#include "support/tiny_gguf.h"

enum { N_PROMPT = 20, N_TOKENS = 60 };

enum {
    EXACT_GREEDY = FT_RULE_KIND_EXACT * FT_WARMTHS + FT_WARMTH_GREEDY,
    RATIO_WARM = FT_RULE_KIND_RATIO * FT_WARMTHS + FT_WARMTH_WARM
};

static ft_model *draft;

static int set_up(void **state)
{
    ft_error err = {0};
    if (test_target_setup(state) != 0)
        return -1;
    ft_log_set_level(FT_LOG_ERROR); /* a broken file is told */
    char *file = tiny_gguf_temp(
        &(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .embd_as_type = true, .seed = 7, .n_layer = 1});
    const ft_status status = ft_model_load(&(ft_model_opts){.path = file}, &err, &draft);
    unlink(file);
    free(file);
    return status == FT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    ft_model_destroy(draft);
    return test_target_teardown(state);
}

/* ---- an edge's life ---- */

typedef struct text {
    int32_t id[N_TOKENS + 1];
    uint32_t n;
} text;

static bool on_text(void *ctx, const char *s, size_t n, const ft_gen_token *tokens, size_t n_tokens)
{
    text *t = ctx;
    (void)s, (void)n;
    for (size_t i = 0; i < n_tokens && t->n <= N_TOKENS; i++)
        t->id[t->n++] = tokens[i].id;
    return true;
}

static ft_status no_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    (void)ctx, (void)out;
    return ft_error_set(err, FT_UNAVAILABLE, "nobody is there");
}

static ft_status no_link(void *ctx, ft_error *err, ft_link **out)
{
    (void)ctx;
    *out = NULL;
    return ft_error_set(err, FT_UNAVAILABLE, "nobody is there");
}

typedef struct life {
    bool fixed;   /* a draft that was asked for */
    bool offline; /* no server is there, only a fallback target */
    int texts;
    float temperature;
    text *out; /* the first text; NULL: not wanted */
} life;

/* An edge that keeps what it learns in the folder writes texts. Returns whether it began with what
 * another one had learnt at temperature 0.7. */
static bool live_so(const char *folder, const char *of, const life *how)
{
    int32_t prompt[N_PROMPT];
    ft_error err = {0};
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.max_tree = FT_TREE_MAX});
    ft_edge *edge = NULL;
    ft_gen_stats stats;
    text unused = {0};
    const ft_link_source here = ft_local_link_source(v);
    const ft_link_source nobody = {.info = no_info, .open = no_link};
    const ft_edge_opts opts = {.vocab = target.vocab,
                               .draft_model = draft,
                               .source = how->offline ? nobody : here,
                               .fallback = how->offline ? &here : NULL,
                               .draft = ft_draft_params_tree(8, 4, 4),
                               .automatic = !how->fixed,
                               .verify = {1000000, 0}, /* begins with trees */
                               .fallback_verify = {1000000, 0},
                               .clock = ft_clock_monotonic(),
                               .n_threads = 1,
                               .kept = {folder, of}};
    for (int i = 0; i < N_PROMPT; i++)
        prompt[i] = 3 + (i * 37 + 11) % 256;
    const ft_gen_request request = {
        .prompt = prompt,
        .n_prompt = N_PROMPT,
        .sampling = {.temperature = how->temperature, .top_p = 1, .seed = 4},
        .max_tokens = N_TOKENS};
    if (ft_edge_create(&opts, &err, &edge) != FT_OK)
        fail_msg("%s", err.message);
    const bool knew = edge->begun[FT_RULE_KIND_EXACT][FT_WARMTH_WARM];
    for (int i = 0; i < how->texts; i++) {
        text *t = i == 0 && how->out ? how->out : &unused;
        *t = (text){0};
        const ft_gen_sink sink = {.ctx = t, .on_text = on_text};
        if (ft_edge_generate(edge, &request, &sink, &err, &stats) != FT_OK)
            fail_msg("%s", err.message);
    }
    ft_edge_destroy(edge);
    ft_verifier_destroy(v);
    return knew;
}

static bool live(const char *folder, const char *of, int texts, text *out)
{
    return live_so(folder, of, &(life){.texts = texts, .temperature = 0.7f, .out = out});
}

/* Files about pairs in the folder; the last one's path, with room for 256 bytes. */
static uint32_t count_files(const char *folder, char *path)
{
    uint32_t n = 0;
    for (int slot = 0; slot < 64; slot++) {
        char name[256];
        snprintf(name, sizeof name, "%s/pair-%02d.json", folder, slot);
        if (access(name, F_OK) == 0) {
            snprintf(path, 256, "%s", name);
            n++;
        }
    }
    return n;
}

static void only_file(const char *folder, char *path)
{
    assert_int_equal(count_files(folder, path), 1);
}

static void test_next_process(void **state)
{
    char folder[] = "/tmp/foretoken-test-kept-XXXXXX", path[256];
    text first, second, broken;
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_false(live(folder, "here", 0, NULL)); /* has learnt nothing, keeps nothing */
    assert_false(live_so(folder, "here", &(life){.fixed = true, .texts = 3}));
    assert_false(live_so(folder, "here", &(life){.offline = true, .texts = 3}));
    assert_int_equal(count_files(folder, path), 0);
    assert_false(live(folder, "here", 3, &first));
    assert_true(live(folder, "here", 1, &second));
    assert_memory_equal(&first, &second, sizeof first);
    only_file(folder, path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"version\": 3, \"of\": ", file);
    fclose(file);
    assert_false(live(folder, "here", 3, &broken));
    assert_memory_equal(&first, &broken, sizeof first);
    assert_true(live(folder, "here", 0, NULL)); /* written anew */
    assert_false(live(folder, "there", 0, NULL));
    assert_false(live(NULL, NULL, 1, NULL));
    only_file(folder, path);
    assert_int_equal(unlink(path), 0);
    for (int slot = 0; slot < 64; slot++) { /* the draft engine's times */
        snprintf(path, sizeof path, "%s/warm-%02d.json", folder, slot);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(folder), 0); /* no part of a file is left */
}

/* How often the log says that a file is ignored, of an edge that writes no text and finds `words`
 * at the beginning of its file. */
static unsigned told(const char *folder, const char *path, const char *words)
{
    caught_log log;
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_true(fputs(words, file) >= 0);
    assert_int_equal(fclose(file), 0);
    ft_log_set_level(FT_LOG_WARN);
    caught_log_begin(&log);
    assert_false(live(folder, "here", 0, NULL));
    caught_log_end(&log);
    ft_log_set_level(FT_LOG_ERROR);
    return caught_log_count(&log, "is ignored");
}

/* A file of an older version is usual after an upgrade, so it is replaced without a line. */
static void test_older_version(void **state)
{
    char folder[] = "/tmp/foretoken-test-kept-XXXXXX", path[256], command[300];
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_false(live(folder, "here", 3, NULL));
    only_file(folder, path);
    assert_int_equal(told(folder, path, "{\"version\": 2"), 0);
    assert_false(live(folder, "here", 3, NULL));
    assert_true(live(folder, "here", 0, NULL)); /* of this version now */
    assert_int_equal(told(folder, path, "{\"version\": 3 7"), 1);
    assert_false(live(folder, "here", 3, NULL));
    assert_int_equal(told(folder, path, "{\"version\": 4"), 1);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* At another temperature another share of drafts is accepted: it is learnt and kept apart. */
static void test_temperatures(void **state)
{
    char folder[] = "/tmp/foretoken-test-kept-XXXXXX", path[256];
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_false(live_so(folder, "here", &(life){.texts = 3, .temperature = 0}));
    assert_false(live(folder, "here", 0, NULL));
    assert_false(live(folder, "here", 3, NULL));
    assert_true(live(folder, "here", 0, NULL));
    only_file(folder, path);
    char command[300];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* Of a class without texts the nearest one's is known best, and of the other kind of rule the
 * rest. */
static void test_nearest(void **state)
{
    static ft_edge edge;
    (void)state;
    const ft_edge_learnt(*learnt)[FT_WARMTHS] = edge.learnt;
    assert_ptr_equal(ft_edge_nearest(&edge, FT_RULE_KIND_EXACT, FT_WARMTH_HOT),
                     &learnt[FT_RULE_KIND_EXACT][FT_WARMTH_HOT]);
    edge.begun[FT_RULE_KIND_RATIO][FT_WARMTH_WARM] = true;
    assert_ptr_equal(ft_edge_nearest(&edge, FT_RULE_KIND_EXACT, FT_WARMTH_GREEDY),
                     &learnt[FT_RULE_KIND_RATIO][FT_WARMTH_WARM]);
    edge.begun[FT_RULE_KIND_EXACT][FT_WARMTH_HOT] = true;
    edge.begun[FT_RULE_KIND_EXACT][FT_WARMTH_COOL] = true;
    assert_ptr_equal(ft_edge_nearest(&edge, FT_RULE_KIND_EXACT, FT_WARMTH_GREEDY),
                     &learnt[FT_RULE_KIND_EXACT][FT_WARMTH_COOL]);
    assert_int_equal(ft_warmth_of(&(ft_sampling){.temperature = 0.5f}), FT_WARMTH_COOL);
    assert_int_equal(ft_warmth_of(&(ft_sampling){.temperature = 1.5f}), FT_WARMTH_HOT);
}

/* ---- texts of files ---- */

/* A controller that has seen some rounds. */
static ft_edge_learnt learnt(void)
{
    const ft_control_opts opts = {.max_budget = 16, .max_depth = 8, .max_width = 4};
    ft_edge_learnt l = {.calibration = {1.2f, -0.3f, 5, 1}};
    ft_control *c = &l.at[FT_PLACE_SERVER].control;
    ft_control_init(c, &opts);
    ft_control_saw_run(c, 8, 80000, 0);
    for (uint32_t i = 1; i < 20; i++) {
        const uint32_t nodes = 1 + i % 8;
        const ft_control_round round = {.nodes = nodes,
                                        .depth = ft_min_u32(nodes, 4),
                                        .n_path = i % 2,
                                        .draft_us = 900,
                                        .wait_us = 12000 + 300 * nodes,
                                        .verify_us = 10000 + 300 * nodes,
                                        .rtt_us = 1500};
        ft_control_saw_draft(c, round.depth, round.depth, 900);
        ft_control_saw_round(c, &round);
        ft_depth_saw_round(&l.at[FT_PLACE_SERVER].depth,
                           &(ft_depth_round){.forwards = round.depth,
                                             .levels = round.depth,
                                             .draft_us = 900,
                                             .wait_us = round.wait_us,
                                             .tokens = 1 + round.n_path});
    }
    for (uint32_t i = 0; i < 100 * FT_MEASURED_INTERVAL; i++) {
        ft_measured *m = &l.at[FT_PLACE_SERVER].predictor;
        ft_measured_saw(m, ft_measured_with(m) ? 3 : 2, 12000);
    }
    return l;
}

typedef struct side {
    ft_edge_learnt learnt[FT_EDGE_KEPT_LISTS];
    bool known[FT_EDGE_KEPT_LISTS];
} side;

static side fresh(void)
{
    const ft_control_opts opts = {.max_budget = 16, .max_depth = 8, .max_width = 4};
    side s = {0};
    for (int i = 0; i < FT_EDGE_KEPT_LISTS; i++)
        ft_control_init(&s.learnt[i].at[FT_PLACE_SERVER].control, &opts);
    return s;
}

static ft_status read_as(const char *json, uint64_t of, side *s)
{
    ft_error err = {0};
    const ft_edge_kept kept = {of, s->learnt, s->known};
    const ft_status status = ft_edge_kept_read(json, strlen(json), &kept, &err);
    assert_true(status == FT_OK || err.message[0]);
    return status;
}

static void near(double a, double b)
{
    assert_true(fabs(a - b) <= 1e-6 * fabs(b));
}

static void test_text(void **state)
{
    side wrote = fresh(), took = fresh();
    ft_buf out = {0};
    (void)state;
    wrote.learnt[RATIO_WARM] = learnt();
    wrote.known[RATIO_WARM] = true;
    wrote.known[EXACT_GREEDY] = true; /* has learnt nothing: is not there */
    assert_int_equal(ft_edge_kept_write(&(ft_edge_kept){7, wrote.learnt, wrote.known}, &out),
                     FT_OK);
    assert_int_equal(read_as(ft_buf_str(&out), 8, &took), FT_NOT_FOUND);
    assert_int_equal(read_as(ft_buf_str(&out), 7, &took), FT_OK);
    assert_true(took.known[RATIO_WARM] && !took.known[EXACT_GREEDY]);
    const ft_steer_learnt *a = &wrote.learnt[RATIO_WARM].at[FT_PLACE_SERVER],
                          *b = &took.learnt[RATIO_WARM].at[FT_PLACE_SERVER];
    near(ft_control_token_us(&b->control), ft_control_token_us(&a->control));
    near(ft_control_forward_us(&b->control), ft_control_forward_us(&a->control));
    near(ft_control_row_us(&b->control), ft_control_row_us(&a->control));
    near(ft_control_answer_us(&b->control, 5), ft_control_answer_us(&a->control, 5));
    near(ft_depth_rate(&b->depth), ft_depth_rate(&a->depth));
    assert_true(took.learnt[RATIO_WARM].calibration.sharpness == 1.2f);
    assert_true(ft_measured_pays(&a->predictor) && ft_measured_with(&b->predictor));
    near(ft_measured_tokens_per_s(&b->predictor, true), 3e6 / 12000);
    ft_buf_deinit(&out);
}

/* Each number in turn is none that can be: the file is refused, and nothing of it was taken up. */
static void test_wrong_numbers(void **state)
{
    static const char *const wrong[] = {"-1e30", "1e300", "null", "\"1\"", "[1]"};
    side wrote = fresh(), took = fresh();
    const side none = fresh();
    ft_buf out = {0};
    (void)state;
    wrote.learnt[EXACT_GREEDY] = learnt();
    wrote.known[EXACT_GREEDY] = true;
    assert_int_equal(ft_edge_kept_write(&(ft_edge_kept){7, wrote.learnt, wrote.known}, &out),
                     FT_OK);
    const char *whole = ft_buf_str(&out), *at = strchr(whole, '[') + 1;
    for (uint32_t n = 0; at; n++) {
        const size_t end = strcspn(at, ",]");
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            char bad[4096];
            snprintf(bad, sizeof bad, "%.*s%s%s", (int)(at - whole), whole, wrong[i], at + end);
            assert_int_equal(read_as(bad, 7, &took), FT_INVALID);
            assert_memory_equal(&took, &none, sizeof took);
        }
        if (at[end] == ']') {
            char less[2048];
            assert_true(n > 20);
            snprintf(less, sizeof less, "%.*s]}", (int)(at - whole) - 2, whole);
            assert_int_equal(read_as(less, 7, &took), FT_INVALID); /* one too few */
            break;
        }
        at += end + 1;
    }
    assert_int_equal(read_as("{\"version\": 1, \"of\": \"0000000000000007\"}", 7, &took),
                     FT_NOT_FOUND);
    assert_int_equal(read_as("{\"version\": 4, \"of\": \"0000000000000007\"}", 7, &took),
                     FT_INVALID);
    assert_int_equal(read_as("{\"version\": 3}", 7, &took), FT_INVALID);
    assert_int_equal(read_as("[]", 7, &took), FT_INVALID);
    ft_buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_process), cmocka_unit_test(test_older_version),
        cmocka_unit_test(test_temperatures), cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_text),         cmocka_unit_test(test_wrong_numbers)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
