// SPDX-License-Identifier: Apache-2.0
// foretoken rpc-server: lends this machine's devices to a foretoken elsewhere, through ggml's RPC.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/endpoint.h"
#include "model/device.h"

static void warn_if_open(const char *endpoint)
{
    char host[256];
    size_t n = strcspn(endpoint, ":");
    snprintf(host, sizeof host, "%.*s", (int)(n < sizeof host ? n : sizeof host - 1), endpoint);
    if (!ft_cmd_is_loopback(host))
        FT_LOGW("rpc",
                "DANGER: %s is reachable for others, and ggml's RPC asks nobody who they are: "
                "whoever can connect can take this process over",
                host);
}

typedef struct options {
    const char *endpoint, *names;
    int32_t n_threads;
} options;

static const ft_flag rows[] = {
    {"--listen", NULL, FT_FLAG(options, endpoint), "HOST:PORT", "where to listen"},
    {"--device", "-dev", FT_FLAG(options, names), "NAMES",
     "what to lend, as in CUDA0,CUDA1; default: all GPUs, else the CPU"},
    {"--threads", "-t", FT_FLAG(options, n_threads), "N", "threads of the CPU; 0: all cores", 0,
     1024},
};

static const options defaults = {.endpoint = "127.0.0.1:50052"};

static int run(void *selected, int n_words, char **words)
{
    const options *x = selected;
    ft_error err = {0};
    warn_if_open(x->endpoint);
    if (ft_devices_lend(x->endpoint, x->names, x->n_threads, &err) == FT_OK)
        return 0;
    return ft_cmd_fail(&err);
}

const ft_command ft_cmd_rpc_server = {
    .name = "rpc-server",
    .summary = "lend this machine's devices to a foretoken elsewhere",
    .usage = "[--listen HOST:PORT] [flags]",
    .about = "Lends this machine's devices to one foretoken or llama.cpp at a time (--rpc "
             "HOST:PORT there), so that a target can be spread over machines. The protocol is "
             "ggml's own. It has no encryption and no authentication: whoever can connect can "
             "take this process over. So it listens on loopback by default. Reach it from "
             "elsewhere through an SSH tunnel or a private network.",
    FT_CMD_OPTIONS(rows, defaults),
    .service = true,
    .run = run};
