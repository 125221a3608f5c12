/* SPDX-License-Identifier: Apache-2.0
 *
 * Command-line flags as a table: name, destination, range, help. Parsing and --help read the same
 * table, so every flag that help shows works.
 */
#ifndef FT_BASE_FLAGS_H
#define FT_BASE_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

typedef enum ft_flag_kind {
    FT_FLAG_BOOL,   /* bool *; takes no value; also --no-NAME */
    FT_FLAG_INT,    /* int64_t *, within [min, max] */
    FT_FLAG_FLOAT,  /* double *, within [min, max] */
    FT_FLAG_STRING, /* const char **; borrowed from argv */
    FT_FLAG_LIST    /* ft_flag_list *: the flag may be repeated */
} ft_flag_kind;

#define FT_FLAG_LIST_MAX 64
typedef struct ft_flag_list {
    const char *item[FT_FLAG_LIST_MAX]; /* borrowed from argv */
    size_t n;
} ft_flag_list;

typedef struct ft_flag {
    const char *name;  /* "--ctx-size" */
    const char *alias; /* "-c", or NULL */
    ft_flag_kind kind;
    void *dest;        /* holds the default before parsing */
    const char *value; /* the value's name in help, "N" */
    const char *help;  /* one line, its unit included */
    double min, max;   /* INT and FLOAT; both 0: no limits */
} ft_flag;

/* Parses argv[1..argc). Accepts `--name value`, `--name=value` and `-x value`. Words that are no
 * flags are moved, in order, to argv[1..*n_words]; after `--` everything is a word. --help is not
 * special here. FT_INVALID says which flag and why. */
FT_WARN_UNUSED ft_status ft_flags_parse(const ft_flag *flags, size_t n_flags, int argc, char **argv,
                                        ft_error *err, int *n_words);

/* True if --help or -h is among the arguments before any `--`. */
bool ft_flags_want_help(int argc, char **argv);

/* Prints the table with defaults. */
void ft_flags_help(FILE *out, const ft_flag *flags, size_t n_flags);

#endif
