// SPDX-License-Identifier: Apache-2.0
// What every benchmark does with what it is given: wrong options and missing files are refused by
// name, before anything is measured, and leave no report. The one that needs no model is run. Runs
// on models are tests/cmd/test_bench*.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/branch.h"
#include "bench/capacity.h"
#include "bench/codec.h"
#include "bench/decode.h"
#include "bench/decode_schema.h"
#include "bench/exact.h"
#include "bench/fleet.h"
#include "bench/kernels.h"
#include "bench/law.h"
#include "bench/logits.h"
#include "bench/noise.h"
#include "bench/prefill.h"
#include "bench/prefill_solo.h"
#include "bench/schedule.h"
#include "bench/serving.h"
#include "bench/uplink.h"
#include "bench/verify_memory.h"
#include "bench/verify_rows.h"
#include "support/tiny_gguf.h"

static char *path;
static ft_model *model;
static ft_error err;
static json_t *report;
static const char missing[] = "/nonexistent/file";

static int set_up(void **state)
{
    const tiny_gguf_opts tiny = {.type = GGML_TYPE_Q8_0, .seed = 3};
    path = tiny_gguf_temp(&tiny);
    tiny_quiet();
    const ft_model_opts opts = {.path = path};
    return ft_model_load(&opts, &err, &model) == FT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    ft_model_destroy(model);
    unlink(path);
    free(path);
    return 0;
}

static void begin(void)
{
    err = (ft_error){0};
    report = json_object();
}

static void expect(ft_status status, const char *part)
{
    assert_int_equal(status, FT_INVALID);
    if (!strstr(err.message, part))
        fail_msg("'%s' lacks '%s'", err.message, part);
    json_decref(report);
    begin();
}

static void test_comparisons(void **state)
{
    const ft_bench_opts common = {.path = path, .n_threads = 1, .rounds = 1, .row_s = 0.01};
    const ft_bench_verify_opts good = {.common = &common,
                                       .sessions = "1",
                                       .ctx = "16",
                                       .tree = "2",
                                       .shape = "tree",
                                       .vs = "none",
                                       .logits = "walk",
                                       .limit_s = 1};
    ft_bench_verify_opts verify = good;
    begin();
    verify.sessions = "0";
    expect(ft_bench_verify(&verify, model, report, &err), "--sessions");
    verify = good;
    verify.shape = "star";
    expect(ft_bench_verify(&verify, model, report, &err), "--shape");
    verify = good;
    verify.vs = "all";
    expect(ft_bench_verify(&verify, model, report, &err), "--vs");
    verify = good;
    verify.logits = "some";
    expect(ft_bench_verify(&verify, model, report, &err), "--logits");
    const ft_bench_decode_opts decode = {
        .common = &common, .streams = "1,", .n_predict = 1, .n_prompt = 1};
    expect(ft_bench_decode(&decode, model, report, &err), "--streams");
    const ft_bench_branch_opts branch = {.common = &common, .n_past = "8,x", .n_nodes = 4};
    expect(ft_bench_branch(&branch, model, report, &err), "--n-past");
    const ft_bench_prefill_opts prefill = {.common = &common, .lengths = "x"};
    expect(ft_bench_prefill(&prefill, model, report, &err), "--lengths");
    ft_bench_prefill_solo_opts solo = {.common = &common, .model = model, .lengths = "4,8193"};
    expect(ft_bench_prefill_solo(&solo, report, &err), "--lengths");
    solo.lengths = "4";
    solo.plot = "figure.doc";
    expect(ft_bench_prefill_solo(&solo, report, &err), "--plot");
    ft_bench_kernels_opts kernels = {.common = &common, .rows = "1;2", .ctx = "16"};
    expect(ft_bench_kernels(&kernels, model, report, &err), "--rows");
    kernels.rows = "1";
    kernels.ctx = "-1";
    expect(ft_bench_kernels(&kernels, model, report, &err), "--ctx");
    json_decref(report);
}

/* A file that is not there, in turn each that a benchmark reads. */
static void test_missing_model_of_a_schema(void **state)
{
    const ft_bench_opts common = {.path = missing, .n_threads = 1, .rounds = 1};
    const ft_bench_decode_schema_opts opts = {
        .common = &common, .schema = missing, .n_predict = 1, .n_prompt = 1};
    begin();
    assert_int_not_equal(ft_bench_decode_schema(&opts, model, report, &err), FT_OK);
    assert_non_null(strstr(err.message, missing));
    json_decref(report);
    report = NULL;
}

static void test_missing_files(void **state)
{
    const ft_bench_exact_opts exact = {.model = path, .draft = path, .prompts = missing, .n = 1};
    const ft_bench_noise_opts noise = {.target = missing, .draft = path, .prompts = missing};
    const ft_bench_logits_opts logits = {.path = missing, .prompt = "text"};
    const ft_bench_schedule_opts schedule = {
        .pending = 1, .rows = 1, .queues = 1, .costs = missing};
    const ft_bench_serving_opts serving = {
        .model = missing,
        .draft = path,
        .prompts = missing,
        .n = 2,
        .rounds = 1,
        .sweep = {.batch = {{1}, 1}, .depth = {{1}, 1}, .n_draft_ms = 1, .shape = {true}}};
    ft_bench_capacity_opts capacity = {.model = missing, .draft = path, .prompts = missing};
    const ft_bench_codec_opts codec = {.distributions = 1, .draft = missing, .prompts = missing};
    const ft_bench_law_opts law = {
        .target = missing, .draft = path, .prompts = missing, .prefixes = 1, .l = "8"};
    const ft_bench_uplink_opts uplink = {
        .model = missing, .draft = path, .prompts = missing, .n_prompts = 1, .rounds = 1};
    const ft_bench_fleet_opts fleet = {
        .model = missing, .draft = path, .prompts = missing, .servers = "127.0.0.1:1", .rounds = 1};
    const ft_status got[] = {
        ft_bench_exact(&exact, &err, &report),     ft_bench_noise(&noise, &err, &report),
        ft_bench_logits(&logits, &err, &report),   ft_bench_schedule(&schedule, &err, &report),
        ft_bench_serving(&serving, &err, &report), ft_bench_capacity(&capacity, &err, &report),
        ft_bench_codec(&codec, &err, &report),     ft_bench_law(&law, &err, &report),
        ft_bench_uplink(&uplink, &err, &report),   ft_bench_fleet(&fleet, &err, &report),
    };
    for (size_t i = 0; i < sizeof got / sizeof *got; i++)
        assert_true(got[i] == FT_IO || got[i] == FT_NOT_FOUND || got[i] == FT_INVALID);
    capacity.model = path; /* now only the prompts are missing */
    err = (ft_error){0};
    assert_int_not_equal(ft_bench_capacity(&capacity, &err, &report), FT_OK);
    assert_non_null(strstr(err.message, missing));
    assert_null(report);
}

static void test_schedule(void **state)
{
    static const char *const names[] = {"wisp", "edf", "fcfs"};
    const ft_bench_schedule_opts opts = {.pending = 50, .rows = 64, .queues = 20, .seed = 1};
    json_t *again;
    assert_int_equal(ft_bench_schedule(&opts, &err, &report), FT_OK);
    assert_int_equal(ft_bench_schedule(&opts, &err, &again), FT_OK);
    for (size_t i = 0; i < 3; i++) {
        const json_t *p = json_object_get(json_object_get(report, "policies"), names[i]);
        const json_t *q = json_object_get(json_object_get(again, "policies"), names[i]);
        const double picked = json_number_value(json_object_get(p, "picked"));
        assert_true(picked >= 1 && picked <= 50);
        assert_true(picked == json_number_value(json_object_get(q, "picked"))); /* same queues */
        assert_true(json_number_value(json_object_get(p, "median_us")) <=
                    json_number_value(json_object_get(p, "worst_us")));
    }
    json_decref(report);
    json_decref(again);
}

/* Memory that a row takes grows with its sessions and its context; libllama's scores do without
 * flash attention what they do not with it. */
static void test_memory(void **state)
{
    ft_bench_tree tree;
    ft_bench_tree_make(&tree, 8, false);
    ft_bench_job job = {
        .model = model, .n_sessions = 4, .n_ctx = 512, .tree = &tree, .n_threads = 1};
    ft_bench_way way = {.unified = true, .per_ctx = 4};
    const ft_bench_need ours = ft_bench_ours_need(&job, 8),
                        theirs = ft_bench_theirs_need(&job, &way);
    const size_t scores = ft_bench_theirs_score_bytes(&job, &way);
    way.flash = true;
    assert_true(ft_bench_theirs_score_bytes(&job, &way) < scores);
    assert_true(ft_bench_theirs_need(&job, &way).bytes < theirs.bytes);
    assert_true(theirs.address > theirs.bytes);
    job.n_sessions = 8;
    assert_true(ft_bench_ours_need(&job, 8).bytes > ours.bytes);
    way.per_ctx = 8;
    const ft_bench_need eight = ft_bench_theirs_need(&job, &way);
    way.per_ctx = 4; /* two contexts, one after the other; both stay open */
    assert_true(ft_bench_theirs_need(&job, &way).address > eight.address);
    job.n_ctx = 1024;
    assert_true(ft_bench_theirs_need(&job, &way).bytes > eight.bytes);

    char text[96];
    const ft_bench_room small = {ours.bytes - 1, SIZE_MAX}, narrow = {SIZE_MAX, ours.address - 1};
    const ft_bench_room enough = {ours.bytes, ours.address};
    assert_true(ft_bench_fits(&enough, ours));
    assert_false(ft_bench_fits(&small, ours));
    assert_false(ft_bench_fits(&narrow, ours));
    ft_bench_need_describe(&small, (ft_bench_need){18200000000, 1}, text, sizeof text);
    assert_non_null(strstr(text, "18.20 GB needed"));
    ft_bench_need_describe(&narrow, (ft_bench_need){1, 18200000000}, text, sizeof text);
    assert_non_null(strstr(text, "of address space"));
    assert_true(ft_bench_room_now(1).bytes == 0); /* what this process has counts */
}

/* The roofline: memory or multiplication, whichever takes longer. */
static void test_bound(void **state)
{
    const ft_bench_machine m = {.read_gb_s = 10, .f32_gmac_s = 100, .int8_gmac_s = 400};
    const ft_bench_machine old = {.read_gb_s = 10, .f32_gmac_s = 100};
    const ft_bench_work memory = {.bytes = 20e9, .int8_macs = 1e9};
    const ft_bench_work products = {.bytes = 1e9, .int8_macs = 400e9, .f32_macs = 100e9};
    assert_true(ft_bench_bound_s(&m, &memory) == 2);
    assert_true(ft_bench_bound_s(&m, &products) == 2);
    assert_true(ft_bench_bound_s(&old, &products) == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comparisons),   cmocka_unit_test(test_missing_model_of_a_schema),
        cmocka_unit_test(test_missing_files), cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_memory),        cmocka_unit_test(test_bound),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
