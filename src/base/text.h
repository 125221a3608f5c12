/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8, and the text that a person sees while tokens arrive: a stream holds back the bytes of an
 * unfinished character and bytes that may begin a stop string, and finds the first stop string. A
 * stream is owned by one thread.
 */
#ifndef FT_BASE_TEXT_H
#define FT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/status.h"

/* Length of the longest prefix that does not end inside a character. An invalid byte counts as a
 * character. */
size_t ft_utf8_complete(const char *data, size_t n);

/* True if the bytes are valid UTF-8 (no overlongs, no surrogates, at most U+10FFFF). */
bool ft_utf8_valid(const char *data, size_t n);

/* Makes a string one line that a terminal can show, in place: an unfinished character at its end is
 * cut off, other invalid bytes become '?', control characters become spaces. */
void ft_utf8_line(char *text);

/* Appends data to out with every invalid sequence replaced by U+FFFD. */
ft_status ft_utf8_repair(const char *data, size_t n, ft_buf *out);

typedef struct ft_text_stream {
    ft_buf held;              /* bytes not yet handed out */
    const char *const *stops; /* [n_stops], borrowed; not empty strings */
    size_t n_stops;
    bool stopped; /* a stop string was found: */
    size_t stop;  /* its index */
} ft_text_stream;

/* The stop strings are borrowed until deinit. Every initialised stream needs a deinit. */
void ft_text_stream_init(ft_text_stream *ts, const char *const *stops, size_t n_stops);
void ft_text_stream_deinit(ft_text_stream *ts);

/* Adds a token's bytes, and appends to out the text that may be shown now: valid UTF-8, up to the
 * stop string. Of several stop strings the one that ends first counts, and among those the longest.
 * After ts->stopped nothing is appended. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_text_stream_push(ft_text_stream *ts, const char *data, size_t n,
                                             ft_buf *out);

/* Ends the text: appends what was held back. An unfinished character becomes U+FFFD. */
FT_WARN_UNUSED ft_status ft_text_stream_finish(ft_text_stream *ts, ft_buf *out);

#endif
