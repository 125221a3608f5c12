// SPDX-License-Identifier: Apache-2.0
// Gives verdicts: walks the trees, appends the tokens that the walks found to the texts, commits
// the KV of these tokens, and tells the clients. Only the engine thread calls this file. It does
// not make batches (batch.c).
//
// The judge computes logits only where walks need them (judge.h). It walks each session's tree on
// one of its threads. That thread writes only this session's log-probabilities. After the walks,
// the engine thread updates all shared data and calls the callbacks, in the batch's order. Nothing
// here allocates memory.
#include "serve/verdict.h"

#include <string.h>

#include "base/log.h"
#include "constrain/constraint.h"
#include "sched/price.h"
#include "serve/answers.h"
#include "serve/batch.h"
#include "serve/drafts.h"
#include "serve/kv_room.h"
#include "serve/lifecycle.h"
#include "serve/own_draft.h"
#include "serve/slo.h"

static void take_logprob(const ft_sess *s, const float *logits, int32_t token,
                         ft_token_logprob *out)
{
    int32_t tokens[FT_WIRE_TOP_MAX];
    float logprobs[FT_WIRE_TOP_MAX];
    uint32_t n_vocab = s->verifier->model.n_vocab;
    out->logprob = ft_logprob(logits, n_vocab, token);
    out->n_top = 0;
    if (s->asked.n_top > 0)
        out->n_top = (uint32_t)ft_top_logprobs(logits, n_vocab, tokens, logprobs, s->asked.n_top);
    for (uint32_t i = 0; i < out->n_top; i++) {
        out->top[i].token = tokens[i];
        out->top[i].logprob = logprobs[i];
    }
}

void ft_verdict_drew(ft_walk *walk, uint32_t i, const float *logits, int32_t token)
{
    const ft_sess *s = walk->user;
    if (s->asked.logprobs)
        take_logprob(s, logits, token, &s->asked.logprobs[i]);
}

/* ---- walks ---- */

static void add_walk(ft_verifier *v, ft_sess *s, const ft_segment *g, ft_tree *tree)
{
    const ft_nodes *nodes = &s->round.nodes;
    ft_tree_clear(tree);
    for (uint32_t i = 0; i < nodes->n; i++)
        ft_tree_add(tree, nodes->parent[i], nodes->token[i], 0);
    ft_walk *w = ft_judge_add(v->judge);
    const ft_client_msg *msg = s->round.draft; /* NULL: a run */
    w->rule = s->asked.rule.rule;
    w->draft = (ft_drafted){.tree = tree,
                            .evidence = msg ? msg->draft.evidence : NULL,
                            .n_evidence = msg ? msg->draft.n_evidence : 0,
                            .sampling = &s->asked.sampling,
                            .position = s->text.len,
                            .text = s->text.token};
    w->root_row = g->first_row;
    w->user = s;
}

ft_status ft_verdict_walk(ft_verifier *v, ft_error *err)
{
    const ft_sess_batch *b = &v->batch;
    ft_tree *tree = b->trees;
    ft_judge_clear(v->judge);
    for (size_t i = 0; i < b->segments.n; i++)
        if (b->segments.segment[i].want)
            add_walk(v, b->segments.of[i], &b->segments.segment[i], tree++);
    return ft_judge_run(v->judge, err);
}

/* ---- a verdict ---- */

/* Appends what the walk found to the text, until the text ends, and fills in the verdict. */
static void conclude(ft_sess *s, const ft_verified *found, ft_msg_verdict *out)
{
    const ft_vocab *vocab = s->verifier->opts.vocab;
    memset(out, 0, sizeof *out);
    out->round = s->round.number;
    out->logprobs = s->asked.logprobs;
    for (uint32_t i = 0; i <= found->n_path && s->text.finish == FT_FINISH_NONE; i++) {
        bool in_path = i < found->n_path;
        int32_t token = in_path ? s->round.nodes.token[found->path[i]] : found->next;
        out->n_logprobs += s->asked.logprobs != NULL;
        if (in_path)
            out->path[out->n_path++] = found->path[i];
        else
            out->next[out->n_next++] = token;
        ft_sess_text_append(&s->text, token, ft_vocab_is_eog(vocab, token));
    }
    out->length = s->text.len;
    out->finish = s->text.finish;
    out->more = s->text.finish == FT_FINISH_NONE && ft_round_is_run(&s->round) &&
                s->text.len < s->round.end;
}

/* Commits the KV of the new text. If the text has ended, releases all of its KV: the prefix cache
 * keeps it for a session that continues this text. */
static ft_status commit(ft_sess *s, uint32_t n_text, const ft_msg_verdict *verdict, ft_error *err)
{
    uint32_t *path = s->verifier->batch.path;
    uint32_t n = 0;
    while (n < n_text) {
        path[n] = n;
        n++;
    }
    for (uint32_t i = 0; verdict && i < verdict->n_path; i++)
        path[n++] = n_text + verdict->path[i];
    ft_status status = ft_seq_commit(s->kv.seq, path, n, NULL, 0, err);
    if (status == FT_OK && s->text.finish != FT_FINISH_NONE)
        ft_seq_truncate(s->kv.seq, 0);
    return status;
}

/* The expected time of the pass if this session had one row in it in place of its segment. Must be
 * called before the segment is committed. */
static uint32_t run_token_us(const ft_sess *s, const ft_segment *g, const ft_walk *w)
{
    const ft_verifier *v = s->verifier;
    const ft_pass mine = ft_pass_plus((ft_pass){0}, ft_seq_n_past(s->kv.seq), g->n, w->n_rows);
    return ft_price_token_us(&v->cost, &v->batch.pass, &mine, s->text.len - 1);
}

static void give_hints(const ft_sess *s, const ft_segment *g, const ft_walk *w, ft_msg_verdict *out)
{
    const ft_verifier *v = s->verifier;
    out->hints = ft_sess_batch_hints(s);
    out->hints.token_us = ft_own_token_us(v);
    if (out->hints.token_us == 0)
        out->hints.token_us = run_token_us(s, g, w);
}

static void count_verdict(ft_sess *s, const ft_msg_verdict *verdict)
{
    ft_verifier_stats *stats = &s->verifier->stats;
    const uint32_t tokens = verdict->n_path + verdict->n_next;
    const bool run = ft_round_is_run(&s->round);
    stats->rounds++;
    stats->drafted += run ? 0 : s->round.nodes.n;
    stats->accepted += run ? 0 : verdict->n_path;
    stats->tokens += tokens;
    stats->run_tokens += run ? tokens : 0;
    stats->queue_us += verdict->queue_us;
    stats->verify_us += verdict->verify_us;
}

/* Takes an early draft that came while the pass ran, because such a draft is not late. Takes it
 * before other messages, even if they came earlier. False: the draft was wrong, and the session was
 * ended. */
static bool take_early(ft_sess *s)
{
    ft_mail mail;
    bool flooded;
    while (ft_handle_take(s->handle, true, &mail, &flooded))
        if (!ft_sess_draft(s, &mail, flooded))
            return false;
    return true;
}

/* The session's text, KV and round follow the verdict. */
static void follow(ft_sess *s, uint32_t len_before, ft_msg_verdict *verdict, int64_t now_us)
{
    const bool whole = len_before == s->round.base && !verdict->more;
    s->times.used_us = now_us;
    count_verdict(s, verdict);
    ft_slo_answered(s, verdict, now_us);
    ft_own_verdict(s, verdict);
    ft_sess_record_keep(&s->record, verdict, s->round.base, s->round.n_drafted, whole);
    ft_draft_answered(s, verdict, now_us);
    ft_sess_check(s);
}

/* For how long the engine worked for other sessions after this session's last verdict. This time
 * ends when the engine has nothing to do, or when the pass of this verdict begins. 0: not known. */
static uint32_t others_us(const ft_sess_times *t, int64_t started_us)
{
    const int64_t us = (t->rested.known ? t->rested.us : started_us) - t->answered.us;
    return t->answered.known && us >= 0 && us <= UINT32_MAX ? (uint32_t)us : 0;
}

/* What of the text was read since the last verdict. */
static void tell_reading(ft_sess_kv *kv, ft_msg_verdict *verdict)
{
    verdict->read_tok = kv->read_tok;
    verdict->read_us = kv->read_us < UINT32_MAX ? (uint32_t)kv->read_us : UINT32_MAX;
    kv->read_tok = 0;
    kv->read_us = 0;
}

static void finish_verify(ft_sess *s, const ft_segment *g, const ft_walk *w, int64_t started_us,
                          int64_t now_us)
{
    ft_msg_verdict *verdict = &s->verifier->answer.verdict;
    const uint32_t len_before = s->text.len, lead = g->n - s->round.nodes.n - 1;
    ft_error err = {0};
    if (w->found.refused) {
        ft_error_set(&err, FT_INVALID, "serve: the evidence of round %u: %s", s->round.number,
                     w->found.refused);
        ft_sess_end(s, FT_INVALID, err.message);
        return;
    }
    if (s->asked.matcher && ft_matcher_status(s->asked.matcher, &err) != FT_OK) {
        ft_sess_end(s, err.code == FT_NOMEM ? FT_UNAVAILABLE : err.code, err.message);
        return;
    }
    if (!take_early(s))
        return;
    conclude(s, &w->found, verdict);
    give_hints(s, g, w, verdict);
    ft_status status = commit(s, lead + 1, verdict, &err);
    if (status != FT_OK) {
        ft_sess_end(s, FT_INTERNAL, err.message);
        return;
    }
    if (lead > 0)
        ft_kv_computed(s, lead, now_us - started_us, now_us);
    verdict->queue_us = (uint32_t)(started_us - s->times.draft_us);
    verdict->verify_us = (uint32_t)(now_us - started_us);
    verdict->others_us = others_us(&s->times, started_us);
    verdict->together = s->round.joint.together > 0 ? s->round.joint.taken : 0;
    tell_reading(&s->kv, verdict);
    s->times.answered = ft_known(now_us);
    s->times.rested = ft_unknown();
    follow(s, len_before, verdict, now_us);
    s->verifier->answer.kind = FT_SERVER_VERDICT;
    ft_answer(s->verifier, s->handle);
}

static void finish_prefill(ft_sess *s, const ft_segment *g, int64_t started_us, int64_t now_us)
{
    ft_error err = {0};
    if (commit(s, g->n, NULL, &err) != FT_OK) {
        ft_sess_end(s, FT_INTERNAL, err.message);
        return;
    }
    ft_kv_computed(s, g->n, now_us - started_us, now_us);
    if (!ft_sess_is_behind(s)) {
        s->kv.want = ft_round_waits(&s->round);
        s->times.used_us = now_us; /* its first draft may come at any moment */
    }
    FT_LOGD("serve", "session=%llu prefill done_tok=%u left_tok=%u",
            (unsigned long long)s->who.serial, ft_seq_n_past(s->kv.seq), ft_sess_missing(s));
    ft_sess_check(s);
}

/* Whether both are verified as parts of one batch of drafts. */
static bool together(const ft_sess *a, const ft_sess *b)
{
    return a->round.joint.together > 0 && b->round.joint.together > 0 &&
           a->round.joint.batch == b->round.joint.batch && a->who.tenant == b->who.tenant;
}

/* Counts for each joint draft of the pass how many of its batch are in the pass. */
static void count_together(ft_sess_part *part)
{
    for (size_t i = 0; i < part->n; i++)
        part->of[i]->round.joint.taken = 0;
    for (size_t i = 0; i < part->n; i++) {
        uint32_t n = 0;
        const ft_round_joint *joint = &part->of[i]->round.joint;
        if (joint->together == 0 || joint->taken > 0)
            continue; /* it has none, or was counted with one before it */
        for (size_t j = i; j < part->n; j++)
            n += part->segment[j].want && together(part->of[i], part->of[j]);
        for (size_t j = i; j < part->n && n > 0; j++)
            if (together(part->of[i], part->of[j]))
                part->of[j]->round.joint.taken = n;
    }
}

void ft_verdict_give(ft_verifier *v, int64_t started_us, int64_t now_us)
{
    ft_sess_batch *b = &v->batch;
    size_t n_walks;
    count_together(&b->segments);
    const ft_walk *walk = ft_judge_walks(v->judge, &n_walks);
    for (size_t i = 0; i < b->segments.n; i++) {
        if (b->segments.segment[i].want)
            finish_verify(b->segments.of[i], &b->segments.segment[i], walk++, started_us, now_us);
        else
            finish_prefill(b->segments.of[i], &b->segments.segment[i], started_us, now_us);
    }
}
