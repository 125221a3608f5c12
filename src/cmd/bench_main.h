/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands of benchmarks share: the frame of those that compare on one model (flags,
 * model, report), and lists of names. Used by one thread. */
#ifndef FT_CMD_BENCH_MAIN_H
#define FT_CMD_BENCH_MAIN_H

#include <jansson.h>

#include "bench/bench.h"
#include "cmd/cmd.h"
#include "engine/load.h"

/* Flags of every comparison. */
typedef struct ft_bench_flags {
    ft_bench_opts opts;
    bool json;
    ft_device_opts device; /* of either side */
} ft_bench_flags;

/* row: seconds, --row-s. */
#define FT_BENCH_FLAGS_INIT(row)                                              \
    {                                                                         \
        .opts = {.rounds = 15, .row_s = (row)}, .device = FT_DEVICE_OPTS_INIT \
    }

extern const ft_flag_group ft_flags_bench; /* of ft_bench_flags */

/* A comparison. `measure` adds to `report`, an object that already has "model", "threads" and so
 * on. Without --json each row is printed as soon as it is measured; at the end `print` is
 * called. */
typedef struct ft_bench_cmd {
    const char *name; /* "bench verify" */
    FT_WARN_UNUSED ft_status (*measure)(void *opts, const ft_model *model, json_t *report,
                                        ft_error *err);
    const char *header; /* above the first row */
    void (*print_row)(const json_t *row);
    void (*print)(const json_t *report); /* NULL: nothing */
} ft_bench_cmd;
/* Loads the model, measures, prints; opts: `measure`'s. Returns the exit status. */
int ft_bench_main(const ft_bench_cmd *cmd, ft_bench_flags *flags, void *opts);

/* A number of a row, 0 if it has none; a text, NULL if it has none. */
double ft_bench_number(const json_t *row, const char *key);
const char *ft_bench_text(const json_t *row, const char *key);
/* What a table says of a row's `identical`: whether its texts are the expected ones. */
const char *ft_bench_identical(const json_t *row);

/* A line with the speeds of both sides, behind a column of 7 for the number `key`; and what stands
 * above them. */
#define FT_BENCH_SPEEDS "  foretoken tok/s   libllama tok/s    ratio  roofline  libllama"
void ft_bench_print_speeds(const json_t *row, const char *key);

/* A list of names, as in "plain,edge": sets out[i] for each of names[n] that it contains.
 * FT_INVALID: it is empty, or contains another name; the message lists the names. */
FT_WARN_UNUSED ft_status ft_bench_names(const char *flag, const char *text,
                                        const char *const *names, size_t n, ft_error *err,
                                        bool *out);

#endif
