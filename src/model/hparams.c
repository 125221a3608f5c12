// SPDX-License-Identifier: Apache-2.0
// Reads hyperparameters from a checked GGUF file: each key with its range. Refuses what the engine
// would compute wrongly (other RoPE scalings, sliding windows, soft caps, experts). A new family is
// one row in `families`. Stateless; any thread.
#include "model/hparams.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"

/* Upper limits: several times what any published model of these families has. They keep products of
 * dimensions far from overflow. */
enum { MAX_WIDTH = 1 << 20, MAX_HEADS = 4096, MAX_HEAD_DIM = 1024, MAX_VOCAB = 1 << 24 };

static const struct family {
    const char *arch;
    ft_family family;
    int rope_type;
} families[] = {
    {"llama", FT_FAMILY_LLAMA, GGML_ROPE_TYPE_NORMAL}, /* converters permute Q and K for it */
    {"qwen2", FT_FAMILY_QWEN2, GGML_ROPE_TYPE_NEOX},
    {"qwen3", FT_FAMILY_QWEN3, GGML_ROPE_TYPE_NEOX},
};

/* Keys that change the forward pass in ways that the engine does not support, each with its neutral
 * value. */
static const struct neutral {
    const char *suffix;
    float value;
} neutral[] = {
    {"expert_count", 0},
    {"expert_used_count", 0},
    {"expert_group_count", 0},
    {"attention.scale", 0},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"logit_scale", 0},
    {"residual_scale", 0},
    {"embedding_scale", 0},
    {"nextn_predict_layers", 0},
    {"pooling_type", 0},
    {"rope.scaling.attn_factor", 1},
    {"rope.scaling.alpha", 0},
    {"rope.scaling.yarn_log_multiplier", 0},
    {"leading_dense_block_count", 0},
};

typedef struct reader {
    ft_gguf *gguf; /* with the first error; later reads do nothing */
    const struct family *family;
    char key[128];
} reader;

static const char *key_of(reader *r, const char *suffix)
{
    snprintf(r->key, sizeof r->key, "%s.%s", r->family->arch, suffix);
    return r->key;
}

/* Whether the key exists; r->key is its name. An array of one value for each layer is refused. */
static bool present(reader *r, const char *suffix)
{
    int64_t id = gguf_find_key(r->gguf->ctx, key_of(r, suffix));
    if (id >= 0 && gguf_get_kv_type(r->gguf->ctx, id) == GGUF_TYPE_ARRAY)
        ft_gguf_refuse(r->gguf, FT_UNSUPPORTED,
                       "GGUF key '%s' gives a value a layer; only one for all layers can be "
                       "computed",
                       r->key);
    return r->gguf->st == FT_OK && id >= 0;
}

static void read_u32(reader *r, const char *suffix, bool required, uint32_t max, uint32_t *out)
{
    bool there = present(r, suffix);
    ft_gguf_u32(r->gguf, r->key, required, out);
    if (there && (*out < 1 || *out > max))
        ft_gguf_refuse(r->gguf, FT_CORRUPT, "GGUF key '%s' is %u, not within 1 to %u", r->key, *out,
                       max);
}

static void read_f32(reader *r, const char *suffix, bool required, double below, float *out)
{
    bool there = present(r, suffix);
    ft_gguf_f32(r->gguf, r->key, required, out);
    if (there && !(*out > 0 && *out < below))
        ft_gguf_refuse(r->gguf, FT_CORRUPT, "GGUF key '%s' is %g, not between 0 and %g", r->key,
                       (double)*out, below);
}

static void refuse_neutral(reader *r)
{
    for (size_t i = 0; i < FT_COUNT(neutral); i++) {
        float value = neutral[i].value;
        uint32_t whole = (uint32_t)value;
        if (!present(r, neutral[i].suffix))
            continue;
        enum gguf_type type = gguf_get_kv_type(r->gguf->ctx, gguf_find_key(r->gguf->ctx, r->key));
        if (type == GGUF_TYPE_FLOAT32 || type == GGUF_TYPE_FLOAT64) {
            ft_gguf_f32(r->gguf, r->key, true, &value);
        } else {
            ft_gguf_u32(r->gguf, r->key, true, &whole);
            value = (float)whole;
        }
        if (value != neutral[i].value)
            ft_gguf_refuse(r->gguf, FT_UNSUPPORTED,
                           "GGUF key '%s' is %g: models with it cannot be computed", r->key,
                           (double)value);
    }
}

/* A window at least as long as the context changes nothing. */
static void refuse_window(reader *r, const ft_hparams *hp)
{
    uint32_t window = 0;
    bool causal = true;
    if (present(r, "attention.sliding_window"))
        ft_gguf_u32(r->gguf, r->key, true, &window);
    if (window > 0 && window < hp->n_ctx_train)
        ft_gguf_refuse(r->gguf, FT_UNSUPPORTED,
                       "attention has a sliding window of %u tokens, which cannot be computed",
                       window);
    if (present(r, "attention.causal"))
        ft_gguf_bool(r->gguf, r->key, true, &causal);
    if (!causal)
        ft_gguf_refuse(r->gguf, FT_UNSUPPORTED, "not a causal language model");
}

static void read_rope(reader *r, ft_hparams *hp)
{
    const char *type = NULL;
    float factor = 1.0f;
    hp->rope_base = 10000.0f;
    hp->rope_scale = 1.0f;
    hp->n_rot = hp->head_dim;
    read_f32(r, "rope.freq_base", false, 1e12, &hp->rope_base);
    read_u32(r, "rope.dimension_count", false, MAX_HEAD_DIM, &hp->n_rot);
    if (present(r, "rope.scaling.type"))
        ft_gguf_str(r->gguf, r->key, true, &type);
    if (type && strcmp(type, "none") != 0 && strcmp(type, "linear") != 0)
        ft_gguf_refuse(r->gguf, FT_UNSUPPORTED,
                       "RoPE scaling '%s': only linear scaling can be computed", type);
    /* Like libllama: a factor alone means linear; rope.scale_linear is the factor's old name. */
    read_f32(r, present(r, "rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear",
             false, 1e6, &factor);
    if (!type || strcmp(type, "none") != 0)
        hp->rope_scale = 1.0f / factor;
    if (hp->n_rot != hp->head_dim)
        ft_gguf_refuse(r->gguf, FT_UNSUPPORTED,
                       "RoPE turns %u of %u dimensions; only all can be computed", hp->n_rot,
                       hp->head_dim);
}

static void read_heads(reader *r, ft_hparams *hp)
{
    uint32_t value_dim = 0;
    read_u32(r, "attention.head_count", true, MAX_HEADS, &hp->n_head);
    hp->n_head_kv = hp->n_head;
    read_u32(r, "attention.head_count_kv", false, MAX_HEADS, &hp->n_head_kv);
    if (r->gguf->st != FT_OK)
        return;
    if (hp->n_head % hp->n_head_kv != 0)
        ft_gguf_refuse(r->gguf, FT_CORRUPT, "%u heads are no multiple of %u KV heads", hp->n_head,
                       hp->n_head_kv);
    hp->head_dim = hp->n_embd / hp->n_head;
    read_u32(r, "attention.key_length", false, MAX_HEAD_DIM, &hp->head_dim);
    value_dim = hp->head_dim;
    read_u32(r, "attention.value_length", false, MAX_HEAD_DIM, &value_dim);
    if (hp->head_dim == 0 || hp->head_dim % 2 != 0 || hp->head_dim > MAX_HEAD_DIM)
        ft_gguf_refuse(r->gguf, FT_CORRUPT, "head dimension %u is not even and up to %d",
                       hp->head_dim, MAX_HEAD_DIM);
    if (value_dim != hp->head_dim)
        ft_gguf_refuse(r->gguf, FT_UNSUPPORTED,
                       "heads of %u dimensions for keys and %u for values cannot be computed",
                       hp->head_dim, value_dim);
}

static void read_vocab_size(reader *r, ft_hparams *hp)
{
    uint32_t said = 0;
    read_u32(r, "vocab_size", false, MAX_VOCAB, &said);
    ft_gguf_arr tokens = ft_gguf_array(r->gguf, "tokenizer.ggml.tokens", GGUF_TYPE_STRING, false);
    size_t n_tokens = tokens.id < 0 ? said : tokens.n;
    if (n_tokens < 1 || n_tokens > MAX_VOCAB || (said && said != n_tokens))
        ft_gguf_refuse(r->gguf, FT_CORRUPT,
                       "the tokenizer has %zu tokens, GGUF key '%s.vocab_size' says %u", n_tokens,
                       r->family->arch, said);
    hp->n_vocab = (uint32_t)n_tokens;
}

static const struct family *find_family(ft_gguf *gguf)
{
    const char *arch = "";
    ft_gguf_str(gguf, "general.architecture", true, &arch);
    for (size_t i = 0; i < FT_COUNT(families); i++)
        if (strcmp(families[i].arch, arch) == 0)
            return &families[i];
    ft_gguf_refuse(gguf, FT_UNSUPPORTED,
                   "architecture '%.60s': llama, qwen2 and qwen3 can be computed", arch);
    return NULL;
}

ft_status ft_hparams_read(ft_gguf *gguf, ft_hparams *out)
{
    reader r = {.gguf = gguf, .family = find_family(gguf)};
    ft_hparams hp = {0};
    if (!r.family)
        return gguf->st;
    hp.family = r.family->family;
    hp.rope_type = r.family->rope_type;
    refuse_neutral(&r); /* first: such files may lack the keys below */
    read_u32(&r, "block_count", true, FT_MAX_LAYERS, &hp.n_layer);
    read_u32(&r, "context_length", true, INT32_MAX, &hp.n_ctx_train);
    read_u32(&r, "embedding_length", true, MAX_WIDTH, &hp.n_embd);
    read_u32(&r, "feed_forward_length", true, MAX_WIDTH, &hp.n_ff);
    read_f32(&r, "attention.layer_norm_rms_epsilon", true, 1.0, &hp.rms_eps);
    read_heads(&r, &hp);
    read_rope(&r, &hp);
    refuse_window(&r, &hp);
    read_vocab_size(&r, &hp);
    if (gguf->st == FT_OK)
        *out = hp;
    return gguf->st;
}

const char *ft_family_name(ft_family family)
{
    for (size_t i = 0; i < FT_COUNT(families); i++)
        if (families[i].family == family)
            return families[i].arch;
    return "unknown";
}
