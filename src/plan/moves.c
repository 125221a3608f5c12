// SPDX-License-Identifier: Apache-2.0
// Makes a split better by small changes: the first one that helps is kept, and the search goes on
// from there. The order of the changes is fixed, so the same problem gives the same plan. The
// caller owns the state.
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "plan/memory.h"
#include "plan/search.h"

#define NONE      UINT32_MAX
#define HELPS     (1 - 1e-9) /* a gain below is a rounding error */
#define WATCH_GAP 1000000    /* steps between two questions whether to stop: some 25 ms */

typedef struct moves {
    ft_plan_cost *c;
    ft_plan_split *s;
    uint64_t steps, next_watch;
    uint32_t *first;         /* [n + 1] where each batch begins in s->order */
    uint32_t *list[2];       /* [n] tasks of two new batches */
    ft_plan_piece *piece[2]; /* [n] */
    uint32_t n_list[2];
    ft_plan_lane *lanes;     /* [n + 1] of a try */
    uint32_t *order, *sizes; /* [n], [n + 1]: a split in the making */
    uint32_t *places;        /* [n] batches in another order */
    const ft_plan_watch *watch;
    ft_status status;
    ft_error *err;
} moves;

static bool goes_on(moves *m)
{
    if (m->c->steps >= m->next_watch && m->status == FT_OK) {
        m->next_watch = m->c->steps + WATCH_GAP;
        m->status = ft_plan_watch_check(m->watch, m->err);
    }
    return m->status == FT_OK && m->c->steps < m->steps;
}

static uint32_t *tasks_of(const moves *m, uint32_t batch)
{
    return m->s->order + m->first[batch];
}

static void renew(moves *m)
{
    ft_plan_cost_split(m->c, m->s);
    m->first[0] = 0;
    for (uint32_t i = 0; i < m->s->n_batches; i++)
        m->first[i + 1] = m->first[i] + m->s->sizes[i];
}

/* The batch list[which]; false: it does not fit. */
static bool make_lane(moves *m, uint32_t which, ft_plan_lane *out)
{
    const ft_plan_problem *p = m->c->p;
    uint64_t kv_sum;
    const ft_plan_shape shape = ft_plan_shape_of(p, m->list[which], m->n_list[which], &kv_sum);
    m->c->steps += 1 + (p->leave ? 4 * m->n_list[which] : m->n_list[which] / 8);
    if (!ft_plan_fits(p, m->s->length, &shape, kv_sum))
        return false;
    if (p->leave)
        ft_plan_list_sort(p, m->list[which], m->n_list[which]);
    *out = ft_plan_lane_make(p, m->s->length, m->list[which], m->n_list[which], m->piece[which]);
    return true;
}

/* Which batch stands at each place after a change: list[0] instead of batch a; list[1] instead of
 * batch b, or, if that is NONE, before batch `at`. Entries from n_batches on are the lists. An
 * empty list is left out. Returns how many. */
static uint32_t arrange(const moves *m, uint32_t a, uint32_t b, uint32_t at, uint32_t *places)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i <= m->s->n_batches; i++) {
        const uint32_t which = i == a ? 0 : 1;
        if (b == NONE && i == at && m->n_list[1] > 0)
            places[n++] = m->s->n_batches + 1;
        if (i == m->s->n_batches)
            break;
        if (i != a && i != b)
            places[n++] = i;
        else if (m->n_list[which] > 0)
            places[n++] = m->s->n_batches + which;
    }
    return n;
}

/* Takes batches and lists in this order as the split. */
static void apply(moves *m, const uint32_t *places, uint32_t n)
{
    const uint32_t batches = m->s->n_batches;
    for (uint32_t i = 0, at = 0; i < n; at += m->sizes[i++]) {
        const bool list = places[i] >= batches;
        const uint32_t *from =
            list ? m->list[places[i] - batches] : m->s->order + m->first[places[i]];
        m->sizes[i] = list ? m->n_list[places[i] - batches] : m->s->sizes[places[i]];
        memcpy(m->order + at, from, m->sizes[i] * sizeof *from);
    }
    memcpy(m->s->order, m->order, m->c->p->n * sizeof *m->order);
    memcpy(m->s->sizes, m->sizes, n * sizeof *m->sizes);
    m->s->n_batches = n;
    renew(m);
}

/* Keeps an order of batches and lists if it helps. */
static bool try_places(moves *m, const uint32_t *places, uint32_t n, const ft_plan_lane lists[2])
{
    for (uint32_t i = 0; i < n; i++)
        m->lanes[i] = places[i] < m->s->n_batches ? m->c->lanes[places[i]]
                                                  : lists[places[i] - m->s->n_batches];
    const bool helps = ft_plan_cost_lanes(m->c, m->lanes, n) < m->s->inf_s * HELPS;
    if (helps)
        apply(m, places, n);
    return helps;
}

/* Keeps a change of two batches (see arrange) if it helps. */
static bool try_change(moves *m, uint32_t a, uint32_t b, uint32_t at)
{
    ft_plan_lane lists[2] = {{0}};
    for (uint32_t i = 0; i < 2; i++)
        if (m->n_list[i] > 0 && !make_lane(m, i, &lists[i]))
            return false;
    return try_places(m, m->places, arrange(m, a, b, at, m->places), lists);
}

/* ---- the order of batches ---- */

static bool try_reorder(moves *m)
{
    bool any = false;
    for (uint32_t from = 0; from < m->s->n_batches; from++)
        for (uint32_t to = 0; to < m->s->n_batches && goes_on(m); to++) {
            uint32_t n = 0;
            if (from == to)
                continue;
            for (uint32_t i = 0; i < m->s->n_batches; i++) {
                if (n == to)
                    m->places[n++] = from;
                if (i != from)
                    m->places[n++] = i;
            }
            if (n == to)
                m->places[n++] = from;
            any |= try_places(m, m->places, m->s->n_batches, NULL);
        }
    return any;
}

/* ---- whole batches ---- */

static void copy_list(moves *m, uint32_t which, const uint32_t *tasks, uint32_t n)
{
    memcpy(m->list[which], tasks, n * sizeof *tasks);
    m->n_list[which] = n;
}

static bool try_join(moves *m)
{
    bool any = false;
    for (uint32_t a = 0; a < m->s->n_batches; a++)
        for (uint32_t b = 0; a < m->s->n_batches && b < m->s->n_batches && goes_on(m); b++) {
            if (a == b)
                continue;
            copy_list(m, 0, tasks_of(m, a), m->s->sizes[a]);
            memcpy(m->list[0] + m->n_list[0], tasks_of(m, b), m->s->sizes[b] * sizeof(uint32_t));
            m->n_list[0] += m->s->sizes[b];
            m->n_list[1] = 0;
            any |= try_change(m, a, b, NONE);
        }
    return any;
}

static bool by_input(const void *ctx, const void *a, const void *b)
{
    const ft_plan_task *tasks = ctx;
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    return tasks[i].in_tok != tasks[k].in_tok ? tasks[i].in_tok < tasks[k].in_tok : i < k;
}

/* Divides batch a behind its first `at` tasks by output, or by input; both orders of the parts. */
static bool try_divide(moves *m, uint32_t a, uint32_t at, bool input)
{
    const uint32_t n = m->s->sizes[a];
    bool done = false;
    for (uint32_t behind = 0; behind < 2 && !done; behind++) {
        memcpy(m->order, tasks_of(m, a), n * sizeof *m->order);
        if (input)
            ft_sort(m->order, n, sizeof *m->order, by_input, m->c->p->tasks);
        copy_list(m, 0, m->order, at);
        copy_list(m, 1, m->order + at, n - at);
        done = try_change(m, a, NONE, a + behind);
    }
    return done;
}

/* Large batches are divided at some places only. */
static bool try_divisions(moves *m)
{
    bool any = false;
    for (uint32_t a = 0; a < m->s->n_batches; a++)
        for (uint32_t at = 1; at < m->s->sizes[a] && goes_on(m); at += 1 + m->s->sizes[a] / 16) {
            bool done = try_divide(m, a, at, true);
            if (!done)
                done = try_divide(m, a, at, false);
            any |= done;
        }
    return any;
}

/* ---- single tasks ---- */

/* list[which] = a batch without its task `at`, and with another task (NONE: without). */
static void exchange_list(moves *m, uint32_t which, uint32_t batch, uint32_t at, uint32_t with)
{
    const uint32_t *tasks = tasks_of(m, batch);
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->s->sizes[batch]; i++)
        if (i != at)
            m->list[which][n++] = tasks[i];
    if (with != NONE)
        m->list[which][n++] = with;
    m->n_list[which] = n;
}

/* Tasks of a batch that are alike are tried once. */
static bool same_as_last(const moves *m, uint32_t batch, uint32_t i)
{
    const uint32_t *tasks = tasks_of(m, batch);
    const ft_plan_task *t = m->c->p->tasks;
    return i > 0 && t[tasks[i]].in_tok == t[tasks[i - 1]].in_tok &&
           t[tasks[i]].out_tok == t[tasks[i - 1]].out_tok;
}

static bool try_task(moves *m, uint32_t a, uint32_t i)
{
    for (uint32_t b = 0; b < m->s->n_batches && goes_on(m); b++) {
        if (a == b)
            continue;
        exchange_list(m, 0, a, i, NONE);
        exchange_list(m, 1, b, NONE, tasks_of(m, a)[i]);
        if (try_change(m, a, b, NONE))
            return true;
    }
    for (uint32_t at = a; at <= a + 1 && m->s->sizes[a] > 1; at++) {
        exchange_list(m, 0, a, i, NONE);
        m->list[1][0] = tasks_of(m, a)[i];
        m->n_list[1] = 1;
        if (try_change(m, a, NONE, at))
            return true;
    }
    return false;
}

static bool try_tasks(moves *m)
{
    bool any = false;
    for (uint32_t a = 0; a < m->s->n_batches; a++)
        for (uint32_t i = 0; a < m->s->n_batches && i < m->s->sizes[a] && goes_on(m); i++)
            if (!same_as_last(m, a, i))
                any |= try_task(m, a, i);
    return any;
}

static bool try_swaps(moves *m)
{
    bool any = false;
    for (uint32_t a = 0; a < m->s->n_batches; a++)
        for (uint32_t b = a + 1; b < m->s->n_batches; b++)
            for (uint32_t i = 0; i < m->s->sizes[a]; i++)
                for (uint32_t k = 0; k < m->s->sizes[b] && goes_on(m); k++) {
                    if (same_as_last(m, a, i) || same_as_last(m, b, k))
                        continue;
                    exchange_list(m, 0, a, i, tasks_of(m, b)[k]);
                    exchange_list(m, 1, b, k, tasks_of(m, a)[i]);
                    any |= try_change(m, a, b, NONE);
                }
    return any;
}

static bool allocate(moves *m, uint32_t n)
{
    m->first = calloc(n + 1, sizeof *m->first);
    m->lanes = calloc(n + 1, sizeof *m->lanes);
    m->order = calloc(n, sizeof *m->order);
    m->sizes = calloc(n + 1, sizeof *m->sizes);
    m->places = calloc(n + 1, sizeof *m->places);
    bool good = m->first && m->lanes && m->order && m->sizes && m->places;
    for (int i = 0; i < 2; i++) {
        m->list[i] = calloc(n + 1, sizeof *m->list[i]);
        m->piece[i] = calloc(n + 1, sizeof *m->piece[i]);
        good = good && m->list[i] && m->piece[i];
    }
    return good;
}

static void deinit(moves *m)
{
    for (int i = 0; i < 2; i++) {
        free(m->list[i]);
        free(m->piece[i]);
    }
    free(m->first);
    free(m->lanes);
    free(m->order);
    free(m->sizes);
    free(m->places);
}

ft_status ft_plan_moves(ft_plan_cost *c, uint64_t steps, const ft_plan_watch *watch, ft_error *err,
                        ft_plan_split *s)
{
    moves m = {.c = c, .s = s, .steps = steps, .watch = watch, .err = err};
    bool helped = true;
    if (!allocate(&m, c->p->n))
        m.status = ft_error_set(err, FT_NOMEM, "plan: out of memory");
    if (m.status == FT_OK)
        renew(&m);
    while (helped && m.status == FT_OK && c->steps < steps) {
        helped = try_reorder(&m);
        helped |= try_join(&m);
        helped |= try_divisions(&m);
        helped |= try_tasks(&m);
        if (!helped) /* the most tries, so last */
            helped = try_swaps(&m);
    }
    if (m.status == FT_OK && c->no_memory)
        m.status = ft_error_set(err, FT_NOMEM, "plan: out of memory");
    deinit(&m);
    return m.status;
}
