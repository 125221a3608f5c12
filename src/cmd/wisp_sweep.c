// SPDX-License-Identifier: Apache-2.0
// `foretoken simulate wisp --sweep`. Main thread only; no state beside the call's.
#include "cmd/wisp_sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "bench/knee.h"
#include "cmd/cmd.h"

#define GUESS       16  /* where searches begin */
#define PLANE_SHARE 1.1 /* of the capacity of mixed classes: some texts are slow, not most */

static ft_status run_curve(const ft_wisp_sweep_opts *o, ft_sim_way way, size_t class, ft_error *err,
                           ft_knee *knee)
{
    ft_sim_config config;
    ft_sim_capacity found;
    char name[16];
    ft_sim_search search = ft_sim_way_search(way, o->config, &config);
    search.class = class == knee->n_classes ? FT_SIM_MIXED : (uint32_t) class;
    search.seed = o->seed;
    search.guess = GUESS;
    if (ft_cmd_stopped())
        return ft_error_set(err, FT_CANCELLED, "simulate: stopped");
    ft_status status = ft_sim_wisp_capacity(&search, err, &found);
    if (status != FT_OK)
        return status;
    fprintf(stderr, "%s, tokens/s: %s: %u devices; sweep\n", ft_sim_way_name[way],
            ft_knee_class_name(knee, class, name), found.n);
    return ft_sim_wisp_sweep(&search, found.n, err, &knee->curve[way][class]);
}

/* What the paper reports: its FCFS baseline is SLED. */
static void set_paper(const ft_sim_config *config, ft_knee *knee)
{
    static const struct {
        ft_sim_way way;
        ft_sim_mode mode;
    } rows[] = {{FT_SIM_WAY_WISP, FT_SIM_MODE_WISP},
                {FT_SIM_WAY_SLED, FT_SIM_MODE_FCFS},
                {FT_SIM_WAY_CENTRALIZED, FT_SIM_MODE_CENTRALIZED}};
    for (size_t i = 0; i < FT_COUNT(rows); i++)
        memcpy(knee->paper[rows[i].way], config->paper_capacity[rows[i].mode],
               sizeof knee->paper[0]);
}

static ft_status run_plane(const ft_wisp_sweep_opts *o, ft_error *err, ft_knee *knee)
{
    ft_sim_config config;
    ft_sim_search search = ft_sim_way_search(FT_SIM_WAY_WISP, o->config, &config);
    const double n = PLANE_SHARE * knee->curve[FT_SIM_WAY_WISP][knee->n_classes].capacity;
    search.class = FT_SIM_MIXED;
    search.seed = o->seed;
    knee->plane_way = ft_sim_way_name[FT_SIM_WAY_WISP];
    return ft_sim_wisp_plane(&search, n < 1 ? 1 : (uint32_t)n, err, &knee->plane);
}

static ft_status run_all(const ft_wisp_sweep_opts *o, ft_error *err, ft_knee *knee)
{
    ft_status status = FT_OK;
    *knee = (ft_knee){.command = "simulate",
                      .epsilon = o->config->k[FT_SIM_EPSILON],
                      .n_ways = FT_SIM_WAYS,
                      .way = ft_sim_way_name,
                      .n_classes = o->config->n_classes};
    set_paper(o->config, knee);
    memcpy(knee->speed, o->config->tokens_per_s, sizeof knee->speed);
    for (int way = 0; way < FT_SIM_WAYS; way++)
        for (size_t col = 0; col <= knee->n_classes && status == FT_OK; col++)
            status = run_curve(o, (ft_sim_way)way, col, err, knee);
    return status == FT_OK ? run_plane(o, err, knee) : status;
}

ft_status ft_cmd_wisp_sweep(const ft_wisp_sweep_opts *o, ft_error *err)
{
    ft_knee *knee = malloc(sizeof *knee); /* too large for a stack */
    if (!knee)
        return ft_error_set(err, FT_NOMEM, "simulate: out of memory");
    ft_status status = run_all(o, err, knee);
    if (status == FT_OK && o->plot)
        status = ft_knee_plot(knee, o->plot, err);
    if (status == FT_OK && o->json) {
        json_t *report = json_pack("{s:s, s:I, s:f}", "config", o->config_path, "seed",
                                   (json_int_t)o->seed, "epsilon", knee->epsilon);
        ft_knee_json(knee, report);
        if (ft_cmd_print_json(report) != 0)
            status = ft_error_set(err, FT_IO, "simulate: standard output cannot be written");
    } else if (status == FT_OK) {
        ft_knee_print(knee, stdout);
    }
    free(knee);
    return status;
}
