// SPDX-License-Identifier: Apache-2.0
// First come, first served, and the two baselines that differ from it in when passes start and in
// what they verify. Pure; the picks array serves as the only workspace.
#include "base/sort.h"
#include "sched/room.h"

static bool before(const void *ctx, const void *a, const void *b)
{
    const ft_work *work = ctx;
    uint32_t i = ((const ft_pick *)a)->index, j = ((const ft_pick *)b)->index;
    const ft_work *x = &work[i], *y = &work[j];
    if (x->kind != y->kind)
        return x->kind == FT_WORK_VERIFY;
    if (x->arrival_us != y->arrival_us)
        return x->arrival_us < y->arrival_us;
    return i < j;
}

/* The same, but within a kind the tenant comes first that has had less. */
static bool before_fairly(const void *ctx, const void *a, const void *b)
{
    const ft_work *work = ctx;
    const ft_work *x = &work[((const ft_pick *)a)->index], *y = &work[((const ft_pick *)b)->index];
    if (x->kind == y->kind && (x->share < y->share || x->share > y->share))
        return x->share < y->share;
    return before(ctx, a, b);
}

/* Grants room to all work in that order, whatever order the caller keeps. */
static size_t pick_by(bool (*order)(const void *ctx, const void *a, const void *b),
                      const ft_work *work, size_t n, const ft_sched_limits *limits, ft_pick *picks)
{
    ft_room room = ft_room_of(work, n, limits);
    size_t out = 0;
    for (size_t i = 0; i < n; i++)
        picks[i] = (ft_pick){.index = (uint32_t)i};
    ft_sort(picks, n, sizeof *picks, order, work);
    for (size_t i = 0; i < n; i++) {
        uint32_t granted = ft_room_grant(&room, &work[picks[i].index], limits);
        if (granted > 0)
            picks[out++] = (ft_pick){.index = picks[i].index, .n_tok = granted};
    }
    return out;
}

/* Neither order depends on the time. */
static size_t pick(const ft_work *work, size_t n, const ft_sched_limits *limits, int64_t now_us,
                   ft_pick *picks)
{
    (void)now_us;
    return pick_by(before, work, n, limits, picks);
}

static size_t pick_fairly(const ft_work *work, size_t n, const ft_sched_limits *limits,
                          int64_t now_us, ft_pick *picks)
{
    (void)now_us;
    return pick_by(before_fairly, work, n, limits, picks);
}

const ft_sched_policy ft_sched_fcfs = {.name = "fcfs", .pick = pick_fairly};

const ft_sched_policy ft_sched_centralized = {
    .name = "centralized", .pick = pick, .no_drafts = true};

static size_t pick_static(const ft_work *work, size_t n, const ft_sched_limits *limits,
                          int64_t now_us, ft_pick *picks)
{
    ft_sched_limits of_batch = *limits;
    if (limits->max_verify == 0 || limits->max_verify > limits->static_batch)
        of_batch.max_verify = limits->static_batch;
    return pick(work, n, &of_batch, now_us, picks);
}

static int64_t start_static(size_t n, int64_t oldest_us, const ft_sched_limits *limits)
{
    return n >= limits->static_batch ? oldest_us : oldest_us + limits->static_wait_us;
}

const ft_sched_policy ft_sched_static = {
    .name = "static", .pick = pick_static, .start_us = start_static};
