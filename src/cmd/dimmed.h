/* SPDX-License-Identifier: Apache-2.0
 *
 * Dimmed text behind the cursor of a terminal: what may come next. The cursor stays where it is. It
 * has one line at most, and ends where the terminal's line ends. Owned by the thread that writes to
 * the terminal.
 */
#ifndef FT_CMD_DIMMED_H
#define FT_CMD_DIMMED_H

#include <stdio.h>

#include "base/buf.h"

typedef struct ft_dimmed {
    FILE *out;    /* a terminal, borrowed */
    ft_buf shown; /* empty: nothing is shown */
} ft_dimmed;

/* Shows the text up to its first newline instead of what was shown before. */
void ft_dimmed_show(ft_dimmed *d, const char *text, size_t n);
/* Call before other text is written. */
void ft_dimmed_erase(ft_dimmed *d);
/* Erases, and frees its memory. */
void ft_dimmed_deinit(ft_dimmed *d);

#endif
