// SPDX-License-Identifier: Apache-2.0
// The prefix cache's index: hash buckets, and lists of idle blocks by age, of all tenants and of each. Owned by
// the engine's thread; no allocation after init; every operation but the check takes constant time (a bucket
// holds one block on average), but that settle and evict look through the tenants, of whom there are few.
//
// Invariants (ft_prefix_check tests them):
//  1. A registered block is in the bucket of its hash, and is the only one with its tenant, parent and
//     tokens. Its parent, if any, is registered under the same tenant and counts it as a child. So a
//     parent's number says what the whole text before a block is. Its tenant's place counts it.
//  2. An idle block is registered. Its children are idle, and all older than it: who holds a block
//     holds its parent, and lets go of it later. So the oldest idle block, of all or of a tenant,
//     has no children, and eviction takes a text from its end.
//
// Age is counted from when the last sequence let go, not from when tokens were last used. A session
// that gives way under pressure thus outlives what was cached before it; but it only has to where
// all of that is about to be overwritten anyway.
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
    *prefix = (ft_prefix){.n_blocks = n_blocks, .n_buckets = 1, .oldest = NONE, .newest = NONE};
    while (prefix->n_buckets < n_blocks)
        prefix->n_buckets *= 2;
    prefix->token = calloc((size_t)n_blocks * BLOCK, sizeof *prefix->token);
    prefix->entry = calloc(n_blocks, sizeof *prefix->entry);
    prefix->bucket = malloc(prefix->n_buckets * sizeof *prefix->bucket);
    prefix->tenant = calloc(n_blocks, sizeof *prefix->tenant);
    ft_status status = ft_random_bytes(prefix->key, sizeof prefix->key);
    if (!prefix->token || !prefix->entry || !prefix->bucket || !prefix->tenant)
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
    free(prefix->tenant);
    *prefix = (ft_prefix){0};
}

static uint64_t hash_of(const ft_prefix *prefix, uint64_t tenant, uint32_t parent,
                        const int32_t *tokens)
{
    struct {
        uint64_t tenant, before;
        int32_t tokens[BLOCK];
    } text = {tenant, parent == NONE ? 0 : prefix->entry[parent].hash, {0}};
    memcpy(text.tokens, tokens, sizeof text.tokens);
    return ft_siphash(prefix->key, &text, sizeof text);
}

/* ---- tenants ---- */

/* A tenant's place, taken where it has none. One is free: each has a registered block. */
static uint32_t place_of(ft_prefix *prefix, uint64_t id)
{
    uint32_t unused = prefix->n_tenants;
    for (uint32_t i = 0; i < prefix->n_tenants; i++) {
        if (prefix->tenant[i].id == id)
            return i;
        if (prefix->tenant[i].id == 0)
            unused = i;
    }
    assert(unused < prefix->n_blocks);
    prefix->n_tenants += unused == prefix->n_tenants;
    prefix->tenant[unused] = (ft_prefix_tenant){.id = id, .oldest = NONE, .newest = NONE};
    return unused;
}

/* ---- registered blocks ---- */

static uint32_t *bucket_of(const ft_prefix *prefix, uint64_t hash)
{
    return &prefix->bucket[hash & (prefix->n_buckets - 1)];
}

static uint32_t find_hashed(const ft_prefix *prefix, uint64_t hash, uint64_t tenant,
                            uint32_t parent, const int32_t *tokens)
{
    for (uint32_t b = *bucket_of(prefix, hash); b != NONE; b = prefix->entry[b].next) {
        const ft_prefix_entry *e = &prefix->entry[b];
        if (e->hash == hash && e->tenant == tenant && e->parent == parent &&
            memcmp(prefix->token + (size_t)b * BLOCK, tokens, BLOCK * sizeof *tokens) == 0)
            return b;
    }
    return NONE;
}

uint32_t ft_prefix_find(const ft_prefix *prefix, uint64_t tenant, uint32_t parent,
                        const int32_t *tokens)
{
    return find_hashed(prefix, hash_of(prefix, tenant, parent, tokens), tenant, parent, tokens);
}

uint32_t ft_prefix_settle(ft_prefix *prefix, uint32_t block, uint64_t tenant, uint32_t parent)
{
    const int32_t *tokens = prefix->token + (size_t)block * BLOCK;
    uint64_t hash = hash_of(prefix, tenant, parent, tokens);
    uint32_t known = find_hashed(prefix, hash, tenant, parent, tokens);
    if (known != NONE)
        return known;
    assert(tenant != 0 && !ft_prefix_has(prefix, block));
    uint32_t *bucket = bucket_of(prefix, hash);
    prefix->entry[block] = (ft_prefix_entry){.hash = hash,
                                             .tenant = tenant,
                                             .parent = parent,
                                             .next = *bucket,
                                             .owner = place_of(prefix, tenant)};
    prefix->tenant[prefix->entry[block].owner].n++;
    *bucket = block;
    if (parent != NONE)
        prefix->entry[parent].n_children++;
    return block;
}

void ft_prefix_remove(ft_prefix *prefix, uint32_t block)
{
    ft_prefix_entry *e = &prefix->entry[block];
    assert(e->tenant != 0 && e->n_children == 0 && !e->idle);
    uint32_t *at = bucket_of(prefix, e->hash);
    while (*at != block)
        at = &prefix->entry[*at].next;
    *at = e->next;
    if (e->parent != NONE)
        prefix->entry[e->parent].n_children--;
    if (--prefix->tenant[e->owner].n == 0)
        prefix->tenant[e->owner].id = 0;
    e->tenant = 0;
}

/* ---- idle blocks ---- */

void ft_prefix_idle(ft_prefix *prefix, uint32_t block)
{
    ft_prefix_entry *e = &prefix->entry[block];
    assert(e->tenant != 0 && !e->idle);
    e->idle = true;
    e->older = prefix->newest;
    e->newer = NONE;
    if (prefix->newest != NONE)
        prefix->entry[prefix->newest].newer = block;
    else
        prefix->oldest = block;
    prefix->newest = block;
    prefix->n_idle++;
    e->idle_at = prefix->idled++;
    ft_prefix_tenant *t = &prefix->tenant[e->owner];
    e->own_older = t->newest;
    e->own_newer = NONE;
    *(t->newest != NONE ? &prefix->entry[t->newest].own_newer : &t->oldest) = block;
    t->newest = block;
}

void ft_prefix_wake(ft_prefix *prefix, uint32_t block)
{
    ft_prefix_entry *e = &prefix->entry[block];
    assert(e->idle);
    e->idle = false;
    if (e->older != NONE)
        prefix->entry[e->older].newer = e->newer;
    else
        prefix->oldest = e->newer;
    if (e->newer != NONE)
        prefix->entry[e->newer].older = e->older;
    else
        prefix->newest = e->older;
    prefix->n_idle--;
    ft_prefix_tenant *t = &prefix->tenant[e->owner];
    *(e->own_older != NONE ? &prefix->entry[e->own_older].own_newer : &t->oldest) = e->own_newer;
    *(e->own_newer != NONE ? &prefix->entry[e->own_newer].own_older : &t->newest) = e->own_older;
}

/* Of two tenants with idle blocks the one that should lose one. */
static bool owes_more(const ft_prefix *prefix, const ft_prefix_tenant *a, const ft_prefix_tenant *b)
{
    return a->n != b->n ? a->n > b->n
                        : prefix->entry[a->oldest].idle_at < prefix->entry[b->oldest].idle_at;
}

static uint32_t to_evict(const ft_prefix *prefix)
{
    const ft_prefix_tenant *most = NULL;
    const uint64_t age = prefix->idled - prefix->entry[prefix->oldest].idle_at;
    if (age > (uint64_t)FT_PREFIX_STALE_TURNS * prefix->n_blocks)
        return prefix->oldest;
    for (const ft_prefix_tenant *t = prefix->tenant; t < prefix->tenant + prefix->n_tenants; t++)
        if (t->id && t->oldest != NONE && (!most || owes_more(prefix, t, most)))
            most = t;
    return most->oldest;
}

uint32_t ft_prefix_evict(ft_prefix *prefix)
{
    assert(prefix->oldest != NONE);
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
    HOLDS(find_hashed(prefix, e->hash, e->tenant, e->parent, tokens) == block);
    if (e->parent == NONE)
        return true;
    HOLDS(e->parent < prefix->n_blocks && e->parent != block);
    HOLDS(prefix->entry[e->parent].tenant == e->tenant);
    return e->idle || !prefix->entry[e->parent].idle;
}

/* Counts and lists of tenants; scratch counts blocks by place. */
static bool tenants_hold(const ft_prefix *prefix, uint32_t *scratch)
{
    uint32_t n_idle = 0;
    memset(scratch, 0, prefix->n_blocks * sizeof *scratch);
    for (uint32_t b = 0; b < prefix->n_blocks; b++)
        if (prefix->entry[b].tenant)
            scratch[prefix->entry[b].owner]++;
    for (uint32_t i = 0; i < prefix->n_tenants; i++) {
        const ft_prefix_tenant *t = &prefix->tenant[i];
        HOLDS(t->id ? t->n == scratch[i] && t->n > 0 : scratch[i] == 0);
        uint32_t before = NONE;
        for (uint32_t b = t->id ? t->oldest : NONE; b != NONE;
             before = b, b = prefix->entry[b].own_newer) {
            const ft_prefix_entry *e = &prefix->entry[b];
            HOLDS(n_idle++ < prefix->n_idle && e->idle && e->owner == i && e->tenant == t->id);
            HOLDS(e->own_older == before);
            HOLDS(before == NONE || prefix->entry[before].idle_at < e->idle_at);
        }
        HOLDS(!t->id || before == t->newest);
    }
    return n_idle == prefix->n_idle;
}

bool ft_prefix_check(const ft_prefix *prefix, uint32_t *scratch)
{
    uint32_t n_idle = 0, before = NONE;
    HOLDS(tenants_hold(prefix, scratch));
    memset(scratch, 0, prefix->n_blocks * sizeof *scratch);
    for (uint32_t b = prefix->oldest; b != NONE; before = b, b = prefix->entry[b].newer) {
        const ft_prefix_entry *e = &prefix->entry[b];
        HOLDS(n_idle++ < prefix->n_idle && e->tenant && e->idle && e->older == before);
        HOLDS(scratch[b] == e->n_children); /* all seen: they are older */
        if (e->parent != NONE)
            scratch[e->parent]++;
    }
    HOLDS(before == prefix->newest && n_idle == prefix->n_idle);
    memset(scratch, 0, prefix->n_blocks * sizeof *scratch);
    for (uint32_t b = 0; b < prefix->n_blocks; b++) {
        const ft_prefix_entry *e = &prefix->entry[b];
        HOLDS(e->tenant ? block_holds(prefix, b) : !e->idle);
        n_idle -= e->idle;
        if (e->tenant && e->parent != NONE)
            scratch[e->parent]++;
    }
    for (uint32_t b = 0; b < prefix->n_blocks; b++)
        HOLDS(scratch[b] == (prefix->entry[b].tenant ? prefix->entry[b].n_children : 0));
    return n_idle == 0;
}
