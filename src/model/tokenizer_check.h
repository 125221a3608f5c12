/* SPDX-License-Identifier: Apache-2.0
 * Checks a file's tokenizer before libllama sees it. For the model room only. */
#ifndef FT_MODEL_TOKENIZER_CHECK_H
#define FT_MODEL_TOKENIZER_CHECK_H

#include "model/gguf_file.h"

/* Checks everything that libllama's loader and tokenizer would assert on or throw for: the kind of
 * tokenizer (byte-level BPE and SentencePiece are supported), arrays and their lengths, repeated
 * tokens, missing bytes. FT_CORRUPT or FT_UNSUPPORTED. */
FT_WARN_UNUSED ft_status ft_tokenizer_check(ft_gguf *gguf);

#endif
