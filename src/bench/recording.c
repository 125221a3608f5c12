// SPDX-License-Identifier: Apache-2.0
// Recorded drafts: a table shared by all, and sources that look there before they ask the draft
// model.
//
// A source keeps its text and a chain of hashes over it: h(text + token) = SipHash(h(text), token),
// with the sampling as key. Its pending nodes have hashes too. The model's own source follows
// lazily, and is brought up only where something is missing. Invariants:
//   1. the model's committed tokens are the first of the text, model->n_past <= n_past of them;
//   2. the model has pending nodes only where both have the same n_past; in_model[k] is the model's
//      number of pending node k, or -1; with a node its ancestors are in the model;
//   3. all use of a source's model happens under the recording's model_lock.
// A model's source that nobody needs rests with its text. Who drafts for that text again goes on
// with it, and need not have the prompt read a second time.
// So a recording that is being filled costs what drafting costs, and one that is full nothing but
// the look-ups. Allocates when the table grows, never in a full recording.
#include "bench/recording.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "base/sort.h"
#include "bench/recording_table.h"
#include "spec/rule.h"

#define RESTING_MAX 64

/* A model's source that nobody uses. */
typedef struct resting {
    ft_draft_source *model;
    const ft_rule *rule;
    uint8_t key[16];
    int32_t *text; /* [model->n_past], owned */
} resting;

struct ft_recording {
    uint32_t most;
    ft_draft_source limits; /* of the model's sources */
    atomic_uint_fast64_t hits, misses;

    pthread_mutex_t model_lock;    /* guards the model and all sources made of it */
    ft_draft_source_factory model; /* create == NULL: none any more */
    resting rests[RESTING_MAX];    /* [n_rests], the oldest first */
    uint32_t n_rests;

    pthread_rwlock_t table_lock; /* guards what follows */
    ft_recording_table table;
    uint64_t lost;
};

typedef struct node {
    uint64_t hash; /* of the text up to it */
    uint64_t slot; /* of its children in the table: that, and the round where draws depend on it */
    int32_t token, parent; /* parent: pending, -1: the text's last token */
    int16_t in_model;
    uint16_t depth;
} node;

typedef struct recorded {
    ft_draft_source base;
    ft_recording *recording;
    const ft_rule *rule;
    ft_sampling sampling;
    uint8_t
        *evidence; /* [FT_DRAFT_LEAVES, base.evidence_bytes]: the model's; NULL: there is none */
    uint8_t key[16];
    ft_draft_source *model; /* NULL: not needed so far */
    node pending[FT_DRAFT_PENDING];
    int32_t *text;  /* [n_ctx] */
    uint64_t *hash; /* [n_ctx + 1] of the text's first i tokens */
} recorded;

/* ---- the recording ---- */

ft_status ft_recording_create(const ft_draft_source_factory *model, uint32_t most, ft_error *err,
                              ft_recording **out)
{
    ft_sampling greedy = ft_sampling_default();
    ft_draft_source *first;
    *out = NULL;
    ft_status status = model->create(model->ctx, *ft_rules_default, &greedy, err, &first);
    if (status != FT_OK)
        return status;
    ft_recording *r = calloc(1, sizeof *r);
    if (r) {
        r->most = most > 0 && most < FT_DRAFT_RANKED ? most : FT_DRAFT_RANKED;
        r->limits = *first;
        r->model = *model;
        pthread_mutex_init(&r->model_lock, NULL);
        pthread_rwlock_init(&r->table_lock, NULL);
    }
    ft_draft_source_destroy(first);
    *out = r;
    return r ? FT_OK : ft_error_set(err, FT_NOMEM, "recording: out of memory");
}

/* Takes the one with this number out of the list. */
static resting take_resting(ft_recording *r, uint32_t at)
{
    const resting it = r->rests[at];
    memmove(r->rests + at, r->rests + at + 1, (--r->n_rests - at) * sizeof it);
    return it;
}

/* False: there was none. */
static bool drop_oldest(ft_recording *r)
{
    if (r->n_rests == 0)
        return false;
    const resting it = take_resting(r, 0);
    ft_draft_source_destroy(it.model);
    free(it.text);
    return true;
}

void ft_recording_destroy(ft_recording *recording)
{
    if (!recording)
        return;
    while (drop_oldest(recording)) {
    }
    ft_recording_table_deinit(&recording->table);
    pthread_mutex_destroy(&recording->model_lock);
    pthread_rwlock_destroy(&recording->table_lock);
    free(recording);
}

void ft_recording_drop_model(ft_recording *recording)
{
    pthread_mutex_lock(&recording->model_lock);
    recording->model.create = NULL;
    while (drop_oldest(recording)) {
    }
    pthread_mutex_unlock(&recording->model_lock);
}

void ft_recording_get_stats(ft_recording *recording, ft_recording_stats *out)
{
    pthread_rwlock_rdlock(&recording->table_lock);
    *out = (ft_recording_stats){.nodes = recording->table.n,
                                .hits = atomic_load(&recording->hits),
                                .misses = atomic_load(&recording->misses),
                                .lost = recording->lost,
                                .bytes = ft_recording_table_bytes(&recording->table)};
    pthread_rwlock_unlock(&recording->table_lock);
}

static uint64_t extend(const recorded *s, uint64_t hash, int32_t token)
{
    unsigned char both[sizeof hash + sizeof token];
    memcpy(both, &hash, sizeof hash);
    memcpy(both + sizeof hash, &token, sizeof token);
    return ft_siphash(s->key, both, sizeof both);
}

/* Where the table has the children behind a text of this hash, as the request wants them. */
static uint64_t slot_of(const recorded *s, uint64_t hash, const ft_draft_request *r)
{
    if (!s->base.by_round)
        return hash;
    return extend(s, extend(s, hash, (int32_t)r->round), (int32_t)r->resolution);
}

static uint8_t *evidence_at(uint8_t *all, const ft_draft_source *source, uint32_t i)
{
    return all ? all + (size_t)i * source->evidence_bytes : NULL;
}

/* Children in n slots; returns how many were not there, whose numbers are missing[]. */
static uint32_t look_up(recorded *s, const uint64_t *slot, uint32_t n, ft_draft_request *request,
                        uint32_t *missing)
{
    ft_recording *r = s->recording;
    uint32_t n_missing = 0;
    pthread_rwlock_rdlock(&r->table_lock);
    for (uint32_t i = 0; i < n; i++) {
        if (ft_recording_table_find(&r->table, slot[i], &request->children[i],
                                    evidence_at(request->evidence, &s->base, i)))
            continue;
        request->children[i] = (ft_draft_children){0};
        missing[n_missing++] = i;
    }
    pthread_rwlock_unlock(&r->table_lock);
    atomic_fetch_add(&r->hits, n - n_missing);
    atomic_fetch_add(&r->misses, n_missing);
    return n_missing;
}

/* The children get no more than a replay would give. */
static void learn(ft_recording *r, uint64_t slot, ft_draft_children *children,
                  const uint8_t *evidence)
{
    children->n = children->n < r->most ? children->n : r->most;
    pthread_rwlock_wrlock(&r->table_lock);
    r->lost += !ft_recording_table_add(&r->table, slot, children, evidence, r->most);
    pthread_rwlock_unlock(&r->table_lock);
}

/* ---- the model, under model_lock ---- */

static uint32_t n_common(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b)
{
    uint32_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n])
        n++;
    return n;
}

/* Goes on with the resting source that has most of the text's first n tokens, if one has at least
 * half of them: one with less is better left for its own text. */
static void wake(recorded *s, uint32_t n_wanted)
{
    ft_recording *r = s->recording;
    uint32_t most = 0, at = 0;
    for (uint32_t i = 0; i < r->n_rests; i++) {
        const resting *it = &r->rests[i];
        const uint32_t n = n_common(it->text, it->model->n_past, s->text, n_wanted);
        if (n > most && it->rule == s->rule && memcmp(it->key, s->key, sizeof s->key) == 0) {
            most = n;
            at = i;
        }
    }
    if (most == 0 || 2 * most < n_wanted)
        return;
    const resting it = take_resting(r, at);
    free(it.text);
    s->model = it.model;
    s->model->ops->truncate(s->model, most);
}

/* The source is done: its model rests, with the text that it has read. */
static void rest(recorded *s)
{
    ft_recording *r = s->recording;
    if (!r->model.create || s->model->n_past == 0) {
        ft_draft_source_destroy(s->model);
        return;
    }
    if (r->n_rests == RESTING_MAX)
        drop_oldest(r);
    s->model->ops->truncate(s->model, s->model->n_past);
    r->rests[r->n_rests] = (resting){.model = s->model, .rule = s->rule, .text = s->text};
    memcpy(r->rests[r->n_rests++].key, s->key, sizeof s->key);
    s->text = NULL;
}

/* It need not read the first n tokens if somebody else's has. */
static ft_status need_model(recorded *s, uint32_t n, ft_error *err)
{
    const ft_draft_source_factory *model = &s->recording->model;
    if (!s->model)
        wake(s, n);
    return s->model ? FT_OK : model->create(model->ctx, s->rule, &s->sampling, err, &s->model);
}

/* Resting sources make room. FT_EXHAUSTED: there is none even so. */
static ft_status model_forward(recorded *s, ft_draft_request *request, ft_error *err)
{
    ft_status status;
    request->source = s->model;
    do {
        status = s->model->ops->forward(request, 1, err);
        status = status != FT_OK ? status : request->status;
    } while (status == FT_EXHAUSTED && drop_oldest(s->recording));
    return status;
}

/* Brings the model's text up to `n` tokens; the children behind the last one as the request has
 * them, or NULL: not wanted. */
static ft_status model_feed(recorded *s, uint32_t n, const ft_draft_request *wanted, ft_error *err)
{
    ft_status status = FT_OK;
    while (status == FT_OK && s->model->n_past < n) {
        uint32_t rest = n - s->model->n_past, max = s->model->max_text;
        ft_draft_request r = {0};
        if (wanted && rest <= max)
            r = *wanted;
        r.n = rest < max ? rest : max;
        r.tokens = s->text + s->model->n_past;
        status = model_forward(s, &r, err);
    }
    return status;
}

static void model_forget(recorded *s, uint32_t n_past)
{
    for (uint32_t k = 0; k < FT_DRAFT_PENDING; k++)
        s->pending[k].in_model = -1;
    s->model->ops->truncate(s->model, n_past);
}

/* Computes the pending nodes nodes[n], whose ancestors are in the model or among them; the request
 * gets the children of its own, which are the last, and the table learns them. */
static ft_status model_nodes(recorded *s, const uint32_t *nodes, uint32_t n,
                             const ft_draft_request *wanted, ft_error *err)
{
    const uint32_t first = s->base.n_pending;
    int32_t tokens[FT_DRAFT_LEAVES], parents[FT_DRAFT_LEAVES];
    uint16_t depths[FT_DRAFT_LEAVES];
    ft_draft_children got[FT_DRAFT_LEAVES];
    for (uint32_t i = 0; i < n; i++) {
        node *at = &s->pending[nodes[i]];
        at->in_model = (int16_t)(s->model->n_pending + i);
        tokens[i] = at->token;
        parents[i] = at->parent < 0 ? -1 : s->pending[at->parent].in_model;
        depths[i] = at->depth;
    }
    ft_draft_request r = {.n = n,
                          .tokens = tokens,
                          .parents = parents,
                          .depths = depths,
                          .children = got,
                          .round = wanted->round,
                          .resolution = wanted->resolution,
                          .evidence = s->evidence};
    ft_status status = model_forward(s, &r, err);
    for (uint32_t i = 0; status == FT_OK && i < n; i++) {
        const uint8_t *evidence = evidence_at(s->evidence, &s->base, i);
        /* The table has those above. Under some rules they were drawn for another round. */
        if (nodes[i] >= first || !s->base.by_round)
            learn(s->recording, s->pending[nodes[i]].slot, &got[i], evidence);
        if (nodes[i] < first)
            continue;
        wanted->children[nodes[i] - first] = got[i];
        if (got[i].n_evidence > 0)
            memcpy(evidence_at(wanted->evidence, &s->base, nodes[i] - first), evidence,
                   got[i].n_evidence);
    }
    return status;
}

/* Has the model compute the request's nodes missing[n] and what it lacks above them. */
static ft_status model_leaves(recorded *s, const uint32_t *missing, uint32_t n,
                              const ft_draft_request *wanted, ft_error *err)
{
    bool need[FT_DRAFT_PENDING] = {false};
    uint32_t nodes[FT_DRAFT_PENDING], n_nodes = 0, max = s->model->max_leaves;
    ft_status status = model_feed(s, s->base.n_past, NULL, err);
    for (uint32_t i = 0; i < n; i++)
        for (int32_t k = (int32_t)(s->base.n_pending + missing[i]);
             k >= 0 && s->pending[k].in_model < 0; k = s->pending[k].parent)
            need[k] = true;
    for (uint32_t k = 0; k < FT_DRAFT_PENDING; k++)
        if (need[k])
            nodes[n_nodes++] = k;
    for (uint32_t i = 0; status == FT_OK && i < n_nodes; i += max)
        status = model_nodes(s, nodes + i, n_nodes - i < max ? n_nodes - i : max, wanted, err);
    if (status != FT_OK) /* whatever got there, the next call begins anew */
        model_forget(s, s->model->n_past);
    return status;
}

/* ---- a source ---- */

/* Has the model read text[0, n) and say what follows. */
static ft_status ask_text(recorded *s, uint32_t n, uint64_t slot, const ft_draft_request *r,
                          ft_error *err)
{
    ft_status status = FT_OK;
    pthread_mutex_lock(&s->recording->model_lock);
    if (s->recording->model.create) {
        status = need_model(s, n - 1, err);
        if (status == FT_OK)
            status = model_feed(s, n, r, err);
        if (status == FT_OK)
            learn(s->recording, slot, r->children, r->evidence);
        else if (s->model && s->model->n_past > s->base.n_past)
            model_forget(s, s->base.n_past);
    }
    pthread_mutex_unlock(&s->recording->model_lock);
    return status;
}

static ft_status text_request(recorded *s, ft_draft_request *r, ft_error *err)
{
    const uint32_t n_past = s->base.n_past, n = n_past + r->n;
    uint32_t missing;
    ft_status status = FT_OK;
    assert(s->base.n_pending == 0 && n <= s->base.n_ctx);
    for (uint32_t i = 0; i < r->n; i++) {
        s->text[n_past + i] = r->tokens[i];
        s->hash[n_past + i + 1] = extend(s, s->hash[n_past + i], r->tokens[i]);
    }
    const uint64_t slot = slot_of(s, s->hash[n], r);
    if (r->children && look_up(s, &slot, 1, r, &missing) > 0)
        status = ask_text(s, n, slot, r, err);
    if (status == FT_OK)
        s->base.n_past = n;
    return status;
}

static ft_status ask_leaves(recorded *s, const uint32_t *missing, uint32_t n, ft_draft_request *r,
                            ft_error *err)
{
    ft_status status = FT_OK;
    pthread_mutex_lock(&s->recording->model_lock);
    if (s->recording->model.create) {
        status = need_model(s, s->base.n_past, err);
        if (status == FT_OK)
            status = model_leaves(s, missing, n, r, err);
    }
    pthread_mutex_unlock(&s->recording->model_lock);
    return status;
}

static ft_status leaves_request(recorded *s, ft_draft_request *r, ft_error *err)
{
    uint64_t slot[FT_DRAFT_LEAVES];
    uint32_t missing[FT_DRAFT_LEAVES], first = s->base.n_pending;
    ft_status status = FT_OK;
    assert(r->n <= s->base.max_leaves && first + r->n <= FT_DRAFT_PENDING);
    for (uint32_t i = 0; i < r->n; i++) {
        int32_t parent = r->parents[i];
        assert(parent < (int32_t)(first + i));
        const uint64_t hash =
            extend(s, parent < 0 ? s->hash[s->base.n_past] : s->pending[parent].hash, r->tokens[i]);
        slot[i] = slot_of(s, hash, r);
        s->pending[first + i] = (node){.hash = hash,
                                       .slot = slot[i],
                                       .token = r->tokens[i],
                                       .parent = parent,
                                       .depth = r->depths[i],
                                       .in_model = -1};
    }
    uint32_t n_missing = look_up(s, slot, r->n, r, missing);
    if (n_missing > 0)
        status = ask_leaves(s, missing, n_missing, r, err);
    if (status == FT_OK)
        s->base.n_pending += r->n;
    return status;
}

static ft_status forward(ft_draft_request *requests, size_t n, ft_error *err)
{
    ft_status status = FT_OK;
    for (size_t i = 0; i < n; i++)
        requests[i].status = FT_INTERNAL;
    for (size_t i = 0; status == FT_OK && i < n; i++) {
        recorded *s = (recorded *)requests[i].source;
        assert(requests[i].n > 0);
        status = requests[i].parents ? leaves_request(s, &requests[i], err)
                                     : text_request(s, &requests[i], err);
        if (status == FT_OK || status == FT_EXHAUSTED) {
            requests[i].status = status;
            status = FT_OK;
        }
    }
    return status;
}

static bool before(const void *ctx, const void *a, const void *b)
{
    const node *pending = ctx;
    return pending[*(const uint32_t *)a].in_model < pending[*(const uint32_t *)b].in_model;
}

/* The same commit in the model, as far as it has the nodes; in_model becomes what it is
 * afterwards. */
static ft_status model_commit(recorded *s, const uint32_t *path, uint32_t n_path,
                              const uint32_t *keep, uint32_t n_keep, ft_error *err)
{
    uint32_t model_path[FT_DRAFT_PENDING], nodes[FT_DRAFT_PENDING], model_keep[FT_DRAFT_PENDING];
    uint32_t n_in = 0, n_kept = 0;
    for (; n_in < n_path && s->pending[path[n_in]].in_model >= 0; n_in++)
        model_path[n_in] = (uint32_t)s->pending[path[n_in]].in_model;
    for (uint32_t i = 0; n_in == n_path && i < n_keep; i++)
        if (s->pending[keep[i]].in_model >= 0)
            nodes[n_kept++] = keep[i];
    ft_sort(nodes, n_kept, sizeof *nodes, before, s->pending);
    for (uint32_t i = 0; i < n_kept; i++)
        model_keep[i] = (uint32_t)s->pending[nodes[i]].in_model;
    for (uint32_t k = 0; k < s->base.n_pending; k++)
        s->pending[k].in_model = -1;
    for (uint32_t i = 0; i < n_kept; i++)
        s->pending[nodes[i]].in_model = (int16_t)i;
    return s->model->ops->commit(s->model, model_path, n_in, model_keep, n_kept, err);
}

static ft_status commit(ft_draft_source *source, const uint32_t *path, uint32_t n_path,
                        const uint32_t *keep, uint32_t n_keep, ft_error *err)
{
    recorded *s = (recorded *)source;
    int16_t moved[FT_DRAFT_PENDING]; /* new number of the kept, -1 for the others */
    ft_status status = FT_OK;
    assert(source->n_past + n_path <= source->n_ctx);
    if (s->model && s->model->n_past == source->n_past) {
        pthread_mutex_lock(&s->recording->model_lock);
        status = model_commit(s, path, n_path, keep, n_keep, err);
        pthread_mutex_unlock(&s->recording->model_lock);
    }
    if (status != FT_OK)
        return status;
    memset(moved, -1, sizeof moved);
    for (uint32_t i = 0; i < n_path; i++) {
        s->text[source->n_past] = s->pending[path[i]].token;
        s->hash[++source->n_past] = s->pending[path[i]].hash;
    }
    for (uint32_t i = 0; i < n_keep; i++) {
        node *kept = &s->pending[i];
        assert(keep[i] >= i && keep[i] < source->n_pending);
        *kept = s->pending[keep[i]];
        /* roots of what is kept hang on the last of path */
        kept->parent = kept->parent < 0 ? -1 : moved[kept->parent];
        kept->depth = (uint16_t)(kept->depth - n_path);
        moved[keep[i]] = (int16_t)i;
    }
    source->n_pending = n_keep;
    return FT_OK;
}

static void truncate_to(ft_draft_source *source, uint32_t n_past)
{
    recorded *s = (recorded *)source;
    source->n_past = n_past;
    source->n_pending = 0;
    if (!s->model)
        return;
    pthread_mutex_lock(&s->recording->model_lock);
    model_forget(s, n_past < s->model->n_past ? n_past : s->model->n_past);
    pthread_mutex_unlock(&s->recording->model_lock);
}

static uint32_t room_tok(const ft_draft_source *source)
{
    return UINT32_MAX;
}

static void destroy(ft_draft_source *source)
{
    recorded *s = (recorded *)source;
    if (s->model) {
        pthread_mutex_lock(&s->recording->model_lock);
        rest(s);
        pthread_mutex_unlock(&s->recording->model_lock);
    }
    free(s->text);
    free(s->hash);
    free(s->evidence);
    free(s);
}

static const ft_draft_source_ops ops = {.destroy = destroy,
                                        .forward = forward,
                                        .commit = commit,
                                        .truncate = truncate_to,
                                        .room_tok = room_tok};

/* Children depend on rule and sampling: they are the key of the hash. Greedy ones depend on nothing
 * of the sampling. */
static void key_of(const ft_rule *rule, const ft_sampling *s, uint8_t key[16])
{
    struct {
        float temperature, top_p, min_p;
        int32_t top_k;
    } filters = {s->temperature, s->top_p, s->min_p, s->top_k};
    const uint64_t halves[2] = {s->seed, ft_fnv64(FT_FNV64_INIT, &filters, sizeof filters)};
    memset(key, 0, 16);
    if (s->temperature != 0)
        memcpy(key, halves, 16);
    for (int i = 0; i < 4; i++)
        key[i] ^= (uint8_t)(rule->id >> (8 * i));
}

ft_status ft_recording_source(ft_recording *recording, const ft_rule *rule, const ft_sampling *s,
                              ft_error *err, ft_draft_source **out)
{
    const uint32_t n_ctx = recording->limits.n_ctx;
    *out = NULL;
    ft_status status = ft_sampling_check(s, err);
    if (status != FT_OK)
        return status;
    recorded *source = calloc(1, sizeof *source);
    if (!source)
        return ft_error_set(err, FT_NOMEM, "recording: out of memory");
    source->base = recording->limits;
    source->base.ops = &ops;
    source->base.group = recording;
    source->base.total_tok = UINT32_MAX;
    const ft_rule_terms terms = rule->terms(rule, recording->limits.n_vocab, s);
    source->base.evidence_bytes = terms.evidence_bytes;
    source->recording = recording;
    source->rule = rule;
    source->sampling = *s;
    source->base.by_round = terms.by_round;
    key_of(rule, s, source->key);
    if (terms.evidence_bytes > 0)
        source->evidence = calloc(FT_DRAFT_LEAVES, terms.evidence_bytes);
    source->text = calloc(n_ctx, sizeof *source->text);
    source->hash = calloc((size_t)n_ctx + 1, sizeof *source->hash);
    if (!source->text || !source->hash || (terms.evidence_bytes > 0 && !source->evidence)) {
        destroy(&source->base);
        return ft_error_set(err, FT_NOMEM, "recording: out of memory for %u tokens", n_ctx);
    }
    *out = &source->base;
    return FT_OK;
}
