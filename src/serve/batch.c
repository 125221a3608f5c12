// SPDX-License-Identifier: Apache-2.0
// Composes the batch of a pass. A need (ft_need) is a session that has something to compute. Needs
// that fit into the KV pool become work (ft_work). Work that the policy picks becomes segments. One
// batch holds prompt chunks and trees of all sessions. The engine thread owns the batch.
//
// A session's segment begins with the tokens of the text that are missing in KV. In a verification,
// the root (the text's last token) and the nodes of the tree follow. `lead` is the number of rows
// before the root. It is 0 once the prompt is computed.
//
// Only ft_sess_batch_init allocates memory; a pass allocates none. This file does not decide which
// work runs (src/sched does) or which session is evicted (kv_room.c does). It does not compute the
// pass (pass.c does).
#include "serve/batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/sort.h"
#include "sched/groups.h"
#include "sched/price.h"
#include "sched/prompt_share.h"
#include "sched/tuning.h"
#include "serve/kv_room.h"
#include "serve/own_draft.h"
#include "serve/slo.h"

/* The most prompt tokens that are computed in one segment with a tree, if no other session must
 * wait for the pass. So a short prompt and its first round need only one pass. The prompt tokens
 * and the tree together stay below the number of pending nodes that an engine allows. */
#define LEAD_MAX (FT_PENDING_MAX - FT_TREE_MAX - 1)

ft_status ft_sess_batch_init(ft_sess_batch *batch, const ft_verifier_opts *opts, ft_error *err)
{
    ft_sess_batch *b = batch;
    size_t rows = opts->max_batch_tok, sessions = opts->max_sessions;
    b->needs = calloc(sessions, sizeof *b->needs);
    b->work = calloc(sessions, sizeof *b->work);
    b->picks = calloc(sessions, sizeof *b->picks);
    b->joint = calloc(sessions, sizeof *b->joint);
    b->awaited = calloc(sessions, sizeof *b->awaited);
    b->all.segment = calloc(rows, sizeof *b->all.segment);
    b->all.of = calloc(rows, sizeof *b->all.of);
    b->rows.token = calloc(rows, sizeof *b->rows.token);
    b->rows.parent = calloc(rows, sizeof *b->rows.parent);
    b->rows.want = calloc(rows, sizeof *b->rows.want);
    b->trees = calloc(rows, sizeof *b->trees);
    b->path = calloc(rows, sizeof *b->path);
    if (b->needs && b->work && b->picks && b->joint && b->awaited && b->all.segment && b->all.of &&
        b->rows.token && b->rows.parent && b->rows.want && b->trees && b->path)
        return FT_OK;
    return ft_error_set(err, FT_NOMEM, "serve: out of memory for batches");
}

void ft_sess_batch_deinit(ft_sess_batch *batch)
{
    ft_sess_batch *b = batch;
    free(b->needs);
    free(b->work);
    free(b->picks);
    free(b->joint);
    free(b->awaited);
    free(b->all.segment);
    free(b->all.of);
    free(b->rows.token);
    free(b->rows.parent);
    free(b->rows.want);
    free(b->trees);
    free(b->path);
}

/* ---- needs ---- */

/* Returns the number of rows of the session's verification. Returns 0 if no verification waits, or
 * if missing KV must be computed first. A long lead is computed first, as prompt work. Prompt work
 * is cut into chunks if other sessions may have to wait for it. */
static uint32_t verify_rows(const ft_sess *s)
{
    const ft_verifier *v = s->verifier;
    uint32_t lead = ft_sess_missing(s), rows = lead + 1 + s->round.nodes.n;
    uint32_t most = v->batch.alone ? LEAD_MAX : FT_KV_BLOCK_TOK;
    return ft_round_waits(&s->round) && lead <= most && rows <= v->opts.max_batch_tok ? rows : 0;
}

/* Whether the session of need `a` has waited longer than the session of need `b`. If both have
 * waited equally long, the session that was opened first comes first. */
static bool before(const void *ctx, const void *a, const void *b)
{
    const ft_sess *x = ((const ft_need *)a)->session, *y = ((const ft_need *)b)->session;
    (void)ctx;
    return x->times.waits_us != y->times.waits_us ? x->times.waits_us < y->times.waits_us
                                                  : x->who.serial < y->who.serial;
}

static void gather(ft_verifier *v)
{
    ft_sess_batch *b = &v->batch;
    b->n_needs = 0;
    for (ft_sess *s = v->sessions.first; s; s = s->next) {
        ft_sess_state state = ft_sess_state_of(s);
        if (state != FT_SESS_WAITING && state != FT_SESS_PREFILL)
            continue;
        b->needs[b->n_needs++] =
            (ft_need){.session = s, .rows = state == FT_SESS_WAITING ? 1 + s->round.nodes.n : 0};
    }
    ft_sort(b->needs, b->n_needs, sizeof *b->needs, before, NULL);
}

static ft_sched_limits limits_of(const ft_verifier *v)
{
    return (ft_sched_limits){.max_rows = v->opts.max_batch_tok,
                             .cost = &v->cost,
                             .kv_block_tok = FT_KV_BLOCK_TOK,
                             .guard_us = v->opts.guard_us,
                             .static_batch = v->opts.static_batch,
                             .static_wait_us = v->opts.static_wait_us};
}

/* Removes the verifications that the policy holds back. Returns in how many microseconds the policy
 * will start them; < 0: it holds none back. */
static int64_t hold(ft_verifier *v)
{
    ft_sess_batch *b = &v->batch;
    const ft_sched_limits limits = limits_of(v);
    ft_hold waiting = {0};
    b->alone = false; /* a prompt and its first round take separate passes */
    for (size_t i = 0; i < b->n_needs; i++)
        if (verify_rows(b->needs[i].session))
            ft_hold_add(&waiting, b->needs[i].session->times.waits_us);
    int64_t now_us = ft_clock_now_us(&v->opts.clock);
    int64_t left_us = ft_hold_left_us(&waiting, v->policy, &limits, now_us);
    if (left_us == 0)
        return -1;
    size_t kept = 0;
    for (size_t i = 0; i < b->n_needs; i++)
        if (!verify_rows(b->needs[i].session))
            b->needs[kept++] = b->needs[i];
    b->n_needs = kept;
    return left_us;
}

/* Of a joint draft. need: of its session; UINT32_MAX: its round is over. */
static ft_together joint_draft(const ft_sess *s, uint32_t need)
{
    const ft_round *r = &s->round;
    const bool answered = !ft_round_waits(r) || s->text.len > r->base;
    return (ft_together){.owner = (uintptr_t)s->who.tenant,
                         .batch = r->joint.batch,
                         .expected = r->joint.together,
                         .index = need,
                         .arrival_us = s->times.draft_us,
                         .ready = !answered && verify_rows(s) > 0,
                         .answered = answered};
}

/* Removes the verifications that wait for the rest of their batch (sched/together.h). Returns in
 * how many microseconds the first of them waits no longer; < 0: none waits. */
static int64_t hold_joint(ft_verifier *v)
{
    ft_sess_batch *b = &v->batch;
    size_t n = 0, kept = 0;
    b->alone = false; /* as in hold */
    for (size_t i = 0; i < b->n_needs; i++)
        if (b->needs[i].session->round.joint.together > 1 && b->needs[i].rows > 0)
            b->joint[n++] = joint_draft(b->needs[i].session, (uint32_t)i);
    if (n == 0)
        return -1;
    for (const ft_sess *s = v->sessions.first; s; s = s->next)
        if (s->round.joint.together > 1 && !ft_round_waits(&s->round))
            b->joint[n++] = joint_draft(s, UINT32_MAX);
    const int64_t left_us = ft_together_hold(b->joint, n, ft_clock_now_us(&v->opts.clock));
    for (size_t i = 0; i < n; i++)
        if (b->joint[i].held)
            b->needs[b->joint[i].index].out = true;
    for (size_t i = 0; i < b->n_needs; i++)
        if (!b->needs[i].out)
            b->needs[kept++] = b->needs[i];
    b->n_needs = kept;
    return left_us;
}

/* Rows of a prompt, as part of a pass that is not composed yet. */
static uint32_t prompt_rows(const ft_sess *s)
{
    const uint32_t kept =
        s->verifier->opts.max_batch_tok / (uint32_t)ft_sched_tune->batch.prompt_part;
    return ft_min_u32(ft_sess_missing(s), kept);
}

static ft_await_text waiting_text(const ft_sess *s, int64_t now_us)
{
    const uint32_t rows = verify_rows(s), past = ft_seq_n_past(s->kv.seq);
    const uint32_t out = rows ? ft_judge_expect(s->verifier->judge, s->round.nodes.n) : 0;
    const bool away = s->times.away.us.known && !ft_round_is_run(&s->round);
    return (ft_await_text){.at_us = now_us,
                           .away_us = away ? s->times.away.us.value : 0,
                           .most_us = away ? ft_away_most_us(&s->times.away) : 0,
                           .part =
                               ft_pass_plus((ft_pass){0}, past, rows ? rows : prompt_rows(s), out),
                           .gain_tok = ft_slo_gain(s)};
}

/* Of a session without work. */
static ft_await_text expected_text(const ft_sess *s, int64_t at_us)
{
    const uint32_t rows = s->slo.gain.rows.known ? (uint32_t)ceil(s->slo.gain.rows.value) : 1;
    return (ft_await_text){.at_us = at_us,
                           .away_us = s->times.away.us.value,
                           .most_us = ft_away_most_us(&s->times.away),
                           .part = ft_pass_plus((ft_pass){0}, s->text.len - 1, rows, rows),
                           .gain_tok = ft_slo_gain(s)};
}

/* Holds all work back while the pass should wait for more (sched/await.h). Returns for how many
 * microseconds; < 0: it should start. */
static int64_t hold_all(ft_verifier *v)
{
    ft_sess_batch *b = &v->batch;
    const int64_t now_us = ft_clock_now_us(&v->opts.clock);
    b->alone = false; /* as in hold */
    b->n_awaited = 0;
    for (size_t i = 0; i < b->n_needs; i++)
        b->awaited[b->n_awaited++] = waiting_text(b->needs[i].session, now_us);
    for (const ft_sess *s = v->sessions.first; s && b->n_needs > 0; s = s->next) {
        if (ft_sess_state_of(s) != FT_SESS_IDLE || !s->times.answered.known)
            continue;
        const ft_known_us at = ft_away_until(&s->times.away, s->times.answered.us);
        if (at.known && at.us > now_us)
            b->awaited[b->n_awaited++] = expected_text(s, at.us);
    }
    const int64_t left_us = ft_await_us(b->awaited, b->n_awaited, &v->cost, now_us);
    if (left_us == 0)
        return -1;
    b->n_needs = 0;
    return left_us;
}

static void describe_work(ft_verifier *v, ft_sess *s, ft_work *w)
{
    uint32_t rows = verify_rows(s);
    *w = (ft_work){.id = s->who.serial,
                   .kind = rows ? FT_WORK_VERIFY : FT_WORK_PREFILL,
                   .arrival_us = s->times.waits_us,
                   .n_tok = rows ? rows : ft_sess_missing(s),
                   .n_out = rows ? ft_judge_expect(v->judge, s->round.nodes.n) : 0,
                   .n_past = ft_seq_n_past(s->kv.seq)};
    w->kv_blocks = ft_seq_blocks_needed(s->kv.seq, w->n_tok);
    ft_slo_describe(s, w);
}

/* ---- the batch ---- */

static void count_segment(ft_sess *s, ft_work_kind kind, uint32_t n)
{
    ft_verifier_stats *stats = &s->verifier->stats;
    if (kind == FT_WORK_PREFILL)
        ft_sizes_add(&stats->chunks, n);
    if (!s->kv.counted && !s->verifier->opts.no_prefix_cache) {
        stats->prefix_lookup_tok += s->text.len - 1;
        stats->prefix_hit_tok += ft_seq_n_past(s->kv.seq);
    }
    s->kv.counted = true;
}

static void add_segment(ft_sess_batch *b, ft_sess *s, ft_work_kind kind, uint32_t n)
{
    const ft_nodes *nodes = &s->round.nodes;
    count_segment(s, kind, n);
    ft_segment *g = &b->all.segment[b->all.n];
    int32_t *tokens = b->rows.token + b->rows.n, *parent = b->rows.parent + b->rows.n;
    uint64_t *want = b->rows.want + b->rows.n_want;
    uint32_t n_text = kind == FT_WORK_VERIFY ? n - nodes->n : n; /* includes the root */
    b->all.of[b->all.n++] = s;
    b->rows.n += n;
    *g = (ft_segment){.seq = s->kv.seq, .n = n, .tokens = tokens};
    memcpy(tokens, s->text.token + ft_seq_n_past(s->kv.seq), n_text * sizeof *tokens);
    if (kind == FT_WORK_PREFILL)
        return;
    if (nodes->n > 0)
        memcpy(tokens + n_text, nodes->token, nodes->n * sizeof *tokens);
    for (uint32_t i = 0; i < n_text; i++)
        parent[i] = (int32_t)i - 1;
    for (uint32_t i = 0; i < nodes->n; i++)
        parent[n_text + i] = nodes->parent[i] + (int32_t)n_text; /* -1 is the root: n_text - 1 */
    memset(want, 0, (n + 63) / 64 * sizeof *want);
    for (uint32_t i = n_text - 1; i < n; i++)
        want[i / 64] |= 1ull << (i % 64);
    b->rows.n_want += (n + 63) / 64;
    g->parent = parent;
    g->want = want;
}

/* ---- all of it ---- */

/* Whether some session that has no work now may send its draft at any moment. */
static bool draft_expected(const ft_verifier *v, int64_t now_us)
{
    for (const ft_sess *s = v->sessions.first; s; s = s->next)
        if (ft_sess_state_of(s) == FT_SESS_IDLE && ft_prompt_awaits(now_us - s->times.used_us))
            return true;
    return false;
}

/* How much time prompts may add to the next pass; 0: no limit. others: a round of another session
 * waits for the pass, or may come while the pass runs. */
static int64_t prompt_us(const ft_verifier *v, int64_t read_us, bool others)
{
    const ft_prompt_share share = {
        .budget_us = v->opts.prefill_budget_us, .read_us = read_us, .others = others};
    return ft_prompt_share_us(&share);
}

/* Updates the price of a row. Counts all verifications, picked or not. */
static void price(ft_verifier *v, int64_t now_us)
{
    const ft_sess_batch *b = &v->batch;
    ft_pass plain = {0};
    uint32_t n = 0;
    for (size_t i = 0; i < b->n_needs; i++) {
        if (b->work[i].kind != FT_WORK_VERIFY)
            continue;
        plain = ft_pass_plus(plain, b->needs[i].session->text.len - 1, 1, 1);
        n++;
    }
    if (n > 0) { /* a pass of prompts says nothing */
        ft_price_saw(&v->speed, v->stats.tokens, now_us);
        v->row_price = ft_price_row(&v->cost, &plain, n, &v->speed);
    }
}

ft_msg_hints ft_sess_batch_hints(const ft_sess *s)
{
    const ft_verifier *v = s->verifier;
    return (ft_msg_hints){.row_price =
                              v->policy->prices ? (uint32_t)(1000 * v->row_price + 0.5) : 0,
                          .no_trees = v->policy->no_drafts};
}

/* The most verifications of the pass. expected: some session may send a draft while it runs. A
 * policy that holds drafts back makes its own batches, and so does an edge that sends drafts
 * together. */
static uint32_t cap_verifications(ft_verifier *v, bool expected)
{
    const ft_sess_batch *b = &v->batch;
    bool more = expected || v->policy->start_us ||
                (v->policy->awaits && ft_await_one_group(b->awaited, b->n_awaited, &v->cost));
    for (size_t i = 0; i < b->n_needs && !more; i++)
        more = b->work[i].kind == FT_WORK_PREFILL || ft_round_is_run(&b->needs[i].session->round) ||
               b->needs[i].session->round.joint.together > 1;
    const uint32_t cap = ft_groups_cap((uint32_t)b->n_needs, more);
    v->stats.passes_split += cap > 0;
    return cap;
}

bool ft_sess_batch_gather(ft_verifier *v, int64_t *look_us)
{
    ft_sess_batch *b = &v->batch;
    gather(v);
    *look_us = hold_joint(v);
    if (v->policy->start_us)
        *look_us = ft_sooner_us(*look_us, hold(v));
    if (v->policy->awaits)
        *look_us = ft_sooner_us(*look_us, hold_all(v));
    b->alone = b->n_needs == 1 && !v->policy->start_us &&
               !draft_expected(v, ft_clock_now_us(&v->opts.clock));
    return b->n_needs > 0;
}

int64_t ft_sess_batch_read_us(const ft_verifier *v)
{
    return prompt_us(v, 0, !v->batch.alone);
}

void ft_sess_batch_compose(ft_verifier *v, int64_t now_us, int64_t read_us)
{
    ft_sess_batch *b = &v->batch;
    ft_sched_limits limits = limits_of(v);
    limits.kv_blocks_free = ft_kv_make_room(v, b->needs, b->n_needs, now_us);
    const bool expected = !b->alone && draft_expected(v, now_us);
    bool others = expected;
    size_t n_work = 0;
    for (size_t i = 0; i < b->n_needs; i++)
        if (!b->needs[i].out)
            b->needs[n_work++] = b->needs[i];
    b->n_needs = n_work;
    for (size_t i = 0; i < n_work; i++) {
        describe_work(v, b->needs[i].session, &b->work[i]);
        others |= b->work[i].kind == FT_WORK_VERIFY;
    }
    price(v, now_us);
    limits.max_verify = cap_verifications(v, expected);
    limits.prefill_us = prompt_us(v, read_us, others);
    size_t n = v->policy->pick(b->work, n_work, &limits, now_us, b->picks);
    b->all.n = b->rows.n = b->rows.n_want = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t at = b->picks[i].index;
        add_segment(b, b->needs[at].session, b->work[at].kind, b->picks[i].n_tok);
    }
    ft_sess_batch_narrow(v, &b->all);
}

void ft_sess_batch_narrow(ft_verifier *v, const ft_sess_part *part)
{
    ft_sess_batch *b = &v->batch;
    b->segments = *part;
    b->pass = b->prompts = (ft_pass){0};
    for (size_t i = 0; i < part->n; i++) {
        const ft_segment *g = &part->segment[i];
        const uint32_t n_past = ft_seq_n_past(g->seq), n_nodes = part->of[i]->round.nodes.n;
        b->pass =
            ft_pass_plus(b->pass, n_past, g->n, g->want ? ft_judge_expect(v->judge, n_nodes) : 0);
        if (!g->want)
            b->prompts = ft_pass_plus(b->prompts, n_past, g->n, 0);
    }
}
