// SPDX-License-Identifier: Apache-2.0
// The draft model as a source: requests become segments of the engine's passes, logits become
// ranked children. Invariants: n_past and n_pending are those of the engine's sequence; a text
// request leaves nothing pending.
//
// Requests are packed into as few passes as the engine's limits allow. If the KV pool cannot hold
// all of them, each half is tried alone, down to single requests. A single request without room
// gets FT_EXHAUSTED. The engine's owner thread calls everything. After creation only the engine's
// block tables allocate.
#include "spec/draft_engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

static_assert(FT_DRAFT_PENDING <= FT_PENDING_MAX, "pending nodes of a source are a sequence's");

typedef struct engine_source {
    ft_draft_source base;
    ft_engine *engine;
    ft_seq *seq;
    const ft_rule *rule;
    ft_rule_work *work, *own; /* own: NULL where it is borrowed */
    ft_sampling sampling;
    uint32_t *count; /* [max_text] 0, 1, 2, ...: the path of a chain */
    /* With penalties or a constraint; else NULL: */
    int32_t *text; /* [n_ctx] the tokens of n_past */
    struct {
        int32_t token, parent;
    } pending[FT_DRAFT_PENDING]; /* the pending nodes */
    int32_t path[FT_DRAFT_PENDING];
} engine_source;

/* ---- the past of a draw, which penalties and constraints need ---- */

/* Notes the tokens of a request that was computed. */
static void note(engine_source *s, const ft_draft_request *r)
{
    if (!s->text)
        return;
    if (!r->parents)
        memcpy(s->text + s->base.n_past, r->tokens, r->n * sizeof *r->tokens);
    for (uint32_t i = 0; r->parents && i < r->n; i++) {
        s->pending[s->base.n_pending + i].token = r->tokens[i];
        s->pending[s->base.n_pending + i].parent = r->parents[i];
    }
}

/* What stands before the token behind row i of a request that was noted. */
static ft_past past_of(engine_source *s, const ft_draft_request *r, uint32_t i)
{
    ft_past past = {.text = s->text, .n_text = s->base.n_past};
    if (!s->text)
        return past;
    if (!r->parents) {
        past.n_text += r->n;
        return past;
    }
    past.n_path = r->depths[i] + 1u;
    past.path = s->path;
    int32_t node = (int32_t)(s->base.n_pending + i);
    for (uint32_t at = past.n_path; at-- > 0; node = s->pending[node].parent)
        s->path[at] = s->pending[node].token;
    return past;
}

/* As ft_seq_commit: the path joins the text, and the kept nodes count anew. */
static void note_commit(engine_source *s, const uint32_t *path, uint32_t n_path,
                        const uint32_t *keep, uint32_t n_keep)
{
    int32_t number[FT_DRAFT_PENDING];
    if (!s->text)
        return;
    for (uint32_t i = 0; i < s->base.n_pending; i++)
        number[i] = -1; /* of the path's last node, too */
    for (uint32_t i = 0; i < n_path; i++)
        s->text[s->base.n_past + i] = s->pending[path[i]].token;
    for (uint32_t i = 0; i < n_keep; i++) { /* rising */
        const int32_t parent = s->pending[keep[i]].parent;
        number[keep[i]] = (int32_t)i;
        s->pending[i].token = s->pending[keep[i]].token;
        s->pending[i].parent = parent < 0 ? -1 : number[parent];
    }
}

static bool is_text(const ft_draft_request *r)
{
    return !r->parents;
}

/* Leaf i's row has logits. */
static bool is_wanted(const ft_draft_request *r, uint32_t i)
{
    return (r->unwanted >> i & 1) == 0;
}

static uint32_t n_wanted(const ft_draft_request *r)
{
    return is_text(r) ? r->children != NULL : r->n - (uint32_t)__builtin_popcountll(r->unwanted);
}

static ft_segment segment_of(const ft_draft_request *r, uint64_t *want)
{
    engine_source *s = (engine_source *)r->source;
    assert(r->n > 0 && r->n <= (is_text(r) ? r->source->max_text : r->source->max_leaves));
    assert(!is_text(r) || r->source->n_pending == 0);
    if (is_text(r)) {
        memset(want, 0, (r->n + 63) / 64 * sizeof *want);
        want[(r->n - 1) / 64] = UINT64_C(1) << ((r->n - 1) % 64);
    } else {
        *want = UINT64_MAX >> (64 - r->n) & ~r->unwanted;
    }
    return (ft_segment){.seq = s->seq,
                        .n = r->n,
                        .tokens = r->tokens,
                        .parent = r->parents,
                        .want = r->children && n_wanted(r) > 0 ? want : NULL};
}

/* Takes the results of a pass for one request. */
static ft_status take(ft_draft_request *r, uint32_t first_row, ft_error *err)
{
    engine_source *s = (engine_source *)r->source;
    const uint32_t n_rows = is_text(r) ? n_wanted(r) : r->n, n_past = r->source->n_past;
    note(s, r);
    for (uint32_t i = 0, row = first_row; i < n_rows; i++) {
        if (!is_wanted(r, i))
            continue;
        const ft_draw draw = {.sampling = &s->sampling,
                              .logits = ft_engine_logits(s->engine, row++),
                              .past = past_of(s, r, i),
                              .position = is_text(r) ? n_past + r->n : n_past + r->depths[i] + 1,
                              .round = r->round,
                              .resolution = r->resolution};
        s->rule->draw(s->rule, s->work, &draw, &r->children[i],
                      r->evidence ? r->evidence + (size_t)i * s->base.evidence_bytes : NULL);
    }
    r->status = FT_OK;
    if (!is_text(r)) {
        r->source->n_pending += r->n;
        return FT_OK;
    }
    r->source->n_past += r->n;
    return ft_seq_commit(s->seq, s->count, r->n, NULL, 0, err);
}

/* Words of all bitmaps of a pass: one for a request of leaves, several for one of text. */
#define WANT_WORDS (FT_DRAFT_BATCH + FT_DRAFT_FEED / 64)

/* One pass over requests within the engine's limits; smaller passes if the KV pool is short. */
static ft_status pass(ft_draft_request *requests, size_t n, ft_error *err)
{
    ft_engine *engine = ((engine_source *)requests->source)->engine;
    ft_segment segments[FT_DRAFT_BATCH];
    uint64_t want[WANT_WORDS], *at = want;
    for (size_t i = 0; i < n; i++) {
        segments[i] = segment_of(&requests[i], at);
        at += (requests[i].n + 63) / 64;
    }
    ft_error detail = {0};
    ft_status status = ft_engine_forward(engine, segments, n, &detail);
    if (status == FT_EXHAUSTED && n == 1) {
        requests->status = FT_EXHAUSTED;
        return FT_OK;
    }
    if (status == FT_EXHAUSTED) {
        status = pass(requests, n / 2, err);
        return status == FT_OK ? pass(requests + n / 2, n - n / 2, err) : status;
    }
    if (status != FT_OK)
        return ft_error_set(err, status, "%s", detail.message);
    for (size_t i = 0; status == FT_OK && i < n; i++)
        status = take(&requests[i], segments[i].first_row, err);
    return status;
}

static ft_status forward(ft_draft_request *requests, size_t n, ft_error *err)
{
    ft_engine *engine = ((engine_source *)requests->source)->engine;
    const uint32_t max_rows = ft_engine_max_batch_tok(engine);
    const uint32_t max_out = ft_engine_max_logits(engine);
    ft_status status = FT_OK;
    assert(n > 0 && n <= FT_DRAFT_BATCH);
    for (size_t i = 0; i < n; i++)
        requests[i].status = FT_INTERNAL; /* stays if an error prevents the pass */
    for (size_t first = 0, end; status == FT_OK && first < n; first = end) {
        uint32_t rows = requests[first].n, out = n_wanted(&requests[first]);
        uint32_t words = (requests[first].n + 63) / 64;
        for (end = first + 1; end < n; end++) {
            const ft_draft_request *r = &requests[end];
            rows += r->n;
            out += n_wanted(r);
            words += (r->n + 63) / 64;
            if (rows > max_rows || out > max_out || words > WANT_WORDS)
                break;
        }
        status = pass(requests + first, end - first, err);
    }
    return status;
}

static ft_status commit(ft_draft_source *source, const uint32_t *path, uint32_t n_path,
                        const uint32_t *keep, uint32_t n_keep, ft_error *err)
{
    engine_source *s = (engine_source *)source;
    note_commit(s, path, n_path, keep, n_keep);
    ft_status status = ft_seq_commit(s->seq, path, n_path, keep, n_keep, err);
    source->n_past = ft_seq_n_past(s->seq);
    source->n_pending = ft_seq_n_pending(s->seq);
    return status;
}

static void truncate_to(ft_draft_source *source, uint32_t n_past)
{
    engine_source *s = (engine_source *)source;
    ft_seq_truncate(s->seq, n_past);
    source->n_past = n_past;
    source->n_pending = 0;
}

static uint32_t room_tok(const ft_draft_source *source)
{
    const engine_source *s = (const engine_source *)source;
    ft_engine_stats stats;
    ft_engine_get_stats(s->engine, &stats);
    /* One block less: a few more tokens of a sequence may lie in one block more. */
    return stats.blocks_free > 0 ? (stats.blocks_free - 1) * FT_KV_BLOCK_TOK : 0;
}

static void destroy(ft_draft_source *source)
{
    engine_source *s = (engine_source *)source;
    if (s->seq)
        ft_seq_destroy(s->seq);
    ft_rule_work_destroy(s->own);
    free(s->count);
    free(s->text);
    free(s);
}

static const ft_draft_source_ops ops = {.destroy = destroy,
                                        .forward = forward,
                                        .commit = commit,
                                        .truncate = truncate_to,
                                        .room_tok = room_tok};

static ft_status create_parts(engine_source *s, uint32_t n_vocab, ft_error *err)
{
    const ft_rule *const rules[] = {s->rule, NULL};
    ft_status status = FT_OK;
    s->count = calloc(s->base.max_text, sizeof *s->count);
    if (!s->count)
        return ft_error_set(err, FT_NOMEM, "drafter: out of memory");
    for (uint32_t i = 0; i < s->base.max_text; i++)
        s->count[i] = i;
    if ((s->sampling.penalties || s->sampling.matcher) &&
        !(s->text = calloc(s->base.n_ctx + FT_DRAFT_PENDING, sizeof *s->text)))
        return ft_error_set(err, FT_NOMEM, "drafter: out of memory");
    if (!s->work) {
        status = ft_rule_work_create(rules, n_vocab, err, &s->own);
        s->work = s->own;
    }
    return status == FT_OK ? ft_seq_create(s->engine, err, &s->seq) : status;
}

ft_status ft_draft_engine_source(ft_engine *engine, const ft_rule *rule, ft_rule_work *work,
                                 const ft_sampling *s, ft_error *err, ft_draft_source **out)
{
    const ft_hparams *hp = ft_model_hparams(ft_engine_model(engine));
    const uint32_t max_rows = ft_engine_max_batch_tok(engine);
    ft_engine_stats stats;
    *out = NULL;
    ft_status status = ft_sampling_check(s, err);
    if (status != FT_OK)
        return status;
    engine_source *source = calloc(1, sizeof *source);
    if (!source)
        return ft_error_set(err, FT_NOMEM, "drafter: out of memory");
    ft_engine_get_stats(engine, &stats);
    const ft_rule_terms terms = rule->terms(rule, hp->n_vocab, s);
    source->base =
        (ft_draft_source){.ops = &ops,
                          .group = engine,
                          .n_ctx = hp->n_ctx_train,
                          .n_vocab = hp->n_vocab,
                          .max_text = ft_min_u32(max_rows, FT_DRAFT_FEED),
                          /* leaves all need logits */
                          .max_leaves = ft_min_u32(
                              ft_min_u32(max_rows, ft_engine_max_logits(engine)), FT_DRAFT_LEAVES),
                          .evidence_bytes = terms.evidence_bytes,
                          .by_round = terms.by_round,
                          .total_tok = stats.blocks * FT_KV_BLOCK_TOK};
    source->engine = engine;
    source->rule = rule;
    source->work = work;
    source->sampling = *s;
    status = create_parts(source, hp->n_vocab, err);
    if (status != FT_OK) {
        destroy(&source->base);
        return status;
    }
    *out = &source->base;
    return FT_OK;
}
