// SPDX-License-Identifier: Apache-2.0
// grammars.h: places for constraints, and workers that compile what stands in them.
//
//   FREE --get--> QUEUED --worker--> RUNNING --> READY or FAILED --get of another one--> FREE
//
// Invariants: a RUNNING place is its worker's alone, but for its state, which `lock` guards as all
// else. At most one place of a tenant is RUNNING, and at most TENANT_WAITS are QUEUED. Tenants have
// turns: the second place that one queues stands behind the first one of each other tenant. A
// compilation counts its work, and stops when that is too much (constraint.h). Nothing is compiled
// for a tenant that has wasted much (budget.h). A grammar that something still uses keeps its
// place: what the places take is all there is.
#include "constrain/grammars.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/thread.h"
#include "constrain/budget.h"

/* One hostile tenant keeps one of them. The last one, of a lower priority, is for tenants that have
 * wasted time of late, and for them alone: the others would be too late on a busy processor. */
#define WORKERS 3

/* Of a tenant: more of it replace its own, so that others keep theirs. With half, an application
 * with 48 tools compiles again and again. */
#define TENANT_PLACES (FT_GRAMMARS_MAX / 4)
/* An application asks for a few at once. With twice as many, the last one waits twice as long. */
#define TENANT_WAITS 16
/* Of a processor, after which a compilation is given up whatever it has counted: what may be
 * counted takes 2 s on a usual one. With half, a slow machine has no large constraints. */
#define COMPILE_MAX_US 10000000

typedef enum place_state { FREE, QUEUED, RUNNING, READY, FAILED } place_state;

typedef struct place {
    place_state state;
    ft_constraint constraint;
    char *text;    /* [constraint.n] and the tenant's name, terminated */
    char *tenant;  /* in `text` */
    bool wasted;   /* QUEUED: the tenant had wasted time when it asked */
    uint64_t turn; /* QUEUED, RUNNING: its place in the order; else: when it was last asked for */
    ft_grammar *grammar;
    ft_error error;
} place;

struct ft_grammars {
    ft_constrain_vocab *vocab;
    void (*done)(void *ctx);
    void *ctx;
    pthread_t workers[WORKERS];
    int n_workers, n_at_work; /* started; at work already: the last one to come is the low one */
    pthread_mutex_t lock;
    pthread_cond_t work;  /* there is something to compile */
    pthread_cond_t ended; /* a compilation has ended */
    atomic_bool stop;     /* set under the lock */
    uint64_t turns;       /* of what was asked for */
    uint64_t began;       /* the turn of the last place that began to run */
    ft_budget budget;     /* of the tenants */
    place places[FT_GRAMMARS_MAX];
};

static void clear(place *p)
{
    ft_grammar_unref(p->grammar);
    free(p->text);
    *p = (place){0};
}

static bool is(const place *p, const ft_constraint *c, const char *tenant)
{
    return p->state != FREE && p->constraint.kind == c->kind && p->constraint.n == c->n &&
           (c->n == 0 || memcmp(p->constraint.data, c->data, c->n) == 0) &&
           strcmp(p->tenant, tenant) == 0;
}

/* ---- workers ---- */

static bool runs(const ft_grammars *g, const char *tenant)
{
    for (size_t i = 0; i < FT_GRAMMARS_MAX; i++)
        if (g->places[i].state == RUNNING && strcmp(g->places[i].tenant, tenant) == 0)
            return true;
    return false;
}

/* The first queued one whose tenant has no worker, of those tenants that had wasted time, or of
 * those that had not. */
static place *next_of(ft_grammars *g, bool wasted)
{
    place *next = NULL;
    for (place *p = g->places; p < g->places + FT_GRAMMARS_MAX; p++)
        if (p->state == QUEUED && p->wasted == wasted && (!next || p->turn < next->turn) &&
            !runs(g, p->tenant))
            next = p;
    return next;
}

static bool may_go(const place *p)
{
    return p->state == FAILED || (p->state == READY && !ft_grammar_is_shared(p->grammar));
}

/* Whether new ones of the tenant must replace its own. */
static bool has_share(const ft_grammars *g, const char *tenant)
{
    size_t n = 0;
    for (const place *p = g->places; p < g->places + FT_GRAMMARS_MAX; p++)
        n += p->state != FREE && strcmp(p->tenant, tenant) == 0;
    return n >= TENANT_PLACES;
}

/* The one that was asked for the longest ago; of: of this tenant, NULL: of any. NULL: none can
 * go. */
static place *oldest_of(ft_grammars *g, const char *of, const place *except)
{
    place *oldest = NULL;
    for (place *p = g->places; p < g->places + FT_GRAMMARS_MAX; p++)
        if (may_go(p) && p != except && (!oldest || p->turn < oldest->turn) &&
            (!of || strcmp(p->tenant, of) == 0))
            oldest = p;
    return oldest;
}

static size_t bytes_of(const ft_grammars *g)
{
    size_t bytes = 0;
    for (size_t i = 0; i < FT_GRAMMARS_MAX; i++)
        bytes += g->places[i].state == READY ? ft_grammar_bytes(g->places[i].grammar) : 0;
    return bytes;
}

/* A compiled grammar is kept where all together have room. What nobody uses goes first. */
static void make_room(ft_grammars *g, place *p)
{
    place *oldest;
    while (bytes_of(g) > FT_GRAMMARS_MAX_BYTES &&
           ((oldest = oldest_of(g, p->tenant, p)) || (oldest = oldest_of(g, NULL, p))))
        clear(oldest);
    if (bytes_of(g) <= FT_GRAMMARS_MAX_BYTES)
        return;
    ft_grammar_unref(p->grammar);
    p->grammar = NULL;
    p->state = FAILED;
    ft_error_set(&p->error, FT_EXHAUSTED,
                 "constraint: the texts of others use all memory for constraints: try again later");
}

/* What a worker's compilation is to look at. */
typedef struct watch {
    ft_grammars *grammars;
    int64_t until_us; /* of the thread's own clock */
} watch;

static bool is_over(void *ctx)
{
    const watch *w = ctx;
    return atomic_load(&w->grammars->stop) || ft_thread_cpu_us() >= w->until_us;
}

/* FT_EXHAUSTED: the tenant has wasted too much. */
static ft_status check_budget(ft_grammars *g, const char *tenant, ft_error *err)
{
    const int64_t owes_us = ft_budget_owes_us(&g->budget, tenant, ft_monotonic_us());
    return owes_us == 0 ? FT_OK
                        : ft_error_set(err, FT_EXHAUSTED,
                                       "constraint: this client's last ones took too much time to "
                                       "compile, and were refused or large: send no new one for "
                                       "%d s",
                                       (int)(owes_us / 1000000) + 1);
}

/* Its place is RUNNING. */
static ft_status compile(ft_grammars *g, place *p)
{
    const int64_t began_us = ft_thread_cpu_us();
    watch w = {g, began_us + COMPILE_MAX_US};
    const ft_compile_stop stop = {is_over, &w};
    ft_status status = check_budget(g, p->tenant, &p->error);
    if (status != FT_OK)
        return status;
    pthread_mutex_unlock(&g->lock);
    status = ft_grammar_compile(g->vocab, &p->constraint, &stop, &p->error, &p->grammar);
    pthread_mutex_lock(&g->lock);
    ft_budget_count(&g->budget, p->tenant, ft_thread_cpu_us() - began_us, status != FT_OK,
                    ft_monotonic_us());
    return status;
}

static void run(ft_grammars *g, place *p)
{
    p->state = RUNNING;
    g->began = p->turn > g->began ? p->turn : g->began;
    p->state = compile(g, p) == FT_OK ? READY : FAILED;
    p->turn = ++g->turns;
    make_room(g, p);
    pthread_cond_broadcast(&g->work); /* its tenant's next one may run */
    pthread_cond_broadcast(&g->ended);
    pthread_mutex_unlock(&g->lock);
    if (g->done)
        g->done(g->ctx);
    pthread_mutex_lock(&g->lock);
}

static void *work(void *arg)
{
    ft_grammars *g = arg;
    pthread_mutex_lock(&g->lock);
    const bool last = g->n_at_work++ == WORKERS - 1;
    if (last)
        ft_thread_lower_priority(FT_THREAD_LARGE);
    while (!g->stop) {
        place *p = next_of(g, last);
        if (p)
            run(g, p);
        else
            pthread_cond_wait(&g->work, &g->lock);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* ---- life ---- */

static ft_status start(ft_grammars *g, ft_error *err)
{
    pthread_attr_t attr;
    bool ok = pthread_attr_init(&attr) == 0;
    if (!ok)
        return ft_error_set(err, FT_NOMEM, "constraint: cannot start a worker");
    ok = pthread_attr_setstacksize(&attr, FT_COMPILE_STACK_BYTES) == 0;
    while (ok && g->n_workers < WORKERS) {
        ok = pthread_create(&g->workers[g->n_workers], &attr, work, g) == 0;
        g->n_workers += ok;
    }
    pthread_attr_destroy(&attr);
    return ok ? FT_OK : ft_error_set(err, FT_NOMEM, "constraint: cannot start a worker");
}

ft_status ft_grammars_create(const ft_grammars_opts *opts, ft_error *err, ft_grammars **out)
{
    ft_grammars *g = calloc(1, sizeof *g);
    *out = NULL;
    if (!g)
        return ft_error_set(err, FT_NOMEM, "constraint: out of memory");
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->work, NULL);
    pthread_cond_init(&g->ended, NULL);
    ft_budget_init(&g->budget);
    g->done = opts->done;
    g->ctx = opts->ctx;
    ft_status status = ft_constrain_vocab_create(&opts->tokens, err, &g->vocab);
    if (status == FT_OK)
        status = start(g, err);
    if (status != FT_OK) {
        ft_grammars_destroy(g);
        return status;
    }
    *out = g;
    return FT_OK;
}

void ft_grammars_destroy(ft_grammars *grammars)
{
    ft_grammars *g = grammars;
    if (!g)
        return;
    pthread_mutex_lock(&g->lock);
    atomic_store(&g->stop, true);
    pthread_cond_broadcast(&g->work);
    pthread_mutex_unlock(&g->lock);
    for (int i = 0; i < g->n_workers; i++)
        pthread_join(g->workers[i], NULL);
    for (size_t i = 0; i < FT_GRAMMARS_MAX; i++)
        clear(&g->places[i]);
    ft_constrain_vocab_destroy(g->vocab);
    pthread_cond_destroy(&g->ended);
    pthread_cond_destroy(&g->work);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

/* ---- asking ---- */

/* The turn of the tenant's next place: behind those of it that wait, and the one that runs. */
static uint64_t next_turn(const ft_grammars *g, const char *tenant, uint32_t *n_waits)
{
    uint64_t last = g->began;
    *n_waits = 0;
    for (const place *p = g->places; p < g->places + FT_GRAMMARS_MAX; p++)
        if ((p->state == QUEUED || p->state == RUNNING) && strcmp(p->tenant, tenant) == 0) {
            last = p->turn > last ? p->turn : last;
            *n_waits += p->state == QUEUED;
        }
    return last + 1;
}

static place *free_place(ft_grammars *g, const char *tenant)
{
    if (has_share(g, tenant))
        return oldest_of(g, tenant, NULL);
    for (place *p = g->places; p < g->places + FT_GRAMMARS_MAX; p++)
        if (p->state == FREE)
            return p;
    return oldest_of(g, NULL, NULL);
}

static ft_status queue(ft_grammars *g, const ft_constraint *c, const char *tenant, ft_error *err)
{
    const size_t n_tenant = strlen(tenant) + 1;
    uint32_t n_waits;
    const uint64_t turn = next_turn(g, tenant, &n_waits);
    if (check_budget(g, tenant, err) != FT_OK)
        return FT_EXHAUSTED;
    place *p = n_waits < TENANT_WAITS ? free_place(g, tenant) : NULL;
    if (!p)
        return ft_error_set(err, FT_EXHAUSTED,
                            "constraint: too many are compiled or in use: try again later");
    char *text = malloc(c->n + n_tenant);
    if (!text)
        return ft_error_set(err, FT_NOMEM, "constraint: out of memory");
    clear(p);
    if (c->n)
        memcpy(text, c->data, c->n);
    memcpy(text + c->n, tenant, n_tenant);
    *p = (place){.state = QUEUED,
                 .constraint = {c->kind, text, c->n},
                 .text = text,
                 .tenant = text + c->n,
                 .wasted = ft_budget_wasted(&g->budget, tenant, ft_monotonic_us()),
                 .turn = turn};
    pthread_cond_broadcast(&g->work);
    return FT_OK;
}

/* What the place has. What there was no room for may be tried again. */
static ft_status answer(ft_grammars *g, place *p, ft_error *err, ft_grammar **out)
{
    ft_status status = FT_OK;
    if (p->state == READY) {
        p->turn = ++g->turns;
        *out = ft_grammar_ref(p->grammar);
    } else if (p->state == FAILED) {
        status = ft_error_set(err, p->error.code, "%s", p->error.message);
        if (status == FT_NOMEM || status == FT_EXHAUSTED)
            clear(p);
    }
    return status;
}

static place *place_of(ft_grammars *g, const ft_constraint *c, const char *whose)
{
    for (place *p = g->places; p < g->places + FT_GRAMMARS_MAX; p++)
        if (is(p, c, whose))
            return p;
    return NULL;
}

/* Under the lock. */
static ft_status look(ft_grammars *g, const ft_constraint *c, const char *whose, ft_error *err,
                      ft_grammar **out)
{
    place *p = place_of(g, c, whose);
    return p ? answer(g, p, err, out) : queue(g, c, whose, err);
}

ft_status ft_grammars_wait(ft_grammars *grammars, const ft_constraint *c, const char *tenant,
                           int64_t wait_us, ft_error *err, ft_grammar **out)
{
    const char *whose = tenant ? tenant : "";
    const int64_t deadline_us = ft_deadline_us(wait_us);
    bool late = wait_us == 0;
    *out = NULL;
    pthread_mutex_lock(&grammars->lock);
    ft_status status = look(grammars, c, whose, err, out);
    while (status == FT_OK && !*out && !late) {
        late = !ft_cond_wait_until(&grammars->ended, &grammars->lock, deadline_us);
        status = look(grammars, c, whose, err, out);
    }
    pthread_mutex_unlock(&grammars->lock);
    return status;
}

ft_status ft_grammars_get(ft_grammars *grammars, const ft_constraint *c, const char *tenant,
                          ft_error *err, ft_grammar **out)
{
    return ft_grammars_wait(grammars, c, tenant, 0, err, out);
}
