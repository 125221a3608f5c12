// SPDX-License-Identifier: Apache-2.0
// Rounds: what waits becomes one batch (prompt chunks and trees of all sessions together), the batch
// one forward pass, its logits verdicts. Owned by the engine thread.
//
// A session's segment is the text's tokens that KV lacks, then (for a verification) the text's last
// token, the root, and the tree's nodes; `lead` counts what stands before the root, 0 in the steady
// state. Root and nodes may get logits, by need, as the walks go (judge.h). Nothing here allocates
// between rounds.
//
// Walks run on all of the judge's threads, each session's on one, which writes its session's
// log-probabilities and nothing else. Everything that is shared, and callbacks, come after that on
// the engine thread, in the batch's order.
//
// Does not decide who runs (sched) nor who gives way (kv_room.c).
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sort.h"
#include "sched/price.h"
#include "serve/internal.h"

#define PRICE_WEIGHT 0.3 /* of a pass in the price of a row */

static void drew(ft_walk *walk, uint32_t i, const float *logits, int32_t token);

ft_status ft_round_init(ft_verifier *v, ft_error *err)
{
    batch *b = &v->batch;
    size_t rows = v->opts.max_batch_tok, sessions = v->opts.max_sessions;
    b->needs = calloc(sessions, sizeof *b->needs);
    b->work = calloc(sessions, sizeof *b->work);
    b->picks = calloc(sessions, sizeof *b->picks);
    b->of = calloc(sessions, sizeof *b->of);
    b->segments = calloc(rows, sizeof *b->segments);
    b->seg_of = calloc(rows, sizeof *b->seg_of);
    b->kinds = calloc(rows, sizeof *b->kinds);
    b->tokens = calloc(rows, sizeof *b->tokens);
    b->parent = calloc(rows, sizeof *b->parent);
    b->want = calloc(rows, sizeof *b->want);
    b->path = calloc(rows, sizeof *b->path);
    if (!b->needs || !b->work || !b->picks || !b->of || !b->segments || !b->seg_of || !b->kinds ||
        !b->tokens || !b->parent || !b->want || !b->path)
        return ft_error_set(err, FT_NOMEM, "serve: out of memory for batches");
    const ft_judge_opts judge = {.engine = v->engine,
                                 .clock = v->opts.clock,
                                 .max_rows = v->opts.max_batch_tok,
                                 .n_threads = v->opts.n_threads,
                                 .drew = drew};
    return ft_judge_create(&judge, err, &v->judge);
}

void ft_round_deinit(ft_verifier *v)
{
    batch *b = &v->batch;
    ft_judge_destroy(v->judge);
    free(b->needs);
    free(b->work);
    free(b->picks);
    free(b->of);
    free(b->segments);
    free(b->seg_of);
    free(b->kinds);
    free(b->tokens);
    free(b->parent);
    free(b->want);
    free(b->path);
}

/* ---- what waits ---- */

/* Rows of the session's verification if it can run now, 0 if its KV must be filled first: a long lead
 * is prompt work, which is cut into chunks where others may have to wait for it. */
static uint32_t verify_rows(const ft_sess *s)
{
    const ft_verifier *v = s->verifier;
    uint32_t lead = ft_sess_missing(s), rows = lead + 1 + s->tree.n;
    uint32_t most = v->batch.alone ? FT_LEAD_MAX : FT_KV_BLOCK_TOK;
    return s->pending && lead <= most && rows <= v->opts.max_batch_tok ? rows : 0;
}

/* Who has waited longer. */
static bool before(const void *ctx, const void *a, const void *b)
{
    const ft_sess *x = ((const need *)a)->session, *y = ((const need *)b)->session;
    (void)ctx;
    return x->waits_at_us != y->waits_at_us ? x->waits_at_us < y->waits_at_us
                                            : x->serial < y->serial;
}

static void gather(ft_verifier *v)
{
    batch *b = &v->batch;
    b->n_needs = b->n_work = 0;
    for (ft_sess *s = v->sessions; s; s = s->next) {
        sess_state state = ft_sess_state(s);
        if (state != SESS_WAITING && state != SESS_PREFILL)
            continue;
        b->needs[b->n_needs++] = (need){.session = s, .rows = s->pending ? 1 + s->tree.n : 0};
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

/* Takes verifications out that the policy does not start yet. Returns the us until it does, < 0: none is
 * held back. */
static int64_t hold(ft_verifier *v)
{
    batch *b = &v->batch;
    const ft_sched_limits limits = limits_of(v);
    int64_t now_us = ft_clock_now_us(&v->opts.clock), oldest_us = now_us;
    size_t n = 0;
    b->alone = false; /* prompts and their first rounds stay apart */
    for (size_t i = 0; i < b->n_needs; i++)
        if (verify_rows(b->needs[i].session)) {
            int64_t at_us = b->needs[i].session->waits_at_us;
            oldest_us = at_us < oldest_us ? at_us : oldest_us;
            n++;
        }
    int64_t left_us = n ? v->policy->start_us(n, oldest_us, &limits) - now_us : 0;
    if (left_us <= 0)
        return -1;
    size_t kept = 0;
    for (size_t i = 0; i < b->n_needs; i++)
        if (!verify_rows(b->needs[i].session))
            b->needs[kept++] = b->needs[i];
    b->n_needs = kept;
    return left_us;
}

static void add_work(ft_verifier *v, ft_sess *s)
{
    batch *b = &v->batch;
    uint32_t rows = verify_rows(s);
    ft_work *w = &b->work[b->n_work];
    b->of[b->n_work++] = s;
    *w = (ft_work){.id = s->serial,
                   .kind = rows ? FT_WORK_VERIFY : FT_WORK_PREFILL,
                   .arrival_us = s->waits_at_us,
                   .n_tok = rows ? rows : ft_sess_missing(s),
                   .n_out = rows ? ft_judge_expect(v->judge, s->tree.n) : 0,
                   .n_past = ft_seq_n_past(s->seq)};
    w->kv_blocks = ft_seq_blocks_needed(s->seq, w->n_tok);
    ft_slo_describe(s, w);
}

/* ---- the batch ---- */

static uint32_t size_class(uint32_t rows)
{
    uint32_t size = 0;
    while (size < FT_VERIFIER_SIZES - 1 && rows > 1u << size)
        size++;
    return size;
}

static void count_segment(ft_sess *s, ft_work_kind kind, uint32_t n)
{
    ft_verifier_stats *stats = &s->verifier->stats;
    if (kind == FT_WORK_PREFILL) {
        stats->prefill_chunks++;
        stats->prefill_rows += n;
        stats->chunks_by_rows[size_class(n)]++;
    }
    if (!s->prefix_counted && !s->verifier->opts.no_prefix_cache) {
        stats->prefix_lookup_tok += s->len - 1;
        stats->prefix_hit_tok += ft_seq_n_past(s->seq);
    }
    s->prefix_counted = true;
}

static void add_segment(batch *b, ft_sess *s, ft_work_kind kind, uint32_t n)
{
    count_segment(s, kind, n);
    ft_segment *g = &b->segments[b->n_segments];
    int32_t *tokens = b->tokens + b->n_rows, *parent = b->parent + b->n_rows;
    uint64_t *want = b->want + b->n_want;
    uint32_t n_text = kind == FT_WORK_VERIFY ? n - s->tree.n : n; /* root included */
    b->seg_of[b->n_segments] = s;
    b->kinds[b->n_segments++] = kind;
    b->n_rows += n;
    b->pass =
        ft_pass_plus(b->pass, ft_seq_n_past(s->seq), n,
                     kind == FT_WORK_VERIFY ? ft_judge_expect(s->verifier->judge, s->tree.n) : 0);
    if (kind == FT_WORK_PREFILL)
        b->prompts = ft_pass_plus(b->prompts, ft_seq_n_past(s->seq), n, 0);
    *g = (ft_segment){.seq = s->seq, .n = n, .tokens = tokens};
    memcpy(tokens, s->text + ft_seq_n_past(s->seq), n_text * sizeof *tokens);
    if (kind == FT_WORK_PREFILL)
        return;
    memcpy(tokens + n_text, s->tree.token, s->tree.n * sizeof *tokens);
    for (uint32_t i = 0; i < n_text; i++)
        parent[i] = (int32_t)i - 1;
    for (uint32_t i = 0; i < s->tree.n; i++)
        parent[n_text + i] = s->tree.parent[i] + (int32_t)n_text; /* -1: the root, n_text - 1 */
    memset(want, 0, (n + 63) / 64 * sizeof *want);
    for (uint32_t i = n_text - 1; i < n; i++)
        want[i / 64] |= 1ull << (i % 64);
    b->n_want += (n + 63) / 64;
    g->parent = parent;
    g->want = want;
}

/* ---- verdicts ---- */

static void take_logprob(const ft_sess *s, const float *logits, int32_t token,
                         ft_token_logprob *out)
{
    int32_t tokens[FT_WIRE_TOP_MAX];
    float logprobs[FT_WIRE_TOP_MAX];
    uint32_t n_vocab = s->verifier->n_vocab;
    out->logprob = ft_logprob(logits, n_vocab, token);
    out->n_top = 0;
    if (s->n_top > 0)
        out->n_top = (uint32_t)ft_top_logprobs(logits, n_vocab, tokens, logprobs, s->n_top);
    for (uint32_t i = 0; i < out->n_top; i++) {
        out->top[i].token = tokens[i];
        out->top[i].logprob = logprobs[i];
    }
}

/* Appends a token to the text; true if the text ends with it. */
static bool append(ft_sess *s, int32_t token)
{
    s->text[s->len++] = token;
    if (ft_vocab_is_eog(s->verifier->opts.vocab, token))
        s->finish = FT_FINISH_STOP;
    else if (s->len == s->max_len)
        s->finish = FT_FINISH_LENGTH;
    return s->finish != FT_FINISH_NONE;
}

/* A token that the walk of a session drew. Any worker. */
static void drew(ft_walk *walk, uint32_t i, const float *logits, int32_t token)
{
    const ft_sess *s = walk->user;
    if (s->logprobs)
        take_logprob(s, logits, token, &s->logprobs[i]);
}

/* Lets the text grow by what the walk found until it ends, and records the verdict. */
static void conclude(ft_sess *s, const ft_verified *found)
{
    ft_msg_verdict *out = &s->last;
    memset(out, 0, sizeof *out);
    out->round = s->round;
    out->logprobs = s->logprobs;
    s->last_base = s->draft_base;
    for (uint32_t i = 0; i <= found->n_path && s->finish == FT_FINISH_NONE; i++) {
        bool in_path = i < found->n_path;
        int32_t token = in_path ? s->tree.token[found->path[i]] : found->next;
        out->n_logprobs += s->logprobs != NULL;
        if (in_path)
            out->path[out->n_path++] = found->path[i];
        else
            out->next[out->n_next++] = token;
        (void)append(s, token);
    }
    out->length = s->len;
    out->finish = s->finish;
    out->more = s->finish == FT_FINISH_NONE && s->len < s->run_end;
    s->last_whole = s->base == s->draft_base && !out->more;
}

/* Walks all trees of the pass. */
static ft_status judge(ft_verifier *v, ft_error *err)
{
    const batch *b = &v->batch;
    ft_judge_clear(v->judge);
    for (size_t i = 0; i < b->n_segments; i++) {
        if (b->kinds[i] != FT_WORK_VERIFY)
            continue;
        ft_sess *s = b->seg_of[i];
        ft_walk *w = ft_judge_add(v->judge);
        w->tree = &s->tree;
        w->sampling = &s->sampling;
        w->position = s->len;
        w->root_row = b->segments[i].first_row;
        w->user = s;
    }
    return ft_judge_run(v->judge, err);
}

/* Keeps the KV of what has become text. Where the text has ended it lets go of all, which leaves it in
 * the prefix cache for whoever goes on with it. */
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
    ft_status status = ft_seq_commit(s->seq, path, n, NULL, 0, err);
    if (status == FT_OK && s->finish != FT_FINISH_NONE)
        ft_seq_truncate(s->seq, 0);
    return status;
}

/* What a pass would take with one row of this session's instead of its segment, which it still holds. */
static uint32_t run_token_us(const ft_sess *s, const ft_segment *g, const ft_walk *w)
{
    const ft_verifier *v = s->verifier;
    uint32_t n_past = ft_seq_n_past(s->seq);
    const ft_pass mine = ft_pass_plus((ft_pass){0}, n_past, g->n, w->n_rows);
    const ft_pass next = ft_pass_plus(ft_pass_minus(v->batch.pass, mine), s->len - 1, 1, 1);
    int64_t us = ft_cost_predict(&v->cost, &next);
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

static void finish_verify(ft_sess *s, const ft_segment *g, const ft_walk *w, int64_t started_us,
                          int64_t now_us)
{
    ft_verifier_stats *stats = &s->verifier->stats;
    ft_error err = {0};
    if (!ft_sess_look(s))
        return;
    conclude(s, &w->found);
    s->last.hint_no_trees = s->verifier->policy->no_drafts;
    if (s->verifier->policy->prices)
        s->last.hint_row_price = (uint32_t)(1000 * s->verifier->row_price + 0.5);
    s->last.hint_token_us = ft_own_token_us(s->verifier);
    if (s->last.hint_token_us == 0)
        s->last.hint_token_us = run_token_us(s, g, w);
    ft_status status = commit(s, g->n - s->tree.n, &s->last, &err);
    if (status != FT_OK) {
        ft_sess_end(s, FT_INTERNAL, err.message);
        return;
    }
    s->last.queue_us = (uint32_t)(started_us - s->draft_at_us);
    s->last.verify_us = (uint32_t)(now_us - started_us);
    s->last.others_us = ft_sess_others_us(s, started_us, now_us);
    s->used_at_us = s->verdict_at_us = now_us;
    stats->rounds++;
    stats->drafted += s->run_end ? 0 : s->tree.n;
    stats->accepted += s->run_end ? 0 : s->last.n_path;
    stats->tokens += s->last.n_path + s->last.n_next;
    stats->run_tokens += s->run_end ? s->last.n_path + s->last.n_next : 0;
    stats->queue_us += s->last.queue_us;
    stats->verify_us += s->last.verify_us;
    ft_own_verdict(s);
    ft_slo_answered(s, now_us);
    ft_sess_answered(s, now_us);
    ft_sess_check(s);
    ft_handle_verdict(s->handle, &s->last);
}

static void finish_prefill(ft_sess *s, const ft_segment *g, int64_t now_us)
{
    ft_error err = {0};
    if (commit(s, g->n, NULL, &err) != FT_OK) {
        ft_sess_end(s, FT_INTERNAL, err.message);
        return;
    }
    if (ft_sess_missing(s) == 0) {
        s->want_kv = s->pending;
        s->used_at_us = now_us; /* its first draft may come any time */
    }
    FT_LOGD("serve", "session=%llu prefill done_tok=%u left_tok=%u", (unsigned long long)s->serial,
            ft_seq_n_past(s->seq), ft_sess_missing(s));
    ft_sess_check(s);
}

/* ---- the round ---- */

/* Whether a session that has no work now may send its draft any time. */
static bool draft_expected(const ft_verifier *v, int64_t now_us)
{
    for (const ft_sess *s = v->sessions; s; s = s->next)
        if (ft_sess_state(s) == SESS_IDLE && now_us - s->used_at_us < FT_ACTIVE_US)
            return true;
    return false;
}

/* A round meets two passes at most: one that runs when it arrives, and its own. A tenth of the budget
 * is left to what the estimate does not know: the machine's other work. */
static int64_t prompt_us(const ft_verifier *v)
{
    return v->opts.prefill_budget_us * 9 / 20 + 1;
}

/* Of all that waits, whether or not it is picked. */
static void price(ft_verifier *v)
{
    const batch *b = &v->batch;
    ft_pass plain = {0};
    uint32_t n = 0;
    for (size_t i = 0; i < b->n_work; i++) {
        if (b->work[i].kind != FT_WORK_VERIFY)
            continue;
        plain = ft_pass_plus(plain, b->of[i]->len - 1, 1, 1);
        n++;
    }
    if (n > 0)
        v->row_price += PRICE_WEIGHT * (ft_price_row(&v->cost, &plain, n) - v->row_price);
}

/* Fills the batch with what the policy picks from the work that fits. read_us: what the draft model's
 * reading has taken of the time for prompts. */
static void compose(ft_verifier *v, int64_t now_us, int64_t read_us)
{
    batch *b = &v->batch;
    ft_sched_limits limits = limits_of(v);
    limits.kv_blocks_free = ft_kv_make_room(v, b->needs, b->n_needs);
    bool others = !b->alone && draft_expected(v, now_us);
    for (size_t i = 0; i < b->n_needs; i++)
        if (!b->needs[i].out)
            add_work(v, b->needs[i].session);
    limits.max_verify = ft_round_cap(v, now_us);
    price(v);
    for (size_t i = 0; i < b->n_work; i++)
        others |= b->work[i].kind == FT_WORK_VERIFY;
    if (others)
        limits.prefill_us = prompt_us(v) > read_us ? prompt_us(v) - read_us : 1;
    size_t n = v->policy->pick(b->work, b->n_work, &limits, now_us, b->picks);
    b->n_segments = b->n_rows = b->n_want = 0;
    b->pass = b->prompts = (ft_pass){0};
    for (size_t i = 0; i < n; i++)
        add_segment(b, b->of[b->picks[i].index], b->work[b->picks[i].index].kind,
                    b->picks[i].n_tok);
}

/* A defect of ours: rather lose these sessions than spin. */
static void give_up(ft_verifier *v, const ft_error *err)
{
    batch *b = &v->batch;
    FT_LOGE("serve", "forward failed: %s", err->message);
    for (size_t i = 0; i < b->n_segments; i++)
        ft_sess_end(b->seg_of[i], FT_INTERNAL, err->message);
    for (size_t i = 0; b->n_segments == 0 && i < b->n_needs; i++)
        ft_sess_end(b->needs[i].session, FT_INTERNAL, err->message);
}

/* After a forward pass that began at started_us. Returns what it took, without the head. */
static int64_t count_pass(ft_verifier *v, int64_t started_us)
{
    const batch *b = &v->batch;
    ft_verifier_stats *stats = &v->stats;
    ft_slo_served(v);
    stats->forwards++;
    stats->rows += b->n_rows;
    stats->passes_by_rows[size_class((uint32_t)b->n_rows)]++;
    ft_verifier_publish(v);
    int64_t us = ft_clock_now_us(&v->opts.clock) - started_us;
    stats->forward_us += (uint64_t)us;
    return us;
}

/* After its trees were walked, which took all in all walk_us: statistics, and what the pass and the runs
 * of the head behind it teach about passes. */
static void count_walks(ft_verifier *v, int64_t pass_us, int64_t walk_us)
{
    ft_pass *pass = &v->batch.pass;
    ft_verifier_stats *stats = &v->stats;
    ft_judge_stats judged;
    ft_judge_get_stats(v->judge, &judged);
    int64_t us = pass_us + judged.head_us, expected_us = ft_cost_predict(&v->cost, pass);
    stats->head_us += (uint64_t)judged.head_us;
    stats->judge_us += (uint64_t)(walk_us - judged.head_us);
    if (expected_us > 0) {
        stats->predicted_us += (uint64_t)expected_us;
        stats->predict_miss_us += (uint64_t)llabs(us - expected_us);
    }
    ft_own_after_pass(v, expected_us, us);
    pass->out = judged.rows;
    stats->spikes[ft_spike_observe(&v->spikes, &v->cost, pass, &v->batch.prompts, us)]++;
    ft_cost_observe(&v->cost, pass, us);
    stats->cost_error = v->cost.error;
    stats->cost_bias = v->cost.bias;
}

/* Verdicts and progress of what the pass computed. */
static void finish(ft_verifier *v, int64_t started_us, int64_t now_us)
{
    const batch *b = &v->batch;
    size_t n_walks;
    const ft_walk *walk = ft_judge_walks(v->judge, &n_walks);
    for (size_t i = 0; i < b->n_segments; i++) {
        if (b->kinds[i] == FT_WORK_VERIFY)
            finish_verify(b->seg_of[i], &b->segments[i], walk++, started_us, now_us);
        else
            finish_prefill(b->seg_of[i], &b->segments[i], now_us);
    }
}

bool ft_round_run(ft_verifier *v, int64_t *look_us)
{
    batch *b = &v->batch;
    ft_error err = {0};
    gather(v);
    *look_us = v->policy->start_us ? hold(v) : -1;
    if (b->n_needs == 0)
        return false;
    b->alone = b->n_needs == 1 && !v->policy->start_us &&
               !draft_expected(v, ft_clock_now_us(&v->opts.clock));
    int64_t read_us = ft_own_before_pass(v, b->alone ? 0 : prompt_us(v));
    int64_t started_us = ft_clock_now_us(&v->opts.clock);
    compose(v, started_us, read_us);
    ft_status status = b->n_segments
                           ? ft_engine_forward_rows(v->engine, b->segments, b->n_segments, &err)
                           : ft_error_set(&err, FT_INTERNAL, "serve: nothing fits the engine");
    if (status != FT_OK) {
        give_up(v, &err);
        return true;
    }
    int64_t pass_us = count_pass(v, started_us), from_us = ft_clock_now_us(&v->opts.clock);
    if (judge(v, &err) != FT_OK) {
        give_up(v, &err);
        return true;
    }
    int64_t now_us = ft_clock_now_us(&v->opts.clock);
    count_walks(v, pass_us, now_us - from_us);
    finish(v, started_us, now_us);
    return true;
}
