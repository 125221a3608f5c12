// SPDX-License-Identifier: Apache-2.0
// `foretoken bench exact`: flags and the summary of bench/exact.h.
#include "bench/exact.h"

#include <stdio.h>
#include <stdlib.h>

#include "cmd/cmd.h"
#include "cmd/gen_flags.h"
#include "spec/tree.h"

typedef struct options {
    ft_bench_exact_opts o;
    bool json;
} options;

static void print_text(const json_t *report)
{
    const json_t *other = json_object_get(report, "mismatches_libllama"), *m;
    size_t i;
    printf("%s (%s): %lld prompts, greedy and temperature %g, %lld tokens\n",
           json_string_value(json_object_get(report, "model")),
           json_string_value(json_object_get(report, "type")),
           json_integer_value(json_object_get(report, "prompts")),
           json_number_value(json_object_get(report, "temperature")),
           json_integer_value(json_object_get(report, "tokens")));
    printf("speculation over the wire against the target alone: %lld mismatches\n",
           json_integer_value(json_object_get(report, "mismatches_plain")));
    if (json_object_get(report, "schema"))
        printf("under the schema, without drafts:                   %lld mismatches\n"
               "with drafts, the server killed in mid-text:         %lld mismatches, %lld killed\n",
               json_integer_value(json_object_get(report, "mismatches_undrafted")),
               json_integer_value(json_object_get(report, "mismatches_killed")),
               json_integer_value(json_object_get(report, "killed")));
    if (json_is_integer(other))
        printf("greedy, the target alone against libllama:          %lld mismatches\n",
               json_integer_value(other));
    json_array_foreach(json_object_get(report, "mismatches"), i, m)
    {
        char *line = json_dumps(m, JSON_COMPACT | JSON_REAL_PRECISION(5));
        printf("  %s\n", line);
        free(line);
    }
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.model), "MODEL", "target model", .required = true,
     .model = true},
    {"--model-draft", "-md", FT_FLAG(options, o.draft), "MODEL", "draft model", .required = true,
     .model = true},
    {"--prompts", NULL, FT_FLAG(options, o.prompts), "FILE", "JSON lines with `turns` or `prompt`",
     .required = true},
    {"--schema", NULL, FT_FLAG(options, o.schema), "FILE",
     "texts are JSON of this schema: also without drafts, and with a server that is killed; "
     "without libllama"},
    {"--limit", NULL, FT_FLAG(options, o.limit), "N",
     "use N prompts, evenly spread over the file; 0: all", 0, 1e9},
    {"--predict", "-n", FT_FLAG(options, o.n), "N", "tokens of a text at most", 1, 65536},
    {"--ctx-size", "-c", FT_FLAG(options, o.ctx), "N",
     "context, tokens; longer prompts are left out", 512, 1048576},
    {"--threads", "-t", FT_FLAG(options, o.threads), "N", "threads; 0: all cores", 0, 1024},
    FT_FLAG_INCLUDE(options, o.device, ft_flags_device),
    FT_FLAG_INCLUDE(options, o.device_draft, ft_flags_draft_device),
    {"--temp", NULL, FT_FLAG(options, o.temp), "T", "temperature of the sampled texts", 0.01, 5},
    {"--top-k", NULL, FT_FLAG(options, o.top_k), "K",
     "sampled texts: draw from the K most probable tokens only; 0: from all", 0, 1e6},
    {"--top-p", NULL, FT_FLAG(options, o.top_p), "P",
     "sampled texts: the most probable tokens whose sum reaches P only; 1: all", 0.01, 1},
    {"--min-p", NULL, FT_FLAG(options, o.min_p), "P",
     "sampled texts: tokens of at least P times the highest probability only; 0: all", 0, 1},
    {"--seed", "-s", FT_FLAG(options, o.seed), "N", "seed of the sampled texts", 0, 1e18},
    {"--spec-draft-n-max", NULL, FT_FLAG(options, o.budget), "N", "drafted nodes a round", 0,
     FT_TREE_MAX},
    {"--draft-depth", NULL, FT_FLAG(options, o.depth), "N", "depth of the draft tree", 1, 64},
    {"--draft-width", NULL, FT_FLAG(options, o.width), "N",
     "leaves of a draft tree that one pass continues", 1, 64},
    {"--libllama", NULL, FT_FLAG(options, o.libllama), NULL, "also compare with libllama"},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {.o = {.n = 128,
                                       .seed = 1,
                                       .ctx = 4096,
                                       .temp = 0.8,
                                       .top_p = 1,
                                       .budget = 8,
                                       .depth = 4,
                                       .width = 2,
                                       .libllama = true,
                                       .device = FT_DEVICE_OPTS_INIT,
                                       .device_draft = FT_DEVICE_OPTS_INIT,
                                       .stop = ft_cmd_stopped}};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_error err = {0};
    ft_cmd_catch_signals();
    json_t *report;
    x->o.progress = ft_progress_terminal("prompts");
    ft_status status = ft_bench_exact(&x->o, &err, &report);
    return ft_cmd_report(status, &err, report, x->json, print_text);
}

const ft_command ft_cmd_bench_exact = {
    .name = "bench exact",
    .summary = "whether the text is the target's: over the wire, alone, by libllama",
    .usage = "-m TARGET -md DRAFT --prompts FILE [flags]",
    .about = "Compares texts by speculation over the real wire with texts by the target alone "
             "and by libllama, token for token.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
