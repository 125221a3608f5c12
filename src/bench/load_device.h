/* SPDX-License-Identifier: Apache-2.0
 *
 * Emulated devices. A draft model's forwards are computed once and recorded; every device replays
 * them in the time that its own would take (bench/recording.h, bench/paced.h). So the trees are the
 * model's own, and the cores of this machine are not the bottleneck. */
#ifndef FT_BENCH_LOAD_DEVICE_H
#define FT_BENCH_LOAD_DEVICE_H

#include "engine/engine.h"
#include "model/model.h"
#include "model/vocab.h"
#include "spec/drafter.h"
#include "bench/paced.h"
#include "bench/recording.h"

/* The recorded forwards; shared by all devices, any thread. */
typedef struct ft_bench_load_drafts {
    ft_engine *engine;
    ft_draft_source_factory from_engine;
    ft_recording *recording;
} ft_bench_load_drafts;

typedef struct ft_bench_load_drafts_opts {
    const ft_model *model; /* borrowed */
    uint32_t kv_tok;       /* of all texts that are drafted for at once */
    uint32_t branch;       /* children of a node at most */
    int n_threads;
} ft_bench_load_drafts_opts;

/* *out is filled in place and does not move; it owes a deinit, also on failure. */
FT_WARN_UNUSED ft_status ft_bench_load_drafts_init(ft_bench_load_drafts *out,
                                                   const ft_bench_load_drafts_opts *opts,
                                                   ft_error *err);
/* All devices must be gone. All-zero is legal. */
void ft_bench_load_drafts_deinit(ft_bench_load_drafts *drafts);

/* A text of the target's: what devices will draft for. */
typedef struct ft_bench_load_drafts_text {
    const ft_tokens *prompt, *text; /* borrowed; text: what follows */
    ft_sampling sampling;
    ft_draft_params params; /* of the drafts to come */
} ft_bench_load_drafts_text;

/* Records in advance: the most probable nodes behind each token of the text, many times as many as
 * a tree has, so that a round may begin anywhere and draft as far as it likes. Only an unusual
 * calibration asks for nodes that are missing then. No device may draft meanwhile. */
FT_WARN_UNUSED ft_status ft_bench_load_drafts_record(ft_bench_load_drafts *drafts,
                                                     const ft_bench_load_drafts_text *text,
                                                     ft_error *err);

/* One device; its sources are one thread's at a time. */
typedef struct ft_bench_load_device {
    ft_bench_load_drafts *drafts; /* borrowed */
    ft_draft_device device;
} ft_bench_load_device;

/* us_per_forward 0: as fast as it goes. It stays where it is while sources use it. */
void ft_bench_load_device_init(ft_bench_load_device *device, ft_bench_load_drafts *drafts,
                               int64_t us_per_forward);
/* Makes its sources; borrows the device. */
ft_draft_source_factory ft_bench_load_device_factory(ft_bench_load_device *device);

#endif
