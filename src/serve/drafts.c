// SPDX-License-Identifier: Apache-2.0
// Takes the drafts of an open session, and follows the verdicts on them. This file checks each
// draft and turns it into an event of the session's round. The table in serve/round_state.c says
// what the event does. The functions run on the engine thread. This file computes no pass (pass.c
// does) and ends no session (lifecycle.c does).
//
// Invariant: when a draft is taken, room in the text is reserved for all tokens that its verdicts
// may add. So a verdict allocates no memory.
//
// An edge may ask for the next run while a run is under way. The edge cannot know yet whether this
// run will end the text. So a request for the next run is no error if the text has ended. Any other
// draft that would begin a round after the text's end is an error.
#include "serve/drafts.h"

#include "base/log.h"
#include "serve/answers.h"
#include "serve/slo.h"
#include "wire/early.h"

/* ---- which event a draft is ---- */

static uint32_t run_end(uint32_t base, uint32_t run)
{
    return base + (run > 0 ? run : 1);
}

/* Whether the draft asks for the next run. The run before it is under way or has ended the text. */
static bool asks_for_next_run(const ft_round *r, const ft_msg_draft *d)
{
    const bool run = ft_round_is_run(r) || (r->state == FT_ROUND_ENDED && r->end > r->base);
    return run && d->n == 0 && d->run <= FT_WIRE_RUN_MAX && d->round == r->number + 1 &&
           d->base == r->end;
}

/* Returns the event that the draft is. After a flood (`flooded`), the record answers no draft, and
 * no next run is kept. */
static ft_round_event event_of(const ft_sess *s, const ft_msg_draft *d, bool flooded)
{
    if (!flooded && !ft_round_waits(&s->round) &&
        ft_sess_record_holds(&s->record, d->round, d->base))
        return FT_ROUND_ON_REPEAT;
    if (!flooded && asks_for_next_run(&s->round, d))
        return FT_ROUND_ON_NEXT_RUN;
    if (d->n_under > 0)
        return FT_ROUND_ON_EARLY;
    /* A policy that verifies no trees treats a tree as a run of one token. */
    return d->n > 0 && !s->verifier->policy->no_drafts ? FT_ROUND_ON_TREE : FT_ROUND_ON_RUN;
}

/* ---- checks ---- */

static ft_status check_size(const ft_sess *s, const ft_msg_draft *d, ft_error *err)
{
    if (d->n > s->verifier->opts.max_tree)
        return ft_error_set(err, FT_INVALID, "serve: a tree of %u nodes: at most %u", d->n,
                            s->verifier->opts.max_tree);
    if (d->run > FT_WIRE_RUN_MAX || (d->n > 0 && d->run > 0))
        return ft_error_set(err, FT_INVALID,
                            "serve: a run of %u tokens with a tree of %u nodes: send only one of "
                            "the two, a run of at most %d tokens",
                            d->run, d->n, FT_WIRE_RUN_MAX);
    for (uint32_t i = 0; i < d->n; i++)
        if (d->parent[i] < -1 || d->parent[i] >= (int32_t)i)
            return ft_error_set(err, FT_INVALID, "serve: parent of node %u is not before it", i);
    return FT_OK;
}

static ft_status check_nodes(const ft_sess *s, const ft_msg_draft *d, ft_error *err)
{
    ft_tree tree;
    ft_tree_clear(&tree);
    for (uint32_t i = 0; i < d->n; i++)
        ft_tree_add(&tree, d->parent[i], d->token[i], 0);
    const ft_drafted draft = {.tree = &tree,
                              .evidence = d->evidence,
                              .n_evidence = d->n_evidence,
                              .sampling = &s->asked.sampling,
                              .position = s->text.len};
    ft_status status = ft_tree_check(&tree, s->verifier->model.n_vocab, err);
    return status == FT_OK ? ft_sess_rule_check(&s->asked.rule, &draft, err) : status;
}

/* Checks an ordinary draft: a tree or a run. would: what the draft's event would do. */
static ft_status check_draft(const ft_sess *s, const ft_msg_draft *d, ft_round_did would,
                             bool flooded, ft_error *err)
{
    const ft_sess_record *last = &s->record;
    if (flooded || would == FT_ROUND_BUSY)
        return ft_error_set(err, FT_INVALID,
                            "serve: a draft is under way: wait for its verdict before the next");
    if (last->round > 0 && d->round == last->round && d->base == last->base)
        return ft_error_set(err, FT_PRECONDITION,
                            "serve: round %u was a run, and only its last verdict is kept: open "
                            "again with the text so far",
                            d->round);
    if (d->round != last->round + 1)
        return ft_error_set(err, FT_INVALID, "serve: round %u is not the next one (%u)", d->round,
                            last->round + 1);
    if (would == FT_ROUND_OVER)
        return ft_error_set(err, FT_PRECONDITION, "serve: the text has ended: close the session");
    if (d->base != s->text.len)
        return ft_error_set(err, FT_PRECONDITION,
                            "serve: round %u extends %u tokens, the text has %u", d->round, d->base,
                            s->text.len);
    ft_status status = check_size(s, d, err);
    return status == FT_OK ? check_nodes(s, d, err) : status;
}

/* Checks an early draft. It extends the tree of the round under way. If it came too late, it
 * extends the tree of the last round. */
static ft_status check_early(const ft_sess *s, const ft_msg_draft *d, bool flooded, ft_error *err)
{
    const ft_round *r = &s->round;
    const bool waits = ft_round_waits(r);
    const uint32_t round = waits ? r->number : s->record.round;
    const uint32_t base = waits ? r->base : s->record.base;
    const uint32_t n_nodes = waits ? r->n_drafted : s->record.n_drafted;
    if (!ft_rule_takes_early(&s->asked.rule.terms))
        return ft_error_set(err, FT_INVALID, "serve: rule %s allows no early drafts",
                            s->asked.rule.rule->name);
    if (flooded || d->round == r->early_for)
        return ft_error_set(err, FT_INVALID,
                            "serve: a second early draft for round %u: only one is allowed",
                            d->round);
    if (round == 0 || d->round != round + 1 || d->base != base || n_nodes == 0)
        return ft_error_set(err, FT_INVALID,
                            "serve: the early draft for round %u, text length %u, extends no tree: "
                            "round %u has text length %u and %u nodes",
                            d->round, d->base, round, base, n_nodes);
    for (uint32_t i = 0; i < d->n; i++)
        if (d->token[i] < 0 || (uint32_t)d->token[i] >= s->verifier->model.n_vocab)
            return ft_error_set(err, FT_INVALID, "serve: node %u: token not in the vocabulary", i);
    ft_status status = check_size(s, d, err);
    return status == FT_OK ? ft_early_check(d, n_nodes, err) : status;
}

static ft_status check_repeat(const ft_sess *s, ft_error *err)
{
    if (s->record.repeats < FT_REPEATS_MAX)
        return FT_OK;
    return ft_error_set(
        err, FT_INVALID,
        "serve: round %u was sent again %u times on one stream: use its verdict, or "
        "resume the session on another stream",
        s->record.round, s->record.repeats);
}

/* Reserves room in the text for the tokens of this draft. If a round is under way, also reserves
 * room for the tokens of that round. */
static ft_status reserve(ft_sess *s, const ft_msg_draft *d, ft_error *err)
{
    const ft_round *r = &s->round;
    uint64_t most = s->text.len;
    if (ft_round_waits(r))
        most = ft_round_is_run(r) ? r->end : (uint64_t)r->base + r->n_drafted + 1;
    most += d->n > 0 ? d->n + 1 : run_end(0, d->run);
    if (ft_sess_text_reserve(&s->text, most) == FT_OK)
        return FT_OK;
    return ft_error_set(err, FT_NOMEM, "serve: out of memory for a text of %llu tokens",
                        (unsigned long long)most);
}

static ft_status check(ft_sess *s, const ft_msg_draft *d, ft_round_event event, bool flooded,
                       ft_error *err)
{
    const ft_round_did would = ft_round_would(&s->round, event);
    if (would == FT_ROUND_REPEATED)
        return check_repeat(s, err);
    ft_status status = FT_OK;
    if (event == FT_ROUND_ON_EARLY)
        status = check_early(s, d, flooded, err);
    else if (event != FT_ROUND_ON_NEXT_RUN || would == FT_ROUND_BUSY)
        status = check_draft(s, d, would, flooded, err);
    return status == FT_OK ? reserve(s, d, err) : status;
}

/* ---- what an event does ---- */

static void log_dropped(const ft_sess *s, uint32_t round)
{
    FT_LOGD("serve", "session=%llu draft dropped round=%u reason=\"the text ended before\"",
            (unsigned long long)s->who.serial, round);
}

static void repeat(ft_sess *s)
{
    ft_server_msg *answer = &s->verifier->answer;
    s->record.repeats++;
    answer->kind = FT_SERVER_VERDICT;
    ft_sess_record_verdict(&s->record, &s->text, s->asked.logprobs, &answer->verdict);
    ft_answer(s->verifier, s->handle);
}

/* Begins a round. If the draft is a tree, takes the message and sets *msg to NULL. A run does not
 * need the message, so the caller frees it. */
static void begin(ft_sess *s, ft_client_msg **msg, int64_t at_us)
{
    ft_client_msg *draft = *msg;
    const ft_msg_draft *d = &draft->draft;
    const bool run = ft_round_is_run(&s->round);
    if (ft_sess_state_of(s) != FT_SESS_PREFILL) /* else it waits already, for its prompt */
        s->times.waits_us = at_us;
    if (!run)
        *msg = NULL;
    ft_round_begin(&s->round, d->round, d->base, run ? run_end(d->base, d->run) : d->base,
                   run ? NULL : draft);
    s->round.n_drafted = d->n;
    s->round.joint = (ft_round_joint){.together = d->together, .batch = d->batch};
    s->kv.want = true;
    s->times.draft_us = at_us;
    if (s->times.answered.known)
        ft_away_saw(&s->times.away, at_us - s->times.answered.us);
    ft_slo_due(s, d->draft_us, d->rtt_us, at_us);
}

/* Keeps the draft until the round under way is over. */
static void keep(ft_sess *s, ft_client_msg **msg)
{
    ft_round *r = &s->round;
    if (r->state == FT_ROUND_RUN_NEXT) {
        r->next_run = (*msg)->draft.run;
        return;
    }
    r->early_for = (*msg)->draft.round;
    r->early = *msg;
    *msg = NULL;
}

static void drop(ft_sess *s, const ft_msg_draft *d, ft_round_event event)
{
    if (event == FT_ROUND_ON_NEXT_RUN) {
        log_dropped(s, d->round);
        return;
    }
    s->round.early_for = d->round;
    if (ft_round_waits(&s->round))
        s->verifier->stats.early_missed++; /* the tree that it extends is not verified */
    else
        s->verifier->stats.early_late++;
}

ft_status ft_draft_take(ft_sess *s, ft_client_msg *take_draft, bool flooded, int64_t at_us,
                        ft_error *err)
{
    ft_client_msg *msg = take_draft;
    const ft_round_event event = event_of(s, &msg->draft, flooded);
    s->times.used_us = at_us;
    ft_status status = check(s, &msg->draft, event, flooded, err);
    if (status == FT_OK) {
        const ft_round_did did = ft_round_step(&s->round, event);
        if (did == FT_ROUND_BEGAN)
            begin(s, &msg, at_us);
        else if (did == FT_ROUND_KEPT)
            keep(s, &msg);
        else if (did == FT_ROUND_DROPPED)
            drop(s, &msg->draft, event);
        else if (did == FT_ROUND_REPEATED)
            repeat(s);
        ft_round_check(&s->round);
    }
    ft_client_msg_free(msg);
    return status;
}

/* ---- verdicts ---- */

/* Whether a part of the kept early draft is the next round's tree. Removes the other nodes from the
 * draft. */
static bool cut_early(ft_round *r, const ft_msg_verdict *v)
{
    if (!r->early || v->finish != FT_FINISH_NONE || v->n_path == 0 || v->n_next != 1)
        return false;
    ft_msg_draft *early = &r->early->draft;
    ft_early_behind(early, v->path[v->n_path - 1], v->next[0], early);
    return early->n > 0;
}

static ft_round_event event_of_verdict(const ft_msg_verdict *v)
{
    if (v->finish != FT_FINISH_NONE)
        return FT_ROUND_ON_END;
    if (v->more)
        return FT_ROUND_ON_PART;
    return v->early_taken ? FT_ROUND_ON_FIT : FT_ROUND_ON_VERDICT;
}

/* Begins the next round with the kept draft. */
static void begin_kept(ft_sess *s)
{
    ft_round *r = &s->round;
    ft_client_msg *early = r->early;
    r->early = NULL;
    uint32_t base = s->text.len;
    ft_round_begin(r, r->number + 1, base, early ? base : run_end(base, r->next_run), early);
}

void ft_draft_answered(ft_sess *s, ft_msg_verdict *verdict, int64_t now_us)
{
    ft_round *r = &s->round;
    ft_verifier_stats *stats = &s->verifier->stats;
    if (r->state == FT_ROUND_RUN_NEXT && verdict->finish != FT_FINISH_NONE)
        log_dropped(s, r->number + 1);
    verdict->early_taken = cut_early(r, verdict);
    stats->early_taken += verdict->early_taken;
    stats->early_missed += r->early && !verdict->early_taken;
    const ft_round_did did = ft_round_step(r, event_of_verdict(verdict));
    if (did == FT_ROUND_BEGAN) {
        begin_kept(s);
        ft_away_saw(&s->times.away, 0);
    } else if (did == FT_ROUND_CLOSED) {
        ft_round_settle(r);
    }
    s->kv.want = ft_round_waits(r);
    if (!s->kv.want)
        return;
    s->times.draft_us = s->times.waits_us = now_us;
    ft_slo_due(s, 0, 0, now_us);
}

void ft_draft_withdraw(ft_sess *s)
{
    ft_round *r = &s->round;
    (void)ft_round_step(r, FT_ROUND_ON_WITHDRAW);
    ft_round_settle(r);
    r->joint = (ft_round_joint){0};
    r->early_for = 0;
}
