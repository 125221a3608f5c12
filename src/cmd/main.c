// SPDX-License-Identifier: Apache-2.0
// The program: finds the subcommand and calls it. The table of commands is here; help, completion
// and the parser read it. Environment variables are read here and nowhere else: FORETOKEN_LOG is
// debug, info, warn or error. Without it, services log from info on, other commands from warn on.
// NOTIFY_SOCKET is where a service tells systemd how it is. The others say where models are
// (hub/places.h).
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/notify.h"
#include "cmd/cmd.h"
#include "cmd/completion.h"
#include "cmd/models.h"

static int complete(void *options, int n_words, char **words);

static const char is_bash[] = "", is_zsh[] = "autoload -U +X bashcompinit && bashcompinit\n";

static const ft_command completion_bash = {
    .name = "completion bash",
    .summary = "print a script that completes commands and flags in bash",
    .usage = "",
    .about = "To use it in this shell: . <(foretoken completion bash)",
    .defaults = is_bash,
    .size = sizeof is_bash,
    .run = complete};

static const ft_command completion_zsh = {
    .name = "completion zsh",
    .summary = "print a script that completes commands and flags in zsh",
    .usage = "",
    .about = "To use it in this shell, after compinit: . <(foretoken completion zsh)",
    .defaults = is_zsh,
    .size = sizeof is_zsh,
    .run = complete};

/* clang-format off */
static const ft_command *const commands[] = {
    &ft_cmd_serve,
    &ft_cmd_edge,
    &ft_cmd_batch,
    &ft_cmd_run,
    &ft_cmd_rpc_server,
    &ft_cmd_pull,
    &ft_cmd_models,
    &ft_cmd_info,
    &ft_cmd_quantize,
    &ft_cmd_model_inflate,
    &ft_cmd_model_pack,
    &ft_cmd_fit_verify_time,
    &ft_cmd_fit_runtime,
    &ft_cmd_trace,
    &ft_cmd_record_positions,
    &ft_cmd_train_predictor,
    &ft_cmd_train_policy,
    &ft_cmd_simulate_wisp,
    &ft_cmd_simulate_qsv,
    &ft_cmd_simulate_edgellm,
    &ft_cmd_simulate_zhu,
    &ft_cmd_simulate_fleet,
    &ft_cmd_plan,
    &ft_cmd_bench_verify,
    &ft_cmd_bench_decode,
    &ft_cmd_bench_branch,
    &ft_cmd_bench_prefill,
    &ft_cmd_bench_serving,
    &ft_cmd_bench_capacity,
    &ft_cmd_bench_fleet,
    &ft_cmd_bench_schedule,
    &ft_cmd_bench_sessions,
    &ft_cmd_bench_kernels,
    &ft_cmd_bench_logits,
    &ft_cmd_bench_noise,
    &ft_cmd_bench_ablate,
    &ft_cmd_bench_exact,
    &ft_cmd_bench_codec,
    &ft_cmd_bench_law,
    &ft_cmd_bench_uplink,
    &ft_cmd_bench_memory,
    &ft_cmd_bench_local,
    &ft_cmd_bench_batch,
    &completion_bash,
    &completion_zsh,
};
/* clang-format on */

/* options: what the shell must do before bash's script. */
static int complete(void *options, int n_words, char **words)
{
    printf("%s", (const char *)options);
    return ft_completion_print(stdout, commands, FT_COUNT(commands));
}

static void usage(FILE *out)
{
    fprintf(out,
            "foretoken " FT_VERSION ": speculative decoding across an edge device and a server\n\n"
            "usage: foretoken COMMAND [flags]     (foretoken COMMAND --help for its flags)\n\n");
    for (size_t i = 0; i < FT_COUNT(commands); i++)
        fprintf(out, "  %-17s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(out, "\nFORETOKEN_LOG=debug|info|warn|error sets what is logged to standard error "
                 "(serve, edge and\nrpc-server: info, others: warn).\n");
}

static void set_log_level(const ft_command *command)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    const char *level = getenv("FORETOKEN_LOG");
    ft_log_set_level(command->service ? FT_LOG_INFO : FT_LOG_WARN);
    for (size_t i = 0; level && i < FT_COUNT(names); i++)
        if (strcmp(level, names[i]) == 0)
            ft_log_set_level((ft_log_level)i);
}

/* Two features of ggml's CUDA backend (0.25.3) fail on an H200. With programmatic dependent launch
 * some rows of a pass are wrong. Replayed graphs end with an illegal instruction. A user can switch
 * the first one on again; ggml only looks whether the second variable exists. */
static void tame_cuda(void)
{
    (void)setenv("GGML_CUDA_PDL", "0", 0);
    (void)setenv("GGML_CUDA_DISABLE_GRAPHS", "1", 0);
}

static void find_models(void)
{
    const ft_hub_env env = {.home = getenv("HOME"),
                            .xdg_cache_home = getenv("XDG_CACHE_HOME"),
                            .hf_home = getenv("HF_HOME"),
                            .hf_hub_cache = getenv("HF_HUB_CACHE"),
                            .hf_hub_offline = getenv("HF_HUB_OFFLINE"),
                            .hf_endpoint = getenv("HF_ENDPOINT"),
                            .hf_token = getenv("HF_TOKEN"),
                            .ollama_models = getenv("OLLAMA_MODELS")};
    ft_models_set_env(&env);
}

/* A large block goes back to the system when it is freed. By default glibc keeps such blocks for
 * later, in each of its arenas: 1 MiB bodies over and over made a server grow by 80 MB. */
static void give_memory_back(void)
{
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, 128 << 10); /* glibc's first value; once it is set, it stays */
#endif
}

/* The number of words in the command's name; 0: `words` do not begin with it. */
static int name_words(const char *name, char **words)
{
    int n = 0;
    for (size_t len; *name; name += len + (name[len] == ' '), n++) {
        len = strcspn(name, " ");
        if (!words[n] || strncmp(words[n], name, len) != 0 || words[n][len])
            return 0;
    }
    return n;
}

/* The command whose name `words` begin with, NULL: none. *n_words: of its name. */
static const ft_command *find(char **words, int *n_words)
{
    for (size_t i = 0; i < FT_COUNT(commands); i++)
        if ((*n_words = name_words(commands[i]->name, words)) > 0)
            return commands[i];
    return NULL;
}

int main(int argc, char **argv)
{
    char **words = argv + (argc > 0);
    const char *first = words[0] ? words[0] : "";
    const bool help = strcmp(first, "help") == 0;
    int n_words;
    ft_cmd_quiet_libraries();
    tame_cuda();
    const ft_command *command = find(words, &n_words);
    if (command) {
        set_log_level(command);
        find_models();
        if (command->service) {
            give_memory_back();
            ft_notify_to(getenv("NOTIFY_SOCKET"));
        }
        return ft_cmd_main(command, argc - n_words, argv + n_words);
    }
    if (strcmp(first, "--version") == 0) {
        printf("foretoken " FT_VERSION "\n");
        return 0;
    }
    if (help && (command = find(words + 1, &n_words))) {
        ft_cmd_help(command);
        return 0;
    }
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || (help && !words[1])) {
        usage(stdout);
        return 0;
    }
    if (words[help])
        fprintf(stderr, "foretoken: unknown command '%s'\n", words[help]);
    usage(stderr);
    return 2;
}
