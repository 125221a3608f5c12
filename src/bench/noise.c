// SPDX-License-Identifier: Apache-2.0
// How often a draft's choice is the target's token, if both draw with the same noise and if each
// draws with its own. The target writes each answer by plain decoding with rule `exact`. The draft
// model reads the same tokens (teacher forcing) and is asked at each position. One thread.
#include "bench/noise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "bench/prompts.h"
#include "bench/reader.h"
#include "model/vocab.h"
#include "spec/draft_source.h"
#include "spec/sampling.h"
#include "template/template.h"

#define RANKED FT_BENCH_NOISE_RANKED
#define FIRST  4

typedef struct place { /* what the fit needs of one position */
    float score[RANKED];
    int n, rank; /* rank of the target's token, n: not among them */
} place;

typedef struct tally {
    size_t prompts, skipped, tokens, cap;
    place *places; /* [cap] */
    size_t shared_first, shared_four, own_first, own_four, probable_four;
    double overlap; /* sum of sum min(p, q) */
    double draw_us;
} tally;

static int rank_of(const ft_candidate *c, size_t n, int32_t token)
{
    for (size_t i = 0; i < n; i++)
        if (c[i].token == token)
            return (int)i;
    return (int)n;
}

/* Sum over tokens of min(p, q): the most that any coupling of the two draws can reach. */
static double overlap(ft_bench_reader *target, const float *p_logits, ft_bench_reader *draft,
                      const float *q_logits, const ft_sampling *s, float *dense)
{
    const ft_candidate *c;
    double sum = 0;
    memset(dense, 0, target->n_vocab * sizeof *dense);
    size_t n = ft_sampler_candidates(target->sampler, s, p_logits, &c);
    for (size_t i = 0; i < n; i++)
        dense[c[i].token] = expf(c[i].logp);
    n = ft_sampler_candidates(draft->sampler, s, q_logits, &c);
    for (size_t i = 0; i < n; i++)
        sum += fminf(dense[c[i].token], expf(c[i].logp));
    return sum;
}

/* Asks the draft at one position, given the target's token there. */
static void ask(tally *t, ft_bench_reader *draft, const ft_sampling *s, const float *logits,
                uint32_t position, int32_t token)
{
    ft_candidate c[RANKED];
    ft_sampling other = *s;
    ft_sampling greedy = ft_sampling_default();
    place *here = &t->places[t->tokens++];
    size_t n = ft_sampler_rank(draft->sampler, s, logits, position, c, RANKED);
    here->n = (int)n;
    here->rank = rank_of(c, n, token);
    for (size_t i = 0; i < n; i++)
        here->score[i] = c[i].score - c[0].score;
    t->shared_first += n > 0 && here->rank == 0;
    t->shared_four += here->rank < FIRST && here->rank < here->n;
    other.seed = ~s->seed;
    n = ft_sampler_rank(draft->sampler, &other, logits, position, c, FIRST);
    t->own_first += rank_of(c, n, token) == 0;
    t->own_four += (size_t)rank_of(c, n, token) < n;
    n = ft_sampler_rank(draft->sampler, &greedy, logits, position, c, FIRST);
    t->probable_four += (size_t)rank_of(c, n, token) < n;
}

typedef struct job {
    ft_bench_reader target, draft;
    const ft_vocab *vocab;
    ft_sampling sampling, writing; /* of the draws compared; of the text they are made on */
    uint32_t n_predict;
    float *dense; /* [n_vocab] */
    ft_clock clock;
    ft_bench_stop stop;
    ft_progress progress; /* in prompts */
} job;

static bool stopped(const job *j)
{
    return j->stop && j->stop();
}

/* One answer of the target, token by token; the draft model follows. */
static ft_status answer(job *j, const int32_t *prompt, uint32_t n, tally *t, ft_error *err)
{
    const float *p = NULL, *q = NULL;
    ft_seq_truncate(j->target.seq, 0);
    ft_seq_truncate(j->draft.seq, 0);
    ft_status status = ft_bench_reader_feed(&j->target, prompt, n, err, &p);
    if (status == FT_OK)
        status = ft_bench_reader_feed(&j->draft, prompt, n, err, &q);
    for (uint32_t i = 0; status == FT_OK && i < j->n_predict && !stopped(j); i++) {
        int64_t before_us = ft_clock_now_us(&j->clock);
        int32_t token = ft_sampler_draw(j->target.sampler, &j->sampling, p, n + i);
        t->draw_us += (double)(ft_clock_now_us(&j->clock) - before_us);
        ask(t, &j->draft, &j->sampling, q, n + i, token);
        t->overlap += overlap(&j->target, p, &j->draft, q, &j->sampling, j->dense);
        if (j->writing.temperature != j->sampling.temperature)
            token = ft_sampler_draw(j->target.sampler, &j->writing, p, n + i);
        if (ft_vocab_is_eog(j->vocab, token))
            break;
        status = ft_bench_reader_feed(&j->target, &token, 1, err, &p);
        if (status == FT_OK)
            status = ft_bench_reader_feed(&j->draft, &token, 1, err, &q);
    }
    t->prompts++;
    return status;
}

static ft_status all_answers(job *j, const ft_bench_prompts *prompts, tally *t, ft_error *err)
{
    uint32_t n_ctx = j->target.n_ctx < j->draft.n_ctx ? j->target.n_ctx : j->draft.n_ctx;
    ft_status status = FT_OK;
    for (size_t i = 0; status == FT_OK && i < prompts->n && !stopped(j); i++) {
        ft_tokens tokens = {0};
        status = ft_template_ask(j->vocab, prompts->items[i].text, err, &tokens);
        if (status == FT_OK && tokens.n + j->n_predict > n_ctx)
            t->skipped++;
        else if (status == FT_OK)
            status = answer(j, tokens.id, (uint32_t)tokens.n, t, err);
        ft_tokens_deinit(&tokens);
        ft_progress_report(&j->progress, i + 1, prompts->n);
    }
    return status;
}

/* How well a softmax of sharpness times the scores predicts the target's tokens. Tokens behind the
 * ranked ones count as `tail` times the last. Drafters begin with sharpness 1 and no tail
 * (spec/rule_exact.c) and learn both from verdicts. */
static double log_likelihood(const tally *t, double sharpness, double tail)
{
    double sum = 0;
    for (size_t i = 0; i < t->tokens; i++) {
        const place *here = &t->places[i];
        double norm = 0, rest;
        for (int k = 0; k < here->n; k++)
            norm += exp(sharpness * (double)here->score[k]);
        rest = here->n == RANKED ? tail * exp(sharpness * (double)here->score[RANKED - 1]) : 0;
        norm += rest;
        if (here->rank < here->n)
            sum += sharpness * (double)here->score[here->rank] - log(norm);
        else
            sum += log(fmax(rest / norm, 1e-6)); /* no candidate of the draft at all */
    }
    return sum;
}

static void fit(const tally *t, double *sharpness, double *tail)
{
    double best = -INFINITY;
    for (double s = 0.2; s < 2; s += 0.04)
        for (double c = 0.5; c < 2000; c *= 1.15) {
            double value = log_likelihood(t, s, c);
            if (value > best) {
                best = value;
                *sharpness = s;
                *tail = c;
            }
        }
}

static json_t *shares(double first, double four)
{
    return json_pack("{s:f, s:f}", "first", first, "first_four", four);
}

static json_t *to_json(const tally *t, const job *j)
{
    double n = t->tokens > 0 ? (double)t->tokens : 1;
    size_t ranked = 0;
    for (size_t i = 0; i < t->tokens; i++)
        ranked += t->places[i].rank < t->places[i].n;
    double sharpness = 0, tail = 0;
    fit(t, &sharpness, &tail);
    json_t *out = json_pack("{s:I, s:I, s:I, s:f, s:f}", "prompts", (json_int_t)t->prompts,
                            "skipped", (json_int_t)t->skipped, "tokens", (json_int_t)t->tokens,
                            "temperature", (double)j->sampling.temperature, "text_temperature",
                            (double)j->writing.temperature);
    json_object_set_new(out, "shared", shares(t->shared_first / n, t->shared_four / n));
    json_object_set_new(out, "independent", shares(t->own_first / n, t->own_four / n));
    json_object_set_new(out, "most_probable",
                        json_pack("{s:f}", "first_four", t->probable_four / n));
    const struct {
        const char *key;
        double value;
    } figures[] = {{"overlap", t->overlap / n},
                   {"ranked", ranked / n},
                   {"sharpness", sharpness},
                   {"tail", tail},
                   {"draw_us", t->draw_us / n}};
    for (size_t i = 0; i < FT_COUNT(figures); i++)
        json_object_set_new(out, figures[i].key, json_real(figures[i].value));
    return out;
}

static ft_status run(const ft_bench_noise_opts *set, job *j, ft_error *err, tally *t)
{
    const ft_bench_reader_opts opts = {.path = set->target,
                                       .n_ctx = set->n_ctx,
                                       .n_threads = set->n_threads,
                                       .loading = set->loading};
    ft_vocab *vocab = NULL;
    ft_bench_prompts prompts = {0};
    j->clock = ft_clock_monotonic();
    j->stop = set->stop;
    j->progress = set->progress;
    j->n_predict = (uint32_t)set->n_predict;
    j->sampling = (ft_sampling){.temperature = (float)set->temp,
                                .top_k = (int32_t)set->top_k,
                                .top_p = (float)set->top_p,
                                .min_p = (float)set->min_p,
                                .seed = (uint64_t)set->seed};
    j->writing = j->sampling;
    if (set->text_temp >= 0)
        j->writing.temperature = (float)set->text_temp;
    ft_status status = ft_sampling_check(&j->sampling, err);
    if (status == FT_OK)
        status = ft_sampling_check(&j->writing, err);
    if (status == FT_OK)
        status = ft_bench_prompts_load(set->prompts, (size_t)set->max_prompts, err, &prompts);
    if (status == FT_OK)
        status = ft_vocab_load(set->target, err, &vocab);
    j->vocab = vocab;
    if (status == FT_OK)
        status = ft_bench_reader_init_pair(&opts, set->draft, err, &j->target, &j->draft);
    if (status == FT_OK) {
        t->cap = prompts.n * j->n_predict;
        t->places = calloc(t->cap, sizeof *t->places);
        j->dense = calloc(j->target.n_vocab, sizeof *j->dense);
        if (!t->places || !j->dense)
            status = ft_error_set(err, FT_NOMEM, "bench noise: out of memory");
    }
    if (status == FT_OK)
        status = all_answers(j, &prompts, t, err);
    ft_bench_prompts_deinit(&prompts);
    ft_vocab_destroy(vocab);
    return status;
}

ft_status ft_bench_noise(const ft_bench_noise_opts *opts, ft_error *err, json_t **report)
{
    tally t = {0};
    job j = {0};
    *report = NULL;
    ft_status status = run(opts, &j, err, &t);
    if (status == FT_OK)
        *report = to_json(&t, &j);
    ft_bench_reader_deinit(&j.draft);
    ft_bench_reader_deinit(&j.target);
    free(j.dense);
    free(t.places);
    return status;
}
