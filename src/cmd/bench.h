/* SPDX-License-Identifier: Apache-2.0
 *
 * What the comparison commands share: flags, number lists, the interleaved measurement, its statistics
 * and the frame of a command. Used by one thread. */
#ifndef FT_CMD_BENCH_H
#define FT_CMD_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "cmd/bench_machine.h"
#include "cmd/cmd.h"
#include "cmd/device_flags.h"
#include "engine/engine.h"
#include "model/model.h"

#define FT_BENCH_ROUNDS_MAX 100
#define FT_BENCH_LIST_MAX   32

/* Flags of every comparison. */
typedef struct ft_bench_flags {
    const char *path;    /* -m */
    int64_t n_threads;   /* of either side; 0: all cores */
    int64_t rounds;      /* pairs of rounds at most */
    double row_s;        /* seconds after which no further pair of a row begins */
    const char *kv_name; /* --cache-type */
    ft_kv_type kv;       /* what it says, once the command runs */
    bool json;
    ft_device_flags device; /* of either side */
} ft_bench_flags;

#define FT_BENCH_FLAGS_INIT                                                                        \
    {                                                                                              \
        .n_threads = 0, .rounds = 15, .row_s = 8, .kv_name = "f16", .device = FT_DEVICE_FLAGS_INIT \
    }

/* Rows of an ft_flag table. */
#define FT_BENCH_FLAGS(f)                                                            \
    {"--model", "-m", FT_FLAG_STRING, &(f).path, "FILE", "model (GGUF)", 0, 0},      \
        {"--threads", "-t",                                                          \
         FT_FLAG_INT, &(f).n_threads,                                                \
         "N",         "threads of either side; 0: all cores",                        \
         0,           512},                                                          \
        {"--rounds",  NULL,                                                          \
         FT_FLAG_INT, &(f).rounds,                                                   \
         "N",         "timed rounds of either side in a row at most",                \
         1,           FT_BENCH_ROUNDS_MAX},                                          \
        {"--cache-type",                                                             \
         NULL,                                                                       \
         FT_FLAG_STRING,                                                             \
         &(f).kv_name,                                                               \
         "TYPE",                                                                     \
         "how ours keeps K and V: f16, bf16 or q8_0",                                \
         0,                                                                          \
         0},                                                                         \
        {"--row-s",  NULL, FT_FLAG_FLOAT,                                            \
         &(f).row_s, "S",  "seconds after which a row begins no further round",      \
         0.01,       3600},                                                          \
        FT_DEVICE_FLAGS((f).device),                                                 \
    {                                                                                \
        "--json", NULL, FT_FLAG_BOOL, &(f).json, NULL, "print one JSON object", 0, 0 \
    }

/* Threads as the flag says, all cores for 0. */
int ft_bench_threads(const ft_bench_flags *flags);

/* A list of numbers such as "1,4,16", each from 1 to max. */
typedef struct ft_bench_list {
    uint32_t value[FT_BENCH_LIST_MAX];
    uint32_t n;
} ft_bench_list;
/* FT_INVALID names the flag. */
FT_WARN_UNUSED ft_status ft_bench_list_parse(const char *flag, const char *text, uint32_t max,
                                             ft_error *err, ft_bench_list *out);

/* A monotonic clock. */
int64_t ft_bench_now_us(void);
double ft_bench_now_s(void);
/* Processor time of this process so far. */
double ft_bench_cpu_s(void);
/* Memory that programs could still take, in bytes; 0 where the system does not say. */
size_t ft_bench_memory_free(void);
#define FT_BENCH_READ_TOK 512 /* tokens of a chunk at most */
/* Computes tokens[n] behind a sequence and keeps them, in chunks; with `want` the last one's logits are
 * row 0 then. Errors are the engine's. */
FT_WARN_UNUSED ft_status ft_bench_read(ft_engine *engine, ft_seq *seq, const int32_t *tokens,
                                       uint32_t n, bool want, ft_error *err);
/* Index of the largest of n logits. */
int32_t ft_bench_argmax(const float *logits, uint32_t n);
/* Median of n > 0 values; sorts in place. */
double ft_bench_median(double *values, uint32_t n);

/* One round of a side: the seconds of its timed part go to *seconds. */
typedef struct ft_bench_side {
    void *ctx;
    FT_WARN_UNUSED ft_status (*round)(void *ctx, double *seconds, ft_error *err);
    bool ours; /* our engine takes one thread for its first pass of a size (engine/pace.h) and needs
                  one round more to warm up */
} ft_bench_side;

#define FT_BENCH_SIDES_MAX 4

/* A round of each side to warm up, then turns (first, second, ..., first, second, ...), in which a much faster
 * side has several rounds one after another, until
 * flags->rounds of them are done, or flags->row_s is over and there is one at least. Where a warm-up
 * alone takes longer than row_s the warm-up is the one turn. Medians of a round go to median_s[n],
 * how many turns to *rounds (NULL is legal). The first failure ends it. */
FT_WARN_UNUSED ft_status ft_bench_interleave(const ft_bench_flags *flags,
                                             const ft_bench_side *sides, uint32_t n, ft_error *err,
                                             double *median_s, uint32_t *rounds);

/* What one pass of the model needs at least: all matrices of the layers and the head once, every
 * row's products with them, K and V of the contexts once, and the scores and sums of each row. */
typedef struct ft_bench_pass {
    uint32_t rows, out_rows; /* computed; of them with logits */
    uint64_t kv_tok;         /* tokens whose K and V are read, over all sequences */
    uint64_t row_tok;        /* tokens attended to, summed over rows */
    ft_kv_type kv;
} ft_bench_pass;
void ft_bench_pass_work(const ft_model *model, const ft_bench_pass *pass, ft_bench_work *out);
/* Bytes of K and V of a token. */
size_t ft_bench_kv_tok_bytes(const ft_model *model, ft_kv_type type);

/* A command: what it measures goes into `report` (an object with "model" and "threads" in it), and,
 * without --json, as a table to standard output. */
typedef struct ft_bench_cmd {
    const ft_cmd_usage *usage;
    const char *name; /* "bench verify" */
    ft_bench_flags *flags;
    void *ctx;
    FT_WARN_UNUSED ft_status (*measure)(void *ctx, const ft_model *model, json_t *report,
                                        ft_error *err);
} ft_bench_cmd;
/* Parses, loads the model, measures, prints; returns the exit status. */
int ft_bench_main(const ft_bench_cmd *cmd, int argc, char **argv);

#endif
