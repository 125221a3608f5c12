// SPDX-License-Identifier: Apache-2.0
// Measurements on a verifier in this process, without network or drafter. The measuring thread
// sends the arriving prompt. Each other session has a thread that drafts again as soon as it has
// its verdict.
//
// Locks: arrival.lock guards the round times; threads hold it to append one.
#include "bench/prefill_server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bench/client.h"

#define ANSWER_ROUNDS  8  /* of a text before it comes back */
#define QUESTION_TOK   16 /* of the next user message */
#define SESSION_TOK    64 /* of a served session's prompt */
#define WARM_ROUNDS    5  /* of a session before its rounds count */
#define BEFORE_ROUNDS  40 /* of a session, counted */
#define SESSION_ROUNDS 4096
#define MAX_TIMES      (1 << 20)

static ft_status create_verifier(const ft_bench_prefill_server_opts *o, uint32_t max_context,
                                 ft_error *err, ft_verifier **out)
{
    const ft_verifier_opts opts = {
        .model = o->model,
        .vocab = o->vocab,
        .clock = ft_clock_monotonic(),
        .max_context = max_context,
        .kv_tok = max_context * (o->n_sessions + 4),
        .max_sessions = FT_BENCH_SESSIONS_MAX + 8,
        .session_ttl_s = 60,
        .prefill_budget_us = o->budget_us,
        .n_threads = ft_bench_threads(o->common),
    };
    return ft_verifier_create(&opts, err, out);
}

static ft_status first_token(ft_bench_client *c, ft_verifier *v, ft_error *err, double *seconds)
{
    double begin = ft_bench_now_s();
    ft_status status = ft_bench_client_open(c, v, err);
    if (status == FT_OK)
        status = ft_bench_client_round(c, err);
    *seconds = ft_bench_now_s() - begin;
    return status;
}

/* ---- a text that comes back ---- */

/* A new text: opened cold, a few rounds of an answer, closed, opened again. */
static ft_status come_back(const ft_bench_prefill_server_opts *o, ft_verifier *v, uint32_t turn,
                           double seconds[2], ft_bench_client *c, ft_error *err)
{
    uint32_t more = (ANSWER_ROUNDS + 4) * (FT_BENCH_CHAIN + 1) + QUESTION_TOK;
    ft_status status = ft_bench_client_init(c, turn + 1, ft_model_hparams(o->model)->n_vocab,
                                            o->n_prefix, more, err);
    if (status == FT_OK)
        status = first_token(c, v, err, &seconds[0]);
    for (int i = 0; i < ANSWER_ROUNDS && status == FT_OK && !c->finished; i++)
        status = ft_bench_client_round(c, err);
    ft_bench_client_close(c);
    if (status != FT_OK)
        return status;
    ft_bench_client_append(c, QUESTION_TOK);
    status = first_token(c, v, err, &seconds[1]);
    ft_bench_client_close(c);
    return status;
}

ft_status ft_bench_prefill_returning(const ft_bench_prefill_server_opts *o, ft_error *err,
                                     json_t **out)
{
    double cold[FT_BENCH_ROUNDS_MAX], back[FT_BENCH_ROUNDS_MAX], s[2] = {0};
    ft_verifier *v = NULL;
    ft_bench_client c = {0};
    uint32_t n = 0, cached = 0, prompt = 0;
    ft_status status = create_verifier(o, o->n_prefix + 256, err, &v);
    double begin = ft_bench_now_s();
    while (status == FT_OK && n < (uint32_t)o->common->rounds &&
           (n == 0 || ft_bench_now_s() - begin < o->common->row_s)) {
        status = come_back(o, v, n, s, &c, err);
        cold[n] = s[0];
        back[n] = s[1];
        cached = c.cached_tokens;
        prompt = c.n;
        n += status == FT_OK;
        ft_bench_client_deinit(&c);
    }
    ft_verifier_destroy(v);
    if (status != FT_OK)
        return status;
    double cold_s = ft_bench_median(cold, n), back_s = ft_bench_median(back, n);
    *out = json_pack("{s:f, s:f, s:f, s:i, s:i, s:i}", "cold_ms", cold_s * 1e3, "returning_ms",
                     back_s * 1e3, "ratio", back_s / cold_s, "cached_tokens", (int)cached,
                     "prompt_tokens", (int)prompt, "rounds", (int)n);
    return FT_OK;
}

/* ---- a long prompt that arrives ---- */

typedef enum phase { WARM, BEFORE, DURING, OVER } phase;

typedef struct arrival {
    const ft_bench_prefill_server_opts *opts;
    ft_verifier *verifier;
    atomic_int phase;
    atomic_uint rounds[FT_BENCH_SESSIONS_MAX]; /* that each session has done in the present phase */
    pthread_mutex_t lock;
    /* guarded by lock */
    double *times[OVER]; /* [MAX_TIMES] seconds of the rounds that ended in a phase */
    uint32_t n[OVER];
    ft_error failed; /* of the first session that failed */
} arrival;

typedef struct session {
    arrival *a;
    uint32_t number;
    pthread_t thread;
} session;

static void note(arrival *a, phase in, double seconds)
{
    pthread_mutex_lock(&a->lock);
    if (in < OVER && a->n[in] < MAX_TIMES)
        a->times[in][a->n[in]++] = seconds;
    pthread_mutex_unlock(&a->lock);
}

/* Rounds of one text, until it is over or the measurement is. */
static ft_status serve_text(session *s, uint64_t seed, ft_error *err)
{
    arrival *a = s->a;
    ft_bench_client c;
    uint32_t n_vocab = ft_model_hparams(a->opts->model)->n_vocab;
    ft_status status =
        ft_bench_client_init(&c, seed, n_vocab, SESSION_TOK, SESSION_ROUNDS / 8, err);
    if (status == FT_OK)
        status = ft_bench_client_open(&c, a->verifier, err);
    for (bool first = true; status == FT_OK && !c.finished; first = false) {
        double begin = ft_bench_now_s();
        status = ft_bench_client_round(&c, err);
        phase now = (phase)atomic_load(&a->phase);
        if (now == OVER || c.n + FT_BENCH_CHAIN + 1 > c.cap)
            break;
        if (!first) /* the first one waits for its own prompt */
            note(a, now, ft_bench_now_s() - begin);
        atomic_fetch_add(&a->rounds[s->number], 1);
    }
    ft_bench_client_deinit(&c);
    return status;
}

static void *serve_session(void *arg)
{
    session *s = arg;
    ft_error err = {0};
    ft_status status = FT_OK;
    for (uint64_t i = 0; status == FT_OK && atomic_load(&s->a->phase) != OVER; i++)
        status = serve_text(s, 1000 * (i + 1) + s->number, &err);
    if (status != FT_OK) {
        pthread_mutex_lock(&s->a->lock);
        if (s->a->failed.code == FT_OK)
            s->a->failed = err;
        pthread_mutex_unlock(&s->a->lock);
    }
    return NULL;
}

static bool has_failed(arrival *a)
{
    pthread_mutex_lock(&a->lock);
    bool failed = a->failed.code != FT_OK;
    pthread_mutex_unlock(&a->lock);
    return failed;
}

/* Enters a phase and waits until every session has done n rounds in it. */
static void pass_phase(arrival *a, phase p, uint32_t n)
{
    const struct timespec nap = {.tv_nsec = 2000000};
    atomic_store(&a->phase, p);
    for (uint32_t i = 0; i < a->opts->n_sessions; i++)
        atomic_store(&a->rounds[i], 0);
    for (uint32_t i = 0; i < a->opts->n_sessions; i++)
        while (atomic_load(&a->rounds[i]) < n && !has_failed(a))
            nanosleep(&nap, NULL);
}

/* The phases, with a prompt that arrives several times; seconds of its first token. */
static ft_status run_phases(arrival *a, ft_error *err, double *prompt_s)
{
    double s[FT_BENCH_ROUNDS_MAX];
    uint32_t n = 0, n_vocab = ft_model_hparams(a->opts->model)->n_vocab;
    const ft_bench_opts *common = a->opts->common;
    ft_status status = FT_OK;
    double begin = ft_bench_now_s();
    while (status == FT_OK && n < (uint32_t)common->rounds &&
           (n == 0 || ft_bench_now_s() - begin < common->row_s) && !has_failed(a)) {
        ft_bench_client c;
        pass_phase(a, WARM, WARM_ROUNDS);
        pass_phase(a, BEFORE, BEFORE_ROUNDS);
        status = ft_bench_client_init(&c, 77 + n, n_vocab, a->opts->n_long, 64, err);
        atomic_store(&a->phase, DURING);
        if (status == FT_OK)
            status = first_token(&c, a->verifier, err, &s[n]);
        atomic_store(&a->phase, WARM);
        ft_bench_client_deinit(&c);
        n += status == FT_OK;
    }
    if (status == FT_OK)
        *prompt_s = ft_bench_median(s, n);
    return status;
}

static double quantile_ms(double *times, uint32_t n, double q)
{
    if (n == 0)
        return 0;
    ft_bench_median(times, n); /* sorts */
    return times[(uint32_t)(q * (n - 1) + 0.5)] * 1e3;
}

static json_t *times_json(arrival *a, phase p)
{
    return json_pack("{s:f, s:f, s:i}", "p50_ms", quantile_ms(a->times[p], a->n[p], 0.5), "p99_ms",
                     quantile_ms(a->times[p], a->n[p], 0.99), "n", (int)a->n[p]);
}

static ft_status run_sessions(arrival *a, ft_error *err, double *prompt_s)
{
    session s[FT_BENCH_SESSIONS_MAX];
    uint32_t n = 0;
    ft_status status = FT_OK;
    for (; n < a->opts->n_sessions && status == FT_OK; n++) {
        s[n] = (session){.a = a, .number = n};
        if (pthread_create(&s[n].thread, NULL, serve_session, &s[n]) != 0) {
            status = ft_error_set(err, FT_NOMEM, "cannot make a thread");
            break;
        }
    }
    if (status == FT_OK)
        status = run_phases(a, err, prompt_s);
    atomic_store(&a->phase, OVER);
    for (uint32_t i = 0; i < n; i++)
        pthread_join(s[i].thread, NULL);
    if (status == FT_OK && a->failed.code != FT_OK)
        status = ft_error_set(err, a->failed.code, "%s", a->failed.message);
    return status;
}

ft_status ft_bench_prefill_arrival(const ft_bench_prefill_server_opts *o, ft_error *err,
                                   json_t **out)
{
    arrival *a = calloc(1, sizeof *a);
    double prompt_s = 0;
    if (!a)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    a->opts = o;
    pthread_mutex_init(&a->lock, NULL);
    ft_status status = FT_OK;
    for (int p = 0; p < OVER && status == FT_OK; p++) {
        a->times[p] = malloc(MAX_TIMES * sizeof *a->times[p]);
        if (!a->times[p])
            status = ft_error_set(err, FT_NOMEM, "out of memory");
    }
    if (status == FT_OK)
        status =
            create_verifier(o, o->n_long + SESSION_ROUNDS / 8 + SESSION_TOK, err, &a->verifier);
    if (status == FT_OK)
        status = run_sessions(a, err, &prompt_s);
    if (status == FT_OK) {
        double growth = quantile_ms(a->times[DURING], a->n[DURING], 0.99) -
                        quantile_ms(a->times[BEFORE], a->n[BEFORE], 0.99);
        *out = json_pack("{s:i, s:i, s:o, s:o, s:f, s:f, s:f}", "sessions", (int)o->n_sessions,
                         "prompt_tokens", (int)o->n_long, "before", times_json(a, BEFORE), "during",
                         times_json(a, DURING), "growth_p99_ms", growth, "budget_ms",
                         o->budget_us * 1e-3, "prompt_ms", prompt_s * 1e3);
    }
    ft_verifier_destroy(a->verifier);
    for (int p = 0; p < OVER; p++)
        free(a->times[p]);
    pthread_mutex_destroy(&a->lock);
    free(a);
    return status;
}
