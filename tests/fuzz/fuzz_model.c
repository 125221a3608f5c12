// SPDX-License-Identifier: Apache-2.0
// Any bytes as a model file, all the way: loading weights and vocabulary and using the vocabulary
// must end in success or an error, whatever libllama and ggml would do with such a file. A packed
// file is tried again with right checksums, so that what is behind them is reached.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ggml.h"
#include "llama.h"
#include "model/extents.h"
#include "model/vocab.h"
#include "support/packed_seal.h"

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
    const ft_chat_message talk[] = {{.role = "system", .content = "ab"},
                                    {.role = "user", .content = text}};
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

/* Everything stays in the file. */
static ft_status stream_all(void *ctx, const ft_model *model, ft_error *err, ft_stream_choice *out)
{
    (void)ctx;
    (void)model;
    (void)err;
    memset(out, 0xff, sizeof out->layers);
    out->head = out->embedding = true;
    return FT_OK;
}

static void use_matrices(const ft_model *model)
{
    for (uint32_t i = 0; i < ft_model_hparams(model)->n_layer; i++) {
        ft_matrix m[FT_LAYER_MATRICES];
        size_t n_matrices = ft_model_layer_matrices(model, i, m);
        for (size_t j = 0; j < n_matrices; j++) {
            char *data = malloc(m[j].part[0].bytes);
            size_t n = m[j].part[0].bytes;
            if (data &&
                pread(ft_model_fd(model), data, n, (off_t)m[j].part[0].offset) == (ssize_t)n)
                (void)ft_extent_matches(&m[j].part[0], data);
            free(data);
        }
    }
}

/* A packed file may have others than the loader would choose. */
static bool choose_all(enum ggml_type type, int64_t n_in, int64_t n_out)
{
    (void)type;
    (void)n_in;
    (void)n_out;
    return true;
}

static void load(const char *path)
{
    ft_error err = {0};
    ft_model *model = NULL;
    ft_model_opts opts = {.path = path, .choose = choose_all};
    if (ft_model_load(&opts, &err, &model) == FT_OK)
        ft_model_destroy(model);
    opts.map = true; /* as what a cache holds */
    if (ft_model_load(&opts, &err, &model) == FT_OK)
        ft_model_destroy(model);
    opts.stream = stream_all;
    if (ft_model_load(&opts, &err, &model) == FT_OK)
        use_matrices(model);
    ft_model_destroy(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char mark[] = "foretoken.pack";
    char path[64];
    ft_error err = {0};
    ft_vocab *vocab = NULL;
    ggml_log_set(no_log, NULL);
    llama_log_set(no_log, NULL);
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd >= 0 && write(fd, data, n) == (ssize_t)n) {
        load(path);
        if (memmem(data, n, mark, sizeof mark - 1)) {
            (void)packed_seal(path);
            load(path);
        }
        if (ft_vocab_load(path, &err, &vocab) == FT_OK)
            use_vocab(vocab);
        ft_vocab_destroy(vocab);
    }
    close(fd);
    return 0;
}
