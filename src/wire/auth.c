// SPDX-License-Identifier: Apache-2.0
// Bearer tokens, certificates, and the credential that a session is bound to. Stateless. Received
// metadata belong to the call: they are read and never kept.
#include "wire/auth.h"

#include <grpc/grpc_security.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/secret.h"
#include "wire/rpc.h"

static const char bearer[] = "Bearer ";

/* The token in the metadata as a string that the caller frees; NULL: none. */
static char *bearer_token(const grpc_metadata_array *metadata)
{
    for (size_t i = 0; i < metadata->count; i++) {
        if (grpc_slice_str_cmp(metadata->metadata[i].key, FT_RPC_AUTHORIZATION) != 0)
            continue;
        grpc_slice value = metadata->metadata[i].value;
        size_t n = GRPC_SLICE_LENGTH(value), skip = sizeof bearer - 1;
        const char *text = (const char *)GRPC_SLICE_START_PTR(value);
        if (n > skip && memcmp(text, bearer, skip) == 0)
            return strndup(text + skip, n - skip);
    }
    return NULL;
}

ft_status ft_auth_check(const grpc_metadata_array *metadata, const char *token, ft_keyring *keys,
                        ft_error *err, ft_key *key)
{
    if (!token && !keys)
        return FT_OK;
    char *given = bearer_token(metadata);
    bool known = keys ? ft_keyring_find(keys, given, key) : ft_secret_equal_str(token, given);
    ft_status status = FT_OK;
    if (!known)
        status = ft_error_set(err, FT_UNAUTHENTICATED,
                              given ? "wrong bearer token"
                                    : "this server asks for a bearer token, and none was sent");
    free(given);
    return status;
}

static void add_certificate(grpc_call *call, ft_buf *out)
{
    grpc_auth_context *context = grpc_call_auth_context(call);
    if (!context)
        return;
    if (grpc_auth_context_peer_is_authenticated(context)) {
        grpc_auth_property_iterator it = grpc_auth_context_peer_identity(context);
        const grpc_auth_property *property;
        while ((property = grpc_auth_property_iterator_next(&it)) != NULL) {
            (void)ft_buf_puts(out, "cert:");
            (void)ft_buf_append(out, property->value, property->value_length);
            (void)ft_buf_puts(out, ";");
        }
    }
    grpc_auth_context_release(context);
}

char *ft_auth_credential(grpc_call *call, const grpc_metadata_array *metadata,
                         const uint8_t salt[16], const ft_key *key)
{
    char of_key[FT_KEY_CREDENTIAL_SIZE];
    ft_buf out = {0};
    if (key->name[0]) {
        ft_key_credential(key, of_key);
        return strdup(of_key);
    }
    add_certificate(call, &out);
    char *token = bearer_token(metadata);
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

/* The three optional PEM files of either side. */
typedef struct pem_files {
    char *cert, *key, *ca;
} pem_files;

static void pem_files_deinit(pem_files *files)
{
    free(files->cert);
    free(files->key);
    free(files->ca);
}

static ft_status pem_files_init(pem_files *files, const char *cert, const char *key, const char *ca,
                                ft_error *err)
{
    *files = (pem_files){0};
    if (!cert != !key)
        return ft_error_set(err, FT_INVALID,
                            "TLS needs both a certificate and its key: only the %s was given",
                            cert ? "certificate" : "key");
    ft_status status = cert ? ft_file_read_pem(cert, err, &files->cert) : FT_OK;
    if (status == FT_OK && key)
        status = ft_file_read_pem(key, err, &files->key);
    if (status == FT_OK && ca)
        status = ft_file_read_pem(ca, err, &files->ca);
    if (status != FT_OK)
        pem_files_deinit(files);
    return status;
}

ft_status ft_auth_server_creds(const char *cert, const char *key, const char *client_ca,
                               ft_error *err, grpc_server_credentials **out)
{
    *out = NULL;
    if (!cert && !key && !client_ca) {
        *out = grpc_insecure_server_credentials_create();
        return FT_OK;
    }
    if (!cert && !key)
        return ft_error_set(err, FT_INVALID, "a client CA needs a server certificate and key too");
    pem_files files;
    ft_status status = pem_files_init(&files, cert, key, client_ca, err);
    if (status != FT_OK)
        return status;
    grpc_ssl_pem_key_cert_pair pair = {.private_key = files.key, .cert_chain = files.cert};
    grpc_ssl_server_certificate_config *config =
        grpc_ssl_server_certificate_config_create(files.ca, &pair, 1);
    grpc_ssl_server_credentials_options *options =
        grpc_ssl_server_credentials_create_options_using_config(
            files.ca ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                     : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            config);
    *out = grpc_ssl_server_credentials_create_with_options(options); /* takes options */
    pem_files_deinit(&files);
    return *out ? FT_OK : ft_error_set(err, FT_INVALID, "%s, %s: not usable for TLS", cert, key);
}

ft_status ft_auth_client_creds(const char *ca, const char *cert, const char *key, ft_error *err,
                               grpc_channel_credentials **out)
{
    pem_files files;
    *out = NULL;
    ft_status status = pem_files_init(&files, cert, key, ca, err);
    if (status != FT_OK)
        return status;
    grpc_ssl_pem_key_cert_pair pair = {.private_key = files.key, .cert_chain = files.cert};
    *out = grpc_ssl_credentials_create_ex(files.ca, files.cert ? &pair : NULL, NULL, NULL);
    pem_files_deinit(&files);
    return *out ? FT_OK : ft_error_set(err, FT_INVALID, "cannot set up TLS from the PEM files");
}
