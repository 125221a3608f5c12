// SPDX-License-Identifier: Apache-2.0
// Dimmed text by the control sequences that all terminals since the VT100 know. Invariant: `shown`
// is what stands behind the cursor.
#include "cmd/dimmed.h"

#include <string.h>

#include "base/text.h"

/* Between "remember the cursor, and do not continue on the next line" and their opposites. */
#define BEFORE "\0337\033[K\033[?7l\033[2m"
#define BEHIND "\033[0m\033[?7h\0338"

void ft_dimmed_show(ft_dimmed *d, const char *text, size_t n)
{
    ft_buf line = {0};
    const char *end = memchr(text, '\n', n);
    if (end == text || n == 0) {
        ft_dimmed_erase(d);
        return;
    }
    if (ft_buf_append(&line, text, end ? (size_t)(end - text) : n) != FT_OK)
        return; /* what is shown stays */
    ft_utf8_line(line.data);
    if (strcmp(line.data, ft_buf_str(&d->shown)) != 0) {
        fprintf(d->out, BEFORE "%s" BEHIND, line.data);
        fflush(d->out);
    }
    ft_buf_deinit(&d->shown);
    d->shown = line;
}

void ft_dimmed_erase(ft_dimmed *d)
{
    if (d->shown.len == 0)
        return;
    fputs("\033[K", d->out);
    ft_buf_clear(&d->shown);
}

void ft_dimmed_deinit(ft_dimmed *d)
{
    ft_dimmed_erase(d);
    ft_buf_deinit(&d->shown);
}
