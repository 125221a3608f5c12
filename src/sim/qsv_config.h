/* SPDX-License-Identifier: Apache-2.0
 *
 * What a simulation of Quantize-Sample-and-Verify assumes (docs/SIMULATOR.md): times, sizes,
 * uplinks and the choices that drafts have. For each the file gives the reason. Plain data. People
 * write the files, so each field is checked.
 */
#ifndef FT_SIM_QSV_CONFIG_H
#define FT_SIM_QSV_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/line.h"
#include "base/status.h"

#define FT_QSV_CONFIG_KIND "foretoken simulate qsv"
#define FT_QSV_L           4  /* lattices to choose from at most */
#define FT_QSV_LINKS       32 /* uplinks at most */
#define FT_QSV_LENGTH_MAX  64 /* of length_most */
#define FT_QSV_REPLAYS_MAX 10000

/* X(NAME, "name in the file", is a whole number, least, most) */
#define FT_QSV_CONST_LIST(X)                                                                     \
    X(DRAFT_MS, "draft_ms", false, 0, 1e4)               /* a token of the draft model */        \
    X(VERIFY_MS, "verify_ms", false, 0.001, 1e4)         /* a pass of the target */              \
    X(VERIFY_TOKEN_MS, "verify_token_ms", false, 0, 1e3) /* what a drafted token adds to it */   \
    X(RTT_MS, "rtt_ms", false, 0, 1e4)                   /* there and back, without bits */      \
    X(MESSAGE_BITS, "message_bits", false, 0, 1e6)       /* of a draft besides tokens, points */ \
    X(DOWN_KBIT_S, "down_kbit_s", false, 0, 1e9)         /* 0: down takes no time */             \
    X(PROBABILITY_BITS, "probability_bits", true, 1, 64) /* where q is sent as it is */          \
    X(LENGTH_MOST, "length_most", true, 1, FT_QSV_LENGTH_MAX)         /* of a draft */           \
    X(HEURISTIC_START, "heuristic_start", true, 1, FT_QSV_LENGTH_MAX) /* its first length */     \
    X(HEURISTIC_STEP, "heuristic_step", true, 1, FT_QSV_LENGTH_MAX)   /* if all were accepted */ \
    X(WIDTH_MOST, "tree_width_most", true, 2, 16)      /* nodes of a tree's level */             \
    X(REPLAYS, "replays", true, 1, FT_QSV_REPLAYS_MAX) /* of each text */
typedef enum ft_qsv_const {
#define X(name, text, whole, least, most) FT_QSV_##name,
    FT_QSV_CONST_LIST(X)
#undef X
        FT_QSV_CONSTS
} ft_qsv_const;

/* How points are sent. X(NAME, "name in the file") */
#define FT_QSV_CODE_LIST(X)                                       \
    X(INDEX, "index") /* bits of the code alone, as in eq. (7) */ \
    X(ADAPTIVE, "adaptive")                                       \
    X(SHORTER, "shorter") /* the shorter one, as evidence of rule ratio */
typedef enum ft_qsv_code {
#define X(id, text) FT_QSV_CODE_##id,
    FT_QSV_CODE_LIST(X)
#undef X
        FT_QSV_CODES
} ft_qsv_code;
extern const char *const ft_qsv_code_name[FT_QSV_CODES];

/* An uplink; its rate is constant or changes as a Markov chain (rate.step_ns > 0). */
typedef struct ft_qsv_link {
    char name[40]; /* "constant", or the chain's */
    ft_line_rate rate;
} ft_qsv_link;

typedef struct ft_qsv_config {
    double k[FT_QSV_CONSTS];
    bool open[FT_QSV_CONSTS]; /* the paper gives no value */
    ft_qsv_code code;
    uint32_t l[FT_QSV_L]; /* [n_l] to choose from; rising */
    uint32_t n_l;
    ft_qsv_link link[FT_QSV_LINKS]; /* [n_links]: rising constant rates, then chains */
    uint32_t n_links;
} ft_qsv_config;

/* The mean rate, kbit/s. */
double ft_qsv_link_kbit_s(const ft_qsv_link *link);

/* FT_INVALID names the field and its range. */
FT_WARN_UNUSED ft_status ft_qsv_config_parse(const json_t *root, ft_error *err, ft_qsv_config *out);
/* A file. FT_IO, FT_TOO_LARGE, or as above with the path. */
FT_WARN_UNUSED ft_status ft_qsv_config_load(const char *path, ft_error *err, ft_qsv_config *out);

#endif
