// SPDX-License-Identifier: Apache-2.0
// Draws by gnuplot from the report alone: the points stand as named blocks of data, then comes one
// plot of them. No state.
#include "bench/capacity_plot.h"

#include <math.h>

#include "base/plot.h"
#include "bench/capacity_beside.h"

/* What WISP's ratio would make of the devices that centralized serving holds here. Returns how many
 * classes the paper has. */
static uint32_t write_paper(const ft_bench_capacity_report *report, FILE *out)
{
    uint32_t n = 0;
    fprintf(out, "$paper << EOD\n");
    for (uint32_t i = 0; i < report->n_classes && report->way[FT_BENCH_CAPACITY_CENTRALIZED]; i++) {
        const double ratio = ft_capacity_beside_paper(report, FT_BENCH_CAPACITY_CENTRALIZED, i);
        if (ratio <= 0)
            continue;
        fprintf(out, "%g %g\n", (double)report->classes[i].tokens_per_s,
                ratio * report->found[FT_BENCH_CAPACITY_CENTRALIZED][i].at.n);
        n++;
    }
    fprintf(out, "EOD\n");
    return n;
}

/* False: there is none. */
static bool write_bound(const ft_bench_capacity_report *report, FILE *out)
{
    ft_capacity_times times;
    if (!ft_capacity_beside_times(report, &times) || times.row_s <= 0)
        return false;
    fprintf(out, "$bound << EOD\n");
    for (uint32_t i = 0; i < report->n_classes; i++)
        fprintf(out, "%g %g\n", (double)report->classes[i].tokens_per_s,
                ft_capacity_beside_bound(report, &times, i).drafts);
    fprintf(out, "EOD\n");
    return true;
}

void ft_bench_capacity_script(const ft_bench_capacity_report *report, FILE *out)
{
    for (int way = 0; way < FT_BENCH_CAPACITY_WAYS; way++) {
        if (!report->way[way])
            continue;
        fprintf(out, "$way%d << EOD\n", way);
        for (uint32_t i = 0; i < report->n_classes; i++)
            fprintf(out, "%g %u\n", (double)report->classes[i].tokens_per_s,
                    report->found[way][i].at.n);
        fprintf(out, "EOD\n");
    }
    const uint32_t n_paper = write_paper(report, out);
    const bool bound = write_bound(report, out);
    const char *between = "";
    fprintf(out, "set key right top\nset xlabel 'promised tokens/s'\n"
                 "set ylabel 'devices held'\nset yrange [0:*]\nplot ");
    for (int way = 0; way < FT_BENCH_CAPACITY_WAYS; way++) {
        if (!report->way[way])
            continue;
        fprintf(out, "%s$way%d with linespoints title '%s'", between, way,
                ft_bench_capacity_way_name[way]);
        between = ", ";
    }
    if (bound)
        fprintf(out, ", $bound with lines dashtype 2 title 'bound by the times of this run'");
    if (n_paper > 0)
        fprintf(out,
                ", $paper with points pointtype 7 title 'WISP: its gain over our centralized'");
    fputc('\n', out);
}

ft_status ft_bench_capacity_plot(const ft_bench_capacity_report *report, const char *path,
                                 ft_error *err)
{
    ft_plot p = {.command = "bench capacity", .path = path, .width = 720, .height = 480};
    ft_status status = ft_plot_open(&p, err);
    if (status != FT_OK)
        return status;
    ft_bench_capacity_script(report, p.gnuplot);
    return ft_plot_close(&p, err);
}
