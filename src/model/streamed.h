/* SPDX-License-Identifier: Apache-2.0
 *
 * The weights of a model that are not all in memory: which layers are resident, where the others
 * are while a pass computes them, and the parts of the output head and the rows of the embedding.
 * stream.h reads; this knows which bytes are which weight.
 *
 * A pass goes through the layers in their order:
 *
 *   begin -> embed -> (wait -> compute -> release) of each layer
 *         -> (wait -> compute -> release) of each part of the head
 *
 * A weight that is not resident has memory between wait and release only. Before and behind, its
 * address is somewhere in the ring, where other weights may be.
 *
 * Owned by the one thread that computes passes.
 */
#ifndef FT_MODEL_STREAMED_H
#define FT_MODEL_STREAMED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "ggml.h"
#include "model/memory_plan.h"
#include "model/model.h"
#include "model/stream.h"

typedef struct ft_streamed ft_streamed;

typedef struct ft_streamed_opts {
    const ft_model *model;      /* borrowed; loaded with this plan (ft_memory_choose) */
    const ft_memory_plan *plan; /* borrowed during create; not all is resident */
    bool no_overlap;            /* as in ft_weight_stream_opts */
} ft_streamed_opts;

/* Opens the reader. A model has one at most: it sets the addresses of the model's tensors. Errors
 * of ft_weight_stream_create. The caller destroys *out before the model; it is NULL on failure. */
FT_WARN_UNUSED ft_status ft_streamed_create(const ft_streamed_opts *opts, ft_error *err,
                                            ft_streamed **out);
/* NULL is legal. */
void ft_streamed_destroy(ft_streamed *s);

/* A pass begins. head: it wants logits. After a pass that failed, too. */
void ft_streamed_begin(ft_streamed *s, bool head);

/* Writes the embedding's rows of these tokens, which are in the vocabulary: x [n, n_embd]. FT_IO,
 * FT_CORRUPT, FT_UNAVAILABLE. */
FT_WARN_UNUSED ft_status ft_streamed_embed(ft_streamed *s, const int32_t *tokens, uint32_t n,
                                           ft_error *err, float *x);

/* Waits until the layer's weights are in memory. Those of a resident layer are. FT_IO: they cannot
 * be read; FT_CORRUPT: they are not what the file says; FT_UNAVAILABLE: the disk does not
 * answer. */
FT_WARN_UNUSED ft_status ft_streamed_wait(ft_streamed *s, uint32_t layer, ft_error *err);
void ft_streamed_release(ft_streamed *s, uint32_t layer);

/* The parts that the output head comes in; 0: it is resident. The first one is the largest. */
uint32_t ft_streamed_n_head_parts(const ft_streamed *s);
/* A part of the output head's rows: [n_embd, n], from row `*first` on. */
struct ggml_tensor *ft_streamed_head_part(ft_streamed *s, uint32_t part, uint32_t *first);
FT_WARN_UNUSED ft_status ft_streamed_wait_head_part(ft_streamed *s, uint32_t part, ft_error *err);
void ft_streamed_release_head_part(ft_streamed *s, uint32_t part);

/* Any thread. */
ft_weight_stream_stats ft_streamed_stats(ft_streamed *s);
/* Microseconds during which passes have waited for reads; 0 if s is NULL. */
int64_t ft_streamed_waited_us(ft_streamed *s);

#endif
