/* SPDX-License-Identifier: Apache-2.0
 *
 * Plots through gnuplot, which is needed only for this. */
#ifndef FT_BASE_PLOT_H
#define FT_BASE_PLOT_H

#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

typedef struct ft_plot {
    const char *command; /* "simulate"; messages begin with it */
    const char *path;    /* its extension gives the format: .svg, .png or .txt */
    uint32_t width, height;
    FILE *gnuplot; /* write the script here */
} ft_plot;

/* Whether a plot can be drawn there, before what it shows is computed. Writes nothing. FT_INVALID
 * (path), FT_UNAVAILABLE (no gnuplot). */
FT_WARN_UNUSED ft_status ft_plot_check(const char *command, const char *path, ft_error *err);
/* Starts gnuplot and sets output and terminal. The caller has filled in command, path and size.
 * FT_INVALID (path), FT_UNAVAILABLE. */
FT_WARN_UNUSED ft_status ft_plot_open(ft_plot *plot, ft_error *err);
/* Ends gnuplot. FT_UNAVAILABLE: there is no plot. */
FT_WARN_UNUSED ft_status ft_plot_close(ft_plot *plot, ft_error *err);

#endif
