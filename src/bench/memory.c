// SPDX-License-Identifier: Apache-2.0
// The measurement of bench memory. First the resident target writes each prompt's text, greedily
// and at a temperature. Then, in each round, every method writes the greedy one under every budget,
// one behind the other; the first time also the other one. One thread, which owns all state.
#include "bench/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/memory_report.h"
#include "bench/prompts.h"
#include "model/stream.h"

#define PAGE_BYTES 4096 /* a cgroup's limit is whole pages */

/* ---- budgets ---- */

static double unit_of(const char *end, size_t n)
{
    if (n == 0)
        return 1;
    return n > 1         ? 0
           : *end == 'K' ? 1024.0
           : *end == 'M' ? 1048576.0
           : *end == 'G' ? 1073741824.0
                         : 0;
}

static ft_status parse_budgets(ft_bench_memory_state *b, ft_error *err)
{
    for (const char *at = b->o->budgets;; at++) {
        const size_t n = strcspn(at, ",");
        ft_bench_memory_budget *out = &b->budget[b->n_budgets];
        char *end = NULL;
        errno = 0;
        const double value = strtod(at, &end);
        const size_t rest = n - (size_t)(end - at);
        const bool share = rest == 1 && *end == '%';
        const double bytes = end > at + n ? 0
                             : share      ? value / 100 * (double)b->weights
                                          : value * unit_of(end, rest);
        if (errno || n >= sizeof out->name || !(bytes >= PAGE_BYTES && bytes < 1e15) ||
            b->n_budgets == FT_BENCH_MEMORY_BUDGETS)
            return ft_error_set(err, FT_INVALID,
                                "--budget: '%s' is no list of at most %d shares of the weights or "
                                "sizes, as in 25%%,600M",
                                b->o->budgets, FT_BENCH_MEMORY_BUDGETS);
        memcpy(out->name, at, n);
        out->name[n] = 0;
        out->bytes = (uint64_t)bytes / PAGE_BYTES * PAGE_BYTES;
        b->n_budgets++;
        at += n;
        if (!*at)
            return FT_OK;
    }
}

/* ---- what the methods are compared with ---- */

/* A disk that others use, too, is not always as fast: it is measured before each text. */
#define DISK_BYTES ((uint64_t)1 << 30)

static ft_status measure_disk(ft_bench_memory_state *b, ft_error *err)
{
    const char *path = b->o->packed ? b->o->packed : b->o->model;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ft_error_set(err, FT_IO, "%s: %s", path, strerror(errno));
    double bytes_per_s;
    const ft_status status =
        ft_weight_stream_measure(fd, path, DISK_BYTES, false, err, &bytes_per_s);
    close(fd);
    if (status == FT_OK)
        b->disk_mb_s[b->n_disk++] = bytes_per_s / 1e6;
    return status;
}

static ft_status write_references(ft_bench_memory_state *b, ft_error *err)
{
    ft_status status = FT_OK;
    for (size_t i = 0; i < 2 * b->prompts.n && status == FT_OK; i++) {
        const ft_bench_memory_job job = {.prompt = b->prompts.items[i / 2].text, .sampled = i % 2};
        ft_bench_memory_text t;
        status = ft_bench_memory_run(b->o, &job, err, &t);
        b->reference[i] = t.text;
        const double ms = t.figure[FT_BENCH_MEMORY_MS];
        if (status == FT_OK && (b->resident_ms == 0 || ms < b->resident_ms))
            b->resident_ms = ms;
    }
    return status;
}

/* ---- one cell ---- */

static void keep(ft_bench_memory_cell *c, const ft_bench_memory_text *t)
{
    for (size_t f = 0; f < FT_BENCH_MEMORY_FIGURES; f++)
        c->sample[f][c->n] = t->figure[f];
    c->n++;
}

/* Writes a text, and compares it. A method that fails is not run again: `why` says what it said.
 * FT_CANCELLED only. */
static ft_status write_text(ft_bench_memory_state *b, ft_bench_memory_cell *c,
                            const ft_bench_memory_job *job, size_t reference,
                            ft_bench_memory_text *t)
{
    ft_error err = {0};
    const ft_status status = ft_bench_memory_run(b->o, job, &err, t);
    if (status == FT_CANCELLED)
        return status;
    if (status != FT_OK)
        snprintf(c->why, sizeof c->why, "%s", err.message);
    else if (t->text && job->method->kind == FT_BENCH_MEMORY_OURS)
        c->differs |= strcmp(t->text, b->reference[reference]) != 0;
    free(t->text);
    t->text = NULL;
    return FT_OK;
}

/* The first time: each variant, of which the fastest goes on; and the text that is drawn. */
static ft_status first_time(ft_bench_memory_state *b, ft_bench_memory_cell *c,
                            ft_bench_memory_job *job, size_t reference)
{
    ft_bench_memory_text t, best = {0};
    ft_status status = FT_OK;
    for (uint32_t v = 0; v < job->method->n_variants && status == FT_OK && !c->why[0]; v++) {
        job->variant = v;
        status = write_text(b, c, job, reference, &t);
        if (v == 0 || t.figure[FT_BENCH_MEMORY_MS] < best.figure[FT_BENCH_MEMORY_MS]) {
            best = t;
            c->variant = v;
        }
    }
    if (status == FT_OK && !c->why[0])
        keep(c, &best);
    if (job->method->kind != FT_BENCH_MEMORY_OURS || status != FT_OK || c->why[0])
        return status;
    job->variant = c->variant;
    job->sampled = true;
    return write_text(b, c, job, reference + 1, &t);
}

static ft_status measure(ft_bench_memory_state *b, size_t budget, size_t m, size_t prompt,
                         ft_error *err)
{
    ft_bench_memory_cell *c = ft_bench_memory_cell_of(b, budget, m);
    ft_bench_memory_job job = {.method = &ft_bench_memory_methods[m],
                               .variant = c->variant,
                               .budget_bytes = b->budget[budget].bytes,
                               .prompt = b->prompts.items[prompt].text};
    ft_bench_memory_text t;
    if (c->why[0])
        return FT_OK;
    ft_status status = measure_disk(b, err);
    if (status != FT_OK)
        return status;
    if (c->n == 0)
        return first_time(b, c, &job, 2 * prompt);
    status = write_text(b, c, &job, 2 * prompt, &t);
    if (status == FT_OK && !c->why[0])
        keep(c, &t);
    return status;
}

static ft_status measure_all(ft_bench_memory_state *b, ft_error *err)
{
    ft_status status = FT_OK;
    const size_t n_texts = (size_t)b->o->rounds * b->prompts.n;
    const size_t n = n_texts * b->n_budgets * ft_bench_n_memory_methods;
    size_t done = 0;
    for (size_t text = 0; text < n_texts; text++)
        for (size_t budget = 0; budget < b->n_budgets; budget++)
            for (size_t m = 0; m < ft_bench_n_memory_methods; m++) {
                ft_progress_report(&b->o->progress, done++, n);
                if (b->o->method[m] && status == FT_OK)
                    status = measure(b, budget, m, text % b->prompts.n, err);
            }
    ft_progress_report(&b->o->progress, n, n);
    return status == FT_CANCELLED ? ft_error_set(err, FT_CANCELLED, "stopped") : status;
}

/* ---- the whole ---- */

static ft_status load_prompts(ft_bench_memory_state *b, ft_error *err)
{
    const ft_bench_memory_opts *o = b->o;
    if (o->prompts)
        return ft_bench_prompts_load(o->prompts, (size_t)o->limit, err, &b->prompts);
    b->prompts.items = calloc(1, sizeof *b->prompts.items);
    if (!b->prompts.items)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    b->prompts.n = 1;
    b->prompts.items[0].text = strdup(o->prompt);
    return b->prompts.items[0].text ? FT_OK : ft_error_set(err, FT_NOMEM, "out of memory");
}

static ft_status prepare(ft_bench_memory_state *b, ft_error *err)
{
    ft_model_info info;
    const ft_model_opts target = {.path = b->o->model};
    ft_status status = ft_model_inspect(&target, err, &info);
    if (status != FT_OK)
        return status;
    for (size_t i = 0; i < GGML_TYPE_COUNT; i++)
        b->weights += info.types[i].bytes;
    status = parse_budgets(b, err);
    if (status == FT_OK)
        status = load_prompts(b, err);
    if (status == FT_OK && b->prompts.n * (size_t)b->o->rounds > FT_BENCH_MEMORY_SAMPLES)
        status = ft_error_set(err, FT_INVALID,
                              "bench memory: %zu prompts in %d rounds: at most %d "
                              "texts a row",
                              b->prompts.n, (int)b->o->rounds, FT_BENCH_MEMORY_SAMPLES);
    if (status != FT_OK)
        return status;
    b->reference = calloc(2 * b->prompts.n, sizeof *b->reference);
    b->cells = calloc(b->n_budgets * ft_bench_n_memory_methods, sizeof *b->cells);
    b->disk_mb_s =
        calloc((size_t)b->o->rounds * b->prompts.n * b->n_budgets * ft_bench_n_memory_methods,
               sizeof *b->disk_mb_s);
    return b->reference && b->cells && b->disk_mb_s ? FT_OK
                                                    : ft_error_set(err, FT_NOMEM, "out of memory");
}

ft_status ft_bench_memory(const ft_bench_memory_opts *opts, ft_error *err, json_t **report)
{
    ft_bench_memory_state b = {.o = opts};
    *report = NULL;
    ft_status status = prepare(&b, err);
    if (status == FT_OK)
        status = write_references(&b, err);
    for (size_t i = 0; i < b.n_budgets && status == FT_OK; i++) {
        ft_error refused; /* too small: the methods' rows say so */
        if (ft_bench_memory_plan(opts, b.budget[i].bytes, &refused, &b.plan[i]) == FT_CANCELLED)
            status = ft_error_set(err, FT_CANCELLED, "stopped");
    }
    if (status == FT_OK)
        status = measure_all(&b, err);
    if (status == FT_OK) {
        b.disk_median_mb_s = ft_bench_median(b.disk_mb_s, b.n_disk); /* sorts them */
        *report = ft_bench_memory_report(&b);
    }
    for (size_t i = 0; i < b.n_budgets; i++)
        json_decref(b.plan[i]);
    for (size_t i = 0; b.reference && i < 2 * b.prompts.n; i++)
        free(b.reference[i]);
    free(b.reference);
    free(b.cells);
    free(b.disk_mb_s);
    ft_bench_prompts_deinit(&b.prompts);
    return status;
}
