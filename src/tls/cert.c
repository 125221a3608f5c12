// SPDX-License-Identifier: Apache-2.0
// Reads PEM files and hands their content to GnuTLS. Each reading makes new credentials, which
// count who holds them. Does not watch the files.
#include "tls/cert.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

struct ft_tls_creds {
    gnutls_certificate_credentials_t gnutls;
    bool asks; /* clients must show a certificate */
    atomic_uint held;
};

struct ft_tls_cert {
    char *cert, *key, *ca; /* paths; ca NULL: none */
    pthread_mutex_t lock;  /* no other lock is taken under it */
    ft_tls_creds *now;     /* guarded by lock */
};

static gnutls_datum_t datum_of(const char *pem)
{
    return (gnutls_datum_t){.data = (unsigned char *)pem, .size = (unsigned)strlen(pem)};
}

void ft_tls_creds_give_back(ft_tls_creds *creds)
{
    if (!creds || atomic_fetch_sub(&creds->held, 1) > 1)
        return;
    if (creds->gnutls)
        gnutls_certificate_free_credentials(creds->gnutls);
    free(creds);
}

static ft_status load_pair(ft_tls_creds *c, const ft_tls_files *files, ft_error *err)
{
    char *cert = NULL, *key = NULL;
    int failed = 0;
    ft_status status = ft_file_read_pem(files->cert, err, &cert);
    if (status == FT_OK)
        status = ft_file_read_pem(files->key, err, &key);
    if (status == FT_OK) {
        const gnutls_datum_t of_cert = datum_of(cert), of_key = datum_of(key);
        failed =
            gnutls_certificate_set_x509_key_mem(c->gnutls, &of_cert, &of_key, GNUTLS_X509_FMT_PEM);
    }
    free(cert);
    free(key);
    if (failed >= 0)
        return status;
    return ft_error_set(err, FT_INVALID, "%s, %s: certificate and key do not fit for TLS: %s",
                        files->cert, files->key, gnutls_strerror(failed));
}

static ft_status load_ca(ft_tls_creds *c, const char *path, ft_error *err)
{
    char *ca;
    ft_status status = ft_file_read_pem(path, err, &ca);
    if (status != FT_OK)
        return status;
    const gnutls_datum_t of_ca = datum_of(ca);
    const int n = gnutls_certificate_set_x509_trust_mem(c->gnutls, &of_ca, GNUTLS_X509_FMT_PEM);
    free(ca);
    if (n <= 0)
        return ft_error_set(err, FT_INVALID, "%s: no certificate of an authority is in it", path);
    c->asks = true;
    return FT_OK;
}

static ft_status read_files(const ft_tls_files *files, ft_error *err, ft_tls_creds **out)
{
    ft_tls_creds *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return ft_error_set(err, FT_NOMEM, "no memory for a certificate");
    c->held = 1;
    ft_status status = gnutls_certificate_allocate_credentials(&c->gnutls) == 0
                           ? load_pair(c, files, err)
                           : ft_error_set(err, FT_NOMEM, "no memory for a certificate");
    if (status == FT_OK && files->ca)
        status = load_ca(c, files->ca, err);
    if (status == FT_OK)
        *out = c;
    else
        ft_tls_creds_give_back(c);
    return status;
}

ft_status ft_tls_cert_create(const ft_tls_files *files, ft_error *err, ft_tls_cert **out)
{
    *out = NULL;
    if (!files->cert && !files->key)
        return ft_error_set(err, FT_INVALID, "a client CA needs a server certificate and key too");
    if (!files->cert || !files->key)
        return ft_error_set(err, FT_INVALID,
                            "TLS needs both a certificate and its key: only the %s was given",
                            files->cert ? "certificate" : "key");
    ft_tls_cert *cert = calloc(1, sizeof *cert);
    if (!cert)
        return ft_error_set(err, FT_NOMEM, "no memory for a certificate");
    pthread_mutex_init(&cert->lock, NULL);
    cert->cert = strdup(files->cert);
    cert->key = strdup(files->key);
    cert->ca = files->ca ? strdup(files->ca) : NULL;
    ft_status status = cert->cert && cert->key && !cert->ca == !files->ca
                           ? ft_tls_cert_reload(cert, err)
                           : ft_error_set(err, FT_NOMEM, "no memory for a certificate");
    if (status == FT_OK)
        *out = cert;
    else
        ft_tls_cert_destroy(cert);
    return status;
}

void ft_tls_cert_destroy(ft_tls_cert *cert)
{
    if (!cert)
        return;
    ft_tls_creds_give_back(cert->now);
    free(cert->cert);
    free(cert->key);
    free(cert->ca);
    pthread_mutex_destroy(&cert->lock);
    free(cert);
}

ft_status ft_tls_cert_reload(ft_tls_cert *cert, ft_error *err)
{
    const ft_tls_files files = {cert->cert, cert->key, cert->ca};
    ft_tls_creds *creds;
    ft_status status = read_files(&files, err, &creds);
    if (status != FT_OK)
        return status;
    pthread_mutex_lock(&cert->lock);
    ft_tls_creds *before = cert->now;
    cert->now = creds;
    pthread_mutex_unlock(&cert->lock);
    ft_tls_creds_give_back(before);
    return FT_OK;
}

ft_tls_creds *ft_tls_cert_hold(ft_tls_cert *cert)
{
    pthread_mutex_lock(&cert->lock);
    ft_tls_creds *creds = cert->now;
    atomic_fetch_add(&creds->held, 1);
    pthread_mutex_unlock(&cert->lock);
    return creds;
}

gnutls_certificate_credentials_t ft_tls_creds_of(const ft_tls_creds *creds)
{
    return creds->gnutls;
}

bool ft_tls_creds_ask(const ft_tls_creds *creds)
{
    return creds->asks;
}
