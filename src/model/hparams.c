// SPDX-License-Identifier: Apache-2.0
// Reads hyperparameters from a checked GGUF file: each key with its range. Refuses what the engine
// would compute wrongly (other RoPE scalings, sliding windows, soft caps, experts). A new family is
// one row in `families`. Stateless; any thread.
#include "model/hparams.h"

#include <stdio.h>
#include <string.h>

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
#define N_FAMILIES (sizeof families / sizeof families[0])

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
    const ft_gguf *gguf;
    const struct family *family;
    ft_error *err;
    ft_status st; /* the first error stays; later reads do nothing */
    char key[128];
} reader;

static const char *key_of(reader *r, const char *suffix)
{
    snprintf(r->key, sizeof r->key, "%s.%s", r->family->arch, suffix);
    return r->key;
}

/* Whether the key exists as a scalar or at all; an array of one value per layer is refused. */
static bool present(reader *r, const char *suffix)
{
    int64_t id = gguf_find_key(r->gguf->ctx, key_of(r, suffix));
    if (r->st == FT_OK && id >= 0 && gguf_get_kv_type(r->gguf->ctx, id) == GGUF_TYPE_ARRAY)
        r->st = ft_error_set(r->err, FT_UNSUPPORTED,
                             "%s: GGUF key '%s' gives a value a layer; only one for all layers can "
                             "be computed",
                             r->gguf->path, r->key);
    return r->st == FT_OK && id >= 0;
}

static void read_u32(reader *r, const char *suffix, bool required, uint32_t max, uint32_t *out)
{
    bool there = present(r, suffix);
    if (r->st == FT_OK)
        r->st = ft_gguf_u32(r->gguf, key_of(r, suffix), required, r->err, out);
    if (r->st == FT_OK && there && (*out < 1 || *out > max))
        r->st = ft_error_set(r->err, FT_CORRUPT, "%s: GGUF key '%s' is %u, not within 1 to %u",
                             r->gguf->path, r->key, *out, max);
}

static void read_f32(reader *r, const char *suffix, bool required, double below, float *out)
{
    bool there = present(r, suffix);
    if (r->st == FT_OK)
        r->st = ft_gguf_f32(r->gguf, key_of(r, suffix), required, r->err, out);
    if (r->st == FT_OK && there && !(*out > 0 && *out < below))
        r->st = ft_error_set(r->err, FT_CORRUPT, "%s: GGUF key '%s' is %g, not between 0 and %g",
                             r->gguf->path, r->key, (double)*out, below);
}

static void refuse_neutral(reader *r)
{
    for (size_t i = 0; i < sizeof neutral / sizeof neutral[0] && r->st == FT_OK; i++) {
        float value = neutral[i].value;
        uint32_t whole = 0;
        if (!present(r, neutral[i].suffix))
            continue;
        enum gguf_type type = gguf_get_kv_type(r->gguf->ctx, gguf_find_key(r->gguf->ctx, r->key));
        if (type == GGUF_TYPE_FLOAT32 || type == GGUF_TYPE_FLOAT64) {
            r->st = ft_gguf_f32(r->gguf, r->key, true, r->err, &value);
        } else {
            r->st = ft_gguf_u32(r->gguf, r->key, true, r->err, &whole);
            value = (float)whole;
        }
        if (r->st == FT_OK && value != neutral[i].value)
            r->st = ft_error_set(r->err, FT_UNSUPPORTED,
                                 "%s: GGUF key '%s' is %g: models with it cannot be computed",
                                 r->gguf->path, r->key, (double)value);
    }
}

/* A window at least as long as the context changes nothing. */
static void refuse_window(reader *r, const ft_hparams *hp)
{
    uint32_t window = 0;
    bool causal = true;
    if (present(r, "attention.sliding_window"))
        r->st = ft_gguf_u32(r->gguf, key_of(r, "attention.sliding_window"), true, r->err, &window);
    if (r->st == FT_OK && window > 0 && window < hp->n_ctx_train)
        r->st = ft_error_set(r->err, FT_UNSUPPORTED,
                             "%s: attention has a sliding window of %u tokens, which cannot be "
                             "computed",
                             r->gguf->path, window);
    if (present(r, "attention.causal"))
        r->st = ft_gguf_bool(r->gguf, key_of(r, "attention.causal"), true, r->err, &causal);
    if (r->st == FT_OK && !causal)
        r->st =
            ft_error_set(r->err, FT_UNSUPPORTED, "%s: not a causal language model", r->gguf->path);
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
        r->st = ft_gguf_str(r->gguf, key_of(r, "rope.scaling.type"), true, r->err, &type);
    if (r->st == FT_OK && type && strcmp(type, "none") != 0 && strcmp(type, "linear") != 0)
        r->st = ft_error_set(r->err, FT_UNSUPPORTED,
                             "%s: RoPE scaling '%s': only linear scaling can be computed",
                             r->gguf->path, type);
    /* Like libllama: a factor alone means linear; rope.scale_linear is the factor's old name. */
    read_f32(r, present(r, "rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear",
             false, 1e6, &factor);
    if (!type || strcmp(type, "none") != 0)
        hp->rope_scale = 1.0f / factor;
    if (r->st == FT_OK && hp->n_rot != hp->head_dim)
        r->st = ft_error_set(r->err, FT_UNSUPPORTED,
                             "%s: RoPE turns %u of %u dimensions; only all can be computed",
                             r->gguf->path, hp->n_rot, hp->head_dim);
}

static void read_heads(reader *r, ft_hparams *hp)
{
    uint32_t value_dim = 0;
    read_u32(r, "attention.head_count", true, MAX_HEADS, &hp->n_head);
    hp->n_head_kv = hp->n_head;
    read_u32(r, "attention.head_count_kv", false, MAX_HEADS, &hp->n_head_kv);
    if (r->st != FT_OK)
        return;
    if (hp->n_head % hp->n_head_kv != 0) {
        r->st = ft_error_set(r->err, FT_CORRUPT, "%s: %u heads are no multiple of %u KV heads",
                             r->gguf->path, hp->n_head, hp->n_head_kv);
        return;
    }
    hp->head_dim = hp->n_embd / hp->n_head;
    read_u32(r, "attention.key_length", false, MAX_HEAD_DIM, &hp->head_dim);
    value_dim = hp->head_dim;
    read_u32(r, "attention.value_length", false, MAX_HEAD_DIM, &value_dim);
    if (r->st != FT_OK)
        return;
    if (hp->head_dim == 0 || hp->head_dim % 2 != 0 || hp->head_dim > MAX_HEAD_DIM)
        r->st = ft_error_set(r->err, FT_CORRUPT, "%s: head dimension %u is not even and up to %d",
                             r->gguf->path, hp->head_dim, MAX_HEAD_DIM);
    else if (value_dim != hp->head_dim)
        r->st = ft_error_set(r->err, FT_UNSUPPORTED,
                             "%s: heads of %u dimensions for keys and %u for values cannot be "
                             "computed",
                             r->gguf->path, hp->head_dim, value_dim);
}

static void read_vocab_size(reader *r, ft_hparams *hp)
{
    ft_gguf_arr tokens = {.id = -1};
    uint32_t said = 0;
    read_u32(r, "vocab_size", false, MAX_VOCAB, &said);
    if (r->st == FT_OK)
        r->st = ft_gguf_array(r->gguf, "tokenizer.ggml.tokens", GGUF_TYPE_STRING, false, r->err,
                              &tokens);
    if (r->st != FT_OK)
        return;
    size_t n_tokens = tokens.id < 0 ? said : tokens.n;
    if (n_tokens < 1 || n_tokens > MAX_VOCAB || (said && said != n_tokens))
        r->st = ft_error_set(r->err, FT_CORRUPT,
                             "%s: the tokenizer has %zu tokens, GGUF key '%s.vocab_size' says %u",
                             r->gguf->path, n_tokens, r->family->arch, said);
    hp->n_vocab = (uint32_t)n_tokens;
}

static ft_status find_family(const ft_gguf *gguf, ft_error *err, const struct family **out)
{
    const char *arch = NULL;
    ft_status st = ft_gguf_str(gguf, "general.architecture", true, err, &arch);
    if (st != FT_OK)
        return st;
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (strcmp(families[i].arch, arch) == 0)
            *out = &families[i];
    if (!*out)
        return ft_error_set(err, FT_UNSUPPORTED,
                            "%s: architecture '%.60s': llama, qwen2 and qwen3 can be computed",
                            gguf->path, arch);
    return FT_OK;
}

ft_status ft_hparams_read(const ft_gguf *gguf, ft_error *err, ft_hparams *out)
{
    reader r = {.gguf = gguf, .err = err};
    ft_hparams hp = {0};
    r.st = find_family(gguf, err, &r.family);
    if (r.st != FT_OK)
        return r.st;
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
    if (r.st == FT_OK)
        *out = hp;
    return r.st;
}

const char *ft_family_name(ft_family family)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (families[i].family == family)
            return families[i].arch;
    return "unknown";
}
