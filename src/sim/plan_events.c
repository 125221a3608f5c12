// SPDX-License-Identifier: Apache-2.0
// Two stations and their queues. The caller owns the state.
#include "sim/plan_events.h"

#include <math.h>
#include <stdlib.h>

#include "sim/queue.h"

enum { DRAFT, VERIFY, STATIONS };

/* First come, first served. No more batches wait than there are. */
typedef struct station {
    uint32_t *waiting; /* [n] a ring */
    uint32_t first, n;
    bool busy;
} station;

typedef struct world {
    const ft_plan_problem *p;
    const ft_batch_plan *plan;
    station at[STATIONS];
    uint32_t *round;  /* [n_batches] that each batch is in */
    uint32_t in_turn; /* ROUNDS: batches that are in the present round still */
    ft_sim_queue events;
    int64_t now_us;
} world;

static int64_t stage_us(const world *w, uint32_t batch, int stage)
{
    const ft_plan_shape *shape = &w->plan->batches[batch].shape;
    const uint32_t round = w->round[batch];
    ft_plan_time t[STATIONS];
    w->p->times(w->p->times_ctx, shape, w->plan->length, w->plan->tokens_per_round, &t[DRAFT],
                &t[VERIFY]);
    const ft_plan_time *own = &t[stage];
    return llround(1e6 *
                   (round == 1 ? own->first_s : own->second_s + (double)(round - 2) * own->more_s));
}

/* A station that is free takes the next batch. */
static void start(world *w, int stage)
{
    station *s = &w->at[stage];
    if (s->busy || s->n == 0)
        return;
    const uint32_t batch = s->waiting[s->first];
    s->first = (s->first + 1) % w->plan->n_batches;
    s->n--;
    s->busy = true;
    ft_sim_queue_put(&w->events, w->now_us + stage_us(w, batch, stage), (uint32_t)stage, batch);
}

static void arrive(world *w, int stage, uint32_t batch)
{
    station *s = &w->at[stage];
    s->waiting[(s->first + s->n++) % w->plan->n_batches] = batch;
    start(w, stage);
}

/* All batches that are not complete go into their next round. */
static void next_round(world *w)
{
    for (uint32_t i = 0; i < w->plan->n_batches; i++)
        w->in_turn += w->round[i] < w->plan->batches[i].rounds;
    for (uint32_t i = 0; i < w->plan->n_batches; i++)
        if (w->round[i] < w->plan->batches[i].rounds) {
            w->round[i]++;
            arrive(w, DRAFT, i);
        }
}

static void verified(world *w, uint32_t batch)
{
    if (w->p->flow == FT_PLAN_ROUNDS) {
        if (--w->in_turn == 0)
            next_round(w);
    } else if (w->round[batch] < w->plan->batches[batch].rounds) {
        w->round[batch]++;
        arrive(w, DRAFT, batch);
    }
}

static void run(world *w)
{
    ft_sim_event e;
    next_round(w);
    while (ft_sim_queue_take(&w->events, &e)) {
        w->now_us = e.at_us;
        w->at[e.kind].busy = false;
        if (e.kind == DRAFT)
            arrive(w, VERIFY, e.who);
        else
            verified(w, e.who);
        start(w, DRAFT);
        start(w, VERIFY);
    }
}

ft_status ft_sim_plan_us(const ft_plan_problem *problem, const ft_batch_plan *plan, ft_error *err,
                         int64_t *us)
{
    const uint32_t n = plan->n_batches;
    world w = {.p = problem, .plan = plan, .round = calloc(n, sizeof *w.round)};
    ft_status status = ft_sim_queue_init(&w.events, STATIONS + 1, err);
    bool good = w.round != NULL;
    for (int i = 0; i < STATIONS; i++) {
        w.at[i].waiting = calloc(n, sizeof *w.at[i].waiting);
        good = good && w.at[i].waiting;
    }
    if (status == FT_OK && !good)
        status = ft_error_set(err, FT_NOMEM, "plan: out of memory");
    if (status == FT_OK)
        run(&w);
    *us = w.now_us;
    for (int i = 0; i < STATIONS; i++)
        free(w.at[i].waiting);
    free(w.round);
    ft_sim_queue_deinit(&w.events);
    return status;
}
