// SPDX-License-Identifier: Apache-2.0
// The choice of a server. On the ring a server has many points, so that all get about equal parts;
// if one is lost, only its own keys move. The caller owns the state.
#include "sim/fleet_assign.h"

#include <stdlib.h>
#include <string.h>

#include "base/sort.h"

#define X(id, text) [FT_FLEET_##id] = text,
const char *const ft_fleet_assign_name[FT_FLEET_ASSIGNS] = {FT_FLEET_ASSIGN_LIST(X)};
#undef X

uint64_t ft_fleet_hash(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

ft_status ft_fleet_servers_init(ft_fleet_servers *s, size_t most, size_t points, ft_error *err)
{
    *s = (ft_fleet_servers){.alive = calloc(most, sizeof *s->alive),
                            .ring = calloc(most * points, sizeof *s->ring),
                            .points = points};
    return s->alive && s->ring ? FT_OK : ft_error_set(err, FT_NOMEM, "simulate: out of memory");
}

void ft_fleet_servers_deinit(ft_fleet_servers *s)
{
    free(s->alive);
    free(s->ring);
}

static bool in_order(const void *ctx, const void *a, const void *b)
{
    const ft_fleet_point *x = a, *y = b;
    (void)ctx;
    return x->at != y->at ? x->at < y->at : x->server < y->server;
}

void ft_fleet_servers_set(ft_fleet_servers *s, const uint32_t *alive, size_t n)
{
    size_t out = 0;
    memmove(s->alive, alive, n * sizeof *alive);
    s->n = n;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < s->points; k++)
            s->ring[out++] = (ft_fleet_point){.at = ft_fleet_hash((uint64_t)alive[i] << 32 | k),
                                              .server = alive[i]};
    ft_sort(s->ring, out, sizeof *s->ring, in_order, NULL);
}

/* The first point at or behind the key; behind the last one comes the first. */
static uint32_t on_ring(const ft_fleet_servers *s, uint64_t key)
{
    size_t low = 0, high = s->n * s->points;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->ring[mid].at < key)
            low = mid + 1;
        else
            high = mid;
    }
    return s->ring[low < s->n * s->points ? low : 0].server;
}

uint32_t ft_fleet_choose(const ft_fleet_servers *s, ft_fleet_assign how, uint64_t key,
                         const uint32_t *load, ft_rng *rng)
{
    if (s->n == 0)
        return FT_FLEET_NONE;
    if (how == FT_FLEET_RING)
        return on_ring(s, key);
    uint32_t a = s->alive[ft_rng_below(rng, (uint32_t)s->n)];
    if (how == FT_FLEET_RANDOM)
        return a;
    uint32_t b = s->alive[ft_rng_below(rng, (uint32_t)s->n)];
    return load[b] < load[a] ? b : a;
}
