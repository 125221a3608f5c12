// SPDX-License-Identifier: Apache-2.0
// One TLS connection by GnuTLS. Its owner's thread alone uses it. A failure ends the connection and
// nothing else.
#include "tls/conn.h"

#include <arpa/inet.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>

#define IN_BYTES 16384 /* the most of a TLS record */

struct ft_tls_conn {
    gnutls_session_t session;
    ft_tls_creds *creds;
    size_t at, n_in; /* in[at, n_in) is not taken yet */
    uint8_t in[IN_BYTES];
};

static int set_up(ft_tls_conn *c, int fd)
{
    static const gnutls_datum_t h2 = {.data = (unsigned char *)"h2", .size = 2};
    int failed = gnutls_init(&c->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    if (failed < 0)
        return failed;
    failed = gnutls_priority_set_direct(c->session, FT_TLS_PRIORITIES, NULL);
    if (failed >= 0)
        failed =
            gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, ft_tls_creds_of(c->creds));
    if (failed >= 0)
        failed = gnutls_alpn_set_protocols(c->session, &h2, 1, GNUTLS_ALPN_MANDATORY);
    if (ft_tls_creds_ask(c->creds)) {
        gnutls_certificate_server_set_request(c->session, GNUTLS_CERT_REQUIRE);
        gnutls_session_set_verify_cert(c->session, NULL, 0);
    }
    gnutls_handshake_set_timeout(c->session, 0); /* the owner has a deadline */
    gnutls_transport_set_int(c->session, fd);
    return failed;
}

ft_tls_conn *ft_tls_conn_create(ft_tls_cert *cert, int fd)
{
    ft_tls_conn *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->creds = ft_tls_cert_hold(cert);
    if (set_up(c, fd) >= 0)
        return c;
    ft_tls_conn_destroy(c);
    return NULL;
}

void ft_tls_conn_destroy(ft_tls_conn *conn)
{
    if (!conn)
        return;
    if (conn->session) {
        gnutls_bye(conn->session, GNUTLS_SHUT_WR);
        gnutls_deinit(conn->session);
    }
    ft_tls_creds_give_back(conn->creds);
    free(conn);
}

static ft_tls_io result_of(long rc)
{
    return rc == GNUTLS_E_AGAIN || rc == GNUTLS_E_INTERRUPTED ? FT_TLS_AGAIN : FT_TLS_END;
}

ft_tls_io ft_tls_conn_handshake(ft_tls_conn *conn)
{
    int rc;
    do
        rc = gnutls_handshake(conn->session);
    while (rc < 0 && rc != GNUTLS_E_AGAIN && rc != GNUTLS_E_INTERRUPTED &&
           !gnutls_error_is_fatal(rc));
    if (rc == GNUTLS_E_SUCCESS)
        return FT_TLS_OK;
    if (gnutls_error_is_fatal(rc))
        gnutls_alert_send_appropriate(conn->session, rc);
    return result_of(rc);
}

/* ---- the client's names ---- */

static ft_status put_name(ft_buf *out, const char *name, size_t n)
{
    (void)ft_buf_puts(out, "cert:");
    (void)ft_buf_append(out, name, n);
    return ft_buf_puts(out, ";");
}

static ft_status put_address(ft_buf *out, const char *bytes, size_t n)
{
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(n == 4 ? AF_INET : AF_INET6, bytes, text, sizeof text);
    return put_name(out, text, strlen(text));
}

static ft_status put_names(ft_buf *out, gnutls_x509_crt_t cert)
{
    ft_status status = FT_OK;
    unsigned i = 0;
    for (; status == FT_OK; i++) {
        char name[1024];
        size_t n = sizeof name;
        const int type = gnutls_x509_crt_get_subject_alt_name(cert, i, name, &n, NULL);
        if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
            break;
        if (type < 0)
            return FT_INVALID;
        status = type == GNUTLS_SAN_IPADDRESS && (n == 4 || n == 16) ? put_address(out, name, n)
                                                                     : put_name(out, name, n);
    }
    if (i > 0 || status != FT_OK)
        return status;
    char name[1024];
    size_t n = sizeof name;
    if (gnutls_x509_crt_get_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &n) < 0)
        return FT_INVALID;
    return put_name(out, name, n);
}

ft_status ft_tls_conn_names(const ft_tls_conn *conn, ft_buf *out)
{
    gnutls_x509_crt_t cert;
    unsigned n = 0;
    const gnutls_datum_t *raw = gnutls_certificate_get_peers(conn->session, &n);
    if (!raw || n == 0)
        return FT_OK;
    if (gnutls_x509_crt_init(&cert) < 0)
        return FT_NOMEM;
    ft_status status = gnutls_x509_crt_import(cert, &raw[0], GNUTLS_X509_FMT_DER) < 0
                           ? FT_INVALID
                           : put_names(out, cert);
    gnutls_x509_crt_deinit(cert);
    return status;
}

/* ---- bytes ---- */

ft_tls_io ft_tls_conn_fill(ft_tls_conn *conn)
{
    if (conn->n_in == sizeof conn->in)
        return FT_TLS_AGAIN;
    const ssize_t n =
        gnutls_record_recv(conn->session, conn->in + conn->n_in, sizeof conn->in - conn->n_in);
    if (n <= 0)
        return result_of(n);
    conn->n_in += (size_t)n;
    return FT_TLS_OK;
}

const uint8_t *ft_tls_conn_bytes(const ft_tls_conn *conn, size_t *n)
{
    *n = conn->n_in - conn->at;
    return conn->in + conn->at;
}

void ft_tls_conn_take(ft_tls_conn *conn, size_t n)
{
    conn->at += n;
    if (conn->at == conn->n_in)
        conn->at = conn->n_in = 0;
}

bool ft_tls_conn_has_more(const ft_tls_conn *conn)
{
    return gnutls_record_check_pending(conn->session) > 0;
}

ft_tls_io ft_tls_conn_send(ft_tls_conn *conn, const uint8_t *data, size_t n, size_t *sent)
{
    const ssize_t got = gnutls_record_send(conn->session, data, n);
    *sent = got > 0 ? (size_t)got : 0;
    return got > 0 ? FT_TLS_OK : result_of(got);
}

bool ft_tls_conn_wants_room(const ft_tls_conn *conn)
{
    return gnutls_record_get_direction(conn->session) == 1;
}
