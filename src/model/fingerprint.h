/* SPDX-License-Identifier: Apache-2.0
 *
 * Fingerprints that distinguish models' files without reading them completely. For the model
 * room only. */
#ifndef FT_MODEL_FINGERPRINT_H
#define FT_MODEL_FINGERPRINT_H

#include "model/gguf_file.h"
#include "model/model.h"

/* Sums over the tensors, of what each fingerprint takes of them. FT_IO. */
FT_WARN_UNUSED ft_status ft_fingerprint_sums(ft_gguf *gguf, uint64_t sums[2]);
/* The fingerprints of a file's hyperparameters and vocabulary with these sums. A packed file
 * carries those of the file that it was made from. FT_CORRUPT: the vocabulary is no list of
 * texts. */
FT_WARN_UNUSED ft_status ft_fingerprint_of(ft_gguf *gguf, const ft_hparams *hp,
                                           const uint64_t sums[2], ft_fingerprints *out);

#endif
