/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed files: model files whose matrices lie as the engine has them in memory, layer behind
 * layer, each at a multiple of 4 KiB. `foretoken model pack` writes them (pack_file.h). They are
 * GGUF files with all keys of the file that they were made from, and these:
 *
 *   general.alignment       4096
 *   foretoken.pack.version  u32, FT_PACKED_VERSION
 *   foretoken.pack.sums     u64 [2]: what fingerprint.h sums over the original's tensors
 *   foretoken.pack.hash     u64 [tensors]: XXH3 (64 bits) of each tensor's bytes
 *   foretoken.pack.of       u64: in a cache (model_kept.h), what its name is made of
 *   foretoken.pack.header   u64: XXH3 of the format's version, of all other keys, and of the
 *                           tensors' descriptions
 *
 * First come the embedding and the vectors, then the matrices, layer by layer, then the output
 * head. A matrix in our own layout (pack.h) is named STEM.packed; joined matrices in plain layout
 * are STEM.joined. No other program knows these names, so none computes with such a file.
 *
 * For the model room only.
 */
#ifndef FT_MODEL_PACKED_FILE_H
#define FT_MODEL_PACKED_FILE_H

#include "model/gguf_file.h"

#define FT_PACKED_VERSION   1
#define FT_PACKED_ALIGNMENT 4096

#define FT_KEY_PACKED_VERSION "foretoken.pack.version"
#define FT_KEY_PACKED_SUMS    "foretoken.pack.sums"
#define FT_KEY_PACKED_HASH    "foretoken.pack.hash"
#define FT_KEY_PACKED_OF      "foretoken.pack.of"
#define FT_KEY_PACKED_HEADER  "foretoken.pack.header"

typedef struct ft_packed {
    bool is;              /* the file is a packed one; the rest is for such */
    uint64_t sums[2];     /* for ft_fingerprint_of */
    const uint64_t *hash; /* [tensors], borrowed from the metadata */
    uint64_t of;          /* 0: it does not say */
} ft_packed;

/* Finds out whether a file is packed, and checks its keys. FT_CORRUPT; FT_UNSUPPORTED: another
 * version. */
FT_WARN_UNUSED ft_status ft_packed_read(ft_gguf *gguf, ft_packed *out);

/* Refuses a packed file (FT_UNSUPPORTED), for what wants plain weights. Returns gguf->st. */
ft_status ft_packed_refuse(ft_gguf *gguf);

/* Whether the name is that of a tensor in our own layout. */
bool ft_packed_name(const char *name);

/* XXH3 of the keys for which `counts` is true, in the file's order, with their values. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_keys_hash(const struct gguf_context *gguf,
                                      bool (*counts)(const char *key), uint64_t *out);

/* The value of FT_KEY_PACKED_HEADER that the metadata should have. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_packed_header(const struct gguf_context *gguf, uint64_t *out);

#endif
