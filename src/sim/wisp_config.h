/* SPDX-License-Identifier: Apache-2.0
 *
 * What a simulation of WISP's setting assumes (docs/SIMULATOR.md): the costs of passes, as
 * `foretoken fit verify-time` writes them, and a table of constants. For each constant the file
 * gives the reason. Plain data. People write the files, so each field is checked.
 */
#ifndef FT_SIM_WISP_CONFIG_H
#define FT_SIM_WISP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "sched/cost_file.h"
#include "sched/sched.h"
#include "sim/constants.h"

#define FT_SIM_CONFIG_KIND "foretoken simulate wisp"
#define FT_SIM_CLASSES     8

/* X(NAME, "name in the file", is a whole number, least, most). A share has most = 1; everything is
 * >= 0. */
#define FT_SIM_CONST_LIST(X)                                                                       \
    X(DRAFT_PER_S, "draft_tokens_per_s", false, 0.1, 1e5) /* of a device */                        \
    X(PREDICTOR_US, "predictor_us", false, 0, 1e6)     /* a drafted token, rejection predictor */  \
    X(ACCEPT, "accept", false, 0.001, 1)               /* of tokens behind accepted ones */        \
    X(PREDICTOR_KEEPS, "predictor_keeps", false, 0, 1) /* of tokens that would be accepted */      \
    X(PREDICTOR_MISSES, "predictor_misses", false, 0, 1) /* of those that would be rejected */     \
    X(DRAFT_MOST, "draft_most", true, 1, 256)            /* tokens, where a predictor stops */     \
    X(DRAFT_FIXED, "draft_fixed", true, 1, 256)          /* tokens, where none does: SLED's K */   \
    X(RTT_MS, "rtt_ms", false, 0, 1e4)                   /* there and back */                      \
    X(JITTER_MS, "jitter_ms", false, 0, 1e4)             /* at most, each way, evenly spread */    \
    X(PROMPT_TOK, "prompt_tokens", false, 2, 1e5)        /* mean */                                \
    X(RESPONSE_TOK, "response_tokens", false, 2, 1e5)    /* mean */                                \
    X(TEXT_SPREAD, "text_spread", false, 0, 1)           /* lengths: mean (1 -+ that), even */     \
    X(MAX_ROWS, "max_rows", true, 1, 1 << 20)            /* of a pass */                           \
    X(MAX_SESSIONS, "max_sessions", true, 1, 1e5)        /* verified in a pass */                  \
    X(KV_BLOCKS, "kv_blocks", true, 16, 1e7)             /* of 16 tokens */                        \
    X(PREFILL_MS, "prefill_ms", false, 0, 1e4)           /* prompts may add to a pass */           \
    X(GUARD_MS, "guard_ms", false, 0, 1e4)               /* eq. (17)'s delta */                    \
    X(ADMISSION_MS, "admission_ms", false, 0, 1e6)       /* a refused text is tried; 0: none is */ \
    X(EPSILON, "epsilon", false, 0.0001, 0.5)            /* of texts may be too slow, eq. (20) */  \
    X(RAMP_TEXTS, "ramp_texts", false, 0.01, 100)        /* devices begin within so many texts */  \
    X(MEASURE_TEXTS, "measure_texts", false, 0.1, 100)   /* and are watched for so many */         \
    X(SEEDS, "seeds", true, 1, 100)                      /* runs of each number of devices */
typedef enum ft_sim_const {
#define X(name, text, whole, least, most) FT_SIM_##name,
    FT_SIM_CONST_LIST(X)
#undef X
        FT_SIM_CONSTS
} ft_sim_const;
extern const char *const ft_sim_const_name[FT_SIM_CONSTS];

/* Who serves how. */
#define FT_SIM_MODE_LIST(X)                                                                   \
    X(WISP, "wisp")               /* drafts, predictor, deadlines, KV kept between rounds */  \
    X(FCFS, "fcfs")               /* SLED: drafts of fixed length, first come, KV not kept */ \
    X(CENTRALIZED, "centralized") /* the server decodes: a row a session a pass */
typedef enum ft_sim_mode {
#define X(name, text) FT_SIM_MODE_##name,
    FT_SIM_MODE_LIST(X)
#undef X
        FT_SIM_MODES
} ft_sim_mode;
extern const char *const ft_sim_mode_name[FT_SIM_MODES];

typedef struct ft_sim_config {
    ft_costs costs; /* error: the passes' mean distance from them */
    size_t n_classes;
    double tokens_per_s[FT_SIM_CLASSES];
    double k[FT_SIM_CONSTS];
    bool open[FT_SIM_CONSTS]; /* the paper gives no value: --sensitivity tries others */
    bool open_pass;           /* the same of the fixed cost of a pass */
    /* Set by flags: */
    const ft_sched_policy *policy; /* of mode wisp; NULL: ft_sched_wisp */
    uint32_t static_batch;         /* of policy static, as in ft_sched_limits */
    int64_t static_wait_us;
    /* What the paper reports; 0: nothing. */
    double paper_capacity[FT_SIM_MODES][FT_SIM_CLASSES], paper_goodput[FT_SIM_MODES];
} ft_sim_config;

/* The ranges of the constants. */
extern const ft_sim_constant ft_sim_const_range[FT_SIM_CONSTS];
/* Reads only the costs and the classes. FT_INVALID as below. */
FT_WARN_UNUSED ft_status ft_sim_config_parse_server(const json_t *root, ft_error *err,
                                                    ft_sim_config *out);
/* FT_INVALID names the field and its range. */
FT_WARN_UNUSED ft_status ft_sim_config_parse(json_t *root, ft_error *err, ft_sim_config *out);
/* A file. FT_IO, FT_TOO_LARGE, or as above with the path. */
FT_WARN_UNUSED ft_status ft_sim_config_load(const char *path, ft_error *err, ft_sim_config *out);

/* Half (factor 0.5) or double (2) of a constant, within its range. A share p becomes p / 2 or
 * 1 - (1 - p) / 2. Whole numbers stay whole. */
double ft_sim_const_scaled(ft_sim_const which, double value, double factor);

#endif
