// SPDX-License-Identifier: Apache-2.0
// Error objects in OpenAI's shape. Official clients choose their exception by the HTTP status and
// show `message`; `type` and `code` are for programs. No state.
#include "http/fail.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "http/json.h"

static const char *type_of(int http)
{
    if (http >= 500)
        return "server_error";
    return http == 429 ? "rate_limit_error" : "invalid_request_error";
}

ft_status ft_http_fail_set(ft_http_fail *fail, int http, const char *code, const char *param,
                           const char *fmt, ...)
{
    va_list args;
    fail->http = http;
    fail->code = code;
    snprintf(fail->param, sizeof fail->param, "%s", param ? param : "");
    va_start(args, fmt);
    vsnprintf(fail->message, sizeof fail->message, fmt, args);
    va_end(args);
    return FT_INVALID;
}

void ft_http_fail_from(ft_http_fail *fail, ft_status status, const ft_error *err)
{
    int http = ft_status_http(status);
    const char *code = NULL;
    switch (status) {
    case FT_TOO_LARGE: /* what OpenAI answers to a prompt that is longer than the context */
        http = 400;
        code = "context_length_exceeded";
        break;
    case FT_UNSUPPORTED:
        http = 400;
        code = "unsupported_parameter";
        break;
    case FT_UNAUTHENTICATED:        /* the server's word on the credential of this client */
        code = "not_authenticated"; /* or, behind an edge, the edge's */
        break;
    case FT_FORBIDDEN:
        code = "permission_denied";
        break;
    case FT_PRECONDITION: /* edge and server do not fit each other */
        http = 502;
        code = "upstream_refused";
        break;
    case FT_NOT_FOUND: /* nothing that this client named */
    case FT_CORRUPT:
        http = 500;
        break;
    case FT_EXHAUSTED:
        code = "rate_limit_exceeded";
        break;
    case FT_CANCELLED:
    case FT_ABORTED:
    case FT_UNAVAILABLE:
    case FT_NOMEM:
        http = 503;
        code = "unavailable";
        break;
    default:
        break;
    }
    const char *message = err && err->message[0] ? err->message : ft_status_text(status);
    ft_http_fail_set(fail, http, code, NULL, "%s", message);
}

ft_status ft_http_fail_json(const ft_http_fail *fail, ft_buf *out)
{
    json_t *message = ft_http_json_text(fail->message, strlen(fail->message));
    json_t *root = json_pack("{s:{s:o,s:s,s:s?,s:s?}}", "error", "message", message, "type",
                             type_of(fail->http), "param", fail->param[0] ? fail->param : NULL,
                             "code", fail->code);
    return ft_http_json_append(root, out);
}
