// SPDX-License-Identifier: Apache-2.0 Policies that know deadlines: edf and WISP's. Pure. The picks
// array is the only workspace: verifications stand first, as a heap, from which only those are
// taken that the batch has room for; prompts stand behind them, by arrival. Until a pick is granted
// rows, its n_tok holds its place in the order.
#include <math.h>
#include <string.h>

#include "base/sort.h"
#include "sched/room.h"
#include "sched/tuning.h"

#define TUNE (ft_sched_tune->batch)

/* A place in the order: the rank in the upper two bits, what orders a rank below. Smaller is
 * first. */
#define KEY_MAX     ((1u << 30) - 1)
#define KEY_STEP_US 8 /* of a key that is a time which may be long */
typedef enum rank { RANK_OVERDUE, RANK_CRITICAL, RANK_LATE, RANK_OTHER } rank;

static uint32_t place(rank r, int64_t key)
{
    key = key < 0 ? 0 : key > KEY_MAX ? KEY_MAX : key;
    return (uint32_t)r << 30 | (uint32_t)key;
}

static rank rank_of(uint32_t place)
{
    return (rank)(place >> 30);
}

/* A number that falls as x >= 0 rises: a float's bits are in the order of floats. */
static int64_t falling(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (int64_t)KEY_MAX - (bits >> 2);
}

static int64_t deadline_of(const ft_work *w)
{
    return w->deadline.known ? w->deadline.us : w->arrival_us + TUNE.patience_us;
}

static bool in_order(const void *ctx, const void *a, const void *b)
{
    const ft_pick *x = a, *y = b;
    (void)ctx;
    return x->n_tok != y->n_tok ? x->n_tok < y->n_tok : x->index < y->index;
}

static bool by_arrival(const void *ctx, const void *a, const void *b)
{
    const ft_work *work = ctx;
    const ft_pick *x = a, *y = b;
    int64_t at_x = work[x->index].arrival_us, at_y = work[y->index].arrival_us;
    return at_x != at_y ? at_x < at_y : x->index < y->index;
}

/* Verifications to the front, prompts behind them by arrival. Returns how many verifications. */
static size_t part(const ft_work *work, size_t n, ft_pick *picks)
{
    size_t n_verify = 0, end = n;
    for (size_t i = 0; i < n; i++)
        if (work[i].kind == FT_WORK_VERIFY)
            picks[n_verify++] = (ft_pick){.index = (uint32_t)i};
        else
            picks[--end] = (ft_pick){.index = (uint32_t)i};
    ft_sort(picks + n_verify, n - n_verify, sizeof *picks, by_arrival, work);
    return n_verify;
}

/* ---- WISP ---- */

static ft_pass with(ft_pass pass, const ft_work *w)
{
    return ft_pass_plus(pass, w->n_past, w->n_tok, w->n_out);
}

/* The order among those that are late. A text that was promised too much stays the one that is owed
 * most. It comes last, by its waiting time; otherwise it would take the server from texts whose
 * promises can be kept. */
static uint32_t place_late(const ft_work *w, int64_t now_us)
{
    double slack_us = (double)((w->deadline.known ? w->owed_us : deadline_of(w)) - now_us);
    double served_us = (double)w->share * TUNE.patience_us;
    if (w->tokens_per_s > 0 &&
        -slack_us * (double)(w->tokens_per_s / w->gain_tok) > TUNE.lost * 1e6)
        return place(RANK_LATE, KEY_MAX - (now_us - w->arrival_us) / KEY_STEP_US);
    return place(RANK_LATE, KEY_MAX / 2 + (int64_t)(slack_us + served_us) / KEY_STEP_US);
}

/* Algorithm 1, lines 7 to 14: the place of a work, unless it is the one that is overdue. */
static uint32_t place_of(const ft_work *w, const ft_sched_limits *limits, int64_t now_us)
{
    const ft_pass alone = with((ft_pass){0}, w);
    int64_t own_us = ft_cost_predict(limits->cost, &alone);
    int64_t left_us = deadline_of(w) - now_us;
    if (own_us > left_us)
        return place_late(w, now_us);
    if (left_us - own_us <= limits->guard_us) /* eq. (17): now >= LST */
        return place(RANK_CRITICAL, left_us);
    /* Eq. (16), divided by the time that is left: work that is due much later can wait. The fixed
     * costs of the pass do not count, because each pass has them. */
    double cost_us = ft_cost_added_us(limits->cost, &alone);
    double density = w->gain_tok * (1 - w->share) / (cost_us > 1 ? cost_us : 1) / (double)left_us;
    return place(RANK_OTHER, falling((float)density));
}

/* Of the late picks that have waited more than twice their time, the one that came first. */
static ft_pick *overdue(const ft_work *work, ft_pick *picks, size_t n, int64_t now_us)
{
    ft_pick *found = NULL;
    for (size_t i = 0; i < n; i++) {
        const ft_work *w = &work[picks[i].index];
        int64_t deadline_us = deadline_of(w), given_us = deadline_us - w->arrival_us;
        if (rank_of(picks[i].n_tok) != RANK_LATE ||
            now_us - deadline_us <= (given_us > 0 ? given_us : 0))
            continue;
        if (!found || w->arrival_us < work[found->index].arrival_us)
            found = &picks[i];
    }
    return found;
}

/* What the verifications in a batch say about how long its pass should be. */
typedef struct pace {
    double fixed_us;          /* what any pass costs */
    double gain_tok, fastest; /* of those whose edges draft: the sum, and the highest promise */
    uint32_t n;
    int64_t even_us; /* in a pass of at most this length, late texts keep their speed */
} pace;

static pace pace_of_none(const ft_cost *cost)
{
    return (pace){.fixed_us = ft_cost_fixed_us(cost), .even_us = INT64_MAX};
}

static pace pace_with(pace p, const ft_work *w, rank r)
{
    if (w->edge_drafts && w->tokens_per_s > 0) {
        p.gain_tok += (double)w->gain_tok;
        p.fastest = fmax(p.fastest, (double)w->tokens_per_s);
        p.n++;
    }
    if (r == RANK_LATE && w->even_us > w->arrival_us && w->even_us - w->arrival_us < p.even_us)
        p.even_us = w->even_us - w->arrival_us;
    return p;
}

/* Whether a pass may be so long if a work of that rank joins it. In longer passes all texts move in
 * step, and a text that had bad luck never catches up. Work that is not late can wait for the next
 * pass. */
static bool in_pace(const pace *p, rank r, int64_t us)
{
    double round_us = p->n > 0 ? p->gain_tok / p->n / p->fastest * 1e6 : INFINITY;
    if (r < RANK_LATE)
        return true;
    if (r == RANK_OTHER && us > p->even_us)
        return false;
    return (double)us <= fmax(TUNE.round_share * round_us, TUNE.fixed_times * p->fixed_us);
}

/* Takes verifications in order, as long as all promises in the batch can be kept (lines 15 to 33,
 * with FEASIBLEADD). Work that need not start now is taken only while the pass does not get too
 * long (in_pace). The taken ones move to the end of picks[n], the last one first, with their rows
 * (0: left out). Returns how many. */
static size_t take(const ft_work *work, ft_pick *picks, size_t n, const ft_sched_limits *limits,
                   int64_t now_us, ft_room *room)
{
    size_t left = n;
    pace taken = pace_of_none(limits->cost);
    while (left > 0 && room->rows > 0 && room->verifications > 0) {
        const ft_work *w = &work[picks[0].index];
        rank r = rank_of(picks[0].n_tok);
        bool promised = r == RANK_CRITICAL || r == RANK_OTHER, first = room->pass.rows == 0;
        int64_t latest_us = promised ? deadline_of(w) - now_us : INT64_MAX;
        latest_us = latest_us < room->latest_us ? latest_us : room->latest_us;
        const ft_pass pass = with(room->pass, w);
        const pace all = pace_with(taken, w, r);
        int64_t us = ft_cost_predict(limits->cost, &pass);
        bool fits = first || us <= latest_us;
        if ((!fits && promised) || (!first && !in_pace(&all, r, us)))
            break;
        ft_heap_pop(picks, left--, sizeof *picks, in_order, NULL);
        picks[left].n_tok = fits ? ft_room_grant(room, w, limits) : 0;
        if (picks[left].n_tok > 0) {
            room->latest_us = latest_us;
            taken = all;
        }
    }
    return n - left;
}

/* Brings the taken ones to the front in their order; returns how many. */
static size_t gather(ft_pick *picks, size_t n, size_t n_taken)
{
    ft_pick *taken = picks + n - n_taken;
    size_t out = 0;
    for (size_t i = 0; i < n_taken / 2; i++) {
        ft_pick held = taken[i];
        taken[i] = taken[n_taken - 1 - i];
        taken[n_taken - 1 - i] = held;
    }
    for (size_t i = 0; i < n_taken; i++)
        if (taken[i].n_tok > 0)
            picks[out++] = taken[i];
    return out;
}

/* Grants the prompts picks[n] the room that is left. Those that run are moved to `to`, which is at
 * or before picks. Returns how many. */
static size_t take_prompts(const ft_work *work, const ft_pick *picks, size_t n,
                           const ft_sched_limits *limits, ft_room *room, ft_pick *to)
{
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t granted = ft_room_grant(room, &work[picks[i].index], limits);
        if (granted > 0)
            to[out++] = (ft_pick){.index = picks[i].index, .n_tok = granted};
    }
    return out;
}

static size_t pick_wisp(const ft_work *work, size_t n, const ft_sched_limits *limits,
                        int64_t now_us, ft_pick *picks)
{
    ft_room room = ft_room_of(work, n, limits);
    size_t n_verify = part(work, n, picks);
    for (size_t i = 0; i < n_verify; i++)
        picks[i].n_tok = place_of(&work[picks[i].index], limits, now_us);
    ft_pick *first = overdue(work, picks, n_verify, now_us);
    if (first)
        first->n_tok = place(RANK_OVERDUE, 0);
    ft_heap_make(picks, n_verify, sizeof *picks, in_order, NULL);
    size_t n_taken = take(work, picks, n_verify, limits, now_us, &room);
    size_t out = gather(picks, n_verify, n_taken);
    return out + take_prompts(work, picks + n_verify, n - n_verify, limits, &room, picks + out);
}

const ft_sched_policy ft_sched_wisp = {
    .name = "wisp", .pick = pick_wisp, .awaits = true, .prices = true};

/* ---- earliest deadline first ---- */

static size_t pick_edf(const ft_work *work, size_t n, const ft_sched_limits *limits, int64_t now_us,
                       ft_pick *picks)
{
    ft_room room = ft_room_of(work, n, limits);
    size_t n_verify = part(work, n, picks), out = 0, left = n_verify;
    for (size_t i = 0; i < n_verify; i++) /* what is late is first: KEY_MAX / 2 us are 9 minutes */
        picks[i].n_tok =
            place(RANK_CRITICAL, deadline_of(&work[picks[i].index]) - now_us + KEY_MAX / 2);
    ft_heap_make(picks, n_verify, sizeof *picks, in_order, NULL);
    while (left > 0 && room.rows > 0 && room.verifications > 0) {
        ft_heap_pop(picks, left--, sizeof *picks, in_order, NULL);
        picks[left].n_tok = ft_room_grant(&room, &work[picks[left].index], limits);
    }
    out = gather(picks, n_verify, n_verify - left);
    return out + take_prompts(work, picks + n_verify, n - n_verify, limits, &room, picks + out);
}

const ft_sched_policy ft_sched_edf = {.name = "edf", .pick = pick_edf};
