/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a server that several tenants share. A key has a bearer token, a name and limits.
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

/* A key's name and limits, without its token. */
typedef struct ft_key {
    char name[FT_KEY_NAME_SIZE]; /* [a-z0-9-], unique; for logs and metrics; "": no key */
    float slo_tokens_per_s;      /* the fastest class that may be promised to it; 0: none;
                                    FT_KEY_ANY_SPEED */
    uint32_t sessions;           /* at once; 0: as many as the server has */
} ft_key;

typedef struct ft_keys {
    size_t n; /* at least 1 */
    struct {
        ft_key key;
        char token[FT_KEY_TOKEN_MAX + 1]; /* printable ASCII without spaces; never logged */
    } entry[];                            /* [n] */
} ft_keys;

/* The caller frees *out, in one piece. FT_INVALID names the wrong entry and field, and quotes
 * nothing of the text, which has secrets; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_keys_read(const char *text, size_t n, ft_error *err, ft_keys **out);
/* Reads a file. FT_FORBIDDEN: others than its owner may read it. FT_IO, FT_TOO_LARGE, or an error
 * of ft_keys_read. */
FT_WARN_UNUSED ft_status ft_keys_load(const char *path, ft_error *err, ft_keys **out);
/* The key with this token, borrowed; NULL: there is none, or `token` is NULL. The time it takes
 * depends only on the token's length and the number of keys. */
const ft_key *ft_keys_find(const ft_keys *keys, const char *token);

/* The credential of a key's sessions: "key:" and its name. */
#define FT_KEY_CREDENTIAL_SIZE (FT_KEY_NAME_SIZE + 4)
void ft_key_credential(const ft_key *key, char out[FT_KEY_CREDENTIAL_SIZE]);

#endif
