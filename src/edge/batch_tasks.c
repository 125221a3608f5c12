// SPDX-License-Identifier: Apache-2.0
// Reads tasks. A line is bounded before it is parsed, and a task is checked in full before the next
// line is looked at. Fields that nobody knows are refused: a person who writes "max_token" must not
// find out after an hour. No state.
#include "edge/batch_tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/json_file.h"
#include "base/num.h"
#include "base/sort.h"
#include "template/template.h"

#define ROOM_TOK 128 /* for a draft, and for blocks that are not full */

/* A task under way: where it stands, for messages. */
typedef struct reader {
    ft_task *task;
    ft_error *err;
} reader;

static ft_status wrong(const reader *r, const char *field, const char *expected)
{
    return ft_error_set(r->err, FT_INVALID, "line %u: '%s' must be %s", r->task->line, field,
                        expected);
}

/* ---- fields ---- */

static ft_status read_id(reader *r)
{
    const json_t *id = json_object_get(r->task->root, "id");
    const size_t n = json_string_length(id);
    r->task->id = json_string_value(id);
    bool fine = r->task->id && n >= 1 && n <= FT_TASK_ID_MAX;
    for (size_t i = 0; fine && i < n; i++)
        fine = (unsigned char)r->task->id[i] >= ' ' && r->task->id[i] != 0x7f;
    if (fine)
        return FT_OK;
    return wrong(r, "id", "a string of 1 to 128 bytes without control characters");
}

/* As templates know it; NULL: there is no such role. */
static const char *role_of(const json_t *message)
{
    static const char *const roles[][2] = {{"system", "system"},
                                           {"developer", "system"}, /* its newer name */
                                           {"user", "user"},
                                           {"assistant", "assistant"}};
    const char *role = json_string_value(json_object_get(message, "role"));
    for (size_t i = 0; role && i < FT_COUNT(roles); i++)
        if (strcmp(role, roles[i][0]) == 0)
            return roles[i][1];
    return NULL;
}

static ft_status read_messages(reader *r, const json_t *list)
{
    const size_t n = json_array_size(list);
    if (n < 1 || n > FT_TASK_MESSAGES_MAX)
        return wrong(r, "messages", "a list of 1 to 1024 messages");
    ft_chat_message *messages = calloc(n, sizeof *messages);
    if (!messages)
        return ft_error_set(r->err, FT_NOMEM, "out of memory");
    r->task->messages = messages;
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(list, i);
        messages[i] = (ft_chat_message){
            .role = role_of(m), .content = json_string_value(json_object_get(m, "content"))};
        if (!messages[i].role)
            return ft_error_set(r->err, FT_INVALID,
                                "line %u: 'role' of message %zu must be system, developer, user or "
                                "assistant",
                                r->task->line, i + 1);
        if (!messages[i].content || json_object_size(m) != 2)
            return ft_error_set(r->err, FT_INVALID,
                                "line %u: message %zu must have 'role' and 'content', which is a "
                                "string, and no other field",
                                r->task->line, i + 1);
    }
    r->task->n_messages = n;
    return FT_OK;
}

/* Either prompt or messages. */
static ft_status read_text(reader *r)
{
    const json_t *prompt = json_object_get(r->task->root, "prompt");
    const json_t *messages = json_object_get(r->task->root, "messages");
    if (!prompt == !messages)
        return ft_error_set(r->err, FT_INVALID, "line %u: give either 'prompt' or 'messages'%s",
                            r->task->line, prompt ? ", not both" : "");
    if (messages)
        return read_messages(r, messages);
    r->task->prompt = json_string_value(prompt);
    return json_string_length(prompt) > 0 ? FT_OK
                                          : wrong(r, "prompt", "a string that is not empty");
}

static ft_status read_numbers(reader *r, uint64_t batch_seed)
{
    const json_t *most = json_object_get(r->task->root, "max_tokens");
    const json_t *seed = json_object_get(r->task->root, "seed");
    const json_t *release = json_object_get(r->task->root, "release_s");
    const json_int_t n = json_integer_value(most);
    const double s = json_number_value(release);
    if (most && (!json_is_integer(most) || n < 1 || n > INT32_MAX))
        return wrong(r, "max_tokens", "a whole number from 1 to 2147483647");
    if (seed && !json_is_integer(seed))
        return wrong(r, "seed", "a whole number of 64 bits");
    if (release && (!json_is_number(release) || !isfinite(s) || s < 0 || s > FT_TASK_RELEASE_MAX_S))
        return wrong(r, "release_s", "a number of seconds from 0 to 1000000");
    r->task->max_tokens = (uint32_t)n;
    r->task->release_s = s;
    r->task->seed = seed ? (uint64_t)json_integer_value(seed)
                         : XXH3_64bits_withSeed(r->task->id, strlen(r->task->id), batch_seed);
    return FT_OK;
}

static ft_status check_names(const reader *r)
{
    static const char *const known[] = {"id",         "prompt", "messages",
                                        "max_tokens", "seed",   "release_s"};
    const char *name;
    json_t *value;
    json_object_foreach(r->task->root, name, value)
    {
        bool found = false;
        for (size_t i = 0; i < FT_COUNT(known) && !found; i++)
            found = strcmp(name, known[i]) == 0;
        if (!found)
            return ft_error_set(r->err, FT_INVALID,
                                "line %u: unknown field '%.40s': a task has id, prompt or "
                                "messages, max_tokens, seed, release_s",
                                r->task->line, name);
    }
    return FT_OK;
}

/* ---- lines ---- */

static ft_status read_task(const char *line, size_t n, uint64_t seed, ft_error *err, ft_task *task)
{
    json_error_t at;
    reader r = {.task = task, .err = err};
    if (n > FT_TASK_LINE_MAX)
        return ft_error_set(err, FT_TOO_LARGE, "line %u: %zu bytes, at most %zu", task->line, n,
                            FT_TASK_LINE_MAX);
    ft_status status = ft_json_read(line, n, &at, &task->root);
    if (status == FT_NOMEM)
        return ft_error_set(err, status, "out of memory");
    if (status != FT_OK)
        return ft_error_set(err, status, "line %u, column %d: %s", task->line, at.column, at.text);
    if (!json_is_object(task->root))
        return ft_error_set(err, FT_INVALID, "line %u: not a JSON object", task->line);
    status = check_names(&r);
    if (status == FT_OK)
        status = read_id(&r);
    if (status == FT_OK)
        status = read_text(&r);
    return status == FT_OK ? read_numbers(&r, seed) : status;
}

static bool is_blank(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r", line[i]) || !line[i])
            return false;
    return true;
}

static ft_status add(ft_tasks *tasks, uint32_t line, ft_error *err, ft_task **out)
{
    if (tasks->n == FT_TASKS_MAX)
        return ft_error_set(err, FT_TOO_LARGE, "line %u: more than %d tasks", line, FT_TASKS_MAX);
    if ((tasks->n & (tasks->n - 1)) == 0) { /* doubles */
        const size_t cap = tasks->n ? 2 * tasks->n : 1;
        void *more = realloc(tasks->task, cap * sizeof *tasks->task);
        if (!more)
            return ft_error_set(err, FT_NOMEM, "out of memory");
        tasks->task = more;
    }
    *out = &tasks->task[tasks->n++];
    **out = (ft_task){.line = line};
    return FT_OK;
}

static bool by_id(const void *ctx, const void *a, const void *b)
{
    const ft_task *x = *(const ft_task *const *)a, *y = *(const ft_task *const *)b;
    const int order = strcmp(x->id, y->id);
    (void)ctx;
    return order ? order < 0 : x->line < y->line;
}

/* Of several repeated ids it names the one that repeats first in the file. */
static ft_status check_ids(const ft_tasks *tasks, ft_error *err)
{
    const ft_task **sorted = malloc(tasks->n * sizeof *sorted), *again = NULL, *first = NULL;
    if (!sorted)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    for (size_t i = 0; i < tasks->n; i++)
        sorted[i] = &tasks->task[i];
    ft_sort(sorted, tasks->n, sizeof *sorted, by_id, NULL);
    for (size_t i = 1; i < tasks->n; i++)
        if (strcmp(sorted[i]->id, sorted[i - 1]->id) == 0 &&
            (!again || sorted[i]->line < again->line)) {
            first = sorted[i - 1];
            again = sorted[i];
        }
    free(sorted);
    if (!again)
        return FT_OK;
    return ft_error_set(err, FT_INVALID, "line %u: 'id' %s is that of line %u, too", again->line,
                        again->id, first->line);
}

static ft_status read_lines(const char *text, size_t n, uint64_t seed, ft_error *err, ft_tasks *out)
{
    ft_status status = FT_OK;
    uint32_t line = 0;
    for (size_t at = 0, end; at < n && status == FT_OK; at = end + 1) {
        const char *newline = memchr(text + at, '\n', n - at);
        ft_task *task = NULL;
        end = newline ? (size_t)(newline - text) : n;
        line++;
        if (is_blank(text + at, end - at))
            continue;
        status = add(out, line, err, &task);
        if (status == FT_OK)
            status = read_task(text + at, end - at, seed, err, task);
    }
    if (status == FT_OK && out->n == 0)
        return ft_error_set(err, FT_INVALID,
                            "no task: each line is a JSON object with id and "
                            "prompt or messages");
    return status == FT_OK ? check_ids(out, err) : status;
}

ft_status ft_tasks_read(const char *text, size_t n, uint64_t seed, ft_error *err, ft_tasks *out)
{
    *out = (ft_tasks){.hash = XXH3_64bits(text, n)};
    ft_status status = read_lines(text, n, seed, err, out);
    if (status != FT_OK)
        ft_tasks_deinit(out);
    return status;
}

ft_status ft_tasks_load(const char *path, uint64_t seed, ft_error *err, ft_tasks *out)
{
    struct stat st;
    ft_error why = {0};
    char *text;
    size_t n;
    *out = (ft_tasks){0};
    if (stat(path, &st) != 0)
        return ft_error_set(err, FT_IO, "cannot read %s: %m", path);
    if (!S_ISREG(st.st_mode))
        return ft_error_set(err, FT_IO, "cannot read %s: it is no regular file", path);
    if ((uint64_t)st.st_size >= FT_TASKS_MAX_BYTES)
        return ft_error_set(err, FT_TOO_LARGE, "%s has %lld bytes, at most %zu", path,
                            (long long)st.st_size, FT_TASKS_MAX_BYTES);
    ft_status status = ft_file_read(path, (size_t)st.st_size + 1, err, &text, &n);
    if (status != FT_OK)
        return status;
    status = ft_tasks_read(text, n, seed, &why, out);
    free(text);
    return status == FT_OK ? FT_OK : ft_error_set(err, status, "%s: %s", path, why.message);
}

void ft_tasks_deinit(ft_tasks *tasks)
{
    for (size_t i = 0; i < tasks->n; i++) {
        json_decref(tasks->task[i].root);
        free((void *)tasks->task[i].messages);
        ft_tokens_deinit(&tasks->task[i].tokens);
    }
    free(tasks->task);
    *tasks = (ft_tasks){0};
}

/* ---- tokens ---- */

static ft_status tokenize(ft_task *task, const ft_vocab *vocab, const ft_template *tmpl,
                          const ft_tokenize_limits *limits, ft_error *err)
{
    return task->prompt ? ft_vocab_tokenize(vocab, task->prompt, strlen(task->prompt), limits, err,
                                            &task->tokens)
                        : ft_template_chat(tmpl, task->messages, task->n_messages, limits, err,
                                           &task->tokens);
}

static ft_status tokenize_all(ft_tasks *tasks, const ft_vocab *vocab, const ft_template *tmpl,
                              const ft_tokenize_limits *limits, ft_error *err)
{
    for (size_t i = 0; i < tasks->n; i++) {
        ft_task *task = &tasks->task[i];
        ft_error why = {0};
        ft_status status = tokenize(task, vocab, tmpl, limits, &why);
        const uint64_t answer = task->max_tokens ? task->max_tokens : 1;
        if (status == FT_TOO_LARGE ||
            (status == FT_OK && task->tokens.n + answer > limits->max_tok))
            return ft_error_set(err, FT_TOO_LARGE,
                                "line %u: task %s needs room for %s%zu tokens of prompt and %llu "
                                "of answer, the context holds %zu",
                                task->line, task->id, status == FT_OK ? "" : "over ",
                                task->tokens.n, (unsigned long long)answer, limits->max_tok);
        if (status == FT_OK && task->tokens.n == 0)
            status = ft_error_set(&why, FT_INVALID, "the prompt has no tokens");
        if (status != FT_OK)
            return ft_error_set(err, status, "line %u: %s", task->line, why.message);
    }
    return FT_OK;
}

ft_status ft_tasks_tokenize(ft_tasks *tasks, const ft_vocab *vocab,
                            const ft_tokenize_limits *limits, ft_error *err)
{
    ft_template *tmpl;
    ft_status status = ft_template_create(vocab, NULL, err, &tmpl);
    if (status == FT_OK)
        status = tokenize_all(tasks, vocab, tmpl, limits, err);
    ft_template_destroy(tmpl);
    return status;
}

/* ---- memory ---- */

uint64_t ft_task_room_tok(const ft_task *task, uint32_t context)
{
    const uint64_t n = task->tokens.n + (task->max_tokens ? task->max_tokens : context);
    return (n < context ? n : context) + ROOM_TOK;
}

ft_status ft_tasks_check_room(const ft_tasks *tasks, uint32_t context, uint32_t kv_tok,
                              ft_error *err)
{
    for (size_t i = 0; i < tasks->n; i++) {
        const ft_task *t = &tasks->task[i];
        const uint64_t room = ft_task_room_tok(t, context), least = t->tokens.n + ROOM_TOK;
        if (room <= kv_tok)
            continue;
        if (least >= kv_tok)
            return ft_error_set(err, FT_TOO_LARGE,
                                "line %u: task %s needs %llu tokens of KV for its prompt alone, "
                                "there are %u: shorten the prompt, or take a larger pool",
                                t->line, t->id, (unsigned long long)least, kv_tok);
        return ft_error_set(err, FT_TOO_LARGE,
                            "line %u: task %s needs %llu tokens of KV, there are %u: with "
                            "max_tokens %llu or less it would fit",
                            t->line, t->id, (unsigned long long)room, kv_tok,
                            (unsigned long long)(kv_tok - least));
    }
    return FT_OK;
}
