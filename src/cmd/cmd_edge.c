// SPDX-License-Identifier: Apache-2.0
// foretoken edge: the program next to the user's apps. Loads the draft model, connects to the
// verification servers, serves the OpenAI API. If no server answers at the start, and there is no
// fallback target, the API answers 503 with the reason until one does. Everything lives until a
// signal; main thread only.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/log.h"
#include "base/notify.h"
#include "cmd/api.h"
#include "cmd/cmd.h"
#include "cmd/endpoint.h"
#include "cmd/fallback.h"
#include "cmd/gen_flags.h"
#include "cmd/offer.h"

#define TRY_AGAIN_MS 1000 /* between two tries to reach a server that has not answered yet */

typedef struct edge_flags {
    const char *servers, *draft, *vocab, *rule, *policy, *port_file, *token_file;
    double uplink_mbit; /* 0: measured */
    bool insecure;
    bool fetch; /* if there is neither draft nor vocab: take the draft that a server offers */
    int64_t fetch_max_mb;
    uint32_t lattice;
    ft_wire_client_opts wire; /* of each server; the address is set for one after the other */
    ft_edge_flags edge;
    ft_device_opts device;
    ft_api_flags api;
    ft_fallback_flags fallback;
    ft_pack_flags pack;
} edge_flags;

typedef struct edge_app {
    edge_flags f;
    char *token;     /* from a file */
    char *fetched;   /* path of the draft that a server offers */
    char *addresses; /* the items of `servers` */
    ft_wire_client *clients[FT_SERVERS_MAX];
    ft_link_source more[FT_SERVERS_MAX]; /* of the clients after the first */
    uint32_t n_clients;
    ft_vocab *vocab;
    ft_model *draft;
    ft_policy policy; /* all-zero: none */
    ft_cmd_fallback fallback;
    ft_edge *edge;   /* NULL: no server has answered yet */
    ft_error absent; /* why not */
    ft_api api;
} edge_app;

/* Whether there will be a draft model. */
static bool drafts_by_model(const edge_flags *f)
{
    return f->draft || (!f->vocab && f->fetch);
}

static ft_status check_rule(edge_flags *f, ft_error *err)
{
    ft_edge_opts *edge = &f->edge.opts;
    edge->rule_auto = strcmp(f->rule, "auto") == 0;
    edge->rule =
        edge->rule_auto ? &ft_rule_ratio : ft_rule_named(ft_rules_all, f->rule, strlen(f->rule));
    edge->uplink_bits_per_s = 1e6 * f->uplink_mbit;
    if (!edge->rule)
        return ft_error_set(err, FT_INVALID, "edge: no rule '%s': there are exact, ratio and auto",
                            f->rule);
    const char *of_points = f->policy ? "--policy" : f->lattice > 0 ? "--lattice" : NULL;
    if (of_points && edge->rule == &ft_rule_exact)
        return ft_error_set(err, FT_INVALID,
                            "edge: %s is about the points of rule ratio: pass --rule ratio or auto",
                            of_points);
    if ((edge->rule_auto || of_points) && (!drafts_by_model(f) || edge->draft.budget == 0))
        return ft_error_set(err, FT_INVALID,
                            "edge: %s is about drafts: it needs a draft model (-md) and drafts",
                            of_points ? of_points : "--rule auto");
    if (f->uplink_mbit > 0 && !edge->rule_auto && !f->policy)
        return ft_error_set(err, FT_INVALID,
                            "edge: --uplink-mbit counts with --rule auto and --policy only");
    return FT_OK;
}

static ft_status check(edge_flags *f, ft_error *err)
{
    if (f->draft ? f->vocab != NULL : !f->vocab && !f->fetch)
        return ft_error_set(err, FT_INVALID,
                            "edge: pass a draft model with -md, or with -m a file of the server's "
                            "vocabulary, and not both");
    if (f->edge.opts.fallback_ms && !f->fallback.path)
        return ft_error_set(err, FT_INVALID, "edge: --fallback-ms goes with --fallback");
    if (f->wire.token && f->token_file)
        return ft_error_set(err, FT_INVALID, "edge: pass --token or --token-file, not both");
    ft_status status = ft_api_flags_check(&f->api, "edge", "--host", f->insecure, err);
    if (status == FT_OK)
        status = ft_fallback_flags_check(&f->fallback, err);
    if (status == FT_OK)
        status = ft_edge_flags_check(&f->edge, err);
    if (status == FT_OK)
        status = check_rule(f, err);
    const char *draft = f->draft || !drafts_by_model(f) ? f->draft : "a server's";
    return status == FT_OK ? ft_edge_flags_check_source(&f->edge, "edge", draft, err) : status;
}

static ft_pack_flags *pack_of(edge_app *app)
{
    return ft_pack_flags_unless(&app->f.pack, app->fallback.memory.on);
}

static ft_status load_draft(edge_app *app, ft_error *err)
{
    const edge_flags *f = &app->f;
    if (!f->draft || f->edge.opts.draft.budget == 0 || f->edge.opts.draft_by == FT_DRAFT_BY_LOOKUP)
        return ft_vocab_load(f->draft ? f->draft : f->vocab, err, &app->vocab);
    const ft_cmd_model draft = {f->draft, "loading the draft", &f->device,
                                ft_pack_flags_open(pack_of(app))};
    return ft_cmd_load_model(&draft, err, &app->draft, &app->vocab);
}

static ft_status load(edge_app *app, ft_error *err)
{
    edge_flags *f = &app->f;
    ft_edge_opts *edge = &f->edge.opts;
    ft_status status =
        ft_cmd_fallback_plan(&app->fallback, &f->fallback, f->draft, f->device.kernels, edge, err);
    if (status == FT_OK)
        status = ft_edge_flags_open(&f->edge, err);
    if (status == FT_OK && f->policy) {
        status = ft_policy_load(f->policy, err, &app->policy);
        edge->policy = &app->policy;
    }
    if (status == FT_OK)
        status = load_draft(app, err);
    if (status == FT_OK)
        status = ft_edge_flags_find(&f->edge, f->draft, app->draft, err);
    edge->vocab = app->vocab;
    edge->draft_model = app->draft;
    app->fallback.pack = pack_of(app);
    return status == FT_OK ? ft_cmd_fallback_start(&app->fallback, edge, err) : status;
}

/* A client for each item of --server. */
static ft_status make_clients(edge_app *app, ft_error *err)
{
    const uint32_t most = FT_SERVERS_MAX - (app->f.fallback.path != NULL);
    char *rest = app->addresses = strdup(app->f.servers), *address;
    if (!rest)
        return ft_error_set(err, FT_NOMEM, "edge: out of memory");
    while ((address = strsep(&rest, ",")) != NULL) {
        if (app->n_clients == most)
            return ft_error_set(err, FT_INVALID, "edge: --server: at most %u servers", most);
        app->f.wire.address = address;
        ft_status status = ft_wire_client_create(&app->f.wire, err, &app->clients[app->n_clients]);
        if (status != FT_OK)
            return status;
        app->n_clients++;
    }
    return FT_OK;
}

/* Clients connect when they are used: here if the draft comes from a server. */
static ft_status find_servers(edge_app *app, ft_error *err)
{
    edge_flags *f = &app->f;
    ft_status status = FT_OK;
    f->wire.stopped = ft_cmd_stopped;
    if (f->token_file) {
        status = ft_cmd_read_secret(f->token_file, err, &app->token);
        f->wire.token = app->token;
    }
    if (status == FT_OK)
        status = make_clients(app, err);
    if (status == FT_OK && !f->draft && drafts_by_model(f)) {
        status = ft_cmd_offer_fetch(app->clients, app->n_clients,
                                    (uint64_t)f->fetch_max_mb * 1000000, err, &app->fetched);
        f->draft = app->fetched;
    }
    return status;
}

static void connect_servers(edge_app *app)
{
    ft_edge_opts *edge = &app->f.edge.opts;
    for (uint32_t i = 1; i < app->n_clients; i++)
        app->more[i - 1] = ft_link_source_wire(app->clients[i]);
    edge->source = ft_link_source_wire(app->clients[0]);
    edge->more = app->more;
    edge->n_more = app->n_clients - 1;
    edge->clock = ft_clock_monotonic();
    edge->draft.resolution = app->f.lattice;
}

static void keep_what_is_learnt(edge_app *app)
{
    const ft_edge_opts *edge = &app->f.edge.opts;
    char of[1024], draft[128];
    snprintf(of, sizeof of, "edge %s %d %s", app->f.servers, ft_cpu_threads(edge->n_threads),
             ft_cmd_device_name(&app->f.device, draft));
    ft_edge_flags_keep(&app->f.edge, of);
}

/* Asks the servers for their Info, until a signal. No answer is not an error: a server may come
 * later. If all have answered and none fits this edge, that is one. */
static ft_status meet_server(edge_app *app, ft_error *err)
{
    ft_status status = ft_edge_create(&app->f.edge.opts, &app->absent, &app->edge);
    if (status == FT_OK || status == FT_UNAVAILABLE || status == FT_TIMEOUT || ft_cmd_stopped())
        return FT_OK;
    *err = app->absent;
    return status;
}

/* As it is said to people. */
static const char *what_drafts(const edge_app *app)
{
    const ft_edge_opts *edge = &app->f.edge.opts;
    if (app->draft)
        return ft_model_name(app->draft);
    return edge->draft.budget > 0 && edge->draft_by == FT_DRAFT_BY_LOOKUP ? "by lookups" : "off";
}

static void say_ready(const edge_app *app)
{
    printf("foretoken edge: http%s://%s:%d/v1 for %s on %s, drafting %s\n",
           app->f.api.http.tls_cert ? "s" : "", app->f.api.http.host, ft_http_port(app->api.http),
           ft_edge_server_info(app->edge)->model, app->f.servers, what_drafts(app));
    fflush(stdout);
}

/* After a SIGHUP. */
static void reload(const edge_app *app)
{
    ft_notify_reloading();
    ft_api_reload(&app->api, &app->f.api);
    ft_notify_ready();
}

/* Serves until a signal. While there is no edge, tries the servers again and again, also if one
 * that does not fit has answered: another may take its place. */
static void serve_api(edge_app *app)
{
    ft_error told = {0}, err;
    while (!app->edge && !ft_cmd_stopped()) {
        ft_openai_set_absent(app->api.openai, app->absent.message);
        if (strcmp(told.message, app->absent.message) != 0)
            FT_LOGW("edge", "server absent port=%d reason=\"%s\"", ft_http_port(app->api.http),
                    app->absent.message);
        told = app->absent;
        if (ft_cmd_wait_hangup(TRY_AGAIN_MS))
            reload(app);
        ft_status status = ft_cmd_stopped() ? FT_OK : meet_server(app, &err);
        (void)status; /* app->edge and app->absent say it */
    }
    if (!app->edge)
        return;
    ft_cmd_fallback_compare(&app->fallback, ft_edge_server_info(app->edge));
    ft_openai_set_edge(app->api.openai, app->edge);
    say_ready(app);
    while (!ft_cmd_stopped())
        if (ft_cmd_wait_hangup(-1))
            reload(app);
}

static ft_status listen_http(edge_app *app, ft_error *err)
{
    const edge_flags *f = &app->f;
    const ft_openai_opts openai = {
        .edge = app->edge, .vocab = app->vocab, .no_speculation = f->edge.no_speculation};
    ft_status status = ft_api_start(&app->api, &f->api, openai, NULL, err);
    if (status == FT_OK && f->port_file)
        status = ft_cmd_write_port(f->port_file, ft_http_port(app->api.http), err);
    return status;
}

static void close_all(edge_app *app)
{
    ft_api_stop(&app->api);
    ft_edge_destroy(app->edge);
    ft_cmd_fallback_stop(&app->fallback);
    for (uint32_t i = 0; i < app->n_clients; i++)
        ft_wire_client_destroy(app->clients[i]);
    ft_edge_flags_close(&app->f.edge);
    ft_model_destroy(app->draft);
    ft_pack_flags_close(&app->f.pack);
    ft_vocab_destroy(app->vocab);
    ft_policy_deinit(&app->policy);
    free(app->addresses);
    free(app->token);
    free(app->fetched);
}

static const ft_flag rows[] = {
    {"--server", NULL, FT_FLAG(edge_flags, servers), "HOST:PORT,..",
     "the verification servers; the first that can takes a text", .required = true},
    {"--model-draft", "-md", FT_FLAG(edge_flags, draft), "MODEL", "draft model (GGUF)",
     .model = true},
    {"--model", "-m", FT_FLAG(edge_flags, vocab), "MODEL",
     "without a draft model: a GGUF with the server's vocabulary (--draft-source lookup drafts "
     "with no more than that)",
     .model = true},
    {"--fetch", NULL, FT_FLAG(edge_flags, fetch), NULL,
     "without -md and -m: take the draft model that a server offers (serve --offer-draft)"},
    {"--fetch-max-mb", NULL, FT_FLAG(edge_flags, fetch_max_mb), "N",
     "such a draft model has so many MB at most", 1, 1e6},
    {"--host", NULL, FT_FLAG(edge_flags, api.http.host), "HOST", "address that the API listens on"},
    {"--port", NULL, FT_FLAG(edge_flags, api.http.port), "N", "port of the API; 0: any free one", 0,
     65535},
    {"--port-file", NULL, FT_FLAG(edge_flags, port_file), "FILE",
     "write the port into this file once it listens"},
    {"--threads", "-t", FT_FLAG(edge_flags, edge.opts.n_threads), "N",
     "threads of the draft model, and of the fallback target; 0: all cores", 0, 1024},
    {"--parallel", "-np", FT_FLAG(edge_flags, edge.opts.max_generations), "N",
     "generations at the same time at most", 1, 4096},
    {"--cache-type", NULL, FT_FLAG_ENUM(edge_flags, edge.opts.draft_kv_type, ft_kv_choices), "TYPE",
     "type of the draft model's K and V, and of the fallback target's"},
    {"--draft-kv", NULL, FT_FLAG(edge_flags, edge.opts.draft_kv_tok), "N",
     "tokens in the draft model's KV pool; 0: four texts of full length", 0, 1e9},
    {"--rule", NULL, FT_FLAG(edge_flags, rule), "RULE",
     "verification rule of texts, if the server offers it: exact, ratio (docs/PROTOCOL.md), or "
     "auto: the faster one"},
    {"--uplink-mbit", NULL, FT_FLAG(edge_flags, uplink_mbit), "R",
     "for --rule auto and --policy: rate of the uplink, Mbit/s; 0: as measured", 0, 1e6},
    {"--lattice", NULL, FT_FLAG(edge_flags, lattice), "L",
     "rule ratio: into how many parts points divide probability 1, 1024 at most; 0: 240", 0,
     FT_RATIO_L_MAX},
    {"--policy", NULL, FT_FLAG(edge_flags, policy), "FILE",
     "rule ratio: this draft policy (train policy) chooses length, up to --draft's, and l"},
    {"--reconnect-ms", NULL, FT_FLAG(edge_flags, edge.opts.reconnect_ms), "MS",
     "how long to try to reach lost servers again", 1, 1e9},
    FT_FLAG_INCLUDE(edge_flags, fallback, ft_flags_fallback),
    {"--fallback-ms", NULL, FT_FLAG(edge_flags, edge.opts.fallback_ms), "MS",
     "--fallback: a text goes there when no server has had it for so long; 0: 2000", 0, 1e9},
    {"--require-same-target", NULL, FT_FLAG(edge_flags, edge.opts.require_same_target), NULL,
     "end a text that would go on with other weights or kernels than it began with"},
    {"--slo", NULL, FT_FLAG(edge_flags, edge.opts.slo_tokens_per_s), "SPEED",
     "tokens/s to ask the server to promise; 0: no promise", 0, 1e6},
    FT_FLAG_INCLUDE(edge_flags, edge, ft_flags_edge),
    FT_FLAG_INCLUDE(edge_flags, device, ft_flags_device),
    FT_FLAG_INCLUDE(edge_flags, pack, ft_flags_pack),
    {"--token-file", NULL, FT_FLAG(edge_flags, token_file), "FILE",
     "bearer token for the server, from a file"},
    FT_FLAG_INCLUDE(edge_flags, wire, ft_flags_wire),
    FT_FLAG_INCLUDE(edge_flags, api, ft_flags_api),
    FT_FLAG_INCLUDE(edge_flags, api, ft_flags_api_clients),
    {"--insecure", NULL, FT_FLAG(edge_flags, insecure), NULL,
     "allow other machines to use the API without a key"},
};

static const edge_flags defaults = {.rule = "exact",
                                    .fetch = true,
                                    .fetch_max_mb = 1000,
                                    .api.http = {.host = "127.0.0.1", .port = 8411},
                                    .edge = {FT_EDGE_FLAGS_INIT(true, "auto"),
                                             .opts.max_generations = 64,
                                             .opts.reconnect_ms = 120000},
                                    .device = FT_DEVICE_OPTS_INIT,
                                    .pack = FT_PACK_FLAGS_INIT};

static int run(void *options, int n_words, char **words)
{
    edge_app app = {.f = *(const edge_flags *)options};
    ft_error err = {0};
    if (check(&app.f, &err) != FT_OK) {
        ft_cmd_fail(&err);
        return 2;
    }
    ft_cmd_catch_signals();
    if (app.f.api.http.tls_cert || ft_notify_asked())
        ft_cmd_catch_hangup();
    ft_status status = find_servers(&app, &err);
    if (status == FT_OK)
        status = load(&app, &err);
    if (status == FT_OK) {
        connect_servers(&app);
        keep_what_is_learnt(&app);
        status = meet_server(&app, &err);
    }
    if (status == FT_OK && !ft_cmd_stopped()) {
        status = listen_http(&app, &err);
        if (status == FT_OK) {
            ft_notify_ready();
            serve_api(&app);
            ft_notify_stopping();
        }
    }
    close_all(&app);
    return status == FT_OK ? 0 : ft_cmd_fail(&err);
}

const ft_command ft_cmd_edge = {
    .name = "edge",
    .summary = "draft here, verify on a server, serve the OpenAI API",
    .usage = "--server HOST:PORT[,HOST:PORT..] [-md DRAFT.gguf] [flags]",
    .about = "Drafts with a small model on this machine, has a verification server (foretoken "
             "serve) check every token, and serves the OpenAI API (/v1) to apps on this "
             "machine. The text is that of the server's model, with or without drafting.",
    FT_CMD_OPTIONS(rows, defaults),
    .service = true,
    .run = run};
