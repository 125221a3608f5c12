// SPDX-License-Identifier: Apache-2.0
// A growable byte buffer. Owned by one thread; no other state.
#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ft_buf_deinit(ft_buf *buf)
{
    free(buf->data);
    *buf = (ft_buf){0};
}

void ft_buf_clear(ft_buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data)
        buf->data[0] = 0;
}

ft_status ft_buf_reserve(ft_buf *buf, size_t n)
{
    if (n > SIZE_MAX / 2 - buf->len - 1)
        goto failed;
    size_t need = buf->len + n + 1;
    if (need <= buf->cap)
        return FT_OK;
    size_t cap = buf->cap ? buf->cap : 64;
    while (cap < need)
        cap *= 2;
    char *data = realloc(buf->data, cap);
    if (!data)
        goto failed;
    buf->data = data;
    buf->cap = cap;
    buf->data[buf->len] = 0; /* a string, even if nothing is appended */
    return FT_OK;
failed:
    buf->failed = true;
    return FT_NOMEM;
}

ft_status ft_buf_append(ft_buf *buf, const void *data, size_t n)
{
    ft_status status = ft_buf_reserve(buf, n);
    if (status != FT_OK)
        return status;
    if (n)
        memcpy(buf->data + buf->len, data, n);
    buf->len += n;
    buf->data[buf->len] = 0;
    return FT_OK;
}

ft_status ft_buf_puts(ft_buf *buf, const char *text)
{
    return ft_buf_append(buf, text, strlen(text));
}

ft_status ft_buf_printf(ft_buf *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        buf->failed = true;
        return FT_INTERNAL;
    }
    ft_status status = ft_buf_reserve(buf, (size_t)n);
    if (status != FT_OK)
        return status;
    va_start(args, fmt);
    vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt, args);
    va_end(args);
    buf->len += (size_t)n;
    return FT_OK;
}

void ft_buf_shift(ft_buf *buf, size_t n)
{
    if (n == 0)
        return;
    memmove(buf->data, buf->data + n, buf->len - n + 1);
    buf->len -= n;
}

const char *ft_buf_str(const ft_buf *buf)
{
    return buf->data ? buf->data : "";
}
