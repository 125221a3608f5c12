// SPDX-License-Identifier: Apache-2.0
// The line through the round trips, robustly. Its slope is the median of the slopes of all pairs of
// samples (Theil 1950, Sen 1968), each pair weighted by how far its sizes differ (Jaeckel 1972).
// Noise adds to both samples of a pair, so its median cancels whatever its distribution is, and
// more than a quarter of all samples may be off as far as they like.
//
// Pure; the caller owns the state.
#include "spec/uplink.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/sort.h"

/* Samples before anything is known. Twice of them are known that much later after a change. */
#define LEAST 8
/* The slope's standard error may be this share of it: two of them are 10 %. Half of it knows one
 * link in six less. With twice of it twice as many estimates are off by more than 10 %. */
#define DOUBT_MOST 0.05
/* A line without any noise is not surer than this, in us a byte. */
#define DOUBT_LEAST 1e-6
/* Round trips so many usual distances off the line are no noise, if they come in a row. */
#define MOVED_SCATTER 3
/* The time of an empty message stays of the samples that are forgotten, and counts as so many. With
 * half of them a rate is known four samples later after a change. */
#define ANCHORS 4
/* From the median of distances to a standard deviation, of normal noise. */
#define NORMAL 1.4826

typedef struct slope {
    double us_per_byte, weight;
} slope;

static bool before(const void *ctx, const void *a, const void *b)
{
    (void)ctx;
    return *(const double *)a < *(const double *)b;
}

static double median(double *v, uint32_t n)
{
    ft_sort(v, n, sizeof *v, before, NULL);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* ---- the line ---- */

static void swap(slope *a, slope *b)
{
    const slope kept = *a;
    *a = *b;
    *b = kept;
}

/* Moves slopes below, equal to and above the middle one's into three parts. Returns how many are in
 * the first; *n_equal: in the second. */
static uint32_t part(slope *s, uint32_t n, uint32_t *n_equal)
{
    const double pivot = s[n / 2].us_per_byte;
    uint32_t below = 0, i = 0, above = n;
    while (i < above)
        if (s[i].us_per_byte < pivot)
            swap(&s[below++], &s[i++]);
        else if (s[i].us_per_byte > pivot)
            swap(&s[i], &s[--above]);
        else
            i++;
    *n_equal = above - below;
    return below;
}

static double weight_of(const slope *s, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += s[i].weight;
    return sum;
}

/* The slope below or at which half of the weight is. Sorting would take several times as long. */
static double weighted_median(slope *s, uint32_t n)
{
    double half = weight_of(s, n) / 2;
    for (;;) {
        uint32_t equal;
        const uint32_t below = part(s, n, &equal);
        const double to_below = weight_of(s, below), to_equal = weight_of(s + below, equal);
        if (below > 0 && to_below >= half) {
            n = below;
        } else if (to_below + to_equal >= half || below + equal == n) {
            return s[below].us_per_byte;
        } else {
            half -= to_below + to_equal;
            s += below + equal;
            n -= below + equal;
        }
    }
}

/* False: all have the same size. */
static bool find_slope(const ft_uplink_trips *u, double *us_per_byte)
{
    slope pair[FT_UPLINK_SAMPLES * (FT_UPLINK_SAMPLES - 1) / 2];
    uint32_t n = 0;
    for (uint32_t i = 0; i < u->n; i++)
        for (uint32_t j = i + 1; j < u->n; j++) {
            const double bytes = u->sample[j].bytes - u->sample[i].bytes;
            const double us = u->sample[j].us - u->sample[i].us;
            if (bytes == 0)
                continue;
            pair[n++] = (slope){us / bytes, fabs(bytes)};
        }
    if (n == 0)
        return false;
    *us_per_byte = weighted_median(pair, n);
    return true;
}

static double off(const ft_uplink_line *line, const ft_uplink_sample *s)
{
    return s->us - line->empty_us - line->us_per_byte * s->bytes;
}

/* The usual distance from the line. */
static double scatter(const ft_uplink_trips *u, const ft_uplink_line *line)
{
    double distance[FT_UPLINK_SAMPLES];
    for (uint32_t i = 0; i < u->n; i++)
        distance[i] = fabs(off(line, &u->sample[i]));
    const double us = NORMAL * median(distance, u->n) * sqrt(u->n / fmax(u->n - 2.0, 1));
    /* Those kept from before lie on the line; a few new ones may do so by chance. */
    return u->n_measured < 2 * LEAST ? fmax(us, u->scatter_before_us) : us;
}

/* The slope's standard error. */
static double doubt(const ft_uplink_trips *u, const ft_uplink_line *line)
{
    double mean = 0, squares = 0;
    for (uint32_t i = 0; i < u->n; i++)
        mean += u->sample[i].bytes / u->n;
    for (uint32_t i = 0; i < u->n; i++)
        squares += (u->sample[i].bytes - mean) * (u->sample[i].bytes - mean);
    return line->scatter_us / sqrt(squares);
}

/* Finds the line of the samples, if they have changed since it was found. */
static void fit(ft_uplink_trips *u)
{
    ft_uplink_line line = {.known = true};
    double rest[FT_UPLINK_SAMPLES];
    if (u->fitted)
        return;
    u->fitted = true;
    u->line.known = false;
    if (!find_slope(u, &line.us_per_byte))
        return;
    for (uint32_t i = 0; i < u->n; i++)
        rest[i] = off(&line, &u->sample[i]);
    line.empty_us = median(rest, u->n);
    line.scatter_us = scatter(u, &line);
    line.doubt = doubt(u, &line);
    u->line = line;
}

/* ---- changes ---- */

/* Whether one more sample could be the last of those that tell of a change. */
static bool may_move(const ft_uplink_trips *u)
{
    return u->n + 1 >= LEAST + FT_UPLINK_MOVED && u->n_measured + 1 >= FT_UPLINK_MOVED;
}

/* Whether the last samples all lie off the line, on the same side. */
static bool moved(const ft_uplink_trips *u)
{
    ft_uplink_line line = u->line;
    uint32_t above = 0, below = 0;
    if (!line.known)
        return false;
    line.us_per_byte = fmax(line.us_per_byte, 0);
    for (uint32_t i = u->n - FT_UPLINK_MOVED; i < u->n; i++) {
        const double us = off(&line, &u->sample[i]);
        above += us > MOVED_SCATTER * line.scatter_us;
        below += us < -MOVED_SCATTER * line.scatter_us;
    }
    return above == FT_UPLINK_MOVED || below == FT_UPLINK_MOVED;
}

/* Whether the last samples are late, or early, by the same time whatever their size: not the rate
 * has changed, but the path. *by_us: that time. */
static bool path_moved(const ft_uplink_trips *u, double *by_us)
{
    double us[FT_UPLINK_MOVED], rate[FT_UPLINK_MOVED], of_path = 0, of_rate = 0;
    const ft_uplink_sample *last = &u->sample[u->n - FT_UPLINK_MOVED];
    for (uint32_t i = 0; i < FT_UPLINK_MOVED; i++) {
        us[i] = off(&u->line, &last[i]);
        rate[i] = us[i] / last[i].bytes;
    }
    const double all_us = median(us, FT_UPLINK_MOVED), all_rate = median(rate, FT_UPLINK_MOVED);
    for (uint32_t i = 0; i < FT_UPLINK_MOVED; i++) {
        of_path += fabs(off(&u->line, &last[i]) - all_us);
        of_rate += fabs(off(&u->line, &last[i]) - all_rate * last[i].bytes);
    }
    *by_us = all_us;
    return of_rate > of_path;
}

/* Only the time of an empty message stays, if it is known. */
static void forget(ft_uplink_trips *u)
{
    const bool known = u->line.known && u->n >= LEAST;
    u->n = known ? ANCHORS : 0;
    u->n_measured = 0;
    u->scatter_before_us = u->line.scatter_us;
    for (uint32_t i = 0; i < u->n; i++)
        u->sample[i] = (ft_uplink_sample){0, u->line.empty_us};
    u->line.known = u->fitted = false;
}

static void add(ft_uplink_trips *u, ft_uplink_sample sample)
{
    if (u->n == FT_UPLINK_SAMPLES) {
        u->n--;
        memmove(&u->sample[0], &u->sample[1], u->n * sizeof *u->sample);
    }
    u->sample[u->n++] = sample;
    u->fitted = false;
    u->n_measured = ft_min_u32(u->n_measured + 1, FT_UPLINK_SAMPLES);
}

/* The last Drafts lie off their line: what was measured before them holds no more. */
static void change(ft_uplink *u)
{
    ft_uplink_trips *drafts = &u->kind[FT_UPLINK_DRAFT];
    ft_uplink_sample last[FT_UPLINK_MOVED];
    double by_us;
    fit(&u->kind[FT_UPLINK_OPEN]);
    memcpy(last, &drafts->sample[drafts->n - FT_UPLINK_MOVED], sizeof last);
    if (path_moved(drafts, &by_us)) {
        for (uint32_t k = 0; k < FT_UPLINK_KINDS; k++) {
            for (uint32_t i = 0; i < u->kind[k].n; i++)
                u->kind[k].sample[i].us += by_us;
            u->kind[k].fitted = false;
        }
        drafts->n -= FT_UPLINK_MOVED;
    } else {
        for (uint32_t k = 0; k < FT_UPLINK_KINDS; k++)
            forget(&u->kind[k]);
        u->last = (ft_uplink_rate){0};
    }
    for (uint32_t i = 0; i < FT_UPLINK_MOVED; i++)
        add(drafts, last[i]);
}

void ft_uplink_saw(ft_uplink *u, ft_uplink_kind kind, uint64_t bytes, int64_t us)
{
    ft_uplink_trips *trips = &u->kind[kind];
    if (bytes == 0 || bytes > FT_UPLINK_MOST_BYTES || us <= 0)
        return;
    const bool looks = kind == FT_UPLINK_DRAFT && may_move(trips);
    if (looks)
        fit(trips); /* the new sample is compared with the line of those before it */
    add(trips, (ft_uplink_sample){(double)bytes, (double)us});
    if (looks && moved(trips))
        change(u);
}

ft_uplink_rate ft_uplink_rate_now(ft_uplink *u)
{
    const ft_uplink_trips *drafts = &u->kind[FT_UPLINK_DRAFT];
    double us_per_byte = 0, weights = 0;
    for (uint32_t k = 0; k < FT_UPLINK_KINDS; k++) {
        fit(&u->kind[k]);
        const ft_uplink_line *line = &u->kind[k].line;
        if (!line->known || u->kind[k].n < LEAST)
            continue;
        const double doubt = fmax(line->doubt, DOUBT_LEAST), weight = 1 / (doubt * doubt);
        us_per_byte += weight * line->us_per_byte;
        weights += weight;
    }
    us_per_byte /= fmax(weights, DBL_MIN);
    if (us_per_byte <= 0 || 1 / sqrt(weights) > DOUBT_MOST * us_per_byte)
        return (ft_uplink_rate){0};
    u->last = (ft_uplink_rate){.known = true,
                               .bits_per_s = 8e6 / us_per_byte,
                               .empty_us = drafts->line.known ? drafts->line.empty_us : 0};
    return u->last;
}

double ft_uplink_empty_us(const ft_uplink *u, double bits_per_s)
{
    const ft_uplink_trips *drafts = &u->kind[FT_UPLINK_DRAFT];
    const ft_uplink_line line = {.us_per_byte = 8e6 / bits_per_s};
    double rest[FT_UPLINK_SAMPLES];
    if (drafts->n == 0)
        return 0;
    for (uint32_t i = 0; i < drafts->n; i++)
        rest[i] = off(&line, &drafts->sample[i]);
    return fmax(median(rest, drafts->n), 1);
}
