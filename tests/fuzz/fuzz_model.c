// SPDX-License-Identifier: Apache-2.0
// Any bytes as a model file, all the way: loading weights and vocabulary and using the vocabulary
// must end in success or an error, whatever libllama and ggml would do with such a file.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ggml.h"
#include "llama.h"
#include "model/model.h"
#include "model/vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void no_log(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)level;
    (void)text;
    (void)ctx;
}

static void use_vocab(const ft_vocab *vocab)
{
    static const char text[] = "abc <|im_end|>\xf4\xff \xe4\xb8\x96\n";
    const ft_chat_message talk[] = {{"system", "ab"}, {"user", text}};
    ft_tokens tokens = {0};
    ft_error err = {0};
    ft_buf out = {0};
    (void)!ft_vocab_tokenize(vocab, text, sizeof text - 1, NULL, &err, &tokens);
    (void)!ft_vocab_chat(vocab, talk, 2, NULL, &err, &tokens);
    for (size_t i = 0; i < tokens.n; i++)
        (void)!ft_vocab_piece(vocab, tokens.id[i], i % 2, &out);
    ft_tokens_deinit(&tokens);
    ft_buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[64];
    ft_error err = {0};
    ft_model *model = NULL;
    ft_vocab *vocab = NULL;
    ggml_log_set(no_log, NULL);
    llama_log_set(no_log, NULL);
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd >= 0 && write(fd, data, n) == (ssize_t)n) {
        ft_model_opts opts = {.path = path};
        if (ft_model_load(&opts, &err, &model) == FT_OK)
            ft_model_destroy(model);
        if (ft_vocab_load(path, &err, &vocab) == FT_OK)
            use_vocab(vocab);
        ft_vocab_destroy(vocab);
    }
    close(fd);
    return 0;
}
