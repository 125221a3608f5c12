// SPDX-License-Identifier: Apache-2.0
// Samples out of a trace store. Appendix B's labels are the store's: accepted tokens are 1, the
// first rejected ones 0, and what lies behind them was never judged. No state but the caller's.
#include "cmd/train_set.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "base/sort.h"
#include "learn/trace.h"

typedef struct reading {
    ft_train_set *set;
    bool several[2]; /* drafts, targets */
    bool failed;
} reading;

static bool reserve(ft_train_set *s, size_t n)
{
    if (n <= s->cap)
        return true;
    size_t cap = s->cap ? s->cap : 4096;
    while (cap < n)
        cap *= 2;
    float *x = realloc(s->x, cap * FT_FEATURES * sizeof *x);
    s->x = x ? x : s->x;
    uint8_t *y = x ? realloc(s->y, cap * sizeof *y) : NULL;
    s->y = y ? y : s->y;
    int64_t *session = y ? realloc(s->session, cap * sizeof *session) : NULL;
    s->session = session ? session : s->session;
    s->cap = session ? cap : s->cap;
    return session != NULL;
}

static bool append(ft_train_set *s, const float *x, bool y, int64_t session)
{
    if (!reserve(s, s->n + 1))
        return false;
    memcpy(s->x + s->n * FT_FEATURES, x, FT_FEATURES * sizeof *x);
    s->y[s->n] = y;
    s->session[s->n] = session;
    s->n++;
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
    note(&r->set->draft, sample->draft, &r->several[0]);
    note(&r->set->target, sample->target, &r->several[1]);
    r->failed = !append(r->set, sample->feature, sample->accepted, sample->session);
    return !r->failed;
}

ft_status ft_train_set_read(const char *path, ft_error *err, ft_train_set *out)
{
    reading r = {.set = out};
    *out = (ft_train_set){0};
    ft_status status = ft_trace_each_node(path, each, &r, err);
    if (status == FT_OK && r.failed)
        status = ft_error_set(err, FT_NOMEM, "out of memory for %zu samples", out->n);
    if (r.several[0])
        out->draft = 0;
    if (r.several[1])
        out->target = 0;
    return status;
}

void ft_train_set_deinit(ft_train_set *set)
{
    free(set->x);
    free(set->y);
    free(set->session);
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
    memcpy(sorted, set->session, set->n * sizeof *sorted);
    ft_sort(sorted, set->n, sizeof *sorted, lower, NULL);
    for (size_t i = 0; i < set->n; i++)
        n += i == 0 || sorted[i] != sorted[i - 1];
    free(sorted);
    return n;
}

static ft_train_part part_of(int64_t session, const ft_train_split *split)
{
    const uint64_t both[2] = {(uint64_t)session, split->seed};
    const uint32_t at = (uint32_t)(ft_fnv64(FT_FNV64_INIT, both, sizeof both) % 100);
    if (at < split->validate)
        return FT_TRAIN_VALIDATE;
    return at < split->validate + split->test ? FT_TRAIN_TEST : FT_TRAIN_FIT;
}

ft_status ft_train_set_part(const ft_train_set *set, const ft_train_split *split,
                            ft_train_part part, ft_error *err, ft_train_set *out)
{
    for (size_t i = 0; i < set->n; i++)
        if (part_of(set->session[i], split) == part &&
            !append(out, set->x + i * FT_FEATURES, set->y[i], set->session[i]))
            return ft_error_set(err, FT_NOMEM, "out of memory for %zu samples", out->n);
    return FT_OK;
}
