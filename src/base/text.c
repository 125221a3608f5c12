// SPDX-License-Identifier: Apache-2.0
// UTF-8 and stop strings. Invariant of a stream: `held` contains no whole stop string, and is the
// shortest suffix of the text that may still become a character or a stop string.
#include "base/text.h"

#include <stdint.h>
#include <string.h>

/* Length of a character by its first byte; 0: no character begins with it. */
static size_t lead_len(unsigned char c)
{
    if (c < 0x80)
        return 1;
    if (c >= 0xC2 && c <= 0xDF)
        return 2;
    if (c >= 0xE0 && c <= 0xEF)
        return 3;
    if (c >= 0xF0 && c <= 0xF4)
        return 4;
    return 0;
}

/* Whether c may be byte k (k >= 1) of a character with this first byte. */
static bool trail_ok(unsigned char lead, size_t k, unsigned char c)
{
    unsigned char lo = 0x80, hi = 0xBF;
    if (k == 1) {
        if (lead == 0xE0)
            lo = 0xA0;
        else if (lead == 0xED)
            hi = 0x9F;
        else if (lead == 0xF0)
            lo = 0x90;
        else if (lead == 0xF4)
            hi = 0x8F;
    }
    return c >= lo && c <= hi;
}

/* Length of the valid character at p[0..n), n > 0; 0: there is none. Then *bad is how many bytes
 * one U+FFFD replaces: the longest beginning of a character (Unicode 3.9, "maximal subpart"), so
 * that the text does not depend on where its bytes were split. *cut: more bytes could make it
 * valid. */
static size_t char_len(const char *p, size_t n, size_t *bad, bool *cut)
{
    const unsigned char *u = (const unsigned char *)p;
    size_t len = lead_len(u[0]);
    *cut = false;
    *bad = 1;
    for (size_t k = 1; k < len; k++) {
        *bad = k;
        if (k == n) {
            *cut = true;
            return 0;
        }
        if (!trail_ok(u[0], k, u[k]))
            return 0;
    }
    return len;
}

size_t ft_utf8_complete(const char *data, size_t n)
{
    size_t bad;
    bool cut;
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)data[n - back];
        if ((c & 0xC0) == 0x80)
            continue;
        char_len(data + n - back, back, &bad, &cut);
        return cut ? n - back : n;
    }
    return n;
}

bool ft_utf8_valid(const char *data, size_t n)
{
    size_t bad;
    bool cut;
    for (size_t i = 0; i < n;) {
        size_t len = char_len(data + i, n - i, &bad, &cut);
        if (len == 0)
            return false;
        i += len;
    }
    return true;
}

void ft_utf8_line(char *text)
{
    size_t bad, n = ft_utf8_complete(text, strlen(text));
    bool cut;
    text[n] = 0;
    for (size_t i = 0; i < n;) {
        size_t len = char_len(text + i, n - i, &bad, &cut);
        if (len == 0)
            text[i] = '?';
        else if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            text[i] = ' ';
        i += len ? len : 1;
    }
}

ft_status ft_utf8_repair(const char *data, size_t n, ft_buf *out)
{
    size_t bad;
    bool cut;
    for (size_t i = 0; i < n;) {
        size_t len = char_len(data + i, n - i, &bad, &cut);
        ft_status status =
            len ? ft_buf_append(out, data + i, len) : ft_buf_puts(out, "\xEF\xBF\xBD");
        if (status != FT_OK)
            return status;
        i += len ? len : bad;
    }
    return FT_OK;
}

void ft_text_stream_init(ft_text_stream *ts, const char *const *stops, size_t n_stops)
{
    *ts = (ft_text_stream){.stops = stops, .n_stops = n_stops};
}

void ft_text_stream_deinit(ft_text_stream *ts)
{
    ft_buf_deinit(&ts->held);
}

/* Returns where the first complete stop string begins, or held.len; sets ts->stop. The first one is
 * the one that ends first; among those, the longest. So the text does not depend on its split into
 * tokens. */
static size_t find_stop(ft_text_stream *ts)
{
    size_t begin = ts->held.len, end = SIZE_MAX;
    for (size_t s = 0; s < ts->n_stops; s++) {
        size_t n = strlen(ts->stops[s]);
        const char *at = memmem(ts->held.data, ts->held.len, ts->stops[s], n);
        size_t b = at ? (size_t)(at - ts->held.data) : 0;
        if (at && (b + n < end || (b + n == end && b < begin))) {
            begin = b;
            end = b + n;
            ts->stop = s;
        }
    }
    return begin;
}

/* Returns where the longest suffix of `held` begins that may become a stop string, or held.len. */
static size_t find_stop_prefix(const ft_text_stream *ts)
{
    size_t len = ts->held.len, best = len;
    for (size_t s = 0; s < ts->n_stops; s++) {
        size_t n = strlen(ts->stops[s]);
        size_t most = n - 1 < len ? n - 1 : len;
        for (size_t k = most; k > 0 && len - k < best; k--)
            if (memcmp(ts->held.data + len - k, ts->stops[s], k) == 0)
                best = len - k;
    }
    return best;
}

ft_status ft_text_stream_push(ft_text_stream *ts, const char *data, size_t n, ft_buf *out)
{
    if (ts->stopped || n == 0)
        return FT_OK;
    ft_status status = ft_buf_append(&ts->held, data, n);
    if (status != FT_OK)
        return status;
    size_t end = find_stop(ts);
    if (end < ts->held.len)
        ts->stopped = true;
    else
        end = find_stop_prefix(ts);
    if (!ts->stopped)
        end = ft_utf8_complete(ts->held.data, end);
    status = ft_utf8_repair(ts->held.data, end, out);
    if (status == FT_OK)
        ft_buf_shift(&ts->held, end);
    return status;
}

ft_status ft_text_stream_finish(ft_text_stream *ts, ft_buf *out)
{
    if (ts->stopped || ts->held.len == 0)
        return FT_OK;
    ft_status status = ft_utf8_repair(ts->held.data, ts->held.len, out);
    ft_buf_clear(&ts->held);
    return status;
}
