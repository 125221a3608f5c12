/* SPDX-License-Identifier: Apache-2.0
 *
 * Command-line flags as constant tables: name, place in an options struct, range, help. Parser,
 * --help and completion read the same tables, so every flag in the help works. A flag writes into
 * the field that uses the value, which may lie in a struct of another room. A table may include
 * another table, whose struct is a part of its own struct.
 */
#ifndef FT_BASE_FLAGS_H
#define FT_BASE_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

typedef enum ft_flag_kind {
    FT_FLAG_BOOL,   /* bool; takes no value; also --no-NAME */
    FT_FLAG_SWITCH, /* ft_switch; the same, and neither of the two can be told */
    FT_FLAG_INT,    /* int64_t, within [min, max] */
    FT_FLAG_INT32,  /* int32_t; min and max must be given and fit, here and in UINT32 */
    FT_FLAG_UINT32, /* uint32_t */
    FT_FLAG_FLOAT,  /* double, within [min, max] */
    FT_FLAG_SINGLE, /* float, within [min, max] */
    FT_FLAG_CHOICE, /* an enum that counts from 0, as large as unsigned; one of `choices` */
    FT_FLAG_STRING, /* const char *; borrowed from argv */
    FT_FLAG_LIST,   /* ft_flag_list: the flag may be repeated */
    FT_FLAG_GROUP   /* not a flag: all rows of another table */
} ft_flag_kind;

typedef enum ft_switch { FT_SWITCH_NONE, FT_SWITCH_ON, FT_SWITCH_OFF } ft_switch;

#define FT_FLAG_LIST_MAX 64
typedef struct ft_flag_list {
    const char *item[FT_FLAG_LIST_MAX]; /* borrowed from argv */
    size_t n;
} ft_flag_list;

typedef struct ft_flag_group ft_flag_group;

typedef struct ft_flag {
    const char *name;  /* "--ctx-size" */
    const char *alias; /* "-c", or NULL */
    ft_flag_kind kind;
    size_t at;                  /* offset of the destination in the table's struct, bytes */
    const char *value;          /* the value's name in help, "N" */
    const char *help;           /* one line, its unit included */
    double min, max;            /* of numbers; both 0: no limits */
    const ft_flag_group *group; /* GROUP: the other table; its struct lies at `at` */
    const char *const *choices; /* CHOICE: the names of the enum's values; ends with NULL */
    bool required;              /* STRING: the command needs it */
    bool model;                 /* STRING: names a model; a command turns it into a path */
    bool plot; /* STRING: a plot's file; base/plot.h checks it before a command runs */
} ft_flag;

struct ft_flag_group {
    const ft_flag *flags; /* [n] */
    size_t n;
};

/* clang-format off */
/* Kind and place of a flag that is stored in a field of a struct, as in
 * {"--port", NULL, FT_FLAG(serve_flags, port), "N", "port to listen on", 0, 65535}. */
#define FT_FLAG(type, field) .kind = FT_FLAG_KIND(((type *)0)->field), .at = offsetof(type, field)
#define FT_FLAG_KIND(x) _Generic((x), bool: FT_FLAG_BOOL, int64_t: FT_FLAG_INT, \
    int32_t: FT_FLAG_INT32, uint32_t: FT_FLAG_UINT32, double: FT_FLAG_FLOAT, \
    float: FT_FLAG_SINGLE, const char *: FT_FLAG_STRING, ft_flag_list: FT_FLAG_LIST)
/* The same of a field that is an ft_switch; of one that is another enum. */
#define FT_FLAG_ON_OFF(type, field) .kind = FT_FLAG_SWITCH, .at = offsetof(type, field)
#define FT_FLAG_ENUM(type, field, names) \
    .choices = (names), .kind = FT_FLAG_CHOICE, .at = offsetof(type, field)
/* A row that includes the rows of `table`, whose struct is a field of this table's. */
#define FT_FLAG_INCLUDE(type, field, table) \
    {.kind = FT_FLAG_GROUP, .at = offsetof(type, field), .group = &(table)}
/* A group of all rows of an array. */
#define FT_FLAG_ROWS(rows) {(rows), sizeof(rows) / sizeof((rows)[0])}
/* clang-format on */

/* Parses argv[1..argc), which ends with a NULL, into `opts`: a struct of the group that already
 * holds the defaults. Accepts `--name value`, `--name=value` and `-x value`. Words that are not
 * flags are moved, in order, to argv[1..*n_words]; after `--` everything is a word. --help is not
 * handled here. FT_INVALID names the flag and the reason, also of a required flag that is
 * missing. */
FT_WARN_UNUSED ft_status ft_flags_parse(const ft_flag_group *flags, void *opts, int argc,
                                        char **argv, ft_error *err, int *n_words);

/* True if --help or -h is among the arguments before any `--`. */
bool ft_flags_want_help(int argc, char **argv);

/* Prints the table; defaults: a struct of the group with the default values. */
void ft_flags_help(FILE *out, const ft_flag_group *flags, const void *defaults);

/* Flag i in the order of the table, with the flags of included tables; NULL: there are no more.
 * *at: the offset of its destination in the struct of the whole group. */
const ft_flag *ft_flags_nth(const ft_flag_group *flags, size_t i, size_t *at);

#endif
