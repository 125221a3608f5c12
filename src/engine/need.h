/* SPDX-License-Identifier: Apache-2.0
 *
 * What an engine needs of memory, from sizes alone: for plans that are made before a model is
 * loaded (model/memory_plan.h). Upper bounds; those of K and V are exact. Pure functions; any
 * thread.
 */
#ifndef FT_ENGINE_NEED_H
#define FT_ENGINE_NEED_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

typedef struct ft_engine_size {
    const ft_hparams *hp;
    ft_kv_type kv_type;
    uint32_t kv_tok;
    uint32_t rows, out;  /* max_batch_tok and max_logits of ft_engine_opts, as they are used */
    uint32_t n_threads;  /* > 0 */
    bool by_layer;       /* not all weights are in memory */
    uint32_t part_vocab; /* by layer: tokens of a part of the output head; 0: it is resident */
} ft_engine_size;

/* The KV pool. */
uint64_t ft_engine_kv_bytes(const ft_engine_size *size);
/* All that passes compute in: activations, logits, attention's scratch memory, graphs. */
uint64_t ft_engine_pass_bytes(const ft_engine_size *size);

#endif
