// SPDX-License-Identifier: Apache-2.0
// foretoken model inflate: writes a model file with more layers, which cost but change nothing.
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "model/inflate.h"

static json_int_t file_bytes(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (json_int_t)info.st_size : -1;
}

int ft_cmd_model_inflate(int argc, char **argv)
{
    int64_t n_layer = 0;
    bool json = false;
    int n_words = 0;
    const ft_flag flags[] = {
        {"--layers", NULL, FT_FLAG_INT, &n_layer, "N", "layers that OUT is to have in all", 0,
         UINT32_MAX},
        {"--json", NULL, FT_FLAG_BOOL, &json, NULL, "print one JSON object", 0, 0},
    };
    const ft_cmd_usage usage = {
        .usage = "model inflate IN OUT --layers N [--json]",
        .about =
            "Writes the model file IN as OUT with N layers in all, for benchmarks: the added layers\n"
            "are copies of IN's, spread among them, whose output projections are zero. They cost what\n"
            "IN's layers cost (time, memory, KV cache) and change nothing: the logits are IN's bit for\n"
            "bit where both files are computed by the same kernels. So a target can be given the cost\n"
            "of a large model in relation to its draft, at the real acceptance of the small one.",
        .flags = flags,
        .n_flags = FT_COUNT(flags),
        .max_words = 2};
    int done = ft_cmd_parse(&usage, argc, argv, &n_words);
    if (done >= 0)
        return done;
    if (n_words != 2 || n_layer == 0) {
        fprintf(stderr,
                "foretoken model inflate: IN, OUT and --layers are needed: --help shows the "
                "usage\n");
        return 2;
    }
    ft_clock clock = ft_clock_monotonic();
    int64_t began_us = ft_clock_now_us(&clock);
    ft_error err = {0};
    uint32_t had = 0;
    ft_inflate_opts opts = {.in = argv[1],
                            .out = argv[2],
                            .n_layer = (uint32_t)n_layer,
                            .progress = ft_progress_terminal("writing")};
    if (ft_model_inflate(&opts, &err, &had) != FT_OK)
        return ft_cmd_fail(&err);
    double seconds = (double)(ft_clock_now_us(&clock) - began_us) / 1e6;
    json_int_t in = file_bytes(argv[1]), out = file_bytes(argv[2]);
    if (json)
        return ft_cmd_print_json(json_pack("{s:s, s:s, s:i, s:i, s:I, s:I, s:f}", "in", argv[1],
                                           "out", argv[2], "in_layers", (int)had, "layers",
                                           (int)n_layer, "in_bytes", in, "out_bytes", out,
                                           "seconds", seconds));
    printf("%s: %u layers, %.1f MB -> %s: %u layers, %.1f MB in %.1f s\n", argv[1], had,
           (double)in / 1e6, argv[2], (unsigned)n_layer, (double)out / 1e6, seconds);
    return 0;
}
