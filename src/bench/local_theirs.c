// SPDX-License-Identifier: Apache-2.0
// llama.cpp in a child process: the module lies beside the program. One thread owns it all.
#include "bench/local_theirs.h"

#include <dlfcn.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "theirs/speculation.h"

#define PATH_SZ 4096

static int fail(const char *why)
{
    dprintf(STDERR_FILENO, "%s\n", why);
    return 1;
}

/* NULL: this build has none. */
static const ft_theirs_calls *load(void)
{
    char path[PATH_SZ];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof FT_THEIRS_MODULE);
    if (n <= 0)
        return NULL;
    path[n] = 0;
    strcpy(strrchr(path, '/') + 1, FT_THEIRS_MODULE);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return module ? dlsym(module, FT_THEIRS_SYMBOL) : NULL;
}

static json_t *answer_json(const ft_theirs_answer *a)
{
    ft_buf text = {0};
    char number[16];
    for (int32_t i = 0; i < a->n; i++) {
        const int len = snprintf(number, sizeof number, "%d ", a->tokens[i]);
        if (ft_buf_append(&text, number, (size_t)len) != FT_OK)
            break;
    }
    const double decode_s = (double)(a->last_us - a->first_us) / 1e6;
    const int32_t decoded = a->n - a->first_n;
    const double age_us = (double)(ft_process_age_us() - (ft_monotonic_us() - a->first_us));
    json_t *o =
        json_pack("{s:s%, s:i, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "text", ft_buf_str(&text),
                  text.len, "tokens", a->n, "rounds", (json_int_t)a->rounds, "drafted",
                  (json_int_t)a->drafted, "accepted", (json_int_t)a->accepted, "tokens_per_round",
                  a->rounds ? (double)a->round_tokens / (double)a->rounds : 0.0, "tokens_per_s",
                  decoded > 0 && decode_s > 0 ? decoded / decode_s : 0.0, "ttft_ms",
                  (double)(a->first_us - a->begin_us) / 1e3, "start_ms", age_us / 1e3);
    ft_buf_deinit(&text);
    return o;
}

static int answer_all(const ft_bench_local_theirs_opts *o, const ft_theirs_calls *calls, void *side,
                      FILE *out)
{
    char why[FT_THEIRS_WHY] = "";
    json_t *answers = json_array();
    int32_t *tokens = calloc(o->n, sizeof *tokens);
    int failed = tokens ? 0 : fail("out of memory");
    for (size_t i = 0; i < o->n_prompts && !failed; i++) {
        ft_theirs_answer a = {.tokens = tokens, .n_max = (int32_t)o->n};
        const ft_tokens *prompt = o->prompts[i];
        if (calls->answer(side, prompt->id, (int32_t)prompt->n, &a, why) != 0)
            failed = fail(why);
        else
            json_array_append_new(answers, answer_json(&a));
    }
    json_t *object = json_pack("{s:o}", "answers", answers);
    if (!failed)
        failed = json_dumpf(object, out, 0) != 0;
    json_decref(object);
    free(tokens);
    return failed;
}

int ft_bench_local_theirs(const ft_bench_local_theirs_opts *o, FILE *out)
{
    char why[FT_THEIRS_WHY] = "";
    void *side;
    const ft_theirs_opts opts = {.model = o->model,
                                 .draft = o->method->n_draft ? o->draft : NULL,
                                 .type = o->method->how,
                                 .n_draft = (int32_t)o->method->n_draft,
                                 .n_ctx = (int32_t)o->n_ctx,
                                 .n_threads = ft_cpu_threads(o->n_threads),
                                 .temperature = (float)o->temperature,
                                 .seed = o->seed};
    const ft_theirs_calls *calls = load();
    if (!calls)
        return fail("this build has no libllama-common, which llama.cpp's speculation is in");
    if (calls->open(&opts, why, &side) != 0)
        return fail(why);
    const int failed = answer_all(o, calls, side, out);
    calls->close(side);
    return failed;
}
