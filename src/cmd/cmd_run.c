// SPDX-License-Identifier: Apache-2.0
// foretoken run: target and draft model in one process, no network. With a prompt it streams the
// answer, without one it chats on the terminal. The main thread generates; the verifier has a
// thread of its own, which takes no signals. At the start one more thread loads the draft.
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/progress.h"
#include "bench/prompts.h"
#include "cmd/cmd.h"
#include "cmd/dimmed.h"
#include "cmd/draft_beside.h"
#include "cmd/gen_flags.h"
#include "cmd/memory.h"
#include "cmd/run_meter.h"
#include "cmd/run_verbose.h"
#include "edge/edge.h"
#include "local/link.h"
#include "template/template.h"

#define DEFAULT_CTX 4096
#define ROOM_TOK    1024 /* pool beyond the text: trees */
/* The verifier is in this process: if it works no more for so long, it fails for good. */
#define RECONNECT_MS 5000
/* Nodes of a tree under a memory budget, where the controller decides. */
#define AUTO_BUDGET      64
#define PROGRESS_MIN_TOK 512 /* shorter prompts show no progress line */

typedef struct run_flags {
    const char *target, *draft, *prompt, *prompts, *system;
    int64_t n;
    bool raw, json, interactive, dry_run, provisional, verbose;
    ft_verifier_opts verifier;
    ft_sampling_flags sampling;
    ft_edge_flags edge;
    ft_device_opts device, device_draft;
    ft_memory_flags memory;
    ft_pack_flags pack;
} run_flags;

typedef struct run_app {
    run_flags f;
    ft_model *target, *draft;
    ft_vocab *vocab;
    ft_template *template;
    ft_cmd_memory memory;
    ft_verifier *verifier;
    ft_edge *edge;
} run_app;

/* The conversation, and the present answer. */
typedef struct run_talk {
    ft_chat_message *messages; /* [n], owned, contents too */
    size_t n;
    ft_buf answer;
    ft_run_meter meter;   /* of the answer */
    ft_run_passes before; /* with --verbose: as it began */
    bool quiet;
    ft_dimmed dimmed; /* provisional text */
} run_talk;

static ft_status check(run_flags *f, ft_error *err)
{
    if (f->prompts && (f->prompt || f->interactive || !f->json))
        return ft_error_set(err, FT_INVALID,
                            "run: --prompts goes with --json, and with neither -p nor -i");
    if (!f->prompt && !f->prompts && !f->dry_run && (f->json || f->raw))
        return ft_error_set(err, FT_INVALID, "run: --json and --raw need a prompt: pass -p");
    if (f->interactive && (f->json || f->raw))
        return ft_error_set(err, FT_INVALID, "run: -i goes with neither --json nor --raw");
    if (f->dry_run && !f->memory.size)
        return ft_error_set(err, FT_INVALID,
                            "run: --dry-run shows the plan of --memory: pass that");
    if (f->provisional && (f->json || !isatty(STDOUT_FILENO)))
        return ft_error_set(
            err, FT_INVALID,
            "run: --provisional is for text on a terminal: standard output is none");
    if (f->verbose && f->json)
        return ft_error_set(err, FT_INVALID,
                            "run: --verbose is for text: it does not go with --json");
    if (f->raw && f->system)
        return ft_error_set(err, FT_INVALID, "run: --raw has no system message");
    if (f->memory.size) { /* a pass reads weights: meanwhile the draft may go on, and go far */
        f->edge.proactive_else = true;
        f->edge.auto_budget = AUTO_BUDGET;
    }
    ft_status status = ft_edge_flags_check(&f->edge, err);
    if (status == FT_OK)
        status = ft_edge_flags_check_source(&f->edge, "run", f->draft, err);
    return status == FT_OK ? ft_sampling_flags_check(&f->sampling, err) : status;
}

/* ---- loading ---- */

static bool drafts_by_model(const run_flags *f)
{
    return f->draft && f->edge.opts.draft.budget > 0 && f->edge.opts.draft_by != FT_DRAFT_BY_LOOKUP;
}

/* FT_PRECONDITION: the draft's file has another vocabulary than the target's. */
static ft_status check_draft(const run_app *app, ft_error *err)
{
    ft_vocab *vocab = NULL;
    if (app->draft && ft_vocab_is_of(app->vocab, app->draft))
        return FT_OK;
    ft_status status = ft_vocab_load(app->f.draft, err, &vocab);
    if (status == FT_OK && ft_vocab_fingerprint(vocab) != ft_vocab_fingerprint(app->vocab))
        status = ft_error_set(err, FT_PRECONDITION,
                              "run: draft vocabulary (%d tokens) is not the target's (%d): pass a "
                              "draft of the same family with -md",
                              ft_vocab_size(vocab), ft_vocab_size(app->vocab));
    ft_vocab_destroy(vocab);
    return status;
}

static bool is_on_cpu(const ft_device_opts *where)
{
    ft_devices devices;
    ft_error err;
    return !where->rpc && ft_devices_open(where, &err, &devices) == FT_OK && devices.n == 0;
}

/* Both models at the same time, if both are for the CPU. Where layers go to devices, the draft must
 * find what the target has left of them. Under a memory budget one load after the other needs
 * less. */
static ft_status load_models(run_app *app, ft_error *err)
{
    run_flags *f = &app->f;
    const ft_pack_cache *cache = ft_pack_flags_open(ft_pack_flags_unless(&f->pack, app->memory.on));
    const ft_cmd_model target = {f->target, "loading the target", &f->device, cache};
    ft_cmd_model draft = {f->draft, NULL, &f->device_draft, cache};
    ft_draft_beside beside;
    ft_error why = {0};
    const bool drafts = drafts_by_model(f),
               both = drafts && !app->memory.on && is_on_cpu(&f->device) &&
                      is_on_cpu(&f->device_draft) &&
                      ft_draft_beside_start(&beside, &draft, &why) == FT_OK;
    ft_status status = app->memory.on
                           ? ft_cmd_memory_load(&app->memory, err, &app->target, &app->vocab)
                           : ft_cmd_load_model(&target, err, &app->target, &app->vocab);
    const ft_status other = both ? ft_draft_beside_join(&beside, &why, &app->draft) : FT_OK;
    draft.label = "loading the draft";
    if (status == FT_OK && drafts && !both)
        return ft_cmd_load_model(&draft, err, &app->draft, NULL);
    if (status != FT_OK || other == FT_OK)
        return status;
    return ft_error_set(err, other, "%s", why.message);
}

static ft_status load(run_app *app, ft_error *err)
{
    run_flags *f = &app->f;
    const ft_memory_need need = {
        .path = f->target,
        .device = &f->device,
        .trees = 1,
        .draft = {.path = drafts_by_model(f) ? f->draft : NULL,
                  .rows = FT_EDGE_DRAFT_ROWS,
                  .out = FT_DRAFT_LEAVES},
    };
    ft_status status = ft_cmd_memory_plan(&app->memory, &f->memory, &need, &f->verifier, err);
    if (status != FT_OK || f->dry_run)
        return status;
    status = ft_edge_flags_open(&f->edge, err);
    if (status == FT_OK)
        status = load_models(app, err);
    if (status == FT_OK)
        status = ft_template_create(app->vocab, NULL, err, &app->template);
    if (status == FT_OK && f->draft)
        status = check_draft(app, err);
    return status == FT_OK ? ft_edge_flags_find(&f->edge, f->draft, app->draft, err) : status;
}

static void keep_what_is_learnt(run_app *app)
{
    const run_flags *f = &app->f;
    char of[512], target[128], draft[128];
    snprintf(of, sizeof of, "run %d %s %d %s %s", ft_cpu_threads(f->verifier.n_threads),
             f->memory.size ? f->memory.size : "", (int)f->verifier.kv_type,
             ft_cmd_device_name(&f->device, target), ft_cmd_device_name(&f->device_draft, draft));
    ft_edge_flags_keep(&app->f.edge, of);
    app->f.verifier.kept = app->f.edge.opts.kept;
}

static ft_status start(run_app *app, ft_error *err)
{
    ft_verifier_opts *verifier = &app->f.verifier;
    ft_edge_opts *edge = &app->f.edge.opts;
    if (!app->memory.on) {
        const uint32_t trained = ft_model_hparams(app->target)->n_ctx_train;
        if (verifier->max_context == 0 || verifier->max_context > trained)
            verifier->max_context = trained;
        verifier->kv_tok = verifier->max_context + ROOM_TOK;
    }
    verifier->model = app->target;
    verifier->vocab = app->vocab;
    verifier->clock = ft_clock_monotonic();
    verifier->timeline = edge->timeline;
    keep_what_is_learnt(app);
    ft_status status = ft_verifier_create(verifier, err, &app->verifier);
    if (status != FT_OK)
        return status;
    edge->vocab = app->vocab;
    edge->draft_model = app->draft;
    edge->source = ft_local_link_source(app->verifier);
    edge->clock = verifier->clock;
    edge->draft_kv_tok = verifier->kv_tok;
    edge->n_threads = verifier->n_threads;
    edge->turn = verifier->turn;
    edge->reconnect_ms = RECONNECT_MS;
    edge->verify =
        (ft_edge_pass){ft_verifier_pass_us(app->verifier), ft_verifier_row_us(app->verifier)};
    return ft_edge_create(edge, err, &app->edge);
}

static void close_all(run_app *app)
{
    ft_edge_destroy(app->edge);
    ft_verifier_destroy(app->verifier);
    ft_edge_flags_close(&app->f.edge);
    ft_cmd_memory_close(&app->memory);
    ft_model_destroy(app->draft);
    ft_model_destroy(app->target);
    ft_pack_flags_close(&app->f.pack);
    ft_template_destroy(app->template);
    ft_vocab_destroy(app->vocab);
}

/* ---- one answer ---- */

static bool on_text(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    run_talk *talk = ctx;
    ft_run_meter_piece(&talk->meter, n_tokens);
    if (!talk->quiet) {
        ft_dimmed_erase(&talk->dimmed);
        fwrite(text, 1, n, stdout);
        fflush(stdout);
    }
    return ft_buf_append(&talk->answer, text, n) == FT_OK;
}

static void on_provisional(void *ctx, const char *text, size_t n)
{
    run_talk *talk = ctx;
    ft_dimmed_show(&talk->dimmed, text, n);
}

static bool interrupted(void *ctx)
{
    return ft_cmd_stopped();
}

static double ratio(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 0;
}

/* Tokens a round that had a draft. */
static double per_round(const ft_gen_stats *s)
{
    return s->tokens > s->run_tokens ? ratio(s->tokens - s->run_tokens, s->rounds) : 0;
}

/* How both models shared the machine, with --verbose. */
static void print_passes(const run_app *app, const run_talk *talk, const ft_gen_stats *s)
{
    ft_run_passes after;
    if (!app->f.verbose)
        return;
    ft_run_passes_get(app->edge, app->verifier, &after);
    const ft_run_verbose verbose = {&talk->before, &after, s,
                                    ft_cpu_threads(app->f.verifier.n_threads)};
    ft_run_verbose_print(stderr, &verbose);
}

static void print_stats(const run_app *app, const run_talk *talk, const ft_gen_stats *s)
{
    fprintf(stderr, "\n[%" PRIu64 " tokens, %.1f tokens/s, first after %.0f ms", s->tokens,
            ft_run_meter_tokens_per_s(&talk->meter), (double)s->ttft.sum_us / 1e3);
    if (s->drafted)
        fprintf(stderr,
                ", %" PRIu64 " rounds with drafts: %.2f tokens each, %.0f %% of %" PRIu64
                " drafted accepted",
                s->rounds, per_round(s), 100 * ratio(s->accepted, s->drafted), s->drafted);
    fprintf(stderr, ", seed %llu]\n", (unsigned long long)app->f.sampling.values.seed);
    print_passes(app, talk, s);
}

/* The statistics' own names (edge/stats.h), and what follows from them. */
static void set_stats(json_t *o, const ft_gen_stats *s)
{
    ft_stats_json(&ft_gen_stat_list, s, o);
    json_object_set_new(o, "tokens_per_round", json_real(per_round(s)));
    json_object_set_new(o, "acceptance", json_real(ratio(s->accepted, s->drafted)));
    json_object_set_new(o, "wasted_draft_share", json_real(ft_gen_wasted_share(s)));
    json_object_set_new(o, "mean_depth", json_real(ratio(s->depth_sum, s->rounds)));
    json_object_set_new(o, "proactive_align_ratio", json_real(ft_gen_align_ratio(s)));
    json_object_set_new(o, "proactive_match_ratio", json_real(ft_gen_match_ratio(s)));
    json_object_set_new(o, "proactive_gain_tokens", json_real(ft_gen_proactive_gain(s)));
}

/* What the trace store did with this answer's drafts; waits until they are written. */
static json_t *trace_json(ft_trace *trace)
{
    ft_trace_flush(trace);
    const ft_trace_stats s = ft_trace_get_stats(trace);
    return json_pack("{s:I, s:I}", "rounds", (json_int_t)s.rounds, "dropped",
                     (json_int_t)s.dropped);
}

static json_t *answer_json(const run_app *app, const run_talk *talk, const ft_gen_stats *s)
{
    ft_trace *trace = app->f.edge.opts.trace;
    json_t *o = json_pack("{s:s%, s:o*, s:I, s:s}", "text", ft_buf_str(&talk->answer),
                          talk->answer.len, "trace", trace ? trace_json(trace) : NULL, "seed",
                          (json_int_t)app->f.sampling.values.seed, "finish",
                          s->finish == FT_FINISH_LENGTH ? "length" : "stop");
    set_stats(o, s);
    json_object_set_new(o, "tokens_per_s", json_real(ft_run_meter_tokens_per_s(&talk->meter)));
    ft_run_meter_json(&talk->meter, o);
    return o;
}

/* ---- conversation ---- */

static ft_status say(run_talk *talk, const char *role, const char *content, ft_error *err)
{
    ft_chat_message *grown = realloc(talk->messages, (talk->n + 1) * sizeof *grown);
    if (grown)
        talk->messages = grown;
    char *copy = grown ? strdup(content) : NULL;
    if (!copy)
        return ft_error_set(err, FT_NOMEM, "run: out of memory");
    talk->messages[talk->n++] = (ft_chat_message){.role = role, .content = copy};
    return FT_OK;
}

/* Forgets all messages from number n on. */
static void forget(run_talk *talk, size_t n)
{
    while (talk->n > n)
        free((char *)talk->messages[--talk->n].content);
}

static void talk_free(run_talk *talk)
{
    forget(talk, 0);
    free(talk->messages);
    ft_buf_deinit(&talk->answer);
    ft_dimmed_deinit(&talk->dimmed);
}

/* The prompt in tokens: the conversation; with --raw, or without a template, the last message. */
static ft_status render(run_app *app, run_talk *talk, ft_error *err, ft_tokens *out)
{
    const char *last = talk->messages[talk->n - 1].content;
    if (!app->f.raw) {
        ft_status status = ft_template_chat(app->template, talk->messages, talk->n, NULL, err, out);
        if (status != FT_UNSUPPORTED || talk->n > 1)
            return status;
        fprintf(stderr, "(the model has no chat template: the prompt is continued)\n");
    }
    return ft_vocab_tokenize(app->vocab, last, strlen(last), NULL, err, out);
}

/* Adds a message of the user and generates the answer to the conversation. */
static ft_status answer(run_app *app, run_talk *talk, const char *text, ft_error *err,
                        ft_gen_stats *stats)
{
    const ft_gen_sink sink = {.ctx = talk,
                              .on_text = on_text,
                              .cancelled = interrupted,
                              .on_provisional = app->f.provisional ? on_provisional : NULL};
    ft_tokens prompt = {0};
    ft_status status = say(talk, "user", text, err);
    if (status == FT_OK)
        status = render(app, talk, err, &prompt);
    if (status == FT_OK) {
        ft_gen_request request = {.prompt = prompt.id,
                                  .n_prompt = (uint32_t)prompt.n,
                                  .sampling = app->f.sampling.values,
                                  .max_tokens = app->f.n > 0 ? (uint32_t)app->f.n : 0};
        if (prompt.n >= PROGRESS_MIN_TOK)
            request.progress = ft_progress_terminal("reading the prompt");
        ft_buf_clear(&talk->answer);
        ft_run_passes_get(app->edge, app->verifier, &talk->before);
        ft_run_meter_begin(&talk->meter, app->memory.streamed);
        status = ft_edge_generate(app->edge, &request, &sink, err, stats);
        ft_dimmed_erase(&talk->dimmed);
    }
    ft_tokens_deinit(&prompt);
    return status;
}

static int one_shot(run_app *app, run_talk *talk, ft_error *err)
{
    ft_gen_stats stats = {0};
    talk->quiet = app->f.json;
    ft_status status = answer(app, talk, app->f.prompt, err, &stats);
    if (status == FT_OK && app->f.json)
        return ft_cmd_print_json(answer_json(app, talk, &stats));
    if (status != FT_OK && status != FT_CANCELLED)
        return ft_cmd_fail(err);
    if (status == FT_OK)
        putchar('\n');
    fflush(stdout);
    print_stats(app, talk, &stats);
    return status == FT_OK ? 0 : 130;
}

/* Answers each prompt of the file, in a conversation of its own, and prints one object. */
static int answer_file(run_app *app, run_talk *talk, ft_error *err)
{
    const size_t n_fixed = talk->n; /* the system message stays */
    ft_bench_prompts prompts;
    json_t *answers = json_array();
    ft_status status = ft_bench_prompts_load(app->f.prompts, 0, err, &prompts);
    talk->quiet = true;
    for (size_t i = 0; i < prompts.n && status == FT_OK; i++) {
        ft_gen_stats stats = {0};
        status = answer(app, talk, prompts.items[i].text, err, &stats);
        if (status == FT_OK)
            json_array_append_new(answers, answer_json(app, talk, &stats));
        forget(talk, n_fixed);
    }
    ft_bench_prompts_deinit(&prompts);
    if (status == FT_OK)
        return ft_cmd_print_json(json_pack("{s:o}", "answers", answers));
    json_decref(answers);
    return status == FT_CANCELLED ? 130 : ft_cmd_fail(err);
}

/* One line from standard input, without its newline; false at the input's end or at a signal. stdin
 * has no buffer, so that waiting for the descriptor waits for all that is to come. */
static bool read_line(char **line, size_t *size)
{
    const ssize_t n = ft_cmd_wait_input(STDIN_FILENO) ? getline(line, size, stdin) : -1;
    if (n > 0 && (*line)[n - 1] == '\n')
        (*line)[n - 1] = 0;
    return n > 0 && !ft_cmd_stopped();
}

/* One turn of the chat. An error is printed, and the turn is dropped from the conversation. */
static ft_status turn(run_app *app, run_talk *talk, const char *text, ft_error *err)
{
    ft_gen_stats stats = {0};
    size_t before = talk->n;
    ft_status status = answer(app, talk, text, err, &stats);
    if (status == FT_OK || status == FT_CANCELLED) {
        ft_cmd_clear_stopped(); /* Ctrl-C stopped the answer, not the chat */
        putchar('\n');
        fflush(stdout);
        print_stats(app, talk, &stats);
        return say(talk, "assistant", ft_buf_str(&talk->answer), err);
    }
    forget(talk, before);
    ft_cmd_fail(err);
    return status == FT_INVALID ? FT_OK : status; /* it may be too long: then /clear helps */
}

static int chat(run_app *app, run_talk *talk, ft_error *err)
{
    const size_t n_fixed = talk->n; /* the system message stays */
    const bool terminal = isatty(STDIN_FILENO);
    char *line = NULL;
    size_t size = 0;
    ft_status status = FT_OK;
    const char *text = app->f.prompt;
    setvbuf(stdin, NULL, _IONBF, 0);
    while (status == FT_OK) {
        if (!text) {
            if (terminal)
                fputs("\n> ", stderr);
            if (!read_line(&line, &size) || strcmp(line, "/exit") == 0)
                break;
            text = line;
        }
        if (strcmp(text, "/clear") == 0)
            forget(talk, n_fixed);
        else if (text[0])
            status = turn(app, talk, text, err);
        text = NULL;
    }
    free(line);
    return status == FT_OK ? 0 : 1;
}

/* Threads inherit the mask: with it set, they leave signals to the main thread. */
static void block_signals(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(how, &set, NULL);
}

static const ft_flag rows[] = {
    {"--model", "-m", FT_FLAG(run_flags, target), "MODEL", "target model (GGUF)", .required = true,
     .model = true},
    {"--model-draft", "-md", FT_FLAG(run_flags, draft), "MODEL", "draft model (GGUF)",
     .model = true},
    {"--prompt", "-p", FT_FLAG(run_flags, prompt), "TEXT", "what to answer"},
    {"--prompts", NULL, FT_FLAG(run_flags, prompts), "FILE",
     "answer each of these, JSON lines with `turns` or `prompt`, by itself; with --json"},
    {"--system-prompt", "-sys", FT_FLAG(run_flags, system), "TEXT", "system message of the chat"},
    {"--predict", "-n", FT_FLAG(run_flags, n), "N", "tokens at most; -1: until the text ends", -1,
     1e9},
    {"--ctx-size", "-c", FT_FLAG(run_flags, verifier.max_context), "N",
     "tokens of prompt and answer; 0: the model's training context", 0, 1e9},
    {"--cache-type", NULL, FT_FLAG_ENUM(run_flags, verifier.kv_type, ft_kv_choices), "TYPE",
     "type of the target's K and V"},
    {"--threads", "-t", FT_FLAG(run_flags, verifier.n_threads), "N", "threads; 0: all cores", 0,
     1024},
    FT_FLAG_INCLUDE(run_flags, sampling, ft_flags_sampling),
    FT_FLAG_INCLUDE(run_flags, edge, ft_flags_edge),
    FT_FLAG_INCLUDE(run_flags, device, ft_flags_device),
    FT_FLAG_INCLUDE(run_flags, device_draft, ft_flags_draft_device),
    FT_FLAG_INCLUDE(run_flags, memory, ft_flags_memory),
    FT_FLAG_INCLUDE(run_flags, pack, ft_flags_pack),
    {"--dry-run", NULL, FT_FLAG(run_flags, dry_run), NULL,
     "print what --memory is divided into, and load nothing"},
    {"--provisional", NULL, FT_FLAG(run_flags, provisional), NULL,
     "on a terminal: show what the draft expects, dimmed, until the target has decided"},
    {"--raw", NULL, FT_FLAG(run_flags, raw), NULL,
     "use the prompt as it is, without the model's chat template"},
    {"--interactive", "-i", FT_FLAG(run_flags, interactive), NULL,
     "continue as a chat after the answer to -p"},
    {"--verbose", "-v", FT_FLAG(run_flags, verbose), NULL,
     "behind an answer: passes of draft and target, on how many threads, and in what order"},
    {"--json", NULL, FT_FLAG(run_flags, json), NULL, "print one JSON object instead of the text"},
};

static const run_flags defaults = {
    .n = -1,
    .verifier = {.max_context = DEFAULT_CTX, .max_tree = FT_TREE_MAX, .max_sessions = 4},
    .sampling = FT_SAMPLING_FLAGS_INIT,
    .edge = {FT_EDGE_FLAGS_INIT(false, "auto"), .opts.max_generations = 1},
    .device = FT_DEVICE_OPTS_INIT,
    .device_draft = FT_DEVICE_OPTS_INIT,
    .pack = FT_PACK_FLAGS_INIT};

static int run(void *options, int n_words, char **words)
{
    run_app app = {.f = *(const run_flags *)options};
    run_talk talk = {.dimmed = {.out = stdout}};
    ft_error err = {0};
    int rc;
    if (check(&app.f, &err) != FT_OK) {
        ft_cmd_fail(&err);
        return 2;
    }
    ft_status status = load(&app, &err);
    ft_cmd_catch_signals();
    block_signals(SIG_BLOCK);
    if (status == FT_OK && !app.f.dry_run)
        status = start(&app, &err);
    block_signals(SIG_UNBLOCK);
    if (status == FT_OK && app.f.system)
        status = say(&talk, "system", app.f.system, &err);
    if (status != FT_OK)
        rc = ft_cmd_fail(&err);
    else if (app.f.dry_run)
        rc = ft_cmd_memory_print(&app.memory, app.f.json);
    else if (app.f.prompts)
        rc = answer_file(&app, &talk, &err);
    else if (app.f.prompt && !app.f.interactive)
        rc = one_shot(&app, &talk, &err);
    else
        rc = chat(&app, &talk, &err);
    talk_free(&talk);
    close_all(&app);
    return rc;
}

const ft_command ft_cmd_run = {
    .name = "run",
    .summary = "answer or chat with both models on this machine",
    .usage = "-m TARGET.gguf [-md DRAFT.gguf] [-p PROMPT] [flags]",
    .about = "Answers a prompt, or chats, with target and draft model on this machine. The "
             "text is the target's own; the draft only makes it faster. Without -p it chats: "
             "/exit or Ctrl-D ends the chat, /clear begins a new one, Ctrl-C stops an answer.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
