// SPDX-License-Identifier: Apache-2.0
// TLS connections and their pipes (tls/conn.h, tls/pipe.h): bytes come through unchanged both ways,
// whoever is slow; ends are passed on; names in a client's certificate. The network is a pair of
// sockets; certificates are made here.
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tls/pipe.h"

#define MANY ((size_t)3 << 20)

static char folder[] = "/tmp/ft-tls-XXXXXX";

/* ---- certificates ---- */

static const char *path(const char *name)
{
    static char paths[4][64];
    static int next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", folder, name);
    return p;
}

static void put(const char *name, const gnutls_datum_t *pem)
{
    FILE *f = fopen(path(name), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(pem->data, 1, pem->size, f), pem->size);
    fclose(f);
}

/* Writes NAME.pem and NAME.key, signed by itself. san: a DNS name and an address beside it. */
static void make(const char *name, const char *san)
{
    static const unsigned char address[] = {127, 0, 0, 9};
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t crt;
    gnutls_datum_t pem;
    char file[32];
    gnutls_x509_privkey_init(&key);
    assert_int_equal(gnutls_x509_privkey_generate(
                         key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    gnutls_x509_crt_init(&crt);
    gnutls_x509_crt_set_version(crt, 3);
    gnutls_x509_crt_set_serial(crt, "\1", 1);
    gnutls_x509_crt_set_activation_time(crt, time(NULL) - 60);
    gnutls_x509_crt_set_expiration_time(crt, time(NULL) + 3600);
    gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                  (unsigned)strlen(name));
    gnutls_x509_crt_set_ca_status(crt, 1);
    if (san) {
        gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, san, (unsigned)strlen(san),
                                             GNUTLS_FSAN_SET);
        gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, address, sizeof address,
                                             GNUTLS_FSAN_APPEND);
    }
    gnutls_x509_crt_set_key(crt, key);
    assert_int_equal(gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0), 0);
    snprintf(file, sizeof file, "%s.pem", name);
    assert_int_equal(gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &pem), 0);
    put(file, &pem);
    gnutls_free(pem.data);
    snprintf(file, sizeof file, "%s.key", name);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem), 0);
    put(file, &pem);
    gnutls_free(pem.data);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(key);
}

static int setup(void **state)
{
    if (!mkdtemp(folder))
        return -1;
    make("server", NULL);
    make("plain", NULL);
    make("named", "edge.test");
    return 0;
}

static int teardown(void **state)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command) == 0 ? 0 : -1;
}

/* ---- both sides of a connection ---- */

typedef struct place {
    ft_tls_cert *cert;
    ft_tls_pipes *pipes;
    ft_tls_conn *conn;
    int net[2];   /* of the client, of the server */
    int local[2]; /* ours, the pipe's */
    gnutls_certificate_credentials_t creds;
    gnutls_session_t client;
} place;

static void wait_for(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    assert_true(poll(&p, 1, 30000) > 0);
}

static void start_client(place *p, const char *name)
{
    static const gnutls_datum_t h2 = {.data = (unsigned char *)"h2", .size = 2};
    char cert[32], key[32];
    gnutls_certificate_allocate_credentials(&p->creds);
    if (name) {
        snprintf(cert, sizeof cert, "%s.pem", name);
        snprintf(key, sizeof key, "%s.key", name);
        assert_int_equal(gnutls_certificate_set_x509_key_file(p->creds, path(cert), path(key),
                                                              GNUTLS_X509_FMT_PEM),
                         0);
    }
    gnutls_init(&p->client, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    gnutls_set_default_priority(p->client);
    gnutls_credentials_set(p->client, GNUTLS_CRD_CERTIFICATE, p->creds);
    gnutls_alpn_set_protocols(p->client, &h2, 1, 0);
    gnutls_transport_set_int(p->client, p->net[0]);
}

/* What the server's side says of the handshake. client: the name of its certificate; ca: of the
 * authority that the server asks for; NULL: none. */
static ft_tls_io shake_hands(place *p, const char *client, const char *ca)
{
    const ft_tls_files files = {path("server.pem"), path("server.key"), ca ? path(ca) : NULL};
    ft_error err = {0};
    *p = (place){0};
    assert_int_equal(ft_tls_cert_create(&files, &err, &p->cert), FT_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->net), 0);
    p->conn = ft_tls_conn_create(p->cert, p->net[1]);
    assert_non_null(p->conn);
    start_client(p, client);
    ft_tls_io got = FT_TLS_AGAIN;
    for (int i = 0, done = GNUTLS_E_AGAIN; i < 100 && (got == FT_TLS_AGAIN || done < 0); i++) {
        if (done < 0)
            done = gnutls_handshake(p->client);
        if (got == FT_TLS_AGAIN)
            got = ft_tls_conn_handshake(p->conn);
        if (got == FT_TLS_END)
            break;
    }
    return got;
}

static void begin(place *p)
{
    ft_error err = {0};
    assert_int_equal(shake_hands(p, NULL, NULL), FT_TLS_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->local), 0);
    assert_int_equal(ft_tls_pipes_create(&err, &p->pipes), FT_OK);
    assert_int_equal(ft_tls_pipes_add(p->pipes, p->conn, p->net[1], p->local[1], &err), FT_OK);
}

static void end_client(place *p)
{
    gnutls_deinit(p->client);
    gnutls_certificate_free_credentials(p->creds);
    close(p->net[0]);
    ft_tls_cert_destroy(p->cert);
}

static void end(place *p)
{
    ft_tls_pipes_destroy(p->pipes);
    close(p->local[0]);
    end_client(p);
}

static uint8_t byte_at(size_t i)
{
    return (uint8_t)((i * 2654435761u) >> 13);
}

/* The client's next bytes; 0: the server has ended the connection. */
static size_t client_recv(place *p, uint8_t *data, size_t n)
{
    for (;;) {
        const ssize_t got = gnutls_record_recv(p->client, data, n);
        if (got >= 0)
            return (size_t)got;
        if (got != GNUTLS_E_AGAIN && got != GNUTLS_E_INTERRUPTED)
            assert_int_equal(got, GNUTLS_E_PREMATURE_TERMINATION);
        if (got == GNUTLS_E_PREMATURE_TERMINATION)
            return 0;
        wait_for(p->net[0], POLLIN);
    }
}

/* ---- tests ---- */

/* The local side sends everything back as it comes. */
static void *echo(void *arg)
{
    uint8_t data[5000];
    const int fd = *(int *)arg;
    for (ssize_t n; (n = recv(fd, data, sizeof data, 0)) != 0;) {
        if (n < 0) {
            wait_for(fd, POLLIN);
            continue;
        }
        for (ssize_t at = 0, sent; at<n; at += sent> 0 ? sent : 0) {
            sent = send(fd, data + at, (size_t)(n - at), MSG_NOSIGNAL);
            if (sent < 0)
                wait_for(fd, POLLOUT);
        }
    }
    return NULL;
}

static void test_both_ways(void **state)
{
    place p;
    pthread_t local;
    static uint8_t out[70000], in[70000];
    size_t sent = 0, got = 0, chunk = 1;
    begin(&p);
    pthread_create(&local, NULL, echo, &p.local[0]);
    while (got < MANY) {
        chunk = chunk * 3 % 65521 + 1;
        const size_t n = chunk < MANY - sent ? chunk : MANY - sent;
        for (size_t i = 0; i < n; i++)
            out[i] = byte_at(sent + i);
        ssize_t done = n ? gnutls_record_send(p.client, out, n) : 0;
        while (done == GNUTLS_E_AGAIN) { /* the buffers are full: reads what has come back */
            const ssize_t back = gnutls_record_recv(p.client, in, sizeof in);
            for (ssize_t i = 0; i < back; i++)
                assert_int_equal(in[i], byte_at(got + (size_t)i));
            got += back > 0 ? (size_t)back : 0;
            done = gnutls_record_send(p.client, NULL, 0);
        }
        assert_true(done >= 0);
        sent += (size_t)done;
        if (sent < MANY)
            continue;
        const size_t back = client_recv(&p, in, sizeof in);
        assert_true(back > 0);
        for (size_t i = 0; i < back; i++)
            assert_int_equal(in[i], byte_at(got + i));
        got += back;
    }
    assert_int_equal(got, sent);
    gnutls_bye(p.client, GNUTLS_SHUT_WR);
    pthread_join(local, NULL); /* it has seen the end */
    end(&p);
}

/* What the local side wrote before its end arrives, though the client reads late; then the end. */
static void test_local_end(void **state)
{
    place p;
    static uint8_t data[4096];
    size_t sent = 0, got = 0, n;
    begin(&p);
    for (;;) {
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = byte_at(sent + i);
        const ssize_t done = send(p.local[0], data, sizeof data, MSG_NOSIGNAL);
        sent += done > 0 ? (size_t)done : 0;
        struct pollfd room = {.fd = p.local[0], .events = POLLOUT};
        if (done < 0 && poll(&room, 1, 200) == 0)
            break; /* no buffer takes more */
    }
    shutdown(p.local[0], SHUT_RDWR);
    while ((n = client_recv(&p, data, sizeof data)) > 0) {
        for (size_t i = 0; i < n; i++)
            assert_int_equal(data[i], byte_at(got + i));
        got += n;
    }
    assert_int_equal(got, sent);
    end(&p);
}

/* A client that is gone without a word ends the local side; so does the end of all pipes. */
static void test_other_ends(void **state)
{
    place p;
    char c;
    begin(&p);
    shutdown(p.net[0], SHUT_RDWR);
    wait_for(p.local[0], POLLIN);
    assert_int_equal(recv(p.local[0], &c, 1, 0), 0);
    end(&p);
    begin(&p);
    ft_tls_pipes_destroy(p.pipes);
    p.pipes = NULL;
    assert_int_equal(recv(p.local[0], &c, 1, 0), 0);
    assert_int_equal(client_recv(&p, (uint8_t *)&c, 1), 0);
    end(&p);
}

static void expect_names(const char *client, const char *names)
{
    place p;
    ft_buf got = {0};
    char ca[32];
    snprintf(ca, sizeof ca, "%s.pem", client);
    assert_int_equal(shake_hands(&p, client, ca), FT_TLS_OK);
    assert_int_equal(ft_tls_conn_names(p.conn, &got), FT_OK);
    assert_string_equal(ft_buf_str(&got), names);
    ft_buf_deinit(&got);
    ft_tls_conn_destroy(p.conn);
    close(p.net[1]);
    end_client(&p);
}

static void test_names(void **state)
{
    expect_names("plain", "cert:plain;");
    expect_names("named", "cert:edge.test;cert:127.0.0.9;");
}

static void expect_refused(const char *client, const char *ca)
{
    place p;
    assert_int_equal(shake_hands(&p, client, ca), FT_TLS_END);
    ft_tls_conn_destroy(p.conn);
    close(p.net[1]);
    end_client(&p);
}

static void test_refused(void **state)
{
    expect_refused(NULL, "plain.pem");
    expect_refused("named", "plain.pem");
    place p;
    uint8_t noise[64];
    assert_int_equal(shake_hands(&p, NULL, NULL), FT_TLS_OK);
    memset(noise, 0x5a, sizeof noise);
    assert_int_equal(send(p.net[0], noise, sizeof noise, 0), sizeof noise); /* no TLS record */
    assert_int_equal(ft_tls_conn_fill(p.conn), FT_TLS_END);
    ft_tls_conn_destroy(p.conn);
    close(p.net[1]);
    end_client(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways),  cmocka_unit_test(test_local_end),
        cmocka_unit_test(test_other_ends), cmocka_unit_test(test_names),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
