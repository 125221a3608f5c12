/* SPDX-License-Identifier: Apache-2.0
 *
 * What a simulation of Zhu et al. assumes (docs/SIMULATOR.md): tables I and II, and what they leave
 * open. The paper's numbers are built in; a file replaces them all. Plain data. People write the
 * files, so each field is checked.
 */
#ifndef FT_SIM_ZHU_CONFIG_H
#define FT_SIM_ZHU_CONFIG_H

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"
#include "plan/runtime.h"

#define FT_ZHU_CONFIG_KIND "foretoken simulate zhu"
#define FT_ZHU_PAIRS       3
#define FT_ZHU_NAME        40 /* bytes of a name */
#define FT_ZHU_SEEDS_MAX   1000

/* X(NAME, "name in the file", is a whole number, least, most, the paper's value or ours) */
#define FT_ZHU_CONST_LIST(X)                                                                  \
    X(TASKS, "tasks", true, 2, 1000, 100)               /* K */                               \
    X(IN_MOST, "input_most", true, 1, 100000, 512)      /* I_max, tokens */                   \
    X(OUT_MOST, "output_most", true, 1, 100000, 2048)   /* O_max */                           \
    X(ACCEPTANCE, "acceptance", false, 0, 1, 0.8)       /* alpha of figures 7 to 9 */         \
    X(LENGTH_MOST, "length_most", true, 1, 64, 10)      /* l_max */                           \
    X(BANDWIDTH, "bandwidth_mhz", false, 1e-3, 1e6, 20) /* B_w */                             \
    X(POWER, "power_w", false, 1e-9, 1e6, 0.2)          /* p_k */                             \
    X(NOISE, "noise_dbm", false, -300, 100, -106)       /* sigma^2 */                         \
    X(RADIUS, "radius_m", false, 1, 1e6, 400)           /* of the cell */                     \
    X(NEAREST, "nearest_m", false, 1e-3, 1e6, 1)        /* users are not closer to the SBS */ \
    X(G0, "g0", false, 1e-15, 1, 1e-6)                  /* path loss at 1 m, a factor */      \
    X(OWN_OUTPUTS, "own_outputs", true, 0, 1, 0)        /* 0: each output is O_max (III-B) */ \
    X(MEMORY, "memory_gb", false, 1e-3, 1e6, 16)        /* Gamma_s */                         \
    X(DRAFT_C1, "draft_c1", false, 0, 1, 4.11e-13)      /* of (17); seconds an operation */   \
    X(DRAFT_C2, "draft_c2", false, 0, 100, 0.56e-3)     /* seconds a pass */                  \
    X(VERIFY_C1, "verify_c1", false, 0, 1, 2.08e-14)    /* the same of the MBS */             \
    X(VERIFY_C2, "verify_c2", false, 0, 100, 1.28e-2)                                         \
    X(STATIC_SIZE, "static_size", true, 1, 1000, 8)  /* tasks of a batch of static */         \
    X(SEEDS, "seeds", true, 1, FT_ZHU_SEEDS_MAX, 40) /* cells of each point */
typedef enum ft_zhu_const {
#define X(name, text, whole, least, most, value) FT_ZHU_##name,
    FT_ZHU_CONST_LIST(X)
#undef X
        FT_ZHU_CONSTS
} ft_zhu_const;

/* Two models of table I. Their c1 and c2 are those of the constants. */
typedef struct ft_zhu_pair {
    char name[FT_ZHU_NAME];
    ft_plan_pair models;
} ft_zhu_pair;

typedef struct ft_zhu_config {
    double k[FT_ZHU_CONSTS];
    bool open[FT_ZHU_CONSTS];       /* the paper gives no value, or it can be read in two ways */
    ft_zhu_pair pair[FT_ZHU_PAIRS]; /* as the paper lists them; figures 7 and 8 have the second */
} ft_zhu_config;

/* The paper's. */
void ft_zhu_config_paper(ft_zhu_config *out);
/* FT_INVALID names the field and its range. */
FT_WARN_UNUSED ft_status ft_zhu_config_parse(const json_t *root, ft_error *err, ft_zhu_config *out);
/* A file. FT_IO, FT_TOO_LARGE, or as above with the path. */
FT_WARN_UNUSED ft_status ft_zhu_config_load(const char *path, ft_error *err, ft_zhu_config *out);

#endif
