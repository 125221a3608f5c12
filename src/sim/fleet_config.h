/* SPDX-License-Identifier: Apache-2.0
 *
 * What a simulation of a fleet assumes (docs/SIMULATOR.md): devices and servers as `simulate wisp`
 * has them, and what only many servers have. The file gives the reason for each constant. Plain
 * data. People write the files, so each field is checked.
 */
#ifndef FT_SIM_FLEET_CONFIG_H
#define FT_SIM_FLEET_CONFIG_H

#include "sim/wisp_config.h"

#define FT_FLEET_CONFIG_KIND "foretoken simulate fleet"

/* X(NAME, "name in the file", is a whole number, least, most) */
#define FT_FLEET_CONST_LIST(X)                                                                    \
    X(TURNS, "turns", true, 1, 1000)             /* texts of a chat: mean; 1 to twice that - 1 */ \
    X(FIRST_TOK, "first_tokens", false, 0, 1e5)  /* more of a chat's first prompt */              \
    X(THINK_S, "think_s", false, 0.1, 1e5)       /* mean time from a text to the next prompt */   \
    X(RING_POINTS, "ring_points", true, 1, 1000) /* of a server, on the hash ring */              \
    X(NOTICE_MS, "notice_ms", false, 0, 1e5)     /* until an edge asks anew, its server lost */   \
    X(RECONNECT_MS, "reconnect_ms", false, 0, 1e6) /* a lost server's text asks for so long */    \
    X(RAMP_S, "ramp_s", false, 0.1, 1e5)           /* devices begin within it; not counted */     \
    X(MEASURE_S, "measure_s", false, 0.1, 1e5)     /* this is counted */                          \
    X(LOST_S, "lost_s", false, 0.1, 1e5)           /* of it, until a server is lost */            \
    X(ADDED_S, "added_s", false, 0.1, 1e5)         /* of it, until a server is added; > lost_s */
typedef enum ft_fleet_const {
#define X(name, text, whole, least, most) FT_FLEET_##name,
    FT_FLEET_CONST_LIST(X)
#undef X
        FT_FLEET_CONSTS
} ft_fleet_const;

typedef struct ft_fleet_config {
    ft_sim_config server; /* devices, too; what the fleet has no use for is 0 */
    double k[FT_FLEET_CONSTS];
} ft_fleet_config;

/* FT_INVALID names the field and its range. */
FT_WARN_UNUSED ft_status ft_fleet_config_parse(const json_t *root, ft_error *err,
                                               ft_fleet_config *out);
/* A file. FT_IO, FT_TOO_LARGE, or as above with the path. */
FT_WARN_UNUSED ft_status ft_fleet_config_load(const char *path, ft_error *err,
                                              ft_fleet_config *out);

#endif
