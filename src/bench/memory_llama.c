// SPDX-License-Identifier: Apache-2.0
// Greedy decoding by libllama with mapped weights. With a draft model: it drafts a chain, and the
// target computes the last token and the chain in one batch. What agrees is kept, and the target's
// own token behind it. One thread owns it all, in a process of its own.
#include "bench/memory_llama.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/energy.h"
#include "bench/libllama.h"
#include "template/template.h"

/* Rows of a batch: of a prompt, and of a chain and the token before it. */
#define BATCH     64
#define CHAIN_MAX (BATCH - 1)
/* The kernel counts what is read in blocks of so many bytes. */
#define BLOCK_BYTES 512

typedef struct mark {
    double s, cpu_s;
    int64_t read_bytes;
    ft_energy energy;
} mark;

typedef struct side {
    const ft_bench_memory_llama_opts *o;
    ft_bench_llama target, draft;
    const struct llama_vocab *vocab;
    int32_t drafted; /* tokens of the text in the draft's cache */
    int32_t *text;   /* [n_text] prompt and answer */
    int32_t n_text;
    int64_t passes, tokens;
    bool ended;
} side;

static mark now(void)
{
    struct rusage u = {0};
    getrusage(RUSAGE_SELF, &u);
    return (mark){ft_bench_now_s(), ft_bench_cpu_s(), (int64_t)u.ru_inblock * BLOCK_BYTES,
                  ft_energy_now(FT_ENERGY_ROOT)};
}

static ft_status open_one(const ft_bench_memory_llama_opts *o, const char *path, ft_error *err,
                          ft_bench_llama *out)
{
    const ft_bench_llama_opts opts = {.path = path,
                                      .n_ctx = o->n_ctx + BATCH,
                                      .n_streams = 1,
                                      .max_batch_tok = BATCH,
                                      .n_threads = o->n_threads,
                                      .flash = true,
                                      .bf16 = o->kv == FT_KV_BF16,
                                      .q8 = o->kv == FT_KV_Q8_0,
                                      .mapped = true};
    return ft_bench_llama_open(&opts, err, out);
}

static int32_t best(ft_bench_llama *l, int32_t row)
{
    return ft_bench_argmax(llama_get_logits_ith(l->ctx, row), (uint32_t)l->n_vocab);
}

/* Adds a token to the text, unless it ends it. */
static void take(side *s, int32_t token)
{
    s->ended |= llama_vocab_is_eog(s->vocab, token) || s->tokens >= s->o->n;
    if (s->ended)
        return;
    s->text[s->n_text++] = token;
    s->tokens++;
}

/* The draft's chain behind the text. */
static ft_status draft(side *s, uint32_t n, int32_t *chain, ft_error *err)
{
    ft_status status = ft_bench_llama_extend(&s->draft, s->text + s->drafted,
                                             (size_t)(s->n_text - s->drafted), s->drafted, err);
    s->drafted = s->n_text;
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        chain[i] = best(&s->draft, -1);
        if (i + 1 < n)
            status = ft_bench_llama_extend(&s->draft, &chain[i], 1, s->n_text + (int32_t)i, err);
    }
    ft_bench_llama_pause(&s->draft); /* its threads would poll while the target computes */
    return status;
}

/* One pass of the target over the last token and a chain. */
static ft_status verify(side *s, const int32_t *chain, uint32_t n, ft_error *err)
{
    const int32_t at = s->n_text - 1;
    ft_bench_llama_clear(&s->target);
    ft_bench_llama_add(&s->target, s->text[at], at, 0, true);
    for (uint32_t i = 0; i < n; i++)
        ft_bench_llama_add(&s->target, chain[i], at + 1 + (int32_t)i, 0, true);
    const ft_status status = ft_bench_llama_run(&s->target, err);
    s->passes++;
    if (n)
        ft_bench_llama_pause(&s->target);
    for (uint32_t i = 0; status == FT_OK && !s->ended; i++) {
        const int32_t token = best(&s->target, (int32_t)i);
        take(s, token);
        if (i == n || token != chain[i])
            break;
    }
    llama_memory_seq_rm(llama_get_memory(s->target.ctx), 0, s->n_text - 1, -1);
    if (s->draft.ctx) { /* what it computed beyond the text that was kept */
        s->drafted = s->drafted < s->n_text - 1 ? s->drafted : s->n_text - 1;
        llama_memory_seq_rm(llama_get_memory(s->draft.ctx), 0, s->drafted, -1);
    }
    return status;
}

static ft_status decode(side *s, ft_error *err, mark *first, mark *last)
{
    int32_t chain[CHAIN_MAX];
    ft_status status = ft_bench_llama_extend(&s->target, s->text, (size_t)s->n_text, 0, err);
    if (status == FT_OK && s->draft.ctx)
        status = ft_bench_llama_extend(&s->draft, s->text, (size_t)s->n_text, 0, err);
    s->drafted = s->n_text;
    if (status != FT_OK)
        return status;
    take(s, best(&s->target, -1));
    *first = *last = now();
    s->tokens = 0; /* counted from here */
    while (status == FT_OK && !s->ended && s->tokens + 1 < s->o->n) {
        const uint32_t n = s->o->chain;
        if (n)
            status = draft(s, n, chain, err);
        if (status == FT_OK)
            status = verify(s, chain, n, err);
        *last = now();
    }
    return status;
}

static ft_status open_all(side *s, ft_tokens *prompt, ft_error *err)
{
    const ft_bench_memory_llama_opts *o = s->o;
    ft_vocab *vocab = NULL;
    if (o->chain > CHAIN_MAX)
        return ft_error_set(err, FT_INVALID, "chains have %d tokens at most", CHAIN_MAX);
    ft_status status = ft_vocab_load(o->model, err, &vocab);
    if (status == FT_OK)
        status = ft_template_ask(vocab, o->prompt, err, prompt);
    if (status == FT_UNSUPPORTED) /* no template */
        status = ft_vocab_tokenize(vocab, o->prompt, strlen(o->prompt), NULL, err, prompt);
    ft_vocab_destroy(vocab);
    if (status == FT_OK && prompt->n + o->n > o->n_ctx)
        return ft_error_set(err, FT_INVALID, "a context of %u tokens is too small for the prompt",
                            o->n_ctx);
    if (status == FT_OK)
        status = open_one(o, o->model, err, &s->target);
    if (status == FT_OK && o->chain)
        status = open_one(o, o->draft, err, &s->draft);
    s->text = calloc(o->n_ctx + BATCH, sizeof *s->text);
    if (status != FT_OK || !s->text)
        return status != FT_OK ? status : ft_error_set(err, FT_NOMEM, "out of memory");
    s->vocab = llama_model_get_vocab(s->target.model);
    memcpy(s->text, prompt->id, prompt->n * sizeof *s->text);
    s->n_text = (int32_t)prompt->n;
    return FT_OK;
}

int ft_bench_memory_llama(const ft_bench_memory_llama_opts *o, FILE *out)
{
    side s = {.o = o};
    ft_tokens prompt = {0};
    ft_error err = {0};
    mark first = {0}, last = {0};
    ft_status status = open_all(&s, &prompt, &err);
    if (status == FT_OK)
        status = decode(&s, &err, &first, &last);
    if (status == FT_OK) {
        json_t *object = json_pack("{s:I, s:I, s:f, s:f, s:I}", "tokens", (json_int_t)s.tokens,
                                   "passes", (json_int_t)s.passes, "ms", (last.s - first.s) * 1e3,
                                   "cpu_ms", (last.cpu_s - first.cpu_s) * 1e3, "read_bytes",
                                   (json_int_t)(last.read_bytes - first.read_bytes));
        const double joules = ft_energy_joules(&first.energy, &last.energy);
        json_object_set_new(object, "joules", joules < 0 ? json_null() : json_real(joules));
        json_dumpf(object, out, 0);
        json_decref(object);
    } else {
        dprintf(STDERR_FILENO, "%s\n", err.message);
    }
    free(s.text);
    ft_tokens_deinit(&prompt);
    ft_bench_llama_close(&s.draft);
    ft_bench_llama_close(&s.target);
    return status == FT_OK ? 0 : 1;
}
