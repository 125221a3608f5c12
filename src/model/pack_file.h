/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a packed file: the same model with its matrices as the engine has them in memory, layer
 * behind layer, with checksums. For models of which a part is read from disk in every pass:
 * packing each time would cost more than reading. packed_file.h describes the format. */
#ifndef FT_MODEL_PACK_FILE_H
#define FT_MODEL_PACK_FILE_H

#include <stdbool.h>

#include "base/progress.h"
#include "base/status.h"
#include "model/hparams.h"
#include "model/pack.h"

typedef struct ft_pack_file_opts {
    const char *in, *out;
    bool no_pack; /* as ft_model_opts has them; the file fixes what they decide */
    ft_pack_choice *choose;
    uint64_t of;          /* FT_KEY_PACKED_OF; 0: the file has none */
    ft_progress progress; /* in bytes */
} ft_pack_file_opts;

/* Takes any family and weight type that ft_model_load takes. A model that is loaded from the new
 * file is the same to the last bit as one from the old file, loaded with the same choice: weights,
 * vocabulary, fingerprints, name. Blocks until done; needs about four megabytes of memory besides
 * the metadata. FT_INVALID: in and out are the same file. FT_UNSUPPORTED: `in` is packed already.
 * Errors of the file as in ft_model_load, FT_IO. */
FT_WARN_UNUSED ft_status ft_model_pack(const ft_pack_file_opts *opts, ft_error *err);

/* The same of a file that is open, and not packed. Errors of reading are in->err. For the model
 * room only. */
FT_WARN_UNUSED ft_status ft_model_pack_open(const ft_pack_file_opts *opts, ft_gguf *in,
                                            const ft_hparams *hp, const ft_sources *sources,
                                            ft_error *err);

#endif
