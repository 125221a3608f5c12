/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tensors of a file become in memory: a list of weights, each with its place and with the
 * bytes of the file that it is made of. For the model room only.
 */
#ifndef FT_MODEL_LOAD_PLAN_H
#define FT_MODEL_LOAD_PLAN_H

#include "model/extents.h"
#include "model/hparams.h"
#include "model/placement.h"

enum { FT_PLACES = FT_PLACE_MAX + FT_DEVICES_MAX };

/* A weight to make: from one tensor of the file, or from several joined along the rows. */
typedef struct ft_planned {
    struct ggml_tensor **slot; /* where the model keeps it */
    int64_t id;                /* the first tensor of the file that it is made of */
    ft_extent part[FT_EXTENT_PARTS];
    uint8_t n_parts;
    uint8_t place;  /* index into the placer's types; from placer.n on: of a device */
    uint8_t what;   /* FT_PART_..., or FT_PART_COUNT for a weight that belongs to no layer */
    bool is_matrix; /* of a layer */
    bool streamed;  /* gets no memory */
    bool stored;    /* in our own layout in the file already */
    uint16_t layer;
    enum ggml_type type;
    int64_t n_in, n_out;
    uint64_t bytes; /* of all parts, and of the weight */
} ft_planned;

typedef struct ft_plan {
    ft_placer placer;
    ft_devices devices;
    uint8_t *where; /* [n_layer + 1], as ft_devices_split has it */
    uint8_t where_embedding;
    ft_planned *weights; /* [n] */
    size_t n;
    size_t *layer_at;       /* [n_layer + 1] the first weight of each layer, and n */
    size_t embedding, head; /* of the weights; the same where one serves both */
    bool tied;              /* the head has the embedding's values */
    bool hashed;            /* the extents have hashes */
} ft_plan;

/* What a plan is made from; all borrowed. */
typedef struct ft_plan_input {
    const ft_model_opts *opts;
    const ft_gguf *gguf;
    const ft_hparams *hp;
    const ft_sources *sources;
    const ft_placer *placer;
    const uint64_t *hash; /* [tensors of the file]; NULL: there are none */
} ft_plan_input;

/* Allocates the layers of *weights, whose pointers the plan's slots are. The caller deinits *out,
 * and frees weights->layers, after failures too. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_plan_make(const ft_plan_input *in, ft_error *err, ft_weights *weights,
                                      ft_plan *out);
void ft_plan_deinit(ft_plan *plan);

/* The order in which a packed file has the weights: writes indices to order [plan->n], and returns
 * how many. Copies of what is in the file already are left out. */
size_t ft_plan_file_order(const ft_plan *plan, size_t *order);

/* Whether a weight is in our own layout. */
static inline bool ft_planned_is_packed(const ft_plan *plan, const ft_planned *w)
{
    return ft_place_is_packed(&plan->placer, w->place);
}

/* A place's buffer type. */
static inline ggml_backend_buffer_type_t ft_plan_buffer_type(const ft_plan *plan, size_t place)
{
    const ft_placer *placer = &plan->placer;
    return place < placer->n ? placer->type[place]
                             : ggml_backend_dev_buffer_type(plan->devices.dev[place - placer->n]);
}

/* A weight as extents.h tells it (extents.c). */
ft_matrix ft_planned_matrix(const ft_plan *plan, const ft_planned *w);
/* Reads bytes [at, at + n) of a matrix's parts, one behind the other (extents.c). FT_IO. Returns
 * gguf->st. */
ft_status ft_matrix_read(ft_gguf *gguf, const ft_matrix *m, uint64_t at, size_t n, void *out);

#endif
