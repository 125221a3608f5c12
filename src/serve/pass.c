// SPDX-License-Identifier: Apache-2.0
// One pass: makes a batch of the waiting work, computes one forward pass, and gives the verdicts.
// Only the engine thread calls this file. The file has no state of its own.
//
// A pass that fails has no effect (engine.h). Its batch is halved, and the halves are computed one
// after the other, until the session that makes passes fail is alone. Only this session then loses
// its stream: if memory or blocks were short it can be resumed, otherwise it has ended. Other texts
// are the same as without the failure.
#include "serve/pass.h"

#include <stdlib.h>

#include "base/log.h"
#include "model/streamed.h"
#include "serve/answers.h"
#include "serve/batch.h"
#include "serve/health.h"
#include "serve/kv_room.h"
#include "serve/lifecycle.h"
#include "serve/own_draft.h"
#include "serve/slo.h"
#include "serve/verdict.h"

/* Counts a forward pass that began at started_us. Returns its time without the head. */
static int64_t count_pass(ft_verifier *v, int64_t started_us)
{
    const ft_sess_batch *b = &v->batch;
    ft_verifier_stats *stats = &v->stats;
    ft_slo_served(v);
    ft_sizes_add(&stats->passes, b->pass.rows);
    ft_answer_publish(v);
    int64_t us = ft_clock_now_us(&v->opts.clock) - started_us;
    stats->forward_us += (uint64_t)us;
    return us;
}

/* Called after the walks, which took walk_us in all. Counts the walks. Corrects the cost model by
 * the measured times of the pass and of the head. waited_us: of them, for weights. */
static void count_walks(ft_verifier *v, int64_t pass_us, int64_t walk_us, int64_t waited_us)
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
    const ft_spike_cause spike =
        ft_spike_observe(&v->spikes, &v->cost, pass, &v->batch.prompts, us);
    stats->spikes[spike]++;
    v->batch.spike = spike != FT_SPIKE_NONE;
    ft_cost_observe_read(&v->cost, pass, us, waited_us);
    stats->cost_error = v->cost.error;
    stats->cost_bias = v->cost.bias;
}

/* A pass as the timeline has it: the forward, then output head and walks. began_us, forward_us,
 * over_us: when the work on it began, when the walks began, when they were over. */
static void draw_pass(const ft_verifier *v, int64_t began_us, int64_t forward_us, int64_t over_us)
{
    const ft_sess_batch *b = &v->batch;
    const ft_timeline_event pass = {.name = "pass",
                                    .track = FT_TIMELINE_MAIN,
                                    .begin_us = began_us,
                                    .end_us = over_us,
                                    .arg = {{"texts", (int64_t)b->segments.n},
                                            {"rows", b->pass.rows},
                                            {"prompt_rows", b->prompts.rows},
                                            {"logits_rows", b->pass.out},
                                            {"interactions", (int64_t)b->pass.ctx},
                                            {"cached_tok", (int64_t)b->pass.cached}}};
    const ft_timeline_event forward = {
        .name = "forward", .track = FT_TIMELINE_MAIN, .begin_us = began_us, .end_us = forward_us};
    const ft_timeline_event walk = {.name = "head and walks",
                                    .track = FT_TIMELINE_MAIN,
                                    .begin_us = forward_us,
                                    .end_us = over_us};
    ft_timeline_add(v->opts.timeline, &pass);
    ft_timeline_add(v->opts.timeline, &forward);
    ft_timeline_add(v->opts.timeline, &walk);
}

/* The walks of the part have failed: drops what the pass has computed. The walks may have written
 * over log-probabilities that the record of the last verdict needs. */
static void drop_walks(const ft_sess_part *part)
{
    for (size_t i = 0; i < part->n; i++) {
        ft_sess *s = part->of[i];
        ft_seq_truncate(s->kv.seq, ft_seq_n_past(s->kv.seq));
        s->record.whole = s->record.whole && !s->asked.logprobs;
    }
}

/* Computes the segments of the pass and gives their verdicts. began_us: when the work on the pass
 * began. An error leaves all sessions as they were. */
static ft_status compute(ft_verifier *v, int64_t began_us, ft_error *err)
{
    const ft_sess_part *part = &v->batch.segments;
    const int64_t waited_us = ft_streamed_waited_us(v->opts.streamed);
    ft_status status = ft_engine_forward_rows(v->engine, part->segment, part->n, err);
    if (status != FT_OK)
        return status;
    const int64_t pass_us = count_pass(v, began_us), from_us = ft_clock_now_us(&v->opts.clock);
    status = ft_verdict_walk(v, err);
    if (status != FT_OK) {
        drop_walks(part);
        return status;
    }
    const int64_t now_us = ft_clock_now_us(&v->opts.clock);
    count_walks(v, pass_us, now_us - from_us, ft_streamed_waited_us(v->opts.streamed) - waited_us);
    if (v->opts.timeline)
        draw_pass(v, began_us, from_us, now_us);
    ft_verdict_give(v, began_us, now_us);
    return FT_OK;
}

/* The session is alone in a pass that failed. */
static void give_up(ft_sess *s, const ft_error *why)
{
    if (why->code == FT_NOMEM || why->code == FT_EXHAUSTED)
        ft_sess_cut(s, why->message, ft_clock_now_us(&s->verifier->opts.clock));
    else
        ft_sess_end(s, FT_INTERNAL, why->message);
}

/* Computes a part of the batch; if that fails, its halves. False: the engine fails. */
static bool run_part(ft_verifier *v, ft_sess_part part, int64_t began_us)
{
    ft_error err = {0};
    ft_sess_batch_narrow(v, &part);
    err.code = compute(v, began_us, &err);
    if (err.code == FT_OK)
        return true;
    v->stats.failures++;
    FT_LOGE("serve", "pass failed sessions=%zu reason=\"%s\"", part.n, err.message);
    if (!ft_health_test(v, &err))
        return false;
    if (part.n == 1) {
        give_up(part.of[0], &err);
        return true;
    }
    const size_t half = part.n / 2;
    const ft_sess_part rest = {part.segment + half, part.of + half, part.n - half};
    part.n = half;
    return run_part(v, part, ft_clock_now_us(&v->opts.clock)) &&
           run_part(v, rest, ft_clock_now_us(&v->opts.clock));
}

bool ft_pass_run(ft_verifier *v, int64_t *look_us)
{
    ft_sess_batch *b = &v->batch;
    if (!ft_health_works(v, look_us) || !ft_sess_batch_gather(v, look_us))
        return false;
    const uint64_t own_forwards = v->stats.own_forwards;
    const int64_t own_us = ft_clock_now_us(&v->opts.clock);
    int64_t read_us = ft_own_before_pass(v, ft_sess_batch_read_us(v));
    int64_t began_us = ft_clock_now_us(&v->opts.clock);
    if (v->stats.own_forwards > own_forwards)
        ft_timeline_add(v->opts.timeline,
                        &(ft_timeline_event){.name = "own drafts",
                                             .track = FT_TIMELINE_MAIN,
                                             .begin_us = own_us,
                                             .end_us = began_us,
                                             .arg = {{"forwards", (int64_t)(v->stats.own_forwards -
                                                                            own_forwards)}}});
    ft_sess_batch_compose(v, began_us, read_us);
    if (b->all.n == 0) { /* others have the blocks: held back by the policy, or in their turn */
        const int64_t turn_us = ft_kv_turn_left_us(v, began_us);
        if (*look_us < 0 || (turn_us >= 0 && turn_us < *look_us))
            *look_us = turn_us;
        return false;
    }
    ft_inbox_expect(&v->inbox, ft_cost_predict(&v->cost, &b->pass));
    (void)run_part(v, b->all, began_us);
    return true;
}
