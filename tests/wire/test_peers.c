// SPDX-License-Identifier: Apache-2.0
// The other side as a process of its own that is killed or stopped: the end must be noticed, at
// once or by keepalive. The program runs itself as that other side.
#include "fixture.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* The other side as a server: prints its port, then waits to be killed. */
static void be_server(void)
{
    echo e;
    echo_init(&e);
    echo_start(&e, NULL);
    printf("%d\n", ft_wire_server_port(e.server));
    fflush(stdout);
    for (;;)
        pause();
}

/* The other side as an edge with one open stream. */
static void be_edge(int port)
{
    ft_wire_client *client = dial(port, NULL);
    ft_call *call = open_call(client);
    send_open(call, 9);
    for (;;)
        pause();
}

/* Starts this program as the other side. out: its standard output. */
static pid_t spawn(const char *role, const char *arg, FILE **out)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "test_peers", role, arg, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *out = fdopen(ends[0], "r");
    return pid;
}

static void end_process(pid_t pid, FILE *out)
{
    int status;
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    fclose(out);
}

static void lose_server(int signal_number)
{
    FILE *out;
    int port = 0;
    pid_t pid = spawn("server", "", &out);
    assert_int_equal(fscanf(out, "%d", &port), 1);
    ft_wire_client *client = dial(port, NULL);
    ft_call *call = open_call(client);
    send_open(call, 3);
    expect_opened(call, 3);
    kill(pid, signal_number);
    expect_end(call, FT_UNAVAILABLE, "lost the connection to 127.0.0.1:");
    ft_call_destroy(call);
    ft_wire_client_destroy(client);
    end_process(pid, out);
}

static void test_killed_server(void **state)
{
    lose_server(SIGKILL);
}

static void test_stopped_server(void **state)
{
    lose_server(SIGSTOP);
}

static void lose_edge(int signal_number)
{
    echo e;
    FILE *out;
    char port[8];
    echo_init(&e);
    echo_start(&e, NULL);
    snprintf(port, sizeof port, "%d", ft_wire_server_port(e.server));
    pid_t pid = spawn("edge", port, &out);
    echo_wait(&e, &e.messages, 1);
    kill(pid, signal_number);
    echo_wait(&e, &e.ended, 1);
    assert_int_equal(echo_count(&e, &e.ended_cut), 1);
    end_process(pid, out);
    echo_deinit(&e);
}

static void test_killed_edge(void **state)
{
    lose_edge(SIGKILL);
}

static void test_stopped_edge(void **state)
{
    lose_edge(SIGSTOP);
}

/* A server that comes back is found again by the same client. */
static void test_server_comes_back(void **state)
{
    echo e;
    ft_msg_info info;
    ft_error err = {0};
    echo_init(&e);
    echo_start(&e, NULL);
    int port = ft_wire_server_port(e.server);
    ft_wire_client *client = dial(port, NULL);
    assert_int_equal(ft_wire_client_info(client, LIMIT_US, &err, &info), FT_OK);
    ft_wire_server_destroy(e.server);
    assert_int_equal(ft_wire_client_info(client, LIMIT_US, &err, &info), FT_UNAVAILABLE);
    ft_wire_server_opts opts = echo_opts(&e);
    opts.port = port;
    echo_start(&e, &opts);
    ft_status status = FT_UNAVAILABLE;
    for (int i = 0; i < 1000000 && status == FT_UNAVAILABLE; i++) /* until the pause is over */
        status = ft_wire_client_info(client, LIMIT_US, &err, &info);
    assert_int_equal(status, FT_OK);
    echo_close(&e, client);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "server"))
        be_server();
    if (argc == 3 && !strcmp(argv[1], "edge"))
        be_edge(atoi(argv[2]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_server),     cmocka_unit_test(test_stopped_server),
        cmocka_unit_test(test_killed_edge),       cmocka_unit_test(test_stopped_edge),
        cmocka_unit_test(test_server_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
