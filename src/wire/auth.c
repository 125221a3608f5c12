// SPDX-License-Identifier: Apache-2.0
// Bearer tokens, and the credential that a session is bound to. Stateless. Received
// metadata belong to the call: they are read and never kept.
#include "wire/auth.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/secret.h"
#include "wire/rpc.h"

static const char bearer[] = "Bearer ";

/* *out: the token in the metadata as a string that the caller frees; NULL: none. FT_NOMEM, which
 * must not pass for a client without a token. */
static ft_status bearer_token(const grpc_metadata_array *metadata, char **out)
{
    *out = NULL;
    for (size_t i = 0; i < metadata->count; i++) {
        if (grpc_slice_str_cmp(metadata->metadata[i].key, FT_RPC_AUTHORIZATION) != 0)
            continue;
        grpc_slice value = metadata->metadata[i].value;
        size_t n = GRPC_SLICE_LENGTH(value), skip = sizeof bearer - 1;
        const char *text = (const char *)GRPC_SLICE_START_PTR(value);
        if (n <= skip || memcmp(text, bearer, skip) != 0)
            continue;
        *out = strndup(text + skip, n - skip);
        return *out ? FT_OK : FT_NOMEM;
    }
    return FT_OK;
}

ft_status ft_auth_check(const grpc_metadata_array *metadata, const char *token, ft_keyring *keys,
                        ft_error *err, ft_key *key)
{
    if (!token && !keys)
        return FT_OK;
    char *given;
    if (bearer_token(metadata, &given) != FT_OK)
        return ft_error_set(err, FT_NOMEM, "no memory for a call");
    bool known = keys ? ft_keyring_find(keys, given, key) : ft_secret_equal_str(token, given);
    ft_status status = FT_OK;
    if (!known)
        status = ft_error_set(err, FT_UNAUTHENTICATED,
                              given ? "wrong bearer token"
                                    : "this server asks for a bearer token, and none was sent "
                                      "(edge --token-file)");
    free(given);
    return status;
}

char *ft_auth_credential(const char *names, const grpc_metadata_array *metadata,
                         const uint8_t salt[16], const ft_key *key)
{
    char of_key[FT_KEY_CREDENTIAL_SIZE];
    ft_buf out = {0};
    if (key->name[0]) {
        ft_key_credential(key, of_key);
        return strdup(of_key);
    }
    if (names)
        (void)ft_buf_puts(&out, names);
    char *token;
    if (bearer_token(metadata, &token) != FT_OK)
        out.failed = true;
    if (token) {
        uint64_t hash = ft_siphash(salt, token, strlen(token));
        (void)ft_buf_printf(&out, "token:%016llx", (unsigned long long)hash);
        free(token);
    }
    if (out.len == 0)
        (void)ft_buf_puts(&out, "anonymous");
    if (out.failed) {
        ft_buf_deinit(&out);
        return NULL;
    }
    return out.data;
}
