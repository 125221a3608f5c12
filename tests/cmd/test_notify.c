// SPDX-License-Identifier: Apache-2.0
// What `foretoken serve` and `foretoken edge` tell systemd under Type=notify: ready, reloading,
// ready again, stopping. SIGHUP ends neither of them then, though no file is to be read again.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/program.h"
#include "support/tiny_gguf.h"

static char *model;
static int manager = -1; /* systemd's end */

static int set_up(void **state)
{
    const tiny_gguf_opts opts = {.type = GGML_TYPE_Q4_0, .seed = 3};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char name[64];
    snprintf(name, sizeof name, "@ft-cmd-notify-%d", (int)getpid());
    memcpy(at.sun_path + 1, name + 1, strlen(name) - 1);
    manager = socket(AF_UNIX, SOCK_DGRAM, 0);
    setenv("NOTIFY_SOCKET", name, 1);
    model = tiny_gguf_temp(&opts);
    return bind(manager, (struct sockaddr *)&at,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name)));
}

static int tear_down(void **state)
{
    unlink(model);
    free(model);
    close(manager);
    return 0;
}

/* The next message, which begins like this; waits for it. */
static void expect(const char *begin)
{
    char text[256];
    ssize_t n = recv(manager, text, sizeof text - 1, 0);
    assert_true(n > 0);
    text[n] = 0;
    if (strncmp(text, begin, strlen(begin)) != 0)
        fail_msg("'%s' instead of '%s'", text, begin);
}

static void expect_nothing(void)
{
    char text[256];
    assert_int_equal(recv(manager, text, sizeof text, MSG_DONTWAIT), -1);
}

/* The life of a service that has just been started. */
static void live(program *service)
{
    expect("READY=1");
    kill(service->pid, SIGHUP);
    expect("RELOADING=1\nMONOTONIC_USEC=");
    expect("READY=1");
    assert_int_equal(program_stop(service), 0);
    expect("STOPPING=1");
    expect_nothing();
}

static void test_serve(void **state)
{
    program server =
        program_start((const char *[]){"serve", "-m", model, "-t", "1", "--port", "0", NULL});
    assert_true(program_wait_port(&server, "listening") > 0);
    live(&server);
}

/* An edge is ready when its API listens, also without a server. */
static void test_edge(void **state)
{
    program edge = program_start(
        (const char *[]){"edge", "--server", "127.0.0.1:1", "-m", model, "--port", "0", NULL});
    live(&edge);
}

static void test_other_commands_tell_nothing(void **state)
{
    int status;
    json_t *json = program_json(&status, "info %s --json", model);
    assert_int_equal(status, 0);
    json_decref(json);
    expect_nothing();
}

/* A server that cannot start is never ready. */
static void test_failed_start(void **state)
{
    program server = program_start((const char *[]){"serve", "-m", "/nonexistent.gguf", NULL});
    assert_int_equal(program_wait_end(&server), 1);
    expect_nothing();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_serve), cmocka_unit_test(test_edge),
                                       cmocka_unit_test(test_other_commands_tell_nothing),
                                       cmocka_unit_test(test_failed_start)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
