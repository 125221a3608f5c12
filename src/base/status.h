/* SPDX-License-Identifier: Apache-2.0
 *
 * Status codes and error details of the whole project. One X-macro gives each code its name, its
 * gRPC code and its HTTP code. A function that can fail returns an ft_status, and writes a message
 * for people into the caller's ft_error (which may be NULL).
 */
#ifndef FT_BASE_STATUS_H
#define FT_BASE_STATUS_H

#include <stdarg.h>

/* X(NAME, text, gRPC code, HTTP code) */
#define FT_STATUS_MAP(X)                           \
    X(OK, "ok", 0, 200)                            \
    X(CANCELLED, "cancelled", 1, 499)              \
    X(INVALID, "invalid argument", 3, 400)         \
    X(TIMEOUT, "timed out", 4, 504)                \
    X(NOT_FOUND, "not found", 5, 404)              \
    X(FORBIDDEN, "forbidden", 7, 403)              \
    X(EXHAUSTED, "resource exhausted", 8, 429)     \
    X(PRECONDITION, "precondition failed", 9, 412) \
    X(ABORTED, "aborted", 10, 409)                 \
    X(TOO_LARGE, "too large", 11, 413)             \
    X(UNSUPPORTED, "unsupported", 12, 501)         \
    X(INTERNAL, "internal error", 13, 500)         \
    X(UNAVAILABLE, "unavailable", 14, 503)         \
    X(CORRUPT, "corrupt data", 15, 422)            \
    X(UNAUTHENTICATED, "unauthenticated", 16, 401) \
    X(IO, "input/output error", 2, 500)            \
    X(NOMEM, "out of memory", 8, 503)

typedef enum ft_status {
#define FT_STATUS_ENUM(name, text, grpc, http) FT_##name,
    FT_STATUS_MAP(FT_STATUS_ENUM)
#undef FT_STATUS_ENUM
        FT_STATUS_COUNT
} ft_status;

#define FT_WARN_UNUSED  __attribute__((warn_unused_result))
#define FT_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* What went wrong, where, and what to do: one line of UTF-8, no newline, always terminated. */
typedef struct ft_error {
    ft_status code;
    char message[384];
} ft_error;

/* Writes code and message into err (NULL: nothing) and returns code, so that callers can say
 * `return ft_error_set(err, FT_INVALID, "...")`. */
ft_status ft_error_set(ft_error *err, ft_status code, const char *fmt, ...) FT_PRINTF(3, 4);
ft_status ft_error_setv(ft_error *err, ft_status code, const char *fmt, va_list args);

/* Texts ("invalid argument"), names ("INVALID"), gRPC and HTTP codes. Defined for every value. */
const char *ft_status_text(ft_status code);
const char *ft_status_name(ft_status code);
int ft_status_grpc(ft_status code);
int ft_status_http(ft_status code);

/* The first status of the list that has this gRPC code; FT_INTERNAL for an unknown code. */
ft_status ft_status_from_grpc(int grpc_code);

#endif
