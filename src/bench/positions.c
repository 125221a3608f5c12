// SPDX-License-Identifier: Apache-2.0
// Recording of positions. The target writes each answer by plain decoding with rule `exact`, whose
// noise is the shared one. The draft model reads the same tokens (teacher forcing) and is asked at
// each position. Sums over distributions are in double precision, so that what is lost is far below
// the three digits of the file. One thread.
#include "bench/positions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/prompts.h"
#include "bench/reader.h"
#include "model/vocab.h"
#include "spec/lattice.h"
#include "template/template.h"

/* One distribution: what a sampler gave, and the same with a place for each token. */
typedef struct spread {
    const int32_t *tokens; /* [n] ascending; the sampler's */
    const uint64_t *weights;
    size_t n;
    double *dense; /* [n_vocab] probabilities; 0 but for tokens */
} spread;

typedef struct job {
    const ft_bench_positions_opts *opts;
    ft_bench_reader target, draft;
    ft_vocab *vocab;
    ft_sampling sampling;
    spread p, q;
    ft_lattice_work work;
    void *work_memory;
    double *point; /* [n_vocab] 0 but for the point's tokens */
    uint8_t *code; /* [most_code] of a point */
    size_t most_code;
    ft_positions *out;
    ft_tokens text;          /* of the present answer */
    ft_positions_text whole; /* of n_predict positions; an answer may end before */
    double qs_tv[FT_POSITIONS_L], sq_tv[FT_POSITIONS_L]; /* sums over the text's positions */
} job;

static bool stopped(const job *j)
{
    return j->opts->stop && j->opts->stop();
}

/* ---- one position ---- */

static void get_spread(ft_bench_reader *from, const ft_sampling *s, const float *logits,
                       spread *out)
{
    double sum = 0;
    out->n = ft_sampler_weights(from->sampler, s, logits, &out->tokens, &out->weights);
    for (size_t i = 0; i < out->n; i++)
        sum += (double)out->weights[i];
    for (size_t i = 0; i < out->n; i++)
        out->dense[out->tokens[i]] = (double)out->weights[i] / sum;
}

/* Before the sampler is asked again, which changes its lists. */
static void clear_spread(spread *s)
{
    for (size_t i = 0; i < s->n; i++)
        s->dense[s->tokens[i]] = 0;
    s->n = 0;
}

/* Calls `add` for each token that the target or the draft may draw. */
typedef void for_token(const job *j, int32_t token, double *sum);
static double over_tokens(const job *j, for_token *add)
{
    double sum = 0;
    for (size_t i = 0; i < j->p.n; i++)
        add(j, j->p.tokens[i], &sum);
    for (size_t i = 0; i < j->q.n; i++)
        if (j->p.dense[j->q.tokens[i]] <= 0)
            add(j, j->q.tokens[i], &sum);
    return sum;
}

/* The chance that a draft token `y` is accepted when it is verified against the point. Where the
 * point has nothing of it, any share of the target's is enough. */
static double accept(const job *j, int32_t y)
{
    const double p = j->p.dense[y], point = j->point[y];
    return point > 0 ? fmin(1, p / point) : p > 0 ? 1 : 0;
}

static void add_sq_accepted(const job *j, int32_t y, double *sum)
{
    *sum += j->q.dense[y] * accept(j, y);
}

static void add_qs_accepted(const job *j, int32_t y, double *sum)
{
    *sum += j->point[y] * accept(j, y);
}

static void add_left(const job *j, int32_t y, double *sum)
{
    *sum += fmax(j->p.dense[y] - j->point[y], 0);
}

/* Total variation between p and the law of the next token, eq. (1) and (2), if draft tokens come
 * from `drawn` and are verified against the point. */
static double variation(const job *j, const double *drawn, double accepted)
{
    const double left = over_tokens(j, add_left);
    const double again = left > 0 ? (1 - accepted) / left : 0;
    double sum = 0;
    for (int list = 0; list < 2; list++) {
        const spread *of = list == 0 ? &j->p : &j->q;
        for (size_t i = 0; i < of->n; i++) {
            const int32_t y = of->tokens[i];
            if (list == 1 && j->p.dense[y] > 0)
                continue; /* counted with p's */
            const double next =
                drawn[y] * accept(j, y) + again * fmax(j->p.dense[y] - j->point[y], 0);
            sum += fabs(next - j->p.dense[y]);
        }
    }
    return sum / 2;
}

/* What one lattice makes of q, with the target's token x. */
static void quantize(job *j, uint32_t i_l, uint32_t at, int32_t x)
{
    ft_positions *out = j->out;
    ft_lattice_point *point = &j->work.point;
    const uint32_t l = out->l[i_l];
    const size_t cell = (size_t)i_l * j->whole.n + at;
    ft_lattice_quantize(&j->work, l, j->q.tokens, j->q.weights, j->q.n, point);
    for (uint32_t i = 0; i < point->n; i++)
        j->point[point->token[i]] = (double)point->count[i] / l;
    const double sq = over_tokens(j, add_sq_accepted);
    j->whole.count[cell] = (uint16_t)ft_lattice_count(point, x);
    j->whole.sq_accept[cell] = (float)fmin(1, sq);
    j->sq_tv[i_l] += variation(j, j->q.dense, sq);
    j->qs_tv[i_l] += variation(j, j->point, over_tokens(j, add_qs_accepted));
    for (uint32_t i = 0; i < point->n; i++)
        j->point[point->token[i]] = 0;
    if (out->index_bits[i_l] == 0) /* the same of any point */
        out->index_bits[i_l] =
            (uint32_t)ft_lattice_index.encode(&j->work, point, j->code, j->most_code);
    j->whole.adaptive_bits[cell] =
        (uint32_t)ft_lattice_adaptive.encode(&j->work, point, j->code, j->most_code);
}

/* Draws the target's token behind these logits and notes what both say of it. */
static int32_t note(job *j, const float *p_logits, const float *q_logits, uint32_t position,
                    uint32_t at)
{
    ft_candidate ranked[FT_POSITIONS_RANKS];
    const int32_t x = ft_sampler_draw(j->target.sampler, &j->sampling, p_logits, position);
    const size_t n = ft_sampler_rank(j->draft.sampler, &j->sampling, q_logits, position, ranked,
                                     FT_POSITIONS_RANKS);
    uint8_t rank = 0;
    while (rank < n && ranked[rank].token != x)
        rank++;
    get_spread(&j->target, &j->sampling, p_logits, &j->p);
    get_spread(&j->draft, &j->sampling, q_logits, &j->q);
    j->whole.rank[at] = rank < n ? rank : FT_POSITIONS_RANKS;
    j->whole.p[at] = (float)j->p.dense[x];
    j->whole.q[at] = (float)j->q.dense[x];
    j->whole.top[at] = 0;
    for (size_t i = 0; i < j->q.n; i++)
        j->whole.top[at] = fmaxf(j->whole.top[at], (float)j->q.dense[j->q.tokens[i]]);
    for (uint32_t i = 0; i < j->out->n_l; i++)
        quantize(j, i, at, x);
    clear_spread(&j->p);
    clear_spread(&j->q);
    return x;
}

/* ---- texts ---- */

/* Keeps the first n positions of the working text. */
static ft_status keep(job *j, uint32_t temperature, uint32_t n, ft_error *err)
{
    const ft_positions_text *from = &j->whole;
    ft_positions_text *text;
    if (n == 0)
        return FT_OK;
    ft_status status = ft_positions_add(j->out, n, err, &text);
    if (status != FT_OK)
        return status;
    text->temperature = temperature;
    memcpy(text->p, from->p, n * sizeof *text->p);
    memcpy(text->q, from->q, n * sizeof *text->q);
    memcpy(text->top, from->top, n * sizeof *text->top);
    memcpy(text->rank, from->rank, n);
    for (uint32_t i = 0; i < j->out->n_l; i++) {
        const size_t to = (size_t)i * n, at = (size_t)i * from->n;
        memcpy(text->count + to, from->count + at, n * sizeof *text->count);
        memcpy(text->adaptive_bits + to, from->adaptive_bits + at, n * sizeof *text->adaptive_bits);
        memcpy(text->sq_accept + to, from->sq_accept + at, n * sizeof *text->sq_accept);
        text->qs_tv[i] = (float)fmin(1, j->qs_tv[i] / n);
        text->sq_tv[i] = (float)fmin(1, j->sq_tv[i] / n);
    }
    return FT_OK;
}

static ft_status append(job *j, int32_t token, ft_error *err)
{
    return ft_tokens_append(&j->text, &token, 1) == FT_OK
               ? FT_OK
               : ft_error_set(err, FT_NOMEM, "record positions: out of memory");
}

/* One answer of the target, token by token; the draft model follows. */
static ft_status answer(job *j, const ft_tokens *prompt, uint32_t temperature, ft_error *err)
{
    const float *p = NULL, *q = NULL;
    const uint32_t n_prompt = (uint32_t)prompt->n;
    uint32_t n = 0;
    j->text.n = 0;
    memset(j->qs_tv, 0, sizeof j->qs_tv);
    memset(j->sq_tv, 0, sizeof j->sq_tv);
    ft_seq_truncate(j->target.seq, 0);
    ft_seq_truncate(j->draft.seq, 0);
    ft_status status = ft_bench_reader_feed(&j->target, prompt->id, n_prompt, err, &p);
    if (status == FT_OK)
        status = ft_bench_reader_feed(&j->draft, prompt->id, n_prompt, err, &q);
    while (status == FT_OK && n < j->whole.n && !stopped(j)) {
        const int32_t token = note(j, p, q, n_prompt + n, n);
        n++;
        status = append(j, token, err);
        if (status != FT_OK || ft_vocab_is_eog(j->vocab, token))
            break;
        status = ft_bench_reader_feed(&j->target, &token, 1, err, &p);
        if (status == FT_OK)
            status = ft_bench_reader_feed(&j->draft, &token, 1, err, &q);
    }
    if (status == FT_OK)
        status = keep(j, temperature, n, err);
    const ft_bench_answer all = {.prompt = prompt, .text = &j->text, .sampling = j->sampling};
    if (status == FT_OK && n > 0 && j->opts->on_answer)
        status = j->opts->on_answer(j->opts->ctx, &all, err);
    return status;
}

static ft_status all_answers(job *j, const ft_bench_prompts *prompts, ft_error *err,
                             size_t *skipped)
{
    const uint32_t n_ctx = j->target.n_ctx < j->draft.n_ctx ? j->target.n_ctx : j->draft.n_ctx;
    const uint32_t n_temperatures = j->opts->n_temperatures;
    ft_status status = FT_OK;
    for (size_t i = 0; status == FT_OK && i < prompts->n && !stopped(j); i++) {
        ft_tokens tokens = {0};
        status = ft_template_ask(j->vocab, prompts->items[i].text, err, &tokens);
        const bool fits = tokens.n + j->whole.n <= n_ctx;
        *skipped += status == FT_OK && !fits;
        for (uint32_t t = 0; t < n_temperatures && status == FT_OK && fits; t++) {
            j->sampling.temperature = j->out->temperature[t];
            j->sampling.seed = (uint64_t)j->opts->seed + i * n_temperatures + t;
            status = answer(j, &tokens, t, err);
            ft_progress_report(&j->opts->progress, i * n_temperatures + t + 1,
                               prompts->n * n_temperatures);
        }
        ft_tokens_deinit(&tokens);
    }
    return status;
}

/* ---- the job ---- */

static ft_status open_models(job *j, ft_error *err)
{
    const ft_bench_positions_opts *o = j->opts;
    const ft_bench_reader_opts opts = {
        .path = o->target, .n_ctx = o->n_ctx, .n_threads = o->n_threads, .loading = o->loading};
    ft_status status = ft_vocab_load(o->target, err, &j->vocab);
    if (status == FT_OK)
        status = ft_bench_reader_init_pair(&opts, o->draft, err, &j->target, &j->draft);
    return status;
}

static ft_status set_up(job *j, ft_error *err)
{
    const ft_bench_positions_opts *o = j->opts;
    ft_positions *out = j->out;
    uint32_t l_max = 1;
    out->target = ft_model_fingerprint(j->target.model);
    out->draft = ft_model_fingerprint(j->draft.model);
    out->n_vocab = j->target.n_vocab;
    out->top_k = (uint32_t)o->top_k;
    out->n_temperatures = o->n_temperatures;
    out->n_l = o->n_l;
    for (uint32_t i = 0; i < o->n_temperatures; i++)
        out->temperature[i] = (float)o->temperature[i];
    for (uint32_t i = 0; i < o->n_l; i++) {
        out->l[i] = (uint32_t)o->l[i];
        l_max = out->l[i] > l_max ? out->l[i] : l_max;
    }
    j->sampling = ft_sampling_default();
    j->sampling.top_k = (int32_t)o->top_k;
    j->most_code = ft_lattice_index.most_bytes(out->n_vocab, l_max);
    const size_t adaptive = ft_lattice_adaptive.most_bytes(out->n_vocab, l_max);
    j->most_code = adaptive > j->most_code ? adaptive : j->most_code;
    j->code = malloc(j->most_code);
    j->work_memory = malloc(ft_lattice_work_bytes(out->n_vocab, l_max));
    j->p.dense = calloc(3 * (size_t)out->n_vocab, sizeof *j->p.dense);
    if (!j->code || !j->work_memory || !j->p.dense)
        return ft_error_set(err, FT_NOMEM, "record positions: out of memory");
    j->q.dense = j->p.dense + out->n_vocab;
    j->point = j->q.dense + out->n_vocab;
    j->work = ft_lattice_work_in(j->work_memory, out->n_vocab, l_max);
    return FT_OK;
}

ft_status ft_bench_positions(const ft_bench_positions_opts *opts, ft_error *err, ft_positions *out,
                             size_t *skipped)
{
    job j = {.opts = opts, .out = out};
    ft_positions scratch = {.n_l = opts->n_l};
    ft_positions_text *whole;
    ft_bench_prompts prompts = {0};
    *out = (ft_positions){0};
    *skipped = 0;
    ft_status status =
        ft_bench_prompts_load(opts->prompts, (size_t)opts->max_prompts, err, &prompts);
    if (status == FT_OK)
        status = ft_positions_add(&scratch, (uint32_t)opts->n_predict, err, &whole);
    if (status == FT_OK) {
        j.whole = *whole;
        status = open_models(&j, err);
    }
    if (status == FT_OK)
        status = set_up(&j, err);
    if (status == FT_OK)
        status = all_answers(&j, &prompts, err, skipped);
    if (status == FT_OK && out->n_texts == 0)
        status = ft_error_set(err, FT_INVALID,
                              "record positions: there is no text: all prompts are too long, or it "
                              "was stopped before the first");
    if (status != FT_OK)
        ft_positions_deinit(out);
    free(j.code);
    free(j.work_memory);
    free(j.p.dense);
    ft_tokens_deinit(&j.text);
    ft_bench_reader_deinit(&j.draft);
    ft_bench_reader_deinit(&j.target);
    ft_vocab_destroy(j.vocab);
    ft_positions_deinit(&scratch);
    ft_bench_prompts_deinit(&prompts);
    return status;
}
