// SPDX-License-Identifier: Apache-2.0
// Writes small random-weight GGUF files through ggml's own writer, so that tests need no model
// files. Weights are normal with deviation 1/sqrt(n_in), norms about 1: logits spread by about 2.
// No shared state; any thread may call.
#include "support/tiny_gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "ggml.h"
#include "gguf.h"
#include "llama.h"
#include "support/device.h"

#define TOKEN_BYTES 48 /* more than the longest token text, NUL included */

static const char chatml[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

typedef struct writer {
    tiny_gguf_opts o; /* defaults filled in */
    struct gguf_context *gguf;
    struct ggml_context *ctx;
    ft_rng rng;
    float *row; /* scratch for the largest tensor */
} writer;

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value ? value : fallback;
}

static tiny_gguf_opts with_defaults(const tiny_gguf_opts *opts)
{
    tiny_gguf_opts o = *opts;
    if (!o.arch)
        o.arch = "llama";
    o.n_layer = or_default(o.n_layer, 2);
    o.n_embd = or_default(o.n_embd, ggml_blck_size(o.type) > 128 ? 256 : 128);
    o.n_ff = or_default(o.n_ff, 2 * o.n_embd);
    o.n_head = or_default(o.n_head, o.n_embd / (test_device() ? 64 : 32));
    o.n_head_kv = or_default(o.n_head_kv, o.n_head > 1 ? o.n_head / 2 : 1);
    o.head_dim = or_default(o.head_dim, o.n_embd / o.n_head);
    o.n_vocab = or_default(o.n_vocab, 320);
    o.n_ctx_train = or_default(o.n_ctx_train, 2048);
    return o;
}

/* A byte as GPT-2's byte-level BPE spells it: printable Latin-1 as itself, the others, in order,
 * from U+0100 on. */
static bool spelled_as_itself(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
}

static void byte_spelling(unsigned byte, char out[TOKEN_BYTES])
{
    unsigned point = byte;
    if (!spelled_as_itself(byte)) {
        point = 256;
        for (unsigned b = 0; b < byte; b++)
            point += !spelled_as_itself(b);
    }
    if (point < 0x80)
        snprintf(out, TOKEN_BYTES, "%c", (char)point);
    else
        snprintf(out, TOKEN_BYTES, "%c%c", (char)(0xc0 | point >> 6), (char)(0x80 | (point & 63)));
}

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, UNUSED = 5, BYTE = 6, PAIRS = 26 * 26 };

typedef struct tokens {
    char (*text)[TOKEN_BYTES]; /* [n] */
    int32_t *kind;             /* [n] */
    float *score;              /* [n] */
    const char **ptr;          /* [n + PAIRS], scratch */
    uint32_t n, n_pairs;
} tokens;

/* Token i >= 259 of either kind; `pair` counts from the first two-letter token. */
static void fill_pair(tokens *t, uint32_t i, uint32_t pair)
{
    if (pair < PAIRS) {
        snprintf(t->text[i], TOKEN_BYTES, "%c%c", 'a' + (char)(pair % 26), 'a' + (char)(pair / 26));
        t->kind[i] = NORMAL;
        t->n_pairs++;
    } else {
        snprintf(t->text[i], TOKEN_BYTES, "[unused%u]", i % 1000000);
        t->kind[i] = UNUSED;
    }
}

static void fill_bpe(tokens *t)
{
    static const char *const control[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    for (uint32_t i = 0; i < t->n; i++) {
        t->kind[i] = i < 3 ? CONTROL : NORMAL;
        if (i < 3)
            snprintf(t->text[i], TOKEN_BYTES, "%s", control[i]);
        else if (i < 259)
            byte_spelling(i - 3, t->text[i]);
        else
            fill_pair(t, i, i - 259);
    }
}

static void fill_spm(tokens *t)
{
    static const char *const control[] = {"<unk>", "<s>", "</s>"};
    for (uint32_t i = 0; i < t->n; i++) {
        t->kind[i] = i == 0 ? UNKNOWN : i < 3 ? CONTROL : i < 259 ? BYTE : NORMAL;
        t->score[i] = -(float)i;
        if (i < 3)
            snprintf(t->text[i], TOKEN_BYTES, "%s", control[i]);
        else if (i < 259)
            snprintf(t->text[i], TOKEN_BYTES, "<0x%02X>", i - 3);
        else if (i == 259)
            snprintf(t->text[i], TOKEN_BYTES, "\xe2\x96\x81"); /* a space */
        else if (i < 260 + 26)
            snprintf(t->text[i], TOKEN_BYTES, "%c", 'a' + (char)(i - 260));
        else
            fill_pair(t, i, i - 286);
    }
}

static void add_merges(writer *w, tokens *t)
{
    char(*merge)[4] = calloc(PAIRS, sizeof *merge);
    if (!merge)
        abort();
    for (uint32_t i = 0; i < t->n_pairs; i++) {
        snprintf(merge[i], sizeof *merge, "%c %c", 'a' + (char)(i % 26), 'a' + (char)(i / 26));
        t->ptr[i] = merge[i];
    }
    if (!w->o.pre || w->o.pre[0])
        gguf_set_val_str(w->gguf, "tokenizer.ggml.pre", w->o.pre ? w->o.pre : "smollm");
    gguf_set_arr_str(w->gguf, "tokenizer.ggml.merges", t->ptr, t->n_pairs);
    free(merge);
}

static void add_tokenizer(writer *w)
{
    const tiny_gguf_opts *o = &w->o;
    tokens t = {.n = o->n_vocab};
    t.text = calloc(t.n, sizeof *t.text);
    t.kind = calloc(t.n, sizeof *t.kind);
    t.score = calloc(t.n, sizeof *t.score);
    t.ptr = calloc(t.n + PAIRS, sizeof *t.ptr);
    if (!t.text || !t.kind || !t.score || !t.ptr)
        abort();
    if (o->spm)
        fill_spm(&t);
    else
        fill_bpe(&t);
    for (uint32_t i = 0; o->control && o->control[i]; i++) {
        snprintf(t.text[t.n - 1 - i], TOKEN_BYTES, "%s", o->control[i]);
        t.kind[t.n - 1 - i] = CONTROL;
    }
    if (o->last_token)
        snprintf(t.text[t.n - 1], TOKEN_BYTES, "%s", o->last_token);
    for (uint32_t i = 0; i < t.n; i++)
        t.ptr[i] = t.text[i];
    gguf_set_val_str(w->gguf, "tokenizer.ggml.model", o->spm ? "llama" : "gpt2");
    gguf_set_arr_str(w->gguf, "tokenizer.ggml.tokens", t.ptr, t.n);
    gguf_set_arr_data(w->gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, t.kind, t.n);
    if (o->spm)
        gguf_set_arr_data(w->gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, t.score, t.n);
    else
        add_merges(w, &t);
    gguf_set_val_u32(w->gguf, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_val_u32(w->gguf, "tokenizer.ggml.eos_token_id", 2);
    gguf_set_val_bool(w->gguf, "tokenizer.ggml.add_bos_token", o->add_bos);
    if (!o->no_chat_template)
        gguf_set_val_str(w->gguf, "tokenizer.chat_template",
                         o->chat_template ? o->chat_template : chatml);
    free(t.text);
    free(t.kind);
    free(t.score);
    free(t.ptr);
}

static void set_u32(writer *w, const char *suffix, uint32_t value)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", w->o.arch, suffix);
    gguf_set_val_u32(w->gguf, key, value);
}

static void set_f32(writer *w, const char *suffix, float value)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", w->o.arch, suffix);
    gguf_set_val_f32(w->gguf, key, value);
}

static void add_hparams(writer *w)
{
    const tiny_gguf_opts *o = &w->o;
    char key[96];
    gguf_set_val_str(w->gguf, "general.architecture", o->arch);
    gguf_set_val_str(w->gguf, "general.name", "tiny random");
    set_u32(w, "block_count", o->n_layer);
    set_u32(w, "context_length", o->n_ctx_train);
    set_u32(w, "embedding_length", o->n_embd);
    set_u32(w, "feed_forward_length", o->n_ff);
    set_u32(w, "attention.head_count", o->n_head);
    set_u32(w, "attention.head_count_kv", o->n_head_kv);
    set_u32(w, "attention.key_length", o->head_dim);
    set_u32(w, "attention.value_length", o->head_dim);
    set_u32(w, "rope.dimension_count", o->head_dim);
    set_u32(w, "vocab_size", o->n_vocab);
    set_f32(w, "attention.layer_norm_rms_epsilon", 1e-5f);
    set_f32(w, "rope.freq_base", 10000.0f);
    if (o->rope_linear > 0) {
        snprintf(key, sizeof key, "%s.rope.scaling.type", o->arch);
        gguf_set_val_str(w->gguf, key, "linear");
        set_f32(w, "rope.scaling.factor", o->rope_linear);
    }
}

/* Adds a tensor whose values are in w->row. */
static void add_row(writer *w, struct ggml_tensor *t, const char *name)
{
    float *even = NULL; /* some types refuse to quantize without an importance matrix */
    if (ggml_quantize_requires_imatrix(t->type)) {
        even = malloc((size_t)t->ne[0] * sizeof *even);
        for (int64_t i = 0; even && i < t->ne[0]; i++)
            even[i] = 1.0f;
    }
    if (t->type == GGML_TYPE_F32)
        memcpy(t->data, w->row, ggml_nbytes(t));
    else
        ggml_quantize_chunk(t->type, w->row, t->data, 0, t->ne[1], t->ne[0], even);
    free(even);
    ggml_set_name(t, name);
    gguf_add_tensor(w->gguf, t);
}

/* Normal numbers around mean. */
static void add_vector(writer *w, const char *name, int64_t n, double mean, double sd)
{
    for (int64_t i = 0; i < n; i++)
        w->row[i] = (float)(mean + sd * ft_rng_normal(&w->rng));
    add_row(w, ggml_new_tensor_1d(w->ctx, GGML_TYPE_F32, n), name);
}

/* Normal numbers around 0. */
static void add_matrix(writer *w, const char *name, enum ggml_type type, int64_t n_in,
                       int64_t n_out, double sd)
{
    for (int64_t i = 0; i < n_in * n_out; i++)
        w->row[i] = (float)(sd * ft_rng_normal(&w->rng));
    add_row(w, ggml_new_tensor_2d(w->ctx, type, n_in, n_out), name);
}

static void add_layer(writer *w, uint32_t layer)
{
    const tiny_gguf_opts *o = &w->o;
    int64_t d = o->n_embd, q = (int64_t)o->n_head * o->head_dim;
    int64_t kv = (int64_t)o->n_head_kv * o->head_dim, ff = o->n_ff;
    double sd = 1.0 / sqrt((double)d);
    enum ggml_type finer = o->finer == GGML_TYPE_F32 ? o->type : o->finer;
    char name[64];
#define NAME(suffix) (snprintf(name, sizeof name, "blk.%u.%s", layer, suffix), name)
    add_vector(w, NAME("attn_norm.weight"), d, 1, 0.1);
    add_matrix(w, NAME("attn_q.weight"), o->type, d, q, sd);
    add_matrix(w, NAME("attn_k.weight"), o->type, d, kv, sd);
    add_matrix(w, NAME("attn_v.weight"), o->mixed_qkv ? GGML_TYPE_F16 : finer, d, kv, sd);
    if (strcmp(o->arch, "qwen2") == 0) {
        add_vector(w, NAME("attn_q.bias"), q, 0, 0.3);
        add_vector(w, NAME("attn_k.bias"), kv, 0, 0.3);
        add_vector(w, NAME("attn_v.bias"), kv, 0, 0.3);
    }
    if (strcmp(o->arch, "qwen3") == 0) {
        add_vector(w, NAME("attn_q_norm.weight"), o->head_dim, 1, 0.1);
        add_vector(w, NAME("attn_k_norm.weight"), o->head_dim, 1, 0.1);
    }
    add_matrix(w, NAME("attn_output.weight"), o->type, q, d, 0.7 / sqrt((double)q));
    if (o->output_bias)
        add_vector(w, NAME("attn_output.bias"), d, 0, 0.3);
    add_vector(w, NAME("ffn_norm.weight"), d, 1, 0.1);
    add_matrix(w, NAME("ffn_gate.weight"), o->type, d, ff, sd);
    add_matrix(w, NAME("ffn_up.weight"), o->type, d, ff, sd);
    add_matrix(w, NAME("ffn_down.weight"), finer, ff, d, 0.7 / sqrt((double)ff));
#undef NAME
}

static void add_tensors(writer *w)
{
    const tiny_gguf_opts *o = &w->o;
    enum ggml_type embd = o->embd_as_type              ? o->type
                          : ggml_is_quantized(o->type) ? GGML_TYPE_Q8_0
                                                       : GGML_TYPE_F32;
    double sd = 2.0 / sqrt((double)o->n_embd);
    add_matrix(w, "token_embd.weight", embd, o->n_embd, o->n_vocab, sd);
    add_vector(w, "output_norm.weight", o->n_embd, 1, 0.1);
    if (!o->tied)
        add_matrix(w, "output.weight", embd, o->n_embd, o->n_vocab, sd);
    if (o->rope_freqs)
        add_vector(w, "rope_freqs.weight", o->head_dim / 2, 2, 0.2);
    for (uint32_t i = 0; i < o->n_layer; i++)
        add_layer(w, i);
}

bool tiny_gguf_write(const char *path, const tiny_gguf_opts *opts)
{
    writer w = {.o = with_defaults(opts)};
    const tiny_gguf_opts *o = &w.o;
    size_t widest = o->n_vocab > o->n_ff ? o->n_vocab : o->n_ff;
    size_t q = (size_t)o->n_head * o->head_dim;
    if (q > widest)
        widest = q;
    size_t tall = o->n_embd > q ? o->n_embd : q;
    size_t n_tensors = 8 + 16 * (size_t)o->n_layer;
    size_t layer_bytes =
        ((size_t)o->n_embd * (2 * q + 3 * o->n_ff) + 2 * (size_t)o->n_embd * q) * 4;
    struct ggml_init_params params = {
        .mem_size = n_tensors * (ggml_tensor_overhead() + 4096) + o->n_layer * layer_bytes +
                    2 * (size_t)o->n_vocab * o->n_embd * 4,
    };
    bool ok = false;
    ft_rng_init(&w.rng, o->seed + 1);
    w.ctx = ggml_init(params);
    w.gguf = gguf_init_empty();
    w.row = malloc(widest * tall * sizeof *w.row);
    if (w.ctx && w.gguf && w.row) {
        add_hparams(&w);
        add_tokenizer(&w);
        add_tensors(&w);
        ok = gguf_write_to_file(w.gguf, path, false);
    }
    if (!ok)
        fprintf(stderr, "tiny_gguf: cannot write %s\n", path);
    free(w.row);
    gguf_free(w.gguf);
    ggml_free(w.ctx);
    return ok;
}

char *tiny_temp_path(void)
{
    const char *dir = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%s/foretoken-test-XXXXXX", dir && *dir ? dir : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0) {
        perror(path);
        exit(1);
    }
    close(fd);
    return strdup(path);
}

char *tiny_gguf_temp(const tiny_gguf_opts *opts)
{
    char *path = tiny_temp_path();
    if (!path || !tiny_gguf_write(path, opts))
        exit(1);
    return path;
}

static void only_errors(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)ctx;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

void tiny_quiet(void)
{
    ggml_log_set(only_errors, NULL);
    llama_log_set(only_errors, NULL);
}
