// SPDX-License-Identifier: Apache-2.0
// Samples from a trace store, with the store's labels (appendix B): 1 for accepted tokens, 0 for
// the first rejected ones. Tokens behind a rejected one were never judged and are no samples. No
// state.
#include "cmd/train_set.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "base/sort.h"
#include "learn/trace.h"

typedef struct reading {
    const ft_train_split *split;
    ft_train_set *part; /* [FT_TRAIN_PARTS] */
    ft_train_models *models;
    bool drafts, targets; /* there are several */
    bool failed;
} reading;

static ft_train_part part_of(int64_t session, const ft_train_split *split)
{
    const uint64_t both[2] = {(uint64_t)session, split->seed};
    const uint32_t at = (uint32_t)(ft_fnv64(FT_FNV64_INIT, both, sizeof both) % 100);
    if (at < split->validate)
        return FT_TRAIN_VALIDATE;
    return at < split->validate + split->test ? FT_TRAIN_TEST : FT_TRAIN_FIT;
}

static bool append(ft_train_set *s, const ft_trace_sample *sample)
{
    if (s->n == s->cap) {
        const size_t cap = s->cap ? 2 * s->cap : 4096;
        ft_train_sample *at = realloc(s->at, cap * sizeof *at);
        s->at = at ? at : s->at;
        uint8_t *y = at ? realloc(s->y, cap * sizeof *y) : NULL;
        if (!y)
            return false;
        s->y = y;
        s->cap = cap;
    }
    memcpy(s->at[s->n].x, sample->feature, sizeof s->at[s->n].x);
    s->at[s->n].session = sample->session;
    s->y[s->n++] = sample->accepted;
    return true;
}

static void note(uint64_t *known, uint64_t now, bool *several)
{
    *several |= *known != 0 && now != *known;
    *known = now;
}

static bool each(void *ctx, const ft_trace_sample *sample)
{
    reading *r = ctx;
    r->failed = !append(&r->part[part_of(sample->session, r->split)], sample);
    note(&r->models->draft, sample->draft, &r->drafts);
    note(&r->models->target, sample->target, &r->targets);
    return !r->failed;
}

ft_status ft_train_read(const char *path, const ft_train_split *split, ft_error *err,
                        ft_train_set part[FT_TRAIN_PARTS], ft_train_models *models)
{
    reading r = {.split = split, .part = part, .models = models};
    *models = (ft_train_models){0};
    ft_status status = ft_trace_each_node(path, each, &r, err);
    if (status == FT_OK && r.failed)
        status = ft_error_set(err, FT_NOMEM, "out of memory for the samples of %s", path);
    if (r.drafts)
        models->draft = 0;
    if (r.targets)
        models->target = 0;
    return status;
}

void ft_train_set_deinit(ft_train_set *set)
{
    free(set->at);
    free(set->y);
    *set = (ft_train_set){0};
}

static bool lower(const void *ctx, const void *a, const void *b)
{
    return *(const int64_t *)a < *(const int64_t *)b;
}

uint64_t ft_train_set_texts(const ft_train_set *set)
{
    uint64_t n = 0;
    int64_t *sorted = set->n ? malloc(set->n * sizeof *sorted) : NULL;
    if (!sorted)
        return 0;
    for (size_t i = 0; i < set->n; i++)
        sorted[i] = set->at[i].session;
    ft_sort(sorted, set->n, sizeof *sorted, lower, NULL);
    for (size_t i = 0; i < set->n; i++)
        n += i == 0 || sorted[i] != sorted[i - 1];
    free(sorted);
    return n;
}
