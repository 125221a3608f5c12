// SPDX-License-Identifier: Apache-2.0
// The metrics page over a real socket: well-formed, equal to the statistics, for those alone who
// name this server, and the only page besides /health.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "serve/server.h"
#include "support/http_client.h"
#include "support/local_client.h"
#include "support/target.h"

static ft_server *server;
static int port;

static int setup(void **state)
{
    ft_error err = {0};
    test_target_setup(state);
    const ft_server_opts opts = {.verifier =
                                     test_verifier_opts((ft_verifier_opts){.client_share = 25}),
                                 .host = "127.0.0.1",
                                 .metrics_host = "127.0.0.1"};
    if (ft_server_create(&opts, &err, &server) != FT_OK)
        fail_msg("%s", err.message);
    port = ft_server_metrics_port(server);
    return port == 0;
}

static int teardown(void **state)
{
    ft_server_destroy(server, 0);
    return test_target_teardown(state);
}

/* Two texts, the second of which begins as the first. */
static void generate(void)
{
    test_edge edge = test_edge_make(TEST_DRAFT_TREE, NULL, target.n_vocab, 1);
    for (int i = 0; i < 2; i++) {
        test_text text;
        test_text_random(&text, 100, 1);
        ft_msg_open open = local_open_msg(&text, 0.5f, 1, 20);
        local_generate(ft_server_verifier(server), &open, &edge, &text);
    }
}

static double value_of(const char *page, const char *name)
{
    char line[128];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(page, line);
    if (!at)
        fail_msg("no '%s'", name);
    return strtod(at + strlen(line), NULL);
}

static void test_page_equals_statistics(void **state)
{
    http_response r = {0};
    char type[100];
    (void)state;
    generate();
    ft_verifier_stats s = test_verifier_stats(ft_server_verifier(server));
    assert_int_equal(http_ask(port, "GET", "/metrics", "", NULL, &r), 200);
    assert_true(http_response_header(&r, "Content-Type", type, sizeof type));
    assert_string_equal(type, "text/plain; version=0.0.4; charset=utf-8");
    const char *page = ft_buf_str(&r.body);
    const struct {
        const char *name;
        double value;
    } all[] = {{"foretoken_sessions", 0},
               {"foretoken_sessions_opened_total", 2},
               {"foretoken_rounds_total", (double)s.rounds},
               {"foretoken_tokens_total", (double)s.tokens},
               {"foretoken_drafted_tokens_total", (double)s.drafted},
               {"foretoken_accepted_tokens_total", (double)s.accepted},
               {"foretoken_kv_blocks", s.kv_blocks},
               {"foretoken_kv_free_blocks", s.kv_blocks},
               {"foretoken_kv_cached_blocks", s.kv_blocks_cached},
               {"foretoken_prefix_lookup_tokens_total", 198},
               {"foretoken_prefix_hit_tokens_total", 96},
               {"foretoken_pass_rows_sum", (double)s.passes.sum},
               {"foretoken_pass_rows_count", (double)s.passes.n},
               {"foretoken_pass_rows_bucket{le=\"+Inf\"}", (double)s.passes.n},
               {"foretoken_prefill_chunk_rows_sum", (double)s.chunks.sum},
               {"foretoken_prefill_chunk_rows_count", (double)s.chunks.n},
               {"foretoken_pass_seconds_total", (double)s.forward_us / 1e6},
               {"foretoken_judge_seconds_total", (double)s.judge_us / 1e6},
               {"foretoken_run_tokens_total", (double)s.run_tokens},
               {"foretoken_pass_spikes_total{cause=\"cold_start\"}",
                (double)s.spikes[FT_SPIKE_COLD_START]},
               {"foretoken_engine_idle_seconds_total", (double)s.idle_us / 1e6},
               {"foretoken_pass_predicted_seconds_total", (double)s.predicted_us / 1e6},
               {"foretoken_pass_prediction_error_seconds_total", (double)s.predict_miss_us / 1e6},
               {"foretoken_round_queue_seconds_total", (double)s.queue_us / 1e6},
               {"foretoken_round_verify_seconds_total", (double)s.verify_us / 1e6}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (value_of(page, all[i].name) != all[i].value)
            fail_msg("%s is %g", all[i].name, value_of(page, all[i].name));
    const double error = value_of(page, "foretoken_pass_prediction_error_ratio"),
                 bias = value_of(page, "foretoken_pass_prediction_bias_ratio");
    assert_float_equal(error, s.cost_error, 1e-6);
    assert_float_equal(bias, s.cost_bias, 1e-6);
    assert_true(error > 0 && error <= 1 && bias >= -1 && bias <= 1);
    /* the engine thread goes on looking for work */
    assert_true(value_of(page, "foretoken_engine_rest_seconds_total") >= (double)s.rest_us / 1e6);
    assert_true(s.rounds > 0 && s.kv_blocks_cached > 0 && s.forward_us > 0 && s.predicted_us > 0);
    http_response_deinit(&r);
}

/* Each sample stands behind the HELP and TYPE of its own family; histograms rise. */
static void test_page_is_well_formed(void **state)
{
    ft_verifier_stats s = {.passes = {.sum = 700, .n = 6, .by_size = {1, 0, 2, [12] = 3}},
                           .queue_us = 1000007};
    ft_buf page = {0};
    char family[100] = "", name[100], kind[20];
    uint64_t last = 0;
    uint32_t samples = 0;
    (void)state;
    assert_int_equal(ft_stats_append(&ft_verifier_stat_list, &s, &page), FT_OK);
    assert_int_equal(page.data[page.len - 1], '\n');
    for (char *line = strtok(page.data, "\n"); line; line = strtok(NULL, "\n")) {
        double value;
        if (sscanf(line, "# HELP %99s %19s", name, kind) == 2) {
            strcpy(family, name);
            last = 0;
        } else if (sscanf(line, "# TYPE %99s %19s", name, kind) == 2) {
            assert_string_equal(name, family);
            bool total = strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_total") == 0;
            assert_int_equal(total, strcmp(kind, "counter") == 0);
        } else {
            assert_int_equal(sscanf(line, "%99s %lf", name, &value), 2);
            assert_int_equal(strncmp(name, family, strlen(family)), 0);
            assert_int_equal(strncmp(name, "foretoken_", 10), 0);
            if (strstr(name, "_bucket")) {
                assert_true((uint64_t)value >= last);
                last = (uint64_t)value;
            }
            if (strcmp(name, "foretoken_pass_rows_bucket{le=\"2048\"}") == 0)
                assert_true(value == 3);
            if (strcmp(name, "foretoken_pass_rows_count") == 0)
                assert_true(value == 6 && last == 6);
            if (strcmp(name, "foretoken_round_queue_seconds_total") == 0)
                assert_non_null(strstr(line, " 1.000007"));
            samples++;
        }
    }
    assert_true(samples > 40);
    ft_buf_deinit(&page);
}

static void test_nothing_else_is_there(void **state)
{
    http_response r = {0};
    (void)state;
    assert_int_equal(http_ask(port, "GET", "/health", "", NULL, &r), 200);
    http_response_deinit(&r);
    assert_int_equal(http_ask(port, "GET", "/v1/models", "", NULL, &r), 404);
    http_response_deinit(&r);
    assert_int_equal(http_ask(port, "POST", "/v1/completions", "", "{\"prompt\":\"x\"}", &r), 404);
    http_response_deinit(&r);
    assert_int_equal(http_ask(port, "POST", "/metrics", "", "{}", &r), 405);
    http_response_deinit(&r);
    assert_int_equal(http_ask(port, "GET", "/metrics", "Origin: http://evil.example\r\n", NULL, &r),
                     403);
    http_response_deinit(&r);
}

static void test_host_must_be_ours(void **state)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    http_response r = {0};
    http_client c;
    (void)state;
    assert_true(http_client_open(&c, port));
    assert_true(http_client_puts(&c, request));
    assert_true(http_client_response(&c, false, &r));
    assert_int_equal(r.status, 403);
    http_response_deinit(&r);
    http_client_close(&c);
}

/* A clock that a look at it moves on. */
static int64_t next_us(void *ctx)
{
    return atomic_fetch_add((_Atomic int64_t *)ctx, 1);
}

/* The engine is idle while it waits and some client's text goes on; not without such a client. */
static void test_idle_time(void **state)
{
    _Atomic int64_t now_us = 1;
    ft_verifier *v =
        test_verifier_start((ft_verifier_opts){.clock = {next_us, &now_us}, .session_ttl_s = 60});
    test_text text;
    local_client c;
    test_edge edge = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    (void)state;
    assert_int_equal(test_verifier_stats(v).idle_us, 0);
    assert_int_equal(test_verifier_stats(v).idle_us, 0);
    test_text_random(&text, 20, 3);
    ft_msg_open open = local_open_msg(&text, 0, 1, 2);
    local_open(&c, v, &open, "me");
    assert_true(local_round(&c, &edge, &text));
    assert_int_equal(text.finish, FT_FINISH_NONE);
    (void)test_verifier_stats(v);
    uint64_t idle_us = test_verifier_stats(v).idle_us;
    assert_true(idle_us > 0);
    while (text.finish == FT_FINISH_NONE)
        assert_true(local_round(&c, &edge, &text));
    (void)test_verifier_stats(v); /* a wait that began with the text open is over now */
    idle_us = test_verifier_stats(v).idle_us;
    (void)test_verifier_stats(v);
    ft_verifier_stats s = test_verifier_stats(v);
    assert_int_equal(s.idle_us, idle_us);
    assert_true(s.rest_us > 0);
    assert_true(s.idle_us + s.rest_us + s.forward_us + s.judge_us < (uint64_t)now_us);
    local_close(&c);
    ft_verifier_destroy(v);
}

/* Each microsecond of the engine thread is in one part of its life. The clock counts the looks at
 * it: each run of the head takes one, so time that were counted twice would show. */
static void test_parts_add_up(void **state)
{
    enum { TOKENS = 200, OPEN = 16 }; /* looks of which the statistics do not know yet, at most */
    _Atomic int64_t now_us = 1;
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.clock = {next_us, &now_us}});
    uint64_t began_us = (uint64_t)now_us, parts_us = 0;
    test_edge edge = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 1);
    test_text text;
    (void)state;
    for (uint32_t seed = 1, made = 0; made < TOKENS; seed++) {
        test_text_random(&text, 20, seed);
        ft_msg_open open = local_open_msg(&text, 0.5f, 1, TOKENS);
        local_generate(v, &open, &edge, &text);
        made += text.n - 20;
    }
    (void)test_verifier_stats(v);
    ft_verifier_stats s = test_verifier_stats(v);
    uint64_t life_us = (uint64_t)now_us - began_us;
    for (size_t i = 0; i < ft_verifier_stat_list.n; i++) {
        const ft_stat *stat = &ft_verifier_stat_list.stat[i];
        if (stat->kind == FT_STAT_WORK || stat->kind == FT_STAT_WAIT)
            parts_us += *(const uint64_t *)((const char *)&s + stat->at);
    }
    assert_int_equal(parts_us, s.forward_us + s.head_us + s.judge_us + s.own_us + s.rest_us +
                                   s.idle_us + s.vacant_us);
    assert_true(s.head_us >= TOKENS && s.forward_us > 0 && s.judge_us > 0 && s.rest_us > 0);
    if (parts_us > life_us + OPEN || parts_us + s.rounds + OPEN < life_us) /* drafts look, too */
        fail_msg("%llu us are known of %llu", (unsigned long long)parts_us,
                 (unsigned long long)life_us);
    ft_verifier_destroy(v);
}

/* T_verify of WISP and SpecEdge has the head in it. */
static void test_sums_of_time(void **state)
{
    const ft_verifier_stats s = {.forward_us = 1,
                                 .head_us = 20,
                                 .judge_us = 300,
                                 .own_us = 4000,
                                 .rest_us = 50000,
                                 .idle_us = 600000,
                                 .vacant_us = 7000000};
    (void)state;
    assert_int_equal(ft_verifier_stats_verify_us(&s), 321);
    assert_int_equal(ft_verifier_stats_busy_us(&s), 54321);
}

/* Who reads the page by the list gets what it was made of. */
static void test_page_can_be_read(void **state)
{
    ft_verifier_stats s = {.n_slo = 2, .slo_tokens_per_s = {2, 8}}, read = s;
    ft_buf page = {0};
    ft_error err = {0};
    uint64_t value = 1000000;
    (void)state;
    for (size_t i = 0; i < ft_verifier_stat_list.n; i++) {
        const ft_stat *stat = &ft_verifier_stat_list.stat[i];
        uint64_t *cell = (uint64_t *)((char *)&s + stat->at);
        char unused[FT_STAT_LABEL_SIZE];
        if (stat->kind == FT_STAT_RATIO)
            *(double *)cell = -0.25;
        for (size_t k = 0; stat->kind != FT_STAT_RATIO && k < stat->n_cells; k++)
            if (!stat->label || stat->label(&s, k, unused))
                cell[k] = value++;
    }
    assert_int_equal(ft_stats_append(&ft_verifier_stat_list, &s, &page), FT_OK);
    assert_int_equal(ft_stats_read(&ft_verifier_stat_list, ft_buf_str(&page), &err, &read), FT_OK);
    assert_memory_equal(&read, &s, sizeof s);
    ft_buf_deinit(&page);
}

/* Of a server that drafts, each line its own figure. */
static void test_own_drafts(void **state)
{
    const ft_verifier_stats s = {
        .own_us = 1500000, .own_forwards = 2, .own_rows = 3, .own_drafted = 4, .own_accepted = 5};
    ft_buf page = {0};
    (void)state;
    assert_int_equal(ft_stats_append(&ft_verifier_stat_list, &s, &page), FT_OK);
    const char *text = ft_buf_str(&page);
    assert_true(value_of(text, "foretoken_own_draft_seconds_total") == 1.5);
    assert_true(value_of(text, "foretoken_own_draft_passes_total") == 2);
    assert_true(value_of(text, "foretoken_own_draft_rows_total") == 3);
    assert_true(value_of(text, "foretoken_own_drafted_tokens_total") == 4);
    assert_true(value_of(text, "foretoken_own_accepted_tokens_total") == 5);
    assert_true(value_of(text, "foretoken_drafted_tokens_total") == 0);
    ft_buf_deinit(&page);
}

/* One address that keeps its connections leaves most of the page's 16 to others. */
static void test_share(void **state)
{
    http_client c[5];
    http_response r;
    for (int i = 0; i < 5; i++) {
        assert_true(http_client_open_from(&c[i], port, 2));
        assert_true(http_client_request(&c[i], "GET", "/metrics", "", NULL));
        assert_true(http_client_response(&c[i], false, &r));
        assert_int_equal(r.status, i < 4 ? 200 : 429);
        http_response_deinit(&r);
    }
    assert_int_equal(http_ask(port, "GET", "/metrics", "", NULL, &r), 200);
    http_response_deinit(&r);
    for (int i = 0; i < 5; i++)
        http_client_close(&c[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_drafts),
        cmocka_unit_test(test_parts_add_up),
        cmocka_unit_test(test_sums_of_time),
        cmocka_unit_test(test_page_can_be_read),
        cmocka_unit_test(test_page_equals_statistics),
        cmocka_unit_test(test_page_is_well_formed),
        cmocka_unit_test(test_idle_time),
        cmocka_unit_test(test_nothing_else_is_there),
        cmocka_unit_test(test_host_must_be_ours),
        cmocka_unit_test(test_share),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
