// SPDX-License-Identifier: Apache-2.0
// Fills a plan: shares of the uplink, and when batches and tasks end. Stateless.
#include "plan/finish.h"

#include <stdlib.h>
#include <string.h>

#include "plan/bandwidth.h"

void ft_batch_plan_deinit(ft_batch_plan *plan)
{
    free(plan->order);
    free(plan->batches);
    free(plan->share);
    free(plan->end_s);
    *plan = (ft_batch_plan){0};
}

static ft_status allocate(uint32_t n, uint32_t n_batches, ft_error *err, ft_batch_plan *out)
{
    *out = (ft_batch_plan){.order = calloc(n, sizeof *out->order),
                           .batches = calloc(n_batches, sizeof *out->batches),
                           .share = calloc(n, sizeof *out->share),
                           .end_s = calloc(n, sizeof *out->end_s),
                           .n_batches = n_batches};
    if (out->order && out->batches && out->share && out->end_s)
        return FT_OK;
    ft_batch_plan_deinit(out);
    return ft_error_set(err, FT_NOMEM, "plan: out of memory");
}

typedef struct ends {
    const ft_plan_problem *p;
    ft_batch_plan *plan;
    uint32_t *next; /* [n_batches] the first task of each batch that is not complete */
} ends;

/* Tasks of a batch are sorted by output, so those that are complete with a round come next. */
static void see(void *ctx, const ft_plan_moment *m)
{
    ends *e = ctx;
    ft_plan_batch *b = &e->plan->batches[m->batch];
    for (uint32_t *i = &e->next[m->batch]; *i < b->first + b->shape.n; (*i)++) {
        const uint32_t k = e->plan->order[*i];
        if (ft_plan_rounds(e->p->tasks[k].out_tok, e->plan->tokens_per_round) > m->round)
            break;
        e->plan->end_s[k] = e->plan->com_s + m->verify_to_s;
    }
    b->end_s = e->plan->com_s + m->verify_to_s;
}

static void fill_batches(ft_plan_cost *c, const ft_plan_split *s, ft_batch_plan *out)
{
    for (uint32_t i = 0, first = 0; i < s->n_batches; first += s->sizes[i++]) {
        ft_plan_batch *b = &out->batches[i];
        uint32_t *tasks = out->order + first;
        ft_plan_list_sort(c->p, tasks, s->sizes[i]);
        c->lanes[i] = ft_plan_lane_make(c->p, s->length, tasks, s->sizes[i], c->pieces + first);
        *b = (ft_plan_batch){.first = first,
                             .shape = ft_plan_shape_of(c->p, tasks, s->sizes[i], NULL),
                             .rounds = ft_plan_lane_rounds(&c->lanes[i])};
        ft_plan_lane_s(&c->lanes[i], &b->draft_s, &b->verify_s);
    }
}

static void fill_shares(const ft_plan_problem *p, bool uniform, ft_batch_plan *out)
{
    if (!uniform) {
        out->com_s = ft_plan_bandwidth(p->tasks, p->n, out->share);
        return;
    }
    for (uint32_t k = 0; k < p->n; k++)
        out->share[k] = 1.0 / p->n;
    out->com_s = ft_plan_com_s(p->tasks, p->n, out->share);
}

ft_status ft_plan_trace(const ft_plan_problem *problem, const ft_batch_plan *plan,
                        ft_plan_see *see_one, void *ctx, ft_error *err)
{
    ft_plan_cost c;
    ft_status status = ft_plan_cost_init(&c, problem, err);
    if (status != FT_OK)
        return status;
    for (uint32_t i = 0; i < plan->n_batches; i++) {
        const ft_plan_batch *b = &plan->batches[i];
        c.lanes[i] = ft_plan_lane_make(problem, plan->length, plan->order + b->first, b->shape.n,
                                       c.pieces + b->first);
    }
    ft_plan_walk(problem->flow, c.lanes, plan->n_batches, c.places, see_one, ctx);
    ft_plan_cost_deinit(&c);
    return FT_OK;
}

ft_status ft_plan_finish(ft_plan_cost *c, const ft_plan_split *s, bool uniform, ft_error *err,
                         ft_batch_plan *out)
{
    const ft_plan_problem *p = c->p;
    ends e = {.p = p, .plan = out, .next = calloc(s->n_batches, sizeof *e.next)};
    ft_status status = allocate(p->n, s->n_batches, err, out);
    if (status == FT_OK && !e.next) {
        ft_batch_plan_deinit(out);
        status = ft_error_set(err, FT_NOMEM, "plan: out of memory");
    }
    if (status != FT_OK) {
        free(e.next);
        return status;
    }
    out->length = s->length;
    out->tokens_per_round = ft_plan_tokens(p->acceptance, s->length);
    memcpy(out->order, s->order, p->n * sizeof *out->order);
    fill_shares(p, uniform, out);
    fill_batches(c, s, out);
    for (uint32_t i = 0; i < s->n_batches; i++)
        e.next[i] = out->batches[i].first;
    out->inf_s = ft_plan_walk(p->flow, c->lanes, s->n_batches, c->places, see, &e);
    out->total_s = out->inf_s + out->com_s; /* (23) */
    free(e.next);
    return FT_OK;
}
