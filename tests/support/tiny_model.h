/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiny models (tiny_gguf.h), loaded; their files are gone. The caller destroys them. Fails the
 * test. */
#ifndef FT_TESTS_TINY_MODEL_H
#define FT_TESTS_TINY_MODEL_H

#include "model/model.h"
#include "model/vocab.h"
#include "support/tiny_gguf.h"

/* *vocab: its vocabulary, too; NULL: not wanted. */
ft_model *tiny_model(const tiny_gguf_opts *opts, ft_vocab **vocab);
/* The vocabulary of the default model. */
ft_vocab *tiny_vocab(void);

#endif
