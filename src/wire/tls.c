// SPDX-License-Identifier: Apache-2.0
// Certificates for gRPC. A server's come through a function that gRPC calls at each handshake: it
// says that they are new, or that nothing changed. gRPC does not tell whether it took new ones, so
// they are tried at a port of their own before. Does not watch the files.
#include "wire/tls.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/file.h"

/* The files' contents; NULL: there is no such file. */
typedef struct pem {
    char *cert, *key, *ca;
} pem;

struct ft_tls {
    ft_tls_files files;
    pthread_mutex_t lock; /* no other lock is taken under it */
    /* guarded by lock */
    pem pem;
    bool fresh; /* gRPC has not got pem yet */
};

static void pem_deinit(pem *p)
{
    free(p->cert);
    free(p->key);
    free(p->ca);
    *p = (pem){0};
}

static ft_status pem_init(pem *p, const ft_tls_files *files, ft_error *err)
{
    *p = (pem){0};
    if (!files->cert != !files->key)
        return ft_error_set(err, FT_INVALID,
                            "TLS needs both a certificate and its key: only the %s was given",
                            files->cert ? "certificate" : "key");
    ft_status status = files->cert ? ft_file_read_pem(files->cert, err, &p->cert) : FT_OK;
    if (status == FT_OK && files->key)
        status = ft_file_read_pem(files->key, err, &p->key);
    if (status == FT_OK && files->ca)
        status = ft_file_read_pem(files->ca, err, &p->ca);
    if (status != FT_OK)
        pem_deinit(p);
    return status;
}

/* ---- the server ---- */

/* gRPC 1.51 aborts if a config that it fetched has no CA, though it asks no client for a
 * certificate. So it gets the server's own certificate then, which it makes no use of. */
static grpc_ssl_server_certificate_config *config_of(const pem *p)
{
    const grpc_ssl_pem_key_cert_pair pair = {.private_key = p->key, .cert_chain = p->cert};
    return grpc_ssl_server_certificate_config_create(p->ca ? p->ca : p->cert, &pair, 1);
}

static grpc_ssl_client_certificate_request_type asks_for(const char *ca)
{
    return ca ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
              : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
}

/* Whether gRPC can serve with them: it tells when it gets a port, which nobody hears of. */
static bool are_usable(const pem *p)
{
    grpc_server_credentials *creds = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config(asks_for(p->ca), config_of(p)));
    grpc_completion_queue *cq = grpc_completion_queue_create_for_next(NULL);
    grpc_server *server = grpc_server_create(NULL, NULL);
    grpc_server_register_completion_queue(server, cq, NULL);
    bool usable = grpc_server_add_http2_port(server, "127.0.0.1:0", creds) > 0;
    grpc_server_credentials_release(creds);
    grpc_server_shutdown_and_notify(server, cq, NULL);
    const gpr_timespec never = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    (void)grpc_completion_queue_next(cq, never, NULL);
    grpc_server_destroy(server);
    grpc_completion_queue_shutdown(cq);
    while (grpc_completion_queue_next(cq, never, NULL).type != GRPC_QUEUE_SHUTDOWN) {
    }
    grpc_completion_queue_destroy(cq);
    return usable;
}

ft_status ft_tls_reload(ft_tls *tls, ft_error *err)
{
    pem p;
    ft_status status = pem_init(&p, &tls->files, err);
    if (status != FT_OK)
        return status;
    if (!are_usable(&p)) {
        pem_deinit(&p);
        return ft_error_set(err, FT_INVALID, "%s, %s: certificate and key do not fit for TLS",
                            tls->files.cert, tls->files.key);
    }
    pthread_mutex_lock(&tls->lock);
    pem before = tls->pem;
    tls->pem = p;
    tls->fresh = true;
    pthread_mutex_unlock(&tls->lock);
    pem_deinit(&before);
    return FT_OK;
}

ft_status ft_tls_create(const ft_tls_files *files, ft_error *err, ft_tls **out)
{
    *out = NULL;
    if (!files->cert && !files->key)
        return ft_error_set(err, FT_INVALID, "a client CA needs a server certificate and key too");
    ft_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return ft_error_set(err, FT_NOMEM, "no memory for a server");
    tls->files = *files;
    pthread_mutex_init(&tls->lock, NULL);
    ft_status status = ft_tls_reload(tls, err);
    if (status == FT_OK)
        *out = tls;
    else
        ft_tls_destroy(tls);
    return status;
}

void ft_tls_destroy(ft_tls *tls)
{
    if (!tls)
        return;
    pem_deinit(&tls->pem);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}

/* At each handshake, on a thread of gRPC. */
static grpc_ssl_certificate_config_reload_status fetch(void *ctx,
                                                       grpc_ssl_server_certificate_config **out)
{
    ft_tls *tls = ctx;
    pthread_mutex_lock(&tls->lock);
    const bool fresh = tls->fresh;
    if (fresh)
        *out = config_of(&tls->pem);
    tls->fresh = false;
    pthread_mutex_unlock(&tls->lock);
    return fresh ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW
                 : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
}

grpc_server_credentials *ft_tls_server_creds(ft_tls *tls)
{
    if (!tls)
        return grpc_insecure_server_credentials_create();
    pthread_mutex_lock(&tls->lock);
    tls->fresh = true; /* a port's first fetch must bring some */
    pthread_mutex_unlock(&tls->lock);
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(asks_for(tls->files.ca),
                                                                        fetch, tls));
}

/* ---- the client ---- */

ft_status ft_tls_client_creds(const ft_tls_files *files, ft_error *err,
                              grpc_channel_credentials **out)
{
    pem p;
    *out = NULL;
    ft_status status = pem_init(&p, files, err);
    if (status != FT_OK)
        return status;
    grpc_ssl_pem_key_cert_pair pair = {.private_key = p.key, .cert_chain = p.cert};
    *out = grpc_ssl_credentials_create_ex(p.ca, p.cert ? &pair : NULL, NULL, NULL);
    pem_deinit(&p);
    return *out ? FT_OK : ft_error_set(err, FT_INVALID, "cannot set up TLS from the PEM files");
}
