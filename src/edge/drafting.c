// SPDX-License-Identifier: Apache-2.0
// The drafts of one generation: by the draft model, by lookups, by both, and in front of these by
// what a constraint forces. The draft engine is locked during every call. While a verdict is
// awaited only reading waits for the lock, because nothing can be drafted before it; all other work
// is done only if no other generation wants the engine.
//
// Invariants (ft_drafting_check): there is a drafter in READING and ON, and in no other state; a
// tree is out only in ON; the drafter knows no more tokens than the text has.
//
// Owned by the generation's thread; the drafter's sequence belongs to the engine, so it is created,
// used and destroyed under the lock only. Knows nothing of the verifier.
#include "edge/drafting.h"

#include <assert.h>

#include "base/log.h"
#include "base/num.h"
#include "edge/tuning.h"
#include "spec/both.h"
#include "spec/draft_engine.h"

#define PREFILL_CHUNK    128 /* tokens: some 10 ms, so that others and a cancel do not wait long */
#define RETRY_ROUNDS     16  /* verdicts until the first new try; doubles each time */
#define RETRY_ROUNDS_TOP 256
#define ROOM_TOK         64 /* free tokens that the pool must have beside the text's, for trees */

#define NO FT_DRAFTING_ILLEGAL

static const ft_drafting_state transitions[FT_DRAFTING_N_STATES][FT_DRAFTING_N_EVENTS] = {
    [FT_DRAFTING_OFF] = {FT_DRAFTING_READING, NO, FT_DRAFTING_LATER, FT_DRAFTING_OFF},
    [FT_DRAFTING_READING] = {NO, FT_DRAFTING_ON, FT_DRAFTING_LATER, FT_DRAFTING_OFF},
    [FT_DRAFTING_ON] = {NO, FT_DRAFTING_ON, FT_DRAFTING_LATER, FT_DRAFTING_OFF},
    [FT_DRAFTING_LATER] = {FT_DRAFTING_READING, NO, FT_DRAFTING_LATER, FT_DRAFTING_OFF},
};

ft_drafting_state ft_drafting_next(ft_drafting_state state, ft_drafting_event event)
{
    return transitions[state][event];
}

void ft_drafting_check(const ft_drafting *d)
{
    const bool on = d->state == FT_DRAFTING_ON;
    assert((on || d->state == FT_DRAFTING_READING) == (d->drafter != NULL));
    assert(on || d->tree.n == 0);
    assert(on || d->shadow.state == FT_SHADOW_NONE);
    assert(d->known <= d->how.text->n);
    (void)on;
}

static void happened(ft_drafting *d, ft_drafting_event event)
{
    const ft_drafting_state next = ft_drafting_next(d->state, event);
    assert(next != FT_DRAFTING_ILLEGAL);
    d->state = next;
#ifdef FT_DEBUG_CHECKS
    ft_drafting_check(d);
#endif
}

bool ft_drafting_can(const ft_drafting_opts *how)
{
    return how->model || how->lookup.n_ctx > 0 || how->forced.n_ctx > 0;
}

bool ft_drafting_at_once(const ft_drafting_opts *how)
{
    return !how->model && ft_drafting_can(how);
}

void ft_drafting_init(ft_drafting *d, const ft_drafting_opts *opts)
{
    *d = (ft_drafting){.how = *opts,
                       .state = FT_DRAFTING_OFF,
                       .retry_step = RETRY_ROUNDS,
                       .calibration = opts->calibration};
}

static uint32_t text_tok(const ft_drafting *d)
{
    return (uint32_t)d->how.text->n;
}

static bool context_is_full(const ft_drafting *d)
{
    const ft_drafting_opts *how = &d->how;
    const uint32_t n_ctx = how->model              ? how->from->n_ctx
                           : how->lookup.n_ctx > 0 ? how->lookup.n_ctx
                                                   : how->forced.n_ctx;
    return text_tok(d) + 1 >= n_ctx;
}

/* ---- making and freeing the drafter ---- */

static void count(ft_gen_stats *sum, const ft_drafter *drafter)
{
    ft_drafter_stats s;
    ft_drafter_get_stats(drafter, &s);
    sum->forwards += s.forwards;
    sum->proactive_forwards += s.proactive_forwards;
    sum->proactive_nodes += s.proactive_nodes;
    sum->proactive_kept += s.proactive_kept;
    sum->leaves += s.leaves;
    sum->aligned += s.aligned;
    sum->matched += s.matched;
}

static void drop_drafter(ft_drafting *d)
{
    if (d->drafter) {
        count(d->how.stats, d->drafter);
        if (d->how.model)
            d->calibration = ft_drafter_calibration(d->drafter);
        ft_engine_lock_take(&d->how.from->lock);
        ft_drafter_destroy(d->drafter);
        ft_engine_lock_release(&d->how.from->lock);
    }
    d->drafter = NULL;
    ft_tree_clear(&d->tree);
    ft_tree_clear(&d->shadow.tree);
    d->shadow.state = FT_SHADOW_NONE;
}

void ft_drafting_stop(ft_drafting *d)
{
    drop_drafter(d);
    happened(d, FT_DRAFTING_STOP);
}

/* After a failed drafter call: a full pool is tried again later; other errors end drafting. */
static void give_up(ft_drafting *d, const ft_error *err)
{
    drop_drafter(d);
    if (err->code == FT_EXHAUSTED) {
        d->retry_in = d->retry_step;
        d->retry_step = ft_min_u32(2 * d->retry_step, RETRY_ROUNDS_TOP);
        happened(d, FT_DRAFTING_FULL);
    } else {
        FT_LOGW("edge", "drafting stopped, decoding goes on without drafts: %s", err->message);
        happened(d, FT_DRAFTING_STOP);
    }
}

void ft_drafting_set_rule(ft_drafting *d, const ft_rule *rule)
{
    d->how.rule = rule;
    if (d->state == FT_DRAFTING_OFF)
        return;
    drop_drafter(d);
    d->retry_in = 0;
    happened(d, FT_DRAFTING_FULL);
}

static ft_status make_model_source(const ft_drafting *d, ft_error *err, ft_draft_source **out)
{
    const ft_drafting_opts *how = &d->how;
    if (how->from->engine)
        return ft_draft_engine_source(how->from->engine, how->rule, how->from->work, how->sampling,
                                      err, out);
    const ft_draft_source_factory *factory = &how->from->factory;
    return factory->create(factory->ctx, how->rule, how->sampling, err, out);
}

/* Without what a constraint forces; NULL: there is nothing else. The sources of one kind share a
 * group: all texts of an edge that drafts for several at once have the same kind. */
static ft_status make_free_source(const ft_drafting *d, ft_error *err, ft_draft_source **out)
{
    const ft_drafting_opts *how = &d->how;
    ft_draft_source *lookup = NULL, *model = NULL;
    *out = NULL;
    if (how->lookup.n_ctx == 0)
        return how->model ? make_model_source(d, err, out) : FT_OK;
    ft_status status = ft_lookup_source(&how->lookup, how->from, err, &lookup);
    if (status != FT_OK || !how->model) {
        *out = lookup;
        return status;
    }
    status = make_model_source(d, err, &model);
    if (status == FT_OK)
        return ft_both_source(model, lookup, err, out);
    ft_draft_source_destroy(lookup);
    return status;
}

static ft_status make_source(const ft_drafting *d, ft_error *err, ft_draft_source **out)
{
    const ft_forced_opts *forced = &d->how.forced;
    ft_draft_source *inner = NULL;
    ft_status status = make_free_source(d, err, &inner);
    *out = inner;
    return status == FT_OK && forced->n_ctx > 0
               ? ft_forced_source(inner, forced, &d->how.from->spellings, err, out)
               : status;
}

/* Makes a drafter, which must read the text. The caller holds the lock. */
static ft_status make_drafter(ft_drafting *d, ft_error *err)
{
    ft_draft_source *source = NULL;
    ft_status status = make_source(d, err, &source);
    if (status != FT_OK)
        return status;
    if (source->ops->room_tok(source) < text_tok(d) + ROOM_TOK) {
        ft_draft_source_destroy(source);
        return ft_error_set(err, FT_EXHAUSTED, "edge: the draft model's KV pool is full");
    }
    status = ft_drafter_create(source, err, &d->drafter);
    if (status != FT_OK)
        return status;
    if (d->how.model) /* lookups count by themselves how far they are to be trusted */
        ft_drafter_calibrate(d->drafter, &d->calibration);
    d->known = text_tok(d);
    return ft_drafter_reset(d->drafter, d->how.text->id, text_tok(d), err);
}

static void begin(ft_drafting *d)
{
    ft_error err = {0};
    ft_engine_lock_take(&d->how.from->lock);
    ft_status status = make_drafter(d, &err);
    ft_engine_lock_release(&d->how.from->lock);
    if (status == FT_OK)
        happened(d, FT_DRAFTING_BEGIN);
    else
        give_up(d, &err);
}

/* ---- reading ---- */

/* Gives new text to the drafter, then reads a piece. Under the lock. */
static ft_status read_piece(ft_drafting *d, ft_error *err, uint32_t *left)
{
    const uint32_t n = text_tok(d) - d->known;
    ft_status status = FT_OK;
    *left = 0;
    if (n > 0)
        status = ft_drafter_advance(d->drafter, NULL, 0, d->how.text->id + d->known, n, err);
    if (status != FT_OK)
        return status;
    d->known += n;
    return ft_drafter_prefill(d->drafter, PREFILL_CHUNK, err, left);
}

/* Reads a piece. False: drafting has ended. */
static bool read_locked(ft_drafting *d, uint32_t *left)
{
    ft_error err = {0};
    ft_engine_lock_take(&d->how.from->lock);
    ft_status status = read_piece(d, &err, left);
    ft_engine_lock_release(&d->how.from->lock);
    if (status != FT_OK)
        give_up(d, &err);
    return status == FT_OK;
}

/* False: drafting has ended. */
static bool read_all(ft_drafting *d)
{
    const uint64_t total = text_tok(d);
    uint32_t left = 1;
    while (left > 0) {
        if (d->how.cancelled(d->how.ctx)) {
            ft_drafting_stop(d);
            return false;
        }
        if (!read_locked(d, &left))
            return false;
        if (d->state == FT_DRAFTING_READING) /* the first verdict reports the last token */
            ft_progress_report(d->how.progress, left < total ? total - left - 1 : 0, total);
    }
    happened(d, FT_DRAFTING_READ);
    return true;
}

void ft_drafting_start(ft_drafting *d)
{
    if (context_is_full(d))
        return;
    begin(d);
    if (d->state == FT_DRAFTING_READING)
        (void)read_all(d);
}

uint64_t ft_drafting_forwards(const ft_drafting *d)
{
    ft_drafter_stats s = {0};
    if (d->drafter)
        ft_drafter_get_stats(d->drafter, &s);
    return s.forwards;
}

bool ft_drafting_ready(ft_drafting *d)
{
    if (d->state != FT_DRAFTING_OFF && context_is_full(d))
        ft_drafting_stop(d); /* frees its memory for others */
    return d->state == FT_DRAFTING_ON;
}

/* ---- drafting ---- */

/* The cost so far; the difference of two is the cost between them. */
static ft_draft_cost spent(const ft_drafting *d)
{
    ft_drafter_stats s;
    ft_drafter_get_stats(d->drafter, &s);
    return (ft_draft_cost){.forwards = (uint32_t)s.forwards, .us = ft_clock_now_us(&d->how.clock)};
}

static ft_draft_cost since(const ft_drafting *d, ft_draft_cost before)
{
    const ft_draft_cost now = spent(d);
    return (ft_draft_cost){.forwards = now.forwards - before.forwards, .us = now.us - before.us};
}

/* Whether a tree is drafted by these parameters. Then the drafter has read the text. */
static bool begin_draft(ft_drafting *d, const ft_draft_params *params)
{
    ft_tree_clear(&d->tree);
    if (d->state != FT_DRAFTING_ON || params->budget == 0 || params->depth == 0)
        return false;
    if (d->known < text_tok(d) && !read_all(d))
        return false;
    d->params = *params;
    d->exhausted = false;
    return true;
}

static void end_draft(ft_drafting *d, ft_error err)
{
    /* Only lookups, or a full pool, leave a tree without nodes. */
    if (err.code == FT_OK && d->tree.n == 0 && d->how.model)
        err.code = FT_EXHAUSTED;
    if (err.code != FT_OK)
        give_up(d, &err);
}

void ft_drafting_draft(ft_joint_draft *joint, size_t n)
{
    ft_drafter *drafter[FT_DRAFT_BATCH];
    ft_draft_params params[FT_DRAFT_BATCH];
    ft_tree *tree[FT_DRAFT_BATCH];
    ft_joint_draft *of[FT_DRAFT_BATCH];
    ft_error err = {0};
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        ft_drafting *d = joint[i].drafting;
        joint[i].cost = (ft_draft_cost){0};
        if (!begin_draft(d, &joint[i].params))
            continue;
        joint[i].cost = spent(d);
        drafter[k] = d->drafter;
        params[k] = joint[i].params;
        tree[k] = &d->tree;
        of[k++] = &joint[i];
    }
    if (k == 0)
        return;
    ft_engine_lock *lock = &of[0]->drafting->how.from->lock;
    ft_engine_lock_take(lock);
    ft_status status = ft_drafters_draft(drafter, k, params, &err, tree);
    ft_engine_lock_release(lock);
    err.code = status;
    for (size_t i = 0; i < k; i++) {
        of[i]->cost = since(of[i]->drafting, of[i]->cost);
        end_draft(of[i]->drafting, err);
    }
}

bool ft_drafting_look(ft_drafting *d, const ft_draft_params *params, ft_tree *tree)
{
    ft_error err = {0};
    ft_tree_clear(tree);
    if (params->budget == 0 || params->depth == 0 || !ft_drafting_ready(d) ||
        (d->known < text_tok(d) && !read_all(d)))
        return false;
    assert(d->tree.n == 0);
    ft_engine_lock_take(&d->how.from->lock);
    ft_status status = ft_drafter_draft(d->drafter, params, &err, tree);
    ft_engine_lock_release(&d->how.from->lock);
    if (status != FT_OK)
        give_up(d, &err);
    return status == FT_OK && tree->n > 0;
}

void ft_drafting_advance(ft_drafting *d, const ft_msg_verdict *verdict)
{
    ft_error err = {0};
    if (d->retry_in > 0)
        d->retry_in--;
    if (d->tree.n == 0) /* a run, or another drafter made this tree */
        return;
    ft_engine_lock_take(&d->how.from->lock);
    ft_status status = ft_drafter_advance(d->drafter, verdict->path, verdict->n_path, verdict->next,
                                          verdict->n_next, &err);
    ft_engine_lock_release(&d->how.from->lock);
    d->known = text_tok(d);
    ft_tree_clear(&d->tree);
    if (status != FT_OK)
        give_up(d, &err);
}

void ft_drafting_take_early(ft_drafting *d, uint32_t nodes)
{
    ft_tree_clear(&d->tree);
    d->exhausted = false;
    if (d->state == FT_DRAFTING_ON)
        ft_drafter_early_take(d->drafter, &d->tree);
    if (d->tree.n != nodes)
        ft_tree_clear(&d->tree);
}

uint32_t ft_drafting_likeliest(const ft_drafting *d, int32_t *token, uint32_t most)
{
    return d->state == FT_DRAFTING_ON && d->tree.n > 0
               ? ft_drafter_likeliest(d->drafter, token, most)
               : 0;
}

/* ---- shadows ---- */

void ft_drafting_want_shadow(ft_drafting *d, const ft_draft_params *params)
{
    if (d->state != FT_DRAFTING_ON || d->shadow.state == FT_SHADOW_OUT)
        return;
    d->shadow.state = FT_SHADOW_WANTED;
    d->shadow.params = *params;
}

/* Under the lock. */
static ft_status draft_shadow(ft_drafting *d, ft_error *err)
{
    ft_shadow *s = &d->shadow;
    const ft_draft_cost before = spent(d);
    ft_status status = ft_drafter_draft(d->drafter, &s->params, err, &s->tree);
    s->state = FT_SHADOW_NONE;
    if (status != FT_OK || s->tree.n == 0)
        return status;
    s->cost = since(d, before);
    s->state = FT_SHADOW_OUT;
    s->at = -1;
    s->path = 0;
    return FT_OK;
}

void ft_drafting_draft_shadow(ft_drafting *d)
{
    ft_error err = {0};
    if (!ft_drafting_ready(d) || (d->known < text_tok(d) && !read_all(d)))
        return;
    ft_engine_lock_take(&d->how.from->lock);
    ft_status status = draft_shadow(d, &err);
    ft_engine_lock_release(&d->how.from->lock);
    if (status != FT_OK)
        give_up(d, &err);
}

bool ft_drafting_walk_shadow(ft_drafting *d, int32_t token, ft_shadow *over)
{
    ft_shadow *s = &d->shadow;
    bool leaf = true;
    if (s->state != FT_SHADOW_OUT)
        return false;
    s->at = ft_tree_find_child(&s->tree, s->at, token);
    s->path += s->at >= 0;
    for (uint32_t i = 0; i < s->tree.n && leaf && s->at >= 0; i++)
        leaf = s->tree.parent[i] != s->at;
    if (!leaf)
        return false;
    *over = *s;
    ft_tree_clear(&s->tree);
    s->state = FT_SHADOW_NONE;
    return true;
}

/* ---- while a verdict is awaited ---- */

/* READING: reads a piece of the text. LATER: tries to begin. */
static ft_idle idle_read(ft_drafting *d)
{
    uint32_t left = 0;
    if (d->state == FT_DRAFTING_READING) {
        if (read_locked(d, &left) && left == 0)
            happened(d, FT_DRAFTING_READ);
    } else if (d->retry_in == 0 && !context_is_full(d)) {
        begin(d);
    }
    return d->state == FT_DRAFTING_READING ? FT_IDLE_MORE : FT_IDLE_DONE;
}

static ft_idle idle_tree(ft_drafting *d)
{
    ft_error err = {0};
    bool more = false;
    if (d->exhausted)
        return FT_IDLE_DONE;
    if (!ft_engine_lock_try(&d->how.from->lock))
        return FT_IDLE_LOCKED;
    ft_status status = ft_drafter_proactive(d->drafter, &d->params, &err, &more);
    ft_engine_lock_release(&d->how.from->lock);
    d->exhausted = !more;
    if (status != FT_OK)
        give_up(d, &err);
    return more && status == FT_OK ? FT_IDLE_MORE : FT_IDLE_DONE;
}

/* In a run: reads new text, and drafts the wanted shadow. */
static ft_idle idle_run(ft_drafting *d)
{
    ft_error err = {0};
    uint32_t left = 0;
    if (!ft_drafting_ready(d))
        return FT_IDLE_DONE;
    const bool wanted = d->shadow.state == FT_SHADOW_WANTED;
    if (!wanted && text_tok(d) - d->known < ft_edge_tune->runs.follow_tok)
        return FT_IDLE_DONE;
    if (!ft_engine_lock_try(&d->how.from->lock))
        return FT_IDLE_LOCKED;
    ft_status status = FT_OK;
    if (wanted && d->known == text_tok(d))
        status = draft_shadow(d, &err);
    else
        status = read_piece(d, &err, &left);
    ft_engine_lock_release(&d->how.from->lock);
    if (status != FT_OK)
        give_up(d, &err);
    return status == FT_OK && (left > 0 || d->shadow.state == FT_SHADOW_WANTED) ? FT_IDLE_MORE
                                                                                : FT_IDLE_DONE;
}

ft_idle ft_drafting_idle(ft_drafting *d)
{
    switch (d->state) {
    case FT_DRAFTING_READING:
    case FT_DRAFTING_LATER:
        return idle_read(d);
    case FT_DRAFTING_ON:
        return d->tree.n > 0 ? idle_tree(d) : idle_run(d);
    default:
        return FT_IDLE_DONE;
    }
}
