// SPDX-License-Identifier: Apache-2.0
// The drafter: grows a pool of candidate nodes with the draft model, and hands out the best of them
// as a tree (SpecExec's best-first growth, as SpecEdge 4.2 and appendix C use it).
//
// A node of the pool is a token that the draft proposes behind its parent. It is *computed* when it
// went through the draft model: then it is a pending node of the sequence, and its children are in the
// pool. Leaves of the pool are not computed; most never will be. Invariants (check() runs them in
// debug builds):
//   1. the sequence's committed tokens are text[0, n_past), n_past <= n_text;
//   2. n_past == n_text exactly if `rooted`: the logits of the last token were seen and its children
//      are in the pool; otherwise pool and pending nodes are empty;
//   3. parents stand before children in the pool, and cum never rises from parent to child; so the
//      best nodes by (cum, pool order) always form a tree;
//   4. pending node k belongs to owner[k], whose kv is k.
// The engine's owner thread calls everything here. After the first rounds nothing allocates except
// the text, which doubles. A drafter never decides what text comes out: it only proposes.
#include "spec/drafter.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define POOL_MAX  2048
#define WIDTH_MAX 64   /* leaves of one forward: one word of the bitmap of wanted rows */
#define FEED_MAX  2048 /* text tokens of one forward at most, so that a bitmap of them is small */
#define RANKED    16   /* candidates over which a child's chance is normalized; children at most */

/* The constants of estimate(): those under which the target's own tokens are likeliest, on the demo
 * pair at temperature 1 over Spec-Bench prompts, as `foretoken bench noise` fits and prints them for
 * any pair. They only order the draft: text never depends on them. */
static const float sharpness = 0.84f;
static const float tail = 33.0f;

typedef struct pool_node {
    int32_t token, parent; /* parent in the pool, -1: the text's last token */
    float logp, cum;       /* the chance of acceptance: given the parent's, and along the path */
    uint16_t depth;
    int16_t kv; /* pending number, -1: not computed */
} pool_node;

struct ft_drafter {
    ft_engine *engine;
    ft_seq *seq;
    ft_sampler *sampler;
    ft_sampling sampling;
    uint32_t n_ctx, max_batch;
    int32_t *text;
    uint32_t n_text, cap_text;
    bool rooted;
    uint32_t n_pool;
    pool_node pool[POOL_MAX];
    uint16_t owner[FT_PENDING_MAX]; /* pool number of each pending node */
    uint32_t n_emitted;
    uint16_t emitted[FT_TREE_MAX]; /* pool number of each node of the last tree */
    uint32_t *count;               /* [max_batch] 0, 1, 2, ...: the path of a chain */
    ft_drafter_stats stats;
};

ft_draft_params ft_draft_params_chain(uint32_t n)
{
    return (ft_draft_params){
        .budget = n, .depth = n, .width = 1, .branch = 1, .min_logp = -INFINITY};
}

ft_draft_params ft_draft_params_tree(uint32_t budget, uint32_t depth, uint32_t width)
{
    /* Eight children: on the demo pair the ninth is the target's token in fewer than one position of
     * a hundred. */
    return (ft_draft_params){
        .budget = budget, .depth = depth, .width = width, .branch = 8, .min_logp = -INFINITY};
}

static void check(const ft_drafter *d)
{
#ifdef FT_DEBUG_CHECKS
    uint32_t n_past = ft_seq_n_past(d->seq), n_pending = ft_seq_n_pending(d->seq);
    assert(n_past <= d->n_text && (n_past == d->n_text) == d->rooted);
    assert(d->rooted || (d->n_pool == 0 && n_pending == 0));
    for (uint32_t i = 0; i < d->n_pool; i++) {
        const pool_node *node = &d->pool[i];
        assert(node->parent < (int32_t)i);
        assert(node->parent < 0 || d->pool[node->parent].cum >= node->cum);
        assert(node->parent < 0 || d->pool[node->parent].kv >= 0);
        assert(node->kv < 0 || d->owner[node->kv] == i);
    }
    for (uint32_t k = 0; k < n_pending; k++)
        assert(d->owner[k] < d->n_pool && d->pool[d->owner[k]].kv == (int16_t)k);
#else
    (void)d;
#endif
}

ft_status ft_drafter_create(ft_engine *engine, const ft_sampling *s, ft_error *err,
                            ft_drafter **out)
{
    const ft_hparams *hp = ft_model_hparams(ft_engine_model(engine));
    ft_status status = ft_sampling_check(s, err);
    *out = NULL;
    if (status != FT_OK)
        return status;
    ft_drafter *d = calloc(1, sizeof *d);
    if (!d)
        return ft_error_set(err, FT_NOMEM, "drafter: out of memory");
    d->engine = engine;
    d->sampling = *s;
    d->n_ctx = hp->n_ctx_train;
    d->max_batch = ft_engine_max_batch_tok(engine);
    d->count = calloc(d->max_batch, sizeof *d->count);
    if (!d->count)
        status = ft_error_set(err, FT_NOMEM, "drafter: out of memory");
    for (uint32_t i = 0; status == FT_OK && i < d->max_batch; i++)
        d->count[i] = i;
    if (status == FT_OK)
        status = ft_sampler_create(hp->n_vocab, err, &d->sampler);
    if (status == FT_OK)
        status = ft_seq_create(engine, err, &d->seq);
    if (status != FT_OK) {
        ft_drafter_destroy(d);
        return status;
    }
    *out = d;
    return FT_OK;
}

void ft_drafter_destroy(ft_drafter *drafter)
{
    if (!drafter)
        return;
    if (drafter->seq)
        ft_seq_destroy(drafter->seq);
    ft_sampler_destroy(drafter->sampler);
    free(drafter->count);
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

/* Forgets the tree: the sequence keeps only committed tokens, fewer than the text has. */
static void drop_tree(ft_drafter *d)
{
    d->n_pool = d->n_emitted = 0;
    d->rooted = false;
}

ft_status ft_drafter_reset(ft_drafter *drafter, const int32_t *text, uint32_t n, ft_error *err)
{
    ft_drafter *d = drafter;
    uint32_t n_past = ft_seq_n_past(d->seq), same = 0;
    if (n == 0)
        return ft_error_set(err, FT_INVALID, "drafter: an empty text");
    ft_status status = reserve_text(d, n, err);
    if (status != FT_OK)
        return status;
    /* The last token is always computed again: its logits are needed. */
    while (same < n_past && same < n - 1 && d->text[same] == text[same])
        same++;
    ft_seq_truncate(d->seq, same);
    drop_tree(d);
    memmove(d->text, text, n * sizeof *text);
    d->n_text = n;
    check(d);
    return FT_OK;
}

/* Computes and commits text[n_past, n_past + n); with logits of the last one if `want`. */
static ft_status feed(ft_drafter *d, uint32_t n, bool want, ft_error *err, const float **logits)
{
    uint64_t last[FEED_MAX / 64] = {0};
    assert(n > 0 && n <= d->max_batch && n <= FEED_MAX);
    last[(n - 1) / 64] = UINT64_C(1) << ((n - 1) % 64);
    ft_segment seg = {.seq = d->seq,
                      .n = n,
                      .tokens = d->text + ft_seq_n_past(d->seq),
                      .want = want ? last : NULL};
    ft_status status = ft_engine_forward(d->engine, &seg, 1, err);
    if (status != FT_OK)
        return status;
    d->stats.forwards++;
    d->stats.rows += n;
    if (want)
        *logits = ft_engine_logits(d->engine, seg.first_row);
    return ft_seq_commit(d->seq, d->count, n, NULL, 0, err);
}

/* Feeds at most max_tok of the text's tokens before `end`, in chunks. */
static ft_status feed_until(ft_drafter *d, uint32_t end, uint32_t max_tok, ft_error *err)
{
    ft_status status = FT_OK;
    uint32_t n_past = ft_seq_n_past(d->seq);
    while (status == FT_OK && n_past < end && max_tok > 0) {
        uint32_t n = end - n_past;
        n = n < d->max_batch ? n : d->max_batch;
        n = n < FEED_MAX ? n : FEED_MAX;
        n = n < max_tok ? n : max_tok;
        status = feed(d, n, false, err, NULL);
        n_past += n;
        max_tok -= n;
    }
    return status;
}

ft_status ft_drafter_prefill(ft_drafter *drafter, uint32_t max_tok, ft_error *err, uint32_t *left)
{
    ft_drafter *d = drafter;
    *left = 0;
    if (d->rooted || d->n_text == 0 || d->n_text > d->n_ctx)
        return FT_OK;
    ft_status status = feed_until(d, d->n_text - 1, max_tok, err);
    if (status == FT_EXHAUSTED) /* no room: draft() will draft nothing, which is no failure */
        return FT_OK;
    if (status == FT_OK)
        *left = d->n_text - 1 - ft_seq_n_past(d->seq);
    check(d);
    return status;
}

/* Scores to log-chances that the target chooses each candidate.
 *
 * The target will take the token with the largest log p + G, and G is known here: only p is not. The
 * draft's score log q + G misses the target's by log p - log q. If those errors were Gumbel noise of
 * scale 1 / sharpness, then the chance that candidate i ends first would be exactly the softmax of
 * sharpness * score, i.e. proportional to (q exp(G))^sharpness. q alone would be wrong: a likely
 * token with unlucky noise will not be drawn. The many candidates behind the ranked ones count as
 * `tail` times the last of these: little where the scores fall steeply, most where they are flat. At
 * temperature 0 there is no noise, the target takes its most probable token, and log q serves. */
static void estimate(const ft_drafter *d, ft_candidate *c, size_t n)
{
    float sum = 0;
    if (d->sampling.temperature == 0)
        return;
    for (size_t i = 0; i < n; i++)
        sum += expf(sharpness * (c[i].score - c[0].score));
    if (n == RANKED)
        sum += tail * expf(sharpness * (c[n - 1].score - c[0].score));
    float log_sum = logf(sum);
    for (size_t i = n; i-- > 0;)
        c[i].logp = sharpness * (c[i].score - c[0].score) - log_sum;
}

/* Adds the children of a node (-1: of the text's last token), given its logits. */
static void add_children(ft_drafter *d, int32_t parent, const float *logits, uint32_t branch)
{
    ft_candidate c[RANKED];
    uint32_t depth = parent < 0 ? 0 : d->pool[parent].depth + 1u;
    float cum = parent < 0 ? 0 : d->pool[parent].cum;
    size_t n = ft_sampler_rank(d->sampler, &d->sampling, logits, d->n_text + depth, c, RANKED);
    estimate(d, c, n);
    for (size_t i = 0; i < n && i < branch && d->n_pool < POOL_MAX; i++) {
        float logp = c[i].logp < 0 ? c[i].logp : 0; /* rounding may leave it just above */
        d->pool[d->n_pool++] = (pool_node){.token = c[i].token,
                                           .parent = parent,
                                           .logp = logp,
                                           .cum = cum + logp,
                                           .depth = (uint16_t)depth,
                                           .kv = -1};
    }
}

/* Computes what is missing of the text and the root's children. */
static ft_status make_root(ft_drafter *d, uint32_t branch, ft_error *err)
{
    const float *logits = NULL;
    uint32_t n_past = ft_seq_n_past(d->seq);
    uint32_t chunk = d->max_batch < FEED_MAX ? d->max_batch : FEED_MAX;
    ft_status status = FT_OK;
    if (d->n_text - n_past > chunk)
        status = feed_until(d, d->n_text - 1, UINT32_MAX, err);
    if (status == FT_OK)
        status = feed(d, d->n_text - ft_seq_n_past(d->seq), true, err, &logits);
    if (status != FT_OK)
        return status;
    d->rooted = true;
    add_children(d, -1, logits, branch);
    return FT_OK;
}

/* The best nodes of the pool by (cum, pool order), at most `budget` of them, none below min_logp:
 * what SpecEdge's appendix C keeps when it prunes to the tree budget. */
static uint32_t best_nodes(const ft_drafter *d, const ft_draft_params *params, uint16_t *best)
{
    uint32_t n = 0, budget = params->budget < FT_TREE_MAX ? params->budget : FT_TREE_MAX;
    for (uint32_t i = 0; i < d->n_pool; i++) {
        float cum = d->pool[i].cum;
        if (!(cum >= params->min_logp) || (n == budget && cum <= d->pool[best[n - 1]].cum))
            continue;
        uint32_t at = n < budget ? n++ : budget - 1;
        for (; at > 0 && d->pool[best[at - 1]].cum < cum; at--)
            best[at] = best[at - 1];
        best[at] = (uint16_t)i;
    }
    return n;
}

/* The leaves to compute next. Only those among the best nodes can have children in the tree, as a
 * child is never better than its parent; and where the tree is full, only those better than its
 * worst node. */
static uint32_t choose(const ft_drafter *d, const ft_draft_params *params, uint16_t *chosen)
{
    uint16_t best[FT_TREE_MAX];
    uint32_t n = 0, n_best = best_nodes(d, params, best);
    uint32_t budget = params->budget < FT_TREE_MAX ? params->budget : FT_TREE_MAX;
    uint32_t branch = params->branch < RANKED ? params->branch : RANKED;
    uint32_t most = params->width < WIDTH_MAX ? params->width : WIDTH_MAX;
    uint32_t room = FT_PENDING_MAX - ft_seq_n_pending(d->seq);
    most = most < d->max_batch ? most : d->max_batch;
    most = most < room ? most : room;
    room = branch > 0 ? (POOL_MAX - d->n_pool) / branch : 0;
    most = most < room ? most : room;
    for (uint32_t i = 0; i < n_best && n < most; i++) {
        const pool_node *node = &d->pool[best[i]];
        if (n_best == budget && node->cum <= d->pool[best[n_best - 1]].cum)
            break;
        if (node->kv < 0 && d->n_text + node->depth < d->n_ctx)
            chosen[n++] = best[i];
    }
    return n;
}

/* One forward of the draft model over chosen leaves; their children join the pool. */
static ft_status expand(ft_drafter *d, const uint16_t *chosen, uint32_t n, uint32_t branch,
                        ft_error *err)
{
    int32_t tokens[WIDTH_MAX], parents[WIDTH_MAX];
    uint64_t want = UINT64_MAX >> (64 - n);
    uint32_t first = ft_seq_n_pending(d->seq);
    for (uint32_t i = 0; i < n; i++) {
        const pool_node *node = &d->pool[chosen[i]];
        tokens[i] = node->token;
        parents[i] = node->parent < 0 ? -1 : d->pool[node->parent].kv;
    }
    ft_segment seg = {.seq = d->seq, .n = n, .tokens = tokens, .parent = parents, .want = &want};
    ft_status status = ft_engine_forward(d->engine, &seg, 1, err);
    if (status != FT_OK)
        return status;
    d->stats.forwards++;
    d->stats.rows += n;
    for (uint32_t i = 0; i < n; i++) {
        d->pool[chosen[i]].kv = (int16_t)(first + i);
        d->owner[first + i] = chosen[i];
        add_children(d, chosen[i], ft_engine_logits(d->engine, seg.first_row + i), branch);
    }
    return FT_OK;
}

static int by_number(const void *a, const void *b)
{
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

/* Hands out the best nodes as a tree, in pool order: parents before children. */
static void emit(ft_drafter *d, const ft_draft_params *params, ft_tree *tree)
{
    int16_t number[POOL_MAX]; /* in the tree, for nodes that are in it */
    d->n_emitted = best_nodes(d, params, d->emitted);
    qsort(d->emitted, d->n_emitted, sizeof *d->emitted, by_number);
    for (uint32_t i = 0; i < d->n_emitted; i++) {
        const pool_node *node = &d->pool[d->emitted[i]];
        int32_t parent = node->parent < 0 ? -1 : number[node->parent];
        number[d->emitted[i]] = (int16_t)ft_tree_add(tree, parent, node->token, node->logp);
    }
    d->stats.nodes += d->n_emitted;
}

ft_status ft_drafter_draft(ft_drafter *drafter, const ft_draft_params *params, ft_error *err,
                           ft_tree *tree)
{
    ft_drafter *d = drafter;
    uint16_t chosen[WIDTH_MAX];
    uint32_t forwards = 0, n;
    ft_status status = FT_OK;
    ft_tree_clear(tree);
    d->n_emitted = 0;
    if (params->budget == 0 || params->branch == 0 || d->n_text == 0 || d->n_text > d->n_ctx)
        return FT_OK;
    if (!d->rooted && params->depth > 0) {
        status = make_root(d, params->branch, err);
        forwards = 1;
    }
    while (status == FT_OK && forwards++ < params->depth && (n = choose(d, params, chosen)) > 0)
        status = expand(d, chosen, n, params->branch, err);
    check(d);
    /* A full KV pool ends the draft; what there is can still be verified. */
    if (status != FT_OK && status != FT_EXHAUSTED)
        return status;
    emit(d, params, tree);
    return FT_OK;
}

static int32_t find_child(const ft_drafter *d, int32_t parent, int32_t token)
{
    for (uint32_t i = (uint32_t)(parent + 1); i < d->n_pool; i++)
        if (d->pool[i].parent == parent && d->pool[i].token == token)
            return (int32_t)i;
    return -1;
}

/* Makes the descendants of `root` the pool, with the text's end moved to `root`; keep gets the old
 * pending numbers of those that are computed. */
static uint32_t reroot(ft_drafter *d, int32_t root, uint32_t *keep)
{
    int16_t moved[POOL_MAX]; /* new number, -1: gone */
    uint32_t n = 0, n_keep = 0, n_pending = ft_seq_n_pending(d->seq);
    uint32_t up = d->pool[root].depth + 1u;
    for (uint32_t i = 0; i < d->n_pool; i++) {
        pool_node node = d->pool[i];
        bool child = node.parent == root;
        moved[i] = -1;
        if (!child && (node.parent < 0 || moved[node.parent] < 0))
            continue;
        node.parent = child ? -1 : moved[node.parent];
        node.cum = node.logp + (child ? 0 : d->pool[node.parent].cum);
        node.depth = (uint16_t)(node.depth - up);
        moved[i] = (int16_t)n;
        d->pool[n++] = node;
    }
    for (uint32_t k = 0; k < n_pending; k++) {
        int16_t at = moved[d->owner[k]];
        if (at < 0)
            continue;
        d->pool[at].kv = (int16_t)n_keep;
        d->owner[n_keep] = (uint16_t)at;
        keep[n_keep++] = k;
    }
    d->n_pool = n;
    d->stats.reused_nodes += n_keep;
    return n_keep;
}

/* The verdict as a walk in the pool. nodes[] gets it; returns its length, which is less than n_path +
 * n_next where the target left the pool; -1: path is no path of the last tree. */
static int walk(const ft_drafter *d, const uint32_t *path, uint32_t n_path, const int32_t *next,
                uint32_t n_next, uint16_t *nodes)
{
    int32_t at = -1;
    int n = 0;
    for (uint32_t i = 0; i < n_path; i++) {
        if (path[i] >= d->n_emitted || d->pool[d->emitted[path[i]]].parent != at)
            return -1;
        at = nodes[n++] = d->emitted[path[i]];
    }
    for (uint32_t i = 0; i < n_next && (at = find_child(d, at, next[i])) >= 0; i++)
        nodes[n++] = (uint16_t)at;
    return n;
}

ft_status ft_drafter_advance(ft_drafter *drafter, const uint32_t *path, uint32_t n_path,
                             const int32_t *next, uint32_t n_next, ft_error *err)
{
    ft_drafter *d = drafter;
    uint16_t nodes[POOL_MAX];
    uint32_t kv[FT_PENDING_MAX], keep[FT_PENDING_MAX], n_kv = 0, n_keep = 0;
    int n = walk(d, path, n_path, next, n_next, nodes);
    if (n < 0)
        return ft_error_set(err, FT_INVALID, "drafter: the verdict's path is not in the last tree");
    ft_status status = n_next <= INT32_MAX - d->n_text - n_path
                           ? reserve_text(d, d->n_text + n_path + n_next, err)
                           : ft_error_set(err, FT_TOO_LARGE, "drafter: the text is too long");
    if (status != FT_OK || n_path + n_next == 0)
        return status;
    while (n_kv < (uint32_t)n && d->pool[nodes[n_kv]].kv >= 0) {
        kv[n_kv] = (uint32_t)d->pool[nodes[n_kv]].kv;
        n_kv++;
    }
    for (uint32_t i = 0; i < n_path; i++)
        d->text[d->n_text++] = d->pool[nodes[i]].token;
    for (uint32_t i = 0; i < n_next; i++)
        d->text[d->n_text++] = next[i];
    /* The tree lives on below the text's new end if that end was computed. */
    if (n_kv == n_path + n_next) {
        n_keep = reroot(d, nodes[n - 1], keep);
        d->n_emitted = 0;
    } else {
        drop_tree(d);
    }
    status = ft_seq_commit(d->seq, kv, n_kv, keep, n_keep, err);
    check(d);
    return status;
}
