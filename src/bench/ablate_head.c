// SPDX-License-Identifier: Apache-2.0
// Which rows get logits, and when (sched/heads.h): passes of modelled trees and walks. The rows of
// a pass are chosen, run and learnt as serve/judge.c does it. Pure.
//
// A pass takes the time of its rows and of its runs of the head. A tree's nodes have chances, and a
// walk goes to a node as often as its chance says. A tree takes the likeliest nodes first. Trees,
// walks and the machine's luck depend on the seed and the number of the pass alone.
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"
#include "base/secret.h"
#include "bench/ablate_internal.h"
#include "bench/ablate_parts.h"
#include "sched/heads.h"

#define NOISE    0.05  /* of runs: sigma of the logarithm */
#define NODES    64    /* of a tree at most */
#define BRANCHES 3     /* children of a node at most */
#define SESSIONS 32    /* in a pass at most */
#define HELD     500.0 /* a run that is held up takes up to so many times as long, at least twice */
#define COLD     30.0
/* Rows are bound by the cores, the reading of weights by memory: so much slower are they beside
 * another program. */
#define SLOW_ROW 4.0
#define SLOW_RUN 1.2

typedef struct walk {
    int32_t parent[NODES];
    float chance[NODES]; /* of a walk at its parent that it goes there */
    uint32_t n;
    uint32_t path[NODES], n_path; /* where the walk goes */
    uint32_t at;                  /* nodes of the path that it has gone */
    float reach[NODES + 1];
} walk;

/* What the machine takes: a run of the head, each of its rows, and the rest of a pass. */
typedef struct machine {
    double run_us, row_us, pass_us, pass_row_us;
} machine;

typedef struct world {
    const ft_ablate_head_load *load;
    machine usual, machine; /* as it is alone, and in this pass */
    ft_heads heads;
    ft_rng rng; /* of this pass */
    walk walks[SESSIONS];
    uint32_t n_walks;
    bool warm; /* the head ran before */
} world;

/* The head is a part of the model's weights. The rest of a pass takes as much for each weight. */
static machine draw_machine(const ft_ablate_head_load *l, ft_rng *rng)
{
    const double share = ft_ablate_between(rng, 0.05, 0.4), rest = (1 - share) / share;
    machine m = {.run_us = ft_ablate_between(rng, 300, 6000)};
    m.row_us = m.run_us * l->row * ft_ablate_between(rng, 0.7, 1.4);
    m.pass_us = m.run_us * rest;
    m.pass_row_us = m.row_us * rest;
    return m;
}

/* ---- trees and walks ---- */

/* A node that a tree may get. */
typedef struct leaf {
    int32_t parent;
    float chance;
    double reach;
} leaf;

typedef struct leaves {
    leaf of[BRANCHES * (NODES + 1)];
    uint32_t n, width; /* width: children of a node */
    double right;
} leaves;

/* The children that a node may get. The better the drafts are, the surer is the first one. */
static void add_leaves(leaves *all, int32_t parent, double reach, ft_rng *rng)
{
    double left = 1, chance = pow(ft_rng_unit(rng), (1 - all->right) / all->right);
    for (uint32_t i = 0; i < all->width; i++) {
        all->of[all->n++] = (leaf){parent, (float)chance, reach * chance};
        left -= chance;
        chance = fmin(left / 2, chance);
    }
}

static void draw_tree(walk *w, uint32_t nodes, uint32_t width, double right, ft_rng *rng)
{
    leaves all = {.width = width, .right = right};
    add_leaves(&all, -1, 1, rng);
    for (w->n = 0; w->n < nodes; w->n++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < all.n; i++)
            if (all.of[i].reach > all.of[best].reach)
                best = i;
        const leaf l = all.of[best];
        w->parent[w->n] = l.parent;
        w->chance[w->n] = l.chance;
        memmove(all.of + best, all.of + best + 1, (--all.n - best) * sizeof *all.of);
        add_leaves(&all, (int32_t)w->n, l.reach, rng);
    }
}

static void draw_path(walk *w, ft_rng *rng)
{
    double luck = ft_rng_unit(rng);
    int32_t at = -1;
    w->n_path = w->at = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->parent[i] != at)
            continue;
        luck -= (double)w->chance[i];
        if (luck < 0) {
            w->path[w->n_path++] = i;
            at = (int32_t)i;
            luck = ft_rng_unit(rng);
        }
    }
}

/* Whether the pass is one of every second `every` passes. */
static bool in_turn(uint32_t number, uint32_t every)
{
    return every && number / every % 2;
}

static void draw_pass(world *w, uint64_t seed, uint32_t number)
{
    const ft_ablate_head_load *l = w->load;
    const uint64_t place[2] = {seed, number};
    const bool poor = in_turn(number, l->kinds_every);
    ft_rng_init(&w->rng, ft_fnv64(FT_FNV64_INIT, place, sizeof place));
    w->machine = w->usual;
    if (in_turn(number, l->slow_every)) {
        w->machine.run_us *= SLOW_RUN;
        w->machine.pass_us *= SLOW_RUN;
        w->machine.row_us *= SLOW_ROW;
        w->machine.pass_row_us *= SLOW_ROW;
    }
    w->n_walks = 1 + ft_rng_below(&w->rng, l->sessions);
    for (uint32_t i = 0; i < w->n_walks; i++) {
        const uint32_t nodes = l->nodes / 2 + ft_rng_below(&w->rng, l->nodes / 2 + 1);
        draw_tree(&w->walks[i], nodes, l->width, poor ? l->right / 2 : l->right, &w->rng);
        draw_path(&w->walks[i], &w->rng);
    }
}

/* ---- a pass ---- */

static int32_t node_at(const walk *w)
{
    return w->at ? (int32_t)w->path[w->at - 1] : -1;
}

static bool is_over(const walk *w)
{
    return w->at > w->n_path;
}

static uint32_t choose_rows(world *w, float *least)
{
    ft_heads_plan plan = {0};
    uint32_t rows = 0;
    for (uint32_t i = 0; i < w->n_walks; i++) {
        walk *k = &w->walks[i];
        if (!is_over(k))
            ft_heads_add(&plan, &w->heads, k->parent, k->n, node_at(k), k->reach);
    }
    *least = ft_heads_least(&plan, &w->heads);
    for (uint32_t i = 0; i < w->n_walks; i++)
        for (uint32_t r = 0; !is_over(&w->walks[i]) && r <= w->walks[i].n; r++)
            rows += w->walks[i].reach[r] >= *least;
    return rows;
}

/* Goes on as far as there are logits. Returns whether the walk is not over. */
static bool walk_on(walk *w, float least)
{
    while (!is_over(w) && w->reach[node_at(w) + 1] >= least)
        w->at++;
    return !is_over(w);
}

/* One run of the head. Returns its time if nothing holds it up. */
static double run_head(world *w, uint32_t rows)
{
    const machine *m = &w->machine;
    const double us = (m->run_us + m->row_us * rows) * ft_ablate_noisy(&w->rng, NOISE);
    const double held = ft_ablate_between(&w->rng, 2, HELD);
    double measured_us = us;
    if (ft_rng_unit(&w->rng) < w->load->stalls)
        measured_us *= held;
    if (w->load->cold && !w->warm)
        measured_us *= COLD;
    w->warm = true;
    ft_heads_observe(&w->heads, rows, (int64_t)measured_us);
    return us;
}

/* One pass: the head runs until all walks are over. Returns its time. */
static double pass(world *w)
{
    const machine *m = &w->machine;
    double us = m->pass_us;
    for (uint32_t n_going = w->n_walks; n_going > 0;) {
        float least;
        us += run_head(w, choose_rows(w, &least));
        n_going = 0;
        for (uint32_t i = 0; i < w->n_walks; i++)
            n_going += !is_over(&w->walks[i]) && walk_on(&w->walks[i], least);
    }
    for (uint32_t i = 0; i < w->n_walks; i++) {
        const walk *k = &w->walks[i];
        us += m->pass_row_us * (1 + k->n);
        ft_heads_learn(&w->heads, k->parent, k->n, k->path, k->n_path);
    }
    return us;
}

ft_status ft_ablate_head(const void *how, uint64_t seed, ft_error *err, double *figure)
{
    const ft_ablate_head_load *l = how;
    world w = {.load = l};
    double tokens = 0, us = 0;
    (void)err;
    ft_rng_init(&w.rng, seed);
    w.usual = draw_machine(l, &w.rng);
    ft_heads_init(&w.heads);
    for (uint32_t i = 0; i < l->first + l->passes; i++) {
        draw_pass(&w, seed, i);
        const double took_us = pass(&w);
        for (uint32_t k = 0; i >= l->first && k < w.n_walks; k++)
            tokens += 1 + w.walks[k].n_path;
        us += i >= l->first ? took_us : 0;
    }
    *figure = tokens / us * 1e6;
    return FT_OK;
}
