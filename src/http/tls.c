// SPDX-License-Identifier: Apache-2.0
// Certificates for HTTPS. libmicrohttpd reads a certificate once; so GnuTLS, which is under it,
// asks for it at each handshake. Each handshake gets a copy of its own, so a reload waits for none.
// Does not watch the files.
#include "http/tls.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "http/conns.h"

enum { CHAIN_MAX = 16 /* certificates; public ones come in chains of 2 to 4 */ };

struct ft_http_tls {
    char *cert_path, *key_path;
    pthread_mutex_t lock; /* no other lock is taken under it */
    char *cert, *key;     /* PEM; guarded by lock */
};

static gnutls_datum_t datum_of(const char *pem)
{
    return (gnutls_datum_t){.data = (unsigned char *)pem, .size = (unsigned)strlen(pem)};
}

/* Whether they fit is GnuTLS's to say. */
static ft_status check(const ft_http_tls *tls, const char *cert, const char *key, ft_error *err)
{
    const gnutls_datum_t of_cert = datum_of(cert), of_key = datum_of(key);
    gnutls_certificate_credentials_t trial;
    if (gnutls_certificate_allocate_credentials(&trial) != 0)
        return ft_error_set(err, FT_NOMEM, "http: out of memory");
    int failed = gnutls_certificate_set_x509_key_mem(trial, &of_cert, &of_key, GNUTLS_X509_FMT_PEM);
    gnutls_certificate_free_credentials(trial);
    if (failed >= 0)
        return FT_OK;
    return ft_error_set(err, FT_INVALID, "http: %s, %s: certificate and key do not fit for TLS: %s",
                        tls->cert_path, tls->key_path, gnutls_strerror(failed));
}

ft_status ft_http_tls_reload(ft_http_tls *tls, ft_error *err)
{
    char *cert = NULL, *key = NULL;
    ft_status status = ft_file_read_pem(tls->cert_path, err, &cert);
    if (status == FT_OK)
        status = ft_file_read_pem(tls->key_path, err, &key);
    if (status == FT_OK)
        status = check(tls, cert, key, err);
    if (status == FT_OK) {
        char *old_cert = tls->cert, *old_key = tls->key;
        pthread_mutex_lock(&tls->lock);
        tls->cert = cert;
        tls->key = key;
        pthread_mutex_unlock(&tls->lock);
        cert = old_cert;
        key = old_key;
    }
    free(cert);
    free(key);
    return status;
}

ft_status ft_http_tls_create(const char *cert, const char *key, ft_error *err, ft_http_tls **out)
{
    *out = NULL;
    ft_http_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return ft_error_set(err, FT_NOMEM, "http: out of memory");
    pthread_mutex_init(&tls->lock, NULL);
    tls->cert_path = strdup(cert);
    tls->key_path = strdup(key);
    ft_status status = tls->cert_path && tls->key_path
                           ? ft_http_tls_reload(tls, err)
                           : ft_error_set(err, FT_NOMEM, "http: out of memory");
    if (status == FT_OK)
        *out = tls;
    else
        ft_http_tls_destroy(tls);
    return status;
}

void ft_http_tls_destroy(ft_http_tls *tls)
{
    if (!tls)
        return;
    free(tls->cert_path);
    free(tls->key_path);
    free(tls->cert);
    free(tls->key);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}

/* What GnuTLS frees after the handshake (GNUTLS_CERT_RETR_DEINIT_ALL). */
typedef struct shown {
    gnutls_pcert_st *chain; /* [n] */
    unsigned n;
    gnutls_privkey_t key;
} shown;

static void shown_deinit(shown *s)
{
    for (unsigned i = 0; i < s->n; i++)
        gnutls_pcert_deinit(&s->chain[i]);
    gnutls_free(s->chain);
    if (s->key)
        gnutls_privkey_deinit(s->key);
}

/* Returns 0, or an error of GnuTLS. */
static int shown_init(shown *s, const char *cert, const char *key)
{
    const gnutls_datum_t of_cert = datum_of(cert), of_key = datum_of(key);
    unsigned n = CHAIN_MAX;
    *s = (shown){.chain = gnutls_calloc(CHAIN_MAX, sizeof *s->chain)};
    if (!s->chain)
        return GNUTLS_E_MEMORY_ERROR;
    int failed = gnutls_pcert_list_import_x509_raw(s->chain, &n, &of_cert, GNUTLS_X509_FMT_PEM, 0);
    if (failed >= 0)
        s->n = n;
    if (failed >= 0)
        failed = gnutls_privkey_init(&s->key);
    if (failed >= 0)
        failed = gnutls_privkey_import_x509_raw(s->key, &of_key, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (failed < 0)
        shown_deinit(s);
    return failed < 0 ? failed : 0;
}

/* The connection that a handshake belongs to: libmicrohttpd leaves it in the session. */
static ft_http_tls *tls_of(gnutls_session_t session)
{
    struct MHD_Connection *connection = gnutls_session_get_ptr(session);
    const union MHD_ConnectionInfo *info =
        connection ? MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT) : NULL;
    const ft_http_conn *conn = info ? info->socket_context : NULL;
    return conn ? conn->tls : NULL;
}

/* lint: library signature */
static int on_handshake(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                        gnutls_pcert_st **chain, unsigned *n_chain, gnutls_ocsp_data_st **ocsp,
                        unsigned *n_ocsp, gnutls_privkey_t *key, unsigned *flags)
{
    shown s;
    ft_http_tls *tls = tls_of(session);
    (void)info;
    if (!tls)
        return -1;
    pthread_mutex_lock(&tls->lock);
    int failed = shown_init(&s, tls->cert, tls->key);
    pthread_mutex_unlock(&tls->lock);
    if (failed)
        return -1;
    *chain = s.chain;
    *n_chain = s.n;
    *key = s.key;
    *ocsp = NULL;
    *n_ocsp = 0;
    *flags |= GNUTLS_CERT_RETR_DEINIT_ALL;
    return 0;
}

struct MHD_OptionItem ft_http_tls_option(void)
{
    return (struct MHD_OptionItem){.option = MHD_OPTION_HTTPS_CERT_CALLBACK2,
                                   .ptr_value = (void *)(intptr_t)on_handshake};
}
