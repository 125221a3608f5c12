// SPDX-License-Identifier: Apache-2.0
// foretoken serve: the verification server as a process. Flags in, a ready line out, statistics at
// the end.
#include <stdlib.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/device_flags.h"
#include "cmd/endpoint.h"
#include "serve/server.h"

#define GRACE_US 5000000 /* sessions get this long to finish after a signal */

typedef struct serve_flags {
    const char *model, *host, *token, *token_file, *tls_cert, *tls_key, *tls_client_ca;
    const char *policy, *port_file, *metrics, *cache_type;
    char metrics_host[256];
    int metrics_port;
    int64_t port, ctx, kv_tok, threads, batch, prefill_ms, max_tree, max_sessions, ttl_s;
    bool insecure, portable, no_prefix_cache, verbose;
    ft_device_flags device;
    char *token_text; /* of token_file */
} serve_flags;

static ft_status check_flags(serve_flags *f, ft_error *err)
{
    if (!f->model)
        return ft_error_set(err, FT_INVALID, "serve: which model? pass the target's file with -m");
    if (f->token && f->token_file)
        return ft_error_set(err, FT_INVALID, "serve: pass --token or --token-file, not both");
    if (!f->tls_cert != !f->tls_key)
        return ft_error_set(err, FT_INVALID, "serve: --tls-cert and --tls-key go together");
    if (f->tls_client_ca && !f->tls_cert)
        return ft_error_set(err, FT_INVALID, "serve: --tls-client-ca needs --tls-cert, --tls-key");
    if (!ft_sched_find(f->policy))
        return ft_error_set(err, FT_INVALID, "serve: no policy '%s': there is fcfs", f->policy);
    if (f->metrics) {
        ft_status status = ft_cmd_parse_endpoint(f->metrics, "serve: --metrics", err,
                                                 f->metrics_host, &f->metrics_port);
        if (status != FT_OK)
            return status;
    }
    if (f->token_file) {
        ft_status status = ft_cmd_read_secret(f->token_file, err, &f->token_text);
        if (status != FT_OK)
            return status;
        f->token = f->token_text;
    }
    if (f->token && !f->token[0])
        return ft_error_set(err, FT_INVALID, "serve: the token is empty");
    if (!ft_cmd_is_loopback(f->host) && !f->token && !f->tls_client_ca && !f->insecure)
        return ft_error_set(err, FT_INVALID,
                            "serve: %s is reachable for others, so ask who they are: pass --token, "
                            "--token-file or --tls-client-ca (or --insecure to serve anybody)",
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
            info.limits.max_tree, f->token ? "token" : "none",
            !f->tls_cert       ? "none"
            : f->tls_client_ca ? "mutual"
                               : "server");
}

static ft_status serve(const serve_flags *f, const ft_model *model, const ft_vocab *vocab,
                       ft_error *err)
{
    ft_server *server = NULL;
    ft_kv_type kv_type;
    ft_status status = ft_cmd_kv_type(f->cache_type, err, &kv_type);
    if (status != FT_OK)
        return status;
    const ft_server_opts opts = {.verifier = {.model = model,
                                              .vocab = vocab,
                                              .policy = ft_sched_find(f->policy),
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
                                              .no_prefix_cache = f->no_prefix_cache},
                                 .metrics_host = f->metrics ? f->metrics_host : NULL,
                                 .metrics_port = f->metrics_port,
                                 .host = f->host,
                                 .port = (int)f->port,
                                 .token = f->token,
                                 .tls_cert = f->tls_cert,
                                 .tls_key = f->tls_key,
                                 .tls_client_ca = f->tls_client_ca};
    status = ft_server_create(&opts, err, &server);
    if (status != FT_OK)
        return status;
    log_ready(f, server, model, ft_server_verifier(server));
    if (f->metrics)
        FT_LOGI("serve", "metrics host=%s port=%d path=/metrics", f->metrics_host,
                ft_server_metrics_port(server));
    if (f->port_file)
        status = ft_cmd_write_port(f->port_file, ft_server_port(server), err);
    if (status == FT_OK) {
        ft_cmd_wait_stopped();
        FT_LOGI("serve", "draining grace_s=%d", GRACE_US / 1000000);
    }
    ft_server_destroy(server, status == FT_OK ? GRACE_US : 0);
    return status;
}

static int run(const serve_flags *f)
{
    ft_model *model = NULL;
    ft_vocab *vocab = NULL;
    ft_error err = {0};
    const ft_model_opts opts = {.path = f->model, .progress = ft_progress_terminal("loading")};
    ft_status status = ft_model_load_on(&f->device, &opts, &err, &model);
    if (status == FT_OK)
        status = ft_vocab_load(f->model, &err, &vocab);
    if (status == FT_OK && !ft_cmd_stopped())
        status = serve(f, model, vocab, &err);
    ft_vocab_destroy(vocab);
    ft_model_destroy(model);
    if (status != FT_OK)
        return ft_cmd_fail(&err);
    FT_LOGI("serve", "stopped");
    return 0;
}

int ft_cmd_serve(int argc, char **argv)
{
    serve_flags f = {.host = "127.0.0.1",
                     .port = 7411,
                     .policy = "fcfs",
                     .cache_type = "f16",
                     .ctx = 4096,
                     .batch = 512,
                     .prefill_ms = 50,
                     .max_tree = 64,
                     .max_sessions = 1024,
                     .ttl_s = 60,
                     .device = FT_DEVICE_FLAGS_INIT};
    const ft_flag flags[] = {
        {"--model", "-m", FT_FLAG_STRING, &f.model, "FILE", "target model (GGUF)", 0, 0},
        {"--host", NULL, FT_FLAG_STRING, &f.host, "HOST", "address to listen on", 0, 0},
        {"--port", NULL, FT_FLAG_INT, &f.port, "N", "port, 0: any free one", 0, 65535},
        {"--port-file", NULL, FT_FLAG_STRING, &f.port_file, "FILE",
         "write the port there once it listens", 0, 0},
        {"--ctx-size", "-c", FT_FLAG_INT, &f.ctx, "N",
         "tokens of a text at most (0: the model's training context)", 0, 1 << 24},
        {"--kv-tokens", NULL, FT_FLAG_INT, &f.kv_tok, "N",
         "tokens of all texts in the KV pool (0: 16 times --ctx-size)", 0, 1 << 28},
        {"--cache-type", NULL, FT_FLAG_STRING, &f.cache_type, "TYPE",
         "how K and V are kept: f16, bf16 or q8_0", 0, 0},
        {"--threads", "-t", FT_FLAG_INT, &f.threads, "N", "threads (0: all cores)", 0, 1024},
        {"--batch-size", "-b", FT_FLAG_INT, &f.batch, "N", "rows of one forward pass at most", 2,
         1 << 16},
        {"--prefill-budget-ms", NULL, FT_FLAG_INT, &f.prefill_ms, "MS",
         "long prompts delay nobody's round by more than this", 1, 60000},
        {"--max-tree", NULL, FT_FLAG_INT, &f.max_tree, "N", "nodes of one draft at most", 1,
         FT_WIRE_TREE_MAX},
        {"--max-sessions", NULL, FT_FLAG_INT, &f.max_sessions, "N", "sessions at once", 1, 1 << 16},
        {"--session-ttl", NULL, FT_FLAG_INT, &f.ttl_s, "S",
         "seconds that a session without a stream is kept", 0, 86400},
        {"--policy", NULL, FT_FLAG_STRING, &f.policy, "NAME", "order of service: fcfs", 0, 0},
        {"--token", NULL, FT_FLAG_STRING, &f.token, "T",
         "bearer token that edges must present (others on this machine can see it)", 0, 0},
        {"--token-file", NULL, FT_FLAG_STRING, &f.token_file, "FILE",
         "the same from the first line of a file", 0, 0},
        {"--tls-cert", NULL, FT_FLAG_STRING, &f.tls_cert, "FILE", "certificate (PEM)", 0, 0},
        {"--tls-key", NULL, FT_FLAG_STRING, &f.tls_key, "FILE", "its key (PEM)", 0, 0},
        {"--tls-client-ca", NULL, FT_FLAG_STRING, &f.tls_client_ca, "FILE",
         "only edges with a certificate of this CA (PEM)", 0, 0},
        {"--insecure", NULL, FT_FLAG_BOOL, &f.insecure, NULL,
         "serve other machines without asking who they are", 0, 0},
        FT_DEVICE_FLAGS(f.device),
        {"--portable", NULL, FT_FLAG_BOOL, &f.portable, NULL,
         "attention by ggml's operators instead of our CPU kernel", 0, 0},
        {"--no-prefix-cache", NULL, FT_FLAG_BOOL, &f.no_prefix_cache, NULL,
         "sessions of one credential do not share what they computed", 0, 0},
        {"--metrics", NULL, FT_FLAG_STRING, &f.metrics, "HOST:PORT",
         "Prometheus page /metrics there (PORT alone: on 127.0.0.1; see docs/METRICS.md)", 0, 0},
        {"--verbose", "-v", FT_FLAG_BOOL, &f.verbose, NULL, "log details", 0, 0},
    };
    ft_error err = {0};
    int n_words = 0;
    const ft_cmd_usage usage = {
        .usage = "serve -m FILE [flags]",
        .about =
            "Serves the target model: edges draft, this process verifies (gRPC, see proto/). Logs go to\n"
            "standard error. SIGINT or SIGTERM drains: running texts get a few seconds to finish.",
        .flags = flags,
        .n_flags = FT_COUNT(flags)};
    int done = ft_cmd_parse(&usage, argc, argv, &n_words);
    if (done >= 0)
        return done;
    if (f.verbose)
        ft_log_set_level(FT_LOG_DEBUG);
    ft_cmd_catch_signals();
    if (check_flags(&f, &err) == FT_OK) {
        done = run(&f);
    } else {
        (void)ft_cmd_fail(&err);
        done = 2;
    }
    free(f.token_text);
    return done;
}
