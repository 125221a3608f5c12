/* SPDX-License-Identifier: Apache-2.0
 *
 * WISP's figures 7 and 8 as JSON and as a plot: shares of slow texts over the number of devices,
 * and rounds by waiting time and time of the pass. From a simulation (simulate wisp --sweep) or
 * from real servers (bench capacity --sweep). Stateless. */
#ifndef FT_BENCH_KNEE_H
#define FT_BENCH_KNEE_H

#include <jansson.h>
#include <stdio.h>

#include "sim/wisp_sweep.h"

#define FT_KNEE_WAYS 8 /* to serve */

typedef struct ft_knee {
    const char *command;          /* "simulate"; messages begin with it */
    double epsilon;               /* share of texts that may be slow */
    size_t n_ways;                /* at most FT_KNEE_WAYS */
    const char *const *way;       /* [n_ways] names */
    size_t n_classes;             /* at most FT_SIM_CLASSES */
    double speed[FT_SIM_CLASSES]; /* tokens/s */
    /* By way, and by class; at n_classes: classes mixed. Without points: not known. */
    ft_sim_curve curve[FT_KNEE_WAYS][FT_SIM_CLASSES + 1];
    double paper[FT_KNEE_WAYS][FT_SIM_CLASSES]; /* the paper's capacity; 0: it has none */
    double bound[FT_SIM_CLASSES + 1];           /* most devices of any way; 0: not known */
    const char *plane_way;                      /* the plane is of; NULL: there is none */
    ft_sim_plane plane;
} ft_knee;

/* "8" or "mixed". Returns name. */
const char *ft_knee_class_name(const ft_knee *knee, size_t class, char name[16]);
/* Late verdicts by cause, as an object. */
json_t *ft_knee_late_json(const uint64_t late[FT_LATE_CAUSES]);
/* Sets "sweep", and "plane" if there is one. */
void ft_knee_json(const ft_knee *knee, json_t *out);
/* Prints between which numbers of devices the share of slow texts crosses epsilon, and of the plane
 * how many rounds were late, by cause. */
void ft_knee_print(const ft_knee *knee, FILE *out);
/* The script of the plot, for gnuplot. */
void ft_knee_script(const ft_knee *knee, FILE *out);
/* The plot. FT_INVALID: the path's ending; FT_UNAVAILABLE: no gnuplot. */
FT_WARN_UNUSED ft_status ft_knee_plot(const ft_knee *knee, const char *path, ft_error *err);

#endif
