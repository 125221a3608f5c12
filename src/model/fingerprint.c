// SPDX-License-Identifier: Apache-2.0
// A model's fingerprint: family and hyperparameters, the vocabulary's tokens, each tensor's name,
// type and shape, and the first bytes of its values. So a newly trained or quantized model has
// another fingerprint. Names of files and models, and order and place of tensors in the file, do
// not count. It is no protection against forgery. Stateless; any thread.
#include "model/fingerprint.h"

#include <string.h>

#include "base/secret.h"
#include "ggml.h"

enum { SAMPLE = 4096 /* bytes of a tensor */ };

static uint64_t add_text(uint64_t hash, const char *text)
{
    return ft_fnv64(hash, text, strlen(text) + 1); /* the NUL keeps neighbours apart */
}

static uint64_t of_hparams(const ft_hparams *hp)
{
    const uint32_t counts[] = {hp->n_vocab,   hp->n_layer,  hp->n_embd, hp->n_ff,       hp->n_head,
                               hp->n_head_kv, hp->head_dim, hp->n_rot,  hp->n_ctx_train};
    const float numbers[] = {hp->rms_eps, hp->rope_base, hp->rope_scale};
    uint64_t hash = add_text(FT_FNV64_INIT, ft_family_name(hp->family));
    hash = ft_fnv64(hash, counts, sizeof counts);
    return ft_fnv64(hash, numbers, sizeof numbers);
}

static uint64_t of_tokens(const ft_gguf *gguf)
{
    ft_gguf_arr tokens;
    ft_error none;
    uint64_t hash = FT_FNV64_INIT;
    if (ft_gguf_array(gguf, "tokenizer.ggml.tokens", GGUF_TYPE_STRING, false, &none, &tokens) !=
            FT_OK ||
        tokens.id < 0)
        return hash;
    for (size_t i = 0; i < tokens.n; i++)
        hash = add_text(hash, gguf_get_arr_str(gguf->ctx, tokens.id, i));
    return hash;
}

static ft_status of_tensor(const ft_gguf *gguf, int64_t id, ft_error *err, uint64_t *out)
{
    uint8_t sample[SAMPLE];
    size_t size = gguf_get_tensor_size(gguf->ctx, id), n = size < SAMPLE ? size : SAMPLE;
    const char *type = ggml_type_name(gguf_get_tensor_type(gguf->ctx, id));
    const uint64_t bytes =
        size; /* with the name, whose shape hyperparameters say, and the type: the shape */
    ft_status status = ft_gguf_read(gguf, ft_gguf_tensor_file_offset(gguf, id), sample, n, err);
    uint64_t hash = add_text(FT_FNV64_INIT, gguf_get_tensor_name(gguf->ctx, id));
    hash = add_text(hash, type);
    hash = ft_fnv64(hash, &bytes, sizeof bytes);
    if (status == FT_OK)
        *out = ft_fnv64(hash, sample, n);
    return status;
}

ft_status ft_fingerprint_read(const ft_gguf *gguf, const ft_hparams *hp, ft_error *err,
                              uint64_t *out)
{
    /* of tensors: a sum, so their order does not matter */
    uint64_t part[3] = {of_hparams(hp), of_tokens(gguf), 0};
    ft_status status = FT_OK;
    for (int64_t i = 0; i < gguf_get_n_tensors(gguf->ctx) && status == FT_OK; i++) {
        uint64_t hash = 0;
        status = of_tensor(gguf, i, err, &hash);
        part[2] += hash;
    }
    *out = ft_fnv64(FT_FNV64_INIT, part, sizeof part);
    *out += *out == 0; /* 0 is for "not known" */
    return status;
}
