/* SPDX-License-Identifier: Apache-2.0
 *
 * The share of slow texts over the number of devices (WISP figure 7), by way to serve, and the
 * rounds of one run as points of queueing and computing time (figure 8). Pure.
 */
#ifndef FT_SIM_WISP_SWEEP_H
#define FT_SIM_WISP_SWEEP_H

#include "base/rng.h"
#include "sim/wisp_search.h"

/* Ways to serve: X(NAME, "name", mode, policy of mode wisp or NULL). They have the names of
 * `bench capacity`; the mode fcfs is SLED. */
#define FT_SIM_WAY_LIST(X)                \
    X(WISP, "wisp", WISP, &ft_sched_wisp) \
    X(EDF, "edf", WISP, &ft_sched_edf)    \
    X(FCFS, "fcfs", WISP, &ft_sched_fcfs) \
    X(SLED, "sled", FCFS, NULL)           \
    X(CENTRALIZED, "centralized", CENTRALIZED, NULL)
typedef enum ft_sim_way {
#define X(name, text, mode, policy) FT_SIM_WAY_##name,
    FT_SIM_WAY_LIST(X)
#undef X
        FT_SIM_WAYS
} ft_sim_way;
extern const char *const ft_sim_way_name[FT_SIM_WAYS];

/* The search of one way. *config becomes a copy of `of` with the way's policy; the search borrows
 * it. */
ft_sim_search ft_sim_way_search(ft_sim_way way, const ft_sim_config *of, ft_sim_config *config);

#define FT_SIM_SWEEP_OF    8  /* a step is this part of the capacity */
#define FT_SIM_SWEEP_STEPS 12 /* up to one and a half of it */
#define FT_SIM_SWEEP_NEAR  4  /* also every number of devices within this distance of it */
#define FT_SIM_SWEEP_MOST  (FT_SIM_SWEEP_STEPS + 2 * FT_SIM_SWEEP_NEAR + 1)

typedef struct ft_sim_sweep_point {
    uint32_t n;                     /* devices */
    double slow;                    /* as ft_sim_capacity has it */
    double slow_of[FT_SIM_CLASSES]; /* the share of each class */
} ft_sim_sweep_point;

typedef struct ft_sim_curve {
    uint32_t capacity; /* as the search found it */
    ft_sim_sweep_point at[FT_SIM_SWEEP_MOST];
    size_t n;
} ft_sim_curve;

/* The numbers of devices that are tried around a capacity, rising. Returns how many. */
size_t ft_sim_sweep_numbers(uint32_t capacity, uint32_t out[FT_SIM_SWEEP_MOST]);

/* Tries these numbers. Errors as ft_sim_wisp_run. */
FT_WARN_UNUSED ft_status ft_sim_wisp_sweep(const ft_sim_search *search, uint32_t capacity,
                                           ft_error *err, ft_sim_curve *out);

/* Where the curve crosses epsilon: the shares of all tried numbers up to `below` are at most that
 * (0: that of the first is not), and those of all from `above` on are larger (0: that of the last
 * is not). */
typedef struct ft_sim_crossing {
    uint32_t below, above;
} ft_sim_crossing;
ft_sim_crossing ft_sim_curve_crossing(const ft_sim_curve *curve, double epsilon);

#define FT_SIM_PLANE_POINTS 4000

/* Rounds of one run: some, drawn evenly from all of them. */
typedef struct ft_sim_plane {
    uint32_t n_devices;
    ft_sim_round at[FT_SIM_PLANE_POINTS];
    size_t n;
    uint64_t n_seen;
    ft_sim_result result; /* of the run */
    ft_rng rng;
} ft_sim_plane;

/* One run of n devices. Errors as ft_sim_wisp_run. */
FT_WARN_UNUSED ft_status ft_sim_wisp_plane(const ft_sim_search *search, uint32_t n, ft_error *err,
                                           ft_sim_plane *out);

#endif
