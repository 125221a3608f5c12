// SPDX-License-Identifier: Apache-2.0
// Quality of predictions of two classes. Samples are read in descending order of odds: at each
// distinct value, the counts so far are those of a threshold at that value. Stateless.
#include "learn/binary.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/sort.h"

static bool higher(const void *ctx, const void *a, const void *b)
{
    const float *odds = ctx;
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    return odds[i] > odds[k] || (odds[i] == odds[k] && i < k);
}

static ft_status sorted(const ft_binary_data *d, ft_error *err, uint32_t **out)
{
    *out = d->n < UINT32_MAX ? malloc((d->n + 1) * sizeof **out) : NULL;
    if (!*out)
        return ft_error_set(err, FT_NOMEM, "out of memory for %zu samples", d->n);
    for (size_t i = 0; i < d->n; i++)
        (*out)[i] = (uint32_t)i;
    ft_sort(*out, d->n, sizeof **out, higher, (void *)(uintptr_t)d->odds);
    return FT_OK;
}

static double share(uint64_t part, uint64_t of)
{
    return of > 0 ? (double)part / (double)of : 0;
}

static void count(const ft_binary_data *d, float least, ft_binary_quality *q)
{
    for (size_t i = 0; i < d->n; i++) {
        const bool is = d->y[i], said = d->odds[i] >= least;
        q->tp += is && said;
        q->fp += !is && said;
        q->tn += !is && !said;
        q->fn += is && !said;
    }
    q->accuracy = share(q->tp + q->tn, d->n);
    q->recall = share(q->tp, q->tp + q->fn);
    q->specificity = share(q->tn, q->tn + q->fp);
    q->fpr = share(q->fp, q->tn + q->fp);
    q->balanced = (q->recall + q->specificity) / 2;
}

static void calibrate(const ft_binary_data *d, ft_binary_quality *q)
{
    for (size_t i = 0; i < d->n; i++) {
        const double p = 1 / (1 + exp(-(double)d->odds[i]));
        const int b = p < 1 ? (int)(p * FT_BINARY_BINS) : FT_BINARY_BINS - 1;
        q->bin[b].n++;
        q->bin[b].predicted += p;
        q->bin[b].observed += d->y[i];
    }
    for (int b = 0; b < FT_BINARY_BINS; b++) {
        const double n = (double)q->bin[b].n;
        if (n == 0)
            continue;
        q->ece += fabs(q->bin[b].observed - q->bin[b].predicted) / (double)d->n;
        q->bin[b].predicted /= n;
        q->bin[b].observed /= n;
    }
}

/* The share of pairs of a 1 and a 0 in which the 1 has the higher odds. */
static double auc_of(const ft_binary_data *d, const uint32_t *order)
{
    double ones = 0, zeros = 0, pairs = 0;
    for (size_t i = 0, end; i < d->n; i = end) {
        double here[2] = {0, 0};
        for (end = i; end < d->n && d->odds[order[end]] == d->odds[order[i]]; end++)
            here[d->y[order[end]] ? 1 : 0]++;
        pairs += here[0] * (ones + here[1] / 2);
        ones += here[1];
        zeros += here[0];
    }
    return ones > 0 && zeros > 0 ? pairs / (ones * zeros) : 0.5;
}

ft_status ft_binary_measure(const ft_binary_data *data, float least, ft_error *err,
                            ft_binary_quality *out)
{
    uint32_t *order;
    *out = (ft_binary_quality){0};
    ft_status status = sorted(data, err, &order);
    if (status != FT_OK)
        return status;
    count(data, least, out);
    calibrate(data, out);
    out->auc = auc_of(data, order);
    free(order);
    return FT_OK;
}

ft_status ft_binary_threshold(const ft_binary_data *data, double max_fpr, ft_error *err, float *out)
{
    const ft_binary_data *d = data;
    uint64_t all[2] = {0, 0}, above[2] = {0, 0};
    double best = -1;
    uint32_t *order;
    *out = 0;
    ft_status status = sorted(d, err, &order);
    if (status != FT_OK)
        return status;
    if (d->n > 0)
        *out = nextafterf(d->odds[order[0]], INFINITY);
    for (size_t i = 0; i < d->n; i++)
        all[d->y[i] ? 1 : 0]++;
    for (size_t i = 0; i < d->n; i++) {
        above[d->y[order[i]] ? 1 : 0]++;
        if (i + 1 < d->n && d->odds[order[i + 1]] == d->odds[order[i]])
            continue;
        const double fpr = share(above[0], all[0]);
        const double balanced = (share(above[1], all[1]) + 1 - fpr) / 2;
        if (fpr <= max_fpr && balanced > best) {
            best = balanced;
            *out = d->odds[order[i]];
        }
    }
    free(order);
    return FT_OK;
}
