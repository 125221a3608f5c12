// SPDX-License-Identifier: Apache-2.0
// `foretoken bench fleet` as a program: two users chat with two servers of a tiny model, in turn.
// Texts are the target's, later turns find the earlier ones, and a server with another model is
// told from its texts. How fast it goes is not looked at.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <jansson.h>

#include "support/program.h"
#include "support/tiny_gguf.h"
#include "support/tiny_pair.h"

#define HOW                                                                               \
    " -c 400 --devices 2 --turns 2 -n 8 --draft 2 --draft-ms 0.2 --rtt 2 --think-s 0.05 " \
    "--warm-s 0.2 --measure-s 0.6 "

static tiny_pair pair;
static char *other;

static int set_up(void **state)
{
    char prompts[512] = "";
    for (int i = 0; i < 8; i++)
        snprintf(prompts + strlen(prompts), sizeof prompts - strlen(prompts),
                 "{\"prompt\": \"alpha %d beta\"}\n", i);
    pair = tiny_pair_make(prompts);
    other = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q8_0, .seed = 4});
    return other ? 0 : -1;
}

static int tear_down(void **state)
{
    tiny_pair_remove(&pair);
    unlink(other);
    free(other);
    return 0;
}

static program start_server(const char *model, int *port)
{
    program server = program_start((const char *[]){"serve", "-m", model, "-t", "1", "-c", "400",
                                                    "-ngl", "0", "--port", "0", "--slo", "1",
                                                    "--per-client-share", "100", NULL});
    *port = program_wait_port(&server, "listening");
    assert_true(*port > 0);
    return server;
}

static void check_row(const json_t *row, int port, int round)
{
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    assert_string_equal(json_string_value(json_object_get(row, "server")), address);
    assert_true(program_number(row, "round") == round);
    assert_true(program_number(row, "tokens_per_s") > 0 && program_number(row, "seconds") > 0);
    assert_true(program_number(row, "late") <= program_number(row, "texts"));
    assert_true(program_number(row, "found_tokens") <= program_number(row, "before_tokens"));
    assert_true(program_number(row, "accepted") <= program_number(row, "drafted"));
    assert_true(program_number(row, "replay_misses") == 0);
    assert_true(program_number(row, "from_s") > 0 && program_number(row, "edges_cpu_s") > 0);
}

static void test_two(void **state)
{
    int port[2], status;
    char args[512];
    program server[2] = {start_server(pair.target, &port[0]), start_server(pair.target, &port[1])};
    snprintf(args, sizeof args,
             HOW "--chats 8 --rounds 2 --slo 1 --seed 3 --server 127.0.0.1:%d,127.0.0.1:%d",
             port[0], port[1]);
    json_t *json = tiny_pair_bench(&pair, "bench fleet", args, &status);
    assert_int_equal(status, 0);
    const json_t *rows = json_object_get(json, "rows"), *fleets = json_object_get(json, "fleets");
    double before = 0, found = 0;
    assert_int_equal(json_array_size(rows), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *row = json_array_get(rows, i);
        check_row(row, port[i % 2], (int)i / 2);
        assert_true(json_is_true(json_object_get(row, "identical")));
        before += program_number(row, "before_tokens");
        found += program_number(row, "found_tokens");
    }
    assert_true(before > 0 && found > before / 2);
    assert_int_equal(json_array_size(fleets), 2);
    const double first = program_number(json_array_get(fleets, 0), "tokens_per_s"),
                 second = program_number(json_array_get(fleets, 1), "tokens_per_s");
    assert_float_equal(program_number(json_array_get(fleets, 0), "ratio"), 1, 1e-9);
    assert_float_equal(program_number(json_array_get(fleets, 1), "ratio"), second / first, 1e-9);
    assert_true(program_number(json, "first_prompt_tokens") > 8);
    assert_true(program_number(json, "turn_tokens") > 2);
    assert_true(program_number(json, "text_tokens") <= 8);
    json_decref(json);
    for (int i = 0; i < 2; i++)
        assert_int_equal(program_stop(&server[i]), 0);
}

static void test_other_texts(void **state)
{
    int port, status;
    char args[256];
    program server = start_server(other, &port);
    snprintf(args, sizeof args, HOW "--chats 4 --rounds 1 --server 127.0.0.1:%d", port);
    json_t *json = tiny_pair_bench(&pair, "bench fleet", args, &status);
    assert_int_equal(status, 0);
    const json_t *row = json_array_get(json_object_get(json, "rows"), 0);
    assert_true(json_is_false(json_object_get(row, "identical")));
    assert_true(program_number(row, "late") == 0); /* no speed was promised */
    json_decref(json);
    assert_int_equal(program_stop(&server), 0);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *args, *said;
    } bad[] = {{"--server ''", "--server"},
               {"--server a:1,", "--server"},
               {"--server a:1,b:1,c:1,d:1,e:1", "--server"},
               {"--server a:1 --chats 9 --rounds 1", "9 chats"},
               {"--server a:1 --chats 2 --rounds 3", "--chats"},
               {"--server a:1 --temp -1", "--temp"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        program_refuses(bad[i].said, "bench fleet -m '%s' -md '%s' --prompts '%s' %s", pair.target,
                        pair.draft, pair.prompts, bad[i].args);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two),
        cmocka_unit_test(test_other_texts),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
