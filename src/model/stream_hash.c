// SPDX-License-Identifier: Apache-2.0
// XXH3, compiled here for this build's instruction set: the library's own is compiled for the
// oldest processor.
#include "model/stream_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

struct ft_weight_hash {
    XXH3_state_t state;
};

size_t ft_weight_hash_bytes(void)
{
    return sizeof(ft_weight_hash);
}

ft_weight_hash *ft_weight_hash_create(void)
{
    ft_weight_hash *hash = aligned_alloc(_Alignof(ft_weight_hash), sizeof *hash);
    if (hash)
        ft_weight_hash_reset(hash);
    return hash;
}

void ft_weight_hash_destroy(ft_weight_hash *hash)
{
    free(hash);
}

void ft_weight_hash_reset(ft_weight_hash *hash)
{
    XXH3_64bits_reset(&hash->state);
}

void ft_weight_hash_update(ft_weight_hash *hash, const void *data, size_t n)
{
    XXH3_64bits_update(&hash->state, data, n);
}

uint64_t ft_weight_hash_value(const ft_weight_hash *hash)
{
    return XXH3_64bits_digest(&hash->state);
}
