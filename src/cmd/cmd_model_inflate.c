// SPDX-License-Identifier: Apache-2.0
// foretoken model inflate: writes a model file with added layers, which cost time and change
// nothing.
#include <stdio.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "model/inflate.h"

typedef struct options {
    uint32_t n_layer;
    bool json;
} options;

static const ft_flag rows[] = {
    {"--layers", NULL, FT_FLAG(options, n_layer), "N", "layers of OUT in all", 0, UINT32_MAX},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {0};

static int run(void *selected, int n_words, char **words)
{
    const options *x = selected;
    if (x->n_layer == 0) {
        fprintf(stderr, "foretoken model inflate: pass --layers N\n");
        return 2;
    }
    int64_t began_us = ft_monotonic_us();
    ft_error err = {0};
    uint32_t had = 0;
    ft_inflate_opts opts = {.in = words[0],
                            .out = words[1],
                            .n_layer = x->n_layer,
                            .progress = ft_progress_terminal("writing")};
    if (ft_model_inflate(&opts, &err, &had) != FT_OK)
        return ft_cmd_fail(&err);
    double seconds = (double)(ft_monotonic_us() - began_us) / 1e6;
    json_int_t in = ft_cmd_file_bytes(words[0]), out = ft_cmd_file_bytes(words[1]);
    if (x->json)
        return ft_cmd_print_json(json_pack("{s:s, s:s, s:i, s:i, s:I, s:I, s:f}", "in", words[0],
                                           "out", words[1], "in_layers", (int)had, "layers",
                                           (int)x->n_layer, "in_bytes", in, "out_bytes", out,
                                           "seconds", seconds));
    printf("%s: %u layers, %.1f MB -> %s: %u layers, %.1f MB in %.1f s\n", words[0], had,
           (double)in / 1e6, words[1], x->n_layer, (double)out / 1e6, seconds);
    return 0;
}

const ft_command ft_cmd_model_inflate = {
    .name = "model inflate",
    .summary = "write a model file with added layers that cost time and change nothing",
    .usage = "IN OUT --layers N [--json]",
    .about = "Writes the model file IN as OUT with N layers in all, for benchmarks. The added "
             "layers are copies of IN's, spread among them, with output projections of zero. "
             "They cost what IN's layers cost (time, memory, KV cache) and change nothing: the "
             "logits are IN's, bit for bit if the same kernels compute both files. So a target "
             "can have the cost of a large model relative to its draft, and the acceptance of "
             "the small one.",
    FT_CMD_OPTIONS(rows, defaults),
    .min_words = 2,
    .max_words = 2,
    .model_word = true,
    .run = run};
