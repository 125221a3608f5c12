/* SPDX-License-Identifier: Apache-2.0
 *
 * In which line of a JSON text a value is, for messages to people. Pure; any thread. Inside the
 * room. */
#ifndef FT_PLAN_WHERE_H
#define FT_PLAN_WHERE_H

#include <stddef.h>

/* One step from a value to a value in it. */
typedef struct ft_plan_step {
    const char *key; /* of an object; NULL: an array's item `index` */
    size_t index;
} ft_plan_step;

/* The line, from 1, of the value that the steps lead to; where one of them leads nowhere, of the
 * last one that they reached. The text is JSON that a parser has taken, and ends with a NUL. */
size_t ft_plan_line(const char *text, const ft_plan_step *steps, size_t n);

#endif
