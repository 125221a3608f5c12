/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of the answers to a batch's tasks, and the records that a journal keeps of it
 * (edge/batch_journal.h). A record is a line of JSON:
 *
 *   {"kind": "foretoken batch journal", "version": 1, "tasks": HASH, "settings": HASH, "n": N}
 *   {"task": 3, "at": 10, "ids": [...], "ttft_s": T, "clock_s": T}      tokens 10, 11, ... of it
 *   {"task": 3, "finish": "stop", "text": ..., "tokens": 57, "ttft_s": T, "total_s": T,
 *    "clock_s": T}
 *
 * Tasks count from 0. The clock is the batch's: it stands still while no program works on it.
 * Owned by one thread.
 */
#ifndef FT_EDGE_BATCH_ANSWERS_H
#define FT_EDGE_BATCH_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"
#include "model/vocab.h"
#include "wire/messages.h"

/* An answer. All-zero: nothing of it is known. */
typedef struct ft_task_answer {
    ft_tokens ids; /* while it is not done: its tokens so far */
    bool done;     /* then `text` and what follows are set */
    char *text;    /* owned; UTF-8 */
    ft_finish finish;
    uint32_t tokens; /* without an end-of-text token */
    double ttft_s;   /* from the task's release to its first token; known once there is one */
    double total_s;  /* to its end */
} ft_task_answer;

typedef struct ft_task_answers {
    size_t n;
    ft_task_answer *answer; /* [n] */
    double clock_s;         /* of the latest record */
    size_t n_done;
} ft_task_answers;

/* n answers of which nothing is known. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_task_answers_init(ft_task_answers *a, size_t n, ft_error *err);
/* All-zero is legal. */
void ft_task_answers_deinit(ft_task_answers *a);

/* What decides the answers. */
typedef struct ft_task_set {
    uint64_t tasks;    /* hash of the tasks' file */
    uint64_t settings; /* hash of what else decides a text: sampling, model */
} ft_task_set;

/* ---- records as text ---- */

/* Append a line. FT_NOMEM. ids: the tokens from `at` on, at least one. */
ft_status ft_task_write_header(const ft_task_answers *a, const ft_task_set *set, ft_buf *out);
ft_status ft_task_write_ids(const ft_task_answers *a, size_t task, size_t at, ft_buf *out);
ft_status ft_task_write_done(const ft_task_answers *a, size_t task, ft_buf *out);

/* Reads a journal, text[0..n), into answers of which nothing is known. *whole: its bytes up to the
 * last newline; a line without one was torn, and is left out. FT_PRECONDITION: it belongs to other
 * tasks or settings. FT_CORRUPT names the line: nobody wrote it so. FT_NOMEM. A failure may leave
 * some answers read. */
FT_WARN_UNUSED ft_status ft_task_answers_read(ft_task_answers *a, const ft_task_set *set,
                                              const char *text, size_t n, ft_error *err,
                                              size_t *whole);

/* ---- the output ---- */

/* Appends the line of a task that is done: id, text, finish, tokens, ttft_s, total_s. FT_NOMEM. */
ft_status ft_task_write_output(const ft_task_answer *answer, const char *id, ft_buf *out);

#endif
