// SPDX-License-Identifier: Apache-2.0
// Tokens, TLS and mutual TLS over real connections (wire/auth.h), and the PEM reader (wire/rpc.h).
// Certificates are made by the openssl program; without it the TLS tests say so and are skipped.
#include <sys/stat.h>
#include <unistd.h>

#include <sched.h>
#include <sys/resource.h>

#include "fixture.h"
#include "http2.h"

static char folder[] = "/tmp/ft-wire-XXXXXX";
static bool have_certificates;

/* A path in the test's folder; up to eight at a time. */
static const char *file(const char *name)
{
    static char paths[8][128];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int make_certificates(void **state)
{
    static const char script[] =
        "exec >/dev/null 2>&1; set -e; cd '%s'; "
        "key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2'; "
        "for ca in ca other; do "
        "  openssl req -x509 $key -keyout $ca.key -out $ca.pem -subj /CN=$ca-authority; done; "
        "issue() { openssl req $key -keyout $1.key -out $1.csr -subj /CN=$1 && "
        "  openssl x509 -req -in $1.csr -CA $2.pem -CAkey $2.key -CAcreateserial -days 2 "
        "  -out $1.pem -extfile $1.ext; }; "
        "echo subjectAltName=DNS:verifier.test,IP:127.0.0.1 > server.ext; "
        "for c in edge-1 edge-2 stranger; do echo basicConstraints=CA:FALSE > $c.ext; done; "
        "echo subjectAltName=DNS:verifier.test,IP:127.0.0.1 > later.ext; issue later other; "
        "issue server ca; issue edge-1 ca; issue edge-2 ca; issue stranger other; "
        "echo garbage > garbage.pem";
    char command[2048];
    if (!mkdtemp(folder))
        return -1;
    snprintf(command, sizeof command, script, folder);
    have_certificates = system(command) == 0;
    if (!have_certificates)
        print_message("NO CERTIFICATES: the TLS tests need the openssl program\n");
    return 0;
}

static int remove_certificates(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command) == 0 ? 0 : -1;
}

static void need_certificates(void)
{
    if (!have_certificates)
        skip();
}

/* A session over a new client gets through, and its credential is left in e. */
static void expect_welcome(echo *e, const ft_wire_client_opts *opts)
{
    ft_wire_client *client = dial(ft_wire_server_port(e->server), opts);
    ft_call *call = open_call(client);
    send_open(call, 3);
    expect_opened(call, 3);
    ft_call_destroy(call);
    ft_wire_client_destroy(client);
}

static void expect_refusal(echo *e, const ft_wire_client_opts *opts, ft_status code,
                           const char *part)
{
    ft_msg_info info;
    ft_error err = {0};
    ft_wire_client *client = dial(ft_wire_server_port(e->server), opts);
    ft_call *call = open_call(client);
    send_open(call, 3);
    expect_end(call, code, part);
    ft_call_destroy(call);
    assert_int_equal(ft_wire_client_info(client, LIMIT_US, &err, &info), code);
    print_message("    %s\n", err.message);
    ft_wire_client_destroy(client);
}

static void test_tokens(void **state)
{
    echo e;
    char first[256], again[256];
    echo_init(&e);
    ft_wire_server_opts opts = echo_opts(&e);
    opts.token = "correct horse";
    echo_start(&e, &opts);
    expect_refusal(&e, NULL, FT_UNAUTHENTICATED, "none was sent");
    static const char *wrong[] = {"correct hors", "correct horse ", "correct horsf", "C", "x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refusal(&e, &(ft_wire_client_opts){.token = wrong[i]}, FT_UNAUTHENTICATED,
                       "wrong bearer token");
    assert_int_equal(echo_count(&e, &e.messages), 0);
    expect_welcome(&e, &(ft_wire_client_opts){.token = "correct horse"});
    echo_credential(&e, first);
    expect_welcome(&e, &(ft_wire_client_opts){.token = "correct horse"});
    echo_credential(&e, again);
    assert_string_equal(first, again);
    assert_null(strstr(first, "horse"));
    echo_deinit(&e);
    assert_int_equal(e.ended, 2); /* refused calls never were streams */
}

/* A server that asks for no token still tells those apart who send one. */
static void test_credentials_differ(void **state)
{
    echo e;
    char one[256], two[256];
    echo_init(&e);
    echo_start(&e, NULL);
    expect_welcome(&e, NULL);
    echo_credential(&e, one);
    assert_string_equal(one, "anonymous");
    expect_welcome(&e, &(ft_wire_client_opts){.token = "one"});
    echo_credential(&e, one);
    expect_welcome(&e, &(ft_wire_client_opts){.token = "two"});
    echo_credential(&e, two);
    assert_string_not_equal(one, two);
    assert_string_not_equal(one, "anonymous");
    echo_deinit(&e);
}

static void test_illegal_tokens(void **state)
{
    static const char *bad[] = {"", "line\nbreak", "caf\xc3\xa9"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ft_wire_client *client = NULL;
        ft_error err;
        ft_wire_client_opts opts = {.address = "127.0.0.1:1", .token = bad[i]};
        assert_int_equal(ft_wire_client_create(&opts, &err, &client), FT_INVALID);
    }
    echo e;
    ft_error err;
    echo_init(&e);
    ft_wire_server_opts opts = echo_opts(&e);
    opts.token = "";
    assert_int_equal(ft_wire_server_create(&opts, &err, &e.server), FT_INVALID);
    echo_deinit(&e);
}

static void test_tls(void **state)
{
    need_certificates();
    echo e;
    echo_init(&e);
    ft_wire_server_opts opts = echo_opts(&e);
    opts.tls_cert = file("server.pem");
    opts.tls_key = file("server.key");
    echo_start(&e, &opts);
    expect_welcome(&e, &(ft_wire_client_opts){.tls_ca = file("ca.pem")});
    char who[256];
    echo_credential(&e, who);
    assert_string_equal(who, "anonymous");
    expect_welcome(&e,
                   &(ft_wire_client_opts){.tls_ca = file("ca.pem"), .tls_name = "verifier.test"});
    expect_refusal(&e, &(ft_wire_client_opts){.tls_ca = file("ca.pem"), .tls_name = "evil.test"},
                   FT_UNAVAILABLE, "TLS");
    expect_refusal(&e, &(ft_wire_client_opts){.tls_ca = file("other.pem")}, FT_UNAVAILABLE, "TLS");
    expect_refusal(&e, &(ft_wire_client_opts){.tls = true}, FT_UNAVAILABLE, "TLS");
    expect_refusal(&e, NULL, FT_UNAVAILABLE, "127.0.0.1:"); /* plaintext to a TLS port */
    echo_deinit(&e);
}

/* Clients are told apart by address with TLS, too. */
static void test_share_over_tls(void **state)
{
    need_certificates();
    echo e;
    echo_init(&e);
    ft_wire_server_opts opts = echo_opts(&e);
    opts.tls_cert = file("server.pem");
    opts.tls_key = file("server.key");
    opts.max_streams = 8;
    opts.client_share = 25;
    echo_start(&e, &opts);
    ft_wire_client *client =
        dial(ft_wire_server_port(e.server), &(ft_wire_client_opts){.tls_ca = file("ca.pem")});
    ft_call *call[3];
    for (int i = 0; i < 3; i++) {
        call[i] = open_call(client);
        send_open(call[i], 3);
        if (i < 2)
            expect_opened(call[i], 3);
    }
    expect_end(call[2], FT_EXHAUSTED, "127.0.0.1 has 2 of the server's 8 streams");
    for (int i = 0; i < 3; i++)
        ft_call_destroy(call[i]);
    echo_close(&e, client);
}

/* Connections that begin no handshake take their own address's places alone, and are ended. When no
 * descriptor is free nobody comes in; with one again, everybody does. */
static void test_silent_connections_over_tls(void **state)
{
    enum { PLACES = 8 + 3 * 256, GET_IN = PLACES / 4, MORE = 40 };
    static h2 silent[GET_IN + MORE];
    need_certificates();
    echo e;
    echo_init(&e);
    ft_wire_server_opts opts = echo_opts(&e);
    opts.tls_cert = file("server.pem");
    opts.tls_key = file("server.key");
    opts.max_streams = 8;
    opts.client_share = 25;
    echo_start(&e, &opts);
    const int port = ft_wire_server_port(e.server);
    for (int i = 0; i < GET_IN + MORE; i++)
        h2_connect(&silent[i], "127.0.0.2", port);
    const ft_wire_client_opts by_ca = {.tls_ca = file("ca.pem")};
    expect_welcome(&e, &by_ca);
    for (int i = 0; i < GET_IN + MORE; i++) {
        h2_wait_closed(&silent[i]); /* 10 s, or at once */
        h2_close(&silent[i]);
    }
    struct rlimit before, none = {0};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none.rlim_max = before.rlim_max;
    h2_connect(&silent[0], "127.0.0.2", port); /* now some descriptors are open */
    none.rlim_cur = (rlim_t)silent[0].fd;
    silent[1].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    h2_use(&silent[1], silent[1].fd, "127.0.0.2", port); /* is not accepted */
    sched_yield();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    expect_welcome(&e, &by_ca);
    h2_close(&silent[0]);
    h2_close(&silent[1]);
    echo_deinit(&e);
}

static void test_mutual_tls(void **state)
{
    need_certificates();
    echo e;
    char first[256], second[256];
    echo_init(&e);
    ft_wire_server_opts opts = echo_opts(&e);
    opts.tls_cert = file("server.pem");
    opts.tls_key = file("server.key");
    opts.tls_client_ca = file("ca.pem");
    echo_start(&e, &opts);
    ft_wire_client_opts edge = {.tls_ca = file("ca.pem")};
    expect_refusal(&e, &edge, FT_UNAVAILABLE, "");
    edge.tls_cert = file("stranger.pem");
    edge.tls_key = file("stranger.key");
    expect_refusal(&e, &edge, FT_UNAVAILABLE, "");
    edge.tls_cert = file("edge-1.pem");
    edge.tls_key = file("edge-1.key");
    expect_welcome(&e, &edge);
    echo_credential(&e, first);
    assert_string_equal(first, "cert:edge-1;");
    edge.token = "mine";
    expect_welcome(&e, &edge);
    echo_credential(&e, first);
    edge.tls_cert = file("edge-2.pem");
    edge.tls_key = file("edge-2.key");
    expect_welcome(&e, &edge);
    echo_credential(&e, second);
    assert_string_not_equal(first, second); /* same token, other certificate */
    echo_deinit(&e);
}

static void expect_no_server(ft_wire_server_opts opts, const char *part)
{
    ft_wire_server *server = NULL;
    ft_error err = {0};
    ft_status status = ft_wire_server_create(&opts, &err, &server);
    if (status != FT_INVALID || !strstr(err.message, part))
        fail_msg("wanted INVALID \"%s\", got %s: %s", part, ft_status_name(status), err.message);
    assert_null(server);
}

static void test_bad_tls_files(void **state)
{
    need_certificates();
    echo e;
    echo_init(&e);
    ft_wire_server_opts opts = echo_opts(&e);
    opts.tls_cert = file("server.pem");
    expect_no_server(opts, "only the certificate");
    opts.tls_key = file("missing.key");
    expect_no_server(opts, "cannot read");
    opts.tls_key = file("garbage.pem");
    expect_no_server(opts, "not a PEM file");
    opts.tls_key = file("edge-1.key");
    expect_no_server(opts, "do not fit");
    opts.tls_cert = opts.tls_key = NULL;
    opts.tls_client_ca = file("ca.pem");
    expect_no_server(opts, "client CA needs");
    ft_wire_client *client = NULL;
    ft_error err = {0};
    ft_wire_client_opts dialed = {.address = "127.0.0.1:1", .tls_ca = file("missing.pem")};
    assert_int_equal(ft_wire_client_create(&dialed, &err, &client), FT_INVALID);
    assert_null(client);
    echo_deinit(&e);
}

static void put_file(const char *from, const char *to)
{
    char command[512];
    snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
    assert_int_equal(system(command), 0);
}

/* Later connections see the new certificate, present ones go on; wrong files change nothing. */
static void test_certificates_are_read_again(void **state)
{
    need_certificates();
    echo e;
    ft_error err = {0};
    echo_init(&e);
    ft_wire_server_opts opts = echo_opts(&e);
    char cert[64], key[64], ca[64], other[64];
    opts.tls_cert = strcpy(cert, file("now.pem"));
    opts.tls_key = strcpy(key, file("now.key"));
    put_file(file("server.pem"), cert);
    put_file(file("server.key"), key);
    echo_start(&e, &opts);
    const ft_wire_client_opts by_ca = {.tls_ca = strcpy(ca, file("ca.pem"))},
                              by_other = {.tls_ca = strcpy(other, file("other.pem"))};
    ft_wire_client *present = dial(ft_wire_server_port(e.server), &by_ca);
    ft_call *call = open_call(present);
    send_open(call, 3);
    expect_opened(call, 3);
    put_file(file("later.pem"), cert); /* without its key */
    assert_int_equal(ft_wire_server_reload_tls(e.server, &err), FT_INVALID);
    assert_non_null(strstr(err.message, "do not fit"));
    expect_welcome(&e, &by_ca);
    put_file(file("later.key"), key);
    expect_welcome(&e, &by_ca); /* only when it is told to */
    assert_int_equal(ft_wire_server_reload_tls(e.server, &err), FT_OK);
    expect_welcome(&e, &by_other);
    expect_refusal(&e, &by_ca, FT_UNAVAILABLE, "TLS");
    put_file(file("garbage.pem"), key);
    assert_int_equal(ft_wire_server_reload_tls(e.server, &err), FT_INVALID);
    assert_non_null(strstr(err.message, "not a PEM file"));
    expect_welcome(&e, &by_other);
    send_draft(call, 1, 2, 0);
    expect_verdict(call, 1, 2);
    ft_call_destroy(call);
    ft_wire_client_destroy(present);
    echo_deinit(&e);
}

/* What the other side says goes to a terminal: no control bytes, no broken characters. */
static void test_printable(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"plain", "plain"},
        {"a\x1b[31mred\r\nb\x7f", "a [31mred  b "},
        {"caf\xc3\xa9", "caf\xc3\xa9"},
        {"bad\xff\xfe!", "bad?"
                         "?!"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[32];
        grpc_slice slice = grpc_slice_from_copied_string(cases[i].in);
        ft_rpc_printable(slice, out, sizeof out);
        assert_string_equal(out, cases[i].out);
        grpc_slice_unref(slice);
    }
    char small[5];
    grpc_slice slice = grpc_slice_from_copied_string("abc\xc3\xa9z");
    ft_rpc_printable(slice, small, sizeof small);
    assert_string_equal(small, "abc"); /* not half a character */
    grpc_slice_unref(slice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_credentials_differ),
        cmocka_unit_test(test_illegal_tokens),
        cmocka_unit_test(test_tls),
        cmocka_unit_test(test_share_over_tls),
        cmocka_unit_test(test_silent_connections_over_tls),
        cmocka_unit_test(test_mutual_tls),
        cmocka_unit_test(test_bad_tls_files),
        cmocka_unit_test(test_certificates_are_read_again),
        cmocka_unit_test(test_printable),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
