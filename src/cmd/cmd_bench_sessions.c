// SPDX-License-Identifier: Apache-2.0
// `foretoken bench sessions`: flags and the table of bench/sessions.h.
#include "bench/sessions.h"

#include <stdio.h>

#include "cmd/cmd.h"

typedef struct options {
    ft_bench_sessions_opts o;
    bool json;
} options;

static void print_text(const json_t *report)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)report, name, value)
    {
        printf("%-34s %12.*f\n", name,
               json_is_integer(value) || json_number_value(value) > 100 ? 0 : 2,
               json_number_value(value));
    }
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.model), "MODEL", "target model (GGUF)", .required = true,
     .model = true},
    {"--idle", NULL, FT_FLAG(options, o.idle), "N", "idle sessions: each has had one round", 2,
     60000},
    {"--active", NULL, FT_FLAG(options, o.active), "N", "active sessions: one round after another",
     1, 64},
    {"--rounds", NULL, FT_FLAG(options, o.rounds), "N", "rounds of each active session", 1, 100000},
    {"--prompt", NULL, FT_FLAG(options, o.prompt_tok), "N", "tokens of each prompt", 1, 512},
    {"--threads", "-t", FT_FLAG(options, o.threads), "N", "threads of the server; 0: all cores", 0,
     512},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {
    .o = {.idle = 10000, .active = 8, .rounds = 100, .prompt_tok = 8, .stop = ft_cmd_stopped}};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_error err = {0};
    json_t *report;
    ft_cmd_catch_signals();
    ft_status status = ft_bench_sessions(&x->o, &err, &report);
    return ft_cmd_report(status, &err, report, x->json, print_text);
}

const ft_command ft_cmd_bench_sessions = {
    .name = "bench sessions",
    .summary = "what an idle session costs a server",
    .usage = "-m TARGET.gguf [flags]",
    .about = "Measures what an idle session costs a server: the resident memory of its "
             "process, less the KV that the session touched and less what a stream takes in a "
             "bare gRPC server; and the time of rounds beside all idle sessions.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
