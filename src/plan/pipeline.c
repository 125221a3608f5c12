// SPDX-License-Identifier: Apache-2.0
// The two-stage pipeline, round by round. Pure.
#include "plan/pipeline.h"

double ft_plan_time_at(const ft_plan_time *t, uint32_t round)
{
    return round == 1 ? t->first_s : t->second_s + (round - 2.0) * t->more_s;
}

uint32_t ft_plan_lane_rounds(const ft_plan_lane *lane)
{
    return lane->pieces[lane->n - 1].until;
}

/* The sum over rounds from ... to. */
static double time_sum(const ft_plan_time *t, uint32_t from, uint32_t to)
{
    const double first = from == 1 ? t->first_s : 0;
    const double start = from == 1 ? 2 : from, count = to - start + 1;
    return first + (count > 0 ? count * (t->second_s + t->more_s * ((start + to) / 2 - 2)) : 0);
}

void ft_plan_lane_s(const ft_plan_lane *lane, double *draft_s, double *verify_s)
{
    *draft_s = *verify_s = 0;
    for (uint32_t i = 0, from = 1; i < lane->n; from = lane->pieces[i++].until + 1) {
        *draft_s += time_sum(&lane->pieces[i].draft, from, lane->pieces[i].until);
        *verify_s += time_sum(&lane->pieces[i].verify, from, lane->pieces[i].until);
    }
}

typedef struct walk {
    ft_plan_flow flow;
    double draft_free_s, verify_free_s; /* when each stage ends what it has */
    ft_plan_see *see;
    void *ctx;
} walk;

/* Eq. (20): a batch's second stage begins when its first has ended, and the second stage of the
 * batch before. */
static void step(walk *w, const ft_plan_lane *lane, uint32_t batch, uint32_t round,
                 ft_plan_place *place)
{
    const ft_plan_piece *piece = &lane->pieces[place->piece];
    ft_plan_moment m = {.batch = batch, .round = round, .draft_from_s = w->draft_free_s};
    if (w->flow == FT_PLAN_ROLLING && place->ready_s > m.draft_from_s)
        m.draft_from_s = place->ready_s;
    m.draft_to_s = m.draft_from_s + ft_plan_time_at(&piece->draft, round);
    m.verify_from_s = m.draft_to_s > w->verify_free_s ? m.draft_to_s : w->verify_free_s;
    m.verify_to_s = m.verify_from_s + ft_plan_time_at(&piece->verify, round);
    w->verify_free_s = m.verify_to_s;
    place->ready_s = m.verify_to_s + lane->delay_s;
    w->draft_free_s = w->flow == FT_PLAN_SEQUENCE ? place->ready_s : m.draft_to_s;
    if (w->see)
        w->see(w->ctx, &m);
}

double ft_plan_walk(ft_plan_flow flow, const ft_plan_lane *lanes, uint32_t n, ft_plan_place *places,
                    ft_plan_see *see, void *ctx)
{
    walk w = {.flow = flow, .see = see, .ctx = ctx};
    uint32_t rounds = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t own = ft_plan_lane_rounds(&lanes[i]);
        rounds = own > rounds ? own : rounds;
        places[i] = (ft_plan_place){0};
    }
    for (uint32_t round = 1; round <= rounds; round++) {
        if (flow == FT_PLAN_ROUNDS) /* (21): the last batch has ended the round before */
            w.draft_free_s = w.verify_free_s;
        for (uint32_t i = 0; i < n; i++) {
            ft_plan_place *place = &places[i];
            if (ft_plan_lane_rounds(&lanes[i]) < round)
                continue; /* not in M_n any more */
            while (lanes[i].pieces[place->piece].until < round)
                place->piece++;
            step(&w, &lanes[i], i, round, place);
        }
    }
    return w.verify_free_s;
}
