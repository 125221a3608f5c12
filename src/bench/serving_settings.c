// SPDX-License-Identifier: Apache-2.0
// Every combination of the lists. Pure.
#include "bench/serving_settings.h"

const char *const ft_bench_shape_name[] = {"tree", "chain", NULL};

static uint32_t most_of(const ft_bench_list *list)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < list->n; i++)
        most = list->value[i] > most ? list->value[i] : most;
    return most;
}

/* The setting `like`, at each depth. */
static void add_depths(const ft_bench_list *depths, const ft_bench_serving_setting *like,
                       ft_bench_serving_setting *out, uint32_t *n)
{
    for (uint32_t i = 0; i <= depths->n; i++) {
        if (i > 0 && depths->n == 1)
            break;
        out[*n] = *like;
        out[*n].fixed = i > 0;
        out[*n].depth = i > 0 ? depths->value[i - 1] : most_of(depths);
        (*n)++;
    }
}

static uint32_t leader_of(const ft_bench_serving_setting *settings, uint32_t of)
{
    for (uint32_t i = 0; i < of; i++)
        if (settings[i].batch == settings[of].batch && settings[i].shape == settings[of].shape)
            return i;
    return of;
}

ft_status ft_bench_serving_settings(const ft_bench_serving_sweep *s, ft_error *err,
                                    ft_bench_serving_setting out[FT_BENCH_SERVING_SETTINGS_MAX],
                                    uint32_t *n)
{
    const uint32_t depths = s->depth.n > 1 ? s->depth.n + 1 : 1;
    *n = 0;
    for (int shape = 0; shape < FT_BENCH_SHAPES; shape++)
        for (uint32_t b = 0; b < s->batch.n && s->shape[shape]; b++)
            for (uint32_t d = 0; d < s->n_draft_ms; d++) {
                const ft_bench_serving_setting like = {.batch = s->batch.value[b],
                                                       .draft_ms = s->draft_ms[d],
                                                       .shape = (ft_bench_shape)shape};
                if (*n + depths > FT_BENCH_SERVING_SETTINGS_MAX)
                    return ft_error_set(err, FT_INVALID,
                                        "bench serving: the lists give more than %d settings: "
                                        "pass shorter ones",
                                        FT_BENCH_SERVING_SETTINGS_MAX);
                add_depths(&s->depth, &like, out, n);
            }
    for (uint32_t i = 0; i < *n; i++)
        out[i].leader = leader_of(out, i);
    return FT_OK;
}

uint32_t ft_bench_serving_most_batch(const ft_bench_serving_sweep *sweep)
{
    return most_of(&sweep->batch);
}

static uint32_t divisor_of(uint32_t a, uint32_t b)
{
    while (b) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

uint32_t ft_bench_serving_multiple(const ft_bench_serving_sweep *sweep)
{
    uint64_t multiple = 1;
    for (uint32_t i = 0; i < sweep->batch.n && multiple < UINT32_MAX; i++) {
        const uint32_t most = 2 * sweep->batch.value[i];
        multiple = multiple / divisor_of((uint32_t)multiple, most) * most;
    }
    return multiple < UINT32_MAX ? (uint32_t)multiple : UINT32_MAX;
}
