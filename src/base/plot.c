// SPDX-License-Identifier: Apache-2.0
// gnuplot as a child that reads its script from us. No state beside the caller's.
#include "base/plot.h"

#include <string.h>

/* gnuplot's terminal for a file. */
static ft_status terminal_of(const char *command, const char *path, ft_error *err, const char **out)
{
    const char *dot = strrchr(path, '.');
    *out = dot && strcmp(dot, ".svg") == 0   ? "svg"
           : dot && strcmp(dot, ".png") == 0 ? "png"
           : dot && strcmp(dot, ".txt") == 0 ? "dumb"
                                             : NULL;
    if (!*out || strchr(path, '\'') || strchr(path, '\n'))
        return ft_error_set(err, FT_INVALID, "%s: --plot takes a FILE.svg, .png, .txt", command);
    return FT_OK;
}

static ft_status start(ft_plot *p, ft_error *err)
{
    p->gnuplot = popen("gnuplot", "w");
    if (!p->gnuplot)
        return ft_error_set(err, FT_UNAVAILABLE, "%s: gnuplot cannot be run", p->command);
    return FT_OK;
}

ft_status ft_plot_check(const char *command, const char *path, ft_error *err)
{
    ft_plot p = {.command = command, .path = path};
    const char *kind;
    ft_status status = terminal_of(command, path, err, &kind);
    if (status == FT_OK)
        status = start(&p, err);
    return status == FT_OK ? ft_plot_close(&p, err) : status;
}

ft_status ft_plot_open(ft_plot *p, ft_error *err)
{
    const char *kind;
    ft_status status = terminal_of(p->command, p->path, err, &kind);
    if (status == FT_OK)
        status = start(p, err);
    if (status != FT_OK)
        return status;
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
