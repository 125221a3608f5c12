// SPDX-License-Identifier: Apache-2.0
// `foretoken bench noise`: flags and the summary of bench/noise.h.
#include "bench/noise.h"

#include <stdio.h>

#include "cmd/cmd.h"

typedef struct options {
    ft_bench_noise_opts o;
    bool json;
} options;

/* A number of the report, or of an object in it; inner: NULL or the object's name. */
static double number(const json_t *report, const char *inner, const char *key)
{
    return json_number_value(json_object_get(inner ? json_object_get(report, inner) : report, key));
}

static void print_text(const json_t *r)
{
    printf("%.0f prompts (%.0f too long), %.0f tokens, temperature %g on text of %g\n"
           "  the target's token is the draft's       first   among its first four\n"
           "    with shared noise                     %.3f   %.3f\n"
           "    with noise of its own                 %.3f   %.3f\n"
           "    by probability alone                          %.3f\n"
           "    best of any coupling (overlap)        %.3f\n",
           number(r, NULL, "prompts"), number(r, NULL, "skipped"), number(r, NULL, "tokens"),
           number(r, NULL, "temperature"), number(r, NULL, "text_temperature"),
           number(r, "shared", "first"), number(r, "shared", "first_four"),
           number(r, "independent", "first"), number(r, "independent", "first_four"),
           number(r, "most_probable", "first_four"), number(r, NULL, "overlap"));
    printf("  among the %d ranked %.3f; sharpness %.2f, tail %.1f; "
           "a draw of the target took %.0f us\n",
           FT_BENCH_NOISE_RANKED, number(r, NULL, "ranked"), number(r, NULL, "sharpness"),
           number(r, NULL, "tail"), number(r, NULL, "draw_us"));
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.target), "MODEL", "target model", .required = true,
     .model = true},
    {"--model-draft", "-md", FT_FLAG(options, o.draft), "MODEL", "draft model", .required = true,
     .model = true},
    {"--prompts", NULL, FT_FLAG(options, o.prompts), "FILE", "JSON lines with `turns` or `prompt`",
     .required = true},
    {"--n-predict", "-n", FT_FLAG(options, o.n_predict), "N", "tokens of an answer at most", 1,
     1e5},
    {"--max-prompts", NULL, FT_FLAG(options, o.max_prompts), "N",
     "use N prompts, evenly spread over the file; 0: all", 0, 1e6},
    {"--ctx-size", "-c", FT_FLAG(options, o.n_ctx), "N",
     "context, tokens; longer prompts are left out", 16, 1e6},
    {"--threads", "-t", FT_FLAG(options, o.n_threads), "N", "threads; 0: all cores", 0, 1024},
    {"--temp", NULL, FT_FLAG(options, o.temp), "T", "temperature of the draws; 0: greedy", 0, 100},
    {"--text-temp", NULL, FT_FLAG(options, o.text_temp), "T",
     "temperature at which the target writes its answers; -1: as --temp", -1, 100},
    {"--top-k", NULL, FT_FLAG(options, o.top_k), "N",
     "draw from the N most probable tokens only; 0: from all", 0, 1e9},
    {"--top-p", NULL, FT_FLAG(options, o.top_p), "P",
     "draw from the most probable tokens whose sum reaches P only; 1: from all", 0, 1},
    {"--min-p", NULL, FT_FLAG(options, o.min_p), "P",
     "draw from tokens of at least P times the highest probability only; 0: from all", 0, 1},
    {"--seed", "-s", FT_FLAG(options, o.seed), "N", "seed of the noise", 0, 9e15},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {.o = {.n_predict = 64,
                                       .max_prompts = 40,
                                       .n_ctx = 2048,
                                       .temp = 1,
                                       .text_temp = -1,
                                       .top_p = 1,
                                       .stop = ft_cmd_stopped}};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_cmd_catch_signals();
    ft_error err = {0};
    json_t *report;
    x->o.loading = ft_progress_terminal("loading");
    x->o.progress = ft_progress_terminal("prompts");
    ft_status status = ft_bench_noise(&x->o, &err, &report);
    return ft_cmd_report(status, &err, report, x->json, print_text);
}

const ft_command ft_cmd_bench_noise = {
    .name = "bench noise",
    .summary = "how often draft and target agree, with shared and with independent noise",
    .usage = "-m TARGET -md DRAFT --prompts FILE [flags]",
    .about = "Measures how often the draft model's choice is the token that the target draws, "
             "on the target's own answers: with the noise that both share under rule `exact`, "
             "and with independent noise.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
