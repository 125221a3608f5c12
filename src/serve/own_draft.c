// SPDX-License-Identifier: Apache-2.0
// The server's own drafting, for clients without a draft model (the server-only baseline of
// SpecEdge 5). Before each pass the server drafts a tree for every session in a run. It drafts all
// trees together, with one forward of the draft model for each level. The pass verifies these trees
// like the trees of edges. The engine thread owns this state and the draft engine. The tokens of a
// text never depend on this drafting.
//
//            in a run, room in the pool          all read, drafting saves time
//   no drafter ------------------> reads the text ----------------------> a tree before each pass
//       ^  detached, gone, long idle, evicted      |  no tree meanwhile            |
//       \------------------------------------------+-------------------------------/
//
// Invariants:
//   - A block of the draft model's KV pool is reserved before it is used. `reserved` is the sum of
//     the reserved blocks of all sessions. It is never larger than the pool.
//   - The text of a drafter is the first n_text tokens of its session's text.
//   - The round of a run has nodes exactly while a tree of the server waits for its verdict. These
//     nodes are the nodes of `tree`. number[] maps them to the nodes of the drafter's tree.
//
// When the pool has too little room, drafters of sessions without work are evicted. The least
// recently used one is evicted first. A session that still gets no room has no trees.
//
// A drafter is made when its session's first run begins. Rounds allocate no memory then.
// sched/own_draft.c decides whether to draft, how much, and which nodes are worth their rows.
#include "serve/own_draft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sort.h"
#include "constrain/constraint.h"
#include "sched/own_draft.h"
#include "sched/prompt_share.h"
#include "spec/draft_engine.h"
#include "spec/drafter.h"

/* How long the server drafts nothing after a failure, mostly for lack of memory; doubles with each
 * failure. Half of the first: more tries that fail; twice of it: drafts that could be back. */
#define REST_FIRST_US 1000000
#define REST_MOST_US  60000000

/* A session's drafter and tree. */
struct ft_own_sess {
    ft_drafter *drafter;
    ft_matcher *matcher; /* so that drafts take no work of the text's; NULL: they are not bound */
    uint32_t n_text;     /* tokens of the session's text that the drafter knows */
    uint32_t n_unread;   /* how many of these tokens the draft model must still read */
    uint32_t blocks;     /* reserved */
    ft_tree tree;
    uint16_t number[FT_TREE_MAX]; /* [i]: the drafter's number of node i of `tree` */
};

struct ft_own {
    ft_engine *engine;
    ft_rule_work *work; /* shared by all drafters */
    ft_draft_params params;
    bool always;
    ft_calibration calibration; /* copied from the drafter that was freed last */
    uint32_t n_ctx;
    uint32_t pool_blocks, reserved;
    ft_own_draft rate;
    ft_mean read_us;       /* mean time in which the draft model reads one token of a prompt */
    int64_t spent_us;      /* time spent on reading before this pass */
    uint32_t sessions;     /* how many sessions could get a tree in this pass */
    double others;         /* tokens that the pass brings to other sessions */
    int64_t rest_until_us; /* no drafting before */
    int64_t rest_us;       /* the last pause, after a failure; 0: the last draft succeeded */
    uint32_t first; /* the need with which the next choice begins, as not all may fit a pass */
    /* The sessions that get a tree in this pass, [max_sessions]. */
    ft_need **needs;
    ft_drafter **drafters;
    ft_draft_params *each;
    ft_tree **trees;
    size_t n;
    ft_pass plain;      /* the shape of the pass without these trees and without prompts */
    ft_own_node *nodes; /* [max_batch_tok] the nodes of all trees */
};

/* ---- life ---- */

static ft_status check_models(const ft_verifier *v, ft_error *err)
{
    const ft_hparams *hp = ft_model_hparams(v->opts.draft_model);
    const ft_vocab *vocab = v->opts.draft_vocab;
    if (hp->n_vocab == v->model.n_vocab && ft_vocab_fingerprint(vocab) == v->model.fingerprint)
        return FT_OK;
    return ft_error_set(err, FT_PRECONDITION,
                        "serve: the draft's vocabulary (%u tokens, %016llx) is not the target's "
                        "(%u, %016llx): pass a draft of the same family with -md",
                        hp->n_vocab, (unsigned long long)ft_vocab_fingerprint(vocab),
                        v->model.n_vocab, (unsigned long long)v->model.fingerprint);
}

static ft_status create_parts(ft_own *own, const ft_verifier *v, ft_error *err)
{
    size_t n = v->opts.max_sessions;
    const ft_engine_opts engine = {
        .model = v->opts.draft_model,
        .kv_type = v->opts.kv_type,
        .kv_tok = v->opts.draft_kv_tok ? v->opts.draft_kv_tok : v->opts.kv_tok,
        .max_batch_tok = FT_OWN_DRAFT_ROWS,
        .max_logits = FT_OWN_DRAFT_LOGITS,
        .n_threads = v->opts.n_threads,
        .route = v->opts.portable_attention ? FT_ATTN_PORTABLE : FT_ATTN_AUTO};
    own->needs = calloc(n, sizeof *own->needs);
    own->drafters = calloc(n, sizeof *own->drafters);
    own->each = calloc(n, sizeof *own->each);
    own->trees = calloc(n, sizeof *own->trees);
    own->nodes = calloc(v->opts.max_batch_tok, sizeof *own->nodes);
    if (!own->nodes || !own->needs || !own->drafters || !own->each || !own->trees)
        return ft_error_set(err, FT_NOMEM, "serve: out of memory");
    ft_status status = ft_rule_work_create(v->opts.rules, v->model.n_vocab, err, &own->work);
    if (status == FT_OK)
        status = ft_engine_create(&engine, err, &own->engine);
    return status == FT_OK ? ft_engine_warm(own->engine, NULL, NULL, err, NULL) : status;
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
    ft_rule_work_destroy(own->work);
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
    ft_matcher_destroy(s->own->matcher);
    free(s->own);
    s->own = NULL;
    if (ft_round_is_run(&s->round))
        s->round.nodes.n = 0;
}

/* Drafting failed. Texts need no drafts, so it pauses for a while. */
static void fail(ft_verifier *v, const ft_error *err)
{
    ft_own *own = v->own;
    const int64_t next_us = own->rest_us > 0 ? 2 * own->rest_us : REST_FIRST_US;
    own->rest_us = next_us < REST_MOST_US ? next_us : REST_MOST_US;
    own->rest_until_us = ft_clock_now_us(&v->opts.clock) + own->rest_us;
    v->stats.own_failures++;
    FT_LOGW("serve", "own drafts pause_s=%d reason=\"%s\"", (int)(own->rest_us / 1000000),
            err->message);
}

static void give_up(ft_sess *s, const ft_error *err)
{
    fail(s->verifier, err);
    ft_own_drop(s);
}

/* ---- room ---- */

/* Blocks for the text, a tree, and the nodes kept from the tree before. */
static uint32_t blocks_for(const ft_own *own, uint32_t n_tok)
{
    uint64_t nodes = (uint64_t)own->params.depth * own->params.width + own->params.budget;
    uint64_t blocks = (n_tok + nodes) / FT_KV_BLOCK_TOK + 2;
    return blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;
}

/* Among the sessions with a drafter and without work, the least recently used; NULL: none. */
static ft_sess *next_workless(const ft_verifier *v)
{
    ft_sess *best = NULL;
    for (ft_sess *s = v->sessions.first; s; s = s->next)
        if (s->own && ft_sess_state_of(s) != FT_SESS_WAITING &&
            (!best || s->times.used_us < best->times.used_us))
            best = s;
    return best;
}

/* Reserves the blocks that the session's text needs now. False: there is no room. */
static bool reserve(ft_sess *s)
{
    ft_verifier *v = s->verifier;
    ft_own *own = v->own;
    uint32_t blocks = blocks_for(own, s->text.len);
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
    ft_sampling sampling = s->asked.sampling;
    if (!(s->own = calloc(1, sizeof *s->own)))
        return ft_error_set(err, FT_NOMEM, "serve: out of memory for a drafter");
    if (s->asked.matcher)
        (void)!ft_matcher_create(ft_matcher_grammar(s->asked.matcher), err, &s->own->matcher);
    sampling.matcher = s->own->matcher;
    ft_status status =
        ft_draft_engine_source(own->engine, s->asked.rule.rule, own->work, &sampling, err, &source);
    if (status == FT_OK)
        status = ft_drafter_create(source, err, &s->own->drafter);
    if (status == FT_OK)
        ft_drafter_calibrate(s->own->drafter, &own->calibration);
    return status;
}

/* ---- following the text ---- */

/* Gives the drafter the tokens that its session's text has gained. */
static ft_status catch_up(ft_sess *s, ft_error *err)
{
    ft_own_sess *o = s->own;
    uint32_t n_new = s->text.len - o->n_text;
    if (n_new == 0)
        return FT_OK;
    ft_status status =
        o->n_text == 0
            ? ft_drafter_reset(o->drafter, s->text.token, s->text.len, err)
            : ft_drafter_advance(o->drafter, NULL, 0, s->text.token + o->n_text, n_new, err);
    o->n_text = s->text.len;
    o->n_unread += n_new;
    return status;
}

/* Prepares drafting for the session, but does not read its text. False: drafting for this session
 * is not possible now. */
static bool ready(ft_sess *s)
{
    const ft_own *own = s->verifier->own;
    ft_error err = {0};
    ft_status status = FT_OK;
    if (s->text.len >= own->n_ctx) { /* too long for the draft model */
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

/* Reads at most *allowed of the unread tokens, and subtracts the tokens read from *allowed. True:
 * at most a few tokens (FT_OWN_READ_MIN) are still unread. The first forward of the draft reads
 * these few tokens, together with those of other sessions. */
static bool read_text(ft_sess *s, uint32_t *allowed)
{
    ft_own *own = s->verifier->own;
    ft_own_sess *o = s->own;
    const ft_clock *clock = &s->verifier->opts.clock;
    ft_error err = {0};
    if (o->n_unread <= FT_OWN_READ_MIN)
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
    own->spent_us += took_us;
    ft_own_read_saw(&own->read_us, n, took_us);
    *allowed -= n < *allowed ? n : *allowed;
    o->n_unread = left;
    return left == 0;
}

/* ---- drafting ---- */

/* How many tokens the run may still add to the text. */
static uint32_t run_left(const ft_sess *s)
{
    uint32_t end = s->round.end < s->text.max_len ? s->round.end : s->text.max_len;
    return end - s->text.len;
}

static bool in_run(const ft_sess *s)
{
    return !s->asked.no_drafts && ft_round_is_run(&s->round) && s->round.nodes.n == 0 &&
           run_left(s) > 1 && s->asked.rule.terms.trees &&
           ft_rule_takes_early(&s->asked.rule.terms);
}

/* The shape of the pass if each session in a run gets a tree of `nodes` nodes. Prompts are not in
 * it. *n_runs: how many of the sessions in it are in a run; *n_others: how many are not. */
static ft_pass shape(const ft_verifier *v, uint32_t nodes, uint32_t *n_runs, uint32_t *n_others)
{
    const ft_sess_batch *b = &v->batch;
    ft_pass pass = {0};
    *n_runs = *n_others = 0;
    for (size_t i = 0; i < b->n_needs; i++) {
        const ft_sess *s = b->needs[i].session;
        bool ours = in_run(s);
        uint32_t rows = b->needs[i].rows + (ours ? nodes : 0);
        if (rows == 0 || pass.rows + rows > v->opts.max_batch_tok)
            continue;
        pass = ft_pass_plus(pass, s->text.len - 1, rows, ft_judge_expect(v->judge, rows - 1));
        *n_runs += ours;
        *n_others += !ours;
    }
    return pass;
}

/* How many tokens a verdict on an edge's tree has had so far, on average. */
static double edge_tokens(const ft_verifier *v)
{
    const ft_verifier_stats *s = &v->stats;
    uint64_t runs = s->run_tokens - s->own_accepted; /* verdicts of runs */
    return ft_own_draft_edge_tok(s->accepted, s->rounds > runs ? s->rounds - runs : 0);
}

static bool pays(ft_verifier *v)
{
    ft_own *own = v->own;
    ft_own_load load = {0};
    uint32_t n_plain, n_others;
    uint32_t nodes = own->params.budget;
    if (!own->always)
        nodes = ft_own_draft_nodes(&own->rate, nodes);
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

/* Chooses the sessions that get a tree, as many as the pass has rows for. The choice for the next
 * pass begins with the sessions that did not fit. Reads at most `allowed` tokens of prompts. */
static void choose(ft_verifier *v, uint32_t allowed)
{
    ft_own *own = v->own;
    ft_sess_batch *b = &v->batch;
    uint32_t rows = 0;
    ft_draft_params params = own->params;
    if (!own->always)
        ft_own_draft_size(&own->rate, &params.budget, &params.depth);
    size_t begin = b->n_needs ? own->first % b->n_needs : 0;
    own->n = 0;
    for (size_t i = 0; i < b->n_needs; i++)
        rows += b->needs[i].rows;
    for (size_t i = 0; i < b->n_needs; i++) {
        size_t at = (begin + i) % b->n_needs;
        ft_sess *s = b->needs[at].session;
        if (!in_run(s) || !ready(s) || !read_text(s, &allowed))
            continue;
        if (ft_sess_missing(s) > FT_KV_BLOCK_TOK) /* the pass cannot verify it yet */
            continue;
        if (rows + params.budget > v->opts.max_batch_tok) {
            own->first = (uint32_t)at;
            return;
        }
        rows += params.budget;
        own->needs[own->n] = &b->needs[at];
        own->drafters[own->n] = s->own->drafter;
        own->trees[own->n] = &s->own->tree;
        own->each[own->n] = params;
        if (params.depth > run_left(s) - 1)
            own->each[own->n].depth = run_left(s) - 1;
        own->n++;
    }
}

/* Drops the nodes at `depth` or deeper, and the nodes whose cum_logp is below min_logp. A child is
 * never likelier than its parent, so the remaining nodes are a tree. */
static void prune(ft_sess *s, uint32_t depth, float min_logp)
{
    ft_tree *t = &s->own->tree;
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

/* The lowest log-probability of a node that is worth its row. -INFINITY: all nodes are worth their
 * rows; INFINITY: none is. */
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
                              .n_past = own->needs[0]->session->text.len,
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

/* Writes the complete tree into the session's round. */
static void finish_tree(ft_verifier *v, ft_need *n)
{
    ft_sess *s = n->session;
    const ft_tree *tree = &s->own->tree;
    s->own->n_unread = 0;
    s->round.nodes = (ft_nodes){.n = tree->n, .token = tree->token, .parent = tree->parent};
    n->rows = 1 + tree->n;
    if (tree->n == 0)
        ft_own_draft_saw_verdict(&v->own->rate, 1);
}

static void draft(ft_verifier *v)
{
    ft_own *own = v->own;
    ft_error err = {0};
    int64_t from_us = ft_clock_now_us(&v->opts.clock);
    ft_status status = ft_drafters_draft(own->drafters, own->n, own->each, &err, own->trees);
    int64_t us = ft_clock_now_us(&v->opts.clock) - from_us;
    if (status != FT_OK) {
        fail(v, &err);
        for (size_t i = 0; i < own->n; i++)
            ft_own_drop(own->needs[i]->session);
        return;
    }
    if (own->rest_us > 0)
        FT_LOGI("serve", "own drafts again");
    own->rest_us = 0;
    ft_own_draft_saw_draft(&own->rate, own->sessions, us);
    /* Drops nodes that are too deep. A path of d nodes adds d + 1 tokens to the text, and the run
     * must not get longer than the edge asked. The drafter may have kept nodes from the tree
     * before, and these may be deeper than the present limit. */
    for (size_t i = 0; i < own->n; i++) {
        ft_sess *s = own->needs[i]->session;
        for (uint32_t k = 0; k < s->own->tree.n; k++)
            s->own->number[k] = (uint16_t)k;
        prune(s, run_left(s) - 1, -INFINITY);
    }
    float least = own->always ? -INFINITY : worth(v, us);
    for (size_t i = 0; i < own->n; i++) {
        prune(own->needs[i]->session, FT_TREE_MAX, least);
        finish_tree(v, own->needs[i]);
    }
}

/* Frees the drafters of sessions whose text has ended or that have had no work for a long time. */
static void drop_idle(ft_verifier *v, int64_t now_us)
{
    for (ft_sess *s = v->sessions.first; s; s = s->next) {
        ft_sess_state state = ft_sess_state_of(s);
        if (s->own && (state == FT_SESS_ENDED ||
                       (state != FT_SESS_WAITING && !ft_prompt_awaits(now_us - s->times.used_us))))
            ft_own_drop(s);
    }
}

int64_t ft_own_before_pass(ft_verifier *v, int64_t read_budget_us)
{
    ft_own *own = v->own;
    ft_engine_stats stats;
    if (!own)
        return 0;
    int64_t from_us = ft_clock_now_us(&v->opts.clock);
    drop_idle(v, from_us);
    own->spent_us = 0;
    if (from_us < own->rest_until_us || !pays(v))
        return 0;
    choose(v, ft_own_read_tok(&own->read_us, read_budget_us, FT_OWN_DRAFT_ROWS));
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
    const ft_sess_batch *b = &v->batch;
    bool runs = false, trees = false;
    for (size_t i = 0; v->own && i < b->segments.n; i++) {
        const ft_round *r = &b->segments.of[i]->round;
        const bool run = b->segments.segment[i].want && ft_round_is_run(r);
        runs |= run;
        trees |= run && r->nodes.n > 0;
    }
    if (runs)
        ft_own_draft_saw_pass(&v->own->rate, trees, expected_us, us);
}

/* ---- verdicts ---- */

void ft_own_verdict(ft_sess *s, ft_msg_verdict *verdict)
{
    ft_verifier *v = s->verifier;
    const uint32_t n_path = verdict->n_path, n = n_path + verdict->n_next;
    uint32_t path[FT_TREE_MAX];
    ft_error err = {0};
    if (!ft_round_is_run(&s->round) || s->round.nodes.n == 0)
        return;
    ft_own_draft_saw_verdict(&v->own->rate, n);
    v->stats.own_drafted += s->round.nodes.n;
    v->stats.own_accepted += n_path;
    for (uint32_t i = 0; i < n_path; i++)
        path[i] = s->own->number[verdict->path[i]];
    s->round.nodes.n = 0;
    s->own->n_text = s->text.len;
    if (ft_drafter_advance(s->own->drafter, path, n_path, verdict->next, verdict->n_next, &err) !=
        FT_OK)
        give_up(s, &err);
    /* The client does not know the tree, so it gets the path as tokens. */
    memcpy(verdict->next, s->text.token + s->text.len - n, n * sizeof *verdict->next);
    verdict->n_next = n;
    verdict->n_path = 0;
}

uint32_t ft_own_token_us(const ft_verifier *v)
{
    const ft_own *own = v->own;
    double us = own && own->rate.on && own->rest_us == 0 ? own->rate.token_us : 0;
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}
