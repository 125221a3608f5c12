// SPDX-License-Identifier: Apache-2.0
// foretoken serve: the verification server as a process. With --http-port also an edge in the same
// process, which does not draft, and the OpenAI API over it. Its link calls the verifier directly,
// so the edge ends before the server does.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/notify.h"
#include "cmd/api.h"
#include "cmd/cmd.h"
#include "cmd/endpoint.h"
#include "cmd/gen_flags.h"
#include "cmd/lists.h"
#include "cmd/memory.h"
#include "cmd/offer.h"
#include "local/link.h"
#include "serve/server.h"

/* Trees of lookups, for texts with a prediction: as an edge has them. */
#define PREDICTED_NODES 32
#define PREDICTED_WIDTH 8

#define PASS_US 5000000 /* for the engine to end its present pass, when no text is left */

typedef struct serve_flags {
    const char *model, *draft, *policy, *slo, *rules_text, *costs_path, *token_file, *keys_path;
    const char *offer_draft;
    const ft_rule *rules[FT_RULES_MAX + 1]; /* of rules_text */
    const char *metrics, *http;             /* [HOST:]PORT */
    const char *picker_names;               /* --picker-metrics */
    ft_picker picker;
    const char *port_file, *metrics_port_file, *http_port_file;
    int64_t prefill_ms, shutdown_delay_s, drain_s;
    double guard_ms;
    bool insecure, no_speculation, verbose;
    ft_flag_list trusted_proxies;
    ft_networks proxies; /* of trusted_proxies */
    char metrics_host[256], http_host[256];
    ft_server_opts server;
    ft_static_flags of_static;
    ft_costs costs; /* of costs_path */
    ft_device_opts device, device_draft;
    ft_memory_flags memory;
    ft_pack_flags pack;
    ft_timeline_flags timeline;
    ft_api_flags api;
    char *token_text; /* of token_file */
} serve_flags;

typedef struct serve_app {
    ft_cmd_memory memory;
    ft_model *model, *draft; /* draft: NULL without */
    ft_vocab *vocab, *draft_vocab;
    ft_server_offer offer; /* of offer_draft */
    ft_server *server;
    ft_edge *edge; /* of the API */
    ft_api api;
} serve_app;

/* From budget, depth and width: a chain, or a tree if the width says so. */
static ft_draft_params draft_params(const ft_draft_params *flags, bool no_speculation)
{
    uint32_t n = no_speculation ? 0 : flags->budget, depth = flags->depth ? flags->depth : n;
    ft_draft_params chain = ft_draft_params_chain(n);
    if (flags->width > 1)
        return ft_draft_params_tree(n, depth, flags->width);
    chain.depth = ft_min_u32(chain.depth, depth);
    return chain;
}

static ft_status check_http(serve_flags *f, ft_error *err)
{
    if (!f->http)
        return ft_api_flags_given(&f->api) || f->http_port_file ||
                       (f->api.http.no_page && !f->metrics)
                   ? ft_error_set(err, FT_INVALID,
                                  "serve: there are flags of the OpenAI API but no --http-port")
                   : FT_OK;
    f->api.http.host = f->http_host;
    ft_status status =
        ft_cmd_parse_endpoint(f->http, "serve: --http-port", err, f->http_host, &f->api.http.port);
    if (status == FT_OK)
        status =
            ft_api_flags_check(&f->api, "serve", "--http-port", f->insecure || f->keys_path, err);
    return status;
}

static ft_status check_metrics(serve_flags *f, ft_error *err)
{
    if (!f->metrics)
        return f->metrics_port_file || f->picker_names
                   ? ft_error_set(err, FT_INVALID, "serve: %s needs --metrics",
                                  f->metrics_port_file ? "--metrics-port-file" : "--picker-metrics")
                   : FT_OK;
    if (f->picker_names && ft_picker_parse(f->picker_names, err, &f->picker) != FT_OK)
        return FT_INVALID;
    f->server.picker = f->picker_names ? &f->picker : NULL;
    f->server.metrics_host = f->metrics_host;
    f->server.no_page = f->api.http.no_page;
    return ft_cmd_parse_endpoint(f->metrics, "serve: --metrics", err, f->metrics_host,
                                 &f->server.metrics_port);
}

static ft_status read_credentials(serve_flags *f, ft_error *err)
{
    ft_server_opts *server = &f->server;
    ft_status status = FT_OK;
    if (!!server->token + !!f->token_file + !!f->keys_path > 1)
        return ft_error_set(err, FT_INVALID,
                            "serve: pass one of --token, --token-file and --keys, not several");
    if (f->keys_path && (f->api.http.api_key || f->api.api_key_file))
        return ft_error_set(err, FT_INVALID,
                            "serve: with --keys their tokens are the API's keys: leave out "
                            "--api-key and --api-key-file");
    if (f->keys_path) {
        ft_keys *keys;
        status = ft_keys_load(f->keys_path, err, &keys);
        if (status == FT_OK)
            status = ft_keyring_create(keys, err, &server->verifier.keys);
    }
    if (f->token_file) {
        status = ft_cmd_read_secret(f->token_file, err, &f->token_text);
        server->token = f->token_text;
    }
    return status == FT_OK ? ft_cmd_check_secret(server->token, "serve: the token", err) : status;
}

static ft_status check_flags(serve_flags *f, ft_error *err)
{
    ft_server_opts *server = &f->server;
    if (!server->tls_cert != !server->tls_key)
        return ft_error_set(err, FT_INVALID, "serve: --tls-cert and --tls-key go together");
    if (server->tls_client_ca && !server->tls_cert)
        return ft_error_set(err, FT_INVALID, "serve: --tls-client-ca needs --tls-cert, --tls-key");
    if (!f->draft && (server->verifier.draft_always || server->verifier.draft_kv_tok > 0))
        return ft_error_set(
            err, FT_INVALID,
            "serve: --draft-always and --draft-kv are about a draft model: pass -md");
    server->verifier.draft = draft_params(&server->verifier.draft, f->no_speculation);
    if (f->policy && !(server->verifier.policy = ft_sched_find(f->policy)))
        return ft_error_set(err, FT_INVALID, "serve: no policy '%s': there are " FT_SCHED_NAMES,
                            f->policy);
    ft_status status = check_metrics(f, err);
    if (status == FT_OK)
        status = check_http(f, err);
    for (size_t i = 0; status == FT_OK && i < f->trusted_proxies.n; i++)
        status = ft_networks_parse("serve: --trusted-proxy", f->trusted_proxies.item[i], err,
                                   &f->proxies);
    server->proxies = &f->proxies;
    if (status == FT_OK && strcmp(f->slo, "none") != 0)
        status = ft_list_speeds("serve: --slo", f->slo, err, server->verifier.slo_tokens_per_s,
                                &server->verifier.n_slo);
    if (!server->verifier.policy)
        server->verifier.policy = ft_sched_default(server->verifier.n_slo > 0);
    if (status == FT_OK)
        status = ft_list_rules("serve: --rules", f->rules_text, err, f->rules);
    server->verifier.rules = f->rules;
    if (status == FT_OK && f->costs_path)
        status = ft_costs_load(f->costs_path, err, &f->costs);
    if (status == FT_OK)
        status = read_credentials(f, err);
    if (status != FT_OK)
        return status;
    if (!ft_cmd_is_loopback(server->host) && !server->token && !server->verifier.keys &&
        !server->tls_client_ca && !f->insecure)
        return ft_error_set(err, FT_INVALID,
                            "serve: %s is reachable for others, so ask who they are: pass --token, "
                            "--token-file, --keys or --tls-client-ca (or --insecure to serve "
                            "anybody)",
                            server->host);
    return FT_OK;
}

static void log_ready(const serve_app *app, const serve_flags *f)
{
    ft_msg_info info;
    const ft_model *model = app->model;
    ft_model_memory memory = ft_model_get_memory(model);
    ft_verifier_info(ft_server_verifier(app->server), &info);
    FT_LOGI("serve",
            "listening %s:%d model=\"%s\" type=%s repacked=%d weight_mb=%.1f packed_mb=%.1f "
            "copied_mb=%.1f policy=%s context=%u kv_blocks=%u max_tree=%u "
            "auth=%s tls=%s",
            f->server.host, ft_server_port(app->server), info.model, ft_model_type_name(model),
            ft_model_repacked(model), (double)memory.bytes / 1e6, (double)memory.packed_bytes / 1e6,
            (double)memory.copied_bytes / 1e6, f->server.verifier.policy->name,
            info.limits.max_context, info.kv_blocks, info.limits.max_tree,
            f->server.verifier.keys ? "keys"
            : f->server.token       ? "token"
                                    : "none",
            !f->server.tls_cert       ? "none"
            : f->server.tls_client_ca ? "mutual"
                                      : "server");
}

/* The costs must be of this model: those of another are worse than none. */
static ft_status check_costs(const serve_flags *f, const ft_model *model, ft_error *err)
{
    const char *name = ft_model_name(model);
    if (!f->costs.model[0] || strncmp(f->costs.model, name, sizeof f->costs.model - 1) == 0)
        return FT_OK;
    return ft_error_set(err, FT_PRECONDITION, "serve: %s is about \"%s\", the model is \"%s\"",
                        f->costs_path, f->costs.model, name);
}

static ft_status start_server(serve_app *app, serve_flags *f, ft_error *err)
{
    ft_verifier_opts *verifier = &f->server.verifier;
    ft_status status = check_costs(f, app->model, err);
    if (status != FT_OK)
        return status;
    verifier->model = app->model;
    verifier->vocab = app->vocab;
    verifier->draft_model = app->draft;
    verifier->draft_vocab = app->draft_vocab;
    verifier->clock = ft_clock_monotonic();
    verifier->costs = f->costs_path ? &f->costs : NULL;
    verifier->prefill_budget_us = (uint32_t)f->prefill_ms * 1000;
    verifier->guard_us = (uint32_t)(f->guard_ms * 1000);
    verifier->static_batch = (uint32_t)f->of_static.batch;
    verifier->static_wait_us = (uint32_t)(f->of_static.wait_ms * 1000);
    return ft_server_create(&f->server, err, &app->server);
}

static ft_status start_api(serve_app *app, serve_flags *f, ft_error *err)
{
    /* Lookups, in texts with a prediction. */
    const uint32_t nodes = f->no_speculation ? 0 : PREDICTED_NODES;
    const ft_edge_opts edge = {.vocab = app->vocab,
                               .draft = ft_draft_params_tree(nodes, nodes, PREDICTED_WIDTH),
                               .automatic = true,
                               .source = ft_local_link_source(ft_server_verifier(app->server)),
                               .clock = ft_clock_monotonic(),
                               .timeline = f->server.verifier.timeline,
                               .max_generations = f->server.verifier.max_sessions};
    ft_status status = ft_edge_create(&edge, err, &app->edge);
    if (status != FT_OK)
        return status;
    f->api.http.max_connections = f->server.verifier.max_sessions;
    f->api.http.client_share = f->server.verifier.client_share;
    f->api.http.proxies = &f->proxies;
    return ft_api_start(&app->api, &f->api,
                        (ft_openai_opts){.edge = app->edge, .vocab = app->vocab},
                        f->server.verifier.keys, err);
}

static ft_status start_all(serve_app *app, serve_flags *f, ft_error *err)
{
    ft_status status = start_server(app, f, err);
    if (status == FT_OK)
        log_ready(app, f);
    if (status == FT_OK && f->metrics)
        FT_LOGI("serve", "metrics host=%s port=%d path=/metrics", f->metrics_host,
                ft_server_metrics_port(app->server));
    if (status == FT_OK && f->http)
        status = start_api(app, f, err);
    if (status == FT_OK && f->http)
        FT_LOGI("serve", "api url=http%s://%s:%d/v1 key=%s", f->api.http.tls_cert ? "s" : "",
                f->http_host, ft_http_port(app->api.http),
                f->server.verifier.keys                      ? "keys"
                : f->api.http.api_key || f->api.api_key_file ? "asked"
                                                             : "none");
    if (status == FT_OK && f->port_file)
        status = ft_cmd_write_port(f->port_file, ft_server_port(app->server), err);
    if (status == FT_OK && f->metrics_port_file)
        status = ft_cmd_write_port(f->metrics_port_file, ft_server_metrics_port(app->server), err);
    if (status == FT_OK && f->http_port_file)
        status = ft_cmd_write_port(f->http_port_file, ft_http_port(app->api.http), err);
    return status;
}

/* Health says no and all work is taken, so that a proxy has moved new work when it is refused. A
 * second signal ends the process. */
static void retire(serve_app *app, int64_t seconds)
{
    if (seconds == 0)
        return;
    ft_server_retire(app->server);
    if (app->api.http)
        ft_http_retire(app->api.http);
    FT_LOGI("serve", "retiring delay_s=%" PRId64, seconds);
    usleep((useconds_t)seconds * 1000000);
}

/* gRPC and the API refuse new work at the same time; open work of both has grace_us to finish. An
 * engine that hangs ends the process: nothing that it uses can be freed. */
static void stop_all(serve_app *app, int64_t grace_us)
{
    ft_error err = {0};
    int64_t until_us = ft_monotonic_us() + grace_us;
    if (app->server)
        ft_server_drain(app->server);
    if (app->api.http)
        ft_http_drain(app->api.http, grace_us);
    ft_api_stop(&app->api);
    ft_edge_destroy(app->edge);
    int64_t left_us = until_us - ft_monotonic_us();
    if (app->server &&
        ft_server_stop(app->server, left_us > 0 ? left_us : 0, PASS_US, &err) != FT_OK) {
        FT_LOGE("serve", "ended without the engine: %s", err.message);
        _exit(1);
    }
    ft_server_destroy(app->server, 0);
}

static ft_status plan_memory(serve_app *app, serve_flags *f, ft_error *err)
{
    ft_verifier_opts *v = &f->server.verifier;
    const bool drafts = f->draft && v->draft.budget > 0;
    const ft_memory_need need = {
        .path = f->model,
        .device = &f->device,
        .draft = {.path = drafts ? f->draft : NULL,
                  .kv_tok = v->draft_kv_tok,
                  .rows = FT_OWN_DRAFT_ROWS,
                  .out = FT_OWN_DRAFT_LOGITS},
    };
    return ft_cmd_memory_plan(&app->memory, &f->memory, &need, v, err);
}

static ft_status load(serve_app *app, serve_flags *f, ft_error *err)
{
    ft_status status = plan_memory(app, f, err);
    if (status != FT_OK)
        return status;
    const ft_pack_cache *cache = ft_pack_flags_open(ft_pack_flags_unless(&f->pack, app->memory.on));
    const ft_cmd_model target = {f->model, "loading", &f->device, cache};
    const ft_cmd_model draft = {f->draft, "loading the draft", &f->device_draft, cache};
    status = app->memory.on ? ft_cmd_memory_load(&app->memory, err, &app->model, &app->vocab)
                            : ft_cmd_load_model(&target, err, &app->model, &app->vocab);
    if (status == FT_OK && f->offer_draft) {
        status = ft_cmd_offer_open(f->offer_draft, app->vocab, err, &app->offer);
        f->server.offer = &app->offer;
    }
    if (status != FT_OK || !f->draft || f->server.verifier.draft.budget == 0)
        return status;
    return ft_cmd_load_model(&draft, err, &app->draft, &app->draft_vocab);
}

/* Reads the file again. One that is wrong changes nothing. */
static void reload_keys(const serve_flags *f)
{
    ft_keys *keys;
    ft_error err = {0};
    if (ft_keys_load(f->keys_path, &err, &keys) != FT_OK) {
        FT_LOGE("serve", "keys not reloaded, those before hold: %s", err.message);
        return;
    }
    const size_t n = keys->n;
    ft_keyring_replace(f->server.verifier.keys, keys);
    FT_LOGI("serve", "keys reloaded n=%zu", n);
}

/* After a SIGHUP. */
static void reload(serve_app *app, const serve_flags *f)
{
    ft_error err = {0};
    ft_notify_reloading();
    if (f->keys_path)
        reload_keys(f);
    if (f->server.tls_cert && ft_server_reload_tls(app->server, &err) == FT_OK)
        FT_LOGI("serve", "certificate reloaded");
    else if (f->server.tls_cert)
        FT_LOGE("serve", "certificate not reloaded, the one before holds: %s", err.message);
    ft_api_reload(&app->api, &f->api);
    ft_notify_ready();
}

static void wait_stopped(serve_app *app, const serve_flags *f)
{
    while (!ft_cmd_stopped())
        if (ft_cmd_wait_hangup(-1))
            reload(app, f);
}

static int serve(serve_flags *f)
{
    serve_app app = {.offer.fd = -1};
    ft_error err = {0};
    ft_status status =
        ft_timeline_flags_open(&f->timeline, "serve", &err, &f->server.verifier.timeline);
    if (status == FT_OK)
        status = load(&app, f, &err);
    if (status == FT_OK && !ft_cmd_stopped()) {
        status = start_all(&app, f, &err);
        if (status == FT_OK) {
            ft_notify_ready();
            wait_stopped(&app, f);
            ft_notify_stopping();
            retire(&app, f->shutdown_delay_s);
            FT_LOGI("serve", "draining grace_s=%" PRId64, f->drain_s);
        }
        stop_all(&app, status == FT_OK ? f->drain_s * 1000000 : 0);
    }
    ft_timeline_close(f->server.verifier.timeline);
    ft_cmd_memory_close(&app.memory);
    if (app.offer.fd >= 0)
        close(app.offer.fd);
    ft_vocab_destroy(app.draft_vocab);
    ft_model_destroy(app.draft);
    ft_vocab_destroy(app.vocab);
    ft_model_destroy(app.model);
    ft_pack_flags_close(&f->pack);
    if (status != FT_OK)
        return ft_cmd_fail(&err);
    FT_LOGI("serve", "stopped");
    return 0;
}

#define VERIFIER(field) FT_FLAG(serve_flags, server.verifier.field)

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(serve_flags, model), "MODEL", "target model (GGUF)", .required = true,
     .model = true},
    {"--host", NULL, FT_FLAG(serve_flags, server.host), "HOST", "address to listen on"},
    {"--port", NULL, FT_FLAG(serve_flags, server.port), "N", "port; 0: any free one", 0, 65535},
    {"--port-file", NULL, FT_FLAG(serve_flags, port_file), "FILE",
     "write the port into this file once it listens"},
    {"--ctx-size", "-c", VERIFIER(max_context), "N",
     "tokens of a text at most; 0: the model's training context", 0, 1 << 24},
    {"--kv-tokens", NULL, VERIFIER(kv_tok), "N",
     "tokens of all texts in the KV pool; 0: 16 times --ctx-size", 0, 1 << 28},
    {"--cache-type", NULL, FT_FLAG_ENUM(serve_flags, server.verifier.kv_type, ft_kv_choices),
     "TYPE", "type of K and V in memory"},
    {"--threads", "-t", VERIFIER(n_threads), "N", "threads; 0: all cores", 0, 1024},
    {"--batch-size", "-b", VERIFIER(max_batch_tok), "N", "rows of a forward pass at most", 2,
     1 << 16},
    {"--costs", NULL, FT_FLAG(serve_flags, costs_path), "FILE",
     "what passes of this model cost here, from foretoken fit verify-time"},
    {"--prefill-budget-ms", NULL, FT_FLAG(serve_flags, prefill_ms), "MS",
     "prompts delay other sessions' rounds by this at most", 1, 60000},
    {"--max-tree", NULL, VERIFIER(max_tree), "N", "nodes of a draft at most", 1, FT_WIRE_TREE_MAX},
    {"--max-sessions", NULL, VERIFIER(max_sessions), "N", "open sessions at most", 1, 1 << 16},
    {"--per-client-share", NULL, VERIFIER(client_share), "PERCENT",
     "of streams, sessions, calls and connections that one client may have; 100: all", 1, 100},
    {"--trusted-proxy", NULL, FT_FLAG(serve_flags, trusted_proxies), "CIDR",
     "networks of proxies whose x-forwarded-for tells the client's address"},
    {"--session-ttl", NULL, VERIFIER(session_ttl_s), "S",
     "seconds that a session without a stream is kept", 0, 86400},
    {"--idle-s", NULL, VERIFIER(idle_s), "S",
     "a session whose client sends nothing for so many seconds loses its stream; 0: never", 0,
     86400},
    {"--shutdown-delay-s", NULL, FT_FLAG(serve_flags, shutdown_delay_s), "S",
     "after SIGTERM, health says no for so many seconds before new texts are refused: proxies "
     "notice meanwhile",
     0, 3600},
    {"--drain-s", NULL, FT_FLAG(serve_flags, drain_s), "S",
     "then new texts are refused, and open ones have so many seconds to end; the server ends as "
     "soon as none is left",
     0, 3600},
    {"--policy", NULL, FT_FLAG(serve_flags, policy), "NAME",
     "which verifications come next: " FT_SCHED_NAMES
     " (docs/OPERATIONS.md); default: wisp, with --slo none fcfs"},
    FT_FLAG_INCLUDE(serve_flags, of_static, ft_flags_static),
    {"--slo", NULL, FT_FLAG(serve_flags, slo), "SPEEDS",
     "classes of token speeds that can be promised, tokens/s; none: no promises"},
    {"--rules", NULL, FT_FLAG(serve_flags, rules_text), "RULES",
     "verification rules that edges may choose: exact, or exact,ratio (docs/PROTOCOL.md)"},
    {"--guard-ms", NULL, FT_FLAG(serve_flags, guard_ms), "MS",
     "policy wisp plans promised verdicts this long before they are due", 0, 10000},
    {"--token", NULL, FT_FLAG(serve_flags, server.token), "T",
     "bearer token that edges must present (visible to others on this machine)"},
    {"--token-file", NULL, FT_FLAG(serve_flags, token_file), "FILE",
     "the same, from the first line of a file"},
    {"--keys", NULL, FT_FLAG(serve_flags, keys_path), "FILE",
     "or the tokens of several tenants; SIGHUP reads it again (docs/OPERATIONS.md)"},
    {"--tls-cert", NULL, FT_FLAG(serve_flags, server.tls_cert), "FILE",
     "certificate (PEM); SIGHUP reads it again"},
    {"--tls-key", NULL, FT_FLAG(serve_flags, server.tls_key), "FILE", "its private key (PEM)"},
    {"--tls-client-ca", NULL, FT_FLAG(serve_flags, server.tls_client_ca), "FILE",
     "accept only edges with a certificate of this CA (PEM)"},
    {"--insecure", NULL, FT_FLAG(serve_flags, insecure), NULL,
     "serve other machines without asking who they are"},
    FT_FLAG_INCLUDE(serve_flags, device, ft_flags_device),
    FT_FLAG_INCLUDE(serve_flags, memory, ft_flags_memory),
    FT_FLAG_INCLUDE(serve_flags, pack, ft_flags_pack),
    {"--model-draft", "-md", FT_FLAG(serve_flags, draft), "MODEL",
     "draft model (GGUF): the server drafts for clients that do not", .model = true},
    {"--offer-draft", NULL, FT_FLAG(serve_flags, offer_draft), "MODEL",
     "draft model (GGUF) that edges without one take from here", .model = true},
    {"--spec-draft-n-max", NULL, VERIFIER(draft.budget), "N",
     "drafted tokens a round at most; 0: none", 0, FT_TREE_MAX},
    {"--draft-depth", NULL, VERIFIER(draft.depth), "N",
     "draft passes a round at most; 0: as many as tokens", 0, FT_TREE_MAX},
    {"--draft-width", NULL, VERIFIER(draft.width), "N",
     "leaves of the draft tree that one pass continues; 1: a chain", 1, FT_TREE_MAX},
    {"--no-speculation", NULL, FT_FLAG(serve_flags, no_speculation), NULL, "never draft"},
    {"--draft-kv", NULL, VERIFIER(draft_kv_tok), "N",
     "tokens of all texts in the draft model's KV pool; 0: as the target's", 0, 1 << 28},
    {"--draft-always", NULL, VERIFIER(draft_always), NULL,
     "always draft trees of full size, even if that is slower (for measurements)"},
    FT_FLAG_INCLUDE(serve_flags, device_draft, ft_flags_draft_device),
    {"--portable", NULL, VERIFIER(portable_attention), NULL,
     "attention by ggml's operators instead of our CPU kernel"},
    {"--no-prefix-cache", NULL, VERIFIER(no_prefix_cache), NULL,
     "sessions of one credential do not share KV of common prefixes"},
    {"--http-port", NULL, FT_FLAG(serve_flags, http), "[HOST:]PORT",
     "serve the OpenAI API there, for clients without an edge (PORT alone: on 127.0.0.1)"},
    {"--http-port-file", NULL, FT_FLAG(serve_flags, http_port_file), "FILE",
     "write the API's port into this file once it listens"},
    FT_FLAG_INCLUDE(serve_flags, api, ft_flags_api),
    {"--metrics", NULL, FT_FLAG(serve_flags, metrics), "[HOST:]PORT",
     "Prometheus page /metrics there (PORT alone: on 127.0.0.1; see docs/METRICS.md)"},
    {"--metrics-port-file", NULL, FT_FLAG(serve_flags, metrics_port_file), "FILE",
     "write the port of the metrics page into this file"},
    {"--picker-metrics", NULL, FT_FLAG(serve_flags, picker_names), "NAMES",
     "on that page also three gauges under these names: rounds waiting, texts running, share of KV "
     "in use (vllm: vLLM's names; docs/METRICS.md)"},
    {"--timeline", NULL, FT_FLAG(serve_flags, timeline.path), "FILE",
     "write what each pass did when, for ui.perfetto.dev (docs/OPERATIONS.md)"},
    {"--timeline-mb", NULL, FT_FLAG(serve_flags, timeline.mb), "N",
     "size of that file at most; then it ends", 1, 1 << 20},
    {"--verbose", "-v", FT_FLAG(serve_flags, verbose), NULL, "log details (level debug)"},
};

static const serve_flags defaults = {
    .server = {.host = "127.0.0.1",
               .port = 7411,
               .verifier = {.max_context = 4096,
                            .max_batch_tok = 512,
                            .max_tree = 64,
                            .max_sessions = 1024,
                            .client_share = 25,
                            .session_ttl_s = 120,
                            .idle_s = 600,
                            /* SpecEdge 5's trees: 32 nodes, 7 levels */
                            .draft = {.budget = 32, .depth = 7, .width = 8}}},
    .rules_text = "exact",
    .slo = "2,4,6,8",
    .guard_ms = 5,
    .prefill_ms = 50,
    .drain_s = 30, /* 5 cut API texts of more than some 100 tokens at each restart */
    .of_static = FT_STATIC_FLAGS_INIT,
    .timeline.mb = FT_TIMELINE_DEFAULT_BYTES >> 20,
    .device = FT_DEVICE_OPTS_INIT,
    .device_draft = FT_DEVICE_OPTS_INIT,
    .pack = FT_PACK_FLAGS_INIT};

static int run(void *options, int n_words, char **words)
{
    serve_flags *f = options;
    ft_error err = {0};
    int code = 2;
    if (f->verbose)
        ft_log_set_level(FT_LOG_DEBUG);
    ft_cmd_catch_signals();
    if (f->keys_path || f->server.tls_cert || f->api.http.tls_cert || ft_notify_asked())
        ft_cmd_catch_hangup();
    if (check_flags(f, &err) == FT_OK)
        code = serve(f);
    else
        (void)ft_cmd_fail(&err);
    ft_keyring_destroy(f->server.verifier.keys);
    free(f->token_text);
    return code;
}

const ft_command ft_cmd_serve = {
    .name = "serve",
    .summary = "serve a target model: edges draft, this process verifies",
    .usage = "-m FILE [flags]",
    .about = "Serves a target model: edges draft, this process verifies (gRPC, "
             "docs/PROTOCOL.md). Logs go to standard error. After SIGINT or SIGTERM, open "
             "texts get --drain-s to end.",
    FT_CMD_OPTIONS(rows, defaults),
    .service = true,
    .run = run};
