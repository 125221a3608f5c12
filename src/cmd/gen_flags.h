/* SPDX-License-Identifier: Apache-2.0
 * Flags that several commands share: sampling, how much to draft, and whether to record it. */
#ifndef FT_CMD_GEN_FLAGS_H
#define FT_CMD_GEN_FLAGS_H

#include "base/flags.h"
#include "edge/edge.h"
#include "spec/drafter.h"
#include "spec/sampling.h"

typedef struct ft_sampling_flags {
    double temp, top_p, min_p;
    int64_t top_k, seed;
} ft_sampling_flags;

/* llama.cpp's defaults. */
#define FT_SAMPLING_FLAGS_INIT                                             \
    {                                                                      \
        .temp = 0.8, .top_k = 40, .top_p = 0.95, .min_p = 0.05, .seed = -1 \
    }

/* Rows of an ft_flag table. */
#define FT_SAMPLING_FLAGS(s)                                                                      \
    {                                                                                             \
        "--temp", NULL, FT_FLAG_FLOAT, &(s).temp, "T", "temperature; 0: always the likeliest",    \
        0,        100},                                                                           \
        {"--top-k", NULL, FT_FLAG_INT, &(s).top_k, "N", "the N likeliest tokens only; 0: all",    \
         0,         1e9},                                                                         \
        {"--top-p",  NULL, FT_FLAG_FLOAT,                                                         \
         &(s).top_p, "P",  "the likeliest tokens that make up P only; 1: all",                    \
         0,          1},                                                                          \
        {"--min-p",  NULL, FT_FLAG_FLOAT,                                                         \
         &(s).min_p, "P",  "tokens of at least P times the likeliest's probability only; 0: all", \
         0,          1},                                                                          \
    {                                                                                             \
        "--seed", "-s", FT_FLAG_INT, &(s).seed, "N", "of the draws; -1: a random one", -1, 9e18   \
    }

/* FT_IO: no random seed to be had. Writes the seed that was chosen back into flags. */
FT_WARN_UNUSED ft_status ft_sampling_from_flags(ft_sampling_flags *flags, ft_error *err,
                                                ft_sampling *out);

typedef struct ft_draft_flags {
    int64_t n_max, depth, width;
    bool no_speculation;
} ft_draft_flags;

#define FT_DRAFT_FLAGS_INIT                                     \
    {                                                           \
        .n_max = FT_DRAFT_DEFAULT_N_MAX, .depth = 0, .width = 1 \
    }

/* What does best for the demo pair, a target so small that little is left to save: at 2, 3 and 4
 * drafted tokens 1.94, 2.06 and 2.25 tokens a round, but 440, 375 and 375 tokens/s where the target
 * alone had 384 (foretoken run -n 128 --temp 0 --json --spec-draft-n-max N, one prompt, 2 cores). */
#define FT_DRAFT_DEFAULT_N_MAX 2

#define FT_DRAFT_FLAGS(d)                                                                      \
    {"--spec-draft-n-max",                                                                     \
     NULL,                                                                                     \
     FT_FLAG_INT,                                                                              \
     &(d).n_max,                                                                               \
     "N",                                                                                      \
     "drafted tokens a round at most; 0: none",                                                \
     0,                                                                                        \
     FT_TREE_MAX},                                                                             \
        {"--draft-depth",                                                                      \
         NULL,                                                                                 \
         FT_FLAG_INT,                                                                          \
         &(d).depth,                                                                           \
         "N",                                                                                  \
         "draft passes a round at most; 0: as many as tokens",                                 \
         0,                                                                                    \
         FT_TREE_MAX},                                                                         \
        {"--draft-width",                                                                      \
         NULL,                                                                                 \
         FT_FLAG_INT,                                                                          \
         &(d).width,                                                                           \
         "N",                                                                                  \
         "leaves of the draft tree that one pass continues; 1: a chain",                       \
         1,                                                                                    \
         FT_TREE_MAX},                                                                         \
    {                                                                                          \
        "--no-speculation", NULL, FT_FLAG_BOOL, &(d).no_speculation, NULL, "never draft", 0, 0 \
    }

ft_draft_params ft_draft_from_flags(const ft_draft_flags *flags);

/* How an edge drafts: by the controller (spec/control.h) unless a fixed draft is asked for. */
typedef struct ft_edge_draft_flags {
    const char *draft, *depth, *ahead, *predictor;
    int64_t n_max, width;
    bool proactive, no_speculation;
} ft_edge_draft_flags;

#define FT_EDGE_DRAFT_FLAGS_INIT                                                                  \
    {                                                                                             \
        .draft = "auto", .depth = "auto", .ahead = "likeliest", .predictor = "none", .n_max = -1, \
        .width = 8                                                                                \
    }

#define FT_EDGE_DRAFT_FLAGS(d)                                                                         \
    {"--draft",                                                                                        \
     NULL,                                                                                             \
     FT_FLAG_STRING,                                                                                   \
     &(d).draft,                                                                                       \
     "HOW",                                                                                            \
     "auto: what pays; N: chains of N; tree:BUDGET[:DEPTH]: trees of BUDGET nodes",                    \
     0,                                                                                                \
     0},                                                                                               \
        {"--depth",                                                                                    \
         NULL,                                                                                         \
         FT_FLAG_STRING,                                                                               \
         &(d).depth,                                                                                   \
         "HOW",                                                                                        \
         "draft passes a round: auto; pipeline: fill a verification's time; latency; N: at most N",    \
         0,                                                                                            \
         0},                                                                                           \
        {"--draft-width",                                                                              \
         NULL,                                                                                         \
         FT_FLAG_INT,                                                                                  \
         &(d).width,                                                                                   \
         "N",                                                                                          \
         "leaves of a draft tree that one pass continues",                                             \
         1,                                                                                            \
         64},                                                                                          \
        {"--spec-draft-n-max",                                                                         \
         NULL,                                                                                         \
         FT_FLAG_INT,                                                                                  \
         &(d).n_max,                                                                                   \
         "N",                                                                                          \
         "drafted tokens a round at most; 0: none; -1: as --draft says, auto up to 32",                \
         -1,                                                                                           \
         FT_TREE_MAX},                                                                                 \
        {"--ahead",                                                                                    \
         NULL,                                                                                         \
         FT_FLAG_STRING,                                                                               \
         &(d).ahead,                                                                                   \
         "WHERE",                                                                                      \
         "drafting ahead: where the text likeliest goes on, or below the tree's best leaf (head)",     \
         0,                                                                                            \
         0},                                                                                           \
        {"--predictor",                                                                                \
         NULL,                                                                                         \
         FT_FLAG_STRING,                                                                               \
         &(d).predictor,                                                                               \
         "FILE",                                                                                       \
         "ends a draft where this predictor (train predictor) expects a rejection; none: it does not", \
         0,                                                                                            \
         0},                                                                                           \
        {"--proactive",                                                                                \
         NULL,                                                                                         \
         FT_FLAG_BOOL,                                                                                 \
         &(d).proactive,                                                                               \
         NULL,                                                                                         \
         "draft ahead while the target checks",                                                        \
         0,                                                                                            \
         0},                                                                                           \
    {                                                                                                  \
        "--no-speculation", NULL, FT_FLAG_BOOL, &(d).no_speculation, NULL, "never draft", 0, 0         \
    }

/* "likeliest" or "head", as --ahead has it. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_cmd_ahead(const char *name, ft_error *err, ft_ahead *out);

/* Loads what --predictor names into *store, unless that is none, and has *out use it; *store owes a deinit.
 * Errors as ft_predictor_load. */
FT_WARN_UNUSED ft_status ft_cmd_predictor(const char *name, ft_error *err, ft_predictor *store,
                                          ft_draft_params *out);

/* Of edges that are given drafts by others: ft_predictor_check_draft, where there is one. */
FT_WARN_UNUSED ft_status ft_cmd_check_predictor(const ft_draft_params *params,
                                                const ft_model *draft, ft_error *err);

/* Fills draft, automatic, depth_rule and proactive of *out; a budget of 0 where nothing is to be
 * drafted. FT_INVALID says which flag is wrong. */
FT_WARN_UNUSED ft_status ft_edge_draft_from_flags(const ft_edge_draft_flags *flags, ft_error *err,
                                                  ft_edge_opts *out);

/* Whether an edge records its drafts (learn/trace.h). */
typedef struct ft_trace_flags {
    const char *path; /* NULL: no */
    int64_t mb;
} ft_trace_flags;

#define FT_TRACE_FLAGS_INIT                \
    {                                      \
        .mb = FT_TRACE_DEFAULT_BYTES >> 20 \
    }

#define FT_TRACE_FLAGS(t)                                                              \
    {"--trace",                                                                        \
     NULL,                                                                             \
     FT_FLAG_STRING,                                                                   \
     &(t).path,                                                                        \
     "FILE",                                                                           \
     "record drafts and verdicts (token ids and numbers, SQLite) for train predictor", \
     0,                                                                                \
     0},                                                                               \
    {                                                                                  \
        "--trace-mb", NULL, FT_FLAG_INT, &(t).mb, "N",                                 \
            "size of that file at most; the oldest rounds make room", 1, 1 << 20       \
    }

/* *out is NULL where nothing is to be recorded; errors as ft_trace_open. */
FT_WARN_UNUSED ft_status ft_trace_from_flags(const ft_trace_flags *flags, ft_error *err,
                                             ft_trace **out);

#endif
