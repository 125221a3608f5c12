// SPDX-License-Identifier: Apache-2.0
// The growth of a draft tree: SpecExec's best-first growth, as SpecEdge 4.2 and appendix C use it,
// growth in another order (grow_order.h), and proactive growth while a verdict is awaited.
// Invariants (ft_growth_check asserts them):
//   1. parents stand before their children, and a node with children is computed;
//   2. no child has a higher cum than its parent: the best nodes by (cum, pool order) are a tree;
//   3. pending number k belongs to owner[k], whose `pending` is k;
//   4. the expansion leaf, if there is one, is a leaf of the emitted tree.
// Plain data of one owner. Nothing here allocates, computes logits or knows the text.
#include "spec/growth.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "spec/enough.h"
#include "spec/grow_order.h"
#include "spec/tuning.h"

#define TUNE (ft_spec_tune->growth)

#define REST_MIN      1e-3f /* chances that sum to 1 or more leave so much for all others */
#define SHARPNESS_MIN 0.1f  /* 0 would mean that nothing is learnt */

ft_draft_params ft_draft_params_chain(uint32_t n)
{
    return (ft_draft_params){
        .budget = n, .depth = n, .width = 1, .branch = 1, .min_logp = -INFINITY};
}

ft_draft_params ft_draft_params_tree(uint32_t budget, uint32_t depth, uint32_t width)
{
    return (ft_draft_params){.budget = budget,
                             .depth = depth,
                             .width = width,
                             .branch = TUNE.branch,
                             .min_logp = -INFINITY};
}

void ft_draft_params_obey(ft_draft_params *params, const ft_rule_terms *terms)
{
    if (!terms->trees)
        params->width = params->branch = 1;
    if (params->resolution == 0 || terms->resolution == 0)
        params->resolution = terms->resolution;
    if (terms->adaptive)
        return;
    params->budget = params->depth = ft_min_u32(params->budget, params->depth);
    params->width = params->branch = 1;
    params->min_logp = -INFINITY;
    params->enough_tok = 0;
    params->grow = FT_GROW_BEST;
    params->proactive = FT_PROACTIVE_LEAF;
    params->predictor = NULL;
    params->deep_enough = NULL;
    params->fallback = NULL;
}

uint32_t ft_draft_params_leaves(const ft_draft_params *params)
{
    return ft_min_u32(ft_min_u32(params->depth, FT_DRAFT_PENDING) *
                          ft_min_u32(params->width, FT_DRAFT_LEAVES),
                      FT_DRAFT_PENDING);
}

void ft_growth_check(const ft_growth *g)
{
#ifdef FT_DEBUG_CHECKS
    for (uint32_t i = 0; i < g->n; i++) {
        const ft_growth_node *node = &g->node[i];
        assert(node->parent < (int32_t)i);
        assert(node->parent < 0 || g->node[node->parent].cum >= node->cum);
        assert(node->parent < 0 || g->node[node->parent].pending >= 0);
        assert(node->depth == (node->parent < 0 ? 0 : g->node[node->parent].depth + 1));
        assert(node->pending < 0 || g->owner[node->pending] == i);
        assert(!node->proactive || node->pending >= 0);
    }
    for (uint32_t k = 0; k < g->n_pending; k++)
        assert(g->owner[k] < g->n && g->node[g->owner[k]].pending == (int16_t)k);
    const int32_t leaf = g->expansion_leaf;
    bool emitted = leaf < 0;
    for (uint32_t i = 0; i < g->n_emitted; i++) {
        emitted |= g->emitted[i] == leaf;
        assert(leaf < 0 || g->node[g->emitted[i]].parent != leaf);
    }
    assert(emitted);
#else
    (void)g;
#endif
}

void ft_growth_clear(ft_growth *g)
{
    g->n = g->n_pending = g->n_emitted = g->n_early = 0;
    g->expansion_leaf = -1;
    g->calibration = (ft_calibration){0};
}

/* The log of the chance that the source leaves for all other tokens. */
static float rest_of(const float *said, uint32_t n)
{
    float rest = 1;
    for (uint32_t i = 0; i < n; i++)
        rest -= expf(said[i]);
    return logf(fmaxf(rest, REST_MIN));
}

/* The log of the sum of all calibrated chances, the rest included. */
static float calibrated_sum(const float *said, uint32_t n, float s, float rest)
{
    float sum = expf(s * rest_of(said, n) + rest);
    for (uint32_t i = 0; i < n; i++)
        sum += expf(s * said[i]);
    return logf(sum);
}

uint32_t ft_growth_place(const ft_growth *g, int32_t node)
{
    return node < 0 ? 0 : 1u + (uint32_t)g->node[node].pending;
}

void ft_growth_features(const ft_growth *g, uint32_t node, float feature[FT_FEATURES])
{
    const ft_growth_node *at = &g->node[node];
    const ft_shape *shape = &g->shape[ft_growth_place(g, at->parent)];
    feature[FT_FEATURE_CONFIDENCE] = expf(at->said);
    feature[FT_FEATURE_ENTROPY] = shape->entropy;
    feature[FT_FEATURE_MARGIN] = shape->margin;
    feature[FT_FEATURE_DEVIATION] = shape->deviation;
    feature[FT_FEATURE_POSITION] = (float)at->depth;
}

void ft_growth_add(ft_growth *g, int32_t parent, const ft_draft_children *children, uint32_t branch)
{
    uint32_t depth = parent < 0 ? 0 : g->node[parent].depth + 1u;
    uint32_t n = ft_min_u32(ft_min_u32(children->n, branch), FT_DRAFT_RANKED);
    float cum = parent < 0 ? 0 : g->node[parent].cum;
    float said[FT_DRAFT_RANKED], scale = 1, log_sum = 0;
    g->shape[ft_growth_place(g, parent)] = children->shape;
    for (uint32_t i = 0; i < n; i++)
        said[i] = children->at[i].logp;
    if (g->calibration.sharpness > 0 && !children->counted) {
        scale = g->calibration.sharpness;
        log_sum = calibrated_sum(said, n, scale, g->calibration.rest);
    }
    for (uint32_t i = 0; i < n && g->n < FT_GROWTH_MAX; i++) {
        float logp = fminf(scale * said[i] - log_sum, 0);
        g->node[g->n++] = (ft_growth_node){.token = children->at[i].token,
                                           .parent = parent,
                                           .logp = logp,
                                           .cum = cum + logp,
                                           .said = said[i],
                                           .depth = (uint16_t)depth,
                                           .pending = -1,
                                           .counted = children->counted};
    }
}

void ft_growth_saw(const ft_growth *g, int32_t parent, int32_t token, ft_calibration *c)
{
    float said[FT_DRAFT_RANKED + 1], mean = 0, square = 0, p = 0;
    float s = c->sharpness > 0 ? c->sharpness : 1;
    uint32_t n = 0, came = UINT32_MAX;
    for (uint32_t i = (uint32_t)(parent + 1); i < g->n && n < FT_DRAFT_RANKED; i++)
        if (g->node[i].parent == parent && !g->node[i].counted) {
            came = g->node[i].token == token ? n : came;
            said[n++] = g->node[i].said;
        }
    if (n == 0)
        return;
    float log_sum = calibrated_sum(said, n, s, c->rest);
    said[n] = rest_of(said, n);
    for (uint32_t i = 0; i <= n; i++) { /* the rest comes last, so p ends as its chance */
        p = expf(s * said[i] + (i == n ? c->rest : 0) - log_sum);
        mean += p * said[i];
        square += p * said[i] * said[i];
    }
    /* Newton steps: the slopes of the likelihood over the sums of its curvatures so far. */
    c->weight = TUNE.weight_fade * c->weight + fmaxf(square - mean * mean, 0);
    c->rest_weight = TUNE.weight_fade * c->rest_weight + p * (1 - p);
    s += (said[ft_min_u32(came, n)] - mean) / (c->weight + TUNE.weight_prior);
    c->rest += ((came > n) - p) / (c->rest_weight + TUNE.weight_prior);
    c->sharpness = fmaxf(s, SHARPNESS_MIN);
}

/* Whether the predictor accepts a node and all its ancestors. Node 0, the best first token, is
 * always accepted. */
static bool is_in(ft_growth *g, uint32_t at, const ft_predictor *predictor)
{
    ft_growth_node *node = &g->node[at];
    float feature[FT_FEATURES];
    if (node->judged == FT_JUDGED_NOT) {
        bool in = node->parent < 0 || is_in(g, (uint32_t)node->parent, predictor);
        if (in && at > 0 && !node->counted) { /* it has no distribution */
            ft_growth_features(g, at, feature);
            in = ft_predictor_accepts(predictor, feature);
        }
        node->judged = in ? FT_JUDGED_IN : FT_JUDGED_OUT;
    }
    return node->judged == FT_JUDGED_IN;
}

/* The nodes that are considered. */
typedef struct filter {
    float min_cum;
    const bool *among;             /* [g->n] true: consider it; NULL: all */
    const ft_predictor *predictor; /* must accept them; NULL: all */
} filter;

static bool passes(ft_growth *g, uint32_t at, const filter *which)
{
    return (at == 0 || g->node[at].cum >= which->min_cum) && (!which->among || which->among[at]) &&
           (!which->predictor || is_in(g, at, which->predictor));
}

/* The best nodes by (cum, pool order), at most `budget` <= FT_TREE_MAX of them. */
static uint32_t best_nodes(ft_growth *g, uint32_t budget, const filter *which, uint16_t *best)
{
    uint32_t n = 0;
    if (budget == 0)
        return 0;
    for (uint32_t i = 0; i < g->n; i++) {
        float cum = g->node[i].cum;
        if ((n == budget && cum <= g->node[best[n - 1]].cum) || !passes(g, i, which))
            continue;
        uint32_t at = n < budget ? n++ : budget - 1;
        for (; at > 0 && g->node[best[at - 1]].cum < cum; at--)
            best[at] = best[at - 1];
        best[at] = (uint16_t)i;
    }
    return n;
}

/* The best nodes that are to be computed next, at most limits->leaves. */
static uint32_t leaves_of(const ft_growth *g, const uint16_t *best, uint32_t n_best,
                          uint32_t budget, const ft_growth_limits *limits, uint16_t *chosen)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_best && n < limits->leaves; i++) {
        const ft_growth_node *node = &g->node[best[i]];
        if (n_best == budget && node->cum <= g->node[best[n_best - 1]].cum)
            break;
        if (node->pending < 0 && node->depth < limits->depth)
            chosen[n++] = best[i];
    }
    return n;
}

/* Fewer leaves if pool nodes or pending numbers run short. Some of both are held back. */
static ft_growth_limits with_room(const ft_growth *g, const ft_draft_params *params,
                                  const ft_growth_limits *limits, uint32_t pool_held,
                                  uint32_t pending_held)
{
    uint32_t branch = ft_min_u32(params->branch, FT_DRAFT_RANKED);
    uint32_t pool = g->n + pool_held, pending = g->n_pending + pending_held;
    ft_growth_limits out = {.depth = limits->depth};
    if (branch == 0 || pool > FT_GROWTH_MAX || pending > FT_DRAFT_PENDING)
        return out;
    const uint32_t most = ft_min_u32(FT_DRAFT_PENDING - pending, (FT_GROWTH_MAX - pool) / branch);
    out.leaves =
        ft_min_u32(ft_min_u32(params->width, limits->leaves), ft_min_u32(FT_DRAFT_LEAVES, most));
    return out;
}

static filter filter_of(const ft_draft_params *params)
{
    return (filter){.min_cum = params->min_logp, .predictor = params->predictor};
}

/* The tree as it is now, where nodes do not join it best first. */
static void order_of(ft_growth *g, const ft_draft_params *params, ft_grow_order *order)
{
    bool may[FT_GROWTH_MAX];
    const filter which = filter_of(params);
    for (uint32_t i = 0; i < g->n; i++)
        may[i] = passes(g, i, &which);
    ft_grow_order_make(g, params, may, order);
}

static uint32_t choose_in_order(ft_growth *g, const ft_draft_params *params,
                                const ft_growth_limits *room, uint16_t *chosen)
{
    ft_grow_order order;
    uint32_t n = 0;
    order_of(g, params, &order);
    for (uint32_t i = 0; i < order.n && n < room->leaves; i++) {
        const ft_growth_node *node = &g->node[order.node[i]];
        if (node->pending < 0 && node->depth < room->depth &&
            ft_grow_order_wants(g, params, &order, i))
            chosen[n++] = order.node[i];
    }
    return n;
}

uint32_t ft_growth_choose(ft_growth *g, const ft_draft_params *params,
                          const ft_growth_limits *limits, uint16_t *chosen)
{
    uint16_t best[FT_TREE_MAX] = {0};
    uint32_t budget = ft_min_u32(params->budget, FT_TREE_MAX);
    const filter which = filter_of(params);
    ft_growth_limits room = with_room(g, params, limits, 0, 0);
    g->displaced = -INFINITY;
    if (params->grow != FT_GROW_BEST)
        return choose_in_order(g, params, &room, chosen);
    const uint32_t n = ft_enough_growing(g, params, best, best_nodes(g, budget, &which, best));
    if (n == budget && n > 0)
        g->displaced = g->node[best[n - 1]].cum;
    return leaves_of(g, best, n, budget, &room, chosen);
}

/* The emitted tree's leaf with the highest cum, the first of equals; -1: nothing is emitted. */
static int32_t choose_expansion_leaf(const ft_growth *g)
{
    bool inner[FT_GROWTH_MAX] = {false};
    int32_t leaf = -1;
    for (uint32_t i = 0; i < g->n_emitted; i++)
        if (g->node[g->emitted[i]].parent >= 0)
            inner[g->node[g->emitted[i]].parent] = true;
    for (uint32_t i = 0; i < g->n_emitted; i++) {
        uint16_t at = g->emitted[i];
        if (!inner[at] && (leaf < 0 || g->node[at].cum > g->node[leaf].cum))
            leaf = at;
    }
    return leaf;
}

/* Below the expansion leaf: itself while it is not computed, then its descendants. */
static uint32_t choose_below(ft_growth *g, const ft_draft_params *params,
                             const ft_growth_limits *room, uint16_t *chosen)
{
    uint16_t best[FT_TREE_MAX];
    bool below[FT_GROWTH_MAX] = {false};
    const uint32_t budget = ft_min_u32(params->budget, FT_TREE_MAX);
    const ft_growth_node *leaf = &g->node[g->expansion_leaf];
    if (leaf->pending < 0) {
        *chosen = (uint16_t)g->expansion_leaf;
        return leaf->depth < room->depth;
    }
    for (uint32_t i = (uint32_t)g->expansion_leaf + 1; i < g->n; i++) {
        int32_t parent = g->node[i].parent;
        below[i] = parent >= 0 && (parent == g->expansion_leaf || below[parent]);
    }
    const filter which = {.min_cum = params->min_logp + leaf->cum, .among = below};
    uint32_t n_best = best_nodes(g, budget, &which, best);
    return leaves_of(g, best, n_best, budget, room, chosen);
}

uint32_t ft_growth_choose_proactive(ft_growth *g, const ft_draft_params *params,
                                    const ft_growth_limits *limits, uint16_t *chosen)
{
    uint16_t best[FT_TREE_MAX];
    /* At most half of the room is held back: a draft that wants more takes what there is. */
    uint32_t leaves = ft_draft_params_leaves(params);
    uint32_t nodes = leaves * ft_min_u32(params->branch, FT_DRAFT_RANKED);
    ft_growth_limits room = with_room(g, params, limits, ft_min_u32(nodes, FT_GROWTH_MAX / 2),
                                      ft_min_u32(leaves, FT_DRAFT_PENDING / 2));
    if (params->budget == 0 || room.leaves == 0)
        return 0;
    if (g->expansion_leaf < 0)
        g->expansion_leaf = choose_expansion_leaf(g);
    if (g->expansion_leaf < 0)
        return 0;
    if (params->proactive == FT_PROACTIVE_LEAF)
        return choose_below(g, params, &room, chosen);
    const filter likely = {.min_cum = -logf(TUNE.proactive_odds)};
    uint32_t n = best_nodes(g, FT_TREE_MAX, &likely, best);
    return leaves_of(g, best, n, FT_TREE_MAX, &room, chosen);
}

void ft_growth_computed(ft_growth *g, const uint16_t *chosen, uint32_t n, bool proactive)
{
    assert(g->n_pending + n <= FT_DRAFT_PENDING);
    for (uint32_t i = 0; i < n; i++) {
        g->node[chosen[i]].pending = (int16_t)g->n_pending;
        g->node[chosen[i]].proactive = proactive;
        g->owner[g->n_pending++] = chosen[i];
    }
}

static int by_number(const void *a, const void *b)
{
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

/* nodes[n] of the pool, in pool order, as a tree. A node whose parent is not among them is a
 * root. */
static void tree_of(const ft_growth *g, const uint16_t *nodes, uint32_t n, ft_tree *tree)
{
    int16_t number[FT_GROWTH_MAX]; /* in the tree, -1: not in it */
    memset(number, -1, g->n * sizeof *number);
    ft_tree_clear(tree);
    for (uint32_t i = 0; i < n; i++) {
        const ft_growth_node *node = &g->node[nodes[i]];
        int32_t parent = node->parent < 0 ? -1 : number[node->parent];
        number[nodes[i]] = (int16_t)ft_tree_add(tree, parent, node->token, node->logp);
    }
}

/* The tree as it is now; fills nodes[FT_TREE_MAX], in pool order. */
static uint32_t members(ft_growth *g, const ft_draft_params *params, uint16_t *nodes)
{
    ft_grow_order order;
    const filter which = filter_of(params);
    uint32_t n;
    if (params->grow == FT_GROW_BEST) {
        n = best_nodes(g, ft_min_u32(params->budget, FT_TREE_MAX), &which, nodes);
        n = ft_enough_wanted(g, params, nodes, n);
    } else {
        order_of(g, params, &order);
        n = order.n;
        memcpy(nodes, order.node, n * sizeof *nodes);
    }
    qsort(nodes, n, sizeof *nodes, by_number);
    return n;
}

float ft_growth_confidence(ft_growth *g, const ft_draft_params *params)
{
    uint16_t nodes[FT_TREE_MAX];
    ft_tree tree;
    tree_of(g, nodes, members(g, params, nodes), &tree);
    return ft_fallback_confidence(&tree);
}

void ft_growth_emit(ft_growth *g, const ft_draft_params *params, ft_tree *tree)
{
    g->expansion_leaf = -1;
    g->n_early = 0;
    g->n_emitted = members(g, params, g->emitted);
    tree_of(g, g->emitted, g->n_emitted, tree);
}

/* ---- early nodes ---- */

/* What surrounds the emitted tree. */
typedef struct fringe {
    int16_t number[FT_GROWTH_MAX]; /* in the emitted tree, -1: not in it */
    int16_t top[FT_GROWTH_MAX];    /* the top that a node is or is below, -1: none */
    bool among[FT_GROWTH_MAX];     /* computed tops, and the nodes below them */
    float below[FT_GROWTH_MAX];    /* of a top: expected tokens of the chosen nodes below it */
} fringe;

static void find_fringe(const ft_growth *g, fringe *f)
{
    for (uint32_t i = 0; i < g->n; i++)
        f->number[i] = -1;
    for (uint32_t i = 0; i < g->n_emitted; i++)
        f->number[g->emitted[i]] = (int16_t)i;
    for (uint32_t i = 0; i < g->n; i++) {
        const int32_t parent = g->node[i].parent;
        f->top[i] = -1;
        if (f->number[i] < 0 && parent >= 0)
            f->top[i] = f->number[parent] >= 0 ? (int16_t)i : f->top[parent];
        f->among[i] = f->top[i] >= 0 && g->node[f->top[i]].pending >= 0;
        f->below[i] = 0;
    }
}

/* Removes from among[] the tops that are not worth sending, with the nodes below them. Returns what
 * the others should gain, in tokens. */
static double keep_worthy(const ft_growth *g, const ft_growth_early *early, fringe *f,
                          const uint16_t *best, uint32_t n)
{
    double gain = 0;
    for (uint32_t i = 0; i < n; i++)
        if (f->top[best[i]] != best[i])
            f->below[f->top[best[i]]] += expf(g->node[best[i]].cum - g->node[f->top[best[i]]].cum);
    for (uint32_t i = 0; i < g->n; i++) {
        const int16_t top = f->top[i];
        if (!f->among[i])
            continue;
        const double worth = early->spare_tok + (double)f->below[top];
        f->among[i] = f->below[top] > 0 && worth > 0;
        if (f->among[i] && top == (int32_t)i)
            gain += (double)expf(g->node[i].cum) * worth;
    }
    return gain;
}

/* Removes tops that have no node below them: they are of no use. */
static uint32_t drop_bare(const fringe *f, uint16_t *nodes, uint32_t n)
{
    bool used[FT_GROWTH_MAX] = {false};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        used[f->top[nodes[i]]] |= f->top[nodes[i]] != nodes[i];
    for (uint32_t i = 0; i < n; i++)
        if (used[f->top[nodes[i]]])
            nodes[kept++] = nodes[i];
    return kept;
}

double ft_growth_early_emit(ft_growth *g, const ft_growth_early *early, ft_tree *tree,
                            uint8_t under[FT_TREE_MAX])
{
    fringe f;
    uint32_t budget = ft_min_u32(early->budget, FT_TREE_MAX), n_top = 0;
    const filter which = {.min_cum = -INFINITY, .among = f.among};
    find_fringe(g, &f);
    g->n_early = best_nodes(g, budget, &which, g->early);
    double gain = keep_worthy(g, early, &f, g->early, g->n_early);
    g->n_early = best_nodes(g, budget, &which, g->early);
    g->n_early = drop_bare(&f, g->early, g->n_early);
    qsort(g->early, g->n_early, sizeof *g->early, by_number);
    for (uint32_t i = 0; i < g->n_early; i++)
        if (f.top[g->early[i]] == g->early[i])
            under[n_top++] = (uint8_t)f.number[g->node[g->early[i]].parent];
    tree_of(g, g->early, g->n_early, tree);
    return g->n_early > 0 ? gain : 0;
}

void ft_growth_early_take(ft_growth *g, ft_tree *tree)
{
    memcpy(g->emitted, g->early, g->n_early * sizeof *g->early);
    g->n_emitted = g->n_early;
    g->n_early = 0;
    g->expansion_leaf = -1;
    tree_of(g, g->emitted, g->n_emitted, tree);
}

/* ---- verdicts ---- */

uint32_t ft_growth_likeliest(const ft_growth *g, int32_t *token, uint32_t most)
{
    uint32_t n = 0;
    for (int32_t at = -1; n < most;) {
        int32_t best = -1;
        for (uint32_t i = (uint32_t)(at + 1); i < g->n; i++)
            if (g->node[i].parent == at && (best < 0 || g->node[i].logp > g->node[best].logp))
                best = (int32_t)i;
        if (best < 0)
            break;
        token[n++] = g->node[best].token;
        at = best;
    }
    return n;
}

static int32_t find_child(const ft_growth *g, int32_t parent, int32_t token)
{
    for (uint32_t i = (uint32_t)(parent + 1); i < g->n; i++)
        if (g->node[i].parent == parent && g->node[i].token == token)
            return (int32_t)i;
    return -1;
}

int ft_growth_walk(const ft_growth *g, const uint32_t *path, uint32_t n_path, const int32_t *next,
                   uint32_t n_next, uint16_t *nodes)
{
    int32_t at = -1;
    int n = 0;
    for (uint32_t i = 0; i < n_path; i++) {
        if (path[i] >= g->n_emitted || g->node[g->emitted[path[i]]].parent != at)
            return -1;
        at = nodes[n++] = g->emitted[path[i]];
    }
    for (uint32_t i = 0; i < n_next && (at = find_child(g, at, next[i])) >= 0; i++)
        nodes[n++] = (uint16_t)at;
    return n;
}

uint32_t ft_growth_reroot(ft_growth *g, int32_t root, uint32_t *keep)
{
    int16_t moved[FT_GROWTH_MAX]; /* new number, -1: gone */
    uint32_t n = 0, n_keep = 0, n_early = 0, up = g->node[root].depth + 1u;
    g->shape[0] = g->shape[ft_growth_place(g, root)];
    for (uint32_t i = 0; i < g->n; i++) {
        ft_growth_node node = g->node[i];
        bool child = node.parent == root;
        moved[i] = -1;
        if (!child && (node.parent < 0 || moved[node.parent] < 0))
            continue;
        node.parent = child ? -1 : moved[node.parent];
        node.cum = node.logp + (child ? 0 : g->node[node.parent].cum);
        node.depth = (uint16_t)(node.depth - up);
        node.judged = FT_JUDGED_NOT; /* its position has changed */
        moved[i] = (int16_t)n;
        g->node[n++] = node;
    }
    for (uint32_t k = 0; k < g->n_pending; k++) {
        int16_t at = moved[g->owner[k]];
        if (at < 0)
            continue;
        g->shape[1 + n_keep] = g->shape[1 + k]; /* n_keep <= k */
        g->node[at].pending = (int16_t)n_keep;
        g->owner[n_keep] = (uint16_t)at;
        keep[n_keep++] = k;
    }
    for (uint32_t i = 0; i < g->n_early; i++)
        if (moved[g->early[i]] >= 0)
            g->early[n_early++] = (uint16_t)moved[g->early[i]];
    g->n = n;
    g->n_pending = n_keep;
    g->n_emitted = 0;
    g->n_early = n_early;
    g->expansion_leaf = -1;
    return n_keep;
}
