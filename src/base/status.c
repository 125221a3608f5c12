// SPDX-License-Identifier: Apache-2.0
// Status codes, their texts and numbers, and error details. No state.
#include "base/status.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

typedef struct {
    const char *name;
    const char *text;
    int grpc;
    int http;
} status_row;

static const status_row rows[FT_STATUS_COUNT] = {
#define FT_STATUS_ROW(name, text, grpc, http) {#name, text, grpc, http},
    FT_STATUS_MAP(FT_STATUS_ROW)
#undef FT_STATUS_ROW
};

static const status_row *row_of(ft_status code)
{
    return (unsigned)code < FT_STATUS_COUNT ? &rows[code] : &rows[FT_INTERNAL];
}

ft_status ft_error_setv(ft_error *err, ft_status code, const char *fmt, va_list args)
{
    if (err) {
        err->code = code;
        char message[sizeof err->message]; /* the arguments may quote err->message itself */
        if (vsnprintf(message, sizeof message, fmt, args) < 0)
            message[0] = 0;
        ft_utf8_line(message); /* it may quote what came from outside */
        memcpy(err->message, message, strlen(message) + 1);
    }
    return code;
}

ft_status ft_error_set(ft_error *err, ft_status code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    ft_error_setv(err, code, fmt, args);
    va_end(args);
    return code;
}

const char *ft_status_text(ft_status code)
{
    return row_of(code)->text;
}

const char *ft_status_name(ft_status code)
{
    return row_of(code)->name;
}

int ft_status_grpc(ft_status code)
{
    return row_of(code)->grpc;
}

int ft_status_http(ft_status code)
{
    return row_of(code)->http;
}

ft_status ft_status_from_grpc(int grpc_code)
{
    for (int i = 0; i < FT_STATUS_COUNT; i++)
        if (rows[i].grpc == grpc_code)
            return (ft_status)i;
    return FT_INTERNAL;
}
