// SPDX-License-Identifier: Apache-2.0
// See predictor_quality.h. No state.
#include "cmd/predictor_quality.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const ft_binary_quality ft_predictor_quality_paper = {
    .fpr = 0.425, .recall = 0.801, .balanced = 0.688, .auc = 0.773, .ece = NAN};

/* Measures; sets *least before that, unless it is NULL. */
static ft_status quality_of(const ft_predictor *p, const ft_train_set *s, double max_fpr,
                            float *least, ft_error *err, ft_binary_quality *out)
{
    float *odds = malloc((s->n ? s->n : 1) * sizeof *odds);
    ft_status status = FT_OK;
    if (!odds)
        return ft_error_set(err, FT_NOMEM, "out of memory for %zu samples", s->n);
    for (size_t i = 0; i < s->n; i++)
        odds[i] = ft_predictor_odds(p, s->at[i].x);
    const ft_binary_data data = {odds, s->y, s->n};
    if (least)
        status = ft_binary_threshold(&data, max_fpr, err, least);
    if (status == FT_OK)
        status = ft_binary_measure(&data, least ? *least : p->least, err, out);
    free(odds);
    return status;
}

ft_status ft_predictor_quality_choose(ft_predictor *p, const ft_train_set *samples, double max_fpr,
                                      ft_error *err, ft_binary_quality *out)
{
    return quality_of(p, samples, max_fpr, &p->least, err, out);
}

ft_status ft_predictor_quality_measure(const ft_predictor *p, const ft_train_set *samples,
                                       ft_error *err, ft_binary_quality *out)
{
    return quality_of(p, samples, 0, NULL, err, out);
}

json_t *ft_predictor_quality_json(const ft_binary_quality *q)
{
    json_t *bins = json_array();
    for (int b = 0; b < FT_BINARY_BINS; b++)
        json_array_append_new(bins, json_pack("{s:I, s:f, s:f}", "n", (json_int_t)q->bin[b].n,
                                              "predicted", q->bin[b].predicted, "observed",
                                              q->bin[b].observed));
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:[I,I,I,I], s:o}", "fpr", q->fpr,
                     "specificity", q->specificity, "recall", q->recall, "balanced_accuracy",
                     q->balanced, "accuracy", q->accuracy, "auc", q->auc, "ece", q->ece,
                     "tp_fp_tn_fn", (json_int_t)q->tp, (json_int_t)q->fp, (json_int_t)q->tn,
                     (json_int_t)q->fn, "reliability", bins);
}

void ft_predictor_quality_print_head(void)
{
    printf("%7s %7s %8s %8s %7s", "FPR", "recall", "balanced", "AUC", "ECE");
}

void ft_predictor_quality_print(const ft_binary_quality *q)
{
    printf("%7.3f %7.3f %8.3f %8.3f ", q->fpr, q->recall, q->balanced, q->auc);
    if (isnan(q->ece))
        printf("%7s", "");
    else
        printf("%7.3f", q->ece);
}

/* ---- a trace ---- */

static ft_status read_trace(const char *trace, const ft_predictor *p, ft_error *err,
                            ft_train_set *out)
{
    ft_train_models models;
    ft_train_set part[FT_TRAIN_PARTS] = {0};
    ft_status status = ft_train_read(trace, &(ft_train_split){.test = 100}, err, part, &models);
    *out = part[FT_TRAIN_TEST];
    if (status == FT_OK && out->n == 0)
        status = ft_error_set(err, FT_NOT_FOUND, "trace: %.300s has no judged tokens with features",
                              trace);
    if (status == FT_OK && models.draft == 0)
        status = ft_error_set(err, FT_PRECONDITION,
                              "trace: %.300s has drafts of an unknown model, or of several: a "
                              "predictor knows one",
                              trace);
    return status == FT_OK ? ft_predictor_check_draft(p, models.draft, err) : status;
}

static void print(const ft_train_set *samples, const ft_binary_quality *q)
{
    const uint64_t accepted = q->tp + q->fn;
    printf("%zu judged tokens of %" PRIu64 " texts, %.1f %% of which are accepted\n\n%-14s ",
           samples->n, ft_train_set_texts(samples), 100 * (double)accepted / (double)samples->n,
           "predictor");
    ft_predictor_quality_print_head();
    printf("\n%-14s ", "this one");
    ft_predictor_quality_print(q);
    printf("\n%-14s ", "WISP table 4");
    ft_predictor_quality_print(&ft_predictor_quality_paper);
    printf("\n");
}

ft_status ft_cmd_trace_predictor(const char *trace, const char *path, bool text, ft_error *err,
                                 json_t **report)
{
    ft_predictor p;
    ft_train_set samples = {0};
    ft_binary_quality q;
    *report = NULL;
    ft_status status = ft_predictor_load(path, err, &p);
    if (status == FT_OK)
        status = read_trace(trace, &p, err, &samples);
    if (status == FT_OK)
        status = ft_predictor_quality_measure(&p, &samples, err, &q);
    if (status == FT_OK && text)
        print(&samples, &q);
    if (status == FT_OK)
        *report = json_pack("{s:s, s:I, s:I, s:o}", "command", "trace", "texts",
                            (json_int_t)ft_train_set_texts(&samples), "samples",
                            (json_int_t)samples.n, "predictor", ft_predictor_quality_json(&q));
    ft_train_set_deinit(&samples);
    ft_predictor_deinit(&p);
    return status;
}
