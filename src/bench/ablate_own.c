// SPDX-License-Identifier: Apache-2.0
// A server with its own draft model (sched/own_draft.h) on a virtual clock. Its sessions are in
// runs and write one text after another. The functions of sched/own_draft.h are called as
// serve/own_draft.c and serve/pass.c call them.
//
// Invariant: two lives with the same seed meet the same texts. At each place of a text it is fixed
// which token is right and how sure the draft model is. Both follow from the seed, the session, the
// text, the place and the time alone. One thread.
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/secret.h"
#include "base/sort.h"
#include "bench/ablate_internal.h"
#include "bench/ablate_parts.h"
#include "sched/own_draft.h"
#include "sched/prompt_share.h"

#define SESSIONS_MAX 16
#define EDGES_MAX    16
/* Of a drafter, as `serve` asks for by default. */
#define BUDGET 32
#define DEPTH  7
#define WIDTH  8
#define BRANCH 4
/* Of prompts. */
#define CHUNK_TOK 512   /* read by a model before or in a pass at most */
#define SHARE_US  50000 /* they may delay a round by so much */
/* Of a round of an edge. */
#define EDGE_ROWS 9
#define EDGE_TOK  3
/* Of times. */
#define NOISE 0.05 /* sigma of the logarithm */
#define SPIKE 4    /* some passes take so many times as long */
#define COLD  5    /* so do a server's first drafts... */
#define COLDS 2    /* ...of this number */

/* Kinds of luck. */
enum { CHANCE, RANK, KIND, PROMPT, LENGTH, WORKING };

/* A drafted node. */
typedef struct node {
    ft_own_node own;
    bool right;    /* the text goes through it */
    bool computed; /* its children were drafted */
    uint32_t way;  /* the ranks of the nodes from the root to it, as digits */
} node;

typedef struct session {
    uint32_t number, text;
    uint32_t len, end;             /* tokens of the text and its prompt: now, and when it ends */
    uint32_t unread, draft_unread; /* tokens that the target and the draft model must still read */
    bool drafts;                   /* a tree is drafted for the next pass */
    uint32_t n;
    node tree[BUDGET]; /* the likeliest first */
} session;

typedef struct world {
    const ft_ablate_own_load *load;
    uint64_t seed;
    ft_rng noise;
    double now_us, tokens;
    ft_cost cost;
    ft_own_draft own;
    ft_mean read_us;
    uint32_t n_drafts;
    session session[SESSIONS_MAX];
    double edge_us[EDGES_MAX]; /* its next draft comes */
    ft_own_node nodes[SESSIONS_MAX * BUDGET];
} world;

/* What the next pass computes. */
typedef struct batch {
    uint32_t n; /* sessions at work: the first ones */
    session *run[SESSIONS_MAX];
    uint32_t n_runs, n_edges;
    bool edge[EDGES_MAX];
    ft_pass plain; /* without own trees and prompts */
    double others; /* tokens of edges */
} batch;

/* ---- chance ---- */

/* [0, 1). */
static double luck(const world *w, uint32_t who, uint32_t text, uint32_t place, uint64_t what)
{
    const uint64_t key[4] = {w->seed, who, (uint64_t)text << 32 | place, what};
    return (double)(ft_fnv64(FT_FNV64_INIT, key, sizeof key) >> 11 & 0xfffffff) / 0x10000000;
}

static bool second_half(const world *w, double period_us)
{
    return period_us > 0 && (uint64_t)(w->now_us / period_us) % 2;
}

static double with_noise(world *w, double us, bool slow)
{
    return us * ft_ablate_noisy(&w->noise, NOISE) * (slow ? w->load->slow : 1);
}

/* The chance that the draft model's first child is right. */
static double chance_at(const world *w, const session *s, uint32_t place, uint32_t way)
{
    const ft_ablate_own_load *l = w->load;
    const bool other =
        l->other_us > 0 ? second_half(w, l->other_us) : luck(w, s->number, s->text, 0, KIND) < 0.5;
    const double mean = other && l->other > 0 ? l->other : l->right;
    const double u = luck(w, s->number, s->text, place, CHANCE + ((uint64_t)way << 8));
    return fmin(pow(u, (1 - mean) / mean), 0.99);
}

/* ---- texts ---- */

static uint32_t about(double mean, double unit)
{
    return (uint32_t)(mean * (0.5 + unit)) + 1;
}

static void begin_text(world *w, session *s)
{
    s->text++;
    s->len = about(w->load->prompt_tok, luck(w, s->number, s->text, 0, PROMPT));
    s->end = s->len + about(w->load->text_tok, luck(w, s->number, s->text, 0, LENGTH));
    s->unread = s->draft_unread = s->len;
}

/* The text gains n tokens. */
static void gain(world *w, session *s, uint32_t n)
{
    n = ft_min_u32(n, s->end - s->len);
    s->len += n;
    w->tokens += n;
    if (s->len == s->end)
        begin_text(w, s);
}

/* ---- drafting ---- */

static void add_node(session *s, uint32_t budget, const node *new)
{
    uint32_t at = s->n;
    if (s->n < budget)
        s->n++;
    else if (s->tree[--at].own.p >= new->own.p)
        return;
    for (; at > 0 && s->tree[at - 1].own.p < new->own.p; at--)
        s->tree[at] = s->tree[at - 1];
    s->tree[at] = *new;
}

/* The child of rank k has the chance c (1 - c)^k. An over-confident model says a higher c. */
static void add_children(const world *w, session *s, uint32_t budget, const node *parent)
{
    const uint32_t place = s->len + parent->own.level + 1;
    const double chance = chance_at(w, s, place, parent->right ? 0 : parent->way);
    const double said = 1 - pow(1 - chance, w->load->bold > 0 ? w->load->bold : 1);
    const double u = luck(w, s->number, s->text, place, RANK);
    double p = (double)parent->own.p * said, from = 1;
    for (uint32_t k = 0; k < BRANCH; k++) {
        const node child = {.own = {(float)p, (uint16_t)(parent->own.level + 1)},
                            .right = parent->right && u < from && u >= from * (1 - chance),
                            .way = parent->way * (BRANCH + 1) + k + 1};
        add_node(s, budget, &child);
        p *= 1 - said;
        from *= 1 - chance;
    }
}

/* A forward of the draft model for one session. Returns its rows. */
static uint32_t grow(const world *w, session *s, uint32_t budget)
{
    node chosen[WIDTH];
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n && n < WIDTH; i++)
        if (!s->tree[i].computed) {
            s->tree[i].computed = true;
            chosen[n++] = s->tree[i];
        }
    for (uint32_t i = 0; i < n; i++)
        add_children(w, s, budget, &chosen[i]);
    return n;
}

/* Returns how long it took. */
static double draft_trees(world *w, const batch *b, uint32_t budget, uint32_t depth)
{
    static const node root = {.own = {.p = 1, .level = UINT16_MAX}, .right = true};
    const bool slow = second_half(w, w->load->slow_us);
    double us = 0;
    for (uint32_t level = 0; level < depth; level++) {
        uint32_t rows = 0;
        for (uint32_t i = 0; i < b->n_runs; i++) {
            session *s = b->run[i];
            if (!s->drafts || level >= s->end - s->len - 1)
                continue;
            rows += level > 0 ? grow(w, s, budget) : s->draft_unread;
            if (level == 0)
                add_children(w, s, budget, &root);
        }
        if (rows > 0)
            us += with_noise(w, w->load->forward_us + w->load->forward_row_us * rows, slow);
    }
    return us * (w->n_drafts++ < COLDS && w->load->cold ? COLD : 1);
}

static bool likelier(const void *ctx, const void *a, const void *b)
{
    (void)ctx;
    return ((const ft_own_node *)a)->p > ((const ft_own_node *)b)->p;
}

/* Cuts the trees to the nodes that are worth their rows. */
static void keep_nodes(world *w, const batch *b, uint32_t n_trees, double us)
{
    const ft_own_pass pass = {.sessions = n_trees,
                              .others = b->others,
                              .without = b->plain,
                              .n_past = b->run[0]->len,
                              .out = 1,
                              .draft_us = (int64_t)us,
                              .depth_most = DEPTH,
                              .cost = &w->cost};
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n_runs; i++)
        for (uint32_t k = 0; k < b->run[i]->n; k++)
            w->nodes[n++] = b->run[i]->tree[k].own;
    ft_sort(w->nodes, n, sizeof *w->nodes, likelier, NULL);
    const uint32_t keep = ft_own_draft_keep(&w->own, w->nodes, n, &pass);
    const float least = keep == n ? 0 : keep > 0 ? w->nodes[keep - 1].p : INFINITY;
    for (uint32_t i = 0; i < b->n_runs; i++) {
        session *s = b->run[i];
        while (s->n > 0 && s->tree[s->n - 1].own.p < least)
            s->n--;
        if (s->drafts && s->n == 0)
            ft_own_draft_saw_verdict(&w->own, 1);
    }
}

/* ---- a pass ---- */

static uint32_t working(const world *w)
{
    const ft_ablate_own_load *l = w->load;
    if (l->sessions_us == 0)
        return l->sessions;
    const uint32_t when = (uint32_t)(w->now_us / l->sessions_us);
    return 1 + (uint32_t)(luck(w, 0, 0, when, WORKING) * l->sessions);
}

static void gather(world *w, batch *b)
{
    *b = (batch){.n = working(w)};
    for (uint32_t i = 0; i < b->n; i++) {
        session *s = &w->session[i];
        s->n = 0;
        s->drafts = false;
        if (s->unread > 0)
            continue;
        b->run[b->n_runs++] = s;
        b->plain = ft_pass_plus(b->plain, s->len - 1, 1, 1);
    }
    for (uint32_t i = 0; i < w->load->edges; i++)
        if (w->edge_us[i] <= w->now_us) {
            b->edge[i] = true;
            b->n_edges++;
            b->plain = ft_pass_plus(b->plain, (uint32_t)w->load->prompt_tok, EDGE_ROWS, EDGE_ROWS);
        }
    b->others = b->n_edges * EDGE_TOK;
}

static bool pays(world *w, const batch *b)
{
    const uint32_t nodes = ft_own_draft_nodes(&w->own, BUDGET);
    ft_own_load load = {.sessions = b->n_runs, .others = b->others};
    ft_pass tree = b->plain;
    if (b->n_runs == 0)
        return false;
    for (uint32_t i = 0; i < b->n_runs; i++)
        tree = ft_pass_plus(tree, b->run[i]->len, nodes, nodes);
    load.plain_us = ft_cost_predict(&w->cost, &b->plain);
    load.tree_us = ft_cost_predict(&w->cost, &tree);
    return ft_own_draft_choose(&w->own, &load);
}

static int64_t share_us(const batch *b, int64_t read_us)
{
    return ft_prompt_share_us(&(ft_prompt_share){
        .budget_us = SHARE_US, .read_us = read_us, .others = b->n_runs + b->n_edges > 0});
}

/* The draft model reads texts, those of sessions whose prompt the target is still reading among
 * them. Returns how many sessions can get a tree; *us: how long it took. */
static uint32_t read_texts(world *w, const batch *b, double *us)
{
    uint32_t allowed = ft_own_read_tok(&w->read_us, share_us(b, 0), CHUNK_TOK), n = 0;
    const bool slow = second_half(w, w->load->slow_us);
    for (uint32_t i = 0; i < b->n; i++) {
        session *s = &w->session[i];
        if (s->draft_unread > FT_OWN_READ_MIN && allowed > 0) {
            const uint32_t part = ft_min_u32(allowed, s->draft_unread);
            const double took_us =
                with_noise(w, w->load->forward_us + w->load->forward_row_us * part, slow);
            ft_own_read_saw(&w->read_us, part, (int64_t)took_us);
            allowed -= part;
            s->draft_unread -= part;
            *us += took_us;
        }
        s->drafts = s->unread == 0 && s->draft_unread <= FT_OWN_READ_MIN && s->end - s->len > 1;
        if (s->drafts && s->draft_unread == 0)
            s->draft_unread = 1; /* the text's last token */
        n += s->drafts;
    }
    return n;
}

/* What the server does before a pass. Returns how long reading took. */
static double before_pass(world *w, const batch *b)
{
    double read_us = 0;
    if (w->load->plain || !pays(w, b))
        return 0;
    const uint32_t n_trees = read_texts(w, b, &read_us);
    w->now_us += read_us;
    if (n_trees == 0)
        return read_us;
    uint32_t budget = BUDGET, depth = DEPTH;
    ft_own_draft_size(&w->own, &budget, &depth);
    const double us = draft_trees(w, b, budget, depth);
    w->now_us += us;
    ft_own_draft_saw_draft(&w->own, b->n_runs, (int64_t)us);
    keep_nodes(w, b, n_trees, us);
    return read_us;
}

/* Adds prompts to the pass. */
static void read_prompts(world *w, const batch *b, double read_us, ft_pass *pass)
{
    int64_t left_us = share_us(b, (int64_t)read_us);
    uint32_t left = CHUNK_TOK;
    for (uint32_t i = 0; i < b->n && left > 0; i++) {
        session *s = &w->session[i];
        const uint32_t past = s->len - s->unread, most = ft_min_u32(left, s->unread);
        if (s->unread == 0)
            continue;
        uint32_t n = left_us > 0 ? ft_cost_rows(&w->cost, pass, past, most, left_us) : most;
        if (n == 0 && pass->rows == 0)
            n = 1;
        const ft_pass part = ft_pass_plus((ft_pass){0}, past, n, 0);
        *pass = ft_pass_sum(*pass, part);
        s->unread -= n;
        left -= n;
        if (left_us > 0 && (left_us -= (int64_t)ft_cost_added_us(&w->cost, &part)) <= 0)
            break;
    }
}

static double take_us(world *w, const ft_pass *pass)
{
    const ft_ablate_own_load *l = w->load;
    double n[FT_COST_FACTORS], us = 0;
    ft_pass_factors(pass, n);
    for (int i = 0; i < FT_COST_FACTORS; i++)
        us += n[i] * l->cost_us[i];
    if (l->kink > 0 && pass->rows > l->kink_rows)
        us *= l->kink;
    if (ft_rng_unit(&w->noise) < l->spikes)
        us *= SPIKE;
    return with_noise(w, us, second_half(w, l->slow_us) && !l->slow_draft);
}

static void give_verdicts(world *w, const batch *b)
{
    for (uint32_t i = 0; i < b->n_runs; i++) {
        session *s = b->run[i];
        uint32_t right = 0;
        for (uint32_t k = 0; k < s->n; k++)
            right += s->tree[k].right;
        if (s->n > 0)
            ft_own_draft_saw_verdict(&w->own, 1 + right);
        s->draft_unread = s->drafts ? 1 : s->draft_unread + 1;
        gain(w, s, 1 + right);
    }
    for (uint32_t i = 0; i < w->load->edges; i++)
        if (b->edge[i])
            w->edge_us[i] = w->now_us + with_noise(w, w->load->think_us, false);
    w->tokens += b->others;
}

static void step(world *w)
{
    batch b;
    gather(w, &b);
    const double read_us = before_pass(w, &b);
    ft_pass pass = b.plain;
    for (uint32_t i = 0; i < b.n_runs; i++)
        pass = ft_pass_plus(pass, b.run[i]->len, b.run[i]->n, b.run[i]->n);
    read_prompts(w, &b, read_us, &pass);
    const int64_t expected_us = ft_cost_predict(&w->cost, &pass);
    const int64_t us = (int64_t)take_us(w, &pass);
    w->now_us += (double)us;
    if (b.n_runs > 0)
        ft_own_draft_saw_pass(&w->own, pass.rows > b.plain.rows, expected_us, us);
    ft_cost_observe(&w->cost, &pass, us);
    give_verdicts(w, &b);
}

/* The passes with which a server warms up (engine/warm.c). */
static void warm_up(world *w)
{
    ft_cost_init(&w->cost);
    for (uint32_t rows = 1; rows <= 64; rows *= 4) {
        const ft_pass pass = ft_pass_plus((ft_pass){0}, 0, rows, rows);
        ft_cost_observe(&w->cost, &pass, (int64_t)take_us(w, &pass));
    }
}

ft_status ft_ablate_own(const void *how, uint64_t seed, ft_error *err, double *figure)
{
    const ft_ablate_own_load *l = how;
    world *w = calloc(1, sizeof *w);
    if (!w)
        return ft_error_set(err, FT_NOMEM, "bench ablate: out of memory");
    assert(l->sessions > 0 && l->sessions <= SESSIONS_MAX && l->edges <= EDGES_MAX);
    w->load = l;
    w->seed = seed;
    ft_rng_init(&w->noise, seed);
    warm_up(w);
    for (uint32_t i = 0; i < SESSIONS_MAX; i++) {
        w->session[i].number = i;
        begin_text(w, &w->session[i]);
    }
    while (w->now_us < l->s * 1e6)
        step(w);
    *figure = w->tokens / w->now_us * 1e6;
    free(w);
    return FT_OK;
}
