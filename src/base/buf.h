/* SPDX-License-Identifier: Apache-2.0
 *
 * A growable byte buffer. A NUL byte follows the contents as soon as something is written, so
 * it can build strings. Owned by one thread. A failed append leaves the contents unchanged and sets
 * `failed`, so a series of appends needs one check, at its end.
 */
#ifndef FT_BASE_BUF_H
#define FT_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct ft_buf {
    char *data; /* [len + 1], NULL while empty */
    size_t len;
    size_t cap;
    bool failed; /* there was no memory for an append */
} ft_buf;

/* All-zero is a valid empty buffer. */
void ft_buf_deinit(ft_buf *buf);
/* Sets the length to 0; keeps the memory. */
void ft_buf_clear(ft_buf *buf);
/* Reserves room for n more bytes. FT_NOMEM. */
ft_status ft_buf_reserve(ft_buf *buf, size_t n);
ft_status ft_buf_append(ft_buf *buf, const void *data, size_t n);
ft_status ft_buf_puts(ft_buf *buf, const char *text);
ft_status ft_buf_printf(ft_buf *buf, const char *fmt, ...) FT_PRINTF(2, 3);
/* Drops the first n bytes (n <= len). */
void ft_buf_shift(ft_buf *buf, size_t n);
/* The bytes as a string; "" when empty. Borrowed until the next change. */
const char *ft_buf_str(const ft_buf *buf);

#endif
