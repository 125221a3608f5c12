/* SPDX-License-Identifier: Apache-2.0
 *
 * What `bench ablate` looks at: conditions for edges, servers and their parts, and mechanisms that
 * constants switch off. Constant data. */
#ifndef FT_BENCH_ABLATE_CASES_H
#define FT_BENCH_ABLATE_CASES_H

#include "bench/ablate_parts.h"
#include "bench/ablate_world.h"
#include "sim/wisp_config.h"

/* A server with many devices, in the simulator (sim/wisp.h). */
typedef struct ft_ablate_crowd {
    const char *name, *what;
    uint32_t devices;
    uint32_t class; /* FT_SIM_MIXED: of all classes */
    struct {
        ft_sim_const which;
        double value;
    } change[3];           /* of the config; value 0: none */
    const double *cost_us; /* [FT_COST_FACTORS] of passes; NULL: the config's */
    bool rises; /* counted from the first text on, not only once all devices have begun */
} ft_ablate_crowd;

/* Constants that together are a mechanism, and values that switch it off. */
typedef struct ft_ablate_mechanism {
    const char *room, *group, *name;
    const char *off; /* "group.name=value,..." */
} ft_ablate_mechanism;

extern const ft_ablate_case ft_ablate_cases[];
extern const size_t ft_ablate_n_cases;
extern const ft_ablate_crowd ft_ablate_crowds[];
extern const size_t ft_ablate_n_crowds;
extern const ft_ablate_part ft_ablate_parts[];
extern const size_t ft_ablate_n_parts;
extern const ft_ablate_mechanism ft_ablate_mechanisms[];
extern const size_t ft_ablate_n_mechanisms;

#endif
