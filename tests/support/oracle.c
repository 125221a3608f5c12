// SPDX-License-Identifier: Apache-2.0
// libllama as an oracle in tests.
#include "support/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"
#include "model/device.h"

static void die(const char *what)
{
    fprintf(stderr, "oracle: libllama fails on %s\n", what);
    exit(2);
}

static struct llama_context *open_context(struct llama_model *model, oracle_way way, uint32_t n)
{
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = n + 64;
    params.n_batch = n;
    params.n_ubatch = way.batch ? way.batch : n;
    params.n_threads = params.n_threads_batch = 1; /* more wait for each other on busy machines */
    params.flash_attn_type =
        way.flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    return llama_init_from_model(model, params);
}

float *oracle_logits(const char *path, oracle_way way, const int32_t *tokens, uint32_t n,
                     uint32_t *n_vocab)
{
    ft_devices devices;
    ggml_backend_dev_t list[FT_DEVICES_MAX + 1] = {NULL}; /* NULL ends it */
    struct llama_model_params params = llama_model_default_params();
    if (ft_devices_find(way.device, NULL, &devices) != FT_OK)
        die(way.device);
    memcpy(list, devices.dev, devices.n * sizeof *list);
    params.devices = list;
    params.n_gpu_layers = devices.n ? -1 : 0;
    struct llama_model *model = llama_model_load_from_file(path, params);
    struct llama_context *ctx = model ? open_context(model, way, n) : NULL;
    if (!ctx)
        die(path);
    struct llama_batch batch = llama_batch_init((int32_t)n, 0, 1);
    batch.n_tokens = (int32_t)n;
    for (uint32_t i = 0; i < n; i++) {
        batch.token[i] = tokens[i];
        batch.pos[i] = (int32_t)i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    if (llama_decode(ctx, batch) != 0)
        die(path);
    *n_vocab = (uint32_t)llama_vocab_n_tokens(llama_model_get_vocab(model));
    size_t bytes = (size_t)n * *n_vocab * sizeof(float);
    float *out = malloc(bytes);
    if (!out)
        die(path);
    memcpy(out, llama_get_logits(ctx), bytes);
    llama_batch_free(batch);
    llama_free(ctx);
    llama_model_free(model);
    return out;
}

double oracle_nmse(const float *a, const float *b, uint64_t n)
{
    double error = 0, power = 0;
    for (uint64_t i = 0; i < n; i++) {
        error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        power += (double)b[i] * b[i];
    }
    return error / power;
}
