/* SPDX-License-Identifier: Apache-2.0
 *
 * Searches how many devices a server holds (WISP eq. (20)): the largest number at which at most
 * epsilon of the texts are slower than promised. It doubles and bisects; each step runs whole
 * simulations. Pure, except for the progress callback.
 */
#ifndef FT_SIM_WISP_SEARCH_H
#define FT_SIM_WISP_SEARCH_H

#include "base/progress.h"
#include "sim/wisp.h"

typedef struct ft_sim_search {
    const ft_sim_config *config; /* borrowed */
    ft_sim_mode mode;
    uint32_t class; /* or FT_SIM_MIXED */
    uint64_t seed;  /* of the first run; the config says how many */
    uint32_t guess; /* devices to begin with; 0: none is known */
    /* Called before each number of devices is tried; may be NULL. */
    void (*trying)(void *ctx, const struct ft_sim_search *search, uint32_t n_devices);
    void *ctx;
} ft_sim_search;

typedef struct ft_sim_capacity {
    uint32_t n;       /* devices; 0: not even one */
    double slow;      /* share of the texts that are slower than promised, at n; of mixed classes
                         that of the worst, because each class was promised its speed */
    double goodput;   /* tokens of text a second, at n */
    double busy;      /* share of the time in which passes run, at n */
    ft_sim_result at; /* sums over the runs at n; of kv_blocks_least the least */
} ft_sim_capacity;

/* Adds up the counts of two runs; of the least and the most it keeps the extreme. */
void ft_sim_result_add(ft_sim_result *to, const ft_sim_result *r);

/* What n devices get: one run for each seed. Errors as ft_sim_wisp_run. */
FT_WARN_UNUSED ft_status ft_sim_wisp_try(const ft_sim_search *search, uint32_t n, ft_error *err,
                                         ft_sim_capacity *out);

/* The search. At most FT_SIM_DEVICES_MAX devices are tried. Errors as ft_sim_wisp_run. */
FT_WARN_UNUSED ft_status ft_sim_wisp_capacity(const ft_sim_search *search, ft_error *err,
                                              ft_sim_capacity *out);

#endif
