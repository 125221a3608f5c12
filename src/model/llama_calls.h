/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of libllama and ggml that may throw. Both are C++, and an exception that reached our C
 * would end the process, with all sessions in it. Here it becomes an error: FT_NOMEM, or
 * FT_INTERNAL with libllama's words. err may be NULL. For the model room only; any thread.
 */
#ifndef FT_MODEL_LLAMA_CALLS_H
#define FT_MODEL_LLAMA_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gguf.h"
#include "llama.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "base/status.h"

/* Makes ggml's reader of metadata in memory. FT_CORRUPT: ggml cannot read it. */
FT_WARN_UNUSED ft_status ft_llama_gguf(const void *data, size_t n, ft_error *err,
                                       struct gguf_context **out);
/* Adds a tensor, whose name the metadata must not have yet. */
FT_WARN_UNUSED ft_status ft_llama_add_tensor(struct gguf_context *ctx,
                                             const struct ggml_tensor *tensor, ft_error *err);
/* Makes a model that has only the vocabulary of this metadata, which it does not keep.
 * FT_CORRUPT: libllama refuses it. */
FT_WARN_UNUSED ft_status ft_llama_vocab(struct gguf_context *metadata, ft_error *err,
                                        struct llama_model **out);
/* In the calls below, *n is the room in `out` before the call, and what libllama's function returns
 * after it: how many were written, or a negative number. */

typedef struct ft_llama_text {
    const struct llama_vocab *vocab;
    const char *text;
    int32_t n_bytes;
} ft_llama_text;

/* llama_tokenize, without tokens that it would add by itself, and without control tokens in the
 * text. */
FT_WARN_UNUSED ft_status ft_llama_tokenize(const ft_llama_text *text, int32_t *out, int32_t *n,
                                           ft_error *err);
/* llama_token_to_piece. */
FT_WARN_UNUSED ft_status ft_llama_piece(const struct llama_vocab *vocab, int32_t token,
                                        bool special, char *out, int32_t *n);
/* llama_chat_apply_template, ready for the assistant's answer. */
FT_WARN_UNUSED ft_status ft_llama_chat(const char *name, const struct llama_chat_message *messages,
                                       size_t n_messages, char *out, int32_t *n, ft_error *err);
/* llama_model_quantize. FT_IO: it says that it failed. */
FT_WARN_UNUSED ft_status ft_llama_quantize(const char *in, const char *out,
                                           const struct llama_model_quantize_params *params,
                                           ft_error *err);

#ifdef __cplusplus
}
#endif
#endif
