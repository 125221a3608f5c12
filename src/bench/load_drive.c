// SPDX-License-Identifier: Apache-2.0
// Waves. Each edge has a connection, a path that takes time and a thread for the generation of the
// wave. The calling thread reads the server's counters as the window opens and closes, and adds up
// the results after the wave.
//
// Locks: stage.lock guards the stage. A slot belongs to its thread until the thread is joined.
#include "bench/load_drive.h"

#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/schema.h"
#include "wire/early.h"

/* Tokens that reached the user at one time. */
typedef struct arrival {
    int64_t at_us;
    uint32_t n;
} arrival;

typedef struct stage {
    const ft_bench_load_drive_opts *opts;
    ft_bench_load_sample *sample;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t n_started, n_ended;
    int64_t start_us, end_us; /* of the window, as far as it is known */
    ft_verifier_stats server; /* over the window, once it is closed */
    bool failed;
    ft_error err; /* of the first failure */
} stage;

typedef struct slot {
    stage *stage;
    uint32_t index;
    pthread_t thread;
    ft_wire_client *client;
    ft_bench_load_path path;
    bool has_path;
    ft_bench_load_device device;
    ft_edge *edge;
    ft_bench_load_prompt *prompt;
    ft_tokens text;
    arrival *arrivals; /* [n_tokens + 1] */
    uint32_t n_arrivals;
    uint32_t round, nodes; /* of the last draft */
    ft_msg_draft early;    /* the last early one */
    ft_bench_load_tally tally;
    ft_bench_load_values verify_ms;
    ft_gen_stats stats;
} slot;

/* ---- one generation ---- */

static void on_draft(void *ctx, const ft_msg_draft *draft)
{
    slot *s = ctx;
    if (draft->n_under > 0) {
        s->early = *draft;
        return;
    }
    s->round = draft->round;
    s->nodes = draft->n;
}

static void on_verdict(void *ctx, const ft_msg_verdict *v)
{
    slot *s = ctx;
    uint32_t tokens = v->n_path + v->n_next;
    s->tally.verdicts++;
    s->tally.verdict_tokens += tokens;
    if (v->round == s->round && s->nodes > 0) {
        s->tally.trees++;
        s->tally.drafted += s->nodes;
        s->tally.accepted += v->n_path;
        s->tally.tree_tokens += tokens;
    }
    if (v->early_taken && v->n_path > 0 && s->early.n > 0) {
        ft_msg_draft next;
        ft_early_behind(&s->early, v->path[v->n_path - 1], v->next[0], &next);
        s->round = v->round + 1;
        s->nodes = next.n;
    }
    ft_bench_load_values_add(&s->verify_ms, v->verify_us / 1e3);
}

static bool on_text(void *ctx, const char *piece, size_t n_piece, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    slot *s = ctx;
    stage *st = s->stage;
    int64_t now = ft_monotonic_us();
    if (n_tokens == 0)
        return true;
    for (size_t i = 0; i < n_tokens; i++)
        if (ft_tokens_append(&s->text, &tokens[i].id, 1) != FT_OK)
            return false;
    if (s->n_arrivals <= st->opts->n_tokens)
        s->arrivals[s->n_arrivals++] = (arrival){now, (uint32_t)n_tokens};
    if (s->n_arrivals == 1) {
        pthread_mutex_lock(&st->lock);
        st->n_started++;
        st->start_us = now;
        pthread_cond_broadcast(&st->changed);
        pthread_mutex_unlock(&st->lock);
    }
    return true;
}

static bool is_stopped(const ft_bench_load_drive_opts *o)
{
    return o->stop && o->stop();
}

static bool is_cancelled(void *ctx)
{
    stage *st = ((slot *)ctx)->stage;
    pthread_mutex_lock(&st->lock);
    bool failed = st->failed;
    pthread_mutex_unlock(&st->lock);
    return failed || is_stopped(st->opts);
}

static void *generate(void *arg)
{
    slot *s = arg;
    stage *st = s->stage;
    const ft_bench_load_drive_opts *o = st->opts;
    ft_error err = {0};
    const uint32_t other = ((uint32_t)(s->prompt - o->set->prompts) + 1) % o->set->n;
    const ft_tokens *wrong = &o->set->prompts[other].text;
    ft_gen_request request = {.prompt = s->prompt->tokens.id,
                              .n_prompt = (uint32_t)s->prompt->tokens.n,
                              .sampling = o->sampling,
                              .constraint = o->constraint,
                              .prediction = o->misled ? wrong->id : NULL,
                              .n_prediction = o->misled ? (uint32_t)wrong->n : 0,
                              .max_tokens = o->n_tokens};
    const ft_gen_sink sink = {.ctx = s, .on_text = on_text, .cancelled = is_cancelled};
    request.sampling.answer_at = request.n_prompt;
    ft_status status = ft_edge_generate(s->edge, &request, &sink, &err, &s->stats);
    pthread_mutex_lock(&st->lock);
    if (st->n_ended++ == 0 && s->n_arrivals > 0)
        st->end_us = s->arrivals[s->n_arrivals - 1].at_us;
    if (status != FT_OK && !st->failed) {
        st->failed = true;
        st->err = err;
    }
    pthread_cond_broadcast(&st->changed);
    pthread_mutex_unlock(&st->lock);
    return NULL;
}

/* ---- a wave ---- */

static void add_tally(ft_bench_load_tally *sum, const ft_bench_load_tally *more)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)more;
    for (size_t i = 0; i < offsetof(ft_bench_load_tally, edge) / sizeof *to; i++)
        to[i] += from[i];
    ft_stats_add(&ft_gen_stat_list, &sum->edge, &more->edge);
}

/* What came within the window; *tally: of the text's category. */
static void count_window(stage *st, const slot *s, ft_bench_load_tally *tally)
{
    for (uint32_t i = 0; i < s->n_arrivals; i++) {
        const arrival *a = &s->arrivals[i];
        if (a->at_us <= st->start_us || a->at_us > st->end_us)
            continue;
        st->sample->window_tokens += a->n;
        st->sample->window_verdicts++;
        tally->window_tokens += a->n;
        if (i == 0 || s->arrivals[i - 1].at_us < st->start_us)
            continue;
        double ms = (double)(a->at_us - s->arrivals[i - 1].at_us) / 1e3 / a->n;
        for (uint32_t k = 0; k < a->n; k++)
            ft_bench_load_values_add(&st->sample->itl_ms, ms);
        tally->window_itl_us += (uint64_t)(a->at_us - s->arrivals[i - 1].at_us);
        tally->window_itl_tokens += a->n;
    }
}

static ft_status count_text(stage *st, slot *s, ft_error *err)
{
    ft_bench_load_sample *sample = st->sample;
    ft_tokens *known = &s->prompt->text;
    s->tally.texts = 1;
    s->tally.tokens = s->text.n;
    s->tally.edge = s->stats;
    add_tally(&sample->tally[s->prompt->category], &s->tally);
    ft_bench_load_values_join(&sample->verify_ms, &s->verify_ms);
    sample->uplink_bits_per_s = s->stats.uplink_bits_per_s;
    ft_bench_load_values_add(&sample->ttft_ms, (double)s->stats.ttft.sum_us / 1e3);
    if (!st->opts->learn) {
        sample->mismatches +=
            known->n != s->text.n ||
            (known->n && memcmp(known->id, s->text.id, known->n * sizeof *known->id) != 0);
        return FT_OK;
    }
    ft_tokens_deinit(known);
    *known = (ft_tokens){0};
    return s->text.n == 0 || ft_tokens_append(known, s->text.id, s->text.n) == FT_OK
               ? FT_OK
               : ft_error_set(err, FT_NOMEM, "out of memory for texts");
}

/* The window's figures. */
static void count_windows(stage *st, const slot *slots)
{
    const uint32_t n = st->opts->n_slots, category = slots[0].prompt->category;
    ft_bench_load_tally of = {.window_us = (uint64_t)(st->end_us - st->start_us),
                              .window_own_us = st->server.own_us,
                              .window_verify_us = ft_verifier_stats_verify_us(&st->server),
                              .window_made = st->server.tokens};
    bool one = true;
    for (uint32_t i = 0; i < n; i++) {
        one = one && slots[i].prompt->category == category;
        count_window(st, &slots[i], &of);
    }
    if (one)
        add_tally(&st->sample->tally[category], &of);
}

/* Waits until as many have begun as there are, or one has ended. */
static bool wait_open(stage *st)
{
    pthread_mutex_lock(&st->lock);
    while (st->n_started < st->opts->n_slots && st->n_ended == 0)
        pthread_cond_wait(&st->changed, &st->lock);
    bool open = st->n_ended == 0;
    pthread_mutex_unlock(&st->lock);
    return open;
}

static void wait_closed(stage *st)
{
    pthread_mutex_lock(&st->lock);
    while (st->n_ended == 0)
        pthread_cond_wait(&st->changed, &st->lock);
    pthread_mutex_unlock(&st->lock);
}

static ft_status watch(stage *st, ft_error *err, bool *counted)
{
    const ft_bench_load_server *server = st->opts->server;
    ft_bench_load_counters a, b;
    *counted = false;
    if (!wait_open(st))
        return FT_OK; /* a text ended before another had begun: no window */
    double cpu = ft_bench_cpu_s();
    ft_status status = ft_bench_load_server_count(server, err, &a);
    wait_closed(st);
    double used = ft_bench_cpu_s() - cpu;
    if (status == FT_OK)
        status = ft_bench_load_server_count(server, err, &b);
    if (status != FT_OK || st->end_us <= st->start_us)
        return status;
    const ft_bench_load_counters grown = ft_bench_load_counters_since(&a, &b);
    ft_bench_load_counters_add(&st->sample->server, &grown);
    st->server = grown.stats;
    st->sample->driver_cpu_s += used;
    st->sample->window_s += (double)(st->end_us - st->start_us) / 1e6;
    *counted = true;
    return FT_OK;
}

static void slot_rewind(slot *s, ft_bench_load_prompt *prompt)
{
    s->prompt = prompt;
    s->text.n = 0;
    s->n_arrivals = 0;
    s->tally = (ft_bench_load_tally){0};
    s->verify_ms.n = 0;
}

static ft_status wave(stage *st, slot *slots, ft_bench_load_prompt *prompts, ft_error *err)
{
    uint32_t n = st->opts->n_slots, running = 0;
    bool counted = false;
    st->n_started = st->n_ended = 0;
    st->start_us = st->end_us = 0;
    for (uint32_t i = 0; i < n; i++) {
        slot_rewind(&slots[i], &prompts[i]);
        if (pthread_create(&slots[i].thread, NULL, generate, &slots[i]) != 0)
            break;
        running++;
    }
    ft_status status = FT_OK;
    if (running == n)
        status = watch(st, err, &counted);
    else
        status = ft_error_set(err, FT_EXHAUSTED, "no more threads");
    if (status != FT_OK) {
        pthread_mutex_lock(&st->lock);
        st->failed = true;
        pthread_mutex_unlock(&st->lock);
    }
    for (uint32_t i = 0; i < running; i++)
        pthread_join(slots[i].thread, NULL);
    if (status == FT_OK && st->failed) {
        *err = st->err;
        status = st->err.code;
    }
    if (counted && status == FT_OK)
        count_windows(st, slots);
    for (uint32_t i = 0; i < n && status == FT_OK; i++)
        status = count_text(st, &slots[i], err);
    return status;
}

/* ---- all of them ---- */

static void limit(slot *s)
{
    ft_line_rate up = s->stage->opts->up, down = s->stage->opts->down;
    up.seed += s->index;
    down.seed += s->index;
    ft_bench_load_path_limit(&s->path, &up, &down);
}

static ft_status slot_init(slot *s, stage *st, ft_error *err)
{
    const ft_bench_load_drive_opts *o = st->opts;
    const ft_wire_client_opts wire = {.address = o->server->address};
    ft_edge_opts edge = o->edge;
    s->stage = st;
    s->arrivals = calloc(o->n_tokens + 1, sizeof *s->arrivals);
    if (!s->arrivals)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    ft_status status = ft_wire_client_create(&wire, err, &s->client);
    if (status != FT_OK)
        return status;
    ft_bench_load_path_init(&s->path, ft_link_source_wire(s->client));
    s->has_path = true;
    s->path.delay_us = o->rtt_us / 2;
    limit(s);
    s->path.on_draft = on_draft;
    s->path.on_verdict = on_verdict;
    s->path.ctx = s;
    edge.vocab = o->vocab;
    edge.source = ft_bench_load_path_source(&s->path);
    edge.clock = ft_clock_monotonic();
    if (o->drafts) {
        ft_bench_load_device_init(&s->device, o->drafts, o->forward_us);
        edge.drafts = ft_bench_load_device_factory(&s->device);
    }
    status = ft_edge_create(&edge, err, &s->edge);
    return status == FT_OK ? ft_bench_schema_warm(s->edge, &o->constraint, err) : status;
}

static void slot_deinit(slot *s, ft_bench_load_sample *sample)
{
    ft_edge_destroy(s->edge);
    sample->device_forwards += s->device.device.forwards;
    sample->device_late += s->device.device.late;
    if (s->has_path) {
        const ft_bench_load_traffic t = ft_bench_load_path_traffic(&s->path);
        sample->traffic.drafts += t.drafts;
        sample->traffic.draft_bytes += t.draft_bytes;
        sample->traffic.verdicts += t.verdicts;
        sample->traffic.verdict_bytes += t.verdict_bytes;
        ft_bench_load_path_deinit(&s->path);
    }
    ft_wire_client_destroy(s->client);
    ft_bench_load_values_deinit(&s->verify_ms);
    ft_tokens_deinit(&s->text);
    free(s->arrivals);
}

static uint64_t misses(const ft_bench_load_drive_opts *o)
{
    ft_recording_stats stats = {0};
    if (o->drafts)
        ft_recording_get_stats(o->drafts->recording, &stats);
    return stats.misses;
}

ft_status ft_bench_load_drive(const ft_bench_load_drive_opts *o, ft_error *err,
                              ft_bench_load_sample *out)
{
    const uint64_t missed = misses(o);
    stage st = {.opts = o, .sample = out};
    slot *slots = calloc(o->n_slots, sizeof *slots);
    ft_status status = FT_OK;
    *out = (ft_bench_load_sample){0};
    if (!slots)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    pthread_mutex_init(&st.lock, NULL);
    pthread_cond_init(&st.changed, NULL);
    for (uint32_t i = 0; i < o->n_slots && status == FT_OK; i++) {
        slots[i].index = i;
        status = slot_init(&slots[i], &st, err);
    }
    for (uint32_t i = 0; i + o->n_slots <= o->set->n && status == FT_OK; i += o->n_slots) {
        ft_progress_report(&o->progress, i, o->set->n);
        status = wave(&st, slots, &o->set->prompts[i], err);
        if (status == FT_OK && is_stopped(o))
            status = ft_error_set(err, FT_CANCELLED, "stopped");
    }
    ft_progress_report(&o->progress, o->set->n, o->set->n);
    for (uint32_t i = 0; i < o->n_slots; i++)
        slot_deinit(&slots[i], out);
    out->misses = misses(o) - missed;
    pthread_cond_destroy(&st.changed);
    pthread_mutex_destroy(&st.lock);
    free(slots);
    return status;
}

/* ---- sums ---- */

void ft_bench_load_sample_deinit(ft_bench_load_sample *sample)
{
    ft_bench_load_values_deinit(&sample->itl_ms);
    ft_bench_load_values_deinit(&sample->ttft_ms);
    ft_bench_load_values_deinit(&sample->verify_ms);
}

void ft_bench_load_sample_join(ft_bench_load_sample *sum, const ft_bench_load_sample *more)
{
    sum->window_s += more->window_s;
    sum->window_tokens += more->window_tokens;
    sum->window_verdicts += more->window_verdicts;
    ft_bench_load_counters_add(&sum->server, &more->server);
    sum->driver_cpu_s += more->driver_cpu_s;
    ft_bench_load_values_join(&sum->itl_ms, &more->itl_ms);
    ft_bench_load_values_join(&sum->ttft_ms, &more->ttft_ms);
    ft_bench_load_values_join(&sum->verify_ms, &more->verify_ms);
    for (size_t i = 0; i < FT_BENCH_LOAD_CATEGORIES; i++)
        add_tally(&sum->tally[i], &more->tally[i]);
    sum->traffic.drafts += more->traffic.drafts;
    sum->traffic.draft_bytes += more->traffic.draft_bytes;
    sum->traffic.verdicts += more->traffic.verdicts;
    sum->traffic.verdict_bytes += more->traffic.verdict_bytes;
    sum->uplink_bits_per_s = more->uplink_bits_per_s;
    sum->mismatches += more->mismatches;
    sum->device_forwards += more->device_forwards;
    sum->device_late += more->device_late;
    sum->misses += more->misses;
    sum->line_answers += more->line_answers;
    sum->line_bytes += more->line_bytes;
}

ft_bench_load_tally ft_bench_load_tally_total(const ft_bench_load_sample *sample)
{
    ft_bench_load_tally sum = {0};
    for (size_t i = 0; i < FT_BENCH_LOAD_CATEGORIES; i++)
        add_tally(&sum, &sample->tally[i]);
    return sum;
}

static double over(uint64_t a, uint64_t b)
{
    return b > 0 ? (double)a / (double)b : 0;
}

double ft_bench_load_tally_per_verify(const ft_bench_load_tally *t)
{
    return t->trees ? over(t->tree_tokens, t->trees) : over(t->verdict_tokens, t->verdicts);
}

double ft_bench_load_tally_per_verdict(const ft_bench_load_tally *t)
{
    return over(t->verdict_tokens, t->verdicts);
}

double ft_bench_load_tally_per_s(const ft_bench_load_tally *t)
{
    return 1e6 * over(t->window_tokens, t->window_us);
}

double ft_bench_load_tally_itl_ms(const ft_bench_load_tally *t)
{
    return over(t->window_itl_us, t->window_itl_tokens) / 1e3;
}
