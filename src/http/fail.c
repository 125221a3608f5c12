// SPDX-License-Identifier: Apache-2.0
// Error objects as OpenAI's API has them. Official clients choose the exception by the HTTP status
// and show `message`; `type` and `code` are for programs. No state.
#include "http/fail.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/throttle.h"
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
    fail->constraint = false;
    snprintf(fail->param, sizeof fail->param, "%s", param ? param : "");
    va_start(args, fmt);
    vsnprintf(fail->message, sizeof fail->message, fmt, args);
    va_end(args);
    return FT_INVALID;
}

ft_status ft_http_fail_model(ft_http_fail *fail, const char *asked, const char *ours)
{
    return ft_http_fail_set(fail, 404, "model_not_found", "model",
                            "The model '%.64s' does not exist here: this server has '%.128s'.",
                            asked, ours);
}

/* What differs from the status's own HTTP code, or has a code for programs. http 0: the same. */
static const struct {
    ft_status status;
    int http;
    const char *code;
} answers[] = {
    {FT_TOO_LARGE, 400, "context_length_exceeded"}, /* as OpenAI answers to such a prompt */
    {FT_UNSUPPORTED, 400, "unsupported_parameter"},
    {FT_UNAUTHENTICATED, 0, "not_authenticated"}, /* said by the server, of the client's credential
                                                     or, behind an edge, of the edge's */
    {FT_FORBIDDEN, 0, "permission_denied"},
    {FT_PRECONDITION, 502, "upstream_refused"}, /* edge and server do not fit each other */
    {FT_NOT_FOUND, 500, NULL},                  /* nothing that this client named */
    {FT_CORRUPT, 500, NULL},
    {FT_EXHAUSTED, 0, "rate_limit_exceeded"},
    {FT_CANCELLED, 503, "unavailable"},
    {FT_ABORTED, 503, "unavailable"},
    {FT_UNAVAILABLE, 503, "unavailable"},
    {FT_NOMEM, 503, "unavailable"},
};

void ft_http_fail_from(ft_http_fail *fail, ft_status status, const ft_error *err)
{
    const char *message = err && err->message[0] ? err->message : ft_status_text(status);
    ft_http_fail_set(fail, ft_status_http(status), NULL, NULL, "%s", message);
    fail->constraint = status == FT_ABORTED;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (answers[i].status == status) {
            fail->http = answers[i].http ? answers[i].http : fail->http;
            fail->code = answers[i].code;
        }
}

/* As how many a refusal counts whose constraint was not to be had: it comes behind all that a text
 * needs to begin. With a tenth, the slowest of a hundred pieces of others' texts take 1.1 times as
 * long (tests/chaos/run attack:regexes). */
#define CONSTRAINT_REFUSALS 10

uint32_t ft_http_fail_counts(const ft_http_fail *fail, uint64_t body_bytes)
{
    if (!ft_throttle_counts(fail->http) && !fail->constraint)
        return 0;
    return (fail->constraint ? CONSTRAINT_REFUSALS : 1) + ft_throttle_of_bytes(body_bytes) +
           ft_throttle_of_us(fail->cpu_us);
}

ft_status ft_http_fail_json(const ft_http_fail *fail, ft_buf *out)
{
    json_t *message = ft_http_json_text(fail->message, strlen(fail->message));
    json_t *param = fail->param[0] ? ft_http_json_text(fail->param, strlen(fail->param))
                                   : json_null(); /* a long name may be cut in a character */
    json_t *root = json_pack("{s:{s:o,s:s,s:o,s:s?}}", "error", "message", message, "type",
                             type_of(fail->http), "param", param, "code", fail->code);
    return ft_http_json_append(root, out);
}
