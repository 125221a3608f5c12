// SPDX-License-Identifier: Apache-2.0
// The program: finds the subcommand and calls it. Environment variables are read here and nowhere
// else: FORETOKEN_LOG = debug, info, warn or error.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cmd/cmd.h"

static const ft_cmd commands[] = {
    {"serve", "serve a target model: edges draft, this process verifies", ft_cmd_serve},
    {"edge", "draft here, verify on a server, serve the OpenAI API", ft_cmd_edge},
    {"run", "answer or chat with both models on this machine", ft_cmd_run},
    {"rpc-server", "lend this machine's devices to a foretoken elsewhere", ft_cmd_rpc_server},
    {"info", "what a model file holds, checked; what devices there are", ft_cmd_info},
    {"quantize", "write a model file in another weight type", ft_cmd_quantize},
    {"model inflate", "write a model file with layers added that only cost", ft_cmd_model_inflate},
    {"fit verify-time", "what passes of a model cost on this machine, for serve --costs",
     ft_cmd_fit_verify_time},
    {"trace", "what a trace file holds: texts, drafts, acceptance by depth", ft_cmd_trace},
    {"train predictor", "what ends drafts at rejections, from traces, for edge --predictor",
     ft_cmd_train_predictor},
    {"simulate wisp", "how many devices a server would hold, by policy and promised speed",
     ft_cmd_simulate_wisp},
    {"bench verify", "verifying many sessions' trees, this engine and libllama",
     ft_cmd_bench_verify},
    {"bench decode", "decoding speed of this engine and of libllama", ft_cmd_bench_decode},
    {"bench prefill", "what prompts cost: read, come back, arrive amid other sessions",
     ft_cmd_bench_prefill},
    {"bench serving", "a server that decodes, drafts, or verifies what edges draft",
     ft_cmd_bench_serving},
    {"bench capacity", "how many devices a server holds at promised speeds, by policy",
     ft_cmd_bench_capacity},
    {"bench schedule", "what choosing the next pass takes, by policy", ft_cmd_bench_schedule},
    {"bench kernels", "products and attention by themselves, ours and ggml's",
     ft_cmd_bench_kernels},
    {"bench logits", "how far this engine's logits are from libllama's", ft_cmd_bench_logits},
    {"bench noise", "how often a draft agrees with the target, with shared and with own noise",
     ft_cmd_bench_noise},
    {"bench exact", "is the text the target's: over the wire, alone, by libllama",
     ft_cmd_bench_exact},
};

static void usage(FILE *out)
{
    fprintf(out,
            "foretoken " FT_VERSION ": speculative decoding across an edge device and a server\n\n"
            "usage: foretoken COMMAND [flags]     (foretoken COMMAND --help for its flags)\n\n");
    for (size_t i = 0; i < FT_COUNT(commands); i++)
        fprintf(out, "  %-16s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\nFORETOKEN_LOG=debug|info|warn|error sets what is logged to standard error.\n");
}

static void set_log_level(void)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    const char *level = getenv("FORETOKEN_LOG");
    for (size_t i = 0; level && i < FT_COUNT(names); i++)
        if (strcmp(level, names[i]) == 0)
            ft_log_set_level((ft_log_level)i);
}

/* How many of argv[1..] the command's name takes, 0 if they do not name it. */
static int name_words(const char *name, int argc, char **argv)
{
    char first[32];
    const char *space = strchr(name, ' ');
    if (argc < 2)
        return 0;
    if (!space)
        return strcmp(argv[1], name) == 0;
    snprintf(first, sizeof first, "%.*s", (int)(space - name), name);
    return argc >= 3 && strcmp(argv[1], first) == 0 && strcmp(argv[2], space + 1) == 0 ? 2 : 0;
}

int main(int argc, char **argv)
{
    set_log_level();
    ft_cmd_quiet_libraries();
    for (size_t i = 0; i < FT_COUNT(commands); i++) {
        int words = name_words(commands[i].name, argc, argv);
        if (words == 0)
            continue;
        argv[words] = (char *)(unsigned long)commands[i].name;
        return commands[i].run(argc - words, argv + words);
    }
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        printf("foretoken " FT_VERSION "\n");
        return 0;
    }
    bool help = argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    if (argc >= 2 && !help)
        fprintf(stderr, "foretoken: unknown command '%s'\n", argv[1]);
    usage(help ? stdout : stderr);
    return help ? 0 : 2;
}
