// SPDX-License-Identifier: Apache-2.0
// foretoken quantize: writes a model file in another weight type.
#include <stdio.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "model/quantize.h"

typedef struct options {
    int32_t n_threads;
    bool json;
} options;

static const ft_flag rows[] = {
    {"--threads", "-t", FT_FLAG(options, n_threads), "N", "threads; 0: all cores", 0, 1024},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {0};

static int run(void *selected, int n_words, char **words)
{
    const options *x = selected;
    int64_t began_us = ft_monotonic_us();
    ft_error err = {0};
    if (ft_model_quantize(words[0], words[1], words[2], x->n_threads, &err) != FT_OK)
        return ft_cmd_fail(&err);
    double seconds = (double)(ft_monotonic_us() - began_us) / 1e6;
    json_int_t in = ft_cmd_file_bytes(words[0]), out = ft_cmd_file_bytes(words[1]);
    if (x->json)
        return ft_cmd_print_json(json_pack("{s:s, s:s, s:s, s:I, s:I, s:f}", "in", words[0], "out",
                                           words[1], "type", words[2], "in_bytes", in, "out_bytes",
                                           out, "seconds", seconds));
    printf("%s: %.1f MB -> %s: %.1f MB (%s) in %.1f s\n", words[0], (double)in / 1e6, words[1],
           (double)out / 1e6, words[2], seconds);
    return 0;
}

const ft_command ft_cmd_quantize = {
    .name = "quantize",
    .summary = "write a model file in another weight type",
    .usage = "IN OUT TYPE [flags]",
    .about = "Writes the model file IN as OUT with its matrices in TYPE: f32, f16, bf16, q8_0, "
             "q6_k, q5_k_m, q4_k_m, q4_0, q4_1, iq4_nl, ... On a CPU, verifying many tokens in "
             "one pass is cheapest with iq4_nl, q4_0 and bf16. foretoken info says whether a "
             "file's weights can be repacked.",
    FT_CMD_OPTIONS(rows, defaults),
    .min_words = 3,
    .max_words = 3,
    .model_word = true,
    .run = run};
