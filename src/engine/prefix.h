/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of the prefix cache: it finds a block of the KV pool by the 16 tokens in it.
 *
 * A block becomes *registered* when committed tokens of a sequence with a cache scope fill it. It
 * is found by its scope, the registered block before it, and its tokens. A registered block that no
 * sequence holds is *idle*. It can still be found until the pool needs it.
 *
 * The scope with the most registered blocks (held ones included) loses its oldest idle block first.
 * So a tenant that fills the pool with new texts evicts its own old texts, not those of others. The
 * exception: an idle block of any scope that nobody has used for very long is evicted before all
 * others.
 *
 * The index knows neither sequences nor tensors; kv.c decides when blocks are registered. It is
 * owned by the engine's thread.
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
/* The oldest idle block of all is stale when, since it became idle, this many times n_blocks blocks
 * have become idle. A stale block is evicted whatever its scope. */
#define FT_PREFIX_STALE_FACTOR 8

typedef struct ft_prefix_entry {
    uint64_t hash;         /* of scope, parent's hash and tokens; valid while registered */
    uint64_t scope;        /* 0: the block is not registered */
    uint32_t parent;       /* the block before it in every text that holds it, or none */
    uint32_t next;         /* next block in the hash bucket */
    uint32_t n_children;   /* registered blocks whose parent it is */
    uint32_t place;        /* index of its scope in ft_prefix.scope */
    uint32_t older, newer; /* neighbours in its scope's list of idle blocks */
    uint64_t idle_at;      /* ft_prefix.idled when it became idle */
    bool idle;
} ft_prefix_entry;

typedef struct ft_prefix_scope {
    uint64_t id;             /* 0: this entry is free */
    uint32_t n;              /* registered blocks, at least 1 */
    uint32_t oldest, newest; /* ends of the list of its idle blocks, or FT_PREFIX_NONE */
} ft_prefix_scope;

typedef struct ft_prefix {
    uint32_t n_blocks, n_buckets; /* n_buckets: a power of two */
    uint8_t key[16];              /* random key of the hash, so that nobody can craft collisions */
    int32_t *token;               /* [n_blocks, 16], written by kv.c */
    ft_prefix_entry *entry;       /* [n_blocks] */
    uint32_t *bucket;             /* [n_buckets] */
    uint32_t n_idle;
    ft_prefix_scope *scope;  /* [n_scopes], capacity n_blocks */
    uint32_t n_scopes;       /* entries used so far, free ones included */
    uint64_t idled, evicted; /* counted since init */
} ft_prefix;

/* FT_NOMEM, FT_IO (the system has no random numbers): nothing needs a deinit then. */
FT_WARN_UNUSED ft_status ft_prefix_init(ft_prefix *prefix, uint32_t n_blocks);
void ft_prefix_deinit(ft_prefix *prefix);

static inline bool ft_prefix_has(const ft_prefix *prefix, uint32_t block)
{
    return prefix->entry[block].scope != 0;
}

/* Returns the registered block with this scope, this parent (a registered block or FT_PREFIX_NONE)
 * and these 16 tokens, or FT_PREFIX_NONE. It compares all three, never the hash alone. */
uint32_t ft_prefix_find(const ft_prefix *prefix, uint64_t scope, uint32_t parent,
                        const int32_t *tokens);
/* Returns the registered block with the same scope, parent and tokens as `block`. If there is none,
 * it registers `block` and returns it. scope is not 0. */
uint32_t ft_prefix_settle(ft_prefix *prefix, uint32_t block, uint64_t scope, uint32_t parent);
/* Unregisters a block that is not idle and has no children. */
void ft_prefix_remove(ft_prefix *prefix, uint32_t block);

/* The last sequence has released a registered block. The block's children are idle already. */
void ft_prefix_idle(ft_prefix *prefix, uint32_t block);
/* A sequence takes an idle block again. It holds all blocks before it, too. */
void ft_prefix_wake(ft_prefix *prefix, uint32_t block);
/* Unregisters an idle block and returns it. At least one block must be idle. */
uint32_t ft_prefix_evict(ft_prefix *prefix);

/* True if the invariants stated in prefix.c hold. scratch: [n_blocks]. */
bool ft_prefix_check(const ft_prefix *prefix, uint32_t *scratch);

#endif
