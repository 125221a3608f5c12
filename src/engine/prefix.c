// SPDX-License-Identifier: Apache-2.0
// The prefix cache's index: hash buckets, and a list of idle blocks by age. Owned by the engine's
// thread; no allocation after init; every operation but the check takes constant time (a bucket
// holds one block on average).
//
// Invariants (ft_prefix_check tests them):
//  1. A registered block is in the bucket of its hash, and is the only one with its tenant, parent and
//     tokens. Its parent, if any, is registered under the same tenant and counts it as a child. So a
//     parent's number says what the whole text before a block is.
//  2. An idle block is registered. Its children are idle, and all older than it: who holds a block
//     holds its parent, and lets go of it later. So the oldest idle block has no children, and
//     eviction takes a text from its end.
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
    ft_status status = ft_random_bytes(prefix->key, sizeof prefix->key);
    if (!prefix->token || !prefix->entry || !prefix->bucket)
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
    prefix->entry[block] =
        (ft_prefix_entry){.hash = hash, .tenant = tenant, .parent = parent, .next = *bucket};
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
}

uint32_t ft_prefix_evict(ft_prefix *prefix)
{
    uint32_t block = prefix->oldest;
    assert(block != NONE);
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

bool ft_prefix_check(const ft_prefix *prefix, uint32_t *scratch)
{
    uint32_t n_idle = 0, before = NONE;
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
