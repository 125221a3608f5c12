/* SPDX-License-Identifier: Apache-2.0
 *
 * A model from inside. For the model room only.
 */
#ifndef FT_MODEL_MODEL_IMPL_H
#define FT_MODEL_MODEL_IMPL_H

#include "model/file_map.h"
#include "model/load_plan.h"
#include "model/model.h"

struct ft_model {
    ft_model_info info;
    ft_weights weights;
    ft_plan plan;
    /* of each place: the placer's, then the devices'; NULL where nothing is placed */
    struct ggml_context *ctx[FT_PLACES];
    ggml_backend_buffer_t buffer[FT_PLACES];
    struct ggml_context *streamed; /* tensors without memory; NULL: there are none */
    int fd;                        /* the file, if weights may be streamed; else -1 */
    ft_file_map map;               /* of the file, if weights lie in it; else empty */
    char *path, *name;             /* name: in full; info has its beginning */
    uint64_t vocab_written;        /* as ft_vocab_written has it */
};

/* Fills in what the getters answer about the file, but the fingerprints (model_info.c). The plan is
 * made. FT_CORRUPT, FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_model_describe(ft_model *model, ft_gguf *gguf);

#endif
