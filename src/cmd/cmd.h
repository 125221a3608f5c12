/* SPDX-License-Identifier: Apache-2.0
 *
 * Subcommands: flags in, modules called, text or JSON out. Each returns the process's exit status:
 * 0 done, 1 failed (one line on standard error says why), 2 bad usage. With --json exactly one JSON
 * object goes to standard output. argv[0] is the subcommand's name.
 */
#ifndef FT_CMD_CMD_H
#define FT_CMD_CMD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/flags.h"
#include "base/status.h"

typedef struct ft_cmd {
    const char *name;    /* "serve", "bench exact" */
    const char *summary; /* one line */
    int (*run)(int argc, char **argv);
} ft_cmd;

int ft_cmd_info(int argc, char **argv);
int ft_cmd_quantize(int argc, char **argv);
int ft_cmd_serve(int argc, char **argv);
int ft_cmd_edge(int argc, char **argv);
int ft_cmd_run(int argc, char **argv);
int ft_cmd_bench_exact(int argc, char **argv);
int ft_cmd_bench_decode(int argc, char **argv);
int ft_cmd_bench_logits(int argc, char **argv);
int ft_cmd_bench_noise(int argc, char **argv);

#define FT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Handles --help and parsing. Returns -1 to go on, else the exit status. usage: "info FILE [flags]";
 * about: a paragraph for --help. Words are then argv[1..*n_words]; more than max_words is an error. */
int ft_cmd_parse(const char *usage, const char *about, const ft_flag *flags, size_t n_flags,
                 int argc, char **argv, int max_words, int *n_words);

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

/* libllama and ggml log through our log, at debug level except for errors. Called once by main. */
void ft_cmd_quiet_libraries(void);

#endif
