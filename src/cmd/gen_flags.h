/* SPDX-License-Identifier: Apache-2.0
 * Flags that several commands share, each table once: sampling, how an edge drafts and whether it
 * records that, devices, the type of K and V, the policy static. A command includes a table with
 * FT_FLAG_INCLUDE. */
#ifndef FT_CMD_GEN_FLAGS_H
#define FT_CMD_GEN_FLAGS_H

#include "base/flags.h"
#include "cmd/pack_flags.h"
#include "edge/edge.h"
#include "engine/load.h"
#include "spec/drafter.h"
#include "spec/sampling.h"

/* The values of --cache-type, in the order of ft_kv_type, and of --proactive-from, in the order of
 * ft_proactive. */
extern const char *const ft_kv_choices[], *const ft_proactive_from_choices[];
/* Of --draft-source, in the order of ft_draft_by. */
extern const char *const ft_draft_by_choices[];

typedef struct ft_sampling_flags {
    ft_sampling values; /* all but the seed */
    int64_t seed;
} ft_sampling_flags;

/* llama.cpp's defaults. */
/* clang-format off */
#define FT_SAMPLING_FLAGS_INIT \
    {.values = {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f}, .seed = -1}
/* clang-format on */

extern const ft_flag_group ft_flags_sampling; /* of ft_sampling_flags */

/* Sets values.seed (a random one if --seed is -1) and checks the values. FT_IO: the system has no
 * random bytes; FT_INVALID. */
FT_WARN_UNUSED ft_status ft_sampling_flags_check(ft_sampling_flags *flags, ft_error *err);

/* Where a timeline is written (base/timeline.h). */
typedef struct ft_timeline_flags {
    const char *path; /* NULL: nowhere */
    int64_t mb;
} ft_timeline_flags;

/* Opens it; *out is NULL if there is none. process: what viewers call it. As ft_timeline_open. */
FT_WARN_UNUSED ft_status ft_timeline_flags_open(const ft_timeline_flags *flags, const char *process,
                                                ft_error *err, ft_timeline **out);

/* How an edge drafts, and whether it records its drafts (learn/trace.h). Without a fixed draft the
 * controller decides (spec/control.h). */
typedef struct ft_edge_flags {
    const char *draft, *depth, *grow, *predictor;
    const char *trace_path; /* NULL: nothing is recorded */
    int64_t n_max, trace_mb;
    ft_timeline_flags timeline;
    uint32_t width;
    ft_proactive proactive_from;
    bool no_speculation;
    bool no_memory;
    char *kept_folder, *kept_of; /* of opts.kept */
    ft_edge_opts opts;           /* what the flags mean; the command adds the rest */
    ft_predictor store;          /* of --predictor */
    ft_switch proactive;
    bool proactive_else;  /* of opts.proactive if the flag is not given */
    uint32_t auto_budget; /* nodes of a tree at most where the controller decides; 0: 32 */
} ft_edge_flags;

/* on: the default of --proactive. predicts: of --predictor. */
/* clang-format off */
#define FT_EDGE_FLAGS_INIT(on, predicts) .draft = "auto", .depth = "auto", .grow = "best", \
    .predictor = (predicts), .n_max = -1, .width = 8, \
    .trace_mb = FT_TRACE_DEFAULT_BYTES >> 20, .proactive_else = (on), \
    .timeline.mb = FT_TIMELINE_DEFAULT_BYTES >> 20
/* clang-format on */

extern const ft_flag_group ft_flags_edge; /* of ft_edge_flags */

/* Sets draft, automatic, depth_rule and early of the options; a budget of 0 means: never draft.
 * FT_INVALID says which flag is wrong. */
FT_WARN_UNUSED ft_status ft_edge_flags_check(ft_edge_flags *flags, ft_error *err);

/* After the check, when opts.rule is set: whether what drafts fits the draft model's file (NULL:
 * there is none), the rule and the predictor. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_edge_flags_check_source(const ft_edge_flags *flags, const char *command,
                                                    const char *model, ft_error *err);

/* After the check: loads the predictor that is named, and opens the trace, if there are any. Owes a
 * close, also if it fails. Errors as ft_predictor_load and ft_trace_open. */
FT_WARN_UNUSED ft_status ft_edge_flags_open(ft_edge_flags *flags, ft_error *err);
/* After the opening, when the draft model is loaded: with --predictor auto, its predictor that lies
 * beside its file (ft_predictor_find), for the controller to measure. None if the draft is fixed,
 * if lookups draft, or if a trace is recorded, as traces are of drafts without one. model: NULL:
 * there is none. */
FT_WARN_UNUSED ft_status ft_edge_flags_find(ft_edge_flags *flags, const char *file,
                                            const ft_model *model, ft_error *err);
/* Unless --no-memory was given: what is learnt outlasts the process. of: ft_edge_opts.kept.of,
 * copied; the processor is added to it. Without a folder for it that is left out, with a line in
 * the log. */
void ft_edge_flags_keep(ft_edge_flags *flags, const char *of);
/* After the end of all users of the options. All-zero is legal. */
void ft_edge_flags_close(ft_edge_flags *flags);

/* Loads the file into *store and lets *out point to it; "none": *out is NULL. *store owes a deinit.
 * Errors as ft_predictor_load. */
FT_WARN_UNUSED ft_status ft_cmd_predictor(const char *name, ft_error *err, ft_predictor *store,
                                          const ft_predictor **out);

/* How to talk to a server, without its address. */
extern const ft_flag_group ft_flags_wire; /* of ft_wire_client_opts */

/* Where the layers go: of the only model, or of the target. */
extern const ft_flag_group ft_flags_device; /* of ft_device_opts */
/* The same of the draft model. */
extern const ft_flag_group ft_flags_draft_device; /* of ft_device_opts */

/* Where the layers go, in words for ft_edge_flags_keep. Returns `out`. */
const char *ft_cmd_device_name(const ft_device_opts *device, char out[128]);

/* A model to load. */
typedef struct ft_cmd_model {
    const char *path, *label; /* label: of the progress on the terminal; NULL: it is not shown */
    const ft_device_opts *device;
    const ft_pack_cache *cache; /* as in ft_model_opts; borrowed */
} ft_cmd_model;

/* As ft_model_load_on. vocab: gets the file's vocabulary; NULL: not wanted. */
FT_WARN_UNUSED ft_status ft_cmd_load_model(const ft_cmd_model *model, ft_error *err, ft_model **out,
                                           ft_vocab **vocab);

/* Of policy static. */
typedef struct ft_static_flags {
    int64_t batch;
    double wait_ms;
} ft_static_flags;

/* clang-format off */
#define FT_STATIC_FLAGS_INIT {.batch = 8, .wait_ms = 100}
/* clang-format on */
extern const ft_flag_group ft_flags_static; /* of ft_static_flags */

#endif
