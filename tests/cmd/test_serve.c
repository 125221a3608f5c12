// SPDX-License-Identifier: Apache-2.0
// `foretoken serve --http-port`, run as a program on a tiny model: the server's own OpenAI API says
// what an edge's says, keeps the same guards, and ends in order.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "support/api_client.h"
#include "support/device.h"
#include "support/http_client.h"
#include "support/program.h"
#include "support/tiny_gguf.h"

#define TEXT "/v1/completions"

static char *model;

static int set_up(void **state)
{
    const tiny_gguf_opts opts = {.type = GGML_TYPE_Q4_0, .seed = 3};
    signal(SIGPIPE, SIG_IGN);
    model = tiny_gguf_temp(&opts);
    return 0;
}

static int tear_down(void **state)
{
    unlink(model);
    free(model);
    return 0;
}

static void test_same_text_as_an_edge(void **state)
{
    char address[32];
    http_response r;
    program server = program_start((const char *[]){"serve", "-m", model, "-t", "1", "--port", "0",
                                                    "--http-port", "0", "--alias", "tiny", NULL});
    snprintf(address, sizeof address, "127.0.0.1:%d", program_wait_port(&server, "listening"));
    int own = program_wait_port(&server, "api url=");
    program edge = program_start(
        (const char *[]){"edge", "--server", address, "-m", model, "--port", "0", NULL});
    int edges = program_wait_port(&edge, "foretoken edge");
    assert_true(own > 0 && edges > 0);
    for (int i = 0; i < 2; i++) {
        char *a = api_complete(own, i * 0.8), *b = api_complete(edges, i * 0.8);
        assert_string_equal(a, b);
        free(a);
        free(b);
    }
    assert_int_equal(http_ask(own, "GET", "/v1/models", "", NULL, &r), 200);
    assert_non_null(strstr(r.body.data, "\"tiny\""));
    http_response_deinit(&r);
    assert_int_equal(http_ask(own, "GET", "/health", "", NULL, &r), 200);
    http_response_deinit(&r);
    assert_int_equal(http_ask(own, "GET", "/metrics", "", NULL, &r), 200);
    assert_non_null(strstr(r.body.data, "foretoken_edge_generations_total 2"));
    http_response_deinit(&r);
    assert_int_equal(program_stop(&edge), 0);
    assert_int_equal(program_stop(&server), 0);
}

/* The server drafts for clients that cannot: the same text, in fewer passes. */
static void test_own_drafts(void **state)
{
    char *text[2];
    long passes[2];
    for (int i = 0; i < 2; i++) {
        program server = program_start((const char *[]){
            "serve", "-m", model, "-t", "1", "--port", "0", "-c", "512", "--metrics", "0",
            "--http-port", "0", i ? "-md" : NULL, model, "--draft-always", NULL});
        int metrics = program_wait_number(&server, "metrics host=", "port=");
        int port = program_wait_port(&server, "api url=");
        assert_true(metrics > 0 && port > 0);
        text[i] = api_complete(port, 0.8);
        passes[i] = api_metric(metrics, "pass_rows_count");
        assert_int_equal(api_metric(metrics, "own_accepted_tokens_total") > 0, i);
        assert_int_equal(program_stop(&server), 0);
    }
    if (!test_device()) /* there, rounding may choose between two tokens: cmd/test_device.c */
        assert_string_equal(text[0], text[1]);
    assert_true(passes[1] < passes[0]);
    free(text[0]);
    free(text[1]);
}

static void expect(int port, int status, const char *headers)
{
    http_response r;
    assert_int_equal(
        http_ask(port, "POST", TEXT, headers, "{\"prompt\":\"a\",\"max_tokens\":1}", &r), status);
    http_response_deinit(&r);
}

#define KEY "Authorization: Bearer open-sesame-16-bytes\r\n"

static void test_guards(void **state)
{
    program server = program_start((const char *[]){
        "serve", "-m", model, "-t", "1", "--port", "0", "--http-port", "0", "--api-key",
        "open-sesame-16-bytes", "--allow-origin", "http://good.example", NULL});
    int port = program_wait_port(&server, "api url=");
    assert_true(port > 0);
    expect(port, 200, KEY);
    expect(port, 401, "");
    expect(port, 401, "Authorization: Bearer other\r\n");
    expect(port, 415, KEY "Content-Type: text/plain\r\n");
    expect(port, 403, KEY "Origin: http://evil.example\r\n");
    expect(port, 200, KEY "Origin: http://good.example\r\n");
    assert_int_equal(program_stop(&server), 0);
}

static void write_keys(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int ask_as(int port, const char *token, const char *more)
{
    http_response r;
    char header[100], body[300];
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", token);
    snprintf(body, sizeof body,
             "{\"prompt\":\"of more than one block: it can be found again\",\"max_tokens\":1%s}",
             more);
    int status = http_ask(port, "POST", TEXT, header, body, &r);
    http_response_deinit(&r);
    return status;
}

/* A tenant is the same over the API: its token, its promises, its count. SIGHUP reads the file
 * again. */
static void test_keys(void **state)
{
    char *path = tiny_temp_path(), address[32];
    write_keys(path, "{\"keys\": [{\"token\": \"token-of-team-a!\", \"name\": \"team-a\", "
                     "\"slo_tokens_per_s\": 4}]}");
    program server = program_start((const char *[]){"serve", "-m", model, "-t", "1", "--port", "0",
                                                    "--http-port", "0", "--metrics", "0", "--keys",
                                                    path, "--slo", "2,4,8", NULL});
    snprintf(address, sizeof address, "127.0.0.1:%d", program_wait_port(&server, "listening"));
    int metrics = program_wait_number(&server, "metrics host=", "port=");
    int port = program_wait_port(&server, "api url=");
    program edge =
        program_start((const char *[]){"edge", "--server", address, "-m", model, "--port", "0",
                                       "--token", "token-of-team-a!", NULL});
    int edges = program_wait_port(&edge, "foretoken edge");
    assert_true(metrics > 0 && port > 0 && edges > 0);
    assert_int_equal(ask_as(edges, "any", ",\"slo_tokens_per_s\":5"), 403);
    expect(port, 401, "");
    assert_int_equal(ask_as(port, "token-of-nobody-", ""), 401);
    assert_int_equal(ask_as(edges, "any", ""), 200);
    assert_int_equal(api_metric(metrics, "prefix_hit_tokens_total"), 0);
    assert_int_equal(ask_as(port, "token-of-team-a!", ""), 200);
    assert_true(api_metric(metrics, "prefix_hit_tokens_total") > 0);
    assert_int_equal(ask_as(port, "token-of-team-a!", ",\"slo_tokens_per_s\":3"), 200);
    assert_int_equal(ask_as(port, "token-of-team-a!", ",\"slo_tokens_per_s\":5"), 403);
    assert_int_equal(ask_as(port, "token-of-team-a!", ",\"slo_tokens_per_s\":9"), 403);
    assert_int_equal(api_metric(metrics, "key_sessions_opened_total{key=\"team-a\"}"), 3);
    assert_int_equal(
        api_metric(metrics, "key_opens_refused_total{key=\"team-a\",status=\"forbidden\"}"), 3);
    write_keys(path, "{\"keys\": []}");
    kill(server.pid, SIGHUP);
    assert_true(program_wait_number(&server, "keys not reloaded", "1 to ") > 0);
    assert_int_equal(ask_as(port, "token-of-team-a!", ""), 200);
    write_keys(path, "{\"keys\": [{\"token\": \"token-of-team-b!\", \"name\": \"team-b\"}]}");
    kill(server.pid, SIGHUP);
    assert_int_equal(program_wait_number(&server, "keys reloaded", "n="), 1);
    assert_int_equal(ask_as(port, "token-of-team-a!", ""), 401);
    assert_int_equal(ask_as(edges, "any", ""), 401);
    assert_int_equal(program_stop(&edge), 0);
    assert_int_equal(ask_as(port, "token-of-team-b!", ",\"slo_tokens_per_s\":8"), 200);
    assert_int_equal(program_stop(&server), 0);
    unlink(path);
    free(path);
}

/* SIGHUP makes the server read the certificates of both ports again; a wrong file changes nothing.
 * (What clients see then: tests/wire/test_auth.c, tests/http/test_tls.c.) */
static void test_certificates(void **state)
{
    char folder[] = "/tmp/ft-serve-XXXXXX", cert[64], key[64], command[600];
    assert_non_null(mkdtemp(folder));
    snprintf(cert, sizeof cert, "%s/cert.pem", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
             "-keyout %s -out %s -subj /CN=me >/dev/null 2>&1",
             key, cert);
    if (system(command) != 0) {
        print_message("SKIPPED: it needs the openssl program\n");
        rmdir(folder);
        skip();
    }
    program server = program_start((const char *[]){
        "serve", "-m", model, "-t", "1", "--port", "0", "--tls-cert", cert, "--tls-key", key,
        "--http-port", "0", "--https-cert", cert, "--https-key", key, NULL});
    assert_true(program_wait_number(&server, "api url=", "127.0.0.1:") > 0);
    kill(server.pid, SIGHUP);
    assert_int_not_equal(program_wait_number(&server, "serve: certificate reloaded", ""), -1);
    assert_int_not_equal(program_wait_number(&server, "http: certificate reloaded", ""), -1);
    write_keys(key, "garbage");
    kill(server.pid, SIGHUP);
    assert_int_not_equal(program_wait_number(&server, "serve: certificate not reloaded", ""), -1);
    assert_int_not_equal(program_wait_number(&server, "http: certificate not reloaded", ""), -1);
    assert_int_equal(program_stop(&server), 0);
    unlink(cert);
    unlink(key);
    rmdir(folder);
}

/* A text that runs when the signal comes is told to its end. */
static void test_drain(void **state)
{
    http_client c;
    http_response r;
    program server = program_start(
        (const char *[]){"serve", "-m", model, "-t", "1", "--port", "0", "--http-port", "0", NULL});
    int port = program_wait_port(&server, "api url=");
    assert_true(port > 0 && http_client_open(&c, port));
    assert_true(http_client_request(&c, "POST", TEXT, "",
                                    "{\"prompt\":\"abc\",\"max_tokens\":150,\"stream\":true,"
                                    "\"temperature\":2,\"seed\":5}"));
    assert_true(http_client_read_until(&c, "data:"));
    kill(server.pid, SIGTERM);
    assert_true(http_client_response(&c, false, &r));
    assert_non_null(strstr(r.body.data, "finish_reason\":\""));
    assert_non_null(strstr(r.body.data, "[DONE]"));
    http_response_deinit(&r);
    http_client_close(&c);
    assert_int_equal(program_wait_end(&server), 0);
}

/* After --drain-s a text is cut, and its client is told. Many layers make the text last. */
static void test_drain_is_over(void **state)
{
    const tiny_gguf_opts opts = {.type = GGML_TYPE_Q4_0, .n_layer = 200, .seed = 3};
    char *slow = tiny_gguf_temp(&opts);
    http_client c;
    http_response r;
    program server =
        program_start((const char *[]){"serve", "-m", slow, "-t", "1", "-c", "2048", "--port", "0",
                                       "--http-port", "0", "--drain-s", "0", NULL});
    const int port = program_wait_port(&server, "api url=");
    assert_true(port > 0 && http_client_open(&c, port));
    assert_true(http_client_request(&c, "POST", TEXT, "",
                                    "{\"prompt\":\"abc\",\"max_tokens\":2000,\"stream\":true,"
                                    "\"temperature\":2,\"seed\":5}"));
    assert_true(http_client_read_until(&c, "data:"));
    kill(server.pid, SIGTERM);
    assert_int_equal(program_wait_number(&server, "draining", "grace_s="), 0);
    if (http_client_response(&c, false, &r))
        assert_null(strstr(r.body.data, "finish_reason\":\""));
    http_response_deinit(&r);
    http_client_close(&c);
    assert_int_equal(program_wait_end(&server), 0);
    unlink(slow);
    free(slow);
}

/* Health says no at once; a text that is asked for after the signal is told nevertheless. */
static void test_retire(void **state)
{
    http_response r;
    program server =
        program_start((const char *[]){"serve", "-m", model, "-t", "1", "--port", "0",
                                       "--http-port", "0", "--shutdown-delay-s", "2", NULL});
    const int port = program_wait_port(&server, "api url=");
    assert_true(port > 0);
    kill(server.pid, SIGTERM);
    assert_int_equal(program_wait_number(&server, "retiring", "delay_s="), 2);
    assert_int_equal(http_ask(port, "GET", "/health", "", NULL, &r), 503);
    http_response_deinit(&r);
    assert_int_equal(http_ask(port, "POST", TEXT, "", "{\"prompt\":\"abc\",\"max_tokens\":3}", &r),
                     200);
    http_response_deinit(&r);
    assert_int_equal(program_wait_number(&server, "draining", "grace_s="), 30);
    assert_int_equal(program_wait_end(&server), 0);
}

/* A session whose edge has died may be resumed until the server ends, so the server waits for it;
 * but not after a second signal. */
static void test_second_signal(void **state)
{
    char address[32];
    http_client c;
    program server = program_start(
        (const char *[]){"serve", "-m", model, "-t", "1", "--port", "0", "-c", "2048", NULL});
    snprintf(address, sizeof address, "127.0.0.1:%d", program_wait_port(&server, "listening"));
    program edge = program_start((const char *[]){"edge", "--server", address, "-m", model,
                                                  "--port", "0", "--no-speculation", NULL});
    assert_true(http_client_open(&c, program_wait_port(&edge, "foretoken edge")));
    assert_true(http_client_request(&c, "POST", TEXT, "",
                                    "{\"prompt\":\"abc\",\"max_tokens\":2000,\"stream\":true,"
                                    "\"temperature\":2,\"seed\":5}"));
    assert_true(http_client_read_until(&c, "data:"));
    kill(server.pid, SIGSTOP); /* the text does not end meanwhile */
    kill(edge.pid, SIGKILL);
    assert_int_equal(program_wait_end(&edge), 128 + SIGKILL);
    kill(server.pid, SIGCONT);
    assert_true(program_wait_number(&server, "detached", "length=") > 0);
    kill(server.pid, SIGTERM);
    assert_int_equal(program_wait_number(&server, "draining", "grace_s="), 30);
    kill(server.pid, SIGTERM);
    assert_int_equal(program_wait_end(&server), 128 + SIGTERM);
    http_client_close(&c);
}

static void limit(pid_t pid, int what, rlim_t most)
{
    const struct rlimit limit = {most, most};
    assert_int_equal(prlimit(pid, what, &limit, NULL), 0);
}

/* With what SQLite puts beside it. */
static void remove_trace(char *take_path)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[256];
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", take_path, ends[i]);
        unlink(path);
    }
    free(take_path);
}

/* A disk on which an edge's traces find no more room costs traces, not texts. */
static void test_full_disk(void **state)
{
    char address[32], *trace = tiny_temp_path();
    program server =
        program_start((const char *[]){"serve", "-m", model, "-t", "1", "--port", "0", NULL});
    snprintf(address, sizeof address, "127.0.0.1:%d", program_wait_port(&server, "listening"));
    unlink(trace);
    program edge =
        program_start((const char *[]){"edge", "--server", address, "-md", model, "--draft", "3",
                                       "--port", "0", "--trace", trace, NULL});
    const int port = program_wait_port(&edge, "foretoken edge");
    assert_true(port > 0);
    char *wanted = api_complete(port, 0.8);
    limit(edge.pid, RLIMIT_FSIZE, 4096); /* such as it has written already */
    char *before = api_complete(port, 0.8);
    assert_int_not_equal(program_wait_number(&edge, "rounds are not recorded", ""), -1);
    char *after = api_complete(port, 0.8);
    assert_string_equal(before, wanted);
    assert_string_equal(after, wanted);
    assert_int_equal(program_stop(&edge), 0);
    assert_int_equal(program_stop(&server), 0);
    free(wanted);
    free(before);
    free(after);
    remove_trace(trace);
}

/* Connections that take all open files are refused; when they have gone, there is room again. */
static void test_open_files(void **state)
{
    enum { MANY = 80 };
    http_client c[MANY];
    program server = program_start(
        (const char *[]){"serve", "-m", model, "-t", "1", "--port", "0", "--http-port", "0", NULL});
    const int port = program_wait_port(&server, "api url=");
    assert_true(port > 0);
    char *wanted = api_complete(port, 0.8);
    limit(server.pid, RLIMIT_NOFILE, 64);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) /* the kernel takes them, whoever accepts them */
            assert_true(http_client_open(&c[i], port));
        for (int i = 0; i < MANY; i++)
            http_client_close(&c[i]);
        char *text = api_complete(port, 0.8);
        assert_string_equal(text, wanted);
        free(text);
    }
    free(wanted);
    assert_int_equal(program_stop(&server), 0);
}

/* Memory of a program that is not a file's, in KiB. */
static long memory_kb(pid_t pid)
{
    char path[64], line[128];
    long kb = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "r");
    assert_non_null(status);
    while (kb < 0 && fgets(line, sizeof line, status))
        if (strncmp(line, "RssAnon:", 8) == 0)
            kb = atol(line + 8);
    fclose(status);
    assert_true(kb > 0);
    return kb;
}

/* Several bodies of so many bytes, none of them JSON, at the same time. */
static void send_garbage(int port, size_t n)
{
    enum { CLIENTS = 4 };
    http_client c[CLIENTS];
    http_response r;
    char *body = malloc(n + 1);
    assert_non_null(body);
    memset(body, 'x', n);
    body[n] = 0;
    for (int i = 0; i < CLIENTS; i++) {
        char head[200];
        snprintf(head, sizeof head,
                 "POST " TEXT " HTTP/1.1\r\nHost: localhost:%d\r\n"
                 "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                 port, n);
        assert_true(http_client_open(&c[i], port) && http_client_puts(&c[i], head));
        assert_true(http_client_send(&c[i], body, n - 1)); /* the server keeps it */
    }
    for (int i = 0; i < CLIENTS; i++) /* all of them before an answer: refusals of much are late */
        assert_true(http_client_puts(&c[i], "x"));
    for (int i = 0; i < CLIENTS; i++) {
        assert_true(http_client_response(&c[i], false, &r));
        assert_int_equal(r.status, 400);
        http_response_deinit(&r);
        http_client_close(&c[i]);
    }
    free(body);
}

/* The memory of large requests goes back to the system. */
static void test_memory_goes_back(void **state)
{
    enum { MIB = 1 << 20 };
    const tiny_gguf_opts opts = {.type = GGML_TYPE_Q4_0, .n_ctx_train = 1 << 18};
    char *wide = tiny_gguf_temp(&opts); /* bodies are as large as the context allows */
    program server =
        program_start((const char *[]){"serve", "-m", wide, "-t", "1", "--port", "0", "-c",
                                       "262144", "--http-port", "0", "--device", "none", NULL});
    const int port = program_wait_port(&server, "api url=");
    assert_true(port > 0);
    send_garbage(port, 1000); /* threads and their stacks */
    const long before = memory_kb(server.pid);
    assert_true(before > 0);
    for (int i = 3; i > 0; i--) /* glibc would keep what is smaller than the largest so far */
        send_garbage(port, (size_t)i * MIB);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they keep what was freed */
    assert_in_range(memory_kb(server.pid), 1, before + 4 * 1024);
#endif
    assert_int_equal(program_stop(&server), 0);
    unlink(wide);
    free(wide);
}

/* How many threads of the program have this nice value. */
static int n_threads(pid_t pid, int nice)
{
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    assert_non_null(tasks);
    for (const struct dirent *e; (e = readdir(tasks));) {
        const id_t thread = (id_t)atoi(e->d_name);
        errno = 0;
        n += thread > 0 && getpriority(PRIO_PROCESS, thread) == nice && errno == 0;
    }
    closedir(tasks);
    return n;
}

/* The threads that accept connections, one for each of three ports, have a lower priority than all
 * others; those that they cause to be started do not. */
static void test_priorities(void **state)
{
    enum { LOWEST = 19 };
    http_client c[8];
    const int own = getpriority(PRIO_PROCESS, 0);
    if (own + 10 > LOWEST)
        skip();
    program server = program_start((const char *[]){"serve", "-m", model, "-t", "1", "--port", "0",
                                                    "--metrics", "0", "--http-port", "0", NULL});
    const int port = program_wait_port(&server, "api url=");
    assert_true(port > 0);
    free(api_complete(port, 0)); /* all threads of the start have begun */
    for (int i = 0; i < 8; i++) {
        assert_true(http_client_open(&c[i], port));
        assert_true(http_client_request(&c[i], "POST", TEXT, "",
                                        "{\"prompt\":\"abc\",\"max_tokens\":1000,\"stream\":true,"
                                        "\"temperature\":2,\"seed\":5}"));
        assert_true(http_client_read_until(&c[i], "data:"));
    }
    assert_int_equal(n_threads(server.pid, own + 10), 3);
    for (int i = 0; i < 8; i++)
        http_client_close(&c[i]);
    assert_int_equal(program_stop(&server), 0);
}

static int status_of(int port, const char *path)
{
    http_response r;
    const int status = http_ask(port, "GET", path, "", NULL, &r);
    http_response_deinit(&r);
    return status;
}

/* Pages for people: the chat on the API's port, the figures on that of the metrics. */
static void test_pages(void **state)
{
    for (int without = 0; without < 2; without++) {
        program server = program_start((const char *[]){"serve", "-m", model, "-t", "1", "--port",
                                                        "0", "--metrics", "0", "--http-port", "0",
                                                        without ? "--no-page" : NULL, NULL});
        const int metrics = program_wait_number(&server, "metrics host=", "port=");
        const int port = program_wait_port(&server, "api url=");
        assert_int_equal(status_of(port, "/"), without ? 404 : 200);
        assert_int_equal(status_of(port, "/dashboard"), 404);
        assert_int_equal(status_of(metrics, "/"), 404);
        assert_int_equal(status_of(metrics, "/dashboard"), without ? 404 : 200);
        assert_int_equal(status_of(metrics, "/metrics"), 200);
        assert_int_equal(program_stop(&server), 0);
    }
}

/* The gauges of load under names that another program looks for. */
static void test_picker_metrics(void **state)
{
    http_response r;
    program server =
        program_start((const char *[]){"serve", "-m", model, "-t", "1", "--port", "0", "--metrics",
                                       "0", "--picker-metrics", "waiting,vllm:running,kv", NULL});
    const int port = program_wait_number(&server, "metrics host=", "port=");
    assert_int_equal(http_ask(port, "GET", "/metrics", "", NULL, &r), 200);
    assert_non_null(strstr(r.body.data, "\nwaiting 0\n"));
    assert_non_null(strstr(r.body.data, "\nvllm:running 0\n"));
    assert_non_null(strstr(r.body.data, "\nkv 0\n"));
    assert_non_null(strstr(r.body.data, "\nforetoken_rounds_waiting 0\n"));
    http_response_deinit(&r);
    assert_int_equal(program_stop(&server), 0);
    program_refuses("--picker-metrics needs --metrics", "serve -m x.gguf --picker-metrics vllm");
    program_refuses("three names of metrics", "serve -m x.gguf --metrics 0 --picker-metrics a,b");
}

/* The policy that a server with these flags says it has. */
static void policy_is(const char *flag, const char *value, const char *mark)
{
    program server = program_start(
        (const char *[]){"serve", "-m", model, "-t", "1", "--port", "0", flag, value, NULL});
    assert_true(program_wait_number(&server, mark, "context=") > 0);
    assert_int_equal(program_stop(&server), 0);
}

/* Who promises speeds keeps them, unless another policy is asked for. */
static void test_default_policy(void **state)
{
    policy_is(NULL, NULL, "policy=wisp");
    policy_is("--slo", "none", "policy=fcfs");
    policy_is("--policy", "edf", "policy=edf");
    policy_is("--policy", "fcfs", "policy=fcfs");
}

static int run(const char *const *args)
{
    program p = program_start(args);
    return program_wait_end(&p);
}

static void test_flags(void **state)
{
    assert_int_equal(run((const char *[]){"serve", "-m", model, "--api-key", "k", NULL}), 2);
    assert_int_equal(run((const char *[]){"serve", "-m", model, "--no-page", NULL}), 2);
    assert_int_equal(run((const char *[]){"serve", "-m", model, "--http-port", "0", "--api-key",
                                          "fifteen letters", NULL}),
                     2);
    assert_int_equal(
        run((const char *[]){"serve", "-m", model, "--token", "fifteen letters", NULL}), 2);
    assert_int_equal(run((const char *[]){"serve", "-m", model, "--http-port", "no", NULL}), 2);
    assert_int_equal(run((const char *[]){"serve", "-m", model, "--draft-always", NULL}), 2);
    assert_int_equal(run((const char *[]){"serve", "-m", model, "--slo", "2,4,", NULL}), 2);
    assert_int_equal(run((const char *[]){"serve", "-m", model, "--rules", "ratio", NULL}), 2);
    assert_int_equal(run((const char *[]){"serve", "-m", model, "--rules", "exact,", NULL}), 2);
    assert_int_equal(run((const char *[]){"serve", "-m", model, "--rules", "exact,exact", NULL}),
                     2);
    assert_int_equal(
        run((const char *[]){"serve", "-m", model, "--trusted-proxy", "10.0.0.0/33", NULL}), 2);
    assert_int_equal(run((const char *[]){"serve", "-m", model, "--per-client-share", "0", NULL}),
                     2);
    assert_int_equal(
        run((const char *[]){"serve", "-m", model, "--keys", "/dev/null", "--token", "t", NULL}),
        2);
    assert_int_equal(run((const char *[]){"serve", "-m", model, "--keys", "/no-such-file", NULL}),
                     2);
    assert_int_equal(run((const char *[]){"serve", "-m", model, "--keys", "/dev/null",
                                          "--http-port", "0", "--api-key", "k", NULL}),
                     2);
    assert_int_equal(run((const char *[]){"serve", "-m", model, "--http-port", "0.0.0.0:0", NULL}),
                     2);
    assert_int_equal(run((const char *[]){"serve", "-m", model, "--port", "0", "--http-port", "0",
                                          "--https-cert", model, "--https-key", model, NULL}),
                     1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_text_as_an_edge),
        cmocka_unit_test(test_own_drafts),
        cmocka_unit_test(test_guards),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_certificates),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_drain_is_over),
        cmocka_unit_test(test_retire),
        cmocka_unit_test(test_second_signal),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_open_files),
        cmocka_unit_test(test_memory_goes_back),
        cmocka_unit_test(test_priorities),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_picker_metrics),
        cmocka_unit_test(test_default_policy),
        cmocka_unit_test(test_flags),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
