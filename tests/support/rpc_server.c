// SPDX-License-Identifier: Apache-2.0
// Servers in child processes, which die with this one. State is theirs and their endpoints, for one
// thread.
#include "support/rpc_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ggml-backend.h"
#include "model/device.h"

/* What ggml's RPC backend knows of servers and their devices it never frees, and forgets at exit
 * before the leaks are counted. */
#ifdef __SANITIZE_ADDRESS__
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libggml-rpc\nleak:ggml_backend_rpc_add_server\nleak:ggml_backend_device*\n";
}
#endif

#define READY_MS 20000 /* then something is wrong */
#define STEP_MS  5

static pid_t children[RPC_SERVERS];
static char endpoints[RPC_SERVERS * 32];

static void stop_all(void)
{
    for (int i = 0; i < RPC_SERVERS; i++)
        if (children[i] > 0) {
            kill(children[i], SIGKILL);
            waitpid(children[i], NULL, 0);
        }
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* One that nobody listens on; the server binds it a moment later. */
static uint16_t free_port(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        abort();
    close(fd);
    return ntohs(address.sin_port);
}

static void serve(const char *endpoint)
{
    ft_error err = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!freopen("/dev/null", "w", stdout))
        _exit(1);
    if (ft_devices_lend(endpoint, "CPU", 1, &err) != FT_OK)
        fprintf(stderr, "%s\n", err.message);
    _exit(1);
}

/* ggml's server has no way to say that it listens: it is asked until it does. */
static bool wait_ready(uint16_t port, pid_t child)
{
    struct sockaddr_in address = loopback(port);
    for (int ms = 0; ms < READY_MS && waitpid(child, NULL, WNOHANG) == 0; ms += STEP_MS) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        bool ok = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
        close(fd);
        if (ok)
            return true;
        poll(NULL, 0, STEP_MS);
    }
    return false;
}

const char *rpc_servers_start(void)
{
    if (!ggml_backend_reg_by_name("RPC"))
        return NULL;
    atexit(stop_all);
    for (int i = 0; i < RPC_SERVERS; i++) {
        char endpoint[32];
        uint16_t port = free_port();
        snprintf(endpoint, sizeof endpoint, "127.0.0.1:%u", port);
        fflush(NULL);
        children[i] = fork();
        if (children[i] == 0)
            serve(endpoint);
        if (children[i] < 0 || !wait_ready(port, children[i])) {
            fprintf(stderr, "an RPC server does not start\n");
            exit(1);
        }
        snprintf(endpoints + strlen(endpoints), sizeof endpoints - strlen(endpoints), "%s%s",
                 i ? "," : "", endpoint);
    }
    return endpoints;
}
