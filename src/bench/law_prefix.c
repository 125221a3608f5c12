// SPDX-License-Identifier: Apache-2.0
// What law_prefix.h says. Both models read the text. The target's top_k tokens are its choices at
// the next position; behind each of them both models compute one row more. All rows' top_k tokens
// together are the vocabulary that is left. A token keeps its place among the others, so ties are
// broken as before, and a row's distribution after top-k is the same. One thread.
#include "bench/law_prefix.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "template/template.h"

typedef struct rows {
    float *target, *draft; /* [1 + top_k, n_vocab] of the models */
    int32_t *id;           /* [n_vocab] renumbered, -1: left out */
} rows;

/* The top_k tokens of a row, ascending; borrowed until the sampler's next call. */
static size_t top_of(ft_bench_reader *reader, const float *row, int32_t top_k,
                     const int32_t **tokens)
{
    const uint64_t *weights;
    const ft_sampling s = {.temperature = 100, .top_k = top_k, .top_p = 1}; /* none is too small */
    return ft_sampler_weights(reader->sampler, &s, row, tokens, &weights);
}

static ft_status feed_both(ft_law_models *m, const int32_t *tokens, uint32_t n, ft_error *err,
                           float *target, float *draft)
{
    const size_t bytes = m->target.n_vocab * sizeof(float);
    const float *logits = NULL;
    ft_status status = ft_bench_reader_feed(&m->target, tokens, n, err, &logits);
    if (status != FT_OK)
        return status;
    memcpy(target, logits, bytes);
    status = ft_bench_reader_feed(&m->draft, tokens, n, err, &logits);
    if (status == FT_OK)
        memcpy(draft, logits, bytes);
    return status;
}

/* The next prompt that leaves room for `more` tokens. */
static ft_status next_prompt(ft_law_models *m, uint32_t more, ft_error *err, ft_tokens *out)
{
    const uint32_t n_ctx = ft_min_u32(m->target.n_ctx, m->draft.n_ctx);
    for (; m->next < m->prompts.n; m->next++) {
        ft_status status = ft_template_ask(m->vocab, m->prompts.items[m->next].text, err, out);
        if (status != FT_OK || out->n + more <= n_ctx) {
            m->next++;
            return status;
        }
        ft_tokens_deinit(out);
        *out = (ft_tokens){0};
    }
    return ft_error_set(err, FT_NOT_FOUND,
                        "bench law: the file has too few prompts that fit into the context");
}

/* Reads prompt and text, which may end early, and leaves the rows behind them in rows 0. */
static ft_status read_text(ft_law_models *m, const ft_tokens *prompt, uint32_t more, ft_error *err,
                           const rows *r)
{
    const ft_sampling s = {.temperature = 1, .top_k = 40, .top_p = 1, .seed = 1};
    ft_seq_truncate(m->target.seq, 0);
    ft_seq_truncate(m->draft.seq, 0);
    ft_status status = feed_both(m, prompt->id, (uint32_t)prompt->n, err, r->target, r->draft);
    for (uint32_t i = 0; i < more && status == FT_OK; i++) {
        const int32_t token =
            ft_sampler_draw(m->target.sampler, &s, r->target, (uint32_t)prompt->n + i);
        if (ft_vocab_is_eog(m->vocab, token))
            break;
        status = feed_both(m, &token, 1, err, r->target, r->draft);
    }
    return status;
}

/* Rows 1 + i: behind the text and tokens[i], one after the other. */
static ft_status read_choices(ft_law_models *m, const int32_t *tokens, uint32_t n,
                              uint32_t position, ft_error *err, const rows *r)
{
    const size_t n_vocab = m->target.n_vocab;
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        status = feed_both(m, &tokens[i], 1, err, r->target + (1 + i) * n_vocab,
                           r->draft + (1 + i) * n_vocab);
        ft_seq_truncate(m->target.seq, position);
        ft_seq_truncate(m->draft.seq, position);
    }
    return status;
}

static void mark(ft_law_models *m, const float *row, int32_t top_k, int32_t *id)
{
    const int32_t *tokens;
    const size_t n = top_of(&m->target, row, top_k, &tokens);
    for (size_t i = 0; i < n; i++)
        id[tokens[i]] = 1;
}

/* Renumbers; returns how many tokens are left. */
static uint32_t renumber(ft_law_models *m, const rows *r, uint32_t n_rows, int32_t top_k)
{
    const size_t n_vocab = m->target.n_vocab;
    uint32_t n = 0;
    memset(r->id, 0, n_vocab * sizeof *r->id);
    for (uint32_t i = 0; i < n_rows; i++) {
        mark(m, r->target + i * n_vocab, top_k, r->id);
        mark(m, r->draft + i * n_vocab, top_k, r->id);
    }
    for (size_t t = 0; t < n_vocab; t++)
        r->id[t] = r->id[t] ? (int32_t)n++ : -1;
    return n;
}

/* The columns that are left. */
static void shorten(const float *from, size_t n_vocab, const int32_t *id, uint32_t n_rows,
                    uint32_t n, float *to)
{
    for (uint32_t i = 0; i < n_rows; i++)
        for (size_t t = 0; t < n_vocab; t++)
            if (id[t] >= 0)
                to[i * n + (size_t)id[t]] = from[i * n_vocab + t];
}

static ft_status compute(ft_law_models *m, uint32_t index, int32_t top_k, ft_error *err,
                         const rows *r, ft_law_prefix *out)
{
    const size_t n_vocab = m->target.n_vocab;
    ft_tokens prompt = {0};
    const int32_t *tokens;
    ft_status status = next_prompt(m, index + 1, err, &prompt);
    if (status == FT_OK)
        status = read_text(m, &prompt, index, err, r);
    out->position = ft_seq_n_past(m->target.seq);
    ft_tokens_deinit(&prompt);
    if (status != FT_OK)
        return status;
    out->n_first = (uint32_t)top_of(&m->target, r->target, top_k, &tokens);
    out->first = calloc(out->n_first, sizeof *out->first);
    if (!out->first)
        return ft_error_set(err, FT_NOMEM, "bench law: out of memory");
    memcpy(out->first, tokens, out->n_first * sizeof *out->first);
    status = read_choices(m, out->first, out->n_first, out->position, err, r);
    if (status != FT_OK)
        return status;
    const uint32_t n_rows = 1 + out->n_first;
    out->n_vocab = renumber(m, r, n_rows, top_k);
    out->target = calloc((size_t)n_rows * out->n_vocab, sizeof *out->target);
    out->draft = calloc((size_t)n_rows * out->n_vocab, sizeof *out->draft);
    if (!out->target || !out->draft)
        return ft_error_set(err, FT_NOMEM, "bench law: out of memory");
    shorten(r->target, n_vocab, r->id, n_rows, out->n_vocab, out->target);
    shorten(r->draft, n_vocab, r->id, n_rows, out->n_vocab, out->draft);
    for (uint32_t i = 0; i < out->n_first; i++)
        out->first[i] = r->id[out->first[i]];
    return FT_OK;
}

ft_status ft_law_prefix_init(ft_law_models *models, uint32_t index, int32_t top_k, ft_error *err,
                             ft_law_prefix *out)
{
    const size_t n = models->target.n_vocab, n_rows = 1 + (size_t)top_k;
    rows r = {.target = calloc(n_rows * n, sizeof *r.target),
              .draft = calloc(n_rows * n, sizeof *r.draft),
              .id = calloc(n, sizeof *r.id)};
    *out = (ft_law_prefix){0};
    ft_status status = r.target && r.draft && r.id
                           ? compute(models, index, top_k, err, &r, out)
                           : ft_error_set(err, FT_NOMEM, "bench law: out of memory");
    free(r.target);
    free(r.draft);
    free(r.id);
    return status;
}

void ft_law_prefix_deinit(ft_law_prefix *prefix)
{
    free(prefix->first);
    free(prefix->target);
    free(prefix->draft);
}
