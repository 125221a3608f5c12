/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program under test writes to standard error between two calls. Several threads may write
 * meanwhile; the calls are one thread's. */
#ifndef FT_TEST_CAUGHT_LOG_H
#define FT_TEST_CAUGHT_LOG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct caught_log {
    FILE *file;
    int saved;
    char text[16384];
} caught_log;

static inline void caught_log_begin(caught_log *c)
{
    fflush(stderr);
    c->file = tmpfile();
    c->saved = dup(STDERR_FILENO);
    assert_true(c->file && c->saved >= 0 && dup2(fileno(c->file), STDERR_FILENO) >= 0);
}

/* Standard error is as before; `text` is what came. */
static inline void caught_log_end(caught_log *c)
{
    fflush(stderr);
    assert_true(dup2(c->saved, STDERR_FILENO) >= 0);
    close(c->saved);
    rewind(c->file);
    c->text[fread(c->text, 1, sizeof c->text - 1, c->file)] = 0;
    fclose(c->file);
}

/* How often `words` are in the text. */
static inline unsigned caught_log_count(const caught_log *c, const char *words)
{
    unsigned n = 0;
    for (const char *at = c->text; (at = strstr(at, words)); at += strlen(words))
        n++;
    return n;
}

#endif
