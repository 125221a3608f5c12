// SPDX-License-Identifier: Apache-2.0
// One pass: makes a batch of the waiting work, computes one forward pass, and gives the verdicts.
// Only the engine thread calls this file. The file has no state of its own.
#include "serve/pass.h"

#include <stdlib.h>

#include "base/log.h"
#include "serve/answers.h"
#include "serve/batch.h"
#include "serve/lifecycle.h"
#include "serve/own_draft.h"
#include "serve/slo.h"
#include "serve/verdict.h"

/* Called after a failure, which is a defect of the server. Ends the sessions of the batch, because
 * a second try would fail, too. */
static void give_up(ft_verifier *v, const ft_error *err)
{
    ft_sess_batch *b = &v->batch;
    FT_LOGE("serve", "forward failed: %s", err->message);
    for (size_t i = 0; i < b->segments.n; i++)
        ft_sess_end(b->segments.of[i], FT_INTERNAL, err->message);
    for (size_t i = 0; b->segments.n == 0 && i < b->n_needs; i++)
        ft_sess_end(b->needs[i].session, FT_INTERNAL, err->message);
}

/* Counts a forward pass that began at started_us. Returns its time without the head. */
static int64_t count_pass(ft_verifier *v, int64_t started_us)
{
    const ft_sess_batch *b = &v->batch;
    ft_verifier_stats *stats = &v->stats;
    ft_slo_served(v);
    ft_sizes_add(&stats->passes, (uint32_t)b->rows.n);
    ft_answer_publish(v);
    int64_t us = ft_clock_now_us(&v->opts.clock) - started_us;
    stats->forward_us += (uint64_t)us;
    return us;
}

/* Called after the walks, which took walk_us in all. Counts the walks. Corrects the cost model by
 * the measured times of the pass and of the head. */
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

bool ft_pass_run(ft_verifier *v, int64_t *look_us)
{
    ft_sess_batch *b = &v->batch;
    ft_error err = {0};
    if (!ft_sess_batch_gather(v, look_us))
        return false;
    int64_t read_us = ft_own_before_pass(v, ft_sess_batch_read_us(v));
    int64_t started_us = ft_clock_now_us(&v->opts.clock);
    ft_sess_batch_compose(v, started_us, read_us);
    ft_status status =
        b->segments.n ? ft_engine_forward_rows(v->engine, b->segments.segment, b->segments.n, &err)
                      : ft_error_set(&err, FT_INTERNAL, "serve: no work fits the batch");
    if (status != FT_OK) {
        give_up(v, &err);
        return true;
    }
    int64_t pass_us = count_pass(v, started_us), from_us = ft_clock_now_us(&v->opts.clock);
    if (ft_verdict_walk(v, &err) != FT_OK) {
        give_up(v, &err);
        return true;
    }
    int64_t now_us = ft_clock_now_us(&v->opts.clock);
    count_walks(v, pass_us, now_us - from_us);
    ft_verdict_give(v, started_us, now_us);
    return true;
}
