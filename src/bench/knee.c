// SPDX-License-Identifier: Apache-2.0
// Figures of sweeps over the number of devices. The paper gives no numbers for the curves of its
// figures 7 and 8, so the plot has only ours. Stateless.
#include "bench/knee.h"

#include <string.h>

#include "base/num.h"
#include "base/plot.h"

const char *ft_knee_class_name(const ft_knee *k, size_t class, char name[16])
{
    if (class == k->n_classes)
        snprintf(name, 16, "mixed");
    else
        snprintf(name, 16, "%g", k->speed[class]);
    return name;
}

static bool has(const ft_knee *k, size_t class)
{
    for (size_t way = 0; way < k->n_ways; way++)
        if (k->curve[way][class].n > 0)
            return true;
    return false;
}

static bool has_way(const ft_knee *k, size_t way)
{
    for (size_t col = 0; col <= k->n_classes; col++)
        if (k->curve[way][col].n > 0)
            return true;
    return false;
}

/* ---- JSON ---- */

static json_t *curve_json(const ft_knee *k, size_t way, size_t class)
{
    const ft_sim_curve *c = &k->curve[way][class];
    const ft_sim_crossing at = ft_sim_curve_crossing(c, k->epsilon);
    json_t *devices = json_array(), *rate = json_array(), *by_class = json_object();
    for (size_t i = 0; i < c->n; i++) {
        json_array_append_new(devices, json_integer(c->at[i].n));
        json_array_append_new(rate, json_real(c->at[i].slow));
    }
    for (size_t one = 0; one < k->n_classes && class == k->n_classes; one++) {
        json_t *of = json_array();
        char name[16];
        for (size_t i = 0; i < c->n; i++)
            json_array_append_new(of, json_real(c->at[i].slow_of[one]));
        json_object_set_new(by_class, ft_knee_class_name(k, one, name), of);
    }
    json_t *out = json_pack("{s:i, s:{s:i, s:i}, s:o, s:o}", "capacity", (int)c->capacity,
                            "crosses_epsilon", "below", (int)at.below, "above", (int)at.above,
                            "devices", devices, "violation_rate", rate);
    if (class == k->n_classes)
        json_object_set(out, "violation_rate_by_class", by_class);
    else if (k->paper[way][class] > 0)
        json_object_set_new(out, "paper_capacity", json_real(k->paper[way][class]));
    json_decref(by_class);
    return out;
}

json_t *ft_knee_late_json(const uint64_t late[FT_LATE_CAUSES])
{
    json_t *out = json_object();
    for (int cause = FT_LATE_NONE + 1; cause < FT_LATE_CAUSES; cause++)
        json_object_set_new(out, ft_late_name[cause], json_integer((json_int_t)late[cause]));
    return out;
}

static json_t *plane_json(const ft_knee *k)
{
    const ft_sim_plane *p = &k->plane;
    json_t *points = json_array(), *late = json_object();
    char name[16];
    for (size_t i = 0; i < p->n; i++)
        json_array_append_new(points,
                              json_pack("[f, f, f, s]", (double)p->at[i].queue_us / 1e3,
                                        (double)p->at[i].verify_us / 1e3, k->speed[p->at[i].class],
                                        ft_late_name[p->at[i].late]));
    for (size_t one = 0; one < k->n_classes; one++)
        json_object_set_new(late, ft_knee_class_name(k, one, name),
                            ft_knee_late_json(p->result.late[one]));
    return json_pack("{s:s, s:i, s:I, s:o, s:o}", "policy", k->plane_way, "devices",
                     (int)p->n_devices, "rounds", (json_int_t)p->n_seen, "late", late,
                     "queue_verify_class_late", points);
}

void ft_knee_json(const ft_knee *k, json_t *out)
{
    json_t *curves = json_object();
    char name[16];
    for (size_t way = 0; way < k->n_ways; way++) {
        if (!has_way(k, way))
            continue;
        json_t *by_class = json_object();
        for (size_t col = 0; col <= k->n_classes; col++)
            if (k->curve[way][col].n > 0)
                json_object_set_new(by_class, ft_knee_class_name(k, col, name),
                                    curve_json(k, way, col));
        json_object_set_new(curves, k->way[way], by_class);
    }
    json_object_set_new(out, "sweep", curves);
    if (k->plane_way)
        json_object_set_new(out, "plane", plane_json(k));
}

/* ---- tables ---- */

static void print_crossings(const ft_knee *k, FILE *out)
{
    char name[16], range[40];
    fprintf(out,
            "the share of slow texts crosses %g between so many devices (in brackets: the "
            "search)\n%-14s",
            k->epsilon, "tokens/s");
    for (size_t col = 0; col <= k->n_classes; col++)
        if (has(k, col))
            fprintf(out, " %16s", ft_knee_class_name(k, col, name));
    fprintf(out, "\n");
    for (size_t way = 0; way < k->n_ways; way++) {
        if (!has_way(k, way))
            continue;
        fprintf(out, "%-14s", k->way[way]);
        for (size_t col = 0; col <= k->n_classes; col++) {
            const ft_sim_curve *c = &k->curve[way][col];
            const ft_sim_crossing at = ft_sim_curve_crossing(c, k->epsilon);
            snprintf(range, sizeof range, "%u-%u (%u)", at.below, at.above, c->capacity);
            if (has(k, col))
                fprintf(out, " %16s", c->n > 0 ? range : "");
        }
        fprintf(out, "\n");
    }
}

static void print_late(const ft_knee *k, FILE *out)
{
    const ft_sim_plane *p = &k->plane;
    char name[16];
    fprintf(out, "\nrounds of %s, %u devices: of a thousand, those that were late\n%-14s",
            k->plane_way, p->n_devices, "tokens/s");
    for (int cause = FT_LATE_NONE + 1; cause < FT_LATE_CAUSES; cause++)
        fprintf(out, " %10s", ft_late_name[cause]);
    fprintf(out, "\n");
    for (size_t one = 0; one < k->n_classes; one++) {
        double all = 0;
        for (int cause = 0; cause < FT_LATE_CAUSES; cause++)
            all += (double)p->result.late[one][cause];
        if (all == 0)
            continue;
        fprintf(out, "%-14s", ft_knee_class_name(k, one, name));
        for (int cause = FT_LATE_NONE + 1; cause < FT_LATE_CAUSES; cause++)
            fprintf(out, " %10.1f", 1000 * (double)p->result.late[one][cause] / all);
        fprintf(out, "\n");
    }
}

void ft_knee_print(const ft_knee *k, FILE *out)
{
    print_crossings(k, out);
    if (k->plane_way)
        print_late(k, out);
}

/* ---- the plot ---- */

static void write_points(const ft_knee *k, FILE *out)
{
    for (size_t way = 0; way < k->n_ways; way++)
        for (size_t col = 0; col <= k->n_classes; col++) {
            const ft_sim_curve *c = &k->curve[way][col];
            if (c->n == 0)
                continue;
            fprintf(out, "$curve%zu_%zu << EOD\n", way, col);
            for (size_t i = 0; i < c->n; i++) {
                fprintf(out, "%u %g", c->at[i].n, c->at[i].slow);
                for (size_t one = 0; one < k->n_classes; one++)
                    fprintf(out, " %g", c->at[i].slow_of[one]);
                fputc('\n', out);
            }
            fprintf(out, "EOD\n");
        }
    for (size_t col = 0; col <= k->n_classes; col++)
        if (k->bound[col] > 0)
            fprintf(out, "$bound%zu << EOD\n%g 0\n%g 1\nEOD\n", col, k->bound[col], k->bound[col]);
    for (int cause = 0; cause < FT_LATE_CAUSES; cause++) {
        fprintf(out, "$late%d << EOD\nNaN NaN\n", cause);
        for (size_t i = 0; i < k->plane.n; i++)
            if ((int)k->plane.at[i].late == cause)
                fprintf(out, "%g %g\n", (double)k->plane.at[i].queue_us / 1e3,
                        (double)k->plane.at[i].verify_us / 1e3);
        fprintf(out, "EOD\n");
    }
}

static void draw_epsilon(const ft_knee *k, FILE *out)
{
    fprintf(out, "%g with lines dashtype 2 linecolor 'black' title 'epsilon'\n", k->epsilon);
}

/* One class alone, or the worst one of classes mixed: all ways, and where the searches ended. */
static void draw_class(const ft_knee *k, size_t class, FILE *out)
{
    if (class == k->n_classes)
        fprintf(out, "set title 'classes mixed: the worst class");
    else
        fprintf(out, "set title 'all devices at %g tokens/s", k->speed[class]);
    fprintf(out, " (vertical, coloured: the search; points: the paper)'\n");
    for (size_t way = 0; way < k->n_ways; way++)
        if (k->curve[way][class].capacity > 0)
            fprintf(out,
                    "set arrow from %u, graph 0 to %u, graph 1 nohead dashtype 3 linecolor %zu\n",
                    k->curve[way][class].capacity, k->curve[way][class].capacity, way + 1);
    fprintf(out, "plot ");
    for (size_t way = 0; way < k->n_ways; way++)
        if (k->curve[way][class].n > 0)
            fprintf(out,
                    "$curve%zu_%zu using 1:2 with lines linewidth 2 linecolor %zu "
                    "title '%s', ",
                    way, class, way + 1, k->way[way]);
    for (size_t way = 0; way < k->n_ways && class < k->n_classes; way++)
        if (k->paper[way][class] > 0)
            fprintf(out,
                    "'+' using (%g):(%g) every ::::0 with points pointtype 7 pointsize 1.5 "
                    "linecolor %zu title 'the paper: %s', ",
                    k->paper[way][class], k->epsilon, way + 1, k->way[way]);
    if (k->bound[class] > 0)
        fprintf(out,
                "$bound%zu with lines dashtype 4 linewidth 2 linecolor 'black' "
                "title 'bound by the times of this run', ",
                class);
    draw_epsilon(k, out);
    fprintf(out, "unset arrow\n");
}

/* Figure 7: classes mixed, each class by itself. */
static void draw_mixed(const ft_knee *k, FILE *out)
{
    static const char *const shown[] = {"wisp", "fcfs"}; /* as the paper has it */
    char name[16];
    fprintf(out, "set title 'classes mixed, by class (figure 7)'\nplot ");
    for (size_t way = 0; way < k->n_ways; way++)
        for (size_t i = 0; i < FT_COUNT(shown); i++)
            for (size_t one = 0; one < k->n_classes && strcmp(k->way[way], shown[i]) == 0; one++)
                if (k->curve[way][k->n_classes].n > 0)
                    fprintf(out,
                            "$curve%zu_%zu using 1:%zu with %s linewidth 2 linecolor %zu "
                            "title '%s, %s tokens/s', ",
                            way, k->n_classes, 3 + one, i ? "linespoints" : "lines", one + 1,
                            k->way[way], ft_knee_class_name(k, one, name));
    draw_epsilon(k, out);
}

/* Figure 8. */
static void draw_plane(const ft_knee *k, FILE *out)
{
    fprintf(out,
            "set title 'rounds of %s, %u devices (figure 8)'\nset xlabel 'waiting, ms'\n"
            "set ylabel 'pass, ms'\nunset logscale x\nset yrange [0:*]\n"
            "plot $late%d with points pointtype 7 pointsize 0.3 linecolor 'gray' title 'in time'",
            k->plane_way, k->plane.n_devices, FT_LATE_NONE);
    for (int cause = FT_LATE_NONE + 1; cause < FT_LATE_CAUSES; cause++)
        fprintf(out,
                ", $late%d with points pointtype 7 pointsize 0.4 linecolor %d title 'late: %s' "
                "noenhanced",
                cause, cause, ft_late_name[cause]);
    fputc('\n', out);
}

static uint32_t n_panels(const ft_knee *k)
{
    uint32_t n = k->plane_way != NULL;
    for (size_t col = 0; col <= k->n_classes; col++)
        n += has(k, col);
    return n + has(k, k->n_classes); /* classes mixed have two */
}

void ft_knee_script(const ft_knee *k, FILE *out)
{
    write_points(k, out);
    fprintf(out,
            "set multiplot layout %u,2\nset key outside\nset xlabel 'devices'\n"
            "set ylabel 'share of slow texts'\nset yrange [0:1]\nset logscale x 2\n",
            (n_panels(k) + 1) / 2);
    for (size_t col = 0; col <= k->n_classes; col++)
        if (has(k, col))
            draw_class(k, col, out);
    if (has(k, k->n_classes))
        draw_mixed(k, out);
    if (k->plane_way)
        draw_plane(k, out);
    fprintf(out, "unset multiplot\n");
}

ft_status ft_knee_plot(const ft_knee *k, const char *path, ft_error *err)
{
    ft_plot p = {.command = k->command,
                 .path = path,
                 .width = 1600,
                 .height = 480 * ((n_panels(k) + 1) / 2)};
    ft_status status = ft_plot_open(&p, err);
    if (status != FT_OK)
        return status;
    ft_knee_script(k, p.gnuplot);
    return ft_plot_close(&p, err);
}
