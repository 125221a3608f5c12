// SPDX-License-Identifier: Apache-2.0
// A text in a child process: the arguments of `run`, and what its JSON says. libllama runs in a
// child without exec. State: none but the child's.
#include "bench/memory_run.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/child.h"
#include "bench/memory_llama.h"

#define ARGS_MAX 48
#define WORDS_SZ 128

typedef struct arguments {
    const char *arg[ARGS_MAX + 1];
    size_t n;
    char number[6][24], words[WORDS_SZ];
    size_t n_numbers;
} arguments;

static void add(arguments *a, const char *flag, const char *value)
{
    if (flag)
        a->arg[a->n++] = flag;
    if (value)
        a->arg[a->n++] = value;
    a->arg[a->n] = NULL;
}

static void add_number(arguments *a, const char *flag, uint64_t value)
{
    char *text = a->number[a->n_numbers++];
    snprintf(text, sizeof *a->number, "%llu", (unsigned long long)value);
    add(a, flag, text);
}

/* A method's flags, split at blanks. */
static void add_words(arguments *a, const char *words)
{
    snprintf(a->words, sizeof a->words, "%s", words);
    for (char *state, *word = strtok_r(a->words, " ", &state); word;
         word = strtok_r(NULL, " ", &state))
        add(a, NULL, word);
}

static const char *ours(const ft_bench_memory_opts *o)
{
    return o->packed ? o->packed : o->model;
}

static void arguments_of(const ft_bench_memory_opts *o, const ft_bench_memory_job *job,
                         arguments *a)
{
    const bool alone = job->method && job->method->kind == FT_BENCH_MEMORY_DRAFT;
    *a = (arguments){0};
    add(a, "run", NULL);
    add(a, "-m", alone ? o->draft : ours(o));
    add(a, "-p", job->prompt);
    add(a, "--cache-type", ft_kv_type_name(o->kv));
    add_number(a, "-c", (uint64_t)o->n_ctx);
    add_number(a, "-n", (uint64_t)o->n);
    add_number(a, "-t", (uint64_t)o->n_threads);
    add_number(a, "--seed", (uint64_t)o->seed);
    snprintf(a->number[a->n_numbers], sizeof *a->number, "%g", job->sampled ? o->temp : 0);
    add(a, "--temp", a->number[a->n_numbers++]);
    add(a, "--json", NULL);
    add(a, "--no-memory", NULL);
    const char *flags = job->method ? job->method->flags[job->variant] : "--no-speculation";
    if (!strstr(flags, "--no-speculation"))
        add(a, "-md", o->draft);
    if (job->method && !alone)
        add_number(a, "--memory", job->budget_bytes);
    add_words(a, flags);
}

/* ---- what it said ---- */

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* decode: tokens, ms, cpu_ms, joules from the first piece of text to the last. */
static void set_figures(const json_t *decode, double bytes, double reading_s, double per_pass,
                        double figure[FT_BENCH_MEMORY_FIGURES])
{
    const double tokens = number(decode, "tokens");
    figure[FT_BENCH_MEMORY_MS] = number(decode, "ms") / tokens;
    figure[FT_BENCH_MEMORY_TOKENS_PER_PASS] = per_pass;
    figure[FT_BENCH_MEMORY_BYTES] = bytes / tokens;
    figure[FT_BENCH_MEMORY_MB_S] = reading_s > 0 ? bytes / reading_s / 1e6 : 0;
    figure[FT_BENCH_MEMORY_JOULES] = number(decode, "joules") / tokens;
    figure[FT_BENCH_MEMORY_CPU_S] = number(decode, "cpu_ms") / 1e3 / tokens;
}

static ft_status read_ours(const json_t *o, ft_error *err, ft_bench_memory_text *out)
{
    const json_t *decode = json_object_get(o, "decode");
    const double passes = number(o, "rounds") + number(o, "run_tokens");
    const char *text = json_string_value(json_object_get(o, "text"));
    if (!(number(decode, "tokens") > 0) || !(passes > 0) || !text)
        return ft_error_set(err, FT_CORRUPT, "the text is too short: raise -n");
    set_figures(decode, number(decode, "streamed_bytes"), number(decode, "streamed_us") / 1e6,
                number(o, "tokens") / passes, out->figure);
    const double draft_ms = number(o, "draft_ms"), wait_ms = number(o, "wait_ms");
    out->figure[FT_BENCH_MEMORY_DRAFT_SHARE] = draft_ms > 0 ? draft_ms / (draft_ms + wait_ms) : 0;
    out->text = strdup(text);
    return out->text ? FT_OK : ft_error_set(err, FT_NOMEM, "out of memory");
}

static ft_status read_llama(const json_t *o, ft_error *err, ft_bench_memory_text *out)
{
    const double tokens = number(o, "tokens"), passes = number(o, "passes");
    if (!(tokens > 0) || !(passes > 0))
        return ft_error_set(err, FT_CORRUPT, "libllama's text is too short: raise -n");
    set_figures(o, number(o, "read_bytes"), number(o, "ms") / 1e3, tokens / passes, out->figure);
    return FT_OK;
}

/* ---- the child ---- */

/* Nobody finds warm what another one has read. */
static void drop_cache(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static int be_llama(void *ctx, FILE *out)
{
    return ft_bench_memory_llama(ctx, out);
}

ft_status ft_bench_memory_run(const ft_bench_memory_opts *o, const ft_bench_memory_job *job,
                              ft_error *err, ft_bench_memory_text *out)
{
    arguments a;
    ft_bench_child child;
    const bool llama = job->method && job->method->kind == FT_BENCH_MEMORY_LLAMA;
    ft_bench_memory_llama_opts theirs = {.model = o->model,
                                         .draft = o->draft,
                                         .prompt = job->prompt,
                                         .n = (uint32_t)o->n,
                                         .n_ctx = (uint32_t)o->n_ctx,
                                         .n_threads = (int)o->n_threads,
                                         .kv = o->kv,
                                         .chain = llama ? job->method->chain[job->variant] : 0};
    ft_bench_child_opts opts = {.limit_bytes = job->method ? job->budget_bytes : 0,
                                .stop = o->stop};
    *out = (ft_bench_memory_text){0};
    drop_cache(o->model);
    drop_cache(o->draft);
    drop_cache(ours(o));
    arguments_of(o, job, &a);
    opts.args = llama ? NULL : a.arg;
    opts.call = be_llama;
    opts.ctx = &theirs;
    ft_status status = ft_bench_child_run(&opts, err, &child);
    if (status == FT_FORBIDDEN && !llama) { /* ours holds its budget without one, too */
        opts.limit_bytes = 0;
        status = ft_bench_child_run(&opts, err, &child);
    }
    if (status == FT_OK)
        status = llama ? read_llama(child.json, err, out) : read_ours(child.json, err, out);
    out->figure[FT_BENCH_MEMORY_PEAK] = (double)child.peak_bytes;
    json_decref(child.json);
    return status;
}

ft_status ft_bench_memory_plan(const ft_bench_memory_opts *o, uint64_t budget_bytes, ft_error *err,
                               json_t **plan)
{
    static const ft_bench_memory_method any = {.flags = {"--dry-run"}};
    const ft_bench_memory_job job = {.method = &any, .budget_bytes = budget_bytes, .prompt = ""};
    arguments a;
    ft_bench_child child;
    arguments_of(o, &job, &a);
    const ft_status status =
        ft_bench_child_run(&(ft_bench_child_opts){.args = a.arg, .stop = o->stop}, err, &child);
    *plan = child.json;
    return status;
}

double ft_bench_memory_median(const ft_bench_memory_cell *cell, ft_bench_memory_figure figure)
{
    double copy[FT_BENCH_MEMORY_SAMPLES];
    memcpy(copy, cell->sample[figure], sizeof copy);
    return cell->n ? ft_bench_median(copy, cell->n) : 0;
}
