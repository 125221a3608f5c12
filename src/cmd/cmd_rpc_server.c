// SPDX-License-Identifier: Apache-2.0
// foretoken rpc-server: lends this machine's devices to a foretoken elsewhere, through ggml's RPC.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/endpoint.h"
#include "model/device.h"

static const char about[] =
    "Lends this machine's devices to one foretoken or llama.cpp at a time (--rpc HOST:PORT there), so\n"
    "that a target can be spread over machines. The protocol is ggml's own: no encryption, no\n"
    "authentication, and whoever can connect can take this process over. So it listens on loopback\n"
    "unless told otherwise; reach it from elsewhere by an SSH tunnel or a network of your own.";

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

int ft_cmd_rpc_server(int argc, char **argv)
{
    const char *endpoint = "127.0.0.1:50052", *names = NULL;
    int64_t n_threads = 0;
    const ft_flag flags[] = {
        {"--listen", NULL, FT_FLAG_STRING, &endpoint, "HOST:PORT", "where to listen", 0, 0},
        {"--device", "-dev", FT_FLAG_STRING, &names, "NAMES",
         "what to lend, as in CUDA0,CUDA1 (all GPUs, else the CPU)", 0, 0},
        {"--threads", "-t", FT_FLAG_INT, &n_threads, "N", "threads of the CPU; 0: all cores", 0,
         1024},
    };
    const ft_cmd_usage usage = {.usage = "rpc-server [--listen HOST:PORT] [flags]",
                                .about = about,
                                .flags = flags,
                                .n_flags = FT_COUNT(flags)};
    int n_words, code = ft_cmd_parse(&usage, argc, argv, &n_words);
    if (code >= 0)
        return code;
    ft_error err = {0};
    warn_if_open(endpoint);
    if (ft_devices_lend(endpoint, names, (int)n_threads, &err) == FT_OK)
        return 0;
    return ft_cmd_fail(&err);
}
