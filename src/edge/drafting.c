// SPDX-License-Identifier: Apache-2.0
// The draft model's side of one generation. Drafting only makes a text cheaper: whatever goes wrong
// here ends drafting, for now or for good, and never the generation.
//
//   start -> ON <----------- all read -----------+
//             | \--context full, error--> OFF    |       every engine call is one turn at the engine
//             | pool full                        |
//             v                                  |
//           LATER --after a while, room--> READING (in pieces, while verdicts are waited for)
//
// In runs the drafter is told of the text only when that is of use: when so much is new that reading
// it at once is cheap, when a shadow is wanted, or before a tree. `known` is what it was told.
//
// What is done while a verdict is waited for (ft_gen_draft_idle) is one draft forward a call, and takes
// a turn at the engine only where nobody else wants one, except for reading, which makes drafting
// possible in the first place.
//
// Owned by the generation's thread; the drafter's sequence belongs to the engine, so it is created,
// used and destroyed under the engine lock only.
#include "base/log.h"
#include "edge/edge_internal.h"
#include "spec/draft_engine.h"

#define PREFILL_CHUNK    128 /* tokens a turn: some 10 ms, so that others and a cancel get their say */
#define FOLLOW_TOK       32 /* new text of a run that is read at once: hardly dearer than a few tokens */
#define RETRY_ROUNDS     16 /* verdicts until the first new try; doubles each time */
#define RETRY_ROUNDS_TOP 256
#define ROOM_TOK         64 /* free tokens in the pool besides the text's, for trees to come */

/* What the drafter did, into the generation's sums: it is going. */
static void count(ft_gen *gen)
{
    ft_drafter_stats d;
    ft_gen_stats *s = gen->stats;
    ft_drafter_get_stats(gen->drafter, &d);
    s->forwards += d.forwards;
    s->ahead_forwards += d.ahead_forwards;
    s->heads += d.heads;
    s->aligned += d.aligned;
    s->matched += d.matched;
    s->ahead_nodes += d.ahead_nodes;
    s->ahead_kept += d.ahead_kept;
}

void ft_gen_draft_stop(ft_gen *gen)
{
    if (gen->drafter) {
        count(gen);
        pthread_mutex_lock(&gen->edge->mutex);
        gen->edge->calibration = ft_drafter_calibration(gen->drafter);
        pthread_mutex_unlock(&gen->edge->mutex);
        ft_edge_engine_lock(gen->edge);
        ft_drafter_destroy(gen->drafter);
        ft_edge_engine_unlock(gen->edge);
    }
    gen->drafter = NULL;
    gen->drafting = FT_DRAFTING_OFF;
    gen->tree.n = 0;
    gen->shadow.wanted = false;
    gen->shadow.tree.n = 0;
}

/* What a failed drafter call means: a full pool is tried again later, the rest is given up. */
static void give_up(ft_gen *gen, const ft_error *err)
{
    ft_gen_draft_stop(gen);
    if (err->code == FT_EXHAUSTED) {
        gen->drafting = FT_DRAFTING_LATER;
        gen->retry_step = gen->retry_step ? gen->retry_step * 2 : RETRY_ROUNDS;
        if (gen->retry_step > RETRY_ROUNDS_TOP)
            gen->retry_step = RETRY_ROUNDS_TOP;
        gen->retry_in = gen->retry_step;
    } else {
        FT_LOGW("edge", "drafting stopped, decoding goes on without: %s", err->message);
    }
}

static ft_status make_source(ft_gen *gen, ft_error *err, ft_draft_source **out)
{
    const ft_edge *edge = gen->edge;
    const ft_sampling *sampling = &gen->request->sampling;
    if (edge->engine)
        return ft_draft_engine_source(edge->engine, NULL, sampling, err, out);
    return edge->drafts.create(edge->drafts.ctx, sampling, err, out);
}

/* A drafter that has the text to read. Under the engine lock. */
static ft_status make_drafter(ft_gen *gen, ft_error *err)
{
    ft_draft_source *source = NULL;
    ft_status status = make_source(gen, err, &source);
    if (status != FT_OK)
        return status;
    if (source->ops->room_tok(source) < gen->text.n + ROOM_TOK) {
        ft_draft_source_destroy(source);
        return ft_error_set(err, FT_EXHAUSTED, "edge: the draft's pool is full");
    }
    status = ft_drafter_create(source, err, &gen->drafter);
    if (status == FT_OK) {
        pthread_mutex_lock(&gen->edge->mutex);
        const ft_calibration known = gen->edge->calibration;
        pthread_mutex_unlock(&gen->edge->mutex);
        ft_drafter_calibrate(gen->drafter, &known);
    }
    if (status == FT_OK)
        status = ft_drafter_reset(gen->drafter, gen->text.id, (uint32_t)gen->text.n, err);
    gen->known = (uint32_t)gen->text.n;
    return status;
}

static ft_status begin(ft_gen *gen, ft_error *err)
{
    ft_edge_engine_lock(gen->edge);
    ft_status status = make_drafter(gen, err);
    ft_edge_engine_unlock(gen->edge);
    return status;
}

/* Tells the drafter what the text has become. Under the engine lock. */
static ft_status tell(ft_gen *gen, ft_error *err)
{
    const uint32_t n = (uint32_t)gen->text.n - gen->known;
    if (n == 0)
        return FT_OK;
    ft_status status = ft_drafter_advance(gen->drafter, NULL, 0, gen->text.id + gen->known, n, err);
    if (status == FT_OK)
        gen->known = (uint32_t)gen->text.n;
    return status;
}

/* A piece of the text, in a turn that was taken. */
static ft_status read_piece(ft_gen *gen, ft_error *err, uint32_t *left)
{
    ft_status status = tell(gen, err);
    *left = 0;
    if (status == FT_OK)
        status = ft_drafter_prefill(gen->drafter, PREFILL_CHUNK, err, left);
    return status;
}

/* FT_CANCELLED: by the sink. */
static ft_status read_all(ft_gen *gen, ft_error *err)
{
    const uint64_t total = gen->text.n;
    uint32_t left = 1;
    while (left > 0) {
        if (ft_gen_cancelled(gen))
            return FT_CANCELLED;
        ft_edge_engine_lock(gen->edge);
        ft_status status = read_piece(gen, err, &left);
        ft_edge_engine_unlock(gen->edge);
        if (status != FT_OK)
            return status;
        if (!gen->answered) /* the last token's report is the first verdict's */
            ft_progress_report(&gen->request->progress, left < total ? total - left - 1 : 0, total);
    }
    return FT_OK;
}

/* Where drafting stands after an attempt to begin or read. */
static void settle(ft_gen *gen, ft_status status, const ft_error *err, ft_drafting good)
{
    if (status == FT_OK)
        gen->drafting = good;
    else if (status == FT_CANCELLED)
        ft_gen_draft_stop(gen);
    else
        give_up(gen, err);
}

void ft_gen_draft_start(ft_gen *gen)
{
    ft_edge *edge = gen->edge;
    ft_error err = {0};
    gen->drafting = FT_DRAFTING_OFF;
    if (gen->request->no_speculation || gen->text.n + 1 >= edge->draft_ctx)
        return;
    ft_status status = begin(gen, &err);
    if (status == FT_OK)
        status = read_all(gen, &err);
    settle(gen, status, &err, FT_DRAFTING_ON);
}

bool ft_gen_draft_ready(ft_gen *gen)
{
    if (gen->drafting != FT_DRAFTING_OFF && gen->text.n + 1 >= gen->edge->draft_ctx)
        ft_gen_draft_stop(gen); /* its memory serves others */
    return gen->drafting == FT_DRAFTING_ON;
}

static uint32_t forwards(const ft_gen *gen)
{
    ft_drafter_stats d;
    ft_drafter_get_stats(gen->drafter, &d);
    return (uint32_t)d.forwards;
}

void ft_gen_draft(ft_gen *gen, const ft_draft_params *params)
{
    ft_error err = {0};
    if (gen->drafting != FT_DRAFTING_ON || params->budget == 0 || params->depth == 0)
        return;
    ft_status status = gen->known < gen->text.n ? read_all(gen, &err) : FT_OK;
    if (status != FT_OK) {
        settle(gen, status, &err, FT_DRAFTING_ON);
        return;
    }
    const uint32_t before = forwards(gen);
    const int64_t began = ft_clock_now_us(&gen->edge->clock);
    gen->params = *params;
    gen->ahead_done = false;
    ft_edge_engine_lock(gen->edge);
    status = ft_drafter_draft(gen->drafter, params, &err, &gen->tree);
    ft_edge_engine_unlock(gen->edge);
    if (status == FT_OK && gen->tree.n == 0) /* only a full pool keeps a drafter from one node */
        err.code = FT_EXHAUSTED;
    if (err.code != FT_OK)
        give_up(gen, &err);
    else
        ft_gen_steer_sent(gen, forwards(gen) - before, ft_clock_now_us(&gen->edge->clock) - began);
    ft_gen_record_draft(gen);
}

/* The shadow, in a turn that was taken. */
static ft_status draft_shadow(ft_gen *gen, ft_error *err)
{
    const uint32_t before = forwards(gen);
    const int64_t began = ft_clock_now_us(&gen->edge->clock);
    ft_status status = ft_drafter_draft(gen->drafter, &gen->shadow.params, err, &gen->shadow.tree);
    gen->shadow.wanted = false;
    if (status == FT_OK && gen->shadow.tree.n > 0)
        ft_gen_steer_shadow(gen, forwards(gen) - before,
                            ft_clock_now_us(&gen->edge->clock) - began);
    return status;
}

void ft_gen_draft_shadow(ft_gen *gen)
{
    ft_error err = {0};
    if (!ft_gen_draft_ready(gen))
        return;
    ft_status status = gen->known < gen->text.n ? read_all(gen, &err) : FT_OK;
    if (status == FT_OK) {
        ft_edge_engine_lock(gen->edge);
        status = draft_shadow(gen, &err);
        ft_edge_engine_unlock(gen->edge);
    }
    settle(gen, status, &err, FT_DRAFTING_ON);
}

void ft_gen_draft_advance(ft_gen *gen, const ft_msg_verdict *verdict)
{
    ft_error err = {0};
    if (gen->retry_in > 0)
        gen->retry_in--;
    if (gen->tree.n == 0) /* a run, or the drafter is another one than drafted this tree */
        return;
    ft_edge_engine_lock(gen->edge);
    ft_status status = ft_drafter_advance(gen->drafter, verdict->path, verdict->n_path,
                                          verdict->next, verdict->n_next, &err);
    ft_edge_engine_unlock(gen->edge);
    gen->known = (uint32_t)gen->text.n;
    ft_tree_clear(&gen->tree);
    if (status != FT_OK)
        give_up(gen, &err);
}

void ft_gen_draft_early(ft_gen *gen)
{
    ft_tree_clear(&gen->tree);
    gen->ahead_done = false;
    if (gen->drafting == FT_DRAFTING_ON)
        ft_drafter_early_take(gen->drafter, &gen->tree);
    if (gen->tree.n == gen->out.draft.n) {
        ft_gen_steer_sent(gen, 0, 0);
        ft_gen_record_draft(gen);
    } else { /* the drafter is another one, or gone: the round says nothing of its drafts */
        ft_tree_clear(&gen->tree);
        gen->sent_us = 0;
    }
}

/* ---- while a verdict is waited for ---- */

/* A first try of LATER, or the next piece of READING. */
static ft_idle idle_reading(ft_gen *gen)
{
    ft_error err = {0};
    ft_status status = FT_OK;
    uint32_t left = 1;
    if (gen->drafting == FT_DRAFTING_LATER) {
        if (gen->retry_in > 0 || gen->text.n + 1 >= gen->edge->draft_ctx)
            return FT_IDLE_DONE;
        status = begin(gen, &err);
    } else {
        ft_edge_engine_lock(gen->edge);
        status = read_piece(gen, &err, &left);
        ft_edge_engine_unlock(gen->edge);
    }
    settle(gen, status, &err, left > 0 ? FT_DRAFTING_READING : FT_DRAFTING_ON);
    return gen->drafting == FT_DRAFTING_READING ? FT_IDLE_MORE : FT_IDLE_DONE;
}

/* A forward begun now would keep the verdict waiting, unless that comes much later than others did. */
static bool verdict_is_near(ft_gen *gen)
{
    double forward_us = ft_control_forward_us(&gen->control);
    double left_us = (double)(gen->sent_us - ft_clock_now_us(&gen->edge->clock)) + gen->wait_us;
    if (gen->wait_us == 0 || gen->sent_us == 0 || left_us >= forward_us || left_us < -forward_us)
        return false;
    gen->near_us = (int64_t)(left_us + forward_us) + 1;
    return true;
}

static ft_idle idle_ahead(ft_gen *gen)
{
    ft_error err = {0};
    bool more = false;
    if (!gen->edge->proactive || gen->ahead_done)
        return FT_IDLE_DONE;
    ft_gen_early_look(gen);
    if (verdict_is_near(gen))
        return FT_IDLE_NEAR;
    if (!ft_edge_engine_try(gen->edge))
        return FT_IDLE_TURN;
    ft_status status = ft_drafter_ahead(gen->drafter, &gen->params, &err, &more);
    ft_edge_engine_unlock(gen->edge);
    if (status != FT_OK)
        give_up(gen, &err);
    gen->ahead_done = !more;
    if (gen->ahead_done && status == FT_OK)
        ft_gen_early_look(gen);
    return more && status == FT_OK ? FT_IDLE_MORE : FT_IDLE_DONE;
}

static ft_idle idle_run(ft_gen *gen)
{
    const bool wanted = gen->shadow.wanted;
    ft_error err = {0};
    uint32_t left = 0;
    if (!gen->edge->proactive || !ft_gen_draft_ready(gen))
        return FT_IDLE_DONE;
    if (!wanted && gen->text.n - gen->known < FOLLOW_TOK)
        return FT_IDLE_DONE;
    if (!ft_edge_engine_try(gen->edge))
        return FT_IDLE_TURN;
    ft_status status = FT_OK;
    if (wanted && gen->known == gen->text.n)
        status = draft_shadow(gen, &err);
    else
        status = read_piece(gen, &err, &left);
    ft_edge_engine_unlock(gen->edge);
    if (status != FT_OK)
        give_up(gen, &err);
    return status == FT_OK && (left > 0 || gen->shadow.wanted) ? FT_IDLE_MORE : FT_IDLE_DONE;
}

ft_idle ft_gen_draft_idle(ft_gen *gen)
{
    if (gen->drafting == FT_DRAFTING_LATER || gen->drafting == FT_DRAFTING_READING)
        return idle_reading(gen);
    if (gen->drafting != FT_DRAFTING_ON)
        return FT_IDLE_DONE;
    return gen->tree.n > 0 ? idle_ahead(gen) : idle_run(gen);
}
