// SPDX-License-Identifier: Apache-2.0
// foretoken edge: the agent next to the user's apps. Loads the draft model, connects to the
// verification server, serves the OpenAI API. Without a server it listens too, answers 503 with the
// reason and tries on. Everything lives until a signal; main thread only.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cmd/api.h"
#include "cmd/cmd.h"
#include "cmd/endpoint.h"
#include "cmd/gen_flags.h"

#define TRY_AGAIN_MS 1000 /* between two tries to reach a server that was never there */

typedef struct edge_flags {
    const char *server, *draft, *vocab, *cache_type;
    const char *host, *port_file;
    const char *token, *token_file;
    const char *tls_ca, *tls_cert, *tls_key, *tls_name;
    bool tls, insecure;
    int64_t port, threads, draft_kv, parallel, reconnect_ms;
    double slo;
    ft_edge_draft_flags spec;
    ft_trace_flags trace;
    ft_device_opts device;
    ft_api_flags api;
} edge_flags;

typedef struct edge_app {
    edge_flags f;
    ft_edge_opts how; /* how it drafts */
    ft_predictor predictor;
    char *token; /* from a file */
    ft_vocab *vocab;
    ft_model *draft;
    ft_trace *trace;
    ft_wire_client *client;
    ft_edge_opts edge_opts;
    ft_edge *edge;   /* NULL: the server was not there yet... */
    ft_error absent; /* ...for this reason */
    ft_api *api;
} edge_app;

static ft_status check(const edge_flags *f, ft_error *err)
{
    if (!f->server)
        return ft_error_set(err, FT_INVALID, "edge: pass --server HOST:PORT");
    if (!f->draft == !f->vocab)
        return ft_error_set(err, FT_INVALID,
                            "edge: pass a draft model with -md, or with -m a file of the server's "
                            "vocabulary, and not both");
    if (f->token && f->token_file)
        return ft_error_set(err, FT_INVALID, "edge: pass --token or --token-file, not both");
    return ft_api_flags_check(&f->api, "edge", "--host", f->host, f->insecure, err);
}

static ft_status load(edge_app *app, ft_error *err)
{
    const edge_flags *f = &app->f;
    ft_status status = FT_OK;
    if (f->token_file)
        status = ft_cmd_read_secret(f->token_file, err, &app->token);
    if (status == FT_OK)
        status = ft_vocab_load(f->draft ? f->draft : f->vocab, err, &app->vocab);
    if (status == FT_OK && f->draft && app->how.draft.budget > 0)
        status = ft_cmd_load_model(f->draft, "loading the draft", &f->device, err, &app->draft);
    return status;
}

static ft_status make_client(edge_app *app, ft_error *err)
{
    const edge_flags *f = &app->f;
    ft_kv_type kv_type;
    ft_status status = ft_cmd_kv_type(f->cache_type, err, &kv_type);
    if (status != FT_OK)
        return status;
    const ft_wire_client_opts wire = {.address = f->server,
                                      .token = app->token ? app->token : f->token,
                                      .tls = f->tls,
                                      .tls_ca = f->tls_ca,
                                      .tls_cert = f->tls_cert,
                                      .tls_key = f->tls_key,
                                      .tls_name = f->tls_name};
    status = ft_wire_client_create(&wire, err, &app->client);
    if (status != FT_OK)
        return status;
    ft_edge_opts *edge = &app->edge_opts;
    *edge = app->how;
    edge->vocab = app->vocab;
    edge->draft_model = app->draft;
    edge->source = ft_link_source_wire(app->client);
    edge->clock = ft_clock_monotonic();
    edge->draft_kv_type = kv_type;
    edge->draft_kv_tok = (uint32_t)f->draft_kv;
    edge->max_generations = (uint32_t)f->parallel;
    edge->n_threads = (int)f->threads;
    edge->reconnect_ms = (uint32_t)f->reconnect_ms;
    edge->slo_tokens_per_s = (float)f->slo;
    edge->trace = app->trace;
    return FT_OK;
}

/* Asks the server who it is. A server that does not answer may come later: that is no failure. A
 * server that answers and does not fit is one. */
static ft_status meet_server(edge_app *app, ft_error *err)
{
    ft_status status = ft_edge_create(&app->edge_opts, &app->absent, &app->edge);
    if (status == FT_OK || status == FT_UNAVAILABLE || status == FT_TIMEOUT)
        return FT_OK;
    *err = app->absent;
    return status;
}

static void say_ready(const edge_app *app)
{
    printf("foretoken edge: http%s://%s:%d/v1 for %s on %s, drafting %s\n",
           app->f.api.https_cert ? "s" : "", app->f.host, ft_api_port(app->api),
           ft_edge_server_info(app->edge)->model, app->f.server,
           app->draft ? ft_model_name(app->draft) : "off");
    fflush(stdout);
}

/* Serves until a signal. A server that is not there yet is asked again and again, also after one
 * answered that does not fit: another may take its place. */
static void serve_api(edge_app *app)
{
    ft_error told = {0}, err;
    while (!app->edge) {
        ft_api_set_absent(app->api, app->absent.message);
        if (strcmp(told.message, app->absent.message) != 0)
            FT_LOGW("edge", "server absent port=%d reason=\"%s\"", ft_api_port(app->api),
                    app->absent.message);
        told = app->absent;
        if (ft_cmd_wait_stopped(TRY_AGAIN_MS))
            return;
        ft_status status = meet_server(app, &err);
        (void)status; /* app->edge and app->absent say it */
    }
    ft_api_set_edge(app->api, app->edge);
    say_ready(app);
    ft_cmd_wait_stopped(-1);
}

static ft_status listen_http(edge_app *app, ft_error *err)
{
    const edge_flags *f = &app->f;
    const ft_api_opts api = {.flags = &f->api,
                             .host = f->host,
                             .port = (int)f->port,
                             .edge = app->edge,
                             .vocab = app->vocab,
                             .no_speculation = f->spec.no_speculation};
    ft_status status = ft_api_create(&api, err, &app->api);
    if (status == FT_OK && f->port_file)
        status = ft_cmd_write_port(f->port_file, ft_api_port(app->api), err);
    return status;
}

static void close_all(edge_app *app)
{
    ft_api_destroy(app->api);
    ft_edge_destroy(app->edge);
    ft_wire_client_destroy(app->client);
    ft_trace_close(app->trace);
    ft_model_destroy(app->draft);
    ft_predictor_deinit(&app->predictor);
    ft_vocab_destroy(app->vocab);
    free(app->token);
}

static const ft_flag rows[] = {
    {"--server", NULL, FT_FLAG(edge_flags, server), "HOST:PORT", "the verification server"},
    {"--model-draft", "-md", FT_FLAG(edge_flags, draft), "FILE", "draft model (GGUF)"},
    {"--model", "-m", FT_FLAG(edge_flags, vocab), "FILE",
     "without a draft model: a GGUF with the server's vocabulary"},
    {"--host", NULL, FT_FLAG(edge_flags, host), "HOST", "address that the API listens on"},
    {"--port", NULL, FT_FLAG(edge_flags, port), "N", "port of the API; 0: any free one", 0, 65535},
    {"--port-file", NULL, FT_FLAG(edge_flags, port_file), "FILE",
     "write the port into this file once it listens"},
    {"--threads", "-t", FT_FLAG(edge_flags, threads), "N", "threads of the draft; 0: all cores", 0,
     1024},
    {"--parallel", "-np", FT_FLAG(edge_flags, parallel), "N", "generations at once at most", 1,
     4096},
    {"--cache-type", NULL, FT_FLAG(edge_flags, cache_type), "TYPE",
     "how K and V of the draft are kept: f16, bf16 or q8_0"},
    {"--draft-kv", NULL, FT_FLAG(edge_flags, draft_kv), "N",
     "tokens that the draft's cache holds; 0: four full texts", 0, 1e9},
    {"--reconnect-ms", NULL, FT_FLAG(edge_flags, reconnect_ms), "MS",
     "how long a lost server is tried again", 1, 1e9},
    {"--slo", NULL, FT_FLAG(edge_flags, slo), "SPEED",
     "tokens/s that the server is asked to promise; 0: as fast as it comes", 0, 1e6},
    FT_FLAG_INCLUDE(edge_flags, spec, ft_flags_edge_draft),
    FT_FLAG_INCLUDE(edge_flags, trace, ft_flags_trace),
    FT_FLAG_INCLUDE(edge_flags, device, ft_flags_device),
    {"--token", NULL, FT_FLAG(edge_flags, token), "SECRET", "bearer token for the server"},
    {"--token-file", NULL, FT_FLAG(edge_flags, token_file), "FILE", "the same, from a file"},
    {"--tls", NULL, FT_FLAG(edge_flags, tls), NULL, "encrypt the way to the server"},
    {"--tls-ca", NULL, FT_FLAG(edge_flags, tls_ca), "FILE",
     "certificates (PEM) that vouch for the server"},
    {"--tls-cert", NULL, FT_FLAG(edge_flags, tls_cert), "FILE", "own certificate (mutual TLS)"},
    {"--tls-key", NULL, FT_FLAG(edge_flags, tls_key), "FILE", "its key"},
    {"--tls-name", NULL, FT_FLAG(edge_flags, tls_name), "NAME",
     "name in the server's certificate, if not the host's"},
    FT_FLAG_INCLUDE(edge_flags, api, ft_flags_api),
    {"--insecure", NULL, FT_FLAG(edge_flags, insecure), NULL,
     "allow a --host that others reach without an API key"},
};

static const edge_flags defaults = {.host = "127.0.0.1",
                                    .cache_type = "f16",
                                    .port = 8411,
                                    .parallel = 64,
                                    .reconnect_ms = 10000,
                                    .spec = FT_EDGE_DRAFT_FLAGS_INIT(true),
                                    .trace = FT_TRACE_FLAGS_INIT,
                                    .device = FT_DEVICE_OPTS_INIT};

static int run(void *options, int n_words, char **words)
{
    edge_app app = {.f = *(const edge_flags *)options};
    ft_error err = {0};
    if (check(&app.f, &err) != FT_OK ||
        ft_edge_draft_from_flags(&app.f.spec, &err, &app.how) != FT_OK) {
        ft_cmd_fail(&err);
        return 2;
    }
    ft_cmd_catch_signals();
    ft_status status = ft_cmd_predictor(app.f.spec.predictor, &err, &app.predictor, &app.how.draft);
    if (status == FT_OK)
        status = ft_trace_from_flags(&app.f.trace, &err, &app.trace);
    if (status == FT_OK)
        status = load(&app, &err);
    if (status == FT_OK)
        status = make_client(&app, &err);
    if (status == FT_OK)
        status = meet_server(&app, &err);
    if (status == FT_OK)
        status = listen_http(&app, &err);
    if (status == FT_OK)
        serve_api(&app);
    close_all(&app);
    return status == FT_OK ? 0 : ft_cmd_fail(&err);
}

const ft_command ft_cmd_edge = {
    .name = "edge",
    .summary = "draft here, verify on a server, serve the OpenAI API",
    .usage = "--server HOST:PORT -md DRAFT.gguf [flags]",
    .about = "Drafts with a small model on this machine, has every token checked by a "
             "verification server\n"
             "(foretoken serve), and serves the OpenAI API (/v1) to apps on this machine. The "
             "text is the\n"
             "server's model's own, with or without drafting.",
    FT_CMD_OPTIONS(rows, defaults),
    .service = true,
    .run = run};
