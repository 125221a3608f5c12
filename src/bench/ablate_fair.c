// SPDX-License-Identifier: Apache-2.0
// How evenly tenants share a server that has too much to do (sched/fair.h): the server's policy
// picks the passes, sessions draft and ask again. Pure.
#include "sched/fair.h"

#include <math.h>

#include "base/rng.h"
#include "bench/ablate_parts.h"
#include "sched/promise.h"
#include "sched/sched.h"

#define TENANTS     FT_ABLATE_TENANTS
#define SESSIONS    128
#define WINDOW_US   10000000
#define WINDOWS     12 /* the first one does not count */
#define AWAY_US     85000
#define ACCEPT      0.7
#define CONTEXT_TOK 500

typedef struct session {
    uint32_t tenant, rows;
    int64_t arrival_us;
    int64_t asked_us; /* its first draft came */
    double had_tok;   /* since then */
} session;

typedef struct crowd {
    const ft_ablate_fair_load *load;
    ft_rng rng;
    ft_cost cost;
    session sessions[SESSIONS];
    uint32_t n;
    int64_t now_us;
    double recent[TENANTS], all_recent; /* rows, as the server counts them */
    double served[TENANTS];             /* rows in this window */
} crowd;

/* Whether the tenant asks for anything at that time. */
static bool is_active(const ft_ablate_fair_load *l, uint32_t tenant, int64_t at_us)
{
    return l->sessions[tenant] > 0 &&
           (tenant > 0 || l->pause_us == 0 || at_us / l->pause_us % 2 == 0);
}

static void draft(crowd *c, session *s)
{
    s->rows = 1 + c->load->least_drafted + ft_rng_below(&c->rng, 8);
    s->arrival_us = c->now_us + (int64_t)(AWAY_US * (0.5 + ft_rng_unit(&c->rng)));
    while (!is_active(c->load, s->tenant, s->arrival_us))
        s->arrival_us += c->load->pause_us;
}

static void set_up(crowd *c, const ft_ablate_fair_load *l, uint64_t seed)
{
    *c = (crowd){.load = l};
    ft_rng_init(&c->rng, seed);
    ft_cost_init(&c->cost);
    ft_cost_prime(&c->cost, l->cost_us, 0.05);
    for (uint32_t i = 0; i < TENANTS; i++)
        for (uint32_t k = 0; k < l->sessions[i] && c->n < SESSIONS; k++) {
            session *s = &c->sessions[c->n++];
            s->tenant = i;
            draft(c, s);
            s->asked_us = s->arrival_us;
        }
}

static ft_work work_of(const crowd *c, const session *s)
{
    const double gain_tok = 1 / (1 - ACCEPT);
    ft_work w = {.kind = FT_WORK_VERIFY,
                 .arrival_us = s->arrival_us,
                 .n_tok = s->rows,
                 .n_out = s->rows,
                 .n_past = CONTEXT_TOK,
                 .edge_drafts = true,
                 .gain_tok = (float)gain_tok,
                 .share = (float)ft_fair_share(c->recent[s->tenant], c->all_recent)};
    const ft_promise promise = {
        .tokens_per_s = c->load->tokens_per_s, .asked_us = s->asked_us, .had_tok = s->had_tok};
    const ft_promise_round round = {
        .gain_tok = gain_tok, .away_us = AWAY_US, .at_us = s->arrival_us};
    if (promise.tokens_per_s > 0) {
        w.tokens_per_s = (float)promise.tokens_per_s;
        w.deadline = ft_known(ft_promise_due(&promise, &round));
        w.even_us = ft_promise_budget(&promise, &round);
        w.owed_us = ft_promise_owed(&promise);
    }
    return w;
}

static void answer(crowd *c, session *s)
{
    uint32_t tok = 1;
    while (tok < s->rows && ft_rng_unit(&c->rng) < ACCEPT)
        tok++;
    s->had_tok += tok;
    c->recent[s->tenant] += s->rows;
    c->all_recent += s->rows;
    c->served[s->tenant] += s->rows;
    draft(c, s);
}

/* One pass, or the time until there is work. */
static void step(crowd *c)
{
    const ft_sched_limits limits = {.max_rows = c->load->max_rows,
                                    .cost = &c->cost,
                                    .kv_blocks_free = 1,
                                    .kv_block_tok = 16,
                                    .guard_us = 2000};
    ft_work work[SESSIONS];
    ft_pick picks[SESSIONS];
    ft_pass pass = {0};
    session *of[SESSIONS];
    size_t n = 0;
    int64_t next_us = INT64_MAX;
    for (uint32_t i = 0; i < c->n; i++) {
        session *s = &c->sessions[i];
        if (s->arrival_us <= c->now_us) {
            of[n] = s;
            work[n++] = work_of(c, s);
        } else if (s->arrival_us < next_us)
            next_us = s->arrival_us;
    }
    if (n == 0) {
        c->now_us = next_us;
        return;
    }
    const size_t picked = ft_sched_wisp.pick(work, n, &limits, c->now_us, picks);
    for (size_t i = 0; i < picked; i++)
        pass = ft_pass_plus(pass, CONTEXT_TOK, picks[i].n_tok, picks[i].n_tok);
    c->now_us += ft_cost_predict(&c->cost, &pass);
    for (uint32_t i = 0; i < TENANTS; i++)
        c->recent[i] = ft_fair_faded(c->recent[i]);
    c->all_recent = ft_fair_faded(c->all_recent);
    for (size_t i = 0; i < picked; i++)
        answer(c, of[picks[i].index]);
}

/* What the tenant that had least of its share had of it. */
static double least(const crowd *c, int64_t window_at_us)
{
    double all = 0, least = INFINITY;
    uint32_t n = 0;
    for (uint32_t i = 0; i < TENANTS; i++) {
        n += is_active(c->load, i, window_at_us);
        all += c->served[i];
    }
    for (uint32_t i = 0; i < TENANTS; i++)
        if (is_active(c->load, i, window_at_us))
            least = fmin(least, c->served[i]);
    return all > 0 ? least / (all / n) : 0;
}

ft_status ft_ablate_fair(const void *how, uint64_t seed, ft_error *err, double *figure)
{
    crowd c;
    (void)err;
    set_up(&c, how, seed);
    *figure = 0;
    for (int i = 0; i < WINDOWS; i++) {
        for (uint32_t k = 0; k < TENANTS; k++)
            c.served[k] = 0;
        while (c.now_us < (int64_t)(i + 1) * WINDOW_US)
            step(&c);
        *figure += i > 0 ? least(&c, (int64_t)i * WINDOW_US) / (WINDOWS - 1) : 0;
    }
    return FT_OK;
}
