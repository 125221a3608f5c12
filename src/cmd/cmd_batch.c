// SPDX-License-Identifier: Apache-2.0
// foretoken batch: answers a file of tasks. The draft model drafts for all tasks of a batch at
// once, a server verifies them in one pass, and while it does the edge drafts for the next batch
// (edge/batch.h). The planner says which tasks are a batch (edge/batch_planner.h). Main thread
// only.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/endpoint.h"
#include "cmd/gen_flags.h"
#include "cmd/plan_print.h"
#include "edge/batch.h"

#define TRY_AGAIN_NS 200000000 /* between two tries to reach a server that has not answered yet */

typedef struct batch_flags {
    const char *server, *draft, *vocab, *out, *token_file;
    const char *costs[FT_STATIONS]; /* files */
    ft_batch_algorithm algorithm;
    int64_t length; /* < 0: as planned */
    uint32_t length_most, batch_most, context;
    double acceptance;
    bool resume, dry_run, json;
    ft_wire_client_opts wire;
    ft_edge_opts edge;
    ft_device_opts device;
    ft_sampling_flags sampling;
} batch_flags;

typedef struct batch_app {
    batch_flags f;
    char *token; /* from a file */
    ft_wire_client *client;
    ft_vocab *vocab;
    ft_model *model;
    ft_edge *edge;
    ft_tasks tasks;
    ft_journal *journal;
    ft_msg_info info; /* of the server; without one, only what is known of the context */
    ft_batch_known known;
    ft_batch_planner planner;
    ft_batch_stats stats;
} batch_app;

/* ---- what it works with ---- */

static ft_status check(batch_flags *f, ft_error *err)
{
    if (!f->draft == !f->vocab)
        return ft_error_set(err, FT_INVALID,
                            "batch: pass a draft model with -md, or with -m a file of the server's "
                            "vocabulary, and not both");
    if (!f->out && !f->dry_run)
        return ft_error_set(err, FT_INVALID, "batch: pass the file of the answers with -o");
    if (f->wire.token && f->token_file)
        return ft_error_set(err, FT_INVALID, "batch: pass --token or --token-file, not both");
    if (f->sampling.seed < 0)
        return ft_error_set(err, FT_INVALID,
                            "batch: --seed is %lld: a batch can only be resumed with a seed that "
                            "is known, from 0 on",
                            (long long)f->sampling.seed);
    if (!f->server && !f->dry_run)
        return ft_error_set(err, FT_INVALID, "batch: pass the server with --server");
    if (f->length >= 0)
        f->length_most = (uint32_t)f->length;
    if (!f->draft)
        f->length_most = 0;
    if (!f->draft && f->length > 0)
        return ft_error_set(err, FT_INVALID, "batch: --length %lld wants a draft model (-md)",
                            (long long)f->length);
    return ft_sampling_flags_check(&f->sampling, err);
}

static bool stopped(void *ctx)
{
    (void)ctx;
    return ft_cmd_stopped();
}

/* Room for the tasks with the longest texts, of which as many are under way as may be at once. */
static uint32_t draft_kv_tok(const batch_app *app, uint32_t context)
{
    uint64_t longest = 0, sum = 0;
    const size_t n =
        app->tasks.n < app->f.edge.max_generations ? app->tasks.n : app->f.edge.max_generations;
    for (size_t i = 0; i < app->tasks.n; i++) {
        const uint64_t room = ft_task_room_tok(&app->tasks.task[i], context);
        longest = room > longest ? room : longest;
        sum += room;
    }
    if (sum > n * longest)
        sum = n * longest;
    return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

static ft_status load(batch_app *app, ft_error *err)
{
    batch_flags *f = &app->f;
    ft_status status = FT_OK;
    if (f->token_file) {
        status = ft_cmd_read_secret(f->token_file, err, &app->token);
        f->wire.token = app->token;
    }
    if (status != FT_OK)
        return status;
    if (f->length_most == 0 || f->dry_run)
        return ft_vocab_load(f->draft ? f->draft : f->vocab, err, &app->vocab);
    const ft_cmd_model draft = {f->draft, "loading the draft", &f->device, NULL};
    return ft_cmd_load_model(&draft, err, &app->model, &app->vocab);
}

/* Asks the server for its Info, for as long as a lost one is waited for. */
static ft_status meet_server(const batch_app *app, const ft_link_source *source, ft_error *err,
                             ft_msg_info *info)
{
    static const struct timespec pause = {.tv_nsec = TRY_AGAIN_NS};
    const ft_clock clock = ft_clock_monotonic();
    const int64_t until_us = ft_clock_now_us(&clock) + 1000 * (int64_t)app->f.edge.reconnect_ms;
    ft_error told = {0};
    for (;;) {
        ft_status status = source->info(source->ctx, err, info);
        if ((status != FT_UNAVAILABLE && status != FT_TIMEOUT) || ft_cmd_stopped() ||
            ft_clock_now_us(&clock) >= until_us)
            return status;
        if (strcmp(told.message, err->message) != 0)
            FT_LOGW("batch", "server absent, waiting reason=\"%s\"", err->message);
        told = *err;
        nanosleep(&pause, NULL);
    }
}

/* Asks the server what it is; without one, takes what --ctx-size says. */
static ft_status meet(batch_app *app, ft_error *err)
{
    batch_flags *f = &app->f;
    if (!f->server) {
        app->info.limits.max_context = f->context > 0 ? f->context : FT_PLAN_TOK_MAX;
        return FT_OK;
    }
    f->wire.address = f->server;
    f->wire.stopped = ft_cmd_stopped;
    const ft_status status = ft_wire_client_create(&f->wire, err, &app->client);
    if (status != FT_OK)
        return status;
    f->edge.source = ft_link_source_wire(app->client);
    return meet_server(app, &f->edge.source, err, &app->info);
}

/* Checks all tasks against the server's context. */
static ft_status check_tasks(batch_app *app, ft_error *err)
{
    const uint32_t context = app->info.limits.max_context;
    const bool known = app->f.server || app->f.context > 0;
    const ft_tokenize_limits limits = {.cancelled = stopped, .max_tok = context};
    for (size_t i = 0; i < app->tasks.n && !known; i++)
        if (app->tasks.task[i].max_tokens == 0)
            return ft_error_set(err, FT_INVALID,
                                "batch: task %s, line %u, has no max_tokens: for a plan pass the "
                                "server with --server, or its context with --ctx-size",
                                app->tasks.task[i].id, app->tasks.task[i].line);
    ft_status status = ft_tasks_tokenize(&app->tasks, app->vocab, &limits, err);
    if (status != FT_OK)
        return status;
    if (app->f.edge.draft_kv_tok == 0)
        app->f.edge.draft_kv_tok = draft_kv_tok(app, context);
    else if (app->f.length_most > 0)
        status = ft_tasks_check_room(&app->tasks, context, app->f.edge.draft_kv_tok, err);
    return status;
}

static ft_status make_edge(batch_app *app, ft_error *err)
{
    batch_flags *f = &app->f;
    f->edge.vocab = app->vocab;
    f->edge.draft_model = app->model;
    f->edge.draft = ft_draft_params_chain(f->length_most);
    f->edge.clock = ft_clock_monotonic();
    f->edge.require_same_target = true;
    return ft_edge_create(&f->edge, err, &app->edge);
}

/* ---- the plan ---- */

static ft_status make_planner(batch_app *app, ft_error *err)
{
    const batch_flags *f = &app->f;
    const uint32_t max_tree = app->info.limits.max_tree;
    const ft_batch_planner_opts opts = {
        .tasks = &app->tasks,
        .context = app->info.limits.max_context,
        .algorithm = f->algorithm,
        .length_least = f->length > 0 ? f->length_most : 0,
        .length_most = max_tree > 0 && max_tree < f->length_most ? max_tree : f->length_most,
        .batch_most = f->batch_most,
        .at_once = f->edge.max_generations,
        .kv_tok = {f->length_most > 0 ? f->edge.draft_kv_tok : 0, 16ull * app->info.kv_blocks},
        .watch = {.stop = ft_cmd_stopped}};
    ft_status status = FT_OK;
    ft_batch_known_init(&app->known, f->acceptance);
    for (int i = 0; i < FT_STATIONS && status == FT_OK; i++) {
        ft_costs costs;
        if (!f->costs[i])
            continue;
        status = ft_costs_load(f->costs[i], err, &costs);
        if (status == FT_OK)
            ft_batch_known_costs(&app->known, (ft_station)i, &costs);
    }
    return status == FT_OK ? ft_batch_planner_init(&app->planner, &opts, &app->known, err) : status;
}

static ft_plan_view view_of(const batch_app *app, const ft_batch_plan *plan)
{
    return (ft_plan_view){.plan = plan,
                          .tasks = app->planner.problem,
                          .n = (uint32_t)app->tasks.n,
                          .algorithm = ft_batch_algorithm_name[app->f.algorithm]};
}

/* The plan of all tasks, as if all were released. */
static ft_status dry_run(batch_app *app, ft_error *err, json_t **report)
{
    ft_batch_left *all = calloc(app->tasks.n, sizeof *all);
    ft_batch_plan plan = {0};
    if (!all)
        return ft_error_set(err, FT_NOMEM, "batch: out of memory");
    for (uint32_t i = 0; i < app->tasks.n; i++)
        all[i].task = i;
    ft_status status = ft_batch_planner_make(&app->planner, all, app->tasks.n, err, &plan);
    const ft_plan_view view = view_of(app, &plan);
    if (status == FT_OK && app->f.json)
        *report = ft_plan_view_json(&view, "batch --dry-run");
    else if (status == FT_OK)
        ft_plan_view_print(&view);
    ft_batch_plan_deinit(&plan);
    free(all);
    return status;
}

/* ---- the work ---- */

/* Of all that decides the texts besides the tasks. */
static uint64_t settings_hash(const batch_app *app)
{
    const ft_sampling *s = &app->f.sampling.values;
    char text[256];
    const int n =
        snprintf(text, sizeof text, "%a %d %a %a %llu %llx", (double)s->temperature, s->top_k,
                 (double)s->top_p, (double)s->min_p, (unsigned long long)s->seed,
                 (unsigned long long)ft_edge_server_info(app->edge)->target);
    return XXH3_64bits(text, (size_t)n);
}

static ft_status run_tasks(batch_app *app, ft_error *err)
{
    const ft_batch_opts opts = {.edge = app->edge,
                                .vocab = app->vocab,
                                .tasks = &app->tasks,
                                .journal = app->journal,
                                .planner = &app->planner,
                                .sampling = app->f.sampling.values,
                                .clock = ft_clock_monotonic(),
                                .cancelled = stopped,
                                .progress = ft_progress_terminal("answering")};
    return ft_batch_run(&opts, err, &app->stats);
}

static ft_status finish(batch_app *app, ft_error *err)
{
    const char **id = calloc(app->tasks.n, sizeof *id);
    if (!id)
        return ft_error_set(err, FT_NOMEM, "batch: out of memory");
    for (size_t i = 0; i < app->tasks.n; i++)
        id[i] = app->tasks.task[i].id;
    ft_status status = ft_journal_finish(app->journal, id, err);
    free(id);
    return status;
}

static ft_status answer(batch_app *app, ft_error *err)
{
    const ft_journal_opts journal = {
        .out = app->f.out,
        .resume = app->f.resume,
        .set = {.tasks = app->tasks.hash, .settings = settings_hash(app)},
        .n = app->tasks.n};
    ft_status status = ft_journal_open(&journal, err, &app->journal);
    if (status == FT_OK)
        status = run_tasks(app, err);
    return status == FT_OK ? finish(app, err) : status;
}

static json_t *report_of(const batch_app *app)
{
    const ft_batch_stats *s = &app->stats;
    json_t *out = json_pack(
        "{s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:i}", "tasks",
        (json_int_t)app->tasks.n, "tokens", (json_int_t)s->tokens, "rounds", (json_int_t)s->rounds,
        "passes", s->passes, "passes_per_batch", s->rounds > 0 ? s->passes / (double)s->rounds : 0,
        "drafted", (json_int_t)s->drafted, "accepted", (json_int_t)s->accepted, "draft_s",
        s->draft_s, "verify_s", s->verify_s, "wait_s", s->wait_s, "total_s",
        ft_journal_answers(app->journal)->clock_s, "planned_anew", (int)s->n_anew);
    json_object_set_new(out, "planned_s", s->planned_s > 0 ? json_real(s->planned_s) : json_null());
    return out;
}

static void print_report(const json_t *r)
{
    printf("%lld tasks, %lld tokens in %.1f s; %lld of %lld drafted tokens accepted; %.2f passes a "
           "batch\n",
           (long long)json_integer_value(json_object_get(r, "tasks")),
           (long long)json_integer_value(json_object_get(r, "tokens")),
           json_real_value(json_object_get(r, "total_s")),
           (long long)json_integer_value(json_object_get(r, "accepted")),
           (long long)json_integer_value(json_object_get(r, "drafted")),
           json_real_value(json_object_get(r, "passes_per_batch")));
    if (json_is_real(json_object_get(r, "planned_s")))
        printf("the first plan had it end at %.1f s; planned anew %lld times\n",
               json_real_value(json_object_get(r, "planned_s")),
               (long long)json_integer_value(json_object_get(r, "planned_anew")));
}

/* ---- the command ---- */

static const ft_flag rows[] = {
    {"--server", NULL, FT_FLAG(batch_flags, server), "HOST:PORT", "the verification server"},
    {"--model-draft", "-md", FT_FLAG(batch_flags, draft), "MODEL", "draft model (GGUF)",
     .model = true},
    {"--model", "-m", FT_FLAG(batch_flags, vocab), "MODEL",
     "without a draft model: a GGUF with the server's vocabulary", .model = true},
    {"--out", "-o", FT_FLAG(batch_flags, out), "FILE",
     "the answers; FILE.part is their journal until all are there"},
    {"--resume", NULL, FT_FLAG(batch_flags, resume), NULL,
     "go on from the journal of a batch that has not ended"},
    {"--algorithm", NULL, FT_FLAG_ENUM(batch_flags, algorithm, ft_batch_algorithm_name), "NAME",
     "how batches are planned; static: batches of --batch tasks (or 8) in the order of the file"},
    {"--batch", "-b", FT_FLAG(batch_flags, batch_most), "N",
     "tasks that are drafted for at once, at most; 0: as planned", 0, FT_BATCH_TASKS_MAX},
    {"--length", "-l", FT_FLAG(batch_flags, length), "N",
     "tokens drafted for a task in a round; 0: no drafts; -1: as planned", -1, FT_PLAN_LENGTH_MAX},
    {"--length-most", NULL, FT_FLAG(batch_flags, length_most), "N", "planned lengths are at most N",
     0, FT_PLAN_LENGTH_MAX},
    {"--acceptance", NULL, FT_FLAG(batch_flags, acceptance), "A",
     "chance that a drafted token is accepted, until it is measured", 0, 1},
    {"--costs-draft", NULL, FT_FLAG(batch_flags, costs[FT_STATION_DRAFT]), "FILE",
     "costs of the draft model here, as fit verify-time writes them"},
    {"--costs-verify", NULL, FT_FLAG(batch_flags, costs[FT_STATION_VERIFY]), "FILE",
     "costs of the target at the server, as fit verify-time writes them"},
    {"--at-once", NULL, FT_FLAG(batch_flags, edge.max_generations), "N",
     "tasks under way at most, in all batches", 1, 4096},
    {"--dry-run", NULL, FT_FLAG(batch_flags, dry_run), NULL,
     "check the tasks, print the plan, and end; wants costs, and no server if tasks have "
     "max_tokens"},
    {"--ctx-size", "-c", FT_FLAG(batch_flags, context), "N",
     "--dry-run without --server: the server's context, tokens; 0: not known", 0, 1e6},
    {"--threads", "-t", FT_FLAG(batch_flags, edge.n_threads), "N",
     "threads of the draft model; 0: all cores", 0, 1024},
    {"--cache-type", NULL, FT_FLAG_ENUM(batch_flags, edge.draft_kv_type, ft_kv_choices), "TYPE",
     "type of the draft model's K and V"},
    {"--draft-kv", NULL, FT_FLAG(batch_flags, edge.draft_kv_tok), "N",
     "tokens in the draft model's KV pool; 0: as many as the tasks under way need", 0, 1e9},
    {"--reconnect-ms", NULL, FT_FLAG(batch_flags, edge.reconnect_ms), "MS",
     "how long to try to reach a server that is absent or lost", 1, 1e9},
    FT_FLAG_INCLUDE(batch_flags, sampling, ft_flags_sampling),
    FT_FLAG_INCLUDE(batch_flags, device, ft_flags_device),
    {"--token-file", NULL, FT_FLAG(batch_flags, token_file), "FILE",
     "bearer token for the server, from a file"},
    FT_FLAG_INCLUDE(batch_flags, wire, ft_flags_wire),
    {"--json", NULL, FT_FLAG(batch_flags, json), NULL, "print one JSON object"},
};

static const batch_flags defaults = {
    .length = -1,
    .length_most = 10,
    .acceptance = 0.6,
    .edge = {.max_generations = 64, .reconnect_ms = 120000},
    .device = FT_DEVICE_OPTS_INIT,
    .sampling = {.values = {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f}}};

static void close_all(batch_app *app)
{
    ft_journal_close(app->journal);
    ft_edge_destroy(app->edge);
    ft_wire_client_destroy(app->client);
    ft_model_destroy(app->model);
    ft_vocab_destroy(app->vocab);
    ft_tasks_deinit(&app->tasks);
    ft_batch_planner_deinit(&app->planner);
    free(app->token);
}

static int run(void *options, int n_words, char **words)
{
    batch_app app = {.f = *(const batch_flags *)options};
    ft_error err = {0};
    json_t *report = NULL;
    if (check(&app.f, &err) != FT_OK) {
        ft_cmd_fail(&err);
        return 2;
    }
    ft_cmd_catch_signals();
    ft_status status = ft_tasks_load(words[0], app.f.sampling.values.seed, &err, &app.tasks);
    if (status == FT_OK)
        status = load(&app, &err);
    if (status == FT_OK)
        status = meet(&app, &err);
    if (status == FT_OK)
        status = check_tasks(&app, &err);
    if (status == FT_OK)
        status = make_planner(&app, &err);
    if (status == FT_OK && app.f.dry_run)
        status = dry_run(&app, &err, &report);
    else if (status == FT_OK)
        status = make_edge(&app, &err);
    if (status == FT_OK && !app.f.dry_run) {
        status = answer(&app, &err);
        report = status == FT_OK ? report_of(&app) : NULL;
    }
    close_all(&app);
    return ft_cmd_report(status, &err, report, app.f.json, app.f.dry_run ? NULL : print_report);
}

const ft_command ft_cmd_batch = {
    .name = "batch",
    .summary = "answer a file of tasks: draft for many at once, verify on a server",
    .usage = "--server HOST:PORT -md DRAFT.gguf TASKS.jsonl -o OUT.jsonl [flags]",
    .about = "Answers tasks, one JSON object a line: id; prompt or messages; and if wanted "
             "max_tokens, seed, release_s. Drafts for all tasks of a batch at once; the server "
             "verifies them in one pass while the next batch is drafted for. Each answer is what "
             "its task alone would get; a task without a seed has one made of --seed and its id. "
             "Batches and lengths are planned from measured times, first of all those of a few "
             "rounds, or from files of costs, and planned anew when they change. "
             "The answers have id, text, finish, tokens, ttft_s and total_s, in the order of the "
             "tasks. A batch that was interrupted goes on with --resume.",
    FT_CMD_OPTIONS(rows, defaults),
    .min_words = 1,
    .max_words = 1,
    .run = run};
