// SPDX-License-Identifier: Apache-2.0
// Loads what tiny_gguf writes. Stateless.
#include "support/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

ft_vocab *tiny_vocab(void)
{
    ft_error err = {0};
    ft_vocab *vocab = NULL;
    char *path = tiny_gguf_temp(&(tiny_gguf_opts){0});
    if (ft_vocab_load(path, &err, &vocab) != FT_OK)
        fail_msg("%s", err.message);
    unlink(path);
    free(path);
    return vocab;
}

ft_model *tiny_model(const tiny_gguf_opts *opts, ft_vocab **vocab)
{
    ft_error err = {0};
    ft_model *model = NULL;
    char *path = tiny_gguf_temp(opts);
    if (vocab && ft_vocab_load(path, &err, vocab) != FT_OK)
        fail_msg("%s", err.message);
    if (ft_model_load(&(ft_model_opts){.path = path}, &err, &model) != FT_OK)
        fail_msg("%s", err.message);
    unlink(path);
    free(path);
    return model;
}
