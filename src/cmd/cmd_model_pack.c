// SPDX-License-Identifier: Apache-2.0
// foretoken model pack: writes a model file whose layers can be read from disk in every pass.
#include <stdio.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "engine/products.h"
#include "model/pack_file.h"

typedef struct options {
    const char *kernels;
    bool json;
} options;

static const ft_flag rows[] = {
    {"--kernels", NULL, FT_FLAG(options, kernels), "WHOSE",
     "matrix products that OUT is for: auto, packed (our own) or ggml"},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {0};

/* What multiplies with the file here. */
static ft_status kernels_of(const char *path, ft_error *err, char out[FT_PRODUCTS_TEXT])
{
    const ft_model_opts opts = {.path = path, .choose = ft_products_choose};
    ft_model_info info;
    ft_status st = ft_model_inspect(&opts, err, &info);
    if (st == FT_OK)
        ft_products_text(&info.memory.products, out);
    return st;
}

static int run(void *selected, int n_words, char **words)
{
    const options *x = selected;
    const int64_t began_us = ft_monotonic_us();
    ft_products products;
    ft_model_opts choice = {0};
    ft_error err = {0};
    char kernels[FT_PRODUCTS_TEXT];
    if (ft_products_parse(x->kernels, &err, &products) != FT_OK) {
        fprintf(stderr, "foretoken model pack: %s\n", err.message);
        return 2;
    }
    ft_products_apply(products, &choice);
    const ft_pack_file_opts opts = {.in = words[0],
                                    .out = words[1],
                                    .no_pack = choice.no_pack,
                                    .choose = choice.choose,
                                    .progress = ft_progress_terminal("packing")};
    if (ft_model_pack(&opts, &err) != FT_OK || kernels_of(words[1], &err, kernels) != FT_OK)
        return ft_cmd_fail(&err);
    const double seconds = (double)(ft_monotonic_us() - began_us) / 1e6;
    const json_int_t in = ft_cmd_file_bytes(words[0]), out = ft_cmd_file_bytes(words[1]);
    if (x->json)
        return ft_cmd_print_json(json_pack("{s:s, s:s, s:I, s:I, s:s, s:f}", "in", words[0], "out",
                                           words[1], "in_bytes", in, "out_bytes", out, "kernels",
                                           kernels, "seconds", seconds));
    printf("%s: %.1f MB -> %s: %.1f MB (%s) in %.1f s\n", words[0], (double)in / 1e6, words[1],
           (double)out / 1e6, kernels, seconds);
    return 0;
}

const ft_command ft_cmd_model_pack = {
    .name = "model pack",
    .summary = "write a model file whose layers can be read from disk in every pass",
    .usage = "IN OUT [--kernels WHOSE] [--json]",
    .about = "Writes the model file IN as OUT, with the matrices as they lie in memory, layer "
             "behind layer, and with checksums. It is for models that do not fit in memory: a "
             "layer of OUT can be multiplied with as soon as it is read, a layer of IN must be "
             "packed first, in every pass. Text and fingerprint are those of IN. OUT fixes which "
             "products are our own, as --kernels does when IN is loaded. It is for the CPU; other "
             "programs cannot read it.",
    FT_CMD_OPTIONS(rows, defaults),
    .min_words = 2,
    .max_words = 2,
    .model_word = true,
    .run = run};
