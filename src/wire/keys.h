/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a server that several tenants share: each one's bearer token, name, and what it may have.
 *
 *   {"keys": [{"token": "...", "name": "team-a", "slo_tokens_per_s": 4, "sessions": 16}, ...]}
 *
 * Immutable once read; any thread.
 */
#ifndef FT_WIRE_KEYS_H
#define FT_WIRE_KEYS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FT_KEYS_MAX      512
#define FT_KEY_TOKEN_MIN 16 /* characters */
#define FT_KEY_TOKEN_MAX 256
#define FT_KEY_ANY_SPEED INFINITY

#define FT_KEY_NAME_SIZE 33

/* Whose, and what it may have: no secret. */
typedef struct ft_key {
    char
        name[FT_KEY_NAME_SIZE]; /* [a-z0-9-], one key's alone; for logs and metrics; "": nobody's */
    float slo_tokens_per_s;     /* the fastest class of promises that it may have; 0: none;
                                    FT_KEY_ANY_SPEED */
    uint32_t sessions;          /* at once; 0: as many as the server has */
} ft_key;

typedef struct ft_keys {
    size_t n;     /* at least 1 */
    ft_key *key;  /* [n] */
    char **token; /* [n], printable ASCII without spaces; never logged */
} ft_keys;

/* FT_INVALID says which entry's which field is wrong, and holds nothing of what the text says in it;
 * FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_keys_read(const char *text, size_t n, ft_error *err, ft_keys **out);
/* A file's, which only its owner may read: FT_FORBIDDEN otherwise. FT_IO, FT_TOO_LARGE, or as read. */
FT_WARN_UNUSED ft_status ft_keys_load(const char *path, ft_error *err, ft_keys **out);
/* NULL is legal. */
void ft_keys_destroy(ft_keys *keys);

/* The key of a token, borrowed; NULL: of none, or `token` is NULL. Time depends on the token's length and
 * the number of keys alone. */
const ft_key *ft_keys_find(const ft_keys *keys, const char *token);

/* What sessions of a key are bound to, however it was shown: "key:" and its name. */
#define FT_KEY_CREDENTIAL_SIZE (FT_KEY_NAME_SIZE + 4)
void ft_key_credential(const ft_key *key, char out[FT_KEY_CREDENTIAL_SIZE]);

#endif
