/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulates a fleet on a virtual clock: many servers behind a proxy that assigns texts to them, and
 * devices whose users chat. Devices and servers are those of `simulate wisp` (sim/wisp.h), with the
 * real server's policies. Pure: the same config, opts and seed give the same result on every
 * machine, with any number of threads.
 */
#ifndef FT_SIM_FLEET_H
#define FT_SIM_FLEET_H

#include "sim/fleet_assign.h"
#include "sim/fleet_config.h"
#include "sim/wisp.h"

#define FT_FLEET_DEVICES_MAX 2000000u
#define FT_FLEET_SERVERS_MAX 100000u

typedef struct ft_fleet_opts {
    const ft_fleet_config *config; /* borrowed */
    ft_fleet_assign assign;
    uint32_t n_devices, n_servers; /* at least 1 of each */
    bool accident;                 /* a server is lost, and later one is added; needs 2 servers */
    uint64_t seed;
    int n_threads; /* 0: one for each core */
} ft_fleet_opts;

/* The parts of the simulated time. */
#define FT_FLEET_PART_LIST(X)                                                     \
    X(RAMP, "ramp")     /* devices begin; not reported */                         \
    X(BEFORE, "before") /* all servers are there; without an accident the rest */ \
    X(LOST, "lost")     /* one is lost */                                         \
    X(AFTER, "after")   /* another one is added */
typedef enum ft_fleet_part_id {
#define X(name, text) FT_FLEET_PART_##name,
    FT_FLEET_PART_LIST(X)
#undef X
        FT_FLEET_PARTS
} ft_fleet_part_id;
extern const char *const ft_fleet_part_name[FT_FLEET_PARTS];

/* What is counted beside ft_sim_result. */
#define FT_FLEET_COUNTS(F)                                                    \
    F(begun)      /* texts that users asked for */                            \
    F(ended)      /* texts whose last token came */                           \
    F(moved)      /* texts that another server went on with */                \
    F(before_tok) /* tokens of earlier turns, in the prompts of later ones */ \
    F(found_tok)  /* of them, those whose KV was still at the server */

typedef struct ft_fleet_part {
    ft_sim_result r;
    uint64_t given_up[FT_SIM_CLASSES]; /* texts refused until their users gave up */
#define F(name) uint64_t name;
    FT_FLEET_COUNTS(F)
#undef F
} ft_fleet_part;

typedef struct ft_fleet_result {
    ft_fleet_part part[FT_FLEET_PARTS];
    uint64_t unfinished; /* texts at the end */
} ft_fleet_result;

/* FT_INVALID: a number is out of range, or the longest chat does not fit in a KV pool. FT_NOMEM,
 * FT_EXHAUSTED (threads). */
FT_WARN_UNUSED ft_status ft_fleet_run(const ft_fleet_opts *opts, ft_error *err,
                                      ft_fleet_result *out);

/* Adds up two parts. */
void ft_fleet_part_add(ft_fleet_part *to, const ft_fleet_part *part);

/* The share of the texts that were late or given up, of the class where it is largest. */
double ft_fleet_late_share(const ft_fleet_part *part);
/* The share of the tokens of earlier turns whose KV was found; 0: there were none. */
double ft_fleet_found_share(const ft_fleet_part *part);

#endif
