/* SPDX-License-Identifier: Apache-2.0
 *
 * The valid keys, which may change while the server runs. A key that is found is a copy, which
 * later changes do not affect. Any thread; no other lock is taken under its lock. */
#ifndef FT_WIRE_KEYRING_H
#define FT_WIRE_KEYRING_H

#include <stdbool.h>

#include "wire/keys.h"

typedef struct ft_keyring ft_keyring;

/* Takes keys, also on failure. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_keyring_create(ft_keys *keys, ft_error *err, ft_keyring **out);
/* NULL is legal. */
void ft_keyring_destroy(ft_keyring *ring);
/* Replaces all keys at once. Takes keys. */
void ft_keyring_replace(ft_keyring *ring, ft_keys *keys);
/* Find the key with this token (may be NULL), or with this name. False: there is none. */
bool ft_keyring_find(ft_keyring *ring, const char *token, ft_key *out);
bool ft_keyring_named(ft_keyring *ring, const char *name, ft_key *out);
/* Copies all keys, in the file's order, into *out[*n], which the caller frees. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_keyring_list(ft_keyring *ring, ft_key **out, size_t *n);

#endif
