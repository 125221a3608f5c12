// SPDX-License-Identifier: Apache-2.0
// From a body's bytes to JSON. What would take too much memory is refused before it is parsed. No
// state, any thread.
#include "http/body.h"

#include "base/json_file.h"

static const char *json_reason(const json_error_t *e)
{
    static const struct {
        enum json_error_code code;
        const char *text;
    } reasons[] = {
        {json_error_out_of_memory, "out of memory"},
        {json_error_stack_overflow, "it is nested too deeply"},
        {json_error_invalid_utf8, "it is not UTF-8"},
        {json_error_premature_end_of_input, "it ends too early"},
        {json_error_end_of_input_expected, "something follows its end"},
        {json_error_null_character, "it holds a NUL character, which is not accepted"},
        {json_error_null_byte_in_key, "it holds a NUL character, which is not accepted"},
        {json_error_duplicate_key, "an object holds the same key twice"},
        {json_error_numeric_overflow, "a number is too large"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].code == json_error_code(e))
            return reasons[i].text;
    return "the syntax is wrong";
}

static bool is_too_many(const ft_http_sizes *s)
{
    return s->objects > FT_HTTP_OBJECTS_MAX || s->values > FT_HTTP_VALUES_MAX;
}

/* Counts before anything is parsed, until it is too much: one value behind each '[' , '{' and ','
 * outside strings; one byte for an escape, which may stand for up to three. Returns the bytes of
 * the decoded strings, at least. */
static size_t count(const char *body, size_t n, size_t most_text_bytes, ft_http_sizes *s)
{
    size_t text_bytes = 0;
    bool text = false;
    s->values++;
    for (size_t i = 0; i < n && !is_too_many(s) && text_bytes <= most_text_bytes; i++) {
        const char c = body[i];
        if (text) {
            if (c == '\\') /* what is escaped ends no string */
                i += i + 1 < n && body[i + 1] == 'u' ? 5 : 1;
            text = c != '"';
            text_bytes += text;
        } else {
            text = c == '"';
            s->objects += c == '{';
            s->values += c == '{' || c == '[' || c == ',';
        }
    }
    return text_bytes;
}

static ft_status too_many(const char *param, ft_http_fail *fail)
{
    return ft_http_fail_set(fail, 413, "body_too_large", param,
                            "The body holds more values than this server accepts: %d objects, "
                            "%d values of all kinds.",
                            FT_HTTP_OBJECTS_MAX, FT_HTTP_VALUES_MAX);
}

ft_status ft_http_body_add(const char *text, size_t n, const char *param, ft_http_sizes *sum,
                           ft_http_fail *fail)
{
    (void)count(text, n, SIZE_MAX, sum);
    return is_too_many(sum) ? too_many(param, fail) : FT_OK;
}

/* Parsing costs about ten times as much as counting: what has too much is refused before that. */
static ft_status check_sizes(const char *body, size_t n, const char *text, size_t most_bytes,
                             ft_http_fail *fail)
{
    const size_t most = most_bytes < (SIZE_MAX - FT_HTTP_OTHER_BYTES) / 2
                            ? 2 * most_bytes + FT_HTTP_OTHER_BYTES /* a prediction is text, too */
                            : SIZE_MAX;
    ft_http_sizes sizes = {0};
    const size_t text_bytes = count(body, n, most, &sizes);
    if (is_too_many(&sizes))
        return too_many(NULL, fail);
    if (text_bytes <= most)
        return FT_OK;
    return ft_http_fail_set(fail, 400, "context_length_exceeded", text,
                            "The body's strings have more than %zu bytes, and the model's context "
                            "holds %zu at most: shorten the text.",
                            most, most_bytes);
}

ft_status ft_http_body_read(const char *body, size_t n, const char *text, size_t most_bytes,
                            ft_http_fail *fail, json_t **out)
{
    json_error_t e;
    *out = NULL;
    if (n == 0)
        return ft_http_fail_set(fail, 400, "invalid_json", NULL,
                                "The request has no body: a JSON object was expected.");
    if (check_sizes(body, n, text, most_bytes, fail) != FT_OK)
        return FT_INVALID;
    ft_status status = ft_json_read(body, n, &e, out);
    if (status == FT_NOMEM) {
        ft_http_fail_from(fail, status, NULL);
        return status;
    }
    if (status != FT_OK)
        return ft_http_fail_set(fail, 400, "invalid_json", NULL,
                                "The body is not valid JSON, at line %d, column %d: %s.", e.line,
                                e.column, json_reason(&e));
    if (json_is_object(*out))
        return FT_OK;
    json_decref(*out);
    *out = NULL;
    return ft_http_fail_set(fail, 400, "invalid_json", NULL, "The body must be a JSON object.");
}
