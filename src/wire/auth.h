/* SPDX-License-Identifier: Apache-2.0
 *
 * Authenticates clients and names their credentials; private to this room.
 */
#ifndef FT_WIRE_AUTH_H
#define FT_WIRE_AUTH_H

#include <grpc/grpc.h>

#include "base/status.h"
#include "wire/keyring.h"

/* Checks the metadata's "authorization: Bearer TOKEN" in constant time: against `token`, or if keys
 * is not NULL, against the keys; *key is then the key with that token. Both NULL: every client may
 * call. FT_UNAUTHENTICATED, FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_auth_check(const grpc_metadata_array *metadata, const char *token,
                                       ft_keyring *keys, ft_error *err, ft_key *key);

/* The client's credential as a string that the caller frees. Equal credentials give equal strings.
 * With a key (its name is not ""): ft_key_credential. Otherwise the names in the client's
 * certificate (NULL: it sent none) and a salted hash of its bearer token, if it sent one;
 * "anonymous" if it sent neither. The string never contains the token. NULL: no memory. */
char *ft_auth_credential(const char *names, const grpc_metadata_array *metadata,
                         const uint8_t salt[16], const ft_key *key);

#endif
