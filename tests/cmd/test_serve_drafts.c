// SPDX-License-Identifier: Apache-2.0
// Texts through `serve` with drafts, of its own and of an edge, are those without; on test_device()
// where there is one: a model in F32, which rounds too little to change a token, and whose shaders
// a software device has for other tests already.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "support/api_client.h"
#include "support/device.h"
#include "support/program.h"
#include "support/tiny_gguf.h"

static char *model;

static int set_up(void **state)
{
    const tiny_gguf_opts opts = {.seed = 3};
    signal(SIGPIPE, SIG_IGN);
    model = tiny_gguf_temp(&opts);
    return 0;
}

static int tear_down(void **state)
{
    unlink(model);
    free(model);
    return 0;
}

static const char *device(void)
{
    return test_device() ? test_device() : "none";
}

/* A server; if `draft`, with chains of its own, by the target itself. Chains of 3 take shaders for
 * few sizes. */
static program serve(bool draft)
{
    return program_start((const char *[]){"serve",  "-m",
                                          model,    "-t",
                                          "1",      "-c",
                                          "512",    "--port",
                                          "0",      "--http-port",
                                          "0",      "--metrics",
                                          "0",      "--device",
                                          device(), draft ? "-md" : NULL,
                                          model,    "--device-draft",
                                          device(), "--spec-draft-n-max",
                                          "3",      "--draft-width",
                                          "1",      "--draft-always",
                                          NULL});
}

static void test_drafts(void **state)
{
    char *plain[2], *own, *edges, address[32];
    program server = serve(false);
    snprintf(address, sizeof address, "127.0.0.1:%d", program_wait_port(&server, "listening"));
    int metrics = program_wait_number(&server, "metrics host=", "port=");
    int port = program_wait_port(&server, "api url=");
    for (int i = 0; i < 2; i++) {
        plain[i] = api_complete(port, 0.8 * i);
        assert_true(strlen(plain[i]) > 0);
    }
    assert_int_equal(api_metric(metrics, "accepted_tokens_total"), 0);
    program edge =
        program_start((const char *[]){"edge", "--server", address, "-md", model, "-t", "1",
                                       "--port", "0", "--draft", "3", "--device", device(), NULL});
    const int edge_port = program_wait_port(&edge, "foretoken edge");
    for (int i = 0; i < 2; i++) {
        edges = api_complete(edge_port, 0.8 * i);
        assert_string_equal(edges, plain[i]);
        free(edges);
    }
    assert_true(api_metric(metrics, "accepted_tokens_total") > 0);
    assert_int_equal(program_stop(&edge), 0);
    assert_int_equal(program_stop(&server), 0);

    server = serve(true);
    metrics = program_wait_number(&server, "metrics host=", "port=");
    port = program_wait_port(&server, "api url=");
    for (int i = 0; i < 2; i++) {
        own = api_complete(port, 0.8 * i);
        assert_string_equal(own, plain[i]);
        free(own);
        free(plain[i]);
    }
    assert_true(api_metric(metrics, "own_accepted_tokens_total") > 0);
    assert_int_equal(program_stop(&server), 0);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_drafts)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
