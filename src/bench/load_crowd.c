// SPDX-License-Identifier: Apache-2.0
// A crowd of devices, a thread each. The calling thread sleeps through warm-up and measuring, reads
// the server's counters at both ends, ends the devices and adds up their results. A few devices
// share a connection, since every connection has a thread of its own.
//
// Locks: crowd.lock guards the crowd's fields that say so. A device belongs to its thread until the
// thread is joined.
#include "bench/load_crowd.h"

#include <stdlib.h>
#include <string.h>

#include "base/cond.h"
#include "bench/bench.h"
#include "bench/load_anew.h"
#include "bench/load_link.h"
#include "edge/edge.h"
#include "sched/gain.h"
#include "sched/promise.h"

#define PER_CLIENT   16    /* devices of a connection */
#define LOOK_US      50000 /* how often signals and failures are looked for */
#define RECONNECT_MS 1     /* a refusal is final: no edge tries again by itself */

typedef struct text {
    int64_t asked_us, first_us, last_us; /* first, last: arrivals; 0: none */
    uint32_t tokens, behind;             /* all; behind the first arrival */
    uint32_t arrivals;
    uint32_t before, cached; /* tokens of earlier turns; of the prompt, those in the prefix cache */
    bool over, refused;
} text;

typedef struct crowd {
    const ft_bench_crowd_opts *opts;
    bool learning;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop, failed;             /* guarded by lock */
    int64_t from_us, end_us;       /* of measuring; guarded by lock, end_us 0: not yet */
    uint32_t next_prompt;          /* of learning, or the next chat; guarded by lock */
    uint64_t slow;                 /* guarded by lock */
    ft_error err;                  /* of the first failure; guarded by lock */
    ft_bench_crowd_result *result; /* texts, tokens: guarded by lock */
    ft_wire_client **clients;      /* [n_clients] */
    uint32_t n_clients;
} crowd;

typedef struct device {
    crowd *crowd;
    uint32_t index;
    const ft_bench_crowd_class *class;
    pthread_t thread;
    int64_t start_us;
    ft_link_source wire, delayed;
    ft_bench_load_path path;
    bool has_path;
    ft_bench_load_device emulated;
    ft_edge *edge;
    ft_bench_load_user user; /* where users chat */
    ft_bench_load_prompt *prompt;
    text text;
    ft_known_us round; /* when its last verdict came; unknown: the text has none yet */
    ft_gain gain;
    ft_tokens said; /* of the present text */
    uint64_t verdicts;
    uint32_t drafted, accepted;
} device;

/* ---- one text ---- */

/* Whether a verdict that came at now_us was late for its round, and why. The device judges by its
 * own clock, what the verdict says of the server, and the link's delay; so no pass is a spike. */
static ft_sim_round judge_round(const device *d, const ft_msg_verdict *verdict, int64_t now_us)
{
    const int64_t way_us = d->crowd->opts->rtt_us / 2;
    const ft_promise promise = {.tokens_per_s = (double)d->class->tokens_per_s};
    ft_late_round at = {.verdict_us = now_us - way_us};
    at.pass_us = at.verdict_us - verdict->verify_us;
    at.arrival_us = at.pass_us - verdict->queue_us;
    const ft_promise_round round = {.gain_tok = ft_gain_expected(&d->gain, FT_GAIN_TREE),
                                    .away_us = at.arrival_us - (d->round.us - way_us),
                                    .at_us = at.arrival_us};
    at.budget_us = ft_promise_budget(&promise, &round);
    return (ft_sim_round){.class = (uint32_t)(d->class - d->crowd->opts->classes),
                          .queue_us = verdict->queue_us,
                          .verify_us = verdict->verify_us,
                          .late = ft_late_cause(&at)};
}

static void on_verdict(void *ctx, const ft_msg_verdict *verdict)
{
    device *d = ctx;
    crowd *c = d->crowd;
    ft_bench_crowd_rounds *kept = c->opts->rounds;
    const int64_t now_us = ft_bench_now_us();
    const ft_gain_round round = {.kind = FT_GAIN_TREE, .tok = verdict->n_path + verdict->n_next};
    d->verdicts++;
    if (kept && d->round.known) {
        const ft_sim_round judged = judge_round(d, verdict, now_us);
        pthread_mutex_lock(&c->lock);
        if (c->from_us > 0 && !c->stop && kept->n < kept->most)
            kept->at[kept->n++] = judged;
        pthread_mutex_unlock(&c->lock);
    }
    ft_gain_saw(&d->gain, &round);
    d->round = ft_known(now_us);
}

static bool on_text(void *ctx, const char *piece, size_t n_piece, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    device *d = ctx;
    text *t = &d->text;
    (void)piece, (void)n_piece;
    if (n_tokens == 0)
        return true;
    for (size_t i = 0; i < n_tokens; i++)
        if (ft_tokens_append(&d->said, &tokens[i].id, 1) != FT_OK)
            return false;
    t->last_us = ft_bench_now_us();
    if (t->arrivals++ == 0)
        t->first_us = t->last_us;
    else
        t->behind += (uint32_t)n_tokens;
    t->tokens += (uint32_t)n_tokens;
    pthread_mutex_lock(&d->crowd->lock);
    if (d->crowd->learning || (d->crowd->from_us > 0 && !d->crowd->stop))
        d->crowd->result->tokens += n_tokens;
    pthread_mutex_unlock(&d->crowd->lock);
    return true;
}

static bool is_stopped(const crowd *c)
{
    return c->opts->stop && c->opts->stop();
}

static bool is_over(void *ctx)
{
    crowd *c = ((device *)ctx)->crowd;
    pthread_mutex_lock(&c->lock);
    bool over = c->stop || c->failed;
    pthread_mutex_unlock(&c->lock);
    return over || is_stopped(c);
}

static ft_promise_kept both(ft_promise_kept a, ft_promise_kept b)
{
    return (ft_promise_kept){.from_request = a.from_request && b.from_request,
                             .from_first = a.from_first && b.from_first};
}

/* Whether the text counts at all, and whether its promise was kept. end_us: the end of
 * measuring. */
static bool judge(const text *t, const ft_bench_crowd_class *class, int64_t end_us,
                  ft_promise_kept *kept)
{
    const double promised_us = class->n_tokens / (double)class->tokens_per_s * 1e6;
    ft_promise_text it = {.tokens_per_s = (double)class->tokens_per_s,
                          .asked_us = t->asked_us,
                          .first = {.known = t->arrivals > 0, .us = t->first_us},
                          .first_tok = t->tokens - t->behind,
                          .had_tok = t->tokens};
    *kept = (ft_promise_kept){0};
    if (t->refused)
        return true;
    if (t->arrivals > 0)
        *kept = ft_promise_judge(&it, t->last_us);
    if (t->over)
        return t->arrivals > 0;
    if (t->arrivals > 0) { /* the next verdict's, if it came now */
        it.had_tok += t->tokens / (double)t->arrivals;
        *kept = both(*kept, ft_promise_judge(&it, end_us));
    }
    return (double)(end_us - t->asked_us) >= promised_us / 2;
}

/* Compares the text with the prompt's, or sets it where there is none yet. Under the lock. */
static ft_status compare(crowd *c, const device *d, ft_error *err)
{
    ft_tokens *known = &d->prompt->text;
    const ft_tokens *said = &d->said;
    if (c->learning && known->n == 0 && said->n > 0)
        return ft_tokens_append(known, said->id, said->n) == FT_OK
                   ? FT_OK
                   : ft_error_set(err, FT_NOMEM, "out of memory for texts");
    c->result->mismatches +=
        said->n > known->n ||
        (said->n > 0 && memcmp(known->id, said->id, said->n * sizeof *said->id) != 0);
    return FT_OK;
}

static void fail(crowd *c, const ft_error *err)
{
    if (!c->failed)
        c->err = *err;
    c->failed = true;
    pthread_cond_broadcast(&c->changed);
}

static void account(device *d, ft_status status, ft_error *err)
{
    crowd *c = d->crowd;
    text *t = &d->text;
    ft_promise_kept kept;
    pthread_mutex_lock(&c->lock);
    t->over = status == FT_OK;
    if (c->from_us > 0 && t->asked_us >= c->from_us && t->arrivals > 0) {
        c->result->before_tok += t->before;
        c->result->found_tok += t->cached < t->before ? t->cached : t->before;
    }
    t->refused = status == FT_EXHAUSTED && !c->learning;
    if (status == FT_CANCELLED && is_stopped(c))
        status = ft_error_set(err, FT_CANCELLED, "stopped");
    if (status != FT_OK && !t->refused && !(status == FT_CANCELLED && c->stop)) {
        fail(c, err);
    } else if (compare(c, d, err) != FT_OK) {
        fail(c, err);
    } else if (c->from_us > 0 && t->asked_us >= c->from_us &&
               judge(t, d->class, c->end_us ? c->end_us : ft_bench_now_us(), &kept)) {
        uint32_t class = (uint32_t)(d->class - c->opts->classes);
        c->result->texts[class]++;
        c->result->slow[class] += !kept.from_request;
        c->result->slow_from_first[class] += !kept.from_first;
        c->result->refused += t->refused;
        c->slow += !kept.from_request;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
}

static void write_text(device *d)
{
    const crowd *c = d->crowd;
    ft_gen_stats stats;
    ft_error err = {0};
    const ft_gen_request request = {.prompt = d->prompt->tokens.id,
                                    .n_prompt = (uint32_t)d->prompt->tokens.n,
                                    .sampling = c->opts->sampling,
                                    .prefix = d->user.chat ? d->user.chat->prefix : 0,
                                    .max_tokens = d->class->n_tokens};
    const ft_gen_sink sink = {.ctx = d, .on_text = on_text, .cancelled = is_over};
    d->text = (text){.asked_us = ft_bench_now_us(),
                     .before = d->user.chat ? ft_bench_load_user_before(&d->user) : 0};
    d->round = ft_unknown();
    d->said.n = 0;
    ft_status status = ft_edge_generate(d->edge, &request, &sink, &err, &stats);
    d->text.cached = (uint32_t)stats.cached_tokens;
    d->drafted += stats.drafted;
    d->accepted += stats.accepted;
    account(d, status, &err);
}

/* ---- a device ---- */

/* False: it is over before that. */
static bool sleep_until(crowd *c, int64_t until_us)
{
    pthread_mutex_lock(&c->lock);
    while (!c->stop && !c->failed && ft_cond_wait_until(&c->changed, &c->lock, until_us)) {
    }
    bool go_on = !c->stop && !c->failed;
    pthread_mutex_unlock(&c->lock);
    return go_on;
}

/* The next turn of the user's chat, or the first one of another chat. Users begin midway, so that
 * from the start some chats are old and some are new. */
static bool next_turn(device *d, uint32_t round)
{
    crowd *c = d->crowd;
    ft_bench_load_user *user = &d->user;
    ft_error err = {0};
    if (!user->chat) {
        const ft_bench_crowd_chats *chats = c->opts->chats;
        pthread_mutex_lock(&c->lock);
        const uint32_t i = c->next_prompt++;
        pthread_mutex_unlock(&c->lock);
        if (c->learning && i >= chats->all->n)
            return false;
        ft_bench_load_user_begin(user, (chats->first + i) % chats->all->n,
                                 !c->learning && round == 0);
    }
    if (ft_bench_load_user_prompt(user, &err, &d->prompt) == FT_OK)
        return true;
    pthread_mutex_lock(&c->lock);
    fail(c, &err);
    pthread_mutex_unlock(&c->lock);
    return false;
}

static bool next_prompt(device *d, uint32_t round)
{
    crowd *c = d->crowd;
    uint32_t i = d->index + round * c->opts->n_devices;
    if (c->opts->chats)
        return next_turn(d, round);
    if (c->learning) {
        pthread_mutex_lock(&c->lock);
        i = c->next_prompt++;
        pthread_mutex_unlock(&c->lock);
        if (i >= c->opts->set->n)
            return false;
    }
    d->prompt = &c->opts->set->prompts[i % c->opts->set->n];
    return true;
}

static void *live(void *arg)
{
    device *d = arg;
    crowd *c = d->crowd;
    bool go_on = sleep_until(c, d->start_us);
    for (uint32_t round = 0; go_on && next_prompt(d, round); round++) {
        write_text(d);
        /* A device that was refused asks again when the text would have been finished. */
        double pause_s = d->text.refused ? d->class->n_tokens / (double)d->class->tokens_per_s : 0;
        int64_t pause_us = (int64_t)(pause_s * 1e6);
        if (c->opts->chats && !d->text.refused) {
            ft_bench_load_user_next(&d->user);
            if (!c->learning)
                pause_us = ft_bench_load_user_think_us(&d->user, c->opts->chats->think_s);
        }
        go_on = sleep_until(c, ft_bench_now_us() + pause_us);
    }
    return NULL;
}

static ft_status device_init(device *d, crowd *c, uint32_t index, ft_error *err)
{
    const ft_bench_crowd_opts *o = c->opts;
    ft_edge_opts edge = {.vocab = o->vocab,
                         .clock = ft_clock_monotonic(),
                         .draft = o->drafts ? o->draft : (ft_draft_params){0},
                         .automatic = o->drafts && o->automatic,
                         .reconnect_ms = RECONNECT_MS};
    d->crowd = c;
    d->index = index;
    ft_gain_init(&d->gain, NULL);
    d->class = &o->classes[index % o->n_classes];
    if (o->chats) {
        d->user.chats = o->chats->all;
        ft_rng_init(&d->user.rng, o->chats->seed << 32 | (index + 1));
        if (!c->learning)
            edge.reconnect_ms = o->chats->reconnect_ms;
    }
    if (edge.automatic && !c->learning) /* else its times are none of a device */
        edge.kept = o->kept;
    edge.slo_tokens_per_s = o->ask && !c->learning ? d->class->tokens_per_s : 0;
    d->wire = ft_link_source_wire(c->clients[index / PER_CLIENT]);
    ft_bench_load_path_init(&d->path, d->wire);
    d->has_path = true;
    d->path.delay_us = c->learning ? 0 : o->rtt_us / 2;
    d->path.on_verdict = on_verdict;
    d->path.ctx = d;
    d->delayed = ft_bench_load_path_source(&d->path);
    edge.source = o->anew ? ft_bench_load_anew_source(&d->delayed) : d->delayed;
    if (o->drafts) {
        ft_bench_load_device_init(&d->emulated, o->drafts, c->learning ? 0 : o->forward_us);
        edge.drafts = ft_bench_load_device_factory(&d->emulated);
    }
    return ft_edge_create(&edge, err, &d->edge);
}

static void device_deinit(device *d, ft_bench_crowd_result *result)
{
    ft_edge_destroy(d->edge);
    if (d->has_path)
        ft_bench_load_path_deinit(&d->path);
    ft_tokens_deinit(&d->said);
    result->verdicts += d->verdicts;
    result->drafted += d->drafted;
    result->accepted += d->accepted;
    result->device_forwards += d->emulated.device.forwards;
    result->device_late += d->emulated.device.late;
}

/* ---- all of them ---- */

/* Sleeps until then; ends early after a failure or a signal, or if too many texts are slow. */
static bool watch(crowd *c, int64_t until_us, ft_error *err)
{
    bool go_on = true;
    pthread_mutex_lock(&c->lock);
    for (int64_t now = ft_bench_now_us(); go_on && now < until_us; now = ft_bench_now_us()) {
        int64_t look_us = until_us - now < LOOK_US ? until_us : now + LOOK_US;
        (void)ft_cond_wait_until(&c->changed, &c->lock, look_us);
        go_on = !c->failed && !(c->opts->slow_most && c->slow > c->opts->slow_most);
        if (is_stopped(c) && ft_error_set(err, FT_CANCELLED, "stopped") != FT_OK) {
            fail(c, err);
            go_on = false;
        }
    }
    pthread_mutex_unlock(&c->lock);
    return go_on;
}

/* Zeros where there is no server to ask. */
static ft_status count(const ft_bench_crowd_opts *o, ft_error *err, ft_bench_load_counters *out)
{
    *out = (ft_bench_load_counters){0};
    return o->server ? ft_bench_load_server_count(o->server, err, out) : FT_OK;
}

static ft_status measure(crowd *c, int64_t begun_us, ft_error *err)
{
    const ft_bench_crowd_opts *o = c->opts;
    ft_bench_load_counters a, b;
    int64_t from_us = begun_us + (int64_t)(o->warm_s * 1e6);
    if (!watch(c, from_us, err))
        return FT_OK;
    ft_status status = count(o, err, &a);
    double cpu = ft_bench_cpu_s();
    pthread_mutex_lock(&c->lock);
    c->from_us = c->result->from_us = ft_bench_now_us();
    pthread_mutex_unlock(&c->lock);
    if (status == FT_OK)
        watch(c, from_us + (int64_t)(o->measure_s * 1e6), err);
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    c->end_us = ft_bench_now_us();
    c->result->seconds = (double)(c->end_us - c->from_us) / 1e6;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    c->result->driver_cpu_s = ft_bench_cpu_s() - cpu;
    if (status == FT_OK)
        status = count(o, err, &b);
    if (status == FT_OK)
        c->result->server = ft_bench_load_counters_since(&a, &b);
    return status;
}

static uint32_t start(crowd *c, device *devices, int64_t begun_us)
{
    const ft_bench_crowd_opts *o = c->opts;
    for (uint32_t i = 0; i < o->n_devices; i++) {
        double at_s = c->learning ? 0 : o->warm_s * i / o->n_devices;
        devices[i].start_us = begun_us + (int64_t)(at_s * 1e6);
        if (pthread_create(&devices[i].thread, NULL, live, &devices[i]) != 0)
            return i;
    }
    return o->n_devices;
}

static ft_status run_devices(crowd *c, device *devices, ft_error *err)
{
    int64_t begun_us = ft_bench_now_us();
    ft_status status = FT_OK;
    uint32_t running = start(c, devices, begun_us);
    if (running < c->opts->n_devices)
        status = ft_error_set(err, FT_EXHAUSTED, "no more threads: %u devices run", running);
    else if (!c->learning)
        status = measure(c, begun_us, err);
    pthread_mutex_lock(&c->lock);
    c->stop = status != FT_OK || !c->learning;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    for (uint32_t i = 0; i < running; i++)
        pthread_join(devices[i].thread, NULL);
    if (c->learning)
        c->result->seconds = (double)(ft_bench_now_us() - begun_us) / 1e6;
    if (status == FT_OK && c->failed) {
        *err = c->err;
        status = c->err.code;
    }
    return status;
}

static ft_status connect_all(crowd *c, ft_error *err)
{
    ft_wire_client_opts wire = {0};
    if (c->opts->wire)
        wire = *c->opts->wire;
    else
        wire.address = c->opts->server->address;
    uint32_t n = (c->opts->n_devices + PER_CLIENT - 1) / PER_CLIENT;
    ft_status status = FT_OK;
    c->clients = calloc(n, sizeof(ft_wire_client *));
    if (!c->clients)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    for (; c->n_clients < n && status == FT_OK; c->n_clients++)
        status = ft_wire_client_create(&wire, err, &c->clients[c->n_clients]);
    return status;
}

static uint64_t misses(const ft_bench_crowd_opts *o)
{
    ft_recording_stats stats = {0};
    if (o->drafts)
        ft_recording_get_stats(o->drafts->recording, &stats);
    return stats.misses;
}

static void crowd_init(crowd *c)
{
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
}

static ft_status run(const ft_bench_crowd_opts *o, bool learning, ft_error *err,
                     ft_bench_crowd_result *out)
{
    crowd c = {.opts = o, .learning = learning, .result = out};
    const uint64_t missed = misses(o);
    *out = (ft_bench_crowd_result){0};
    device *devices = calloc(o->n_devices, sizeof *devices);
    if (!devices)
        return ft_error_set(err, FT_NOMEM, "out of memory for devices");
    crowd_init(&c);
    ft_status status = connect_all(&c, err);
    for (uint32_t i = 0; i < o->n_devices && status == FT_OK; i++)
        status = device_init(&devices[i], &c, i, err);
    if (status == FT_OK)
        status = run_devices(&c, devices, err);
    for (uint32_t i = 0; i < o->n_devices; i++)
        device_deinit(&devices[i], out);
    for (uint32_t i = 0; i < c.n_clients; i++)
        ft_wire_client_destroy(c.clients[i]);
    out->misses = misses(o) - missed;
    out->chats = o->chats ? c.next_prompt : 0;
    free(c.clients);
    free(devices);
    pthread_cond_destroy(&c.changed);
    pthread_mutex_destroy(&c.lock);
    return status;
}

ft_status ft_bench_crowd_run(const ft_bench_crowd_opts *opts, ft_error *err,
                             ft_bench_crowd_result *out)
{
    return run(opts, false, err, out);
}

ft_status ft_bench_crowd_learn(const ft_bench_crowd_opts *opts, ft_error *err,
                               ft_bench_crowd_result *out)
{
    ft_bench_load_counters a, b;
    *out = (ft_bench_crowd_result){0};
    ft_status status = count(opts, err, &a);
    if (status == FT_OK)
        status = run(opts, true, err, out);
    if (status == FT_OK)
        status = count(opts, err, &b);
    if (status == FT_OK)
        out->server = ft_bench_load_counters_since(&a, &b);
    return status;
}
