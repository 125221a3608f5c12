/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides where a weight goes. It is the only place that decides on buffer types. For the model
 * room only.
 */
#ifndef FT_MODEL_PLACEMENT_H
#define FT_MODEL_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "ggml-backend.h"
#include "model/pack.h"

#define FT_PLACE_MAX 8 /* buffer types in use at once; ggml's CPU backend knows at most 4 */

typedef struct ft_placer {
    ggml_backend_dev_t dev;
    ggml_backend_buffer_type_t type[FT_PLACE_MAX]; /* [n], fastest first, plain host memory last */
    size_t n;
    bool pack;              /* type[0] is host memory for weights in our own layout (pack.h) */
    ft_pack_choice *choose; /* which weights to pack; NULL: all that can be packed */
} ft_placer;

/* Without flags: our own layout if `choose` says so (NULL: wherever it fits), else ggml's repacked
 * types. FT_INTERNAL: ggml has no CPU backend. */
enum {
    FT_PLACE_NO_PACK = 1 /* not our own layout */,
    FT_PLACE_NO_REPACK = 2 /* plain memory only */
};
FT_WARN_UNUSED ft_status ft_placer_init(ft_placer *placer, unsigned flags, ft_pack_choice *choose,
                                        ft_error *err);

/* Index into placer->type for a matrix that is only used in products. */
size_t ft_place_matrix(const ft_placer *placer, enum ggml_type type, int64_t n_in, int64_t n_out);
/* Whether a weight at this place gets packed (pack.h) when it is read. */
bool ft_place_is_packed(const ft_placer *placer, size_t place);
/* Index for vectors and for matrices whose rows are looked up. */
size_t ft_place_plain(const ft_placer *placer);

#endif
