/* SPDX-License-Identifier: Apache-2.0
 *
 * Plots by gnuplot, which is asked for only where somebody wants one. */
#ifndef FT_CMD_PLOT_H
#define FT_CMD_PLOT_H

#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

typedef struct ft_plot {
    const char *command; /* "simulate": begins messages */
    const char *path;    /* its ending says which kind: .svg, .png or .txt */
    uint32_t width, height;
    FILE *gnuplot; /* what is written there is its script */
} ft_plot;

/* Starts gnuplot with output and terminal set; command, path and size are the caller's. FT_INVALID: the
 * path; FT_UNAVAILABLE. */
FT_WARN_UNUSED ft_status ft_plot_open(ft_plot *plot, ft_error *err);
/* Ends it. FT_UNAVAILABLE: there is no plot. */
FT_WARN_UNUSED ft_status ft_plot_close(ft_plot *plot, ft_error *err);

#endif
