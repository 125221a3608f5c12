// SPDX-License-Identifier: Apache-2.0
// foretoken serve: the verification server as a process. Flags in, a ready line out, statistics at
// the end. With --http-port also an edge in the same process, which does not draft, with the OpenAI
// API over it: its link calls the verifier directly, so it ends before the server does.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cmd/api.h"
#include "cmd/cmd.h"
#include "cmd/endpoint.h"
#include "cmd/gen_flags.h"
#include "cmd/lists.h"
#include "local/link.h"
#include "serve/server.h"

#define GRACE_US 5000000 /* sessions get this long to finish after a signal */

typedef struct serve_flags {
    const char *model, *draft, *host, *token, *token_file, *keys_path, *tls_cert, *tls_key,
        *tls_client_ca;
    const char *policy, *port_file, *metrics, *metrics_port_file, *cache_type, *costs_path, *slo,
        *http, *http_port_file;
    char metrics_host[256], http_host[256];
    int metrics_port, http_port;
    int64_t draft_kv, port, ctx, kv_tok, threads, batch, prefill_ms, max_tree, max_sessions, ttl_s;
    bool insecure, portable, no_prefix_cache, draft_always, verbose;
    double guard_ms;
    ft_static_flags of_static;
    float slo_tokens_per_s[FT_SLO_CLASSES]; /* what slo says */
    uint32_t n_slo;
    ft_costs costs; /* of costs_path */
    ft_draft_flags spec;
    ft_device_opts device, device_draft;
    ft_api_flags api;
    char *token_text; /* of token_file */
    ft_keyring *keys; /* of keys_path */
} serve_flags;

typedef struct serve_app {
    ft_model *model, *draft; /* draft: NULL without */
    ft_vocab *vocab, *draft_vocab;
    ft_server *server;
    ft_edge *edge; /* of the API */
    ft_api *api;
} serve_app;

static ft_status check_http(serve_flags *f, ft_error *err)
{
    if (!f->http)
        return ft_api_flags_given(&f->api) || f->http_port_file
                   ? ft_error_set(err, FT_INVALID,
                                  "serve: there are flags of the OpenAI API but no --http-port")
                   : FT_OK;
    ft_status status =
        ft_cmd_parse_endpoint(f->http, "serve: --http-port", err, f->http_host, &f->http_port);
    if (status == FT_OK)
        status = ft_api_flags_check(&f->api, "serve", "--http-port", f->http_host,
                                    f->insecure || f->keys_path, err);
    return status;
}

static ft_status parse_slo(serve_flags *f, ft_error *err)
{
    if (strcmp(f->slo, "none") == 0)
        return FT_OK;
    return ft_list_speeds("serve: --slo", f->slo, err, f->slo_tokens_per_s, &f->n_slo);
}

static ft_status read_credentials(serve_flags *f, ft_error *err)
{
    ft_status status = FT_OK;
    if (!!f->token + !!f->token_file + !!f->keys_path > 1)
        return ft_error_set(err, FT_INVALID,
                            "serve: pass one of --token, --token-file and --keys, not several");
    if (f->keys_path && (f->api.api_key || f->api.api_key_file))
        return ft_error_set(err, FT_INVALID,
                            "serve: with --keys their tokens are the API's keys: leave out "
                            "--api-key and --api-key-file");
    if (f->keys_path) {
        ft_keys *keys;
        status = ft_keys_load(f->keys_path, err, &keys);
        if (status == FT_OK)
            status = ft_keyring_create(keys, err, &f->keys);
    }
    if (f->token_file) {
        status = ft_cmd_read_secret(f->token_file, err, &f->token_text);
        f->token = f->token_text;
    }
    if (status == FT_OK && f->token && !f->token[0])
        return ft_error_set(err, FT_INVALID, "serve: the token is empty");
    return status;
}

static ft_status check_flags(serve_flags *f, ft_error *err)
{
    if (!f->model)
        return ft_error_set(err, FT_INVALID, "serve: which model? pass the target's file with -m");
    if (!f->tls_cert != !f->tls_key)
        return ft_error_set(err, FT_INVALID, "serve: --tls-cert and --tls-key go together");
    if (f->tls_client_ca && !f->tls_cert)
        return ft_error_set(err, FT_INVALID, "serve: --tls-client-ca needs --tls-cert, --tls-key");
    if (!f->draft && (f->draft_always || f->draft_kv > 0))
        return ft_error_set(
            err, FT_INVALID,
            "serve: --draft-always and --draft-kv are about a draft model: pass -md");
    if (!ft_sched_find(f->policy))
        return ft_error_set(err, FT_INVALID, "serve: no policy '%s': there are " FT_SCHED_NAMES,
                            f->policy);
    if (f->metrics_port_file && !f->metrics)
        return ft_error_set(err, FT_INVALID, "serve: --metrics-port-file needs --metrics");
    if (f->metrics) {
        ft_status status = ft_cmd_parse_endpoint(f->metrics, "serve: --metrics", err,
                                                 f->metrics_host, &f->metrics_port);
        if (status != FT_OK)
            return status;
    }
    ft_status status = check_http(f, err);
    if (status == FT_OK)
        status = parse_slo(f, err);
    if (status == FT_OK && f->costs_path)
        status = ft_costs_load(f->costs_path, err, &f->costs);
    if (status == FT_OK)
        status = read_credentials(f, err);
    if (status != FT_OK)
        return status;
    if (!ft_cmd_is_loopback(f->host) && !f->token && !f->keys && !f->tls_client_ca && !f->insecure)
        return ft_error_set(err, FT_INVALID,
                            "serve: %s is reachable for others, so ask who they are: pass --token, "
                            "--token-file, --keys or --tls-client-ca (or --insecure to serve "
                            "anybody)",
                            f->host);
    return FT_OK;
}

static void log_ready(const serve_flags *f, const ft_server *server, const ft_model *model,
                      ft_verifier *verifier)
{
    ft_msg_info info;
    ft_model_memory memory = ft_model_get_memory(model);
    ft_verifier_info(verifier, &info);
    FT_LOGI("serve",
            "listening %s:%d model=\"%s\" type=%s repacked=%d weight_mb=%.1f packed_mb=%.1f "
            "copied_mb=%.1f context=%u kv_blocks=%u max_tree=%u "
            "auth=%s tls=%s",
            f->host, ft_server_port(server), info.model, ft_model_type_name(model),
            ft_model_repacked(model), (double)memory.bytes / 1e6, (double)memory.packed_bytes / 1e6,
            (double)memory.copied_bytes / 1e6, info.limits.max_context, info.kv_blocks,
            info.limits.max_tree,
            f->keys    ? "keys"
            : f->token ? "token"
                       : "none",
            !f->tls_cert       ? "none"
            : f->tls_client_ca ? "mutual"
                               : "server");
}

/* Another model's costs would be worse than none. */
static ft_status check_costs(const serve_flags *f, const ft_model *model, ft_error *err)
{
    const char *name = ft_model_name(model);
    if (!f->costs.model[0] || strncmp(f->costs.model, name, sizeof f->costs.model - 1) == 0)
        return FT_OK;
    return ft_error_set(err, FT_PRECONDITION, "serve: %s is about \"%s\", the model is \"%s\"",
                        f->costs_path, f->costs.model, name);
}

static ft_status start_server(serve_app *app, const serve_flags *f, ft_error *err)
{
    ft_kv_type kv_type;
    ft_status status = ft_cmd_kv_type(f->cache_type, err, &kv_type);
    if (status == FT_OK && f->costs_path)
        status = check_costs(f, app->model, err);
    if (status != FT_OK)
        return status;
    ft_server_opts opts = {.verifier = {.model = app->model,
                                        .vocab = app->vocab,
                                        .policy = ft_sched_find(f->policy),
                                        .n_slo = f->n_slo,
                                        .keys = f->keys,
                                        .guard_us = (uint32_t)(f->guard_ms * 1000),
                                        .static_batch = (uint32_t)f->of_static.batch,
                                        .static_wait_us = (uint32_t)(f->of_static.wait_ms * 1000),
                                        .costs = f->costs_path ? &f->costs : NULL,
                                        .clock = ft_clock_monotonic(),
                                        .max_context = (uint32_t)f->ctx,
                                        .kv_type = kv_type,
                                        .kv_tok = (uint32_t)f->kv_tok,
                                        .max_batch_tok = (uint32_t)f->batch,
                                        .prefill_budget_us = (uint32_t)f->prefill_ms * 1000,
                                        .max_tree = (uint32_t)f->max_tree,
                                        .max_sessions = (uint32_t)f->max_sessions,
                                        .session_ttl_s = (uint32_t)f->ttl_s,
                                        .n_threads = (int)f->threads,
                                        .portable_attention = f->portable,
                                        .no_prefix_cache = f->no_prefix_cache,
                                        .draft_model = app->draft,
                                        .draft_vocab = app->draft_vocab,
                                        .draft = ft_draft_from_flags(&f->spec),
                                        .draft_kv_tok = (uint32_t)f->draft_kv,
                                        .draft_always = f->draft_always},
                           .metrics_host = f->metrics ? f->metrics_host : NULL,
                           .metrics_port = f->metrics_port,
                           .host = f->host,
                           .port = (int)f->port,
                           .token = f->token,
                           .tls_cert = f->tls_cert,
                           .tls_key = f->tls_key,
                           .tls_client_ca = f->tls_client_ca};
    memcpy(opts.verifier.slo_tokens_per_s, f->slo_tokens_per_s, sizeof f->slo_tokens_per_s);
    return ft_server_create(&opts, err, &app->server);
}

static ft_status start_api(serve_app *app, const serve_flags *f, ft_error *err)
{
    const ft_edge_opts edge = {.vocab = app->vocab,
                               .source = ft_local_link_source(ft_server_verifier(app->server)),
                               .clock = ft_clock_monotonic(),
                               .max_generations = (uint32_t)f->max_sessions};
    ft_status status = ft_edge_create(&edge, err, &app->edge);
    if (status != FT_OK)
        return status;
    const ft_api_opts api = {.flags = &f->api,
                             .host = f->http_host,
                             .port = f->http_port,
                             .max_connections = (uint32_t)f->max_sessions,
                             .edge = app->edge,
                             .vocab = app->vocab,
                             .keys = f->keys};
    return ft_api_create(&api, err, &app->api);
}

static ft_status start_all(serve_app *app, const serve_flags *f, ft_error *err)
{
    ft_status status = start_server(app, f, err);
    if (status == FT_OK)
        log_ready(f, app->server, app->model, ft_server_verifier(app->server));
    if (status == FT_OK && f->metrics)
        FT_LOGI("serve", "metrics host=%s port=%d path=/metrics", f->metrics_host,
                ft_server_metrics_port(app->server));
    if (status == FT_OK && f->http)
        status = start_api(app, f, err);
    if (status == FT_OK && f->http)
        FT_LOGI("serve", "api url=http%s://%s:%d/v1 key=%s", f->api.https_cert ? "s" : "",
                f->http_host, ft_api_port(app->api),
                f->keys                                 ? "keys"
                : f->api.api_key || f->api.api_key_file ? "asked"
                                                        : "none");
    if (status == FT_OK && f->port_file)
        status = ft_cmd_write_port(f->port_file, ft_server_port(app->server), err);
    if (status == FT_OK && f->metrics_port_file)
        status = ft_cmd_write_port(f->metrics_port_file, ft_server_metrics_port(app->server), err);
    if (status == FT_OK && f->http_port_file)
        status = ft_cmd_write_port(f->http_port_file, ft_api_port(app->api), err);
    return status;
}

/* Both doors close at once, and what is inside has the same time to finish. */
static void stop_all(serve_app *app, int64_t grace_us)
{
    const ft_clock clock = ft_clock_monotonic();
    int64_t until_us = ft_clock_now_us(&clock) + grace_us;
    if (app->server)
        ft_server_drain(app->server);
    ft_api_drain(app->api, grace_us);
    ft_api_destroy(app->api);
    ft_edge_destroy(app->edge);
    int64_t left_us = until_us - ft_clock_now_us(&clock);
    ft_server_destroy(app->server, left_us > 0 ? left_us : 0);
}

static ft_status load(serve_app *app, const serve_flags *f, ft_error *err)
{
    ft_status status = ft_cmd_load_model(f->model, "loading", &f->device, err, &app->model);
    if (status == FT_OK)
        status = ft_vocab_load(f->model, err, &app->vocab);
    if (status != FT_OK || !f->draft || ft_draft_from_flags(&f->spec).budget == 0)
        return status;
    status = ft_vocab_load(f->draft, err, &app->draft_vocab);
    if (status == FT_OK)
        status =
            ft_cmd_load_model(f->draft, "loading the draft", &f->device_draft, err, &app->draft);
    return status;
}

/* What the file says now holds from now on; one that is wrong changes nothing. */
static void reload_keys(const serve_flags *f)
{
    ft_keys *keys;
    ft_error err = {0};
    if (ft_keys_load(f->keys_path, &err, &keys) != FT_OK) {
        FT_LOGE("serve", "keys not reloaded, those before hold: %s", err.message);
        return;
    }
    FT_LOGI("serve", "keys reloaded n=%zu", keys->n);
    ft_keyring_replace(f->keys, keys);
}

static void wait_stopped(const serve_flags *f)
{
    while (f->keys && ft_cmd_wait_hangup())
        reload_keys(f);
    ft_cmd_wait_stopped(-1);
}

static int serve(const serve_flags *f)
{
    serve_app app = {0};
    ft_error err = {0};
    ft_status status = load(&app, f, &err);
    if (status == FT_OK && !ft_cmd_stopped()) {
        status = start_all(&app, f, &err);
        if (status == FT_OK) {
            wait_stopped(f);
            FT_LOGI("serve", "draining grace_s=%d", GRACE_US / 1000000);
        }
        stop_all(&app, status == FT_OK ? GRACE_US : 0);
    }
    ft_vocab_destroy(app.draft_vocab);
    ft_model_destroy(app.draft);
    ft_vocab_destroy(app.vocab);
    ft_model_destroy(app.model);
    if (status != FT_OK)
        return ft_cmd_fail(&err);
    FT_LOGI("serve", "stopped");
    return 0;
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(serve_flags, model), "FILE", "target model (GGUF)"},
    {"--host", NULL, FT_FLAG(serve_flags, host), "HOST", "address to listen on"},
    {"--port", NULL, FT_FLAG(serve_flags, port), "N", "port, 0: any free one", 0, 65535},
    {"--port-file", NULL, FT_FLAG(serve_flags, port_file), "FILE",
     "write the port there once it listens"},
    {"--ctx-size", "-c", FT_FLAG(serve_flags, ctx), "N",
     "tokens of a text at most (0: the model's training context)", 0, 1 << 24},
    {"--kv-tokens", NULL, FT_FLAG(serve_flags, kv_tok), "N",
     "tokens of all texts in the KV pool (0: 16 times --ctx-size)", 0, 1 << 28},
    {"--cache-type", NULL, FT_FLAG(serve_flags, cache_type), "TYPE",
     "how K and V are kept: f16, bf16 or q8_0"},
    {"--threads", "-t", FT_FLAG(serve_flags, threads), "N", "threads (0: all cores)", 0, 1024},
    {"--batch-size", "-b", FT_FLAG(serve_flags, batch), "N", "rows of one forward pass at most", 2,
     1 << 16},
    {"--costs", NULL, FT_FLAG(serve_flags, costs_path), "FILE",
     "what passes of this model cost here, from foretoken fit verify-time"},
    {"--prefill-budget-ms", NULL, FT_FLAG(serve_flags, prefill_ms), "MS",
     "long prompts delay nobody's round by more than this", 1, 60000},
    {"--max-tree", NULL, FT_FLAG(serve_flags, max_tree), "N", "nodes of one draft at most", 1,
     FT_WIRE_TREE_MAX},
    {"--max-sessions", NULL, FT_FLAG(serve_flags, max_sessions), "N", "sessions at once", 1,
     1 << 16},
    {"--session-ttl", NULL, FT_FLAG(serve_flags, ttl_s), "S",
     "seconds that a session without a stream is kept", 0, 86400},
    {"--policy", NULL, FT_FLAG(serve_flags, policy), "NAME",
     "who is verified next: " FT_SCHED_NAMES " (docs/OPERATIONS.md)"},
    FT_FLAG_INCLUDE(serve_flags, of_static, ft_flags_static),
    {"--slo", NULL, FT_FLAG(serve_flags, slo), "SPEEDS",
     "tokens/s that edges may be promised, as classes; none: nothing is promised"},
    {"--guard-ms", NULL, FT_FLAG(serve_flags, guard_ms), "MS",
     "time by which wisp keeps promises early", 0, 10000},
    {"--token", NULL, FT_FLAG(serve_flags, token), "T",
     "bearer token that edges must present (others on this machine can see it)"},
    {"--token-file", NULL, FT_FLAG(serve_flags, token_file), "FILE",
     "the same from the first line of a file"},
    {"--keys", NULL, FT_FLAG(serve_flags, keys_path), "FILE",
     "or the tokens of several tenants; SIGHUP reads it again (docs/OPERATIONS.md)"},
    {"--tls-cert", NULL, FT_FLAG(serve_flags, tls_cert), "FILE", "certificate (PEM)"},
    {"--tls-key", NULL, FT_FLAG(serve_flags, tls_key), "FILE", "its key (PEM)"},
    {"--tls-client-ca", NULL, FT_FLAG(serve_flags, tls_client_ca), "FILE",
     "only edges with a certificate of this CA (PEM)"},
    {"--insecure", NULL, FT_FLAG(serve_flags, insecure), NULL,
     "serve other machines without asking who they are"},
    FT_FLAG_INCLUDE(serve_flags, device, ft_flags_device),
    {"--model-draft", "-md", FT_FLAG(serve_flags, draft), "FILE",
     "draft model (GGUF): the server drafts for clients that do not"},
    FT_FLAG_INCLUDE(serve_flags, spec, ft_flags_draft),
    {"--draft-kv", NULL, FT_FLAG(serve_flags, draft_kv), "N",
     "tokens of all texts in the draft's KV pool (0: as the target's)", 0, 1 << 28},
    {"--draft-always", NULL, FT_FLAG(serve_flags, draft_always), NULL,
     "draft trees of full size always, also where they do not pay"},
    FT_FLAG_INCLUDE(serve_flags, device_draft, ft_flags_draft_device),
    {"--portable", NULL, FT_FLAG(serve_flags, portable), NULL,
     "attention by ggml's operators instead of our CPU kernel"},
    {"--no-prefix-cache", NULL, FT_FLAG(serve_flags, no_prefix_cache), NULL,
     "sessions of one credential do not share what they computed"},
    {"--http-port", NULL, FT_FLAG(serve_flags, http), "[HOST:]PORT",
     "the OpenAI API there, for clients without an edge (PORT alone: on 127.0.0.1)"},
    {"--http-port-file", NULL, FT_FLAG(serve_flags, http_port_file), "FILE",
     "write the API's port there once it listens"},
    FT_FLAG_INCLUDE(serve_flags, api, ft_flags_api),
    {"--metrics", NULL, FT_FLAG(serve_flags, metrics), "HOST:PORT",
     "Prometheus page /metrics there (PORT alone: on 127.0.0.1; see docs/METRICS.md)"},
    {"--metrics-port-file", NULL, FT_FLAG(serve_flags, metrics_port_file), "FILE",
     "write the port of the metrics page there"},
    {"--verbose", "-v", FT_FLAG(serve_flags, verbose), NULL, "log details"},
};

static const serve_flags defaults = {.host = "127.0.0.1",
                                     .port = 7411,
                                     .policy = "fcfs",
                                     .slo = "2,4,6,8",
                                     .guard_ms = 5,
                                     .of_static = FT_STATIC_FLAGS_INIT,
                                     .cache_type = "f16",
                                     .ctx = 4096,
                                     .batch = 512,
                                     .prefill_ms = 50,
                                     .max_tree = 64,
                                     .max_sessions = 1024,
                                     .ttl_s = 60,
                                     /* SpecEdge 5's trees: 32 nodes, 7 levels */
                                     .spec = {.n_max = 32, .depth = 7, .width = 8},
                                     .device = FT_DEVICE_OPTS_INIT,
                                     .device_draft = FT_DEVICE_OPTS_INIT};

static int run(void *options, int n_words, char **words)
{
    serve_flags *f = options;
    ft_error err = {0};
    int code = 2;
    if (f->verbose)
        ft_log_set_level(FT_LOG_DEBUG);
    ft_cmd_catch_signals();
    if (f->keys_path)
        ft_cmd_catch_hangup();
    if (check_flags(f, &err) == FT_OK)
        code = serve(f);
    else
        (void)ft_cmd_fail(&err);
    ft_keyring_destroy(f->keys);
    free(f->token_text);
    return code;
}

const ft_command ft_cmd_serve = {
    .name = "serve",
    .summary = "serve a target model: edges draft, this process verifies",
    .usage = "-m FILE [flags]",
    .about = "Serves the target model: edges draft, this process verifies (gRPC, see proto/). "
             "Logs go to\n"
             "standard error. SIGINT or SIGTERM drains: running texts get a few seconds to finish.",
    FT_CMD_OPTIONS(rows, defaults),
    .service = true,
    .run = run};
