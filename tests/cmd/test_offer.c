// SPDX-License-Identifier: Apache-2.0
// `serve --offer-draft` and an edge without a draft model, run as programs on tiny models: the edge
// takes the draft once, drafts with it, and refuses what it should.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/http_client.h"
#include "support/program.h"
#include "support/tiny_gguf.h"

#define BODY "{\"prompt\":\"once upon a time\",\"max_tokens\":16}"

static char *target, *draft, *foreign; /* foreign: of another vocabulary */
static char cache[64];

static int set_up(void **state)
{
    target = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q8_0, .seed = 3});
    draft = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 3});
    foreign = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 3, .n_vocab = 352});
    return target && draft && foreign ? 0 : -1;
}

static int tear_down(void **state)
{
    char *const files[] = {target, draft, foreign};
    for (size_t i = 0; i < 3; i++) {
        unlink(files[i]);
        free(files[i]);
    }
    return 0;
}

static int make_cache(void **state)
{
    snprintf(cache, sizeof cache, "/tmp/ft-offer-XXXXXX");
    assert_non_null(mkdtemp(cache));
    return setenv("XDG_CACHE_HOME", cache, 1);
}

static int remove_cache(void **state)
{
    char command[96];
    snprintf(command, sizeof command, "rm -r '%s'", cache);
    return system(command);
}

/* file NULL: it offers nothing. */
static program start_server(const char *file, char address[32])
{
    program server =
        program_start((const char *[]){"serve", "-m", target, "-t", "1", "-c", "256", "-ngl", "0",
                                       "--port", "0", file ? "--offer-draft" : NULL, file, NULL});
    snprintf(address, 32, "127.0.0.1:%d", program_wait_port(&server, "listening"));
    return server;
}

/* Runs an edge; 1: it took the draft from the server, 0: it had it. */
static int run_edge(const char *address)
{
    http_response r;
    program edge = program_start((const char *[]){"edge", "--server", address, "-t", "1", "--draft",
                                                  "2", "--port", "0", NULL});
    const int fetched = program_wait_number(&edge, "draft server=", "fetched=");
    const int port = program_wait_port(&edge, "foretoken edge");
    assert_true(port > 0);
    assert_int_equal(http_ask(port, "POST", "/v1/completions", "", BODY, &r), 200);
    http_response_deinit(&r);
    assert_int_equal(http_ask(port, "GET", "/metrics", "", NULL, &r), 200);
    const char *drafted = strstr(r.body.data, "\nforetoken_edge_drafted_total ");
    assert_non_null(drafted);
    assert_true(atol(strchr(drafted, ' ')) > 0);
    http_response_deinit(&r);
    assert_int_equal(program_stop(&edge), 0);
    return fetched;
}

/* The path of the only file that the cache has besides its lock. */
static void find_blob(char *path, size_t size)
{
    char command[128];
    snprintf(command, sizeof command, "ls -d '%s'/foretoken/offers/* | grep -v lock", cache);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    assert_non_null(fgets(path, (int)size, out));
    path[strcspn(path, "\n")] = 0;
    assert_int_equal(pclose(out), 0);
}

static void test_taken_once(void **state)
{
    char address[32], path[256], part[300], command[700];
    struct stat want, got;
    program server = start_server(draft, address);
    assert_int_equal(run_edge(address), 1);
    assert_int_equal(run_edge(address), 0);
    find_blob(path, sizeof path);
    snprintf(command, sizeof command, "cmp '%s' '%s'", path, draft);
    assert_int_equal(system(command), 0);
    /* a transfer that ended early goes on */
    assert_int_equal(stat(draft, &want), 0);
    assert_int_equal(truncate(path, want.st_size / 2), 0);
    snprintf(part, sizeof part, "%s.incomplete", path);
    assert_int_equal(rename(path, part), 0);
    assert_int_equal(run_edge(address), 1);
    assert_int_equal(stat(path, &got), 0);
    assert_int_equal(got.st_size, want.st_size);
    /* a damaged one is deleted */
    assert_int_equal(truncate(path, want.st_size - 1), 0);
    program_refuses("its SHA-256 is", "edge --server %s --port 0", address);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(run_edge(address), 1);
    assert_int_equal(program_stop(&server), 0);
}

static void test_refusals(void **state)
{
    char address[32];
    tiny_gguf_opts large = {.type = GGML_TYPE_F32, .seed = 3, .n_layer = 4};
    char *file = tiny_gguf_temp(&large);
    struct stat info;
    assert_int_equal(stat(file, &info), 0);
    assert_true(info.st_size > 1000000);
    program server = start_server(file, address);
    program_refuses("--fetch-max-mb takes 1", "edge --server %s --fetch-max-mb 1", address);
    program_refuses("pass a draft model with -md", "edge --server %s --no-fetch", address);
    assert_int_equal(program_stop(&server), 0);
    unlink(file);
    free(file);
    program_refuses("(-md takes a file)", "edge --server %s", address);
    server = start_server(NULL, address);
    program_refuses("offers no draft model (-md takes a file)", "edge --server %s", address);
    assert_int_equal(program_stop(&server), 0);
    program_refuses("another vocabulary than the target", "serve -m '%s' --offer-draft '%s'",
                    target, foreign);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_taken_once, make_cache, remove_cache),
        cmocka_unit_test_setup_teardown(test_refusals, make_cache, remove_cache),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
