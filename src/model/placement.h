/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a weight goes: the one place that decides on buffer types. For the model room only.
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
    ft_pack_choice *choose; /* which of them; NULL: all that can be */
} ft_placer;

/* Without any flag: our own layout where `choose` says so (NULL: where ft_pack_pays), else ggml's
 * repacked types. FT_INTERNAL if ggml has no CPU backend. */
enum {
    FT_PLACE_NO_PACK = 1 /* not our own layout */,
    FT_PLACE_NO_REPACK = 2 /* plain memory only */
};
FT_WARN_UNUSED ft_status ft_placer_init(ft_placer *placer, unsigned flags, ft_pack_choice *choose,
                                        ft_error *err);

/* Index into placer->type for a matrix that is only multiplied with. */
size_t ft_place_matrix(const ft_placer *placer, enum ggml_type type, int64_t n_in, int64_t n_out);
/* Whether what is placed there is packed (pack.h) when it is read. */
bool ft_place_is_packed(const ft_placer *placer, size_t place);
/* For vectors, and for matrices that rows are looked up in. */
size_t ft_place_plain(const ft_placer *placer);

#endif
