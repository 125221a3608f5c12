/* SPDX-License-Identifier: Apache-2.0
 *
 * Which server gets a text: the choice that a proxy makes. Pure; the caller owns the state, one
 * thread at a time. Inside the room.
 */
#ifndef FT_SIM_FLEET_ASSIGN_H
#define FT_SIM_FLEET_ASSIGN_H

#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/status.h"

#define FT_FLEET_NONE UINT32_MAX /* no server */

/* X(NAME, "name") */
#define FT_FLEET_ASSIGN_LIST(X)                                                               \
    X(RING, "ring")     /* by the prompt's prefix: its place on a hash ring (Envoy) */        \
    X(LEAST, "least")   /* of two servers at random the one with fewer texts (Envoy's least \
                           request) */ \
    X(RANDOM, "random") /* any */
typedef enum ft_fleet_assign {
#define X(name, text) FT_FLEET_##name,
    FT_FLEET_ASSIGN_LIST(X)
#undef X
        FT_FLEET_ASSIGNS
} ft_fleet_assign;
extern const char *const ft_fleet_assign_name[FT_FLEET_ASSIGNS];

typedef struct ft_fleet_point {
    uint64_t at;
    uint32_t server;
} ft_fleet_point;

typedef struct ft_fleet_servers {
    uint32_t *alive; /* [n] server numbers */
    size_t n;
    ft_fleet_point *ring; /* [n * points], sorted */
    size_t points;        /* of a server */
} ft_fleet_servers;

/* Room for `most` servers; there are none yet. Owes a deinit, even if it fails. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_fleet_servers_init(ft_fleet_servers *s, size_t most, size_t points,
                                               ft_error *err);
void ft_fleet_servers_deinit(ft_fleet_servers *s);
/* The servers are now alive[n], n at most as many as there is room for. */
void ft_fleet_servers_set(ft_fleet_servers *s, const uint32_t *alive, size_t n);

/* A hash whose bits are all as good: SplitMix64's last step (Steele et al., 2014). */
uint64_t ft_fleet_hash(uint64_t x);

/* The server of a prompt whose prefix has the hash `key`; load[] by server number. FT_FLEET_NONE:
 * there is none. */
uint32_t ft_fleet_choose(const ft_fleet_servers *s, ft_fleet_assign how, uint64_t key,
                         const uint32_t *load, ft_rng *rng);

#endif
