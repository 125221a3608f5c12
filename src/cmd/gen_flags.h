/* SPDX-License-Identifier: Apache-2.0
 * Flags that several commands share, each table once: sampling, how much to draft, whether to
 * record it, devices, the policy static. A command includes a table with FT_FLAG_INCLUDE. */
#ifndef FT_CMD_GEN_FLAGS_H
#define FT_CMD_GEN_FLAGS_H

#include "base/flags.h"
#include "edge/edge.h"
#include "engine/load.h"
#include "spec/drafter.h"
#include "spec/sampling.h"

typedef struct ft_sampling_flags {
    double temp, top_p, min_p;
    int64_t top_k, seed;
} ft_sampling_flags;

/* llama.cpp's defaults. */
/* clang-format off */
#define FT_SAMPLING_FLAGS_INIT \
    {.temp = 0.8, .top_k = 40, .top_p = 0.95, .min_p = 0.05, .seed = -1}
/* clang-format on */

extern const ft_flag_group ft_flags_sampling; /* of ft_sampling_flags */

/* FT_IO: no random seed to be had. Writes the seed that was chosen back into flags. */
FT_WARN_UNUSED ft_status ft_sampling_from_flags(ft_sampling_flags *flags, ft_error *err,
                                                ft_sampling *out);

typedef struct ft_draft_flags {
    int64_t n_max, depth, width;
    bool no_speculation;
} ft_draft_flags;

extern const ft_flag_group ft_flags_draft; /* of ft_draft_flags */

/* A chain, or a tree where the width says so; the budget is 0 where nothing is to be drafted. */
ft_draft_params ft_draft_from_flags(const ft_draft_flags *flags);

/* How an edge drafts: by the controller (spec/control.h) unless a fixed draft is asked for. */
typedef struct ft_edge_draft_flags {
    const char *draft, *depth, *proactive_from, *predictor;
    int64_t n_max, width;
    bool proactive, no_speculation;
} ft_edge_draft_flags;

/* on: whether it drafts while the target checks, --proactive. */
/* clang-format off */
#define FT_EDGE_DRAFT_FLAGS_INIT(on) {.draft = "auto", .depth = "auto", \
    .proactive_from = "likeliest", .predictor = "none", .n_max = -1, .width = 8, .proactive = (on)}
/* clang-format on */

extern const ft_flag_group ft_flags_edge_draft; /* of ft_edge_draft_flags */

/* "likeliest" or "leaf", as --proactive-from has it. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_cmd_proactive_from(const char *name, ft_error *err, ft_ahead *out);

/* Loads what --predictor names into *store, unless that is none, and has *out use it; *store owes a
 * deinit. Errors as ft_predictor_load. */
FT_WARN_UNUSED ft_status ft_cmd_predictor(const char *name, ft_error *err, ft_predictor *store,
                                          ft_draft_params *out);

/* Fills draft, automatic, depth_rule and proactive of *out; a budget of 0 where nothing is to be
 * drafted. FT_INVALID says which flag is wrong. */
FT_WARN_UNUSED ft_status ft_edge_draft_from_flags(const ft_edge_draft_flags *flags, ft_error *err,
                                                  ft_edge_opts *out);

/* Whether an edge records its drafts (learn/trace.h). */
typedef struct ft_trace_flags {
    const char *path; /* NULL: no */
    int64_t mb;
} ft_trace_flags;

/* clang-format off */
#define FT_TRACE_FLAGS_INIT {.mb = FT_TRACE_DEFAULT_BYTES >> 20}
/* clang-format on */

extern const ft_flag_group ft_flags_trace; /* of ft_trace_flags */

/* *out is NULL where nothing is to be recorded; errors as ft_trace_open. */
FT_WARN_UNUSED ft_status ft_trace_from_flags(const ft_trace_flags *flags, ft_error *err,
                                             ft_trace **out);

/* Where a model's layers go: of the one model, or of the target where there are two. */
extern const ft_flag_group ft_flags_device; /* of ft_device_opts */
/* The draft's, where there are two models. */
extern const ft_flag_group ft_flags_draft_device; /* of ft_device_opts */

/* As ft_model_load_on; the terminal shows how far it is, by this label. */
FT_WARN_UNUSED ft_status ft_cmd_load_model(const char *path, const char *label,
                                           const ft_device_opts *device, ft_error *err,
                                           ft_model **out);

/* What policy static waits for. */
typedef struct ft_static_flags {
    int64_t batch;
    double wait_ms;
} ft_static_flags;

/* clang-format off */
#define FT_STATIC_FLAGS_INIT {.batch = 8, .wait_ms = 100}
/* clang-format on */
extern const ft_flag_group ft_flags_static; /* of ft_static_flags */

#endif
