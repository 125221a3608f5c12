// SPDX-License-Identifier: Apache-2.0
// Answers and their records. A journal may have been edited, or belong to something else: each line
// is checked in full, and against the lines before it. No state.
#include "edge/batch_answers.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "learn/fields.h"

#define KIND      "foretoken batch journal"
#define VERSION   1
#define CLOCK_MAX 1e9 /* seconds */
#define IDS_MAX   (1u << 24)

static const char *const finish_name[] = {
    [FT_FINISH_NONE] = "none", [FT_FINISH_STOP] = "stop", [FT_FINISH_LENGTH] = "length"};

ft_status ft_task_answers_init(ft_task_answers *a, size_t n, ft_error *err)
{
    *a = (ft_task_answers){.answer = calloc(n, sizeof *a->answer), .n = n};
    return a->answer ? FT_OK : ft_error_set(err, FT_NOMEM, "batch: out of memory");
}

void ft_task_answers_deinit(ft_task_answers *a)
{
    for (size_t i = 0; a->answer && i < a->n; i++) {
        ft_tokens_deinit(&a->answer[i].ids);
        free(a->answer[i].text);
    }
    free(a->answer);
    *a = (ft_task_answers){0};
}

/* ---- writing ---- */

static int append(const char *data, size_t n, void *ctx)
{
    return ft_buf_append(ctx, data, n) == FT_OK ? 0 : -1;
}

/* Takes the object; appends it as a line. */
static ft_status write_line(json_t *object, ft_buf *out)
{
    const size_t before = out->len;
    bool failed = !object || json_dump_callback(object, append, out,
                                                JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0;
    json_decref(object);
    failed |= out->failed || ft_buf_puts(out, "\n") != FT_OK;
    if (!failed)
        return FT_OK;
    out->len = before;
    out->failed = true;
    return FT_NOMEM;
}

ft_status ft_task_write_header(const ft_task_answers *a, const ft_task_set *set, ft_buf *out)
{
    char tasks[24], settings[24];
    snprintf(tasks, sizeof tasks, "%016" PRIx64, set->tasks);
    snprintf(settings, sizeof settings, "%016" PRIx64, set->settings);
    return write_line(json_pack("{s:s, s:i, s:s, s:s, s:I}", "kind", KIND, "version", VERSION,
                                "tasks", tasks, "settings", settings, "n", (json_int_t)a->n),
                      out);
}

ft_status ft_task_write_ids(const ft_task_answers *a, size_t task, size_t at, ft_buf *out)
{
    const ft_task_answer *answer = &a->answer[task];
    json_t *ids = json_array();
    for (size_t i = at; i < answer->ids.n; i++)
        if (json_array_append_new(ids, json_integer(answer->ids.id[i])) != 0) {
            json_decref(ids);
            out->failed = true;
            return FT_NOMEM;
        }
    return write_line(json_pack("{s:I, s:I, s:o, s:f, s:f}", "task", (json_int_t)task, "at",
                                (json_int_t)at, "ids", ids, "ttft_s", answer->ttft_s, "clock_s",
                                a->clock_s),
                      out);
}

/* The fields that record and output share. */
static json_t *done_json(const ft_task_answer *answer)
{
    return json_pack("{s:s, s:s, s:I, s:f, s:f}", "text", answer->text, "finish",
                     finish_name[answer->finish], "tokens", (json_int_t)answer->tokens, "ttft_s",
                     answer->ttft_s, "total_s", answer->total_s);
}

ft_status ft_task_write_done(const ft_task_answers *a, size_t task, ft_buf *out)
{
    json_t *line = json_pack("{s:I}", "task", (json_int_t)task);
    json_t *rest = done_json(&a->answer[task]);
    json_t *clock = json_real(a->clock_s);
    if (!line || !rest || !clock || json_object_update(line, rest) != 0 ||
        json_object_set(line, "clock_s", clock) != 0) {
        json_decref(line);
        line = NULL;
    }
    json_decref(rest);
    json_decref(clock);
    return write_line(line, out);
}

ft_status ft_task_write_output(const ft_task_answer *answer, const char *id, ft_buf *out)
{
    json_t *line = json_pack("{s:s}", "id", id), *rest = done_json(answer);
    if (!line || !rest || json_object_update(line, rest) != 0) {
        json_decref(line);
        line = NULL;
    }
    json_decref(rest);
    return write_line(line, out);
}

/* ---- reading ---- */

/* A line under way. */
typedef struct reader {
    ft_task_answers *a;
    const json_t *root;
    uint32_t line;
    ft_error *err;
} reader;

static ft_status wrong(const reader *r, const char *field, const char *expected)
{
    return ft_error_set(r->err, FT_CORRUPT, "journal, line %u: '%s' is missing or is not %s",
                        r->line, field, expected);
}

static bool read_seconds(const reader *r, const char *field, double *out)
{
    return ft_field_number(json_object_get(r->root, field), 0, CLOCK_MAX, out);
}

static bool read_whole(const reader *r, const char *field, uint32_t most, uint32_t *out)
{
    return ft_field_whole(json_object_get(r->root, field), 0, most, out);
}

static bool read_hash(const reader *r, const char *field, uint64_t *out)
{
    return ft_field_fingerprint(json_object_get(r->root, field), out);
}

static ft_status read_header(const reader *r, const ft_task_set *set)
{
    const char *kind = json_string_value(json_object_get(r->root, "kind"));
    uint64_t tasks, settings;
    uint32_t version, n;
    if (!kind || strcmp(kind, KIND) != 0)
        return wrong(r, "kind", "\"" KIND "\"");
    if (!read_whole(r, "version", UINT32_MAX - 1, &version) || version != VERSION)
        return wrong(r, "version", "1");
    if (!read_hash(r, "tasks", &tasks))
        return wrong(r, "tasks", "a hash");
    if (!read_hash(r, "settings", &settings))
        return wrong(r, "settings", "a hash");
    if (tasks != set->tasks || !read_whole(r, "n", UINT32_MAX - 1, &n) || n != r->a->n)
        return ft_error_set(r->err, FT_PRECONDITION,
                            "the tasks have changed since the batch began: bring them back, or "
                            "remove its .part file to begin anew");
    if (settings != set->settings)
        return ft_error_set(r->err, FT_PRECONDITION,
                            "the batch began with another seed, sampling or target: use those, or "
                            "remove its .part file to begin anew");
    return FT_OK;
}

static ft_status read_ids(const reader *r, ft_task_answer *answer, const json_t *ids)
{
    const size_t n = json_array_size(ids);
    uint32_t at;
    if (n == 0 || n > IDS_MAX)
        return wrong(r, "ids", "a list of tokens");
    if (!read_whole(r, "at", IDS_MAX, &at) || at != answer->ids.n)
        return wrong(r, "at", "the number of tokens that were recorded before");
    for (size_t i = 0; i < n; i++) {
        uint32_t id;
        if (!ft_field_whole(json_array_get(ids, i), 0, INT32_MAX, &id))
            return wrong(r, "ids", "a list of tokens");
        const int32_t token = (int32_t)id;
        if (ft_tokens_append(&answer->ids, &token, 1) != FT_OK)
            return ft_error_set(r->err, FT_NOMEM, "batch: out of memory");
    }
    return FT_OK;
}

static ft_status read_done(const reader *r, ft_task_answer *answer, const char *finish)
{
    const char *text = json_string_value(json_object_get(r->root, "text"));
    answer->finish = FT_FINISH_STOP;
    if (strcmp(finish, finish_name[FT_FINISH_LENGTH]) == 0)
        answer->finish = FT_FINISH_LENGTH;
    else if (strcmp(finish, finish_name[FT_FINISH_STOP]) != 0)
        return wrong(r, "finish", "stop or length");
    if (!text)
        return wrong(r, "text", "a string");
    if (!read_whole(r, "tokens", IDS_MAX, &answer->tokens))
        return wrong(r, "tokens", "a number of tokens");
    if (!read_seconds(r, "total_s", &answer->total_s))
        return wrong(r, "total_s", "a number of seconds");
    answer->text = strdup(text);
    if (!answer->text)
        return ft_error_set(r->err, FT_NOMEM, "batch: out of memory");
    ft_tokens_deinit(&answer->ids);
    answer->done = true;
    r->a->n_done++;
    return FT_OK;
}

static ft_status read_record(const reader *r)
{
    const json_t *ids = json_object_get(r->root, "ids"),
                 *finish = json_object_get(r->root, "finish");
    uint32_t task;
    double clock_s;
    if (!read_whole(r, "task", UINT32_MAX - 1, &task) || task >= r->a->n)
        return wrong(r, "task", "the number of a task");
    ft_task_answer *answer = &r->a->answer[task];
    if (answer->done)
        return wrong(r, "task", "one that is not done");
    if (!read_seconds(r, "clock_s", &clock_s) || clock_s < r->a->clock_s)
        return wrong(r, "clock_s", "a time that does not go back");
    if (!read_seconds(r, "ttft_s", &answer->ttft_s))
        return wrong(r, "ttft_s", "a number of seconds");
    if (!ids == !finish || (finish && !json_is_string(finish)))
        return wrong(r, "ids", "there, or 'finish'");
    r->a->clock_s = clock_s;
    return ids ? read_ids(r, answer, ids) : read_done(r, answer, json_string_value(finish));
}

static ft_status read_line(reader *r, const ft_task_set *set, const char *line, size_t n)
{
    json_error_t at;
    json_t *root;
    ft_status status = ft_json_read(line, n, &at, &root);
    if (status == FT_NOMEM)
        return ft_error_set(r->err, status, "batch: out of memory");
    if (status != FT_OK || !json_is_object(root)) {
        json_decref(root);
        return ft_error_set(r->err, FT_CORRUPT, "journal, line %u: not a JSON object", r->line);
    }
    r->root = root;
    status = r->line == 1 ? read_header(r, set) : read_record(r);
    json_decref(root);
    return status;
}

ft_status ft_task_answers_read(ft_task_answers *a, const ft_task_set *set, const char *text,
                               size_t n, ft_error *err, size_t *whole)
{
    reader r = {.a = a, .err = err};
    ft_status status = FT_OK;
    const char *newline;
    for (*whole = 0; status == FT_OK && (newline = memchr(text + *whole, '\n', n - *whole));
         *whole = (size_t)(newline - text) + 1) {
        r.line++;
        status = read_line(&r, set, text + *whole, (size_t)(newline - text) - *whole);
    }
    return status;
}
