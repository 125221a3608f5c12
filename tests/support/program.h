/* SPDX-License-Identifier: Apache-2.0
 *
 * The program under test (FT_BINARY) as its users call it. */
#ifndef FT_TEST_PROGRAM_H
#define FT_TEST_PROGRAM_H

#include <jansson.h>

/* Runs it with these arguments, as a shell reads them; its standard error is dropped. Its standard output
 * as JSON, NULL: that is none. *status: its exit status. */
json_t *program_json(int *status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A number of an object; without one the test fails. */
double program_number(const json_t *object, const char *key);

#endif
