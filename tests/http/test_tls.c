// SPDX-License-Identifier: Apache-2.0
// HTTPS (http/tls.h): which certificate clients see, and that it can be read again. Certificates
// are made by the openssl program; without it the tests say so and are skipped.
#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "http/openai.h"
#include "support/http_backend.h"

static char folder[] = "/tmp/ft-https-XXXXXX";
static bool have_certificates;

static void run(const char *format, ...)
{
    char script[1024], command[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(script, sizeof script, format, args);
    va_end(args);
    snprintf(command, sizeof command, "exec >/dev/null 2>&1; set -e; cd '%s'; %s", folder, script);
    have_certificates = system(command) == 0;
}

static int make_certificates(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    run("for c in first second; do openssl req -x509 -newkey ec -pkeyopt "
        "ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout $c.key -out $c.pem -subj /CN=$c; "
        "done; cp first.pem now.pem; cp first.key now.key");
    if (!have_certificates)
        print_message("NO CERTIFICATES: these tests need the openssl program\n");
    return 0;
}

static int remove_certificates(void **state)
{
    (void)state;
    run("rm -r '%s'", folder);
    return 0;
}

/* ---- a client ---- */

typedef struct https {
    int fd;
    gnutls_certificate_credentials_t creds;
    gnutls_session_t session;
    char name[64]; /* in the server's certificate */
} https;

static void https_open(https *c, int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    gnutls_x509_crt_t crt;
    size_t n = sizeof c->name;
    unsigned n_peers = 0;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(c->fd, (struct sockaddr *)&to, sizeof to), 0);
    gnutls_certificate_allocate_credentials(&c->creds);
    gnutls_init(&c->session, GNUTLS_CLIENT);
    gnutls_set_default_priority(c->session);
    gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, c->creds);
    gnutls_transport_set_int(c->session, c->fd);
    int rc;
    do
        rc = gnutls_handshake(c->session);
    while (rc < 0 && !gnutls_error_is_fatal(rc));
    assert_int_equal(rc, GNUTLS_E_SUCCESS);
    const gnutls_datum_t *peers = gnutls_certificate_get_peers(c->session, &n_peers);
    assert_int_equal(n_peers, 1);
    gnutls_x509_crt_init(&crt);
    assert_int_equal(gnutls_x509_crt_import(crt, peers, GNUTLS_X509_FMT_DER), 0);
    assert_int_equal(
        gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, c->name, &n), 0);
    gnutls_x509_crt_deinit(crt);
}

/* The server answers over this connection. */
static void https_ask(https *c, int port)
{
    char request[128], answer[1024];
    int n = snprintf(request, sizeof request,
                     "GET /v1/models HTTP/1.1\r\nHost: localhost:%d\r\n\r\n", port);
    assert_int_equal(gnutls_record_send(c->session, request, (size_t)n), n);
    size_t at = 0;
    answer[0] = 0;
    while (!strstr(answer, "\"object\":\"list\"")) { /* the body comes in a record of its own */
        ssize_t got = gnutls_record_recv(c->session, answer + at, sizeof answer - 1 - at);
        if (got == GNUTLS_E_AGAIN || got == GNUTLS_E_INTERRUPTED)
            continue;
        assert_true(got > 0);
        at += (size_t)got;
        answer[at] = 0;
    }
}

static void https_close(https *c)
{
    gnutls_deinit(c->session);
    gnutls_certificate_free_credentials(c->creds);
    close(c->fd);
}

static void expect_name(int port, const char *name)
{
    https c;
    https_open(&c, port);
    assert_string_equal(c.name, name);
    https_ask(&c, port);
    https_close(&c);
}

static void test_certificate_is_read_again(void **state)
{
    char cert[64], key[64];
    ft_error err = {0};
    ft_http *http;
    https present;
    (void)state;
    if (!have_certificates)
        skip();
    snprintf(cert, sizeof cert, "%s/now.pem", folder);
    snprintf(key, sizeof key, "%s/now.key", folder);
    http_backend backend;
    http_backend_init(&backend);
    const ft_http_opts opts = {
        .tls_cert = cert, .tls_key = key, .backend = http_backend_of(&backend)};
    if (ft_http_create(&opts, &err, &http) != FT_OK)
        fail_msg("%s", err.message);
    const int port = ft_http_port(http);
    https_open(&present, port);
    https_ask(&present, port);
    assert_string_equal(present.name, "first");
    run("cp second.pem now.pem"); /* without its key */
    assert_int_equal(ft_http_reload_tls(http, &err), FT_INVALID);
    assert_non_null(strstr(err.message, "do not fit"));
    expect_name(port, "first");
    run("cp second.key now.key");
    expect_name(port, "first"); /* not before it is told to */
    assert_int_equal(ft_http_reload_tls(http, &err), FT_OK);
    expect_name(port, "second");
    run("echo garbage > now.key");
    assert_int_equal(ft_http_reload_tls(http, &err), FT_INVALID);
    assert_non_null(strstr(err.message, "not a PEM file"));
    expect_name(port, "second");
    https_ask(&present, port);
    https_close(&present);
    ft_http_destroy(http);
    http_backend_deinit(&backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_certificate_is_read_again)};
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
