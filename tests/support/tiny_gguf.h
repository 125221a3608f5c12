/* SPDX-License-Identifier: Apache-2.0
 *
 * Small GGUF files with random weights for tests, accepted by ft_model_load and by libllama's full
 * loader. The tokenizer is byte-level BPE: 0 <|endoftext|>, 1 <|im_start|> (BOS), 2 <|im_end|>
 * (EOS), all control tokens; then the 256 single bytes; then two-letter tokens with their merges;
 * then unused filler. With `spm` it is SentencePiece: 0 <unk>, 1 <s> (BOS), 2 </s> (EOS); the bytes
 * as <0xHH>; then U+2581 and the 26 letters; then the pairs.
 */
#ifndef FT_TESTS_TINY_GGUF_H
#define FT_TESTS_TINY_GGUF_H

#include <stdbool.h>
#include <stdint.h>

#include "ggml.h"

/* Zero fields take the default in brackets; dims grow to whole blocks of `type` by themselves. */
typedef struct tiny_gguf_opts {
    const char *arch;      /* "llama", "qwen2", "qwen3" [llama] */
    enum ggml_type type;   /* of the layer matrices [F32] */
    uint32_t n_layer;      /* [2] */
    uint32_t n_embd;       /* [128; 256 for types with 256-element blocks] */
    uint32_t n_ff;         /* [2 n_embd] */
    uint32_t n_head;       /* [n_embd / 32; with test_device() n_embd / 64: CUDA's flash attention
                               has head sizes of real models only] */
    uint32_t n_head_kv;    /* [n_head / 2] */
    uint32_t head_dim;     /* [n_embd / n_head] */
    uint32_t n_vocab;      /* [320], at least 259 */
    uint32_t n_ctx_train;  /* [2048] */
    bool embd_as_type;     /* embedding and head in `type` too; otherwise they are F32 when `type`
                               is F32, F16 or BF16 and Q8_0 for quantized types */
    bool tied;             /* no output.weight */
    bool rope_freqs;       /* with rope_freqs.weight */
    bool output_bias;      /* with attn_output.bias */
    enum ggml_type finer;  /* of attn_v and ffn_down, as Q4_K_M files have them; F32: as type */
    bool mixed_qkv;        /* attn_v in F16: Q, K and V cannot be concatenated */
    float rope_linear;     /* linear RoPE scaling factor, 0: none */
    bool no_chat_template; /* otherwise chatml */
    const char *chat_template;  /* instead of chatml */
    const char *pre;            /* tokenizer.ggml.pre [smollm]; "": none */
    bool spm;                   /* SentencePiece instead of BPE */
    bool add_bos;               /* tokenizer.ggml.add_bos_token */
    const char *last_token;     /* text of the last token, to make another vocabulary */
    const char *const *control; /* further control tokens, at the vocabulary's end; then NULL */
    uint64_t seed;
} tiny_gguf_opts;

/* Writes the file. False (with a line on standard error) if it cannot. */
bool tiny_gguf_write(const char *path, const tiny_gguf_opts *opts);

/* Writes it into a new temporary file; the caller unlinks and frees the path. Ends the test program
 * if it cannot. */
char *tiny_gguf_temp(const tiny_gguf_opts *opts);

/* The path of a new empty temporary file; the caller unlinks and frees it. */
char *tiny_temp_path(void);

/* ggml and libllama log nothing but errors from now on. */
void tiny_quiet(void);

#endif
