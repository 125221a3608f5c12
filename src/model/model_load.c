// SPDX-License-Identifier: Apache-2.0
// Loads a model: plans its weights (load_plan.c), allocates a ggml context and a buffer for each
// place, then reads the file into them. Invariants: a weight of a repacked buffer type is written
// once and whole (its set_tensor requires that). A weight in our own layout is marked as packed,
// and packed in pieces as it is read. It computes nothing.
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/fingerprint.h"
#include "model/model_impl.h"
#include "model/vocab_impl.h"

/* Bytes of a file that are read and packed at once. Halved or doubled, loading takes as long. */
#define PIECE ((size_t)1 << 20)

enum { STREAMED = FT_PLACES /* a place for weights without memory */ };

typedef struct loader {
    ft_model *model;
    const ft_model_opts *opts;
    ft_error *err;
    ft_gguf gguf;
    ft_sources src;
    void *staging; /* for bytes that must change before they are a weight */
    size_t staging_bytes;
} loader;

static struct ggml_tensor *new_tensor(const loader *l, struct ggml_context *ctx,
                                      const ft_planned *w)
{
    const ft_plan *plan = &l->model->plan;
    struct ggml_tensor *t = ggml_new_tensor_2d(ctx, w->type, w->n_in, w->n_out);
    ggml_set_name(t, gguf_get_tensor_name(l->gguf.ctx, w->id));
    if (ft_planned_is_packed(plan, w))
        ft_pack_mark(t);
    return t;
}

/* Asks for huge pages before the memory is touched. Reading all weights for each token is then a
 * third faster (26 instead of 18.5 GB/s on one machine). A hint, and only for memory of the
 * host. */
static void use_large_pages(ggml_backend_buffer_t buffer)
{
#ifdef MADV_HUGEPAGE
    if (!ggml_backend_buft_is_host(ggml_backend_buffer_get_type(buffer)))
        return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)ggml_backend_buffer_get_base(buffer);
    uintptr_t end = (begin + ggml_backend_buffer_get_size(buffer)) / page * page;
    begin = (begin + page - 1) / page * page;
    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#endif
}

static bool belongs(const ft_planned *w, size_t place)
{
    return w->streamed ? place == STREAMED : w->place == place;
}

/* Makes the tensors of a place. *out stays NULL if it has none. */
static ft_status make_tensors(loader *l, size_t place, struct ggml_context **out)
{
    const ft_plan *plan = &l->model->plan;
    size_t count = 0;
    for (size_t i = 0; i < plan->n; i++)
        count += belongs(&plan->weights[i], place);
    if (count == 0)
        return FT_OK;
    struct ggml_init_params params = {.mem_size = (count + 1) * ggml_tensor_overhead(),
                                      .no_alloc = true};
    *out = ggml_init(params);
    if (!*out)
        return ft_error_set(l->err, FT_NOMEM, "%s: out of memory", l->opts->path);
    for (size_t i = 0; i < plan->n; i++)
        if (belongs(&plan->weights[i], place))
            *plan->weights[i].slot = new_tensor(l, *out, &plan->weights[i]);
    return FT_OK;
}

static ft_status allocate_place(loader *l, size_t place)
{
    ft_model *m = l->model;
    ggml_backend_buffer_type_t buft = ft_plan_buffer_type(&m->plan, place);
    ft_status st = make_tensors(l, place, &m->ctx[place]);
    if (st != FT_OK || !m->ctx[place])
        return st;
    m->buffer[place] = ggml_backend_alloc_ctx_tensors_from_buft(m->ctx[place], buft);
    if (!m->buffer[place])
        return ft_error_set(l->err, FT_NOMEM, "%s: out of memory for its weights (%s)",
                            l->opts->path, ggml_backend_buft_name(buft));
    use_large_pages(m->buffer[place]);
    ggml_backend_buffer_set_usage(m->buffer[place], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    return FT_OK;
}

static ft_status allocate(loader *l)
{
    ft_model *m = l->model;
    ft_status st = make_tensors(l, STREAMED, &m->streamed);
    for (size_t p = 0; p < m->plan.placer.n + m->plan.devices.n && st == FT_OK; p++)
        st = allocate_place(l, p);
    if (!m->weights.output)
        m->weights.output = m->weights.tok_embd;
    return st;
}

/* Makes the staging buffer large enough. */
static bool reserve(loader *l, size_t bytes)
{
    if (bytes > l->staging_bytes) {
        free(l->staging);
        l->staging = malloc(bytes);
        l->staging_bytes = l->staging ? bytes : 0;
    }
    return l->staging != NULL;
}

/* Reads a part of a weight in pieces and packs them. */
static void read_packing(loader *l, const ft_matrix *m, uint32_t part)
{
    const ft_extent *from = &m->part[part];
    const size_t unit = ft_matrix_unit(m), piece = PIECE > unit ? PIECE / unit * unit : unit;
    for (uint64_t at = 0; at < from->bytes && l->gguf.st == FT_OK; at += piece) {
        size_t n = from->bytes - at < piece ? (size_t)(from->bytes - at) : piece;
        if (ft_gguf_read(&l->gguf, from->offset + at, l->staging, n) == FT_OK)
            ft_matrix_put(m, part, at, l->staging, n, m->tensor->data);
    }
}

/* Bytes of the staging buffer that a weight needs. */
static size_t staging_for(const ft_matrix *m)
{
    const size_t unit = ft_matrix_unit(m);
    if (m->way == FT_EXTENT_AS_IS)
        return 1;
    return m->way == FT_EXTENT_GGML ? (size_t)m->bytes : PIECE > unit ? PIECE : unit;
}

static ft_status read_weight(loader *l, const ft_planned *w)
{
    const ft_matrix m = ft_planned_matrix(&l->model->plan, w);
    if (!reserve(l, staging_for(&m)))
        return ft_gguf_refuse(&l->gguf, FT_NOMEM, "out of memory while reading '%s'",
                              gguf_get_tensor_name(l->gguf.ctx, w->id));
    char *to = m.way == FT_EXTENT_GGML ? l->staging : m.tensor->data;
    for (uint32_t i = 0; i < m.n_parts; i++) {
        if (m.way == FT_EXTENT_PACK)
            read_packing(l, &m, i);
        else
            ft_gguf_read(&l->gguf, m.part[i].offset, to, m.part[i].bytes);
        to += m.part[i].bytes;
    }
    if (m.way == FT_EXTENT_GGML && l->gguf.st == FT_OK)
        ggml_backend_tensor_set(m.tensor, l->staging, 0, m.bytes);
    return l->gguf.st;
}

static ft_status read_weights(loader *l)
{
    const ft_plan *plan = &l->model->plan;
    uint64_t total = 0, done = 0;
    for (size_t i = 0; i < plan->n; i++)
        total += plan->weights[i].streamed ? 0 : plan->weights[i].bytes;
    for (size_t i = 0; i < plan->n; i++) {
        if (plan->weights[i].streamed)
            continue;
        ft_status st = read_weight(l, &plan->weights[i]);
        if (st != FT_OK)
            return st;
        done += plan->weights[i].bytes;
        ft_progress_report(&l->opts->progress, done, total);
    }
    return FT_OK;
}

static ft_status make_plan(loader *l)
{
    ft_placer placer;
    const ft_model_opts *opts = l->opts;
    const ft_plan_input in = {opts, &l->gguf, &l->model->info.hp, &l->src, &placer};
    ft_status st = ft_placer_init(&placer,
                                  (opts->no_pack ? FT_PLACE_NO_PACK : 0u) |
                                      (opts->no_repack ? FT_PLACE_NO_REPACK : 0u),
                                  opts->choose, l->err);
    return st == FT_OK ? ft_plan_make(&in, l->err, &l->model->weights, &l->model->plan) : st;
}

static bool is_streamed(const ft_plan *plan, size_t i, const ft_stream_choice *s)
{
    const ft_planned *w = &plan->weights[i];
    const bool is_head = i == plan->head, is_embedding = i == plan->embedding;
    if (w->is_matrix)
        return s->layers[w->layer / 64] >> w->layer % 64 & 1;
    return (is_head || is_embedding) && (!is_head || s->head) && (!is_embedding || s->embedding);
}

/* Asks which matrices stay in the file. */
static ft_status choose_streamed(loader *l)
{
    ft_plan *plan = &l->model->plan;
    ft_stream_choice chosen = {0};
    if (!l->opts->stream)
        return FT_OK;
    ft_status st = l->opts->stream(l->opts->stream_ctx, l->model, l->err, &chosen);
    for (size_t i = 0; i < plan->n && st == FT_OK; i++) {
        plan->weights[i].streamed = is_streamed(plan, i, &chosen);
        if (plan->weights[i].streamed && plan->weights[i].place >= plan->placer.n)
            st = ft_gguf_refuse(&l->gguf, FT_INVALID, "weights on a device cannot be streamed");
    }
    return st;
}

/* Everything before memory is allocated for weights. */
static ft_status open_and_plan(loader *l)
{
    ft_hparams hp;
    ft_status st = ft_sources_open(l->opts->path, l->err, &l->gguf, &hp, &l->src);
    if (st != FT_OK)
        return st;
    l->model = calloc(1, sizeof *l->model);
    if (!l->model)
        return ft_gguf_refuse(&l->gguf, FT_NOMEM, "out of memory");
    l->model->info.hp = hp;
    l->model->fd = -1;
    st = make_plan(l);
    if (st == FT_OK)
        st = ft_model_describe(l->model, &l->gguf);
    if (st == FT_OK)
        st = ft_fingerprint_read(&l->gguf, &hp, &l->model->info.fingerprint);
    return st == FT_OK ? choose_streamed(l) : st;
}

static void loader_deinit(loader *l)
{
    free(l->staging);
    ft_sources_deinit(&l->src);
    ft_gguf_close(&l->gguf);
}

ft_status ft_model_load(const ft_model_opts *opts, ft_error *err, ft_model **out)
{
    loader l = {.opts = opts, .err = err, .gguf = {.fd = -1}};
    if (opts->vocab)
        *opts->vocab = NULL;
    ft_status st = open_and_plan(&l);
    if (st == FT_OK && opts->vocab)
        st = ft_vocab_read(&l.gguf, opts->vocab);
    if (st == FT_OK)
        st = allocate(&l);
    if (st == FT_OK)
        st = read_weights(&l);
    if (st == FT_OK && opts->stream) {
        l.model->fd = l.gguf.fd;
        l.gguf.fd = -1;
    }
    loader_deinit(&l);
    if (st != FT_OK) {
        if (opts->vocab) {
            ft_vocab_destroy(*opts->vocab);
            *opts->vocab = NULL;
        }
        ft_model_destroy(l.model);
        l.model = NULL;
    }
    *out = l.model;
    return st;
}

ft_status ft_model_inspect(const ft_model_opts *opts, ft_error *err, ft_model_info *out)
{
    loader l = {.opts = opts, .err = err, .gguf = {.fd = -1}};
    ft_status st = open_and_plan(&l);
    if (st == FT_OK)
        *out = l.model->info;
    loader_deinit(&l);
    ft_model_destroy(l.model);
    return st;
}
