/* SPDX-License-Identifier: Apache-2.0
 *
 * Fingerprints that distinguish models' files without reading them completely. For the model
 * room only. */
#ifndef FT_MODEL_FINGERPRINT_H
#define FT_MODEL_FINGERPRINT_H

#include "model/gguf_file.h"
#include "model/model.h"

/* FT_IO. */
FT_WARN_UNUSED ft_status ft_fingerprint_read(ft_gguf *gguf, const ft_hparams *hp,
                                             ft_fingerprints *out);

#endif
