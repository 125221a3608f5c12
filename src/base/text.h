/* SPDX-License-Identifier: Apache-2.0
 *
 * From token pieces to text a person may see: holds back bytes that are an unfinished UTF-8
 * character or may be the beginning of a stop string, and finds the first stop string. Owned by one
 * thread.
 */
#ifndef FT_BASE_TEXT_H
#define FT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/status.h"

/* Length of the longest prefix of data that does not end inside a character. An invalid byte counts
 * as finished. */
size_t ft_utf8_complete(const char *data, size_t n);

/* True if the bytes are valid UTF-8 (no overlongs, no surrogates, at most U+10FFFF). */
bool ft_utf8_valid(const char *data, size_t n);

/* Appends data to out with every invalid sequence replaced by U+FFFD. */
ft_status ft_utf8_repair(const char *data, size_t n, ft_buf *out);

typedef struct ft_text_stream {
    ft_buf held;              /* bytes not yet handed out */
    const char *const *stops; /* [n_stops], borrowed; not empty strings */
    size_t n_stops;
    bool stopped; /* a stop string was found */
} ft_text_stream;

/* The stop strings are borrowed until deinit. An initialised stream owes a deinit. */
void ft_text_stream_init(ft_text_stream *ts, const char *const *stops, size_t n_stops);
void ft_text_stream_deinit(ft_text_stream *ts);

/* Adds a token's bytes and appends to out what may be shown now: valid UTF-8, nothing of the
 * stop string that is complete first (of several, the longest) or what follows it. After ts->stopped
 * nothing more comes out. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_text_stream_push(ft_text_stream *ts, const char *data, size_t n,
                                             ft_buf *out);

/* The end of the tokens: appends what was held back (an unfinished character becomes U+FFFD). */
FT_WARN_UNUSED ft_status ft_text_stream_finish(ft_text_stream *ts, ft_buf *out);

#endif
