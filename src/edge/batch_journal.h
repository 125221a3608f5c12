/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal of a batch: OUT.part, beside the file that the batch makes. It only grows. It holds
 * the answers that are done and, now and then, the tokens of the others, so that a batch whose
 * process was killed goes on from there. One process at a time has it (flock). When all answers are
 * done, OUT gets their lines in the order of the tasks, under its name only when it is whole, and
 * the journal is removed.
 *
 * A process that is killed loses nothing that was recorded. A line that was torn is dropped. Owned
 * by one thread.
 */
#ifndef FT_EDGE_BATCH_JOURNAL_H
#define FT_EDGE_BATCH_JOURNAL_H

#include "edge/batch_answers.h"

#define FT_JOURNAL_MAX_BYTES ((size_t)4 << 30)

typedef struct ft_journal ft_journal;

typedef struct ft_journal_opts {
    const char *out; /* copied */
    bool resume;     /* go on from a journal that is there */
    ft_task_set set; /* as ft_task_answers_read */
    size_t n;        /* tasks */
} ft_journal_opts;

/* Makes or takes the journal, and locks it. FT_PRECONDITION: there is a journal and no `resume`, or
 * OUT exists; or as ft_task_answers_read. FT_UNAVAILABLE: another process has it. FT_IO,
 * FT_TOO_LARGE, FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_journal_open(const ft_journal_opts *opts, ft_error *err,
                                         ft_journal **out);
/* Keeps the journal's file. NULL is legal. */
void ft_journal_close(ft_journal *journal);

/* All answers. The caller changes them and then records them. */
ft_task_answers *ft_journal_answers(ft_journal *journal);

/* Records the tokens of an answer that the journal has not yet; nothing if there are none. FT_IO:
 * the journal is as it was, and may be tried again; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_journal_keep(ft_journal *journal, size_t task, ft_error *err);
/* Records an answer that is done, and frees its tokens. Errors as ft_journal_keep. */
FT_WARN_UNUSED ft_status ft_journal_done(ft_journal *journal, size_t task, ft_error *err);

/* All answers are done: makes OUT and removes the journal. id [n], of the tasks. FT_IO: the journal
 * stays, and a resumed batch tries again; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_journal_finish(ft_journal *journal, const char *const *id,
                                           ft_error *err);

#endif
