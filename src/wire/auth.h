/* SPDX-License-Identifier: Apache-2.0
 *
 * Authenticates clients and names their credentials; private to this room.
 */
#ifndef FT_WIRE_AUTH_H
#define FT_WIRE_AUTH_H

#include <grpc/grpc.h>

#include "base/status.h"
#include "wire/keyring.h"

/* FT_UNAUTHENTICATED unless the metadata hold "authorization: Bearer TOKEN"; compared in constant
 * time. token NULL: everyone may. */
FT_WARN_UNUSED ft_status ft_auth_check(const grpc_metadata_array *metadata, const char *token,
                                       ft_error *err);

/* The same for a server with keys: *out is the key with that token. */
FT_WARN_UNUSED ft_status ft_auth_find(const grpc_metadata_array *metadata, ft_keyring *keys,
                                      ft_error *err, ft_key *out);

/* A string, equal for equal credentials, that the caller frees: the identity in the client's
 * certificate if it showed one, and a salted hash of its bearer token if it sent one; "anonymous"
 * without either. It never holds the token. NULL: no memory. */
char *ft_auth_credential(grpc_call *call, const grpc_metadata_array *metadata, uint64_t salt);

/* Credentials from PEM files; all NULL: plaintext. client_ca: require a certificate of this CA. */
FT_WARN_UNUSED ft_status ft_auth_server_creds(const char *cert, const char *key,
                                              const char *client_ca, ft_error *err,
                                              grpc_server_credentials **out);
/* ca NULL: the system's. cert and key: both or neither. */
FT_WARN_UNUSED ft_status ft_auth_client_creds(const char *ca, const char *cert, const char *key,
                                              ft_error *err, grpc_channel_credentials **out);

#endif
