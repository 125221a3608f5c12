// SPDX-License-Identifier: Apache-2.0
// gnuplot as a child that reads its script from us. No state beside the caller's.
#include "base/plot.h"

#include <string.h>

ft_status ft_plot_open(ft_plot *p, ft_error *err)
{
    const char *dot = strrchr(p->path, '.');
    const char *kind = dot && strcmp(dot, ".svg") == 0   ? "svg"
                       : dot && strcmp(dot, ".png") == 0 ? "png"
                       : dot && strcmp(dot, ".txt") == 0 ? "dumb"
                                                         : NULL;
    if (!kind || strchr(p->path, '\'') || strchr(p->path, '\n'))
        return ft_error_set(err, FT_INVALID, "%s: --plot takes a FILE.svg, .png, .txt", p->command);
    p->gnuplot = popen("gnuplot", "w");
    if (!p->gnuplot)
        return ft_error_set(err, FT_UNAVAILABLE, "%s: gnuplot cannot be run", p->command);
    if (strcmp(kind, "dumb") == 0)
        fprintf(p->gnuplot, "set terminal dumb 110,40\n"); /* characters */
    else
        fprintf(p->gnuplot, "set terminal %s size %u,%u\n", kind, p->width, p->height);
    fprintf(p->gnuplot, "set output '%s'\n", p->path);
    return FT_OK;
}

ft_status ft_plot_close(ft_plot *p, ft_error *err)
{
    if (pclose(p->gnuplot) == 0)
        return FT_OK;
    return ft_error_set(err, FT_UNAVAILABLE, "%s: gnuplot failed (is it installed?): no %s",
                        p->command, p->path);
}
