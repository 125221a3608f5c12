// SPDX-License-Identifier: Apache-2.0
// What all verification rules share: workspaces, the form of evidence, the check of a draft.
// Evidence comes from outside: nothing is read past its end. No state. Draws nothing and walks
// nothing; that is each rule's own (rule_exact.c, rule_ratio.c).
#include "spec/rule.h"

#include <stdlib.h>

#include "spec/constrained.h"

#define LENGTH_MAX_BYTES 3 /* of a node's evidence length as a varint */

ft_status ft_rule_work_create(const ft_rule *const *rules, uint32_t n_vocab, ft_error *err,
                              ft_rule_work **out)
{
    size_t scratch = 0;
    for (; *rules; rules++) {
        size_t bytes = (*rules)->scratch_bytes ? (*rules)->scratch_bytes(*rules, n_vocab) : 0;
        scratch = bytes > scratch ? bytes : scratch;
    }
    ft_rule_work *work = calloc(1, sizeof *work);
    *out = NULL;
    if (!work)
        return ft_error_set(err, FT_NOMEM, "rule: out of memory");
    work->n_vocab = n_vocab;
    ft_status status = ft_sampler_create(n_vocab, err, &work->sampler);
    if (status == FT_OK)
        status = ft_penalizer_init(&work->penalizer, n_vocab, err);
    if (status == FT_OK && !(work->room = calloc(n_vocab, sizeof *work->room)))
        status = ft_error_set(err, FT_NOMEM, "rule: out of memory");
    if (status == FT_OK && scratch > 0 && !(work->scratch = calloc(1, scratch)))
        status = ft_error_set(err, FT_NOMEM, "rule: out of memory for %zu bytes", scratch);
    if (status != FT_OK) {
        ft_rule_work_destroy(work);
        return status;
    }
    *out = work;
    return FT_OK;
}

void ft_rule_work_destroy(ft_rule_work *work)
{
    if (!work)
        return;
    ft_sampler_destroy(work->sampler);
    ft_penalizer_deinit(&work->penalizer);
    free(work->room);
    free(work->scratch);
    free(work);
}

/* ---- logits ---- */

const float *ft_rule_draw_logits(ft_rule_work *work, const ft_draw *draw)
{
    const float *logits = ft_penalize(&work->penalizer, draw->sampling, &draw->past, draw->logits);
    if (!draw->sampling->matcher || !ft_constrained_follow(draw->sampling, &draw->past))
        return logits;
    return ft_constrained_logits(work->sampler, work->n_vocab, work->room, draw->sampling->matcher,
                                 logits);
}

/* What stands before the walk's next token. path: [FT_TREE_MAX] */
static ft_past past_of(const ft_drafted *draft, const ft_verified *found, int32_t *path)
{
    for (uint32_t i = 0; i < found->n_path; i++)
        path[i] = draft->tree->token[found->path[i]];
    return (ft_past){
        .text = draft->text, .n_text = draft->position, .path = path, .n_path = found->n_path};
}

const float *ft_rule_walk_logits(ft_rule_work *work, const ft_drafted *draft,
                                 const ft_verified *found, const float *logits)
{
    int32_t path[FT_TREE_MAX];
    if (!draft->sampling->penalties)
        return logits;
    const ft_past past = past_of(draft, found, path);
    return ft_penalize(&work->penalizer, draft->sampling, &past, logits);
}

int32_t ft_rule_walk_token(ft_rule_work *work, const ft_drafted *draft, const ft_verified *found,
                           const float *logits)
{
    const ft_sampling *s = draft->sampling;
    const uint32_t position = draft->position + found->n_path;
    int32_t path[FT_TREE_MAX];
    if (!s->matcher)
        return ft_sampler_draw(work->sampler, s, logits, position);
    const ft_past past = past_of(draft, found, path);
    if (!ft_constrained_follow(s, &past)) /* behind an end that nothing but the end could follow */
        return ft_matcher_end(s->matcher);
    return ft_constrained_draw(work->sampler, work->n_vocab, work->room, s, logits, position);
}

/* ---- evidence ---- */

ft_status ft_evidence_append(ft_buf *out, const uint8_t *evidence, uint32_t n)
{
    uint8_t length[LENGTH_MAX_BYTES];
    size_t n_length = 0;
    for (uint32_t left = n; n_length == 0 || left > 0; left >>= 7) {
        length[n_length] = (uint8_t)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
        n_length++;
    }
    ft_status status = ft_buf_reserve(out, n_length + n);
    if (status == FT_OK)
        status = ft_buf_append(out, length, n_length);
    return status == FT_OK ? ft_buf_append(out, evidence, n) : status;
}

/* The evidence at *at, which moves behind it; NULL: there is no whole one. */
static const uint8_t *next_evidence(const ft_drafted *d, uint32_t *at, uint32_t *n)
{
    *n = 0;
    for (uint32_t i = 0; i < LENGTH_MAX_BYTES && *at < d->n_evidence; i++) {
        const uint8_t byte = d->evidence[(*at)++];
        *n |= (uint32_t)(byte & 0x7f) << (7 * i);
        if (byte & 0x80)
            continue;
        if (*n > d->n_evidence - *at)
            return NULL;
        *at += *n;
        return d->evidence + *at - *n;
    }
    return NULL;
}

const uint8_t *ft_evidence_of(const ft_drafted *draft, uint32_t node, uint32_t *n)
{
    uint32_t at = 0;
    const uint8_t *evidence = next_evidence(draft, &at, n);
    for (uint32_t i = 0; evidence && i < node; i++)
        evidence = next_evidence(draft, &at, n);
    return evidence;
}

size_t ft_evidence_most(const ft_rule *const *rules, uint32_t n_vocab, uint32_t n_nodes)
{
    size_t most = 0;
    for (; *rules; rules++) {
        const ft_rule_terms terms = (*rules)->terms(*rules, n_vocab, NULL);
        size_t node = terms.evidence_bytes ? LENGTH_MAX_BYTES + (size_t)terms.evidence_bytes : 0;
        most = node > most ? node : most;
    }
    return most * n_nodes;
}

uint32_t ft_evidence_nodes(const ft_rule_terms *terms, uint32_t max_bytes)
{
    return terms->evidence_bytes ? max_bytes / (LENGTH_MAX_BYTES + terms->evidence_bytes)
                                 : UINT32_MAX;
}

static ft_status check_evidence(const ft_rule *rule, const ft_rule_terms *terms,
                                const ft_drafted *draft, ft_error *err)
{
    uint32_t at = 0, n;
    for (uint32_t i = 0; i < draft->tree->n; i++) {
        const uint8_t *evidence = next_evidence(draft, &at, &n);
        if (!evidence)
            return ft_error_set(err, FT_INVALID,
                                "the evidence (%u bytes) ends in that of node %u of %u",
                                draft->n_evidence, i, draft->tree->n);
        if (n > terms->evidence_bytes)
            return ft_error_set(err, FT_INVALID, "the evidence of node %u has %u bytes, at most %u",
                                i, n, terms->evidence_bytes);
        const char *wrong = rule->check ? rule->check(rule, draft, evidence, n) : NULL;
        if (wrong)
            return ft_error_set(err, FT_INVALID, "the evidence of node %u: %s", i, wrong);
    }
    if (at < draft->n_evidence)
        return ft_error_set(err, FT_INVALID, "%u bytes of evidence behind that of the last node",
                            draft->n_evidence - at);
    return FT_OK;
}

ft_status ft_rule_check(const ft_rule *rule, const ft_rule_terms *terms, const ft_drafted *draft,
                        ft_error *err)
{
    const ft_tree *tree = draft->tree;
    for (uint32_t i = 0; i < tree->n && !terms->trees; i++)
        if (tree->parent[i] != (int32_t)i - 1)
            return ft_error_set(err, FT_INVALID,
                                "rule %s verifies chains: node %u does not hang on the one before",
                                rule->name, i);
    if (terms->evidence_bytes == 0 && draft->n_evidence > 0)
        return ft_error_set(err, FT_INVALID, "%u bytes of evidence: rule %s takes none here",
                            draft->n_evidence, rule->name);
    return terms->evidence_bytes == 0 ? FT_OK : check_evidence(rule, terms, draft, err);
}
