// SPDX-License-Identifier: Apache-2.0
// `foretoken record positions`: flags and the summary of bench/positions.h. Main thread only.
#include "bench/positions.h"

#include <math.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/lists.h"

typedef struct options {
    ft_bench_positions_opts o;
    const char *temperatures, *l, *out;
    bool json;
} options;

static ft_status parse_lists(options *x, ft_error *err)
{
    const ft_list_rule l = {.flag = "--l",
                            .what = "whole numbers",
                            .like = "8,240,720",
                            .most = 65535,
                            .positive = true,
                            .n_max = FT_POSITIONS_L};
    ft_status status = ft_list_temperatures("--temp", x->temperatures, FT_POSITIONS_TEMPS, err,
                                            x->o.temperature, &x->o.n_temperatures);
    if (status == FT_OK)
        status = ft_list_numbers(&l, x->l, err, x->o.l, &x->o.n_l);
    for (uint32_t i = 0; status == FT_OK && i < x->o.n_l; i++)
        if (x->o.l[i] != floor(x->o.l[i]))
            status = ft_error_set(err, FT_INVALID, "--l: %g is no whole number", x->o.l[i]);
    return status;
}

static json_t *report_of(const options *x, const ft_positions *all, size_t skipped)
{
    json_int_t n = 0;
    for (size_t i = 0; i < all->n_texts; i++)
        n += all->texts[i].n;
    return json_pack("{s:s, s:I, s:I, s:I, s:I}", "command", "record positions", "texts",
                     (json_int_t)all->n_texts, "positions", n, "skipped", (json_int_t)skipped,
                     "bytes", ft_cmd_file_bytes(x->out));
}

static void print_report(const json_t *r)
{
    printf("%.0f texts, %.0f positions, %.0f bytes; %.0f prompts were too long\n",
           json_number_value(json_object_get(r, "texts")),
           json_number_value(json_object_get(r, "positions")),
           json_number_value(json_object_get(r, "bytes")),
           json_number_value(json_object_get(r, "skipped")));
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.target), "MODEL", "target model", .required = true,
     .model = true},
    {"--model-draft", "-md", FT_FLAG(options, o.draft), "MODEL", "draft model", .required = true,
     .model = true},
    {"--prompts", NULL, FT_FLAG(options, o.prompts), "FILE", "JSON lines with `turns` or `prompt`",
     .required = true},
    {"--temp", NULL, FT_FLAG(options, temperatures), "LIST",
     "temperatures; a text of each for each prompt"},
    {"--out", "-o", FT_FLAG(options, out), "FILE", "write the positions there", .required = true},
    {"--l", NULL, FT_FLAG(options, l), "LIST", "parts of the lattices"},
    {"--top-k", NULL, FT_FLAG(options, o.top_k), "N",
     "draw from the N most probable tokens only; 0: from all", 0, 1e9},
    {"--n-predict", "-n", FT_FLAG(options, o.n_predict), "N", "tokens of a text at most", 1,
     FT_POSITIONS_LENGTH},
    {"--max-prompts", NULL, FT_FLAG(options, o.max_prompts), "N",
     "use N prompts, evenly spread over the file; 0: all", 0, 1e6},
    {"--ctx-size", "-c", FT_FLAG(options, o.n_ctx), "N",
     "context, tokens; longer prompts are left out", 16, 1e6},
    {"--threads", "-t", FT_FLAG(options, o.n_threads), "N", "threads; 0: all cores", 0, 1024},
    {"--seed", "-s", FT_FLAG(options, o.seed), "N", "seed of the noise", 0, 9e15},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {.temperatures = "0.3,0.6,1",
                                 .l = "8,240,720",
                                 .o = {.top_k = 40,
                                       .n_predict = 96,
                                       .max_prompts = 40,
                                       .n_ctx = 2048,
                                       .seed = 1,
                                       .stop = ft_cmd_stopped}};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_error err = {0};
    ft_positions positions = {0};
    size_t skipped = 0;
    ft_cmd_catch_signals();
    x->o.loading = ft_progress_terminal("loading");
    x->o.progress = ft_progress_terminal("texts");
    ft_status status = parse_lists(x, &err);
    if (status == FT_OK)
        status = ft_bench_positions(&x->o, &err, &positions, &skipped);
    if (status == FT_OK)
        status = ft_positions_save(&positions, x->out, &err);
    json_t *report = status == FT_OK ? report_of(x, &positions, skipped) : NULL;
    ft_positions_deinit(&positions);
    return ft_cmd_report(status, &err, report, x->json, print_report);
}

const ft_command ft_cmd_record_positions = {
    .name = "record positions",
    .summary = "record what both models say of the target's texts, for simulate qsv",
    .usage = "-m TARGET -md DRAFT --prompts FILE -o FILE [flags]",
    .about = "Lets the target write answers, and records at each position what both models say of "
             "the token that it drew: probabilities, lattice points and their bits, and whether "
             "shared noise agreed. There is no text in the file. simulate qsv replays rounds on "
             "it; train policy learns from it. docs/TRACES.md has the format.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
