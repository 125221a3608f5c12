// SPDX-License-Identifier: Apache-2.0
// The prefix cache's index: hash buckets, and for each scope a list of its idle blocks by age.
// Owned by the engine's thread. No allocation after init. Every operation takes constant time (a
// bucket holds one block on average), except: settle and evict go through the scopes, which are
// few, and the check goes through everything.
//
// Invariants (ft_prefix_check tests them):
//  1. A registered block is in the bucket of its hash. No other registered block has the same
//     scope, parent and tokens. Its parent, if any, is registered in the same scope and counts it
//     as a child. So the parent's number identifies the whole text before a block. The scope's
//     entry counts the block.
//  2. An idle block is registered. Its children are idle and older than itself, because a sequence
//     that holds a block holds its parent, too, and releases the parent later. So the oldest idle
//     block, of all or of one scope, has no children, and eviction shortens a text from its end.
//
// A block's age counts from its last release, not from the last use of its tokens. So the blocks of
// a session that was evicted under pressure outlive older cached blocks. This matters little: under
// such pressure all of them are about to be overwritten.
#include "engine/prefix.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/secret.h"
#include "engine/engine.h"

#define NONE  FT_PREFIX_NONE
#define BLOCK FT_KV_BLOCK_TOK

ft_status ft_prefix_init(ft_prefix *prefix, uint32_t n_blocks)
{
    *prefix = (ft_prefix){.n_blocks = n_blocks, .n_buckets = 1};
    while (prefix->n_buckets < n_blocks)
        prefix->n_buckets *= 2;
    prefix->token = calloc((size_t)n_blocks * BLOCK, sizeof *prefix->token);
    prefix->entry = calloc(n_blocks, sizeof *prefix->entry);
    prefix->bucket = malloc(prefix->n_buckets * sizeof *prefix->bucket);
    prefix->scope = calloc(n_blocks, sizeof *prefix->scope);
    ft_status status = ft_random_bytes(prefix->key, sizeof prefix->key);
    if (!prefix->token || !prefix->entry || !prefix->bucket || !prefix->scope)
        status = FT_NOMEM;
    if (status != FT_OK) {
        ft_prefix_deinit(prefix);
        return status;
    }
    for (uint32_t i = 0; i < prefix->n_buckets; i++)
        prefix->bucket[i] = NONE;
    return FT_OK;
}

void ft_prefix_deinit(ft_prefix *prefix)
{
    free(prefix->token);
    free(prefix->entry);
    free(prefix->bucket);
    free(prefix->scope);
    *prefix = (ft_prefix){0};
}

static uint64_t hash_of(const ft_prefix *prefix, uint64_t scope, uint32_t parent,
                        const int32_t *tokens)
{
    struct {
        uint64_t scope, before;
        int32_t tokens[BLOCK];
    } text = {scope, parent == NONE ? 0 : prefix->entry[parent].hash, {0}};
    memcpy(text.tokens, tokens, sizeof text.tokens);
    return ft_siphash(prefix->key, &text, sizeof text);
}

/* ---- scopes ---- */

/* Returns the index of a scope's entry, and makes the entry if there is none. One is always free:
 * every scope in use has a registered block. */
static uint32_t place_of(ft_prefix *prefix, uint64_t id)
{
    uint32_t unused = prefix->n_scopes;
    for (uint32_t i = 0; i < prefix->n_scopes; i++) {
        if (prefix->scope[i].id == id)
            return i;
        if (prefix->scope[i].id == 0)
            unused = i;
    }
    assert(unused < prefix->n_blocks);
    prefix->n_scopes += unused == prefix->n_scopes;
    prefix->scope[unused] = (ft_prefix_scope){.id = id, .oldest = NONE, .newest = NONE};
    return unused;
}

/* ---- registered blocks ---- */

static uint32_t *bucket_of(const ft_prefix *prefix, uint64_t hash)
{
    return &prefix->bucket[hash & (prefix->n_buckets - 1)];
}

static uint32_t find_hashed(const ft_prefix *prefix, uint64_t hash, uint64_t scope, uint32_t parent,
                            const int32_t *tokens)
{
    for (uint32_t b = *bucket_of(prefix, hash); b != NONE; b = prefix->entry[b].next) {
        const ft_prefix_entry *e = &prefix->entry[b];
        if (e->hash == hash && e->scope == scope && e->parent == parent &&
            memcmp(prefix->token + (size_t)b * BLOCK, tokens, BLOCK * sizeof *tokens) == 0)
            return b;
    }
    return NONE;
}

uint32_t ft_prefix_find(const ft_prefix *prefix, uint64_t scope, uint32_t parent,
                        const int32_t *tokens)
{
    return find_hashed(prefix, hash_of(prefix, scope, parent, tokens), scope, parent, tokens);
}

uint32_t ft_prefix_settle(ft_prefix *prefix, uint32_t block, uint64_t scope, uint32_t parent)
{
    const int32_t *tokens = prefix->token + (size_t)block * BLOCK;
    uint64_t hash = hash_of(prefix, scope, parent, tokens);
    uint32_t known = find_hashed(prefix, hash, scope, parent, tokens);
    if (known != NONE)
        return known;
    assert(scope != 0 && !ft_prefix_has(prefix, block));
    uint32_t *bucket = bucket_of(prefix, hash);
    prefix->entry[block] = (ft_prefix_entry){.hash = hash,
                                             .scope = scope,
                                             .parent = parent,
                                             .next = *bucket,
                                             .place = place_of(prefix, scope)};
    prefix->scope[prefix->entry[block].place].n++;
    *bucket = block;
    if (parent != NONE)
        prefix->entry[parent].n_children++;
    return block;
}

void ft_prefix_remove(ft_prefix *prefix, uint32_t block)
{
    ft_prefix_entry *e = &prefix->entry[block];
    assert(e->scope != 0 && e->n_children == 0 && !e->idle);
    uint32_t *at = bucket_of(prefix, e->hash);
    while (*at != block)
        at = &prefix->entry[*at].next;
    *at = e->next;
    if (e->parent != NONE)
        prefix->entry[e->parent].n_children--;
    if (--prefix->scope[e->place].n == 0)
        prefix->scope[e->place].id = 0;
    e->scope = 0;
}

/* ---- idle blocks ---- */

void ft_prefix_idle(ft_prefix *prefix, uint32_t block)
{
    ft_prefix_entry *e = &prefix->entry[block];
    assert(e->scope != 0 && !e->idle);
    e->idle = true;
    e->idle_at = prefix->idled++;
    prefix->n_idle++;
    ft_prefix_scope *s = &prefix->scope[e->place];
    e->older = s->newest;
    e->newer = NONE;
    *(s->newest != NONE ? &prefix->entry[s->newest].newer : &s->oldest) = block;
    s->newest = block;
}

void ft_prefix_wake(ft_prefix *prefix, uint32_t block)
{
    ft_prefix_entry *e = &prefix->entry[block];
    assert(e->idle);
    e->idle = false;
    prefix->n_idle--;
    ft_prefix_scope *s = &prefix->scope[e->place];
    *(e->older != NONE ? &prefix->entry[e->older].newer : &s->oldest) = e->newer;
    *(e->newer != NONE ? &prefix->entry[e->newer].older : &s->newest) = e->older;
}

static uint64_t oldest_at(const ft_prefix *prefix, const ft_prefix_scope *s)
{
    return prefix->entry[s->oldest].idle_at;
}

/* The oldest idle block of the scope with most blocks (of two, of the one whose block is older), or
 * of all scopes if that one is stale. */
static uint32_t to_evict(const ft_prefix *prefix)
{
    const ft_prefix_scope *most = NULL, *oldest = NULL;
    for (const ft_prefix_scope *s = prefix->scope; s < prefix->scope + prefix->n_scopes; s++) {
        if (!s->id || s->oldest == NONE)
            continue;
        if (!oldest || oldest_at(prefix, s) < oldest_at(prefix, oldest))
            oldest = s;
        if (!most || s->n > most->n ||
            (s->n == most->n && oldest_at(prefix, s) < oldest_at(prefix, most)))
            most = s;
    }
    uint64_t age = prefix->idled - oldest_at(prefix, oldest);
    return age > (uint64_t)FT_PREFIX_STALE_FACTOR * prefix->n_blocks ? oldest->oldest
                                                                     : most->oldest;
}

uint32_t ft_prefix_evict(ft_prefix *prefix)
{
    assert(prefix->n_idle > 0);
    uint32_t block = to_evict(prefix);
    ft_prefix_wake(prefix, block);
    ft_prefix_remove(prefix, block);
    prefix->evicted++;
    return block;
}

/* ---- the check ---- */

#define HOLDS(condition)  \
    do {                  \
        if (!(condition)) \
            return false; \
    } while (0)

static bool block_holds(const ft_prefix *prefix, uint32_t block)
{
    const ft_prefix_entry *e = &prefix->entry[block];
    const int32_t *tokens = prefix->token + (size_t)block * BLOCK;
    HOLDS(find_hashed(prefix, e->hash, e->scope, e->parent, tokens) == block);
    if (e->parent == NONE)
        return true;
    HOLDS(e->parent < prefix->n_blocks && e->parent != block);
    HOLDS(prefix->entry[e->parent].scope == e->scope);
    return e->idle || !prefix->entry[e->parent].idle;
}

/* Checks a scope's list of idle blocks; adds their number to *n_idle. children[b] counts the idle
 * children of block b: they are older than it. */
static bool list_holds(const ft_prefix *prefix, uint32_t place, uint32_t *children,
                       uint32_t *n_idle)
{
    const ft_prefix_scope *s = &prefix->scope[place];
    uint32_t before = NONE;
    for (uint32_t b = s->oldest; b != NONE; before = b, b = prefix->entry[b].newer) {
        const ft_prefix_entry *e = &prefix->entry[b];
        HOLDS((*n_idle)++ < prefix->n_idle && e->idle && e->place == place && e->scope == s->id);
        HOLDS(e->older == before);
        HOLDS(before == NONE || prefix->entry[before].idle_at < e->idle_at);
        HOLDS(children[b] == e->n_children);
        if (e->parent != NONE)
            children[e->parent]++;
    }
    return before == s->newest;
}

static bool scopes_hold(const ft_prefix *prefix, uint32_t *scratch)
{
    uint32_t n_idle = 0;
    memset(scratch, 0, prefix->n_blocks * sizeof *scratch);
    for (uint32_t b = 0; b < prefix->n_blocks; b++)
        if (prefix->entry[b].scope)
            scratch[prefix->entry[b].place]++;
    for (uint32_t i = 0; i < prefix->n_scopes; i++) {
        const ft_prefix_scope *s = &prefix->scope[i];
        HOLDS(s->id ? s->n == scratch[i] && s->n > 0 : scratch[i] == 0);
    }
    memset(scratch, 0, prefix->n_blocks * sizeof *scratch);
    for (uint32_t i = 0; i < prefix->n_scopes; i++)
        HOLDS(!prefix->scope[i].id || list_holds(prefix, i, scratch, &n_idle));
    return n_idle == prefix->n_idle;
}

bool ft_prefix_check(const ft_prefix *prefix, uint32_t *scratch)
{
    uint32_t n_idle = prefix->n_idle;
    HOLDS(scopes_hold(prefix, scratch));
    memset(scratch, 0, prefix->n_blocks * sizeof *scratch);
    for (uint32_t b = 0; b < prefix->n_blocks; b++) {
        const ft_prefix_entry *e = &prefix->entry[b];
        HOLDS(e->scope ? block_holds(prefix, b) : !e->idle);
        n_idle -= e->idle;
        if (e->scope && e->parent != NONE)
            scratch[e->parent]++;
    }
    for (uint32_t b = 0; b < prefix->n_blocks; b++)
        HOLDS(scratch[b] == (prefix->entry[b].scope ? prefix->entry[b].n_children : 0));
    return n_idle == 0;
}
