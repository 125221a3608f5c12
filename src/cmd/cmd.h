/* SPDX-License-Identifier: Apache-2.0
 *
 * Subcommands: flags in, modules called, text or JSON out. Each returns the process's exit status:
 * 0 done, 1 failed (one line on standard error says why), 2 bad usage. With --json exactly one JSON
 * object goes to standard output.
 */
#ifndef FT_CMD_CMD_H
#define FT_CMD_CMD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/flags.h"
#include "base/status.h"
#include "engine/engine.h"

typedef struct ft_cmd {
    const char *name;    /* "serve", "bench exact" */
    const char *summary; /* one line */
    int (*run)(int argc, char **argv);
} ft_cmd;

/* The subcommands, as the table in main.c lists them. argv[0] is the subcommand's name, the flags and
 * words are what follows; the return value is the exit status. */
int ft_cmd_info(int argc, char **argv);
int ft_cmd_rpc_server(int argc, char **argv);
int ft_cmd_quantize(int argc, char **argv);
int ft_cmd_model_inflate(int argc, char **argv);
int ft_cmd_fit_verify_time(int argc, char **argv);
int ft_cmd_train_predictor(int argc, char **argv);
int ft_cmd_simulate_wisp(int argc, char **argv);
int ft_cmd_serve(int argc, char **argv);
int ft_cmd_edge(int argc, char **argv);
int ft_cmd_run(int argc, char **argv);
int ft_cmd_trace(int argc, char **argv);
int ft_cmd_bench_exact(int argc, char **argv);
int ft_cmd_bench_decode(int argc, char **argv);
int ft_cmd_bench_verify(int argc, char **argv);
int ft_cmd_bench_kernels(int argc, char **argv);
int ft_cmd_bench_prefill(int argc, char **argv);
int ft_cmd_bench_logits(int argc, char **argv);
int ft_cmd_bench_serving(int argc, char **argv);
int ft_cmd_bench_capacity(int argc, char **argv);
int ft_cmd_bench_schedule(int argc, char **argv);
int ft_cmd_bench_noise(int argc, char **argv);

#define FT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct ft_cmd_usage {
    const char *usage;    /* "info FILE [flags]" */
    const char *about;    /* a paragraph for --help */
    const ft_flag *flags; /* [n_flags] */
    size_t n_flags;
    int max_words; /* more words than these are an error */
} ft_cmd_usage;

/* Handles --help and parsing. Returns -1 to go on, else the exit status. Words are then
 * argv[1..*n_words]. */
int ft_cmd_parse(const ft_cmd_usage *usage, int argc, char **argv, int *n_words);

/* "foretoken: message" on standard error; returns 1. */
int ft_cmd_fail(const ft_error *err);

/* One line of JSON on standard output; takes the reference. Returns 0, or 1 if it cannot be written. */
int ft_cmd_print_json(json_t *object);

/* SIGINT and SIGTERM set a flag that ft_cmd_stopped() reads and interrupt blocking waits; a second
 * signal ends the process at once. */
void ft_cmd_catch_signals(void);
bool ft_cmd_stopped(void);
/* Takes a SIGINT back: the next one is again a first. A SIGTERM stays. */
void ft_cmd_clear_stopped(void);
/* Blocks until fd can be read (true) or a signal came (false). */
bool ft_cmd_wait_input(int fd);
/* Blocks until a signal. */
void ft_cmd_wait_stopped(void);
/* From now on SIGHUP does not end the process but is waited for by the next call, which blocks until one comes
 * (true) or the process is to stop (false). */
void ft_cmd_catch_hangup(void);
bool ft_cmd_wait_hangup(void);

/* libllama and ggml log through our log, at debug level except for errors. Called once by main. */
void ft_cmd_quiet_libraries(void);

/* "f16", "bf16" or "q8_0", as --cache-type has it. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_cmd_kv_type(const char *name, ft_error *err, ft_kv_type *out);

#endif
