/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors for HTTP clients: a status and OpenAI's error object. Internal to the room.
 */
#ifndef FT_HTTP_FAIL_H
#define FT_HTTP_FAIL_H

#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"

typedef struct ft_http_fail {
    int http;         /* 0: nothing is wrong */
    const char *code; /* a literal, or NULL */
    bool constraint;  /* it takes too long to compile, or too many of the client's do */
    int64_t cpu_us;   /* of a processor, that the request took */
    char param[64];   /* the field that is wrong; "": none */
    char message[384];
    uint32_t retry_after_s; /* with 429 and 503; 0: one second */
} ft_http_fail;

/* Returns FT_INVALID, so that parsers can say `return ft_http_fail_set(...)`. param NULL: none. */
ft_status ft_http_fail_set(ft_http_fail *fail, int http, const char *code, const char *param,
                           const char *fmt, ...) FT_PRINTF(5, 6);

/* The request names another model than ours. FT_INVALID. */
ft_status ft_http_fail_model(ft_http_fail *fail, const char *asked, const char *ours);

/* Turns a backend's error into an HTTP error. */
void ft_http_fail_from(ft_http_fail *fail, ft_status status, const ft_error *err);

/* As how many refusals the answer counts, with so many bytes of its request's body (throttle.h); 0:
 * it is not the client's fault. */
uint32_t ft_http_fail_counts(const ft_http_fail *fail, uint64_t body_bytes);

/* Appends {"error":{"message","type","param","code"}}. */
ft_status ft_http_fail_json(const ft_http_fail *fail, ft_buf *out);

#endif
