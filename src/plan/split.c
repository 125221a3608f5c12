// SPDX-License-Identifier: Apache-2.0
// Splits of tasks into batches, and their costs. The caller owns the state.
#include "plan/split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"

#define ROUNDS_STEP 8 /* so many rounds of a walk take as long as a bend of a curve */

ft_status ft_plan_split_init(ft_plan_split *s, uint32_t n, ft_error *err)
{
    *s = (ft_plan_split){.order = calloc(n, sizeof *s->order),
                         .sizes = calloc(n, sizeof *s->sizes),
                         .inf_s = INFINITY};
    if (s->order && s->sizes)
        return FT_OK;
    ft_plan_split_deinit(s);
    return ft_error_set(err, FT_NOMEM, "plan: out of memory");
}

void ft_plan_split_deinit(ft_plan_split *s)
{
    free(s->order);
    free(s->sizes);
    *s = (ft_plan_split){0};
}

void ft_plan_split_copy(ft_plan_split *to, const ft_plan_split *from, uint32_t n)
{
    memcpy(to->order, from->order, n * sizeof *to->order);
    memcpy(to->sizes, from->sizes, from->n_batches * sizeof *to->sizes);
    to->length = from->length;
    to->n_batches = from->n_batches;
    to->inf_s = from->inf_s;
}

void ft_plan_shape_add(ft_plan_shape *shape, const ft_plan_task *t)
{
    shape->n++;
    shape->in_max = t->in_tok > shape->in_max ? t->in_tok : shape->in_max;
    shape->out_max = t->out_tok > shape->out_max ? t->out_tok : shape->out_max;
    shape->in_sum += t->in_tok;
    shape->in_squares += (double)t->in_tok * t->in_tok;
}

ft_plan_shape ft_plan_shape_of(const ft_plan_problem *p, const uint32_t *tasks, uint32_t n,
                               uint64_t *kv_sum)
{
    ft_plan_shape shape = {0};
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        ft_plan_shape_add(&shape, &p->tasks[tasks[i]]);
        sum += (uint64_t)p->tasks[tasks[i]].in_tok + p->tasks[tasks[i]].out_tok;
    }
    if (kv_sum)
        *kv_sum = sum;
    return shape;
}

/* Without drafts the verify station goes on by itself. */
static double delay_of(const ft_plan_problem *p, uint32_t length)
{
    return length > 0 && p->flow != FT_PLAN_ROUNDS ? p->delay_s : 0;
}

ft_plan_lane ft_plan_lane_of(const ft_plan_problem *p, uint32_t length, const ft_plan_shape *shape,
                             ft_plan_piece *piece)
{
    const double tokens = ft_plan_tokens(p->acceptance, length);
    piece->until = ft_plan_rounds(shape->out_max, tokens);
    p->times(p->times_ctx, shape, length, tokens, &piece->draft, &piece->verify);
    return (ft_plan_lane){.pieces = piece, .n = 1, .delay_s = delay_of(p, length)};
}

static bool shorter(const void *ctx, const void *a, const void *b)
{
    const ft_plan_task *tasks = ctx;
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    return tasks[i].out_tok != tasks[k].out_tok ? tasks[i].out_tok < tasks[k].out_tok : i < k;
}

void ft_plan_list_sort(const ft_plan_problem *p, uint32_t *tasks, uint32_t n)
{
    ft_sort(tasks, n, sizeof *tasks, shorter, p->tasks);
}

ft_plan_lane ft_plan_lane_make(const ft_plan_problem *p, uint32_t length, const uint32_t *tasks,
                               uint32_t n, ft_plan_piece *pieces)
{
    const double tokens = ft_plan_tokens(p->acceptance, length);
    ft_plan_shape shape = {0};
    uint32_t n_pieces = 0;
    if (!p->leave) {
        shape = ft_plan_shape_of(p, tasks, n, NULL);
        return ft_plan_lane_of(p, length, &shape, pieces);
    }
    for (uint32_t i = n; i-- > 0;) { /* from the tasks that stay longest */
        const uint32_t rounds = ft_plan_rounds(p->tasks[tasks[i]].out_tok, tokens);
        const bool same = n_pieces > 0 && pieces[n_pieces - 1].until == rounds;
        ft_plan_piece *piece = &pieces[same ? n_pieces - 1 : n_pieces++];
        ft_plan_shape_add(&shape, &p->tasks[tasks[i]]);
        piece->until = rounds;
        p->times(p->times_ctx, &shape, length, tokens, &piece->draft, &piece->verify);
    }
    for (uint32_t i = 0; i < n_pieces / 2; i++) {
        const ft_plan_piece last = pieces[n_pieces - 1 - i];
        pieces[n_pieces - 1 - i] = pieces[i];
        pieces[i] = last;
    }
    return (ft_plan_lane){.pieces = pieces, .n = n_pieces, .delay_s = delay_of(p, length)};
}

ft_status ft_plan_cost_init(ft_plan_cost *c, const ft_plan_problem *p, ft_error *err)
{
    *c = (ft_plan_cost){.p = p,
                        .pieces = calloc(p->n, sizeof *c->pieces),
                        .lanes = calloc(p->n, sizeof *c->lanes),
                        .places = calloc(p->n, sizeof *c->places)};
    if (c->pieces && c->lanes && c->places)
        return FT_OK;
    ft_plan_cost_deinit(c);
    return ft_error_set(err, FT_NOMEM, "plan: out of memory");
}

void ft_plan_cost_deinit(ft_plan_cost *c)
{
    free(c->pieces);
    free(c->lanes);
    free(c->places);
    ft_plan_curve_deinit(&c->curve[0]);
    ft_plan_curve_deinit(&c->curve[1]);
    *c = (ft_plan_cost){0};
}

static double cost_by_curves(ft_plan_cost *c, const ft_plan_lane *lanes, uint32_t n)
{
    uint32_t rounds = 0, now = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t own = ft_plan_lane_rounds(&lanes[i]);
        rounds = own > rounds ? own : rounds;
    }
    bool good = ft_plan_curve_clear(&c->curve[0], rounds);
    for (uint32_t i = 0; i < n && good; i++, now = !now) {
        good = ft_plan_curve_add(&c->curve[now], &lanes[i], &c->curve[!now]);
        c->steps += c->curve[now].n + 1;
    }
    c->no_memory |= !good;
    return good ? ft_plan_curve_sum(&c->curve[now]) : INFINITY;
}

double ft_plan_cost_lanes(ft_plan_cost *c, const ft_plan_lane *lanes, uint32_t n)
{
    double sum = 0;
    switch (c->p->flow) {
    case FT_PLAN_ROUNDS:
        return cost_by_curves(c, lanes, n);
    case FT_PLAN_SEQUENCE:
        for (uint32_t i = 0; i < n; i++) {
            double draft_s, verify_s;
            ft_plan_lane_s(&lanes[i], &draft_s, &verify_s);
            sum += draft_s + verify_s + ft_plan_lane_rounds(&lanes[i]) * lanes[i].delay_s;
            c->steps += lanes[i].n;
        }
        return sum - lanes[0].delay_s; /* none behind the last round */
    default:
        for (uint32_t i = 0; i < n; i++)
            c->steps += 1 + ft_plan_lane_rounds(&lanes[i]) / ROUNDS_STEP;
        return ft_plan_walk(c->p->flow, lanes, n, c->places, NULL, NULL);
    }
}

void ft_plan_cost_split(ft_plan_cost *c, ft_plan_split *s)
{
    for (uint32_t i = 0, first = 0; i < s->n_batches; first += s->sizes[i++]) {
        ft_plan_list_sort(c->p, s->order + first, s->sizes[i]);
        c->lanes[i] =
            ft_plan_lane_make(c->p, s->length, s->order + first, s->sizes[i], c->pieces + first);
    }
    s->inf_s = ft_plan_cost_lanes(c, c->lanes, s->n_batches);
}
