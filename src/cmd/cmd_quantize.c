// SPDX-License-Identifier: Apache-2.0
// foretoken quantize: writes a model file in another weight type.
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "model/quantize.h"

static json_int_t file_bytes(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (json_int_t)info.st_size : -1;
}

int ft_cmd_quantize(int argc, char **argv)
{
    int64_t n_threads = 0;
    bool json = false;
    int n_words = 0;
    const ft_flag flags[] = {
        {"--threads", "-t", FT_FLAG_INT, &n_threads, "N", "threads (0: all cores)", 0, 1024},
        {"--json", NULL, FT_FLAG_BOOL, &json, NULL, "print one JSON object", 0, 0},
    };
    const ft_cmd_usage usage = {
        .usage = "quantize IN OUT TYPE [flags]",
        .about =
            "Writes the model file IN as OUT with its matrices in TYPE: f32, f16, bf16, q8_0, q6_k,\n"
            "q5_k_m, q4_k_m, q4_0, q4_1, iq4_nl, ... Where checking many tokens at once has to be cheap\n"
            "on a CPU, iq4_nl, q4_0 and bf16 are the best types (foretoken info says whether a file's\n"
            "weights can be repacked).",
        .flags = flags,
        .n_flags = FT_COUNT(flags),
        .max_words = 3};
    int done = ft_cmd_parse(&usage, argc, argv, &n_words);
    if (done >= 0)
        return done;
    if (n_words != 3) {
        fprintf(stderr,
                "foretoken quantize: IN, OUT and TYPE are needed: --help shows the usage\n");
        return 2;
    }
    ft_clock clock = ft_clock_monotonic();
    int64_t began_us = ft_clock_now_us(&clock);
    ft_error err = {0};
    ft_status st = ft_model_quantize(argv[1], argv[2], argv[3], (int)n_threads, &err);
    double seconds = (double)(ft_clock_now_us(&clock) - began_us) / 1e6;
    if (st != FT_OK)
        return ft_cmd_fail(&err);
    json_int_t in = file_bytes(argv[1]), out = file_bytes(argv[2]);
    if (json)
        return ft_cmd_print_json(json_pack("{s:s, s:s, s:s, s:I, s:I, s:f}", "in", argv[1], "out",
                                           argv[2], "type", argv[3], "in_bytes", in, "out_bytes",
                                           out, "seconds", seconds));
    printf("%s: %.1f MB -> %s: %.1f MB (%s) in %.1f s\n", argv[1], (double)in / 1e6, argv[2],
           (double)out / 1e6, argv[3], seconds);
    return 0;
}
