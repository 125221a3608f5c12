// SPDX-License-Identifier: Apache-2.0
// What an edge asks for once its session is open: rounds with a tree, and runs. Checks each draft,
// begins its round, carries a run on from pass to pass, keeps one draft behind a run and one early draft
// beside a tree. Owned by the engine thread. Does not compute (round.c).
//
//           tree: one pass                          a draft kept behind it
//   draft ------------------> answered          run over -----------> the next run
//       \ no tree: run                       /
//        \------> pass -> more -> pass -> ... ---- text ended -> a draft behind it is dropped
//
// A draft behind a run is sent before its edge can know whether the text ends in that run, so there,
// and there alone, a draft that finds the text ended is no error.
//
//   draft -------- early draft kept -----> answered -> what it has behind the verdict: the next round
//        \-> answered -> early draft: too late, dropped
#include "base/log.h"
#include "serve/internal.h"
#include "wire/early.h"

bool ft_sess_recorded(const ft_sess *s, uint32_t round, uint32_t base)
{
    return s->last.round > 0 && round == s->last.round && base == s->last_base && s->last_whole;
}

void ft_sess_withdraw(ft_sess *s)
{
    s->pending = false;
    ft_tree_clear(&s->tree);
    s->ahead.kept = false;
    s->early.n = s->early_round = 0;
    s->last.early_taken = false;
    s->verdict_at_us = 0; /* the time without a stream is no thinking */
    s->last.more = false; /* a run that was under way is over */
}

/* Whether the draft is the one that may be sent ahead of the end of the run under way, or of the one
 * that ended last. */
static bool fits_run_end(const ft_sess *s, const ft_msg_draft *d)
{
    uint32_t round = s->pending ? s->round : s->last.round;
    return s->run_end > 0 && d->n == 0 && d->round == round + 1 && d->base == s->run_end;
}

static ft_status check_tree(const ft_sess *s, const ft_msg_draft *d, ft_error *err)
{
    if (d->n > s->verifier->opts.max_tree)
        return ft_error_set(err, FT_INVALID, "serve: a tree of %u nodes, %u are allowed", d->n,
                            s->verifier->opts.max_tree);
    if (d->run > FT_WIRE_RUN_MAX || (d->n > 0 && d->run > 0))
        return ft_error_set(err, FT_INVALID,
                            "serve: a run of %u tokens with a tree of %u nodes: either, and at "
                            "most %d tokens",
                            d->run, d->n, FT_WIRE_RUN_MAX);
    for (uint32_t i = 0; i < d->n; i++)
        if (d->parent[i] < -1 || d->parent[i] >= (int32_t)i)
            return ft_error_set(err, FT_INVALID, "serve: parent of node %u is not before it", i);
    return FT_OK;
}

static ft_status check_round(const ft_sess *s, const ft_msg_draft *d, bool flooded, ft_error *err)
{
    if (flooded || s->pending)
        return ft_error_set(err, FT_INVALID,
                            "serve: a draft is under way: wait for its verdict before the next");
    if (s->last.round > 0 && d->round == s->last.round && d->base == s->last_base)
        return ft_error_set(err, FT_PRECONDITION,
                            "serve: round %u was a run, of which only the end is kept: open again "
                            "with the text so far",
                            d->round);
    if (d->round != s->last.round + 1)
        return ft_error_set(err, FT_INVALID, "serve: round %u is not the next one (%u)", d->round,
                            s->last.round + 1);
    if (s->finish != FT_FINISH_NONE)
        return ft_error_set(err, FT_PRECONDITION, "serve: the text has ended: close the session");
    if (d->base != s->len)
        return ft_error_set(err, FT_PRECONDITION,
                            "serve: round %u hangs on %u tokens, the text has %u", d->round,
                            d->base, s->len);
    return check_tree(s, d, err);
}

static void set_tree(ft_sess *s, const ft_msg_draft *d)
{
    ft_tree_clear(&s->tree);
    for (uint32_t i = 0; i < d->n; i++)
        ft_tree_add(&s->tree, d->parent[i], d->token[i], 0);
    s->n_drafted = d->n;
}

static ft_status accept_draft(ft_sess *s, const ft_msg_draft *d, bool flooded, ft_error *err)
{
    ft_status status = check_round(s, d, flooded, err);
    if (status != FT_OK)
        return status;
    set_tree(s, d);
    return ft_tree_check(&s->tree, s->verifier->n_vocab, err);
}

static uint32_t run_end(uint32_t base, uint32_t run)
{
    return base + (run > 0 ? run : 1);
}

/* Of what may be sent before its time is known to have come. True: that is what it was. */
static bool take_ahead(ft_sess *s, const ft_msg_draft *d)
{
    if (d->run > FT_WIRE_RUN_MAX || !fits_run_end(s, d))
        return false;
    if (s->pending && !s->ahead.kept) {
        s->ahead.kept = true;
        s->ahead.run = d->run;
        return true;
    }
    if (s->pending || s->finish == FT_FINISH_NONE)
        return false;
    FT_LOGD("serve", "session=%llu draft dropped round=%u reason=\"the text ended before\"",
            (unsigned long long)s->serial, d->round);
    return true;
}

/* An early draft extends the tree of the round that is pending or, too late, of the last one. */
static ft_status check_early(const ft_sess *s, const ft_msg_draft *d, bool flooded, ft_error *err)
{
    const uint32_t round = s->pending ? s->round : s->last.round;
    const uint32_t base = s->pending ? s->draft_base : s->last_base;
    const uint32_t n_nodes = s->pending ? s->n_drafted : s->last_drafted;
    if (flooded || d->round == s->early_round)
        return ft_error_set(err, FT_INVALID,
                            "serve: an early draft for round %u came before: one a round",
                            d->round);
    if (round == 0 || d->round != round + 1 || d->base != base || n_nodes == 0)
        return ft_error_set(err, FT_INVALID,
                            "serve: an early draft for round %u behind %u tokens extends no tree: "
                            "round %u hangs on %u tokens and has %u nodes",
                            d->round, d->base, round, base, n_nodes);
    for (uint32_t i = 0; i < d->n; i++)
        if (d->token[i] < 0 || (uint32_t)d->token[i] >= s->verifier->n_vocab)
            return ft_error_set(err, FT_INVALID, "serve: node %u is no token of the vocabulary", i);
    ft_status status = check_tree(s, d, err);
    return status == FT_OK ? ft_early_check(d, n_nodes, err) : status;
}

static ft_status keep_early(ft_sess *s, const ft_msg_draft *d, bool flooded, ft_error *err)
{
    ft_status status = check_early(s, d, flooded, err);
    if (status != FT_OK)
        return status;
    s->early_round = d->round;
    if (s->pending)
        s->early = *d;
    else
        s->verifier->stats.early_late++;
    return FT_OK;
}

/* The tree is now what the early draft has behind the verdict. False: nothing. */
static bool take_early(ft_sess *s)
{
    const ft_msg_verdict *v = &s->last;
    ft_msg_draft next = {.n = 0};
    if (s->early.n == 0)
        return false;
    if (s->finish == FT_FINISH_NONE && v->n_path > 0 && v->n_next == 1)
        ft_early_behind(&s->early, v->path[v->n_path - 1], v->next[0], &next);
    s->early.n = 0;
    s->verifier->stats.early_taken += next.n > 0;
    s->verifier->stats.early_missed += next.n == 0;
    if (next.n > 0)
        set_tree(s, &next);
    return next.n > 0;
}

void ft_sess_draft(ft_sess *s, const ft_msg_draft *draft, bool flooded, int64_t at_us)
{
    ft_error err = {0};
    s->used_at_us = at_us;
    if (!flooded && !s->pending && ft_sess_recorded(s, draft->round, draft->base)) {
        ft_handle_verdict(s->handle, &s->last);
        return;
    }
    if (!flooded && take_ahead(s, draft))
        return;
    ft_status status = draft->n_under > 0 ? keep_early(s, draft, flooded, &err)
                                          : accept_draft(s, draft, flooded, &err);
    if (status != FT_OK) {
        ft_sess_end(s, status, err.message);
        return;
    }
    if (draft->n_under > 0)
        return;
    if (s->verifier->policy->no_drafts)
        ft_tree_clear(&s->tree); /* as if it had asked for a run of one token */
    ft_sess_thought(s, draft, at_us);
    if (ft_sess_state(s) != SESS_PREFILL)
        s->waits_at_us = at_us;
    s->pending = true;
    s->want_kv = true;
    s->round = draft->round;
    s->base = s->draft_base = draft->base;
    s->run_end = s->tree.n == 0 ? run_end(draft->base, draft->run) : 0;
    s->draft_at_us = at_us;
    ft_slo_due(s, draft->draft_us, draft->rtt_us, at_us);
    ft_sess_check(s);
}

void ft_sess_answered(ft_sess *s, int64_t now_us)
{
    bool next = s->ahead.kept && !s->last.more;
    if (next && s->finish != FT_FINISH_NONE)
        FT_LOGD("serve", "session=%llu draft dropped round=%u reason=\"the text ended before\"",
                (unsigned long long)s->serial, s->round + 1);
    s->ahead.kept = s->ahead.kept && s->last.more;
    s->last_drafted = s->n_drafted;
    s->last.early_taken = take_early(s);
    s->pending = s->last.more || s->last.early_taken || (next && s->finish == FT_FINISH_NONE);
    s->want_kv = s->pending;
    if (!s->pending)
        return;
    s->base = s->len;
    s->draft_at_us = s->waits_at_us = now_us;
    ft_slo_due(s, 0, 0, now_us);
    if (s->last.more)
        return;
    s->round++;
    s->draft_base = s->base;
    s->run_end = next ? run_end(s->base, s->ahead.run) : 0;
    s->n_drafted = next ? 0 : s->tree.n;
    if (!next)
        s->verdict_at_us = 0; /* nobody is waited for */
}
