/* SPDX-License-Identifier: Apache-2.0
 *
 * Which block of the KV pool holds which 16 tokens of whose text: the index behind the prefix cache.
 * A block is *registered* once it is full of committed tokens of a tenant's sequence; then it is found
 * again by tenant, the registered block before it, and its tokens. A registered block that no
 * sequence holds is *idle*: it stays findable until the pool needs it. Then the tenant that has most registered
 * blocks, held ones included, loses the one longest idle of its own: who fills the pool with new texts forgets
 * its own old ones, not others'. Only what nobody took up for very long goes first, whosever it is.
 * Knows neither sequences nor tensors; kv.c decides when. Owned by the engine's thread.
 *
 *              settle                    idle
 *   (unknown) --------> registered, held -----> registered, idle --evict--> (unknown)
 *       ^------remove-----------'        <-----       wake
 */
#ifndef FT_ENGINE_PREFIX_H
#define FT_ENGINE_PREFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FT_PREFIX_NONE UINT32_MAX /* no block */
/* A tenant that stays away keeps its share until blocks, of whomever, have become idle so many times as there
 * are blocks. */
#define FT_PREFIX_STALE_TURNS 8

typedef struct ft_prefix_entry {
    uint64_t hash;       /* of tenant, chain and tokens; only of a registered block, as the rest */
    uint64_t tenant;     /* 0: the block is not registered */
    uint32_t parent;     /* the block before it in every text that holds it, or none */
    uint32_t next;       /* in its bucket */
    uint32_t n_children; /* registered blocks whose parent it is */
    uint32_t owner;      /* among tenants, by number */
    uint32_t older, newer;         /* among the idle ones */
    uint32_t own_older, own_newer; /* among those of its tenant */
    uint64_t idle_at;              /* of an idle one: how many became idle before it */
    bool idle;
} ft_prefix_entry;

typedef struct ft_prefix_tenant {
    uint64_t id;             /* 0: a free place */
    uint32_t n;              /* registered blocks, at least 1 */
    uint32_t oldest, newest; /* of its idle ones; none: it has none */
} ft_prefix_tenant;

typedef struct ft_prefix {
    uint32_t n_blocks, n_buckets; /* n_buckets: a power of two */
    uint8_t key[16];         /* of the hash; unpredictable, so that nobody can craft collisions */
    int32_t *token;          /* [n_blocks, 16], the owner writes them */
    ft_prefix_entry *entry;  /* [n_blocks] */
    uint32_t *bucket;        /* [n_buckets] */
    uint32_t oldest, newest; /* ends of the list of idle blocks */
    uint32_t n_idle;
    ft_prefix_tenant *tenant; /* [n_tenants], room for n_blocks */
    uint32_t n_tenants;       /* places that were ever taken */
    uint64_t idled, evicted;  /* so far */
} ft_prefix;

/* FT_NOMEM, FT_IO (the system has no random numbers); then nothing is owed. */
FT_WARN_UNUSED ft_status ft_prefix_init(ft_prefix *prefix, uint32_t n_blocks);
void ft_prefix_deinit(ft_prefix *prefix);

static inline bool ft_prefix_has(const ft_prefix *prefix, uint32_t block)
{
    return prefix->entry[block].tenant != 0;
}

/* The registered block with these 16 tokens behind `parent` (a registered block, or none), or none.
 * Tokens, parent and tenant are compared, never the hash alone. */
uint32_t ft_prefix_find(const ft_prefix *prefix, uint64_t tenant, uint32_t parent,
                        const int32_t *tokens);
/* The block that stands for the tokens written to `block` behind `parent` from now on: one that was
 * registered before with the same, else `block` itself, which is registered then. tenant is not 0. */
uint32_t ft_prefix_settle(ft_prefix *prefix, uint32_t block, uint64_t tenant, uint32_t parent);
/* Forgets a registered block that is not idle and has no children. */
void ft_prefix_remove(ft_prefix *prefix, uint32_t block);

/* The last sequence let go of a registered block; those that hold its children did before. */
void ft_prefix_idle(ft_prefix *prefix, uint32_t block);
/* A sequence takes an idle block up again, and with it all blocks before it. */
void ft_prefix_wake(ft_prefix *prefix, uint32_t block);
/* Forgets an idle block and returns it; there is one. */
uint32_t ft_prefix_evict(ft_prefix *prefix);

/* True if the invariants stated in prefix.c hold. scratch: [n_blocks]. */
bool ft_prefix_check(const ft_prefix *prefix, uint32_t *scratch);

#endif
