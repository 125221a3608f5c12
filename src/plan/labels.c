// SPDX-License-Identifier: Apache-2.0
// The best way to divide an order of tasks into batches. Algorithm 1 keeps one pair of curves of
// the first i tasks, the one with the least latency. But a pair that is later by itself may lead to
// an earlier end, if its second stage waits less for what follows. So here each prefix keeps all
// pairs that are not dominated: no other pair is at least as early in each stage and each round.
// The caller owns the state.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/memory.h"
#include "plan/search.h"

/* One way to serve the first i tasks of the order. */
typedef struct label {
    ft_plan_curve curve;
    double draft_s, verify_s; /* of all its batches */
    uint32_t start;           /* the last batch is tasks start ... i - 1, counted from 0 */
    uint32_t before;          /* which label of the first `start` tasks it extends */
} label;

typedef struct prefix {
    label *labels;
    uint32_t n;
} prefix;

/* A label that may be made. */
typedef struct candidate {
    double rank, latency;
    double draft_s, verify_s;
    ft_plan_piece piece;
    uint32_t start, before;
} candidate;

typedef struct search {
    ft_plan_cost *c;
    ft_plan_split *s;
    uint32_t most;
    prefix *prefixes;      /* [n + 1] */
    candidate *candidates; /* [cap], the n best so far by rising rank */
    uint32_t n, cap;
} search;

/* What a candidate's whole plan may take: if the other tasks are like those so far, each stage
 * needs as much more time for them. */
static double rank_of(const search *s, uint32_t i, const candidate *k)
{
    const double rest = (double)(s->c->p->n - i) / i;
    return fmax(k->latency + rest * k->verify_s, k->draft_s * (1 + rest));
}

static void offer(search *s, const candidate *k)
{
    uint32_t at = s->n;
    if (s->n == s->cap && k->rank >= s->candidates[s->n - 1].rank)
        return;
    s->n += s->n < s->cap;
    for (at = s->n - 1; at > 0 && s->candidates[at - 1].rank > k->rank; at--)
        s->candidates[at] = s->candidates[at - 1];
    s->candidates[at] = *k;
}

/* All ways in which a last batch can end at task i - 1. */
static void gather(search *s, uint32_t i)
{
    const ft_plan_problem *p = s->c->p;
    ft_plan_shape shape = {0};
    uint64_t kv_sum = 0;
    s->n = 0;
    for (uint32_t start = i; start-- > 0;) {
        const ft_plan_task *t = &p->tasks[s->s->order[start]];
        const prefix *before = &s->prefixes[start];
        candidate k = {.start = start};
        ft_plan_shape_add(&shape, t);
        kv_sum += (uint64_t)t->in_tok + t->out_tok;
        if (!ft_plan_fits(p, s->s->length, &shape, kv_sum))
            break; /* it only grows */
        const ft_plan_lane lane = ft_plan_lane_of(p, s->s->length, &shape, &k.piece);
        double draft_s, verify_s;
        ft_plan_lane_s(&lane, &draft_s, &verify_s);
        for (k.before = 0; k.before < before->n; k.before++) {
            const label *l = &before->labels[k.before];
            k.draft_s = l->draft_s + draft_s;
            k.verify_s = l->verify_s + verify_s;
            k.latency = ft_plan_curve_sum_with(&l->curve, &lane);
            k.rank = rank_of(s, i, &k);
            s->c->steps += l->curve.n + 1;
            offer(s, &k);
        }
    }
}

/* Makes labels of the best candidates, as far as no label dominates them. */
static bool keep(search *s, uint32_t i)
{
    prefix *out = &s->prefixes[i];
    const uint32_t most = i < s->c->p->n ? s->most : 1;
    out->labels = calloc(s->n < most ? s->n + !s->n : most, sizeof *out->labels);
    if (!out->labels)
        return false;
    for (uint32_t k = 0; k < s->n && out->n < most; k++) {
        const candidate *from = &s->candidates[k];
        const ft_plan_lane lane = {.pieces = &from->piece, .n = 1};
        label *l = &out->labels[out->n];
        bool dominated = false;
        l->draft_s = from->draft_s;
        l->verify_s = from->verify_s;
        l->start = from->start;
        l->before = from->before;
        if (!ft_plan_curve_add(&s->prefixes[from->start].labels[from->before].curve, &lane,
                               &l->curve)) {
            ft_plan_curve_deinit(&l->curve);
            return false;
        }
        for (uint32_t other = 0; other < out->n && !dominated; other++)
            dominated = ft_plan_curve_dominates(&out->labels[other].curve, &l->curve);
        out->n += !dominated;
        if (dominated)
            ft_plan_curve_deinit(&l->curve);
    }
    return true;
}

static void backtrack(search *s)
{
    ft_plan_split *out = s->s;
    uint32_t n = 0, which = 0;
    for (uint32_t i = s->c->p->n; i > 0;) {
        const label *l = &s->prefixes[i].labels[which];
        out->sizes[n++] = i - l->start;
        i = l->start;
        which = l->before;
    }
    for (uint32_t k = 0; k < n / 2; k++) {
        const uint32_t size = out->sizes[k];
        out->sizes[k] = out->sizes[n - 1 - k];
        out->sizes[n - 1 - k] = size;
    }
    out->n_batches = n;
    ft_plan_cost_split(s->c, out);
}

static void deinit(search *s)
{
    for (uint32_t i = 0; s->prefixes && i <= s->c->p->n; i++) {
        for (uint32_t k = 0; k < s->prefixes[i].n; k++)
            ft_plan_curve_deinit(&s->prefixes[i].labels[k].curve);
        free(s->prefixes[i].labels);
    }
    free(s->prefixes);
    free(s->candidates);
}

static ft_status run(search *s, const ft_plan_watch *watch, ft_error *err)
{
    const ft_plan_problem *p = s->c->p;
    const double tokens = ft_plan_tokens(p->acceptance, s->s->length);
    uint32_t out_max = 0;
    ft_status status = FT_OK;
    for (uint32_t k = 0; k < p->n; k++)
        out_max = p->tasks[k].out_tok > out_max ? p->tasks[k].out_tok : out_max;
    s->prefixes[0].labels = calloc(1, sizeof *s->prefixes[0].labels);
    bool good = s->prefixes[0].labels && ft_plan_curve_clear(&s->prefixes[0].labels[0].curve,
                                                             ft_plan_rounds(out_max, tokens));
    s->prefixes[0].n = s->prefixes[0].labels ? 1 : 0;
    for (uint32_t i = 1; i <= p->n && good && status == FT_OK; i++) {
        gather(s, i);
        good = keep(s, i);
        status = ft_plan_watch_check(watch, err);
    }
    if (!good)
        status = ft_error_set(err, FT_NOMEM, "plan: out of memory");
    return status;
}

ft_status ft_plan_labels(ft_plan_cost *c, ft_plan_sorting sorting, uint32_t most,
                         const ft_plan_watch *watch, ft_error *err, ft_plan_split *s)
{
    search a = {.c = c, .s = s, .most = most, .cap = 3 * most};
    ft_status status = FT_OK;
    s->inf_s = INFINITY;
    a.prefixes = calloc(c->p->n + 1, sizeof *a.prefixes);
    a.candidates = calloc(a.cap, sizeof *a.candidates);
    if (!a.prefixes || !a.candidates)
        status = ft_error_set(err, FT_NOMEM, "plan: out of memory");
    ft_plan_sort(c->p, sorting, s->order);
    if (status == FT_OK)
        status = run(&a, watch, err);
    if (status == FT_OK && a.prefixes[c->p->n].n > 0)
        backtrack(&a);
    deinit(&a);
    return status;
}
