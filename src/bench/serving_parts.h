/* SPDX-License-Identifier: Apache-2.0
 *
 * The serving comparison's parts: what a run has, how it starts servers and how a setting drives
 * them. For serving*.c. Owned by one thread. */
#ifndef FT_BENCH_SERVING_PARTS_H
#define FT_BENCH_SERVING_PARTS_H

#include "bench/load_split.h"
#include "bench/race.h"
#include "bench/serving.h"
#include "bench/serving_timeline.h"

/* How server-spec drafts. */
typedef struct ft_serving_spec {
    uint32_t depth, budget, width;
} ft_serving_spec;

/* How it was found; of the batch and shape of a leading setting. */
typedef struct ft_serving_tuned {
    ft_serving_spec chosen;
    ft_serving_spec tried[FT_BENCH_RACE_MAX]; /* [race.n]; race.n 0: it was asked for */
    ft_bench_race race;                       /* tokens a second of the server's core */
} ft_serving_tuned;

typedef struct ft_serving {
    const ft_bench_serving_opts *o;
    ft_vocab *vocab;
    ft_model *draft;
    ft_bench_load_drafts drafts;
    ft_bench_load_set set;
    int core, driver_cores;
    ft_bench_load_server plain; /* verifies, and decodes */
    ft_bench_load_split split;  /* of layer-split, where it is asked for; and its server */
    ft_bench_load_server split_server;
    ft_bench_timeline timeline;
    double verify_ms; /* that devices' times follow, with a ratio */
    uint32_t n;       /* settings */
    ft_bench_serving_setting setting[FT_BENCH_SERVING_SETTINGS_MAX];
    ft_bench_load_report *report[FT_BENCH_SERVING_SETTINGS_MAX]; /* [n] */
    /* Of leading settings, where server-spec is asked for: it, and its server. */
    ft_serving_tuned tuned[FT_BENCH_SERVING_SETTINGS_MAX];
    ft_bench_load_server spec[FT_BENCH_SERVING_SETTINGS_MAX];
} ft_serving;

/* Whether the mode's server does more than verify: its figures depend on no device. */
bool ft_serving_is_server_mode(ft_bench_load_mode mode);

/* Whether the mode drafts by lookups alone. */
bool ft_serving_looks_up(ft_bench_load_mode mode);

/* Starts a server on the reserved core. spec: it drafts so; NULL: it does not. *out owes a stop. */
FT_WARN_UNUSED ft_status ft_serving_start(const ft_serving *x, const ft_serving_spec *spec,
                                          ft_error *err, ft_bench_load_server *out);
/* Starts x->split and x->split_server, which owe a stop. FT_UNAVAILABLE: ggml has no RPC. */
FT_WARN_UNUSED ft_status ft_serving_start_split(ft_serving *x, ft_error *err);

/* How a mode is driven in a setting, over links without delay. */
ft_bench_load_drive_opts ft_serving_drive_opts(ft_serving *x, uint32_t setting,
                                               ft_bench_load_mode mode);
/* The devices' links are slow from now on. */
void ft_serving_slow_down(const ft_serving *x, uint32_t rtt_us, ft_bench_load_drive_opts *o);

/* Verifications of the first setting took so long: with a ratio, devices take their share of it. */
void ft_serving_saw_verify(ft_serving *x, double verify_ms);

#endif
