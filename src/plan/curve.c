// SPDX-License-Identifier: Apache-2.0
// Completion times of both stages by round, as lines between bends. The caller owns the state.
#include "plan/curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BENDS_FIRST 8 /* room for so many at first */

static bool reserve(ft_plan_curve *c, uint32_t n)
{
    uint32_t cap = c->cap ? c->cap : BENDS_FIRST;
    while (cap < n)
        cap *= 2;
    if (cap == c->cap)
        return true;
    ft_plan_bend *grown = realloc(c->bends, cap * sizeof *grown);
    if (!grown)
        return false;
    c->bends = grown;
    c->cap = cap;
    return true;
}

bool ft_plan_curve_clear(ft_plan_curve *c, uint32_t rounds)
{
    if (!reserve(c, 1))
        return false;
    c->bends[0] = (ft_plan_bend){.from = 1};
    c->n = 1;
    c->rounds = rounds;
    return true;
}

void ft_plan_curve_deinit(ft_plan_curve *c)
{
    free(c->bends);
    *c = (ft_plan_curve){0};
}

/* Sum of line[0] + line[1] n over the rounds from ... to. */
static double line_sum(const double line[2], uint32_t from, uint32_t to)
{
    const double count = (double)to - from + 1;
    return count * (line[0] + line[1] * ((double)from + to) / 2);
}

static double line_at(const double line[2], uint32_t round)
{
    return line[0] + line[1] * round;
}

/* A stage's time from a round on, as a line; t NULL: the batch is complete. */
static void line_of(const ft_plan_time *t, uint32_t from, double line[2])
{
    line[0] = !t ? 0 : from == 1 ? t->first_s : t->second_s - 2 * t->more_s;
    line[1] = !t || from == 1 ? 0 : t->more_s;
}

/* A walk over the pieces of a curve and a batch. */
typedef struct walk {
    ft_plan_curve *out; /* NULL: only the sum */
    double sum;
    bool failed;
} walk;

static void put(walk *w, uint32_t from, uint32_t to, const double draft[2], const double all[2])
{
    w->sum += line_sum(all, from, to);
    if (!w->out || w->failed)
        return;
    ft_plan_curve *c = w->out;
    const ft_plan_bend bend = {from, {draft[0], draft[1]}, {all[0], all[1]}};
    const ft_plan_bend *last = c->n > 0 ? &c->bends[c->n - 1] : NULL;
    if (last && memcmp(last->draft, bend.draft, sizeof bend.draft) == 0 &&
        memcmp(last->all, bend.all, sizeof bend.all) == 0)
        return; /* the same lines go on */
    if (!reserve(c, c->n + 1))
        w->failed = true;
    else
        c->bends[c->n++] = bend;
}

/* max(draft, all) + verify in the rounds from ... to. Where the two lines cross is a bend. */
static void put_max(walk *w, uint32_t from, uint32_t to, const double draft[2], const double all[2],
                    const double verify[2])
{
    const double lines[2][2] = {{draft[0] + verify[0], draft[1] + verify[1]},
                                {all[0] + verify[0], all[1] + verify[1]}};
    const double first = line_at(draft, from) - line_at(all, from);
    const double last = line_at(draft, to) - line_at(all, to);
    if ((first > 0) == (last > 0) || first == 0 || last == 0) {
        put(w, from, to, draft, lines[!(first > 0 || last > 0)]);
        return;
    }
    /* The line that is larger at `from` is so up to `until`. */
    const double share = first / (first - last);
    uint32_t until = from + (uint32_t)(share * ((double)to - from));
    until = until < from ? from : until >= to ? to - 1 : until;
    put(w, from, until, draft, lines[!(first > 0)]);
    put(w, until + 1, to, draft, lines[!(last > 0)]);
}

static void walk_all(walk *w, const ft_plan_curve *before, const ft_plan_lane *batch)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < before->n; i++) {
        const ft_plan_bend *b = &before->bends[i];
        const uint32_t end = i + 1 < before->n ? before->bends[i + 1].from - 1 : before->rounds;
        for (uint32_t from = b->from, to; from <= end; from = to + 1) {
            double draft[2], verify[2];
            while (k < batch->n && batch->pieces[k].until < from)
                k++;
            const ft_plan_piece *piece = k < batch->n ? &batch->pieces[k] : NULL;
            to = from == 1 ? 1 : piece && piece->until < end ? piece->until : end;
            line_of(piece ? &piece->draft : NULL, from, draft);
            line_of(piece ? &piece->verify : NULL, from, verify);
            draft[0] += b->draft[0];
            draft[1] += b->draft[1];
            put_max(w, from, to, draft, b->all, verify);
        }
    }
}

bool ft_plan_curve_add(const ft_plan_curve *before, const ft_plan_lane *batch, ft_plan_curve *out)
{
    walk w = {.out = out};
    out->n = 0;
    out->rounds = before->rounds;
    walk_all(&w, before, batch);
    return !w.failed;
}

double ft_plan_curve_sum_with(const ft_plan_curve *before, const ft_plan_lane *batch)
{
    walk w = {0};
    walk_all(&w, before, batch);
    return w.sum;
}

double ft_plan_curve_sum(const ft_plan_curve *c)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->n; i++)
        sum += line_sum(c->bends[i].all, c->bends[i].from,
                        i + 1 < c->n ? c->bends[i + 1].from - 1 : c->rounds);
    return sum;
}

static bool below(const double a[2], const double b[2], uint32_t from, uint32_t to)
{
    return line_at(a, from) <= line_at(b, from) && line_at(a, to) <= line_at(b, to);
}

bool ft_plan_curve_dominates(const ft_plan_curve *c, const ft_plan_curve *other)
{
    uint32_t i = 0, k = 0, from = 1;
    while (from <= c->rounds) {
        const uint32_t c_end = i + 1 < c->n ? c->bends[i + 1].from - 1 : c->rounds;
        const uint32_t o_end = k + 1 < other->n ? other->bends[k + 1].from - 1 : other->rounds;
        const uint32_t to = c_end < o_end ? c_end : o_end;
        if (!below(c->bends[i].draft, other->bends[k].draft, from, to) ||
            !below(c->bends[i].all, other->bends[k].all, from, to))
            return false;
        i += to == c_end;
        k += to == o_end;
        from = to + 1;
    }
    return true;
}
