/* SPDX-License-Identifier: Apache-2.0
 *
 * The checksum of bytes that come in one after the other: XXH3, 64 bits, no seed. For the model
 * room only. A checksum belongs to one thread. */
#ifndef FT_MODEL_STREAM_HASH_H
#define FT_MODEL_STREAM_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct ft_weight_hash ft_weight_hash;

/* Bytes of memory of a checksum. */
size_t ft_weight_hash_bytes(void);
/* NULL: out of memory. The caller destroys it; NULL is legal there. */
ft_weight_hash *ft_weight_hash_create(void);
void ft_weight_hash_destroy(ft_weight_hash *hash);

/* Begins anew. */
void ft_weight_hash_reset(ft_weight_hash *hash);
void ft_weight_hash_update(ft_weight_hash *hash, const void *data, size_t n);
/* Of all bytes since the last reset. */
uint64_t ft_weight_hash_value(const ft_weight_hash *hash);

#endif
