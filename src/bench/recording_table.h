/* SPDX-License-Identifier: Apache-2.0
 *
 * The table behind a recording: from a hash to ranked children. Plain memory; who shares it locks
 * it.
 */
#ifndef FT_BENCH_RECORDING_TABLE_H
#define FT_BENCH_RECORDING_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec/draft_source.h"

typedef struct ft_recording_slot {
    uint64_t hash;
    uint32_t first;           /* of the children; their evidence follows in the same array */
    uint32_t n : 8;           /* 0: the slot is empty */
    uint32_t n_evidence : 24; /* bytes */
    ft_shape shape;
} ft_recording_slot;

typedef struct ft_recording_table {
    size_t n, n_slots; /* n_slots: a power of two, or 0 */
    ft_recording_slot *slots;
    size_t n_children, cap_children;
    ft_draft_child *children;
} ft_recording_table;

/* A zeroed table is empty. */
void ft_recording_table_deinit(ft_recording_table *t);
/* evidence: room for what was added with the children; NULL: they have none. False: not there, *out
 * is as it was. */
bool ft_recording_table_find(const ft_recording_table *t, uint64_t hash, ft_draft_children *out,
                             uint8_t *evidence);
/* Adds the first `most` children and their evidence [n_evidence]; what is there stays. False: no
 * memory, nothing is added. */
bool ft_recording_table_add(ft_recording_table *t, uint64_t hash, const ft_draft_children *children,
                            const uint8_t *evidence, uint32_t most);
/* Memory held. */
size_t ft_recording_table_bytes(const ft_recording_table *t);

#endif
