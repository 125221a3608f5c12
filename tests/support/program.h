/* SPDX-License-Identifier: Apache-2.0
 *
 * The program under test (FT_BINARY) as its users call it. */
#ifndef FT_TEST_PROGRAM_H
#define FT_TEST_PROGRAM_H

#include <jansson.h>
#include <stdio.h>
#include <sys/types.h>

/* Runs it with these arguments, as a shell reads them; its standard error is dropped. Its standard
 * output as JSON, NULL: that is none. *status: its exit status. */
json_t *program_json(int *status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Runs it in the same way. It must fail, and its standard error must have `said`. */
void program_refuses(const char *said, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A number of an object; without one the test fails. */
double program_number(const json_t *object, const char *key);

/* One that runs beside the test. What it says, on standard output and error, can be read from
 * `out`. */
typedef struct program {
    pid_t pid;
    FILE *out;
} program;

/* args: NULL at the end. It logs from info on. */
program program_start(const char *const *args);
/* Reads what it says until a line has `mark`, and returns the number behind `before` that follows:
 * a port. -1: it ended without saying so. */
int program_wait_number(program *p, const char *mark, const char *before);
/* The port behind 127.0.0.1. */
int program_wait_port(program *p, const char *mark);
/* The exit status; 128 and more: a signal. */
int program_wait_end(program *p);
/* The same after SIGTERM. */
int program_stop(program *p);

#endif
