// SPDX-License-Identifier: Apache-2.0
// A model's fingerprint: family and hyperparameters, the vocabulary's tokens, each tensor's name,
// type and shape, and the first bytes of its values. So a newly trained or quantized model has
// another fingerprint. That of its weights covers the same, and bytes in the middle and at the end
// of each tensor. Names of files and models, and order and place of tensors in the file, do not
// count. It is no protection against forgery. Stateless; any thread.
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

static uint64_t of_tokens(ft_gguf *gguf)
{
    uint64_t hash = FT_FNV64_INIT;
    ft_gguf_arr tokens = ft_gguf_array(gguf, "tokenizer.ggml.tokens", GGUF_TYPE_STRING, false);
    for (size_t i = 0; i < tokens.n; i++)
        hash = add_text(hash, gguf_get_arr_str(gguf->ctx, tokens.id, i));
    return hash;
}

/* Continues the hash over bytes of a tensor: its i-th sample of three, from its first byte to its
 * last. */
static uint64_t add_sample(ft_gguf *gguf, int64_t id, uint64_t i, uint64_t hash)
{
    uint8_t sample[SAMPLE] = {0};
    const uint64_t bytes = gguf_get_tensor_size(gguf->ctx, id);
    const size_t n = bytes < SAMPLE ? bytes : SAMPLE;
    ft_gguf_read(gguf, ft_gguf_tensor_file_offset(gguf, id) + (bytes - n) * i / 2, sample, n);
    return ft_fnv64(hash, sample, n);
}

static uint64_t of_tensor(ft_gguf *gguf, int64_t id)
{
    /* The number of bytes stands for the shape, because hyperparameters and name determine it. */
    const uint64_t bytes = gguf_get_tensor_size(gguf->ctx, id);
    uint64_t hash = add_text(FT_FNV64_INIT, gguf_get_tensor_name(gguf->ctx, id));
    hash = add_text(hash, ggml_type_name(gguf_get_tensor_type(gguf->ctx, id)));
    hash = ft_fnv64(hash, &bytes, sizeof bytes);
    return add_sample(gguf, id, 0, hash);
}

/* Of three parts; never 0, which is for "not known". */
static uint64_t of_parts(const uint64_t part[3])
{
    const uint64_t hash = ft_fnv64(FT_FNV64_INIT, part, 3 * sizeof *part);
    return hash + (hash == 0);
}

ft_status ft_fingerprint_sums(ft_gguf *gguf, uint64_t sums[2])
{
    sums[0] = sums[1] = 0;
    for (int64_t i = 0; i < gguf_get_n_tensors(gguf->ctx) && gguf->st == FT_OK; i++) {
        const uint64_t hash = of_tensor(gguf, i);
        sums[0] += hash; /* sums, so the order of tensors does not matter */
        sums[1] += add_sample(gguf, i, 2, add_sample(gguf, i, 1, hash));
    }
    return gguf->st;
}

ft_status ft_fingerprint_of(ft_gguf *gguf, const ft_hparams *hp, const uint64_t sums[2],
                            ft_fingerprints *out)
{
    const uint64_t hparams = of_hparams(hp), tokens = of_tokens(gguf);
    out->model = of_parts((const uint64_t[]){hparams, tokens, sums[0]});
    out->weights = of_parts((const uint64_t[]){hparams, tokens, sums[1]});
    return gguf->st;
}
