// SPDX-License-Identifier: Apache-2.0
// `foretoken bench logits`: flags and the table of bench/logits.h.
#include "bench/logits.h"

#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/gen_flags.h"

/* Any text would do; this one is ordinary English with a number and some code. */
static const char default_prompt[] =
    "The lighthouse keeper wrote in his log that the storm of 1887 had taken the boat, the garden "
    "and most of the roof. \"We shall need 40 planks,\" he said, and his daughter answered: for "
    "(int i = 0; i < 40; i++) carry(plank[i]); which is to say, one at a time.";

typedef struct options {
    ft_bench_logits_opts o;
    bool json;
} options;

static void print_text(const json_t *report)
{
    const json_t *row;
    size_t i;
    printf("%lld rows\n%-41s %11s %11s %s\n",
           json_integer_value(json_object_get(report, "rows_compared")), "pair", "max error",
           "NMSE", "other argmax");
    json_array_foreach(json_object_get(report, "rows"), i, row)
    {
        const char *pair = json_string_value(json_object_get(row, "pair"));
        const char *dash = strstr(pair, " - ");
        printf("%-21.*s - %-17s %11.4g %11.3g %lld\n", (int)(dash - pair), pair, dash + 3,
               json_number_value(json_object_get(row, "max_error")),
               json_number_value(json_object_get(row, "nmse")),
               json_integer_value(json_object_get(row, "argmax_differs")));
    }
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(options, o.path), "MODEL", "model (GGUF)", .required = true,
     .model = true},
    {"--exact", NULL, FT_FLAG(options, o.exact), "FILE",
     "also compare each side with these: the same weights in F32 (foretoken quantize IN OUT f32)"},
    {"--prompt", "-p", FT_FLAG(options, o.prompt), "TEXT", "what to compare on"},
    {"--prompts", NULL, FT_FLAG(options, o.prompts), "FILE",
     "instead: JSON lines with `turns` or `prompt`"},
    {"--limit", NULL, FT_FLAG(options, o.limit), "N",
     "use N prompts, evenly spread over the file; 0: all", 0, 1e9},
    FT_FLAG_INCLUDE(options, o.device, ft_flags_device),
    {"--cache-type", NULL, FT_FLAG_ENUM(options, o.kv, ft_kv_choices), "TYPE",
     "type of this engine's K and V"},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {.o = {.prompt = default_prompt, .device = FT_DEVICE_OPTS_INIT}};

static int run(void *selected, int n_words, char **words)
{
    options *x = selected;
    ft_error err = {0};
    json_t *report = NULL;
    ft_status status = ft_bench_logits(&x->o, &err, &report);
    return ft_cmd_report(status, &err, report, x->json, print_text);
}

const ft_command ft_cmd_bench_logits = {
    .name = "bench logits",
    .summary = "how far this engine's logits are from libllama's",
    .usage = "-m FILE [flags]",
    .about = "Compares the logits of prompts with libllama's: by both attention routes, and on "
             "devices if there are any. To compare with, it also prints how far libllama's own "
             "routes are apart, and libllama on the same devices from libllama on the CPU.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
