// SPDX-License-Identifier: Apache-2.0
// Groups of a trace file's nodes and texts. State of a call only: a node takes 8 bytes while it is
// read.
#include "learn/trace_by.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"

#define Z_95 1.96 /* of the normal distribution */

/* ---- correlation ---- */

/* Pearson's, one pair after another (Welford). */
typedef struct pairs {
    double n, mean_x, mean_y, xx, yy, xy;
} pairs;

static void saw(pairs *p, double x, double y)
{
    const double dx = x - p->mean_x, dy = y - p->mean_y;
    p->n++;
    p->mean_x += dx / p->n;
    p->mean_y += dy / p->n;
    p->xx += dx * (x - p->mean_x);
    p->yy += dy * (y - p->mean_y);
    p->xy += dx * (y - p->mean_y);
}

static double pearson(const pairs *p)
{
    return p->xx > 0 && p->yy > 0 ? p->xy / sqrt(p->xx * p->yy) : NAN;
}

/* ---- nodes by feature ---- */

typedef struct node {
    float value;
    bool accepted;
} node;

typedef struct nodes {
    ft_feature by;
    node *at; /* [n] */
    size_t n, cap;
    bool no_memory;
    pairs pairs[FT_FEATURES];
} nodes;

static bool take_node(void *ctx, const ft_trace_sample *s)
{
    nodes *all = ctx;
    if (all->n == all->cap) {
        const size_t cap = all->cap ? 2 * all->cap : 4096;
        node *at = realloc(all->at, cap * sizeof *at);
        if (!at) {
            all->no_memory = true;
            return false;
        }
        all->at = at;
        all->cap = cap;
    }
    const bool depth = all->by == FT_FEATURE_POSITION;
    all->at[all->n++] = (node){depth ? (float)s->depth : s->feature[all->by], s->accepted};
    for (int f = 0; f < FT_FEATURES; f++)
        saw(&all->pairs[f], (double)s->feature[f], s->accepted);
    return true;
}

static bool lower(const void *ctx, const void *a, const void *b)
{
    (void)ctx;
    return ((const node *)a)->value < ((const node *)b)->value;
}

/* Wilson's interval: it stays within 0 and 1, also of few nodes. */
static void set_interval(ft_trace_bin *bin)
{
    const double n = (double)bin->nodes, p = (double)bin->accepted / n, z2 = Z_95 * Z_95;
    const double middle = (p + z2 / (2 * n)) / (1 + z2 / n);
    const double half = Z_95 / (1 + z2 / n) * sqrt(p * (1 - p) / n + z2 / (4 * n * n));
    bin->low = fmax(fmin(middle - half, p), 0); /* not beside p by rounding */
    bin->high = fmin(fmax(middle + half, p), 1);
}

/* The end of the bin that begins at node i of sorted ones. */
static size_t end_of(const nodes *all, size_t i)
{
    size_t end = i + 1;
    if (all->by != FT_FEATURE_POSITION) {
        const size_t bin =
            i * FT_TRACE_BINS / all->n; /* i is in this tenth: the bin ends with it */
        end = ((bin + 1) * all->n + FT_TRACE_BINS - 1) / FT_TRACE_BINS;
        end = end > i ? end : i + 1;
    }
    while (end < all->n && all->at[end].value <= all->at[end - 1].value)
        end++;
    return end;
}

static void fill_bins(const nodes *all, ft_trace_by *out)
{
    size_t end;
    for (size_t i = 0; i < all->n; i = end) {
        double sum = 0;
        end = end_of(all, i);
        ft_trace_bin *bin = &out->bin[out->n++];
        *bin = (ft_trace_bin){.from = (double)all->at[i].value,
                              .to = (double)all->at[end - 1].value,
                              .nodes = end - i};
        for (size_t k = i; k < end; k++) {
            bin->accepted += all->at[k].accepted;
            sum += (double)all->at[k].value;
        }
        bin->mean = sum / (double)bin->nodes;
        set_interval(bin);
        out->nodes += bin->nodes;
        out->accepted += bin->accepted;
    }
}

ft_status ft_trace_by_feature(const char *path, ft_feature by, ft_error *err, ft_trace_by *out)
{
    nodes all = {.by = by};
    *out = (ft_trace_by){0};
    ft_status status = ft_trace_each_node(path, take_node, &all, err);
    if (status == FT_OK && all.no_memory)
        status = ft_error_set(err, FT_NOMEM, "trace: out of memory for %zu nodes", all.n);
    if (status == FT_OK) {
        ft_sort(all.at, all.n, sizeof *all.at, lower, NULL);
        fill_bins(&all, out);
        for (int f = 0; f < FT_FEATURES; f++)
            out->pearson[f] = pearson(&all.pairs[f]);
    }
    free(all.at);
    return status;
}

/* ---- texts by waste ---- */

typedef struct texts {
    ft_trace_waste *out;
    int64_t session; /* of `text` */
    ft_trace_waste_bin text;
    ft_trace_waste_bin by[FT_TRACE_NODES + 1]; /* by wasted tokens */
    pairs pairs;
} texts;

static void add(ft_trace_waste_bin *sum, const ft_trace_waste_bin *more)
{
    sum->texts += more->texts;
    sum->rounds += more->rounds;
    sum->drafted += more->drafted;
    sum->tokens += more->tokens;
    sum->us += more->us;
    sum->waste.tokens += more->waste.tokens;
    sum->waste.useful_us += more->waste.useful_us;
    sum->waste.wasted_us += more->waste.wasted_us;
}

static double per(uint64_t a, uint64_t b)
{
    return b > 0 ? (double)a / (double)b : 0;
}

double ft_trace_waste_speed(const ft_trace_waste_bin *bin)
{
    return 1e6 * per(bin->tokens, bin->us);
}

/* The text's last round is over. */
static void end_text(texts *all)
{
    ft_trace_waste_bin *t = &all->text;
    if (t->rounds > 0 && t->us > 0) {
        const double wasted = per(t->waste.tokens, t->rounds);
        t->texts = 1;
        saw(&all->pairs, wasted, ft_trace_waste_speed(t));
        add(&all->by[lround(wasted)], t);
        add(&all->out->sum, t);
    }
    *t = (ft_trace_waste_bin){0};
}

static bool take_round(void *ctx, const ft_trace_drafted *r)
{
    texts *all = ctx;
    if (r->session != all->session)
        end_text(all);
    all->session = r->session;
    if (r->draft_us < 0 || r->rtt_us < 0 || r->queue_us < 0 || r->verify_us < 0) {
        all->out->unknown_rounds++;
        return true;
    }
    const ft_trace_waste_bin round = {
        .rounds = 1,
        .drafted = r->drafted,
        .tokens = r->tokens,
        .us = (uint64_t)(r->draft_us + r->rtt_us + r->queue_us + r->verify_us), /* WISP eq. (4) */
        .waste = ft_waste_of(r->drafted, r->accepted, (uint64_t)r->draft_us)};
    add(&all->text, &round);
    return true;
}

ft_status ft_trace_by_waste(const char *path, ft_error *err, ft_trace_waste *out)
{
    texts all = {.out = out};
    *out = (ft_trace_waste){0};
    const ft_status status = ft_trace_each_round(path, take_round, &all, err);
    end_text(&all);
    for (uint32_t w = 0; w <= FT_TRACE_NODES; w++)
        if (all.by[w].texts > 0) {
            out->bin[out->n] = all.by[w];
            out->bin[out->n++].wasted_tokens = w;
        }
    out->pearson = pearson(&all.pairs);
    return status;
}

double ft_trace_waste_expected(const ft_trace_waste *by, double wasted_tokens)
{
    const double drafted = per(by->sum.drafted, by->sum.rounds);
    const double round_us = per(by->sum.us, by->sum.rounds);
    return round_us > 0 ? 1e6 * (fmax(drafted - wasted_tokens, 0) + 1) / round_us : 0;
}
