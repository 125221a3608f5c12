// SPDX-License-Identifier: Apache-2.0
// The drafter: a text, a source of candidates, and a tree that grows behind the text (growth.h).
// Invariants (check() asserts them in debug builds):
//   1. the source's committed tokens are text[0, n_past), n_past <= n_text;
//   2. n_past == n_text exactly if `rooted`: then the pool has the children of the text's last
//      token; otherwise there are no pool nodes and no pending nodes;
//   3. the pool's pending numbers are the source's;
//   4. where draws depend on the round, all nodes of a tree that is handed out were drawn for its
//      round and resolution, and the pool has no others then.
// The source's thread calls everything here. After the first rounds nothing allocates except the
// text, which doubles. A drafter only proposes: text does not depend on it.
#include "spec/drafter.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

/* Of the children that were drawn together. */
typedef struct draws {
    uint32_t n_evidence;
    uint32_t round, resolution; /* as in ft_draw */
} draws;

struct ft_drafter {
    ft_draft_source *source;
    int32_t *text;
    uint32_t n_text, cap_text;
    bool rooted;
    ft_growth growth;
    ft_calibration calibration; /* sharpness 0: off */
    ft_drafter_stats stats;
    /* By ft_growth_place; siblings share it. evidence: [1 + FT_DRAFT_PENDING,
     * source->evidence_bytes]; NULL: there is none. */
    uint8_t *evidence;
    draws drawn[1 + FT_DRAFT_PENDING];
    /* The draft that is being made. */
    uint32_t level; /* forwards done; all those that read text count as one */
    bool ended;     /* no more forwards */
    bool asked;     /* a source that forces has answered what needs no model */
    uint16_t chosen[FT_DRAFT_LEAVES];
    int32_t tokens[FT_DRAFT_LEAVES], parents[FT_DRAFT_LEAVES];
    uint16_t depths[FT_DRAFT_LEAVES];
    ft_draft_children children[FT_DRAFT_LEAVES];
};

static void check(const ft_drafter *d)
{
#ifdef FT_DEBUG_CHECKS
    assert(d->source->n_past <= d->n_text && (d->source->n_past == d->n_text) == d->rooted);
    assert(d->rooted || (d->growth.n == 0 && d->source->n_pending == 0));
    assert(d->growth.n_pending == d->source->n_pending);
    ft_growth_check(&d->growth);
#else
    (void)d;
#endif
}

ft_status ft_drafter_create(ft_draft_source *source, ft_error *err, ft_drafter **out)
{
    ft_drafter *d = calloc(1, sizeof *d);
    *out = d;
    if (!d) {
        ft_draft_source_destroy(source);
        return ft_error_set(err, FT_NOMEM, "drafter: out of memory");
    }
    assert(source->n_past == 0 && source->n_pending == 0);
    d->source = source;
    ft_growth_clear(&d->growth);
    if (source->evidence_bytes == 0)
        return FT_OK;
    d->evidence = calloc(1 + FT_DRAFT_PENDING, source->evidence_bytes);
    if (d->evidence)
        return FT_OK;
    ft_drafter_destroy(d);
    *out = NULL;
    return ft_error_set(err, FT_NOMEM, "drafter: out of memory for evidence");
}

void ft_drafter_destroy(ft_drafter *drafter)
{
    if (!drafter)
        return;
    ft_draft_source_destroy(drafter->source);
    free(drafter->evidence);
    free(drafter->text);
    free(drafter);
}

void ft_drafter_get_stats(const ft_drafter *drafter, ft_drafter_stats *out)
{
    *out = drafter->stats;
}

static ft_status reserve_text(ft_drafter *d, uint32_t n, ft_error *err)
{
    if (n <= d->cap_text)
        return FT_OK;
    uint32_t cap = d->cap_text ? d->cap_text : 1024;
    while (cap < n && cap <= INT32_MAX / 2)
        cap *= 2;
    if (cap < n)
        return ft_error_set(err, FT_TOO_LARGE, "drafter: a text of %u tokens", n);
    int32_t *text = realloc(d->text, cap * sizeof *text);
    if (!text)
        return ft_error_set(err, FT_NOMEM, "drafter: out of memory for %u tokens", cap);
    d->text = text;
    d->cap_text = cap;
    return FT_OK;
}

/* Forgets the tree. The source must have no pending nodes and fewer tokens than the text. */
static void drop_tree(ft_drafter *d)
{
    ft_growth_clear(&d->growth);
    d->rooted = false;
}

ft_status ft_drafter_reset(ft_drafter *drafter, const int32_t *text, uint32_t n, ft_error *err)
{
    ft_drafter *d = drafter;
    uint32_t n_past = d->source->n_past, same = 0;
    if (n == 0)
        return ft_error_set(err, FT_INVALID, "drafter: an empty text");
    ft_status status = reserve_text(d, n, err);
    if (status != FT_OK)
        return status;
    /* The last token is always computed again, because its children are needed. */
    while (same < n_past && same < n - 1 && d->text[same] == text[same])
        same++;
    d->source->ops->truncate(d->source, same);
    drop_tree(d);
    memmove(d->text, text, n * sizeof *text);
    d->n_text = n;
    check(d);
    return FT_OK;
}

/* ---- forwards ---- */

static uint8_t *evidence_at(const ft_drafter *d, uint32_t place)
{
    return d->evidence ? d->evidence + (size_t)place * d->source->evidence_bytes : NULL;
}

/* The next n tokens of the text. params: for the children behind the last one; NULL: they are not
 * wanted. */
static ft_draft_request text_request(ft_drafter *d, uint32_t n, const ft_draft_params *params)
{
    return (ft_draft_request){.source = d->source,
                              .n = n,
                              .tokens = d->text + d->source->n_past,
                              .children = params ? d->children : NULL,
                              .round = params ? params->round : 0,
                              .resolution = params ? params->resolution : 0,
                              .evidence = params ? evidence_at(d, 0) : NULL};
}

static ft_draft_request leaves_request(ft_drafter *d, uint32_t n, const ft_draft_params *params)
{
    for (uint32_t i = 0; i < n; i++) {
        const ft_growth_node *node = &d->growth.node[d->chosen[i]];
        d->tokens[i] = node->token;
        d->parents[i] = node->parent < 0 ? -1 : d->growth.node[node->parent].pending;
        d->depths[i] = node->depth;
    }
    return (ft_draft_request){.source = d->source,
                              .n = n,
                              .tokens = d->tokens,
                              .parents = d->parents,
                              .depths = d->depths,
                              .children = d->children,
                              .round = params->round,
                              .resolution = params->resolution,
                              .evidence = evidence_at(d, 1 + d->growth.n_pending)};
}

static draws draws_of(const ft_draft_request *r, const ft_draft_children *children)
{
    return (draws){children->n_evidence, r->round, r->resolution};
}

/* levels: those of a draft's tree; the children of its last level would be behind its end. 0: as
 * many as the context has room for. */
static ft_growth_limits limits_of(const ft_drafter *d, uint32_t levels)
{
    const uint32_t n_ctx = d->source->n_ctx, room = n_ctx > d->n_text ? n_ctx - d->n_text : 0;
    return (ft_growth_limits){.leaves = d->source->max_leaves,
                              .depth = levels > 0 ? ft_min_u32(room, levels - 1) : room};
}

/* Leaves out what was not answered. */
static void keep_answered(ft_drafter *d, ft_draft_request *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n && r->parents; i++) {
        d->chosen[n] = d->chosen[i];
        d->children[n] = d->children[i];
        n += r->answered >> i & 1;
    }
    if (r->parents || r->answered == 0)
        r->n = n;
}

/* Adds what was computed to the pool. */
static void take(ft_drafter *d, ft_draft_request *r, uint32_t branch, bool proactive)
{
    if (r->forced_only)
        keep_answered(d, r);
    d->asked = r->forced_only && r->n == 0;
    if (r->n == 0)
        return;
    d->stats.forwards += !r->forced_only;
    d->stats.rows += r->forced_only ? 0 : r->n;
    d->growth.calibration = d->calibration;
    if (!r->parents) {
        if (r->children) {
            d->rooted = true;
            d->drawn[0] = draws_of(r, r->children);
            ft_growth_add(&d->growth, -1, r->children, branch);
        }
        return;
    }
    const uint32_t first = d->growth.n_pending;
    ft_growth_computed(&d->growth, d->chosen, r->n, proactive && !r->forced_only);
    for (uint32_t i = 0; i < r->n; i++) {
        d->drawn[1 + first + i] = draws_of(r, &r->children[i]);
        ft_growth_add(&d->growth, d->chosen[i], &r->children[i], branch);
    }
}

ft_status ft_drafter_prefill(ft_drafter *drafter, uint32_t max_tok, ft_error *err, uint32_t *left)
{
    ft_drafter *d = drafter;
    *left = 0;
    if (d->rooted || d->n_text == 0 || d->n_text > d->source->n_ctx)
        return FT_OK;
    uint32_t missing = d->n_text - 1 - d->source->n_past;
    while (missing > 0 && max_tok > 0) {
        uint32_t n = missing < max_tok ? missing : max_tok;
        n = n < d->source->max_text ? n : d->source->max_text;
        ft_draft_request r = text_request(d, n, NULL);
        ft_status status = d->source->ops->forward(&r, 1, err);
        if (status != FT_OK || r.status == FT_EXHAUSTED)
            return status; /* no room: draft() will draft nothing, which is no failure */
        take(d, &r, 0, false);
        missing -= n;
        max_tok -= n;
    }
    *left = missing;
    check(d);
    return FT_OK;
}

/* ---- drafts ---- */

/* Whether a draft may use the pool. Where draws depend on the round, so must the text on what they
 * are drawn for, and not on how much there was time to draw ahead: all must be for this round. What
 * the draft does not use would be in the way of the next one. */
static bool may_use_pool(const ft_drafter *d, const ft_draft_params *params)
{
    if (!d->source->by_round)
        return true;
    bool may = d->growth.n <= params->budget;
    for (uint32_t place = 0; may && place <= d->growth.n_pending; place++)
        may = d->drawn[place].round == params->round &&
              d->drawn[place].resolution == params->resolution;
    return may;
}

static void begin(ft_drafter *d, const ft_draft_params *params)
{
    if (d->rooted && !may_use_pool(d, params)) {
        d->source->ops->truncate(d->source, d->n_text - 1); /* the last token is computed again */
        drop_tree(d);
    }
    d->growth.n_emitted = 0;
    d->growth.expansion_leaf = -1;
    d->level = 0;
    d->asked = false;
    d->ended = params->budget == 0 || params->branch == 0 || params->depth == 0 || d->n_text == 0 ||
               d->n_text > d->source->n_ctx;
}

/* Whether to end the draft: the tree is in doubt, or the n chosen leaves are not worth a forward.
 * Where nodes must be worth their rows, a leaf's child is sent about as often as it is accepted. If
 * the tree is full, a child displaces a node, which may be likelier than the child. */
static bool enough(ft_drafter *d, const ft_draft_params *params, uint32_t n)
{
    ft_depth *depth = params->deep_enough;
    double worth = 0, row;
    if (params->fallback &&
        ft_fallback_now(params->fallback, ft_growth_confidence(&d->growth, params)))
        return true;
    if (!depth)
        return false;
    row = fmax((double)expf(params->min_logp),
               (double)expf(d->growth.displaced) / ft_depth_yield(depth));
    for (uint32_t i = 0; i < n; i++)
        worth += fmax((double)expf(d->growth.node[d->chosen[i]].cum) - row, 0);
    ft_depth_saw_worth(depth, d->level, worth);
    return ft_depth_enough(depth, d->level, worth);
}

/* The draft's part of the next forward; false: it has none. What a constraint forces comes first:
 * it takes no model, and lasts as long as there is room for it in the tree. */
static bool next_request(ft_drafter *d, const ft_draft_params *params, ft_draft_request *r)
{
    const bool forced = d->source->forces && !d->asked;
    if (d->ended || (!forced && d->level >= params->depth))
        return false;
    if (!d->rooted) {
        uint32_t n = d->n_text - d->source->n_past;
        bool all = n <= d->source->max_text;
        *r = text_request(d, all ? n : d->source->max_text, all ? params : NULL);
        r->forced_only = forced && all;
        return true;
    }
    const ft_growth_limits limits = limits_of(d, params->levels);
    uint32_t n = ft_growth_choose(&d->growth, params, &limits, d->chosen);
    if (n == 0 || (!forced && enough(d, params, n)))
        return false;
    *r = leaves_request(d, n, params);
    r->forced_only = forced;
    return true;
}

/* One forward for all drafts that need one; false: none does. */
static bool grow(ft_drafter *const *drafters, size_t n, const ft_draft_params *params,
                 ft_error *err, ft_status *status)
{
    ft_draft_request requests[FT_DRAFT_BATCH];
    uint16_t of[FT_DRAFT_BATCH];
    size_t n_req = 0;
    for (size_t i = 0; i < n; i++)
        if (next_request(drafters[i], &params[i], &requests[n_req]))
            of[n_req++] = (uint16_t)i;
    if (n_req == 0)
        return false;
    *status = requests->source->ops->forward(requests, n_req, err);
    for (size_t i = 0; i < n_req; i++) {
        ft_drafter *d = drafters[of[i]];
        /* A full KV pool ends the draft; what there is can still be verified. */
        d->ended |= requests[i].status != FT_OK;
        if (requests[i].status == FT_OK)
            take(d, &requests[i], params[of[i]].branch, false);
        d->level += d->rooted && !requests[i].forced_only;
        check(d);
    }
    return *status == FT_OK;
}

static ft_status draft_batch(ft_drafter *const *drafters, size_t n, const ft_draft_params *params,
                             ft_error *err)
{
    ft_status status = FT_OK;
    for (size_t i = 0; i < n; i++) {
        assert(drafters[i]->source->group == drafters[0]->source->group);
        begin(drafters[i], &params[i]);
    }
    while (grow(drafters, n, params, err, &status))
        ;
    return status;
}

ft_status ft_drafters_draft(ft_drafter *const *drafters, size_t n, const ft_draft_params *params,
                            ft_error *err, ft_tree *const *trees)
{
    ft_status status = FT_OK;
    for (size_t i = 0; status == FT_OK && i < n; i += FT_DRAFT_BATCH)
        status = draft_batch(drafters + i, n - i < FT_DRAFT_BATCH ? n - i : FT_DRAFT_BATCH,
                             params + i, err);
    for (size_t i = 0; i < n; i++) {
        ft_tree_clear(trees[i]);
        if (status != FT_OK || params[i].branch == 0 ||
            drafters[i]->n_text > drafters[i]->source->n_ctx)
            continue;
        ft_growth_emit(&drafters[i]->growth, &params[i], trees[i]);
        drafters[i]->stats.nodes += trees[i]->n;
    }
    return status;
}

ft_status ft_drafter_draft(ft_drafter *drafter, const ft_draft_params *params, ft_error *err,
                           ft_tree *tree)
{
    return ft_drafters_draft(&drafter, 1, params, err, &tree);
}

void ft_drafter_features(const ft_drafter *drafter, uint32_t node, float feature[FT_FEATURES])
{
    assert(node < drafter->growth.n_emitted);
    ft_growth_features(&drafter->growth, drafter->growth.emitted[node], feature);
}

const uint8_t *ft_drafter_evidence(const ft_drafter *drafter, uint32_t node, uint32_t *n)
{
    const ft_growth *g = &drafter->growth;
    assert(node < g->n_emitted);
    const uint32_t place = ft_growth_place(g, g->node[g->emitted[node]].parent);
    *n = drafter->evidence ? drafter->drawn[place].n_evidence : 0;
    return evidence_at(drafter, place);
}

/* Whether the KV pool has room for n leaves beside the next draft and an eighth of the pool, which
 * is left to others: they may need it sooner. */
static bool has_room(const ft_drafter *d, uint32_t n, const ft_draft_params *params)
{
    uint32_t room = d->source->ops->room_tok(d->source);
    uint64_t held = d->source->total_tok / 8 + (uint64_t)ft_draft_params_leaves(params);
    return room == UINT32_MAX || room >= held + n;
}

/* Where draws depend on the round they are for the next one, which is taken to be like this one: so
 * many tokens, behind the one that the target draws. */
static ft_draft_params ahead_of(const ft_drafter *d, const ft_draft_params *params)
{
    ft_draft_params ahead = *params;
    if (d->source->by_round) {
        ahead.round++;
        ahead.budget++;
    }
    return ahead;
}

static uint32_t choose_proactive(ft_drafter *d, const ft_draft_params *params)
{
    ft_growth_limits limits = limits_of(d, 0);
    uint32_t n = ft_growth_choose_proactive(&d->growth, params, &limits, d->chosen);
    return n > 0 && has_room(d, n, params) ? n : 0;
}

/* One forward of n chosen leaves; with `forced` of what needs no model. */
static ft_status grow_ahead(ft_drafter *d, uint32_t n, bool forced, const ft_draft_params *ahead,
                            ft_error *err)
{
    ft_draft_request r = leaves_request(d, n, ahead);
    r.forced_only = forced;
    ft_status status = d->source->ops->forward(&r, 1, err);
    if (status != FT_OK || r.status == FT_EXHAUSTED)
        return status == FT_OK ? FT_EXHAUSTED : status;
    take(d, &r, ahead->branch, true);
    d->stats.proactive_forwards += !forced;
    d->stats.proactive_nodes += forced ? 0 : n;
    return FT_OK;
}

ft_status ft_drafter_proactive(ft_drafter *drafter, const ft_draft_params *params, ft_error *err,
                               bool *more)
{
    ft_drafter *d = drafter;
    const ft_draft_params ahead = ahead_of(d, params);
    uint32_t n = choose_proactive(d, &ahead);
    ft_status status = FT_OK;
    *more = false;
    d->asked = !d->source->forces;
    while (!d->asked && n > 0 && status == FT_OK) {
        status = grow_ahead(d, n, true, &ahead, err);
        n = choose_proactive(d, &ahead);
    }
    if (n > 0 && status == FT_OK) {
        status = grow_ahead(d, n, false, &ahead, err);
        *more = status == FT_OK && choose_proactive(d, &ahead) > 0;
    }
    check(d);
    return status == FT_EXHAUSTED ? FT_OK : status;
}

double ft_drafter_early(ft_drafter *drafter, const ft_growth_early *early, ft_tree *tree,
                        uint8_t under[FT_TREE_MAX])
{
    double gain = ft_growth_early_emit(&drafter->growth, early, tree, under);
    check(drafter);
    return gain;
}

void ft_drafter_early_take(ft_drafter *drafter, ft_tree *tree)
{
    ft_growth_early_take(&drafter->growth, tree);
    drafter->stats.nodes += tree->n;
    check(drafter);
}

uint32_t ft_drafter_likeliest(const ft_drafter *drafter, int32_t *token, uint32_t most)
{
    return ft_growth_likeliest(&drafter->growth, token, most);
}

/* ---- verdicts ---- */

/* Counts the two events of SpecEdge 4.2. nodes[n]: the verdict's walk. */
static void count_alignment(ft_drafter *d, const uint16_t *nodes, uint32_t n, uint32_t n_path)
{
    int32_t leaf = d->growth.expansion_leaf;
    if (leaf < 0 || d->growth.node[leaf].pending < 0)
        return;
    bool aligned = n_path > 0 && nodes[n_path - 1] == leaf;
    d->stats.leaves++;
    d->stats.aligned += aligned;
    d->stats.matched += aligned && n > n_path;
}

/* Learns from the token that came behind each computed node of the walk. */
static void learn(ft_drafter *d, const uint16_t *nodes, uint32_t n_path, const int32_t *next,
                  uint32_t n_next)
{
    const ft_growth *g = &d->growth;
    if (d->calibration.sharpness <= 0 || !d->rooted)
        return;
    for (uint32_t i = 0; i < n_path + (n_next > 0); i++) {
        int32_t parent = i > 0 ? nodes[i - 1] : -1;
        if (parent >= 0 && g->node[parent].pending < 0)
            break;
        ft_growth_saw(g, parent, i < n_path ? g->node[nodes[i]].token : next[0], &d->calibration);
    }
}

void ft_drafter_calibrate(ft_drafter *drafter, const ft_calibration *from)
{
    drafter->calibration = *from;
    if (drafter->calibration.sharpness <= 0)
        drafter->calibration = (ft_calibration){.sharpness = 1};
}

ft_calibration ft_drafter_calibration(const ft_drafter *drafter)
{
    return drafter->calibration;
}

/* Counts a node that was computed proactively and was of use, once. */
static void count_kept(ft_drafter *d, ft_growth_node *node)
{
    d->stats.proactive_kept += node->proactive;
    node->proactive = false;
}

static void move_evidence(ft_drafter *d, uint32_t from, uint32_t to)
{
    d->drawn[to] = d->drawn[from];
    if (d->evidence && from != to)
        memcpy(evidence_at(d, to), evidence_at(d, from), d->drawn[to].n_evidence);
}

/* Pending node `root` has become the text's last token, and keep[n] (ascending) have become pending
 * nodes 0 to n - 1. */
static void reroot_evidence(ft_drafter *d, uint32_t root, const uint32_t *keep, uint32_t n)
{
    move_evidence(d, 1 + root, 0);
    for (uint32_t k = 0; k < n; k++)
        move_evidence(d, 1 + keep[k], 1 + k);
}

ft_status ft_drafter_advance(ft_drafter *drafter, const uint32_t *path, uint32_t n_path,
                             const int32_t *next, uint32_t n_next, ft_error *err)
{
    ft_drafter *d = drafter;
    ft_growth *g = &d->growth;
    uint16_t nodes[FT_GROWTH_MAX];
    uint32_t kv[FT_DRAFT_PENDING], keep[FT_DRAFT_PENDING], n_kv = 0, n_keep = 0;
    int n = ft_growth_walk(g, path, n_path, next, n_next, nodes);
    if (n < 0)
        return ft_error_set(err, FT_INVALID, "drafter: the verdict's path is not in the last tree");
    ft_status status = n_next <= INT32_MAX - d->n_text - n_path
                           ? reserve_text(d, d->n_text + n_path + n_next, err)
                           : ft_error_set(err, FT_TOO_LARGE, "drafter: the text is too long");
    if (status != FT_OK || n_path + n_next == 0)
        return status;
    count_alignment(d, nodes, (uint32_t)n, n_path);
    learn(d, nodes, n_path, next, n_next);
    for (; n_kv < (uint32_t)n && g->node[nodes[n_kv]].pending >= 0; n_kv++) {
        kv[n_kv] = (uint32_t)g->node[nodes[n_kv]].pending;
        count_kept(d, &g->node[nodes[n_kv]]);
    }
    for (uint32_t i = 0; i < n_path; i++)
        d->text[d->n_text++] = g->node[nodes[i]].token;
    for (uint32_t i = 0; i < n_next; i++)
        d->text[d->n_text++] = next[i];
    /* What is below the text's new end is kept if that end was computed. */
    if (n_kv == n_path + n_next) {
        n_keep = ft_growth_reroot(g, nodes[n - 1], keep);
        reroot_evidence(d, kv[n_kv - 1], keep, n_keep);
        for (uint32_t k = 0; k < n_keep; k++)
            count_kept(d, &g->node[g->owner[k]]);
        d->stats.reused_nodes += n_keep;
    } else {
        drop_tree(d);
    }
    status = d->source->ops->commit(d->source, kv, n_kv, keep, n_keep, err);
    check(d);
    return status;
}
