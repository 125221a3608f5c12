// SPDX-License-Identifier: Apache-2.0
// Spans of text by origin. Bytes leave `held` in the order in which they came. Invariant: the bytes
// of `held` are those that the text stream holds back. Owned by the generation's thread.
#include "edge/told.h"

#include "base/num.h"

void ft_teller_deinit(ft_teller *t)
{
    ft_buf_deinit(&t->rejected);
}

static void append(ft_span *spans, uint32_t *n, ft_origin origin, size_t bytes)
{
    if (bytes == 0)
        return;
    if (*n == 0 || (spans[*n - 1].origin != origin && *n < FT_TOLD_SPANS))
        spans[(*n)++] = (ft_span){.origin = origin};
    spans[*n - 1].bytes += (uint32_t)bytes;
}

void ft_teller_came(ft_teller *t, ft_origin origin, size_t bytes)
{
    append(t->held, &t->n_held, origin, bytes);
}

/* The first `bytes` of what is held leave it. Returns the number of their spans. */
static uint32_t take(ft_teller *t, size_t bytes)
{
    uint32_t n = 0, left = 0;
    for (uint32_t i = 0; i < t->n_held; i++) {
        const ft_span s = t->held[i];
        const size_t out = s.bytes < bytes ? s.bytes : bytes;
        append(t->span, &n, s.origin, out);
        bytes -= out;
        if (s.bytes > out)
            t->held[left++] = (ft_span){.origin = s.origin, .bytes = s.bytes - (uint32_t)out};
    }
    t->n_held = left;
    return n;
}

/* Makes n spans sum up to `bytes`: a broken character was shown as another one. */
static void stretch(ft_span *spans, uint32_t n, size_t bytes)
{
    size_t before = 0;
    for (uint32_t i = 0; i < n; i++) {
        const size_t left = bytes - before;
        if (i + 1 == n || spans[i].bytes > left)
            spans[i].bytes = (uint32_t)left;
        before += spans[i].bytes;
    }
}

/* Ends each span between characters; returns how many have bytes left. */
static uint32_t align(ft_span *spans, uint32_t n, const char *text)
{
    size_t begin = 0, end = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        end += spans[i].bytes;
        size_t at = end;
        while (i + 1 < n && at > begin && ((unsigned char)text[at] & 0xC0) == 0x80)
            at--;
        if (at > begin)
            spans[kept++] = (ft_span){.origin = spans[i].origin, .bytes = (uint32_t)(at - begin)};
        begin = at;
    }
    return kept;
}

void ft_teller_shown(ft_teller *t, const char *text, size_t n, size_t held)
{
    size_t came = 0;
    for (uint32_t i = 0; i < t->n_held; i++)
        came += t->held[i].bytes;
    uint32_t spans = take(t, came > held ? came - held : 0);
    stretch(t->span, spans, n);
    t->told.spans = t->span;
    t->told.n_spans = align(t->span, spans, text);
}

/* The first child of a node, -1: of the root, that stands behind node `after`; draft->n: none. */
static uint32_t child_of(const ft_msg_draft *draft, int32_t node, uint32_t after)
{
    for (uint32_t i = after; i < draft->n; i++)
        if (draft->parent[i] == node)
            return i;
    return draft->n;
}

/* A draft that goes on behind this node has no end token, as a rule: the piece of one is empty. */
static ft_status add_line(ft_teller *t, const ft_vocab *vocab, const ft_msg_draft *draft,
                          uint32_t node)
{
    const size_t before = t->rejected.len;
    ft_status status = FT_OK;
    for (; node < draft->n && status == FT_OK; node = child_of(draft, (int32_t)node, node + 1))
        status = ft_vocab_piece(vocab, draft->token[node], true, &t->rejected);
    t->piece[t->told.n_rejected++] = (ft_piece){.n = t->rejected.len - before};
    return status;
}

ft_status ft_teller_rejected(ft_teller *t, const ft_vocab *vocab, const ft_msg_draft *draft,
                             const ft_msg_verdict *v)
{
    const int32_t last = v->n_path > 0 ? (int32_t)v->path[v->n_path - 1] : -1;
    ft_status status = FT_OK;
    ft_buf_clear(&t->rejected);
    t->told.rejected = t->piece;
    t->told.n_rejected = 0;
    for (uint32_t i = child_of(draft, last, 0);
         i < draft->n && t->told.n_rejected < FT_TOLD_REJECTED && status == FT_OK;
         i = child_of(draft, last, i + 1))
        status = add_line(t, vocab, draft, i);
    const char *at = ft_buf_str(&t->rejected);
    for (size_t i = 0; i < t->told.n_rejected; at += t->piece[i++].n)
        t->piece[i].bytes = at;
    return status;
}
