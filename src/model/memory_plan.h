/* SPDX-License-Identifier: Apache-2.0
 *
 * Divides a memory budget. Some layers of a model stay in memory (are *resident*); the others
 * are read from the file in every pass (are *streamed*). The plan says which, how large the ring
 * is into which they are read, and how many rows a pass may have. EdgeLLM, section III-D: "there
 * is a memory upper bound by profiling or user defining".
 *
 * The budget is for the whole process: what a memory cgroup would count. Pure functions of sizes;
 * any thread. Nothing is loaded or allocated here.
 */
#ifndef FT_MODEL_MEMORY_PLAN_H
#define FT_MODEL_MEMORY_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FT_MEMORY_LAYERS 512
#define FT_MEMORY_PARTS  20

/* Memory for one purpose. */
typedef struct ft_memory_part {
    const char *name; /* "kv"; static */
    uint64_t bytes;
    /* how a person would lower it: "-c" in "lower it with -c or --cache-type"; NULL: not at all */
    const char *lower;
} ft_memory_part;

/* The weights, in bytes of memory. */
typedef struct ft_memory_weights {
    uint32_t n_layer;
    uint64_t layer[FT_MEMORY_LAYERS]; /* [n_layer] the matrices, which can be streamed */
    uint64_t vectors;                 /* of all layers, and what is always resident */
    uint64_t head;
    uint64_t embedding; /* 0: the head's matrix serves both */
    /* What reading takes beside the ring: buffers, and staging if weights are packed as they are
     * read. */
    uint64_t reader;
    uint64_t slot; /* a slot of the ring: the largest layer, in whole pages */
} ft_memory_weights;

typedef struct ft_memory_ask {
    uint64_t budget_bytes;
    const ft_memory_part *fixed; /* [n_fixed] all that does not depend on the plan */
    size_t n_fixed;
    ft_memory_weights weights;
    /* Bytes of a pass over so many rows, `out` of which want logits. parts: the output head comes
     * in parts. */
    uint64_t (*pass_bytes)(const void *ctx, uint32_t rows, uint32_t out, bool parts);
    const void *ctx;
    uint32_t rows_least, rows_most; /* of a pass, 0 < least <= most */
    uint32_t out_most;              /* rows that want logits, >= 1; 0: all of the pass */
} ft_memory_ask;

typedef struct ft_memory_plan {
    uint64_t resident[FT_MEMORY_LAYERS / 64]; /* bitmap of the layers that are */
    uint32_t n_layer, n_resident;
    bool head_resident, embedding_resident;
    bool all_resident; /* all of it is: nothing is streamed */
    uint32_t n_slots;
    uint64_t slot_bytes;
    uint32_t rows, out;                    /* of a pass at most */
    ft_memory_part parts[FT_MEMORY_PARTS]; /* [n_parts] what the budget goes to */
    size_t n_parts;
    uint64_t bytes;       /* of all parts, <= the budget */
    uint64_t least_bytes; /* the least budget with which this model runs */
} ft_memory_plan;

/* FT_EXHAUSTED: the budget is below plan->least_bytes; err says by how much, what takes most of it
 * and how that gets less. FT_INVALID: too many layers or parts. */
FT_WARN_UNUSED ft_status ft_memory_plan_make(const ft_memory_ask *ask, ft_error *err,
                                             ft_memory_plan *plan);

static inline bool ft_memory_is_resident(const ft_memory_plan *plan, uint32_t layer)
{
    return plan->all_resident || (plan->resident[layer / 64] >> (layer % 64) & 1);
}

#endif
