/* SPDX-License-Identifier: Apache-2.0
 *
 * What a simulation of EdgeLLM assumes (docs/SIMULATOR.md): the times of pairs of models, how often
 * a draft is right, and what the methods may choose. For each number the file gives the reason.
 * Plain data. People write the files, so each field is checked.
 */
#ifndef FT_SIM_EDGELLM_CONFIG_H
#define FT_SIM_EDGELLM_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "spec/growth.h"

#define FT_EDGELLM_CONFIG_KIND "foretoken simulate edgellm"
#define FT_EDGELLM_NAME        40    /* bytes of a name */
#define FT_EDGELLM_PAIRS       8     /* pairs of models at most */
#define FT_EDGELLM_DATASETS    8     /* of a pair at most */
#define FT_EDGELLM_LIST        8     /* entries of a list at most */
#define FT_EDGELLM_TEXTS_MAX   10000 /* of constant texts */

/* X(NAME, "name in the file", is a whole number, least, most) */
#define FT_EDGELLM_CONST_LIST(X)                                                                   \
    X(ROW_SHARE, "row_share", false, 0, 1) /* time of a further row of a draft forward / of one */ \
    X(IO_SHARE, "io_share", false, 0, 1)   /* of a verification: reading weights */                \
    X(SP_LENGTH, "sp_length", true, 1, 64) /* tokens of sp's chains, where one length is meant */  \
    X(TREE_TOK, "tree_tok", true, 1, FT_TREE_MAX)                /* nodes of a tree without SF */  \
    X(TREE_MOST, "tree_most", true, 1, FT_TREE_MAX)              /* nodes of a tree at most */     \
    X(TOP_CONCENTRATION, "top_concentration", false, 0.05, 1000) /* edgellm_world.h */             \
    X(TEXT_CONCENTRATION, "text_concentration", false, 0.5, 1e6) /* edgellm_world.h */             \
    X(NEXT_SHARE, "next_share", false, 0, 1)                     /* edgellm_world.h */             \
    X(TEXTS, "texts", true, 2, FT_EDGELLM_TEXTS_MAX)             /* of each dataset */             \
    X(TEXT_TOK, "text_tok", true, 8, 4096)                       /* tokens of a text */
typedef enum ft_edgellm_const {
#define X(name, text, whole, least, most) FT_EDGELLM_##name,
    FT_EDGELLM_CONST_LIST(X)
#undef X
        FT_EDGELLM_CONSTS
} ft_edgellm_const;

/* Of a pair; X as above. */
#define FT_EDGELLM_TIME_LIST(X)                                                     \
    X(DRAFT_S, "draft_s", false, 1e-6, 1e4)         /* a forward over one token */  \
    X(VERIFY_S, "verify_s", false, 1e-6, 1e4)       /* a pass of the target */      \
    X(PROACTIVE_S, "proactive_s", false, 1e-6, 1e4) /* draft_s while a pass runs */ \
    X(STD_S, "std_s", false, 1e-6, 1e4)             /* a token of the target alone */
typedef enum ft_edgellm_time {
#define X(name, text, whole, least, most) FT_EDGELLM_##name,
    FT_EDGELLM_TIME_LIST(X)
#undef X
        FT_EDGELLM_TIMES
} ft_edgellm_time;

/* The paper tells its results by class. X(NAME, "name in the file", "name in reports") */
#define FT_EDGELLM_CLASS_LIST(X) \
    X(IOT, "iot", "IoT")         \
    X(PHONE, "smartphone", "smartphones")
typedef enum ft_edgellm_class {
#define X(id, text, title) FT_EDGELLM_##id,
    FT_EDGELLM_CLASS_LIST(X)
#undef X
        FT_EDGELLM_CLASSES
} ft_edgellm_class;
extern const char *const ft_edgellm_class_title[FT_EDGELLM_CLASSES];

typedef struct ft_edgellm_dataset {
    char name[FT_EDGELLM_NAME];
    double correctness; /* table I: share of tokens for which the draft's best one is right */
    bool open;          /* the paper gives no value */
} ft_edgellm_dataset;

/* GB that weights take, and that both models may have. */
typedef struct ft_edgellm_memory {
    double draft_gb, target_gb;
    double budget_gb;                   /* the one that verify_s belongs to */
    double budgets_gb[FT_EDGELLM_LIST]; /* [n] others to simulate, rising */
    uint32_t n;                         /* 0: not known */
} ft_edgellm_memory;

typedef struct ft_edgellm_pair {
    char name[FT_EDGELLM_NAME];
    ft_edgellm_class class;
    double s[FT_EDGELLM_TIMES];
    bool open[FT_EDGELLM_TIMES];
    ft_edgellm_memory memory;
    ft_edgellm_dataset dataset[FT_EDGELLM_DATASETS]; /* [n_datasets] */
    uint32_t n_datasets;
} ft_edgellm_pair;

/* Children by level, as in ft_draft_params. */
typedef struct ft_edgellm_widths {
    uint8_t children[FT_GROW_LEVELS];
} ft_edgellm_widths;

typedef struct ft_edgellm_config {
    double k[FT_EDGELLM_CONSTS];
    bool open[FT_EDGELLM_CONSTS];
    ft_edgellm_pair pair[FT_EDGELLM_PAIRS]; /* [n_pairs] */
    uint32_t n_pairs;
    double lengths[FT_EDGELLM_LIST];           /* [n_lengths] of sp's chains; rising */
    double trees[FT_EDGELLM_LIST];             /* [n_trees] as tree_tok; rising */
    double alphas[FT_EDGELLM_LIST];            /* [n_alphas] that verdicts do not move; rising */
    ft_edgellm_widths widths[FT_EDGELLM_LIST]; /* [n_widths] of SpecInfer; the first is the usual */
    uint32_t n_lengths, n_trees, n_alphas, n_widths;
} ft_edgellm_config;

/* FT_INVALID names the field and its range. */
FT_WARN_UNUSED ft_status ft_edgellm_config_parse(const json_t *root, ft_error *err,
                                                 ft_edgellm_config *out);
/* A file. FT_IO, FT_TOO_LARGE, or as above with the path. */
FT_WARN_UNUSED ft_status ft_edgellm_config_load(const char *path, ft_error *err,
                                                ft_edgellm_config *out);

/* Seconds of a pass if both models may have so many GB. The share io_share of verify_s reads the
 * bytes that do not fit, and is proportional to their number. The rest computes. */
double ft_edgellm_verify_s(const ft_edgellm_config *config, const ft_edgellm_pair *pair,
                           double budget_gb);

/* One number that the paper leaves open. */
typedef struct ft_edgellm_knob {
    char name[2 * FT_EDGELLM_NAME + 16];
    double *value;     /* in the config */
    bool whole, share; /* share: doubling moves it half of the way to 1 */
    double least, most;
} ft_edgellm_knob;
#define FT_EDGELLM_KNOBS \
    (FT_EDGELLM_CONSTS + FT_EDGELLM_PAIRS * (FT_EDGELLM_TIMES + FT_EDGELLM_DATASETS))
/* Those of a config; returns how many. knobs has room for FT_EDGELLM_KNOBS. */
uint32_t ft_edgellm_knobs(ft_edgellm_config *config, ft_edgellm_knob *knobs);
/* Multiplies it by 0.5 or 2, within its range. */
void ft_edgellm_knob_turn(const ft_edgellm_knob *knob, double factor);

#endif
