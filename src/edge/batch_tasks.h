/* SPDX-License-Identifier: Apache-2.0
 *
 * The tasks of `foretoken batch`: a file with one JSON object a line. The whole file is checked
 * before the first task runs. An error names the line, the field and what it may be. Any thread;
 * tasks do not change once they are read and tokenized.
 */
#ifndef FT_EDGE_BATCH_TASKS_H
#define FT_EDGE_BATCH_TASKS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/chat.h"
#include "base/status.h"
#include "model/vocab.h"

#define FT_TASKS_MAX          16384
#define FT_TASKS_MAX_BYTES    ((size_t)1 << 30) /* of a file */
#define FT_TASK_LINE_MAX      ((size_t)4 << 20) /* bytes of a line */
#define FT_TASK_ID_MAX        128               /* bytes of an id */
#define FT_TASK_MESSAGES_MAX  1024
#define FT_TASK_RELEASE_MAX_S 1e6

/* A task. Its strings belong to `root`. */
typedef struct ft_task {
    uint32_t line;                   /* in the file, from 1 */
    const char *id;                  /* no other task has it */
    const char *prompt;              /* NULL: a chat */
    const ft_chat_message *messages; /* [n_messages], a chat; else NULL */
    size_t n_messages;
    uint32_t max_tokens; /* of the answer; 0: until the context is full */
    uint64_t seed;       /* its own or, if the file has none, made of the batch's and of its id */
    double release_s;    /* it may begin so long after the batch; 0: at once */
    ft_tokens tokens;    /* of prompt or chat, by ft_tasks_tokenize */
    json_t *root;
} ft_task;

typedef struct ft_tasks {
    size_t n; /* at least 1 */
    ft_task *task;
    uint64_t hash; /* of the file's bytes */
} ft_tasks;

/* Reads text[0..n), which need not end with a newline; lines of blanks are skipped. seed: the
 * batch's. FT_INVALID, FT_TOO_LARGE, FT_NOMEM leave *out empty. */
FT_WARN_UNUSED ft_status ft_tasks_read(const char *text, size_t n, uint64_t seed, ft_error *err,
                                       ft_tasks *out);
/* The same for a file. Also FT_IO. Messages name the path. */
FT_WARN_UNUSED ft_status ft_tasks_load(const char *path, uint64_t seed, ft_error *err,
                                       ft_tasks *out);
void ft_tasks_deinit(ft_tasks *tasks);

/* Makes the tokens of all tasks. limits->max_tok: tokens that the context holds; a task needs room
 * for its prompt and its answer (one token if max_tokens is 0). FT_TOO_LARGE: a task does not fit;
 * FT_CANCELLED; or as ft_template_apply. Messages name the line. */
FT_WARN_UNUSED ft_status ft_tasks_tokenize(ft_tasks *tasks, const ft_vocab *vocab,
                                           const ft_tokenize_limits *limits, ft_error *err);

/* Tokens of the draft model's KV that a tokenized task takes: its prompt, its answer, and room for
 * a draft (Zhu et al., eq. (10)). context: as limits->max_tok above. */
uint64_t ft_task_room_tok(const ft_task *task, uint32_t context);

/* Whether each task has room in a KV pool of this size. FT_TOO_LARGE names a task that has not, and
 * says what would fit. */
FT_WARN_UNUSED ft_status ft_tasks_check_room(const ft_tasks *tasks, uint32_t context,
                                             uint32_t kv_tok, ft_error *err);

#endif
