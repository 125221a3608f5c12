// SPDX-License-Identifier: Apache-2.0
// A hash table with open addressing and linear probing, and one array of all children. Invariants:
// at most three quarters of the slots are in use; a slot in use has n > 0 and its children lie
// below n_children. Nothing is ever removed. No locks.
#include "bench/recording_table.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS  1024
#define EVIDENCE_MAX 0xffffff /* bytes, as a slot can say */

_Static_assert(FT_DRAFT_RANKED <= 0xff, "a slot must be able to say how many children");

void ft_recording_table_deinit(ft_recording_table *t)
{
    free(t->slots);
    free(t->children);
    *t = (ft_recording_table){0};
}

size_t ft_recording_table_bytes(const ft_recording_table *t)
{
    return t->n_slots * sizeof *t->slots + t->cap_children * sizeof *t->children;
}

/* The slot of the hash, or the empty one where it belongs; there is one. */
static ft_recording_slot *slot_of(ft_recording_slot *slots, size_t n_slots, uint64_t hash)
{
    size_t i = (size_t)hash & (n_slots - 1);
    while (slots[i].n > 0 && slots[i].hash != hash)
        i = (i + 1) & (n_slots - 1);
    return &slots[i];
}

/* Places in the array of children that so many bytes of evidence take. */
static uint32_t places(uint32_t n_evidence)
{
    return (n_evidence + (uint32_t)sizeof(ft_draft_child) - 1) / (uint32_t)sizeof(ft_draft_child);
}

bool ft_recording_table_find(const ft_recording_table *t, uint64_t hash, ft_draft_children *out,
                             uint8_t *evidence)
{
    if (t->n_slots == 0)
        return false;
    const ft_recording_slot *slot = slot_of(t->slots, t->n_slots, hash);
    if (slot->n == 0)
        return false;
    out->n = slot->n;
    out->n_evidence = slot->n_evidence;
    out->counted = false;
    out->shape = slot->shape;
    memcpy(out->at, t->children + slot->first, slot->n * sizeof *out->at);
    if (slot->n_evidence > 0)
        memcpy(evidence, t->children + slot->first + slot->n, slot->n_evidence);
    return true;
}

static bool grow_slots(ft_recording_table *t)
{
    size_t n_slots = t->n_slots ? t->n_slots * 2 : FIRST_SLOTS;
    if (t->n < t->n_slots / 4 * 3)
        return true;
    ft_recording_slot *slots = calloc(n_slots, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < t->n_slots; i++)
        if (t->slots[i].n > 0)
            *slot_of(slots, n_slots, t->slots[i].hash) = t->slots[i];
    free(t->slots);
    t->slots = slots;
    t->n_slots = n_slots;
    return true;
}

static bool grow_children(ft_recording_table *t, uint32_t n)
{
    size_t cap = t->cap_children ? t->cap_children + t->cap_children / 2 : FIRST_SLOTS * 8;
    cap = cap < t->n_children + n ? t->n_children + n : cap;
    if (t->n_children + n <= t->cap_children)
        return true;
    if (t->n_children + n > UINT32_MAX)
        return false;
    ft_draft_child *children = realloc(t->children, cap * sizeof *children);
    if (!children)
        return false;
    t->children = children;
    t->cap_children = cap;
    return true;
}

bool ft_recording_table_add(ft_recording_table *t, uint64_t hash, const ft_draft_children *children,
                            const uint8_t *evidence, uint32_t most)
{
    uint32_t n = children->n < most ? children->n : most;
    const uint32_t n_all = n + places(children->n_evidence);
    if (n == 0)
        return true;
    if (children->n_evidence > EVIDENCE_MAX || !grow_slots(t) || !grow_children(t, n_all))
        return false;
    ft_recording_slot *slot = slot_of(t->slots, t->n_slots, hash);
    if (slot->n > 0)
        return true;
    *slot = (ft_recording_slot){.hash = hash,
                                .first = (uint32_t)t->n_children,
                                .n = n & 0xff,
                                .n_evidence = children->n_evidence & EVIDENCE_MAX,
                                .shape = children->shape};
    memcpy(t->children + t->n_children, children->at, n * sizeof *children->at);
    if (children->n_evidence > 0)
        memcpy(t->children + t->n_children + n, evidence, children->n_evidence);
    t->n_children += n_all;
    t->n++;
    return true;
}
