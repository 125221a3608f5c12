/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's files by what is in them: a hash of all bytes. Reading them takes long, so a small file
 * (base/kept_file.h) remembers the hash for as long as the system says that the files are the same.
 * It is no protection against forgery. For the model room only; any thread. */
#ifndef FT_MODEL_CONTENT_H
#define FT_MODEL_CONTENT_H

#include "base/progress.h"
#include "model/gguf_file.h"

/* Which files of the system the model has (all parts of it), and which of their states: another
 * number after any change. 0: one is not there. */
uint64_t ft_content_state(const char *path);
/* The same of files that are open; never 0 but for an error of the system. */
uint64_t ft_content_state_of(const ft_gguf *gguf);

/* Reads all bytes, on all cores; progress is in bytes. *out is 0 after an error. FT_IO, FT_NOMEM;
 * FT_ABORTED: the files were changed meanwhile. */
FT_WARN_UNUSED ft_status ft_content_hash(const ft_gguf *gguf, const ft_progress *progress,
                                         ft_error *err, uint64_t *out);

/* The content that the folder remembers of this state; 0: none. */
uint64_t ft_content_recall(const char *folder, uint64_t state);
/* If it cannot be written, the next start reads the files again. */
void ft_content_remember(const char *folder, uint64_t state, uint64_t content);

/* The text that is remembered. FT_NOT_FOUND: it is about another state, or of an older version.
 * FT_INVALID, FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_content_read(const char *text, size_t n, uint64_t state, ft_error *err,
                                         uint64_t *out);

#endif
