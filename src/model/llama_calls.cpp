// SPDX-License-Identifier: Apache-2.0
// Catches what libllama and ggml throw: std::bad_alloc where memory runs out, std::regex_error and
// std::runtime_error at texts and vocabularies that they cannot take. It is C++ for this alone, and
// the only such file. Stateless.
#include "model/llama_calls.h"

#include <exception>
#include <new>

template <typename Call> static ft_status guarded(ft_error *err, Call call) noexcept
{
    try {
        return call();
    } catch (const std::bad_alloc &) {
        return ft_error_set(err, FT_NOMEM, "libllama: out of memory");
    } catch (const std::exception &e) {
        return ft_error_set(err, FT_INTERNAL, "libllama: %s", e.what());
    } catch (...) {
        return ft_error_set(err, FT_INTERNAL, "libllama: an exception of an unknown type");
    }
}

ft_status ft_llama_gguf(const void *data, size_t n, ft_error *err, struct gguf_context **out)
{
    *out = nullptr;
    return guarded(err, [&] {
        struct gguf_init_params params = {};
        params.no_alloc = true;
        *out = gguf_init_from_buffer(data, n, params);
        return *out ? FT_OK : ft_error_set(err, FT_CORRUPT, "ggml cannot read its metadata");
    });
}

ft_status ft_llama_add_tensor(struct gguf_context *ctx, const struct ggml_tensor *tensor,
                              ft_error *err)
{
    return guarded(err, [&] {
        gguf_add_tensor(ctx, tensor);
        return FT_OK;
    });
}

ft_status ft_llama_vocab(struct gguf_context *metadata, ft_error *err, struct llama_model **out)
{
    *out = nullptr;
    return guarded(err, [&] {
        struct llama_model_params params = llama_model_default_params();
        params.vocab_only = true;
        *out = llama_model_init_from_user(metadata, nullptr, nullptr, params);
        return *out ? FT_OK
                    : ft_error_set(err, FT_CORRUPT,
                                   "libllama refuses its tokenizer (FORETOKEN_LOG=debug shows "
                                   "why)");
    });
}

ft_status ft_llama_tokenize(const ft_llama_text *text, int32_t *out, int32_t *n, ft_error *err)
{
    return guarded(err, [&] {
        *n = llama_tokenize(text->vocab, text->text, text->n_bytes, out, *n, false, false);
        return FT_OK;
    });
}

ft_status ft_llama_piece(const struct llama_vocab *vocab, int32_t token, bool special, char *out,
                         int32_t *n)
{
    return guarded(nullptr, [&] {
        *n = llama_token_to_piece(vocab, token, out, *n, 0, special);
        return FT_OK;
    });
}

ft_status ft_llama_chat(const char *name, const struct llama_chat_message *messages,
                        size_t n_messages, char *out, int32_t *n, ft_error *err)
{
    return guarded(err, [&] {
        *n = llama_chat_apply_template(name, messages, n_messages, true, out, *n);
        return FT_OK;
    });
}

ft_status ft_llama_quantize(const char *in, const char *out,
                            const struct llama_model_quantize_params *params, ft_error *err)
{
    return guarded(err, [&] {
        return llama_model_quantize(in, out, params) == 0
                   ? FT_OK
                   : ft_error_set(err, FT_IO, "libllama says that it failed");
    });
}
