// SPDX-License-Identifier: Apache-2.0
// A session's state and invariants. serve/session.h has the diagram. The engine thread owns
// sessions. This file does not open or end them (lifecycle.c).
//
// Invariants (ft_sess_check):
//   - 1 <= len <= max_len.
//   - Outside a forward the sequence has no pending nodes.
//   - Outside a forward n_past <= len - 1, because the text's last token is computed as the root of
//     the next tree.
//   - A round is under way only in a session with a handle.
//   - A round's draft extends the whole text, except in a run that has had a verdict.
//   - The round is ENDED exactly if the text has ended.
#include "serve/session.h"

#include <assert.h>

ft_sess_state ft_sess_state_of(const ft_sess *s)
{
    if (s->text.finish != FT_FINISH_NONE)
        return FT_SESS_ENDED;
    if (!s->handle)
        return FT_SESS_DETACHED;
    if (ft_round_waits(&s->round))
        return FT_SESS_WAITING;
    return s->kv.want && ft_sess_is_behind(s) ? FT_SESS_PREFILL : FT_SESS_IDLE;
}

uint32_t ft_sess_missing(const ft_sess *s)
{
    return s->text.len - 1 - ft_seq_n_past(s->kv.seq);
}

bool ft_sess_is_behind(const ft_sess *s)
{
    return ft_sess_missing(s) >= FT_KV_BLOCK_TOK;
}

void ft_sess_link(ft_sess_list *list, ft_sess *s)
{
    s->prev = list->last;
    *(s->prev ? &s->prev->next : &list->first) = s;
    list->last = s;
}

void ft_sess_unlink(ft_sess_list *list, ft_sess *s)
{
    *(s->prev ? &s->prev->next : &list->first) = s->next;
    *(s->next ? &s->next->prev : &list->last) = s->prev;
}

void ft_sess_check(const ft_sess *s)
{
#ifdef FT_DEBUG_CHECKS
    const ft_round *r = &s->round;
    const bool ended = s->text.finish != FT_FINISH_NONE;
    assert(s->text.len >= 1 && s->text.len <= s->text.max_len && s->text.len <= s->text.room);
    assert(ft_seq_n_pending(s->kv.seq) == 0);
    assert(ft_seq_n_past(s->kv.seq) <= s->text.len - 1);
    assert(!ended || ft_seq_n_past(s->kv.seq) == 0);
    assert(!s->handle || s->handle->session == s);
    assert(!ft_round_waits(r) || s->handle);
    assert(ended == (r->state == FT_ROUND_ENDED));
    ft_round_check(r);
    if (!ft_round_waits(r))
        return;
    const bool goes_on = r->number == s->record.round; /* a run that has had a verdict */
    assert(goes_on || r->number == s->record.round + 1);
    assert(goes_on ? ft_round_is_run(r) && s->text.len > r->base : s->text.len == r->base);
    assert(!ft_round_is_run(r) || s->text.len < r->end);
    assert(!ft_round_is_run(r) || r->nodes.n == 0 || s->own);
#else
    (void)s;
#endif
}
