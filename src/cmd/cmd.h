/* SPDX-License-Identifier: Apache-2.0
 *
 * Subcommands: they read flags, call the other rooms and print text or JSON. Each returns the exit
 * status of the process: 0 done, 1 failed (one line on standard error says why), 2 bad usage. With
 * --json exactly one JSON object goes to standard output. */
#ifndef FT_CMD_CMD_H
#define FT_CMD_CMD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/flags.h"
#include "base/num.h"
#include "base/status.h"

typedef struct ft_command {
    const char *name;    /* "serve", "bench exact" */
    const char *summary; /* one line */
    const char *usage;   /* what follows the name, "FILE [flags]" */
    const char *about;   /* a paragraph for --help, which breaks its lines */
    ft_flag_group flags;
    const void *defaults; /* the options before flags are read; a struct of `size` bytes */
    size_t size;
    int min_words, max_words; /* fewer words, or more, are an error */
    bool model_word;          /* the first word names a model */
    bool service;             /* runs until it is stopped; logs from level info on */
    /* options: a copy of `defaults` with what the flags say. Returns the exit status. */
    int (*run)(void *options, int n_words, char **words);
} ft_command;

/* The fields of a command that say what its options are: its table, and a constant struct. */
#define FT_CMD_OPTIONS(rows, init) \
    .flags = FT_FLAG_ROWS(rows), .defaults = &(init), .size = sizeof(init)

/* What the table in main.c lists. */
extern const ft_command ft_cmd_serve, ft_cmd_edge, ft_cmd_run, ft_cmd_rpc_server, ft_cmd_info,
    ft_cmd_quantize, ft_cmd_model_inflate, ft_cmd_model_pack, ft_cmd_fit_verify_time, ft_cmd_trace,
    ft_cmd_record_positions, ft_cmd_train_predictor, ft_cmd_train_policy, ft_cmd_simulate_wisp,
    ft_cmd_simulate_qsv, ft_cmd_simulate_edgellm, ft_cmd_fit_runtime, ft_cmd_plan,
    ft_cmd_simulate_zhu, ft_cmd_simulate_fleet, ft_cmd_batch, ft_cmd_bench_verify,
    ft_cmd_bench_decode, ft_cmd_bench_branch, ft_cmd_bench_prefill, ft_cmd_bench_serving,
    ft_cmd_bench_capacity, ft_cmd_bench_schedule, ft_cmd_bench_sessions, ft_cmd_bench_kernels,
    ft_cmd_bench_logits, ft_cmd_bench_noise, ft_cmd_bench_ablate, ft_cmd_bench_exact,
    ft_cmd_bench_codec, ft_cmd_bench_law, ft_cmd_bench_uplink, ft_cmd_bench_memory,
    ft_cmd_bench_local, ft_cmd_bench_batch, ft_cmd_bench_fleet, ft_cmd_pull, ft_cmd_models;

/* Prints what --help of a command prints. */
void ft_cmd_help(const ft_command *command);

/* Reads the flags and runs the command; argv[1..argc) is what follows its name. Returns the exit
 * status. */
int ft_cmd_main(const ft_command *command, int argc, char **argv);

/* Size of a file, -1: there is none. */
json_int_t ft_cmd_file_bytes(const char *path);

/* "foretoken: message" on standard error; returns 1. */
int ft_cmd_fail(const ft_error *err);

/* One line of JSON on standard output; takes the reference. Returns 0, or 1 if it cannot be
 * written. */
int ft_cmd_print_json(json_t *object);

/* Writes a JSON file; who: the command, for the message; how: flags of json_dump_file. FT_IO. */
FT_WARN_UNUSED ft_status ft_cmd_write_json(const char *who, const char *path, const json_t *object,
                                           size_t how, ft_error *err);

/* Ends a command that makes a report; takes its reference. Prints the report as JSON, or calls
 * `print` (NULL: prints nothing). If status is an error, prints the error instead. Returns the exit
 * status. */
int ft_cmd_report(ft_status status, const ft_error *err, json_t *report, bool json,
                  void (*print)(const json_t *report));

/* From now on SIGINT and SIGTERM set a flag, which ft_cmd_stopped() reads, and end the waits below.
 * A second signal ends the process at once. Writing to a closed pipe, or behind a limit on files,
 * fails and does not end the process. */
void ft_cmd_catch_signals(void);
bool ft_cmd_stopped(void);
/* Clears the flag after a SIGINT, but not after a SIGTERM. */
void ft_cmd_clear_stopped(void);
/* Blocks until fd can be read (true) or a signal came (false). */
bool ft_cmd_wait_input(int fd);
/* From now on SIGHUP does not end the process. The second call blocks until a SIGHUP (true), or
 * until the process is to stop or timeout_ms are over (false); timeout_ms < 0: without limit. */
void ft_cmd_catch_hangup(void);
bool ft_cmd_wait_hangup(int timeout_ms);

/* libllama and ggml log through our log, at debug level except for errors. Called once by main. */
void ft_cmd_quiet_libraries(void);

#endif
