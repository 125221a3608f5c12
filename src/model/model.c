// SPDX-License-Identifier: Apache-2.0
// A loaded model's end, and what it answers about itself. A loaded model is immutable; any thread
// may ask. It computes nothing and loads nothing (model_load.c does).
#include <stdlib.h>
#include <unistd.h>

#include "model/model_impl.h"

void ft_model_destroy(ft_model *model)
{
    if (!model)
        return;
    for (size_t i = 0; i < FT_PLACES; i++) {
        ggml_backend_buffer_free(model->buffer[i]);
        ggml_free(model->ctx[i]);
    }
    ft_file_map_close(&model->map);
    ggml_free(model->streamed);
    if (model->fd >= 0)
        close(model->fd);
    free(model->weights.layers);
    ft_plan_deinit(&model->plan);
    free(model->path);
    free(model->name);
    free(model);
}

const ft_hparams *ft_model_hparams(const ft_model *model)
{
    return &model->info.hp;
}

const ft_weights *ft_model_weights(const ft_model *model)
{
    return &model->weights;
}

const char *ft_model_path(const ft_model *model)
{
    return model->path;
}

const char *ft_model_name(const ft_model *model)
{
    return model->name;
}

uint64_t ft_model_fingerprint(const ft_model *model)
{
    return model->info.fingerprint.model;
}

ft_fingerprints ft_model_fingerprints(const ft_model *model)
{
    return model->info.fingerprint;
}

const char *ft_model_type_name(const ft_model *model)
{
    return model->info.type_name;
}

size_t ft_model_bytes_on(const ft_model *model, uint32_t where)
{
    size_t n = model->plan.placer.n, bytes = 0;
    if (where == 0 && model->map.base) /* its buffers are the whole file, more than once */
        return model->info.memory.bytes;
    for (size_t i = where ? n + where - 1 : 0; i < (where ? n + where : n); i++)
        if (model->buffer[i])
            bytes += ggml_backend_buffer_get_size(model->buffer[i]);
    return bytes;
}

const ft_devices *ft_model_devices(const ft_model *model)
{
    return &model->plan.devices;
}

uint32_t ft_model_n_gpu_layers(const ft_model *model)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i <= model->info.hp.n_layer; i++)
        n += model->plan.where[i] != 0;
    return n;
}

uint32_t ft_model_where_layer(const ft_model *model, uint32_t layer)
{
    return model->plan.where[layer];
}

uint32_t ft_model_where_head(const ft_model *model)
{
    return model->plan.where[model->info.hp.n_layer];
}

uint32_t ft_model_where_embedding(const ft_model *model)
{
    return model->plan.where_embedding;
}

ft_model_memory ft_model_get_memory(const ft_model *model)
{
    return model->info.memory;
}

bool ft_model_repacked(const ft_model *model)
{
    return model->info.n_repacked == model->info.n_matrices;
}
