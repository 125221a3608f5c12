// SPDX-License-Identifier: Apache-2.0
// The comparison commands (bench verify, decode, prefill, kernels, codec), run as programs on a
// tiny model: they end well, and their JSON has the rows that were asked for, with figures that
// belong together. How large the figures are is not looked at.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "support/program.h"
#include "support/tiny_gguf.h"

static int set_up(void **state)
{
    const tiny_gguf_opts opts = {.type = GGML_TYPE_Q4_0, .seed = 3};
    *state = tiny_gguf_temp(&opts);
    return 0;
}

static int tear_down(void **state)
{
    unlink(*state);
    free(*state);
    return 0;
}

static json_t *run(const char *model, const char *args, int *status)
{
    return program_json(status, "bench %s -m '%s' -t 1 --rounds 2 --row-s 0.01 --json", args,
                        model);
}

static json_t *must_run(const char *model, const char *args)
{
    int status;
    json_t *json = run(model, args, &status);
    assert_int_equal(status, 0);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "model")), model);
    assert_int_equal(json_integer_value(json_object_get(json, "threads")), 1);
    return json;
}

static void check_ratio(const json_t *row, const char *ours, const char *theirs)
{
    double a = program_number(row, ours), b = program_number(row, theirs),
           ratio = program_number(row, "ratio");
    assert_true(a > 0 && b > 0 && program_number(row, "roofline") > 0);
    assert_true(program_number(row, "roofline_best") >= program_number(row, "roofline"));
    assert_true(fabs(ratio - a / b) < 1e-3 * ratio);
}

/* Walks accept what was planted, and logits are computed for the rows that they look at or for
 * more. A chain's node k is accepted with 0.6^k: of one session's walks the one in the middle takes
 * one node; of three those at 1/6, 1/2 and 5/6 take 0, 1 and 3. */
static void check_walk(const json_t *row)
{
    double accepted = program_number(row, "accepted"), rows = program_number(row, "head_rows");
    double sessions = program_number(row, "sessions"), tree = program_number(row, "tree");
    assert_string_equal(json_string_value(json_object_get(row, "logits")), "walk");
    assert_true(rows + 1e-6 > sessions * (accepted + 1) && rows <= sessions * (tree + 1));
    assert_true(program_number(row, "head_runs") >= 1 &&
                program_number(row, "head_runs") <= tree + 1);
    if (strcmp(json_string_value(json_object_get(row, "shape")), "chain") == 0)
        assert_true(fabs(accepted - (sessions == 1 ? 1 : 4.0 / 3)) < 1e-6);
    else
        assert_true(accepted >= 1 && accepted < program_number(row, "depth"));
}

static void test_verify(void **state)
{
    json_t *json = must_run(*state, "verify --sessions 1,3 --ctx 48 --tree 8,32");
    const json_t *rows = json_object_get(json, "rows"), *row;
    size_t i, n_tree = 0;
    assert_int_equal(json_array_size(rows), 8);
    json_array_foreach(rows, i, row)
    {
        bool tree = strcmp(json_string_value(json_object_get(row, "shape")), "tree") == 0;
        n_tree += tree;
        check_ratio(row, "foretoken_tok_s", "libllama_tok_s");
        check_walk(row);
        assert_true(json_is_string(json_object_get(row, "libllama")));
        assert_true(json_is_true(json_object_get(row, "interleaved")));
        /* 48 tokens are three whole blocks */
        assert_true(fabs(program_number(row, "kv_ratio") - 1) < 1e-6);
        if (tree && program_number(row, "tree") == 8) {
            assert_int_equal(program_number(row, "depth"), 4);
            assert_int_equal(program_number(row, "leaves"), 4);
        } else if (!tree) {
            assert_int_equal(program_number(row, "depth"), program_number(row, "tree"));
            assert_int_equal(program_number(row, "leaves"), 1);
        }
        if (program_number(row, "sessions") > 1)
            assert_true(program_number(row, "contexts_ratio") > 0);
    }
    assert_int_equal(n_tree, 4);
    json_decref(json);
}

static void test_verify_all_logits(void **state)
{
    json_t *json = must_run(*state, "verify --sessions 2 --ctx 16 --tree 8 --logits all");
    const json_t *rows = json_object_get(json, "rows"), *row;
    size_t i;
    assert_int_equal(json_array_size(rows), 2);
    json_array_foreach(rows, i, row)
    {
        assert_string_equal(json_string_value(json_object_get(row, "logits")), "all");
        assert_true(json_is_null(json_object_get(row, "accepted")));
        assert_int_equal(program_number(row, "head_rows"), 2 * 9);
        assert_int_equal(program_number(row, "head_runs"), 1);
        check_ratio(row, "foretoken_tok_s", "libllama_tok_s");
    }
    json_decref(json);
}

/* 100 sessions of 4 leaves are more than libllama's ids: they are lent. 256 leave none to lend. */
static void test_verify_many(void **state)
{
    json_t *json = must_run(*state, "verify --sessions 100,256 --ctx 16 --tree 8 --shape tree");
    const json_t *lent = json_array_get(json_object_get(json, "rows"), 0);
    const json_t *none = json_array_get(json_object_get(json, "rows"), 1);
    check_ratio(lent, "foretoken_tok_s", "libllama_tok_s");
    assert_non_null(strstr(json_string_value(json_object_get(lent, "libllama")), "2 batches"));
    assert_true(program_number(none, "foretoken_tok_s") > 0);
    assert_true(json_is_null(json_object_get(none, "libllama_tok_s")));
    assert_true(json_is_null(json_object_get(none, "ratio")));
    assert_non_null(strstr(json_string_value(json_object_get(none, "why")), "256"));
    json_decref(json);
}

/* What has no room is not opened, and said so; the command ends well all the same. */
static void test_verify_no_memory(void **state)
{
    json_t *json = must_run(*state, "verify --sessions 2,3 --ctx 16 --tree 8 --shape chain "
                                    "--memory-gb 0.000001");
    const json_t *rows = json_object_get(json, "rows"), *row, *way;
    size_t i, j;
    assert_int_equal(json_array_size(rows), 2);
    json_array_foreach(rows, i, row)
    {
        const char *ours = json_string_value(json_object_get(row, "foretoken_why"));
        const json_t *tried = json_object_get(row, "tried");
        assert_true(ours && strstr(ours, "GB needed, 0.00 GB free"));
        assert_non_null(strstr(json_string_value(json_object_get(row, "why")), "GB needed"));
        assert_true(json_is_null(json_object_get(row, "foretoken_tok_s")));
        assert_true(json_is_null(json_object_get(row, "libllama_tok_s")));
        assert_true(json_array_size(tried) >= 6);
        json_array_foreach(tried, j, way)
            assert_non_null(strstr(json_string_value(json_object_get(way, "why")), "GB needed"));
    }
    json_decref(json);
}

static void test_decode(void **state)
{
    json_t *json = must_run(*state, "decode --streams 1,5 -n 4 --n-prompt 8");
    const json_t *rows = json_object_get(json, "rows"), *row;
    size_t i;
    assert_int_equal(json_array_size(rows), 2);
    json_array_foreach(rows, i, row)
    {
        assert_int_equal(program_number(row, "streams"), i ? 5 : 1);
        check_ratio(row, "foretoken_tok_s", "libllama_tok_s");
    }
    json_decref(json);
}

static void test_prefill(void **state)
{
    json_t *json =
        must_run(*state, "prefill --lengths 24,600 --prefix 100 --sessions 2 --prompt 200");
    const json_t *rows = json_object_get(json, "rows"), *row;
    size_t i;
    assert_int_equal(json_array_size(rows), 2);
    json_array_foreach(rows, i, row) check_ratio(row, "foretoken_tok_s", "libllama_tok_s");
    const json_t *back = json_object_get(json, "returning");
    assert_true(program_number(back, "cached_tokens") >=
                96); /* the whole blocks of its first 100 tokens */
    assert_true(program_number(back, "prompt_tokens") > program_number(back, "cached_tokens"));
    const json_t *arrival = json_object_get(json, "arrival");
    assert_int_equal(program_number(arrival, "sessions"), 2);
    const json_t *before = json_object_get(arrival, "before");
    assert_true(program_number(before, "n") >= 2 * 40);
    assert_true(program_number(before, "p50_ms") > 0 &&
                program_number(before, "p99_ms") >= program_number(before, "p50_ms"));
    json_decref(json);
}

/* Medians of one run belong together; how large they are is not looked at. */
static void test_prefill_solo(void **state)
{
    json_t *json = must_run(*state, "prefill --solo --lengths 3,80");
    const json_t *rows = json_object_get(json, "rows"), *row;
    size_t i;
    assert_int_equal(json_array_size(rows), 2);
    assert_int_equal(program_number(json, "cached_tokens"), 500);
    json_array_foreach(rows, i, row)
    {
        const double a = program_number(row, "a_ms"), b = program_number(row, "b_ms"),
                     both = program_number(row, "both_ms"),
                     padded = program_number(row, "padded_ms");
        assert_int_equal(program_number(row, "tokens"), i ? 80 : 3);
        assert_true(a > 0 && b > 0 && both > 0 && padded > 0);
        assert_float_equal(program_number(row, "b_ratio"), both / b, 1e-6 * both / b);
        assert_float_equal(program_number(row, "b_ratio_padded"), padded / b, 1e-6 * padded / b);
        assert_float_equal(program_number(row, "padding_ratio"), padded / both,
                           1e-6 * padded / both);
        assert_float_equal(program_number(row, "batching_ratio"), (a + b) / both,
                           1e-6 * (a + b) / both);
    }
    json_decref(json);
}

static void test_kernels(void **state)
{
    json_t *json = must_run(*state, "kernels --rows 1,8 --ctx 40 --cache-type bf16");
    const json_t *rows = json_object_get(json, "rows"), *row;
    size_t i, n_attention = 0;
    json_array_foreach(rows, i, row)
    {
        check_ratio(row, "ggml_us", "foretoken_us");
        n_attention += strcmp(json_string_value(json_object_get(row, "op")), "attention") == 0;
    }
    /* qkv, o, gate_up, down, head and attention, each with two row counts */
    assert_int_equal(json_array_size(rows), 12);
    assert_int_equal(n_attention, 2);
    json_decref(json);
}

/* All choose something of each queue, wisp less: what must start now cuts its passes short. */
static void test_schedule(void **state)
{
    int status;
    (void)state;
    json_t *json = program_json(&status, "bench schedule --pending 300 --queues 20 --json");
    assert_int_equal(status, 0);
    const json_t *policies = json_object_get(json, "policies");
    const char *names[] = {"wisp", "edf", "fcfs"};
    for (size_t i = 0; i < 3; i++) {
        const json_t *row = json_object_get(policies, names[i]);
        assert_true(program_number(row, "mean_us") > 0);
        assert_true(program_number(row, "worst_us") >= program_number(row, "median_us"));
        assert_true(program_number(row, "picked") >= 1 && program_number(row, "picked") <= 300);
    }
    assert_true(program_number(json_object_get(policies, "edf"), "picked") >
                program_number(json_object_get(policies, "wisp"), "picked"));
    json_decref(json);
}

static void test_codec(void **state)
{
    int status;
    (void)state;
    json_t *json = program_json(&status, "bench codec --distributions 2 --json");
    assert_int_equal(status, 0);
    const json_t *rows = json_object_get(json, "rows"), *row;
    size_t i;
    assert_int_equal(json_array_size(rows), 4);
    json_array_foreach(rows, i, row) assert_true(program_number(row, "unchanged") == 2);
    json_decref(json);
    json = program_json(&status, "bench codec --distributions 2 --temp 0.7,-1 --json");
    assert_int_not_equal(status, 0);
    assert_null(json);
}

static void test_refusals(void **state)
{
    static const char *const args[] = {"verify --tree 8,,32",
                                       "verify --sessions 0",
                                       "verify --shape bush",
                                       "verify --logits some",
                                       "verify --vs nobody",
                                       "verify --cache-type f64",
                                       "decode --streams 1,257",
                                       "prefill --plot x.svg",
                                       "prefill --solo --lengths 9000",
                                       "prefill --solo --plot x.doc --lengths 3"};
    for (size_t i = 0; i < sizeof args / sizeof *args; i++) {
        int status;
        json_t *json = run(*state, args[i], &status);
        assert_int_not_equal(status, 0);
        assert_null(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verify_all_logits),
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_verify_many),
        cmocka_unit_test(test_verify_no_memory),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_prefill),
        cmocka_unit_test(test_prefill_solo),
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_codec),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
