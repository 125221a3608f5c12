// SPDX-License-Identifier: Apache-2.0
// Runs one simulation of a fleet, tick by tick. What users ask for is kept in one list for each
// tick and thread. The lists of a tick are sorted before its texts are assigned, so the number of
// threads changes nothing. All state belongs to the call.
#include "sim/fleet.h"

#include <stdlib.h>

#include "base/sort.h"
#include "sim/fleet_internal.h"
#include "sim/wisp_search.h"

#define TASKS_MAX 64 /* of a tick: fewer and larger ones cost less to hand out */

#define X(id, text) [FT_FLEET_PART_##id] = text,
const char *const ft_fleet_part_name[FT_FLEET_PARTS] = {FT_FLEET_PART_LIST(X)};
#undef X

/* ---- a tick: servers run by themselves ---- */

static void run_server(ft_fleet *f, ft_fleet_worker *w, uint32_t i)
{
    const int64_t end_us = (int64_t)(f->tick + 1) * FT_FLEET_TICK_US;
    sim *s = &f->servers[i];
    ft_sim_event e;
    s->out = &w->part[f->part].r;
    while (ft_sim_next(s, end_us, &e)) {
        ft_fleet_take(f, w, s, &e);
        ft_sim_server_run(s);
    }
    f->load[i] = (uint32_t)s->n_members;
}

static size_t tasks(const ft_fleet *f)
{
    return f->n_servers < TASKS_MAX ? f->n_servers : TASKS_MAX;
}

static void run_some(void *ctx, size_t task, int worker)
{
    ft_fleet *f = ctx;
    for (size_t i = task; i < f->n_servers; i += tasks(f))
        run_server(f, &f->of_worker[worker], (uint32_t)i);
}

/* ---- between ticks: one thread ---- */

static bool in_order(const void *ctx, const void *a, const void *b)
{
    const ft_fleet_due *x = a, *y = b;
    (void)ctx;
    return x->at_us != y->at_us ? x->at_us < y->at_us : x->who < y->who;
}

static size_t gather(ft_fleet *f)
{
    size_t n = 0;
    for (int i = 0; i < f->n_workers; i++)
        for (uint32_t at = f->of_worker[i].asks[f->tick]; at; at = f->chats[at - 1].next)
            f->due[n++] = (ft_fleet_due){f->chats[at - 1].ask_us, at - 1};
    ft_sort(f->due, n, sizeof *f->due, in_order, NULL);
    return n;
}

static void forget(ft_fleet *f, uint32_t who, uint32_t copy)
{
    const uint32_t server = f->chats[who].server[copy];
    (void)ft_sim_prefixes_take(f->servers[server].prefixes, ft_fleet_kept(who, copy));
}

/* The copy of the chat's KV at that server, or the place of a copy that may be forgotten for it:
 * one that is evicted, or else the older one. */
static uint32_t copy_at(ft_fleet *f, uint32_t who, uint32_t server)
{
    const ft_fleet_chat *c = &f->chats[who];
    uint32_t place = (c->newest + 1) % FT_FLEET_COPIES;
    for (uint32_t i = 0; i < FT_FLEET_COPIES; i++)
        if (f->kept_of[ft_fleet_kept(who, i)].blocks == 0)
            place = i;
    for (uint32_t i = 0; i < FT_FLEET_COPIES; i++)
        if (f->kept_of[ft_fleet_kept(who, i)].blocks > 0 && c->server[i] == server)
            return i;
    forget(f, who, place);
    return place;
}

static ft_status assign(ft_fleet *f, uint32_t who, ft_error *err)
{
    ft_fleet_chat *c = &f->chats[who];
    const uint64_t key = ft_fleet_hash(ft_fleet_hash(who) + c->number);
    const uint32_t to = ft_fleet_choose(&f->proxy, f->opts->assign, key, f->load, &f->rng);
    sim *s = &f->servers[to];
    ft_status status = FT_OK;
    uint32_t copy;
    if (s->n_members == s->cap)
        status = ft_sim_server_reserve(s, s->cap + s->cap / 2 + 16, err);
    if (status != FT_OK)
        return status;
    for (uint32_t i = 0; i < FT_FLEET_COPIES && c->turn == 0 && !c->again; i++)
        forget(f, who, i); /* an ended chat's */
    copy = copy_at(f, who, to);
    c->server[copy] = to;
    f->devices[who].kept = ft_fleet_kept(who, copy);
    ft_sim_server_join(s, who);
    f->load[to]++;
    ft_sim_queue_put(&s->queue, c->ask_us, c->again ? EVENT_ASK : EVENT_BEGIN, who);
    return FT_OK;
}

static void start_server(ft_fleet *f, uint32_t i)
{
    sim *s = &f->servers[i];
    const ft_sim_config *config = &f->opts->config->server;
    f->kept[i].of = f->kept_of;
    *s = (sim){.opts = &f->times,
               .config = config,
               .k = config->k,
               .how = ft_sim_serving(config, FT_SIM_MODE_WISP),
               .out = &f->of_worker[0].part[f->part].r,
               .devices = f->devices,
               .prefixes = &f->kept[i]};
    ft_sim_server_init(s, &f->cost, 0, f->opts->seed << 32 | 0x80000000u | i);
}

/* The first server is lost. */
static void lose_server(ft_fleet *f, int64_t now_us)
{
    sim *s = &f->servers[0];
    f->part = FT_FLEET_PART_LOST;
    s->out = &f->of_worker[0].part[f->part].r;
    s->now_us = now_us;
    ft_fleet_servers_set(&f->proxy, f->proxy.alive + 1, f->proxy.n - 1);
    ft_fleet_chats_move(f, s, ft_sim_server_lose(s));
    f->load[0] = 0;
}

/* The last one of servers[] starts to serve. */
static void add_server(ft_fleet *f)
{
    f->part = FT_FLEET_PART_AFTER;
    f->proxy.alive[f->proxy.n] = f->n_servers - 1;
    ft_fleet_servers_set(&f->proxy, f->proxy.alive, f->proxy.n + 1);
}

static ft_status between(ft_fleet *f, ft_error *err)
{
    const int64_t now_us = (int64_t)f->tick * FT_FLEET_TICK_US;
    ft_status status = FT_OK;
    if (f->part == FT_FLEET_PART_RAMP && now_us >= f->times.from_us)
        f->part = FT_FLEET_PART_BEFORE;
    if (f->part == FT_FLEET_PART_BEFORE && now_us >= f->lost_us)
        lose_server(f, now_us);
    if (f->part == FT_FLEET_PART_LOST && now_us >= f->added_us)
        add_server(f);
    const size_t n = gather(f);
    for (size_t i = 0; i < n && status == FT_OK; i++)
        status = assign(f, f->due[i].who, err);
    return status;
}

/* ---- the run ---- */

static ft_status check(const ft_fleet_opts *o, ft_error *err)
{
    const ft_fleet_config *c = o->config;
    const double turns = 2 * c->k[FT_FLEET_TURNS] - 1;
    if (o->n_devices < 1 || o->n_devices > FT_FLEET_DEVICES_MAX)
        return ft_error_set(err, FT_INVALID, "simulate: 1 to %u devices", FT_FLEET_DEVICES_MAX);
    if (o->n_servers < 1 || o->n_servers > FT_FLEET_SERVERS_MAX)
        return ft_error_set(err, FT_INVALID, "simulate: 1 to %u servers", FT_FLEET_SERVERS_MAX);
    if (o->accident && o->n_servers < 2)
        return ft_error_set(err, FT_INVALID, "simulate: only one of at least 2 servers is lost");
    return ft_sim_check(&c->server,
                        c->k[FT_FLEET_FIRST_TOK] + turns * ft_sim_longest_tok(c->server.k), err);
}

static int64_t ticks_us(double s)
{
    return (int64_t)(s * 1e6) / FT_FLEET_TICK_US * FT_FLEET_TICK_US;
}

static void set_times(ft_fleet *f)
{
    const int64_t from_us = ticks_us(f->k[FT_FLEET_RAMP_S]);
    f->times = (ft_sim_opts){.config = &f->opts->config->server,
                             .mode = FT_SIM_MODE_WISP,
                             .from_us = from_us,
                             .until_us = from_us + ticks_us(f->k[FT_FLEET_MEASURE_S])};
    f->n_ticks = (uint32_t)(f->times.until_us / FT_FLEET_TICK_US);
    f->lost_us = f->added_us = INT64_MAX;
    if (f->opts->accident) {
        f->lost_us = from_us + ticks_us(f->k[FT_FLEET_LOST_S]);
        f->added_us = from_us + ticks_us(f->k[FT_FLEET_ADDED_S]);
    }
}

static ft_status allocate(ft_fleet *f, ft_error *err)
{
    const size_t n = f->opts->n_devices, n_servers = f->n_servers;
    ft_status status =
        ft_workers_create(f->opts->n_threads, FT_FLEET_THREADS_MAX, err, &f->workers);
    if (status != FT_OK)
        return status;
    f->n_workers = ft_workers_count(f->workers);
    f->devices = calloc(n, sizeof *f->devices);
    f->chats = calloc(n, sizeof *f->chats);
    f->kept_of = calloc(n * FT_FLEET_COPIES, sizeof *f->kept_of);
    f->due = calloc(n, sizeof *f->due);
    f->servers = calloc(n_servers, sizeof *f->servers);
    f->kept = calloc(n_servers, sizeof *f->kept);
    f->load = calloc(n_servers, sizeof *f->load);
    f->of_worker = calloc((size_t)f->n_workers, sizeof *f->of_worker);
    bool good = f->devices && f->chats && f->kept_of && f->due && f->servers && f->kept &&
                f->load && f->of_worker;
    for (int i = 0; i < f->n_workers && good; i++) {
        f->of_worker[i].asks = calloc(f->n_ticks, sizeof *f->of_worker[i].asks);
        good = f->of_worker[i].asks != NULL;
    }
    status = ft_fleet_servers_init(&f->proxy, n_servers, (size_t)f->k[FT_FLEET_RING_POINTS], err);
    return good ? status : ft_error_set(err, FT_NOMEM, "simulate: out of memory");
}

static void release(ft_fleet *f)
{
    for (uint32_t i = 0; i < f->n_servers && f->servers; i++)
        ft_sim_server_deinit(&f->servers[i]);
    for (int i = 0; i < f->n_workers && f->of_worker; i++)
        free(f->of_worker[i].asks);
    ft_fleet_servers_deinit(&f->proxy);
    ft_workers_destroy(f->workers);
    free(f->devices);
    free(f->chats);
    free(f->kept_of);
    free(f->due);
    free(f->servers);
    free(f->kept);
    free(f->load);
    free(f->of_worker);
}

static void set_up(ft_fleet *f)
{
    const ft_costs *costs = &f->opts->config->server.costs;
    ft_cost_init(&f->cost);
    ft_cost_prime(&f->cost, costs->us, costs->error);
    ft_rng_init(&f->rng, f->opts->seed << 32 | 0xffffffffu);
    for (uint32_t i = 0; i < f->n_servers; i++) {
        start_server(f, i);
        f->proxy.alive[i] = i;
    }
    ft_fleet_servers_set(&f->proxy, f->proxy.alive, f->opts->n_servers);
    for (uint32_t i = 0; i < f->opts->n_devices; i++)
        ft_fleet_chat_init(f, i);
}

static void report(ft_fleet *f, ft_fleet_result *out)
{
    sim *any = &f->servers[0];
    any->out = &f->of_worker[0].part[f->part].r;
    for (uint32_t i = 0; i < f->opts->n_devices; i++) {
        ft_sim_device_count_late(any, &f->devices[i]);
        out->unfinished += f->chats[i].asked;
    }
    for (int i = 0; i < f->n_workers; i++)
        for (int part = 0; part < FT_FLEET_PARTS; part++)
            ft_fleet_part_add(&out->part[part], &f->of_worker[i].part[part]);
}

ft_status ft_fleet_run(const ft_fleet_opts *opts, ft_error *err, ft_fleet_result *out)
{
    ft_fleet f = {.opts = opts,
                  .k = opts->config->k,
                  .n_servers = opts->n_servers + (opts->accident ? 1 : 0)};
    *out = (ft_fleet_result){0};
    ft_status status = check(opts, err);
    if (status != FT_OK)
        return status;
    set_times(&f);
    status = allocate(&f, err);
    if (status == FT_OK)
        set_up(&f);
    for (; f.tick < f.n_ticks && status == FT_OK; f.tick++) {
        status = between(&f, err);
        if (status == FT_OK)
            ft_workers_run(f.workers, tasks(&f), run_some, &f);
    }
    if (status == FT_OK)
        report(&f, out);
    release(&f);
    return status;
}

/* ---- results ---- */

void ft_fleet_part_add(ft_fleet_part *to, const ft_fleet_part *part)
{
    ft_sim_result_add(&to->r, &part->r);
    for (int i = 0; i < FT_SIM_CLASSES; i++)
        to->given_up[i] += part->given_up[i];
#define F(name) to->name += part->name;
    FT_FLEET_COUNTS(F)
#undef F
}

double ft_fleet_late_share(const ft_fleet_part *part)
{
    double worst = 0;
    for (int i = 0; i < FT_SIM_CLASSES; i++) {
        const uint64_t all = part->r.texts[i] + part->given_up[i];
        const uint64_t late = part->r.slow[i] + part->given_up[i];
        if (all > 0 && (double)late / (double)all > worst)
            worst = (double)late / (double)all;
    }
    return worst;
}

double ft_fleet_found_share(const ft_fleet_part *part)
{
    return part->before_tok ? (double)part->found_tok / (double)part->before_tok : 0;
}
