/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices that come and stay: each has always one text going on, by a real edge (edge/edge.h over
 * gRPC), and asks for the next one when it is written. How many texts were slower than promised,
 * and what the server did meanwhile. Called by one thread; each device has one, and two more for
 * its link's delay.
 *
 * A text is as fast as its tokens behind the first verdict, as serve/slo.c has it: reading the
 * prompt is not part of it. Texts count that begin once all devices have, are refused, or are under
 * way at the end for half the time that they were promised; these by the speed that they had so
 * far, unless what they lack since says more. */
#ifndef FT_BENCH_LOAD_CROWD_H
#define FT_BENCH_LOAD_CROWD_H

#include "bench/load_device.h"
#include "bench/load_server.h"
#include "bench/load_set.h"
#include "serve/verifier.h"

#define FT_BENCH_CROWD_MOST 512 /* devices */

typedef struct ft_bench_crowd_class {
    float tokens_per_s; /* promised */
    uint32_t n_tokens;  /* a text */
} ft_bench_crowd_class;

typedef struct ft_bench_crowd_opts {
    const ft_bench_load_server *server;
    ft_bench_load_set
        *set; /* borrowed; its texts are what texts must begin like, where they are known */
    const ft_vocab *vocab;
    ft_sampling sampling;
    ft_bench_load_drafts *drafts; /* NULL: the server decodes */
    ft_draft_params draft;
    bool automatic; /* what pays is drafted, `draft` at most */
    bool anew;      /* every round is a session of its own (load_anew.h) */
    bool ask;       /* for the promise; else the server knows of none */
    int64_t rtt_us, forward_us;
    uint32_t n_devices;
    const ft_bench_crowd_class *classes; /* [n_classes]: device i is of class i mod n_classes */
    uint32_t n_classes;
    double warm_s, measure_s;
    uint32_t slow_most; /* as soon as more texts are slow it ends early; 0: it does not */
    ft_bench_stop stop; /* any thread calls it */
} ft_bench_crowd_opts;

typedef struct ft_bench_crowd_result {
    uint64_t texts[FT_SLO_CLASSES], slow[FT_SLO_CLASSES]; /* by class; refused ones are slow */
    uint64_t refused;
    uint64_t mismatches; /* texts that are not what the set says */
    double seconds;      /* measured; the rest is over that time, but for sums over devices */
    uint64_t tokens;     /* that reached users */
    ft_bench_load_counters server;
    double driver_cpu_s;
    uint64_t verdicts, drafted, accepted; /* of all texts */
    uint64_t device_forwards, device_late;
    uint64_t misses; /* of the recording */
} ft_bench_crowd_result;

/* Devices for warm_s + measure_s. *out is filled in any case. FT_CANCELLED: a signal. */
FT_WARN_UNUSED ft_status ft_bench_crowd_run(const ft_bench_crowd_opts *opts, ft_error *err,
                                            ft_bench_crowd_result *out);
/* All prompts once, texts of the first class's length: fills the recording and the server's prefix
 * cache, and makes what is written the set's texts where it has none. Times are not used; *out is
 * over all of it. */
FT_WARN_UNUSED ft_status ft_bench_crowd_learn(const ft_bench_crowd_opts *opts, ft_error *err,
                                              ft_bench_crowd_result *out);

#endif
