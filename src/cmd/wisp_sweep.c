// SPDX-License-Identifier: Apache-2.0
// `foretoken simulate wisp --sweep`. Main thread only; no state beside the call's.
#include "cmd/wisp_sweep.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/plot.h"
#include "cmd/cmd.h"
#include "sim/wisp_sweep.h"

#define GUESS       16  /* where searches begin */
#define PLANE_SHARE 1.1 /* of the capacity of mixed classes: some texts are late, not most */

typedef struct sweep {
    const ft_wisp_sweep_opts *o;
    size_t n_classes; /* place n_classes among a way's curves: classes mixed */
    ft_sim_curve curve[FT_SIM_WAYS][FT_SIM_CLASSES + 1];
    ft_sim_plane plane; /* of wisp, classes mixed */
} sweep;

static double epsilon_of(const sweep *s)
{
    return s->o->config->k[FT_SIM_EPSILON];
}

/* "8" or "mixed". */
static const char *class_name(const sweep *s, size_t class, char name[16])
{
    if (class == s->n_classes)
        snprintf(name, 16, "mixed");
    else
        snprintf(name, 16, "%g", s->o->config->tokens_per_s[class]);
    return name;
}

/* ---- runs ---- */

static ft_status run_curve(sweep *s, ft_sim_way way, size_t class, ft_error *err)
{
    ft_sim_config config;
    ft_sim_capacity found;
    char name[16];
    ft_sim_search search = ft_sim_way_search(way, s->o->config, &config);
    search.class = class == s->n_classes ? FT_SIM_MIXED : (uint32_t) class;
    search.seed = s->o->seed;
    search.guess = GUESS;
    if (ft_cmd_stopped())
        return ft_error_set(err, FT_CANCELLED, "simulate: stopped");
    ft_status status = ft_sim_wisp_capacity(&search, err, &found);
    if (status != FT_OK)
        return status;
    fprintf(stderr, "%s, tokens/s: %s: %u devices; sweep\n", ft_sim_way_name[way],
            class_name(s, class, name), found.n);
    return ft_sim_wisp_sweep(&search, found.n, err, &s->curve[way][class]);
}

static ft_status run_plane(sweep *s, ft_error *err)
{
    ft_sim_config config;
    ft_sim_search search = ft_sim_way_search(FT_SIM_WAY_WISP, s->o->config, &config);
    const double n = PLANE_SHARE * s->curve[FT_SIM_WAY_WISP][s->n_classes].capacity;
    search.class = FT_SIM_MIXED;
    search.seed = s->o->seed;
    return ft_sim_wisp_plane(&search, n < 1 ? 1 : (uint32_t)n, err, &s->plane);
}

static ft_status run_all(sweep *s, ft_error *err)
{
    ft_status status = FT_OK;
    for (int way = 0; way < FT_SIM_WAYS; way++)
        for (size_t class = 0; class <= s->n_classes && status == FT_OK; class ++)
            status = run_curve(s, (ft_sim_way)way, class, err);
    return status == FT_OK ? run_plane(s, err) : status;
}

/* ---- JSON ---- */

static json_t *curve_json(const sweep *s, int way, size_t class)
{
    const ft_sim_curve *c = &s->curve[way][class];
    const ft_sim_crossing at = ft_sim_curve_crossing(c, epsilon_of(s));
    json_t *devices = json_array(), *rate = json_array(), *by_class = json_object();
    for (size_t i = 0; i < c->n; i++) {
        json_array_append_new(devices, json_integer(c->at[i].n));
        json_array_append_new(rate, json_real(c->at[i].slow));
    }
    for (size_t k = 0; k < s->n_classes && class == s->n_classes; k++) {
        json_t *of = json_array();
        char name[16];
        for (size_t i = 0; i < c->n; i++)
            json_array_append_new(of, json_real(c->at[i].slow_of[k]));
        json_object_set_new(by_class, class_name(s, k, name), of);
    }
    json_t *out = json_pack("{s:i, s:{s:i, s:i}, s:o, s:o}", "capacity", (int)c->capacity,
                            "crosses_epsilon", "below", (int)at.below, "above", (int)at.above,
                            "devices", devices, "violation_rate", rate);
    if (class == s->n_classes)
        json_object_set(out, "violation_rate_by_class", by_class);
    json_decref(by_class);
    return out;
}

json_t *ft_cmd_wisp_late(const uint64_t late[FT_LATE_CAUSES])
{
    json_t *out = json_object();
    for (int cause = FT_LATE_NONE + 1; cause < FT_LATE_CAUSES; cause++)
        json_object_set_new(out, ft_late_name[cause], json_integer((json_int_t)late[cause]));
    return out;
}

static json_t *plane_json(const sweep *s)
{
    const ft_sim_plane *p = &s->plane;
    json_t *points = json_array(), *late = json_object();
    char name[16];
    for (size_t i = 0; i < p->n; i++)
        json_array_append_new(points, json_pack("[f, f, f, s]", (double)p->at[i].queue_us / 1e3,
                                                (double)p->at[i].verify_us / 1e3,
                                                s->o->config->tokens_per_s[p->at[i].class],
                                                ft_late_name[p->at[i].late]));
    for (size_t k = 0; k < s->n_classes; k++)
        json_object_set_new(late, class_name(s, k, name), ft_cmd_wisp_late(p->result.late[k]));
    return json_pack("{s:i, s:I, s:o, s:o}", "devices", (int)p->n_devices, "rounds",
                     (json_int_t)p->n_seen, "late", late, "queue_verify_class_late", points);
}

static json_t *report_of(const sweep *s)
{
    json_t *curves = json_object();
    char name[16];
    for (int way = 0; way < FT_SIM_WAYS; way++) {
        json_t *by_class = json_object();
        for (size_t class = 0; class <= s->n_classes; class ++)
            json_object_set_new(by_class, class_name(s, class, name), curve_json(s, way, class));
        json_object_set_new(curves, ft_sim_way_name[way], by_class);
    }
    return json_pack("{s:s, s:I, s:f, s:o, s:o}", "config", s->o->config_path, "seed",
                     (json_int_t)s->o->seed, "epsilon", epsilon_of(s), "sweep", curves, "plane",
                     plane_json(s));
}

/* ---- a table ---- */

static void print_crossings(const sweep *s)
{
    char name[16], range[32];
    printf("the share of slow texts crosses %g between so many devices (in brackets: the search)\n"
           "%-14s",
           epsilon_of(s), "tokens/s");
    for (size_t class = 0; class <= s->n_classes; class ++)
        printf(" %16s", class_name(s, class, name));
    printf("\n");
    for (int way = 0; way < FT_SIM_WAYS; way++) {
        printf("%-14s", ft_sim_way_name[way]);
        for (size_t class = 0; class <= s->n_classes; class ++) {
            const ft_sim_crossing at = ft_sim_curve_crossing(&s->curve[way][class], epsilon_of(s));
            snprintf(range, sizeof range, "%u-%u (%u)", at.below, at.above,
                     s->curve[way][class].capacity);
            printf(" %16s", range);
        }
        printf("\n");
    }
}

static void print_late(const sweep *s)
{
    const ft_sim_plane *p = &s->plane;
    char name[16];
    printf("\nrounds of wisp, %u devices of all classes: of a thousand, those that were late\n"
           "%-14s",
           p->n_devices, "tokens/s");
    for (int cause = FT_LATE_NONE + 1; cause < FT_LATE_CAUSES; cause++)
        printf(" %10s", ft_late_name[cause]);
    printf("\n");
    for (size_t k = 0; k < s->n_classes; k++) {
        double all = 0;
        for (int cause = 0; cause < FT_LATE_CAUSES; cause++)
            all += (double)p->result.late[k][cause];
        printf("%-14s", class_name(s, k, name));
        for (int cause = FT_LATE_NONE + 1; cause < FT_LATE_CAUSES; cause++)
            printf(" %10.1f", all > 0 ? 1000 * (double)p->result.late[k][cause] / all : 0);
        printf("\n");
    }
}

/* ---- figures ---- */

static void write_points(const sweep *s, FILE *out)
{
    for (int way = 0; way < FT_SIM_WAYS; way++)
        for (size_t class = 0; class <= s->n_classes; class ++) {
            const ft_sim_curve *c = &s->curve[way][class];
            fprintf(out, "$curve%d_%zu << EOD\n", way, class);
            for (size_t i = 0; i < c->n; i++) {
                fprintf(out, "%u %g", c->at[i].n, c->at[i].slow);
                for (size_t k = 0; k < s->n_classes; k++)
                    fprintf(out, " %g", c->at[i].slow_of[k]);
                fputc('\n', out);
            }
            fprintf(out, "EOD\n");
        }
    for (int cause = 0; cause < FT_LATE_CAUSES; cause++) {
        fprintf(out, "$late%d << EOD\nNaN NaN\n", cause);
        for (size_t i = 0; i < s->plane.n; i++)
            if ((int)s->plane.at[i].late == cause)
                fprintf(out, "%g %g\n", (double)s->plane.at[i].queue_us / 1e3,
                        (double)s->plane.at[i].verify_us / 1e3);
        fprintf(out, "EOD\n");
    }
}

/* One class alone: all ways, and where the searches ended. */
static void draw_class(const sweep *s, size_t class, FILE *out)
{
    char name[16];
    fprintf(out,
            "set title 'all devices at %s tokens/s (vertical: capacity by the search)'\n"
            "set xlabel 'devices'\nset ylabel 'share of slow texts'\nset yrange [0:1]\n"
            "set logscale x 2\n",
            class_name(s, class, name));
    for (int way = 0; way < FT_SIM_WAYS; way++)
        if (s->curve[way][class].capacity > 0)
            fprintf(out,
                    "set arrow from %u, graph 0 to %u, graph 1 nohead dashtype 3 linecolor %d\n",
                    s->curve[way][class].capacity, s->curve[way][class].capacity, way + 1);
    fprintf(out, "plot ");
    for (int way = 0; way < FT_SIM_WAYS; way++)
        fprintf(
            out,
            "$curve%d_%zu using 1:2 with lines linewidth 2 dashtype %d linecolor %d title '%s', ",
            way, class, way + 1, way + 1, ft_sim_way_name[way]);
    fprintf(out, "%g with lines dashtype 2 linecolor 'black' title 'epsilon'\nunset arrow\n",
            epsilon_of(s));
}

/* WISP figure 7: classes mixed, each class by itself. */
static void draw_mixed(const sweep *s, FILE *out)
{
    static const ft_sim_way shown[] = {FT_SIM_WAY_WISP, FT_SIM_WAY_FCFS};
    char name[16];
    fprintf(out, "set title 'classes mixed, by class (figure 7)'\nplot ");
    for (size_t w = 0; w < sizeof shown / sizeof *shown; w++)
        for (size_t k = 0; k < s->n_classes; k++)
            fprintf(out,
                    "$curve%d_%zu using 1:%zu with lines linewidth 2 dashtype %zu linecolor %zu "
                    "title '%s, %s tokens/s', ",
                    (int)shown[w], s->n_classes, 3 + k, 2 * w + 1, k + 1, ft_sim_way_name[shown[w]],
                    class_name(s, k, name));
    fprintf(out, "%g with lines dashtype 2 linecolor 'black' title 'epsilon'\n", epsilon_of(s));
}

/* WISP figure 8. */
static void draw_plane(const sweep *s, FILE *out)
{
    fprintf(out,
            "set title 'rounds of wisp, %u devices, classes mixed (figure 8)'\n"
            "set xlabel 'waiting, ms'\nset ylabel 'pass, ms'\nunset logscale x\n"
            "set yrange [0:*]\nplot "
            "$late%d with points pointtype 7 pointsize 0.2 linecolor 'gray' title 'in time'",
            s->plane.n_devices, FT_LATE_NONE);
    for (int cause = FT_LATE_NONE + 1; cause < FT_LATE_CAUSES; cause++)
        fprintf(out,
                ", $late%d with points pointtype 7 pointsize 0.3 linecolor %d title 'late: "
                "%s' noenhanced",
                cause, cause, ft_late_name[cause]);
    fputc('\n', out);
}

static ft_status draw(const sweep *s, ft_error *err)
{
    const uint32_t rows = (uint32_t)(s->n_classes + 3) / 2;
    ft_plot p = {.command = "simulate", .path = s->o->plot, .width = 1400, .height = 480 * rows};
    ft_status status = ft_plot_open(&p, err);
    if (status != FT_OK)
        return status;
    write_points(s, p.gnuplot);
    fprintf(p.gnuplot, "set multiplot layout %u,2\nset key outside\n", rows);
    for (size_t class = 0; class < s->n_classes; class ++)
        draw_class(s, class, p.gnuplot);
    draw_mixed(s, p.gnuplot);
    draw_plane(s, p.gnuplot);
    fprintf(p.gnuplot, "unset multiplot\n");
    return ft_plot_close(&p, err);
}

/* ---- the command ---- */

ft_status ft_cmd_wisp_sweep(const ft_wisp_sweep_opts *opts, ft_error *err)
{
    sweep *s = calloc(1, sizeof *s); /* too large for a stack */
    if (!s)
        return ft_error_set(err, FT_NOMEM, "simulate: out of memory");
    s->o = opts;
    s->n_classes = opts->config->n_classes;
    ft_status status = run_all(s, err);
    if (status == FT_OK && opts->plot)
        status = draw(s, err);
    if (status == FT_OK && opts->json) {
        if (ft_cmd_print_json(report_of(s)) != 0)
            status = ft_error_set(err, FT_IO, "simulate: standard output cannot be written");
    } else if (status == FT_OK) {
        print_crossings(s);
        print_late(s);
    }
    free(s);
    return status;
}
