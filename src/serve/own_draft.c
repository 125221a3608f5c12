// SPDX-License-Identifier: Apache-2.0
// The server's own drafting (SpecEdge 5's server-only baseline, and what clients without a device model
// get): sessions in a run have a tree drafted for them before each pass, all of them together, one draft
// forward a level. The pass then verifies it as it does edges' trees. Owned by the engine thread, the
// draft engine too. Text never depends on anything here.
//
//            in a run, room in the pool          read, and drafting pays
//   no drafter ------------------> reads the text ----------------------> a tree before each pass
//       ^  detached, gone, idle for long, gave way |  decoded plainly meanwhile    |
//       \------------------------------------------+-------------------------------/
//
// Invariants: the draft pool's blocks are reserved before they are used, `reserved` is the sum of the
// sessions' and at most the pool; a drafter's text is the first n_text tokens of its session's; a run's
// session has nodes in its tree exactly while one of ours waits for its verdict, and number[] says
// which nodes of the drafter's own tree they are.
//
// When the pool is short, drafters of sessions without work give way, least recently used first; then
// those who came late are decoded plainly.
//
// Steady rounds allocate nothing; a drafter is made when its session's first run begins. Whether to
// draft at all, how much, and which of all sessions' nodes are worth their rows is sched/own_draft.c's
// to say.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sort.h"
#include "sched/own_draft.h"
#include "serve/internal.h"
#include "spec/draft_engine.h"
#include "spec/drafter.h"

/* Rows of one draft forward, of all sessions; above, a level takes several. Rows with logits cost
 * memory (4 bytes a token of the vocabulary), and 256 are 8 leaves of 32 sessions. */
#define DRAFT_ROWS   512
#define DRAFT_LOGITS 256

/* Tokens of a prompt that are read at least where one is to be read at all. */
#define READ_MIN FT_KV_BLOCK_TOK

/* What a session has of it. */
struct ft_own_sess {
    ft_drafter *drafter;
    uint32_t n_text;   /* tokens of the session's text that the drafter knows */
    uint32_t n_unread; /* of them, those that the draft model must still read */
    uint32_t blocks;   /* reserved */
    double expected;   /* nodes of the present tree to be accepted, as the drafter believes */
    uint16_t number[FT_TREE_MAX];
};

struct ft_own {
    ft_engine *engine;
    ft_sampler *sampler; /* workspace of all drafters */
    ft_draft_params params;
    bool always;
    ft_calibration calibration; /* as the last drafter left it */
    uint32_t n_ctx;
    uint32_t pool_blocks, reserved;
    ft_own_draft rate;
    double read_us;    /* of a prompt's token, smoothed; 0: not known */
    int64_t spent_us;  /* on reading before this pass */
    uint32_t sessions; /* that might be drafted for in this pass */
    double others;     /* tokens that the pass brings others */
    bool broken;       /* the draft engine has failed, which loses us nothing but speed */
    uint32_t turn;     /* where the next pass begins, where not all fit */
    /* Of one pass, [max_sessions]: whom is drafted for. */
    ft_sess **of;
    need **needs;
    ft_drafter **drafters;
    ft_draft_params *each;
    ft_tree **trees;
    size_t n;
    ft_pass plain;      /* the pass without their trees, prompts left out */
    ft_own_node *nodes; /* [max_batch_tok] of all trees */
};

/* ---- life ---- */

static ft_status check_models(const ft_verifier *v, ft_error *err)
{
    const ft_hparams *hp = ft_model_hparams(v->opts.draft_model);
    const ft_vocab *vocab = v->opts.draft_vocab;
    if (hp->n_vocab == v->n_vocab && ft_vocab_fingerprint(vocab) == v->fingerprint)
        return FT_OK;
    return ft_error_set(err, FT_PRECONDITION,
                        "serve: the draft's vocabulary (%u tokens, %016llx) is not the target's "
                        "(%u, %016llx): pass a draft of the same family with -md",
                        hp->n_vocab, (unsigned long long)ft_vocab_fingerprint(vocab), v->n_vocab,
                        (unsigned long long)v->fingerprint);
}

static ft_status create_parts(ft_own *own, const ft_verifier *v, ft_error *err)
{
    size_t n = v->opts.max_sessions;
    const ft_engine_opts engine = {
        .model = v->opts.draft_model,
        .kv_type = v->opts.kv_type,
        .kv_tok = v->opts.draft_kv_tok ? v->opts.draft_kv_tok : v->opts.kv_tok,
        .max_batch_tok = DRAFT_ROWS,
        .max_logits = DRAFT_LOGITS,
        .n_threads = v->opts.n_threads,
        .route = v->opts.portable_attention ? FT_ATTN_PORTABLE : FT_ATTN_AUTO};
    own->of = calloc(n, sizeof *own->of);
    own->needs = calloc(n, sizeof *own->needs);
    own->drafters = calloc(n, sizeof *own->drafters);
    own->each = calloc(n, sizeof *own->each);
    own->trees = calloc(n, sizeof *own->trees);
    own->nodes = calloc(v->opts.max_batch_tok, sizeof *own->nodes);
    if (!own->nodes || !own->of || !own->needs || !own->drafters || !own->each || !own->trees)
        return ft_error_set(err, FT_NOMEM, "serve: out of memory");
    ft_status status = ft_sampler_create(v->n_vocab, err, &own->sampler);
    if (status == FT_OK)
        status = ft_engine_create(&engine, err, &own->engine);
    return status == FT_OK ? ft_engine_warm(own->engine, NULL, err, NULL) : status;
}

ft_status ft_own_create(const ft_verifier *v, ft_error *err, ft_own **out)
{
    ft_engine_stats stats;
    *out = NULL;
    ft_status status = check_models(v, err);
    if (status != FT_OK)
        return status;
    ft_own *own = calloc(1, sizeof *own);
    if (!own)
        return ft_error_set(err, FT_NOMEM, "serve: out of memory");
    status = create_parts(own, v, err);
    if (status != FT_OK) {
        ft_own_destroy(own);
        return status;
    }
    ft_engine_get_stats(own->engine, &stats);
    own->pool_blocks = stats.blocks;
    own->n_ctx = ft_model_hparams(v->opts.draft_model)->n_ctx_train;
    own->params = v->opts.draft;
    own->always = v->opts.draft_always;
    if (own->params.budget > v->opts.max_tree)
        own->params.budget = v->opts.max_tree;
    *out = own;
    return FT_OK;
}

void ft_own_destroy(ft_own *own)
{
    if (!own)
        return;
    if (own->engine)
        ft_engine_destroy(own->engine);
    ft_sampler_destroy(own->sampler);
    free(own->of);
    free(own->needs);
    free(own->drafters);
    free(own->each);
    free(own->trees);
    free(own->nodes);
    free(own);
}

void ft_own_drop(ft_sess *s)
{
    if (!s->own)
        return;
    s->verifier->own->reserved -= s->own->blocks;
    if (s->own->drafter)
        s->verifier->own->calibration = ft_drafter_calibration(s->own->drafter);
    ft_drafter_destroy(s->own->drafter);
    free(s->own);
    s->own = NULL;
}

/* A draft engine that fails loses us nothing but speed. */
static void give_up(ft_sess *s, const ft_error *err)
{
    FT_LOGW("serve", "session=%llu drafter dropped reason=\"%s\"", (unsigned long long)s->serial,
            err->message);
    ft_own_drop(s);
}

/* ---- room ---- */

/* Blocks for the text, a tree, and what outlives a verdict of the one before. */
static uint32_t blocks_for(const ft_own *own, uint32_t n_tok)
{
    uint64_t nodes = (uint64_t)own->params.depth * own->params.width + own->params.budget;
    uint64_t blocks = (n_tok + nodes) / FT_KV_BLOCK_TOK + 2;
    return blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;
}

/* The longest unused drafter of a session that has no work. */
static ft_sess *next_workless(const ft_verifier *v)
{
    ft_sess *best = NULL;
    for (ft_sess *s = v->sessions; s; s = s->next)
        if (s->own && ft_sess_state(s) != SESS_WAITING &&
            (!best || s->used_at_us < best->used_at_us))
            best = s;
    return best;
}

/* Reserves what the session's text needs now. False: there is no room. */
static bool reserve(ft_sess *s)
{
    ft_verifier *v = s->verifier;
    ft_own *own = v->own;
    uint32_t blocks = blocks_for(own, s->len);
    while (blocks > own->pool_blocks - own->reserved + s->own->blocks) {
        ft_sess *victim = next_workless(v);
        if (!victim)
            return false;
        ft_own_drop(victim);
    }
    own->reserved += blocks - s->own->blocks;
    s->own->blocks = blocks;
    return true;
}

static ft_status start(ft_sess *s, ft_error *err)
{
    ft_own *own = s->verifier->own;
    ft_draft_source *source = NULL;
    s->own = calloc(1, sizeof *s->own);
    if (!s->own)
        return ft_error_set(err, FT_NOMEM, "serve: out of memory for a drafter");
    ft_status status =
        ft_draft_engine_source(own->engine, own->sampler, &s->sampling, err, &source);
    if (status == FT_OK)
        status = ft_drafter_create(source, err, &s->own->drafter);
    if (status == FT_OK)
        ft_drafter_calibrate(s->own->drafter, &own->calibration);
    return status;
}

/* ---- following the text ---- */

/* The drafter learns what its session's text has become since. */
static ft_status catch_up(ft_sess *s, ft_error *err)
{
    ft_own_sess *o = s->own;
    uint32_t n_new = s->len - o->n_text;
    if (n_new == 0)
        return FT_OK;
    ft_status status =
        o->n_text == 0 ? ft_drafter_reset(o->drafter, s->text, s->len, err)
                       : ft_drafter_advance(o->drafter, NULL, 0, s->text + o->n_text, n_new, err);
    o->n_text = s->len;
    o->n_unread += n_new;
    return status;
}

/* Makes the session one that can be drafted for, as far as that takes no reading. False: it cannot. */
static bool ready(ft_sess *s)
{
    const ft_own *own = s->verifier->own;
    ft_error err = {0};
    ft_status status = FT_OK;
    if (s->len >= own->n_ctx) { /* the draft model knows no such text */
        ft_own_drop(s);
        return false;
    }
    if (!s->own)
        status = start(s, &err);
    if (status == FT_OK && !reserve(s)) {
        ft_own_drop(s);
        return false;
    }
    if (status == FT_OK)
        status = catch_up(s, &err);
    if (status != FT_OK)
        give_up(s, &err);
    return status == FT_OK;
}

/* Reads what the draft model has not, *allowed tokens at most. True: all is read. A few tokens are
 * left to the draft itself, whose first forward reads them with the others'. */
static bool read_text(ft_sess *s, uint32_t *allowed)
{
    ft_own *own = s->verifier->own;
    ft_own_sess *o = s->own;
    const ft_clock *clock = &s->verifier->opts.clock;
    ft_error err = {0};
    if (o->n_unread <= READ_MIN)
        return true;
    if (*allowed == 0)
        return false;
    uint32_t left = 0, before = o->n_unread;
    int64_t from_us = ft_clock_now_us(clock);
    if (ft_drafter_prefill(o->drafter, *allowed, &err, &left) != FT_OK) {
        give_up(s, &err);
        return false;
    }
    uint32_t n = before > left ? before - left : 0;
    int64_t took_us = ft_clock_now_us(clock) - from_us;
    double us = (double)took_us;
    own->spent_us += took_us;
    if (n >= READ_MIN)
        own->read_us = own->read_us > 0 ? own->read_us + (us / n - own->read_us) / 4 : us / n;
    *allowed -= n < *allowed ? n : *allowed;
    o->n_unread = left;
    return left == 0;
}

/* Tokens of prompts that may be read before this pass. */
static uint32_t may_read(const ft_own *own, int64_t budget_us)
{
    if (budget_us == 0)
        return DRAFT_ROWS;
    double n = own->read_us > 0 ? (double)budget_us / own->read_us : 0;
    return n < READ_MIN ? READ_MIN : n < DRAFT_ROWS ? (uint32_t)n : DRAFT_ROWS;
}

/* ---- drafting ---- */

/* Tokens that the run may still bring. */
static uint32_t run_left(const ft_sess *s)
{
    uint32_t end = s->run_end < s->max_len ? s->run_end : s->max_len;
    return end - s->len;
}

static bool in_run(const ft_sess *s)
{
    return s->pending && s->run_end > 0 && s->tree.n == 0 && run_left(s) > 1;
}

/* The pass as it would be with a tree of so many nodes for each of them, prompts left out. */
static ft_pass shape(const ft_verifier *v, uint32_t nodes, uint32_t *n_runs, uint32_t *n_others)
{
    const batch *b = &v->batch;
    ft_pass pass = {0};
    *n_runs = *n_others = 0;
    for (size_t i = 0; i < b->n_needs; i++) {
        const ft_sess *s = b->needs[i].session;
        bool ours = in_run(s);
        uint32_t rows = b->needs[i].rows + (ours ? nodes : 0);
        if (rows == 0 || pass.rows + rows > v->opts.max_batch_tok)
            continue;
        pass = ft_pass_plus(pass, s->len - 1, rows, ft_judge_expect(v->judge, rows - 1));
        *n_runs += ours;
        *n_others += !ours;
    }
    return pass;
}

/* Tokens that a verdict on an edge's tree brings, so far. */
static double edge_tokens(const ft_verifier *v)
{
    const ft_verifier_stats *s = &v->stats;
    uint64_t runs = s->run_tokens - s->own_accepted; /* their verdicts */
    return s->rounds > runs ? 1 + (double)s->accepted / (double)(s->rounds - runs) : 1;
}

static bool pays(ft_verifier *v)
{
    ft_own *own = v->own;
    ft_own_load load = {0};
    uint32_t n_plain, n_others;
    uint32_t nodes = own->params.budget;
    if (!own->always && own->rate.depth > 0 && own->rate.nodes < nodes)
        nodes = (uint32_t)(own->rate.nodes + 0.5);
    ft_pass tree = shape(v, nodes, &load.sessions, &n_others);
    own->plain = shape(v, 0, &n_plain, &n_others);
    if (load.sessions == 0)
        return false;
    load.tree_us = ft_cost_predict(&v->cost, &tree);
    load.plain_us = ft_cost_predict(&v->cost, &own->plain);
    own->sessions = load.sessions;
    own->others = load.others = n_others * edge_tokens(v);
    bool draft = ft_own_draft_choose(&own->rate, &load);
    return draft || own->always;
}

/* Chooses whom to draft for, as many as the pass has rows for; the others' turn comes first in the
 * next. Reads prompts as far as `allowed`. */
static void choose(ft_verifier *v, uint32_t allowed)
{
    ft_own *own = v->own;
    batch *b = &v->batch;
    uint32_t rows = 0;
    ft_draft_params params = own->params;
    if (!own->always)
        ft_own_draft_size(&own->rate, &params.budget, &params.depth);
    size_t begin = b->n_needs ? own->turn % b->n_needs : 0;
    own->n = 0;
    for (size_t i = 0; i < b->n_needs; i++)
        rows += b->needs[i].rows;
    for (size_t i = 0; i < b->n_needs; i++) {
        size_t at = (begin + i) % b->n_needs;
        ft_sess *s = b->needs[at].session;
        if (!in_run(s) || !ready(s) || !read_text(s, &allowed))
            continue;
        if (ft_sess_missing(s) > FT_KV_BLOCK_TOK) /* no pass can verify it yet */
            continue;
        if (rows + params.budget > v->opts.max_batch_tok) {
            own->turn = (uint32_t)at;
            return;
        }
        rows += params.budget;
        own->needs[own->n] = &b->needs[at];
        own->of[own->n] = s;
        own->drafters[own->n] = s->own->drafter;
        own->trees[own->n] = &s->tree;
        own->each[own->n] = params;
        if (params.depth > run_left(s) - 1)
            own->each[own->n].depth = run_left(s) - 1;
        own->n++;
    }
}

/* Drops the nodes of `depth` and deeper and those less likely than min_logp. A child is never likelier
 * than its parent, so that what is left is a tree. */
static void prune(ft_sess *s, uint32_t depth, float min_logp)
{
    ft_tree *t = &s->tree;
    uint16_t *number = s->own->number;
    int16_t moved[FT_TREE_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        moved[i] = -1;
        if (t->depth[i] >= depth || t->cum_logp[i] < min_logp)
            continue;
        moved[i] = (int16_t)n;
        number[n] = number[i];
        t->token[n] = t->token[i];
        t->parent[n] = t->parent[i] < 0 ? -1 : moved[t->parent[i]];
        t->logp[n] = t->logp[i];
        t->cum_logp[n] = t->cum_logp[i];
        t->depth[n] = t->depth[i];
        n++;
    }
    t->n = n;
}

static bool likelier(const void *ctx, const void *a, const void *b)
{
    (void)ctx;
    return ((const ft_own_node *)a)->p > ((const ft_own_node *)b)->p;
}

/* The least log-chance of a node that is worth its row. */
static float worth(ft_verifier *v, int64_t draft_us)
{
    ft_own *own = v->own;
    uint32_t n = 0;
    for (size_t i = 0; i < own->n; i++)
        for (uint32_t k = 0; k < own->trees[i]->n; k++)
            own->nodes[n++] = (ft_own_node){.p = expf(own->trees[i]->cum_logp[k]),
                                            .level = own->trees[i]->depth[k]};
    ft_sort(own->nodes, n, sizeof *own->nodes, likelier, NULL);
    const ft_own_pass pass = {.sessions = (uint32_t)own->n,
                              .others = own->others,
                              .without = own->plain,
                              .n_past = own->of[0]->len,
                              .out = (double)(ft_judge_expect(v->judge, own->params.budget) -
                                              ft_judge_expect(v->judge, 0)) /
                                     own->params.budget,
                              .draft_us = draft_us,
                              .depth_most = own->params.depth,
                              .cost = &v->cost};
    uint32_t keep = ft_own_draft_keep(&own->rate, own->nodes, n, &pass);
    if (keep == n)
        return -INFINITY;
    return keep > 0 ? logf(own->nodes[keep - 1].p) : INFINITY;
}

/* The tree is as it will be verified. */
static void finish_tree(ft_verifier *v, ft_sess *s, need *n)
{
    s->own->n_unread = 0;
    s->own->expected = 0;
    for (uint32_t i = 0; i < s->tree.n; i++)
        s->own->expected += (double)expf(s->tree.cum_logp[i]);
    n->rows = 1 + s->tree.n;
    if (s->tree.n == 0)
        ft_own_draft_saw_verdict(&v->own->rate, 1, 0);
}

static void draft(ft_verifier *v)
{
    ft_own *own = v->own;
    ft_error err = {0};
    int64_t from_us = ft_clock_now_us(&v->opts.clock);
    ft_status status = ft_drafters_draft(own->drafters, own->n, own->each, &err, own->trees);
    int64_t us = ft_clock_now_us(&v->opts.clock) - from_us;
    if (status != FT_OK) {
        FT_LOGE("serve", "own drafting is off: %s", err.message);
        own->broken = true;
        for (size_t i = 0; i < own->n; i++)
            ft_own_drop(own->of[i]);
        return;
    }
    ft_own_draft_saw_draft(&own->rate, own->sessions, us);
    /* A path of d nodes brings d + 1 tokens, and a run ends where it was asked to. What outlived the
     * last verdict may reach deeper than the draft was asked for. */
    for (size_t i = 0; i < own->n; i++) {
        for (uint32_t k = 0; k < own->trees[i]->n; k++)
            own->of[i]->own->number[k] = (uint16_t)k;
        prune(own->of[i], run_left(own->of[i]) - 1, -INFINITY);
    }
    float least = own->always ? -INFINITY : worth(v, us);
    for (size_t i = 0; i < own->n; i++) {
        prune(own->of[i], FT_TREE_MAX, least);
        finish_tree(v, own->of[i], own->needs[i]);
    }
}

/* Drafters of sessions that have ended, or have had no work for so long, go. */
static void drop_idle(ft_verifier *v, int64_t now_us)
{
    for (ft_sess *s = v->sessions; s; s = s->next) {
        sess_state state = ft_sess_state(s);
        if (s->own && (state == SESS_ENDED ||
                       (state != SESS_WAITING && now_us - s->used_at_us > FT_ACTIVE_US)))
            ft_own_drop(s);
    }
}

static bool has_prompt(const batch *b)
{
    for (size_t i = 0; i < b->n_needs; i++)
        if (ft_sess_missing(b->needs[i].session) > FT_KV_BLOCK_TOK)
            return true;
    return false;
}

int64_t ft_own_before_pass(ft_verifier *v, int64_t read_budget_us)
{
    ft_own *own = v->own;
    ft_engine_stats stats;
    if (!own || own->broken)
        return 0;
    int64_t from_us = ft_clock_now_us(&v->opts.clock);
    drop_idle(v, from_us);
    own->spent_us = 0;
    if (!pays(v))
        return 0;
    /* The target's reading comes first: without it there is no text at all. */
    if (has_prompt(&v->batch))
        read_budget_us = (read_budget_us + 3) / 4;
    choose(v, may_read(own, read_budget_us));
    if (own->n > 0)
        draft(v);
    ft_engine_get_stats(own->engine, &stats);
    v->stats.own_forwards = stats.forwards;
    v->stats.own_rows = stats.rows;
    v->stats.own_us += (uint64_t)(ft_clock_now_us(&v->opts.clock) - from_us);
    return own->spent_us;
}

void ft_own_after_pass(ft_verifier *v, int64_t expected_us, int64_t us)
{
    const batch *b = &v->batch;
    uint32_t n_runs = 0, n_trees = 0;
    for (size_t i = 0; v->own && i < b->n_segments; i++) {
        const ft_sess *s = b->seg_of[i];
        n_runs += b->kinds[i] == FT_WORK_VERIFY && s->run_end > 0;
        n_trees += b->kinds[i] == FT_WORK_VERIFY && s->run_end > 0 && s->tree.n > 0;
    }
    if (n_runs > 0)
        ft_own_draft_saw_pass(&v->own->rate, n_runs, n_trees > 0, expected_us, us);
}

/* ---- verdicts ---- */

void ft_own_verdict(ft_sess *s)
{
    ft_verifier *v = s->verifier;
    ft_msg_verdict *out = &s->last;
    uint32_t path[FT_TREE_MAX];
    ft_error err = {0};
    if (s->run_end == 0 || s->tree.n == 0)
        return;
    ft_own_draft_saw_verdict(&v->own->rate, out->n_path + out->n_next,
                             s->own ? s->own->expected : 0);
    v->stats.own_drafted += s->tree.n;
    v->stats.own_accepted += out->n_path;
    for (uint32_t i = 0; s->own && i < out->n_path; i++)
        path[i] = s->own->number[out->path[i]];
    if (s->own && ft_drafter_advance(s->own->drafter, path, out->n_path, out->next, out->n_next,
                                     &err) != FT_OK)
        give_up(s, &err);
    else if (s->own)
        s->own->n_text = s->len;
    /* The client has no tree: all are tokens to it. */
    memmove(out->next + out->n_path, out->next, out->n_next * sizeof *out->next);
    for (uint32_t i = 0; i < out->n_path; i++)
        out->next[i] = s->tree.token[out->path[i]];
    out->n_next += out->n_path;
    out->n_path = 0;
    ft_tree_clear(&s->tree);
}

uint32_t ft_own_token_us(const ft_verifier *v)
{
    double us = v->own && v->own->rate.on ? v->own->rate.token_us : 0;
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}
