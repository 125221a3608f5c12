// SPDX-License-Identifier: Apache-2.0
// A memory budget: what the process has and will have, as parts of a plan. Sizes that nobody can
// know before loading are estimates from above, and say so. Owned by main's thread.
#include "cmd/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/cpu.h"
#include "base/progress.h"
#include "cmd/cmd.h"
#include "engine/products.h"

/* Of the largest tree under a budget, unless fewer are asked for: each node that wants logits takes
 * a row of the vocabulary. */
#define TREE 64
/* Tokens of a pool beyond one text: two trees and partly filled blocks. */
#define ROOM_TOK (3 * TREE)
/* Rows of a pass: the least takes a tree and a short prompt; the most is the default without a
 * budget. */
#define ROWS_LEAST 128
#define ROWS_MOST  512
/* libllama keeps each token in a list and in two maps, and each merge in another; measured 330
 * bytes a token with SmolLM2's vocabulary. */
#define VOCAB_BYTES_A_TOKEN 400
/* Code and data that are used later than now, stacks of threads, the text and its records. */
#define LATER_BYTES (24ull << 20)
/* A workspace of sampling, for each thread that draws. */
#define DRAW_BYTES_A_TOKEN 32
/* Pieces of the file that are packed while it is loaded (model_load.c). */
#define STAGING_BYTES (1ull << 20)

static const ft_flag rows[] = {
    {"--memory", NULL, FT_FLAG(ft_memory_flags, size), "SIZE",
     "memory for all of this process, such as 900M or 2G (M, G: 2^20, 2^30 bytes): the target's "
     "weights that do not fit are read from the file in every pass"},
    {"--no-overlap", NULL, FT_FLAG(ft_memory_flags, no_overlap), NULL,
     "--memory: read a layer only when it is needed, as a program that loads, then computes"},
};
const ft_flag_group ft_flags_memory = FT_FLAG_ROWS(rows);

/* ---- sizes ---- */

static ft_status parse(const char *text, ft_error *err, uint64_t *bytes)
{
    char *end;
    errno = 0;
    const double n = strtod(text, &end);
    const double unit = *end == 'K'   ? 1024.0
                        : *end == 'M' ? 1048576.0
                        : *end == 'G' ? 1073741824.0
                                      : 1.0;
    if (end == text || errno || !(n * unit >= 1 && n * unit < 1e15) ||
        strcmp(unit > 1 ? end + 1 : end, "") != 0)
        return ft_error_set(err, FT_INVALID, "--memory %s: pass a size such as 900M or 2G", text);
    *bytes = (uint64_t)(n * unit);
    return FT_OK;
}

/* Resident memory of this process now; 0: the system does not say. */
static uint64_t resident_now(void)
{
    unsigned long long size, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f)
        return 0;
    if (fscanf(f, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    fclose(f);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t pass_bytes(const void *ctx, uint32_t n_rows, uint32_t out, bool parts)
{
    const ft_cmd_memory *m = ctx;
    ft_engine_size size = m->size;
    size.rows = n_rows;
    size.out = out;
    size.by_layer = true;
    /* The head's parts are no larger than a layer. */
    size.part_vocab = parts ? m->hp.n_vocab : 0;
    return ft_engine_pass_bytes(&size);
}

static void add(ft_cmd_memory *m, const char *name, uint64_t bytes, const char *lower)
{
    m->fixed[m->budget.ask.n_fixed++] = (ft_memory_part){name, bytes, lower};
}

static ft_status add_draft(ft_cmd_memory *m, const ft_memory_draft *d, int n_threads, ft_error *err)
{
    ft_model_info info;
    const ft_model_opts opts = {.path = d->path, .choose = ft_products_choose};
    const ft_status status = ft_model_inspect(&opts, err, &info);
    if (status != FT_OK)
        return status;
    const ft_engine_size size = {.hp = &info.hp,
                                 .kv_type = d->kv_type,
                                 .kv_tok = d->kv_tok,
                                 .rows = d->rows,
                                 .out = d->out,
                                 .n_threads = (uint32_t)n_threads};
    add(m, "draft model", info.memory.bytes, "a smaller -md");
    add(m, "draft kv", ft_engine_kv_bytes(&size), "-c");
    add(m, "draft activations", ft_engine_pass_bytes(&size), NULL);
    return FT_OK;
}

/* ---- the plan ---- */

/* The pool is for one text of full length by default: it takes from the weights. */
static void size_pool(ft_cmd_memory *m)
{
    ft_verifier_opts *o = m->opts;
    if (o->max_context == 0 || o->max_context > m->hp.n_ctx_train)
        o->max_context = m->hp.n_ctx_train;
    if (o->kv_tok == 0)
        o->kv_tok = o->max_context + ROOM_TOK;
    if (m->need.draft.kv_tok == 0)
        m->need.draft.kv_tok = o->kv_tok;
}

static void size_target(ft_cmd_memory *m)
{
    const uint32_t n_threads = (uint32_t)ft_cpu_threads(m->opts->n_threads);
    m->size = (ft_engine_size){.hp = &m->hp,
                               .kv_type = m->opts->kv_type,
                               .kv_tok = m->opts->kv_tok,
                               .n_threads = n_threads};
    add(m, "program", resident_now() + LATER_BYTES, NULL);
    add(m, "vocabulary", (uint64_t)m->hp.n_vocab * VOCAB_BYTES_A_TOKEN, NULL);
    add(m, "sampling", (uint64_t)m->hp.n_vocab * DRAW_BYTES_A_TOKEN * (n_threads + 2), "-t");
    add(m, "kv", ft_engine_kv_bytes(&m->size), "-c or --cache-type q8_0");
    add(m, "loading", STAGING_BYTES, NULL);
    if (m->need.network_bytes)
        add(m, "network", m->need.network_bytes, "-np");
}

/* Makes the plan, once the file has been checked. */
static ft_status choose(void *ctx, const ft_model *model, ft_error *err, ft_stream_choice *out)
{
    ft_cmd_memory *m = ctx;
    ft_memory_ask *ask = &m->budget.ask;
    ft_status status = FT_OK;
    m->hp = *ft_model_hparams(model);
    size_pool(m);
    size_target(m);
    if (m->need.draft.path)
        status = add_draft(m, &m->need.draft, ft_cpu_threads(m->opts->n_threads), err);
    ask->fixed = m->fixed;
    ask->pass_bytes = pass_bytes;
    ask->ctx = m;
    ask->rows_least = ROWS_LEAST;
    ask->rows_most = ROWS_MOST;
    ask->out_most = m->need.trees * (m->opts->max_tree + 1);
    return status == FT_OK ? ft_memory_choose(&m->budget, model, err, out) : status;
}

/* The memory cgroup of this process must allow the budget. */
static ft_status check_cgroup(uint64_t budget, ft_error *err)
{
    char path[200];
    const uint64_t limit = ft_cgroup_memory_limit(path, sizeof path);
    if (limit >= budget)
        return FT_OK;
    return ft_error_set(err, FT_PRECONDITION,
                        "--memory: this process may have %llu bytes (%s), which is less than the "
                        "budget of %llu",
                        (unsigned long long)limit, path, (unsigned long long)budget);
}

static ft_status make_plan(ft_cmd_memory *m, ft_error *err)
{
    ft_products products;
    ft_model_info info;
    ft_model_opts opts = {.path = m->need.path, .stream = choose, .stream_ctx = m};
    ft_status status = ft_products_parse(m->need.device->kernels, err, &products);
    if (status != FT_OK)
        return status;
    ft_products_apply(products, &opts);
    return ft_model_inspect(&opts, err, &info);
}

ft_status ft_cmd_memory_plan(ft_cmd_memory *m, const ft_memory_flags *flags,
                             const ft_memory_need *need, ft_verifier_opts *opts, ft_error *err)
{
    ft_memory_ask *ask = &m->budget.ask;
    if (!flags->size)
        return flags->no_overlap ? ft_error_set(err, FT_INVALID, "--no-overlap goes with --memory")
                                 : FT_OK;
    if (need->device->n_gpu_layers > 0)
        return ft_error_set(err, FT_INVALID,
                            "--memory is for layers on the CPU: it does not go with -ngl");
    ft_status status = parse(flags->size, err, &ask->budget_bytes);
    if (status == FT_OK)
        status = check_cgroup(ask->budget_bytes, err);
    if (status != FT_OK)
        return status;
    m->on = true;
    m->flags = flags;
    m->need = *need;
    m->opts = opts;
    ft_turn_init(&m->turn);
    if (opts->max_tree == 0 || opts->max_tree > TREE)
        opts->max_tree = TREE;
    status = make_plan(m, err);
    opts->max_batch_tok = m->budget.plan.rows;
    opts->max_logits = m->budget.plan.out;
    return status;
}

ft_status ft_cmd_memory_load(ft_cmd_memory *m, ft_error *err, ft_model **out, ft_vocab **vocab)
{
    ft_device_opts cpu = *m->need.device;
    const ft_model_opts model = {.path = m->need.path,
                                 .progress = ft_progress_terminal("loading the target"),
                                 .vocab = vocab,
                                 .stream = ft_memory_choose,
                                 .stream_ctx = &m->budget};
    cpu.n_gpu_layers = 0;
    ft_status status = ft_model_load_on(&cpu, &model, err, out);
    if (status != FT_OK || m->budget.plan.all_resident)
        return status;
    const ft_streamed_opts streamed = {*out, &m->budget.plan, m->flags->no_overlap};
    status = ft_streamed_create(&streamed, err, &m->streamed);
    m->opts->streamed = m->streamed;
    m->opts->turn = &m->turn;
    return status;
}

static json_t *plan_json(const ft_cmd_memory *m)
{
    const ft_memory_plan *p = &m->budget.plan;
    json_t *parts = json_array();
    for (size_t i = 0; i < p->n_parts; i++)
        json_array_append_new(parts, json_pack("{s:s, s:I}", "name", p->parts[i].name, "bytes",
                                               (json_int_t)p->parts[i].bytes));
    return json_pack("{s:I, s:I, s:I, s:o, s:i, s:i, s:b, s:b, s:i, s:I, s:i}", "budget_bytes",
                     (json_int_t)m->budget.ask.budget_bytes, "bytes", (json_int_t)p->bytes,
                     "least_bytes", (json_int_t)p->least_bytes, "parts", parts, "layers",
                     (int)p->n_layer, "resident_layers", (int)p->n_resident, "head_resident",
                     p->head_resident, "embedding_resident", p->embedding_resident, "ring_slots",
                     (int)p->n_slots, "slot_bytes", (json_int_t)p->slot_bytes, "batch_rows",
                     (int)p->rows);
}

static void print_part(const char *name, uint64_t bytes)
{
    printf("%-20s %10.1f MB\n", name, (double)bytes / 1e6);
}

int ft_cmd_memory_print(const ft_cmd_memory *m, bool json)
{
    const ft_memory_plan *p = &m->budget.plan;
    if (json)
        return ft_cmd_print_json(plan_json(m));
    for (size_t i = 0; i < p->n_parts; i++)
        print_part(p->parts[i].name, p->parts[i].bytes);
    print_part("in all", p->bytes);
    print_part("budget", m->budget.ask.budget_bytes);
    print_part("least budget", p->least_bytes);
    printf("%u of %u layers are resident; a pass has %u rows at most\n", p->n_resident, p->n_layer,
           p->rows);
    return 0;
}

void ft_cmd_memory_close(ft_cmd_memory *m)
{
    if (!m->on)
        return;
    ft_streamed_destroy(m->streamed);
    ft_turn_deinit(&m->turn);
    *m = (ft_cmd_memory){0};
}
