// SPDX-License-Identifier: Apache-2.0
// Loads a model: plans its weights (load_plan.c), allocates a ggml context and a buffer for each
// place, then reads the file into them. Invariants: a weight of a repacked buffer type is written
// once and whole (its set_tensor requires that). A weight in our own layout is marked as packed,
// and packed in pieces as it is read. No weight of a packed file is used before its hash was found
// right. Where there is a cache of packed files, a model comes from there (model_kept.c). It
// computes nothing.
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/thread.h"
#include "model/fingerprint.h"
#include "model/model_impl.h"
#include "model/model_kept.h"
#include "model/model_mapped.h"
#include "model/packed_file.h"
#include "model/vocab_impl.h"
#include "xxhash.h"

/* Bytes of a file that are read and packed at once; it bounds the loader's memory. Halved or
 * doubled, loading takes as long. */
#define PIECE ((size_t)1 << 20)
/* The system drops its copies of what was read behind each so many bytes. Each time it takes as
 * long for a few bytes as for many, so not behind each weight. */
#define CACHED_MOST ((uint64_t)16 << 20)

enum { STREAMED = FT_PLACES /* a place for weights without memory */ };

typedef struct loader {
    ft_model *model;
    const ft_model_opts *opts;
    ft_error *err;
    ft_gguf gguf;
    ft_packed packed;
    ft_sources src;
    XXH3_state_t *hash;
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
    if (ft_model_is_mapped(m, &(ft_planned){.place = (uint8_t)place}))
        return ft_model_map_place(m, place, &l->gguf);
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

/* Reads a weight in pieces and packs them. */
static void read_packing(loader *l, const ft_matrix *m)
{
    const size_t unit = ft_matrix_unit(m), piece = PIECE > unit ? PIECE / unit * unit : unit;
    for (uint64_t at = 0; at < m->bytes && l->gguf.st == FT_OK; at += piece) {
        size_t n = m->bytes - at < piece ? (size_t)(m->bytes - at) : piece;
        if (ft_matrix_read(&l->gguf, m, at, n, l->staging) == FT_OK)
            ft_matrix_put(m, l->staging, at, n, m->tensor->data);
    }
}

/* Reads a weight as it is, and checks its hash. to NULL: only checks it, through the staging
 * buffer. (What has a hash has one part.) */
static void read_as_is(loader *l, const ft_planned *w, const ft_matrix *m, char *to)
{
    (void)XXH3_64bits_reset(l->hash);
    for (uint64_t at = 0; at < m->bytes && l->gguf.st == FT_OK; at += PIECE) {
        size_t n = m->bytes - at < PIECE ? (size_t)(m->bytes - at) : PIECE;
        char *piece = to ? to + at : l->staging;
        if (ft_matrix_read(&l->gguf, m, at, n, piece) == FT_OK && m->hashed)
            (void)XXH3_64bits_update(l->hash, piece, n);
    }
    if (m->hashed && l->gguf.st == FT_OK && XXH3_64bits_digest(l->hash) != m->part[0].hash)
        ft_gguf_refuse(&l->gguf, FT_CORRUPT,
                       "tensor '%s' is damaged: make the file anew with foretoken model pack",
                       gguf_get_tensor_name(l->gguf.ctx, w->id));
}

/* Makes the staging buffer large enough for a weight. */
static ft_status reserve(loader *l, const ft_planned *w, const ft_matrix *m)
{
    const size_t unit = ft_matrix_unit(m);
    const size_t bytes = m->way == FT_EXTENT_GGML ? (size_t)m->bytes : PIECE > unit ? PIECE : unit;
    if (bytes <= l->staging_bytes || (m->way == FT_EXTENT_AS_IS && !w->streamed))
        return FT_OK;
    free(l->staging);
    l->staging = malloc(bytes);
    l->staging_bytes = l->staging ? bytes : 0;
    return l->staging ? FT_OK
                      : ft_gguf_refuse(&l->gguf, FT_NOMEM, "out of memory while reading '%s'",
                                       gguf_get_tensor_name(l->gguf.ctx, w->id));
}

static ft_status read_weight(loader *l, const ft_planned *w)
{
    const ft_matrix m = ft_planned_matrix(&l->model->plan, w);
    ft_status st = reserve(l, w, &m);
    if (st != FT_OK)
        return st;
    if (m.way == FT_EXTENT_PACK)
        read_packing(l, &m);
    else
        read_as_is(l, w, &m, m.way == FT_EXTENT_GGML ? l->staging : m.tensor->data);
    if (m.way == FT_EXTENT_GGML && l->gguf.st == FT_OK)
        ggml_backend_tensor_set(m.tensor, l->staging, 0, m.bytes);
    return l->gguf.st;
}

/* Rows of an embedding that stays in the file are read one by one, and a row has no hash. So all of
 * it is checked once. */
static ft_status check_embedding(loader *l)
{
    const ft_plan *plan = &l->model->plan;
    const ft_planned *w = &plan->weights[plan->embedding];
    const ft_matrix m = ft_planned_matrix(plan, w);
    if (!w->streamed || !m.hashed)
        return FT_OK;
    ft_status st = reserve(l, w, &m);
    if (st == FT_OK)
        read_as_is(l, w, &m, NULL);
    return l->gguf.st;
}

/* A memory budget counts the page cache, too. */
static void drop_cache(const loader *l)
{
    if (l->opts->stream)
        (void)posix_fadvise(l->gguf.fd, 0, 0, POSIX_FADV_DONTNEED);
}

static ft_status read_weights(loader *l)
{
    const ft_plan *plan = &l->model->plan;
    uint64_t total = 0, done = 0, dropped = 0;
    for (size_t i = 0; i < plan->n; i++)
        total += plan->weights[i].streamed ? 0 : plan->weights[i].bytes;
    for (size_t i = 0; i < plan->n; i++) {
        if (plan->weights[i].streamed || ft_model_is_mapped(l->model, &plan->weights[i]))
            continue;
        ft_status st = read_weight(l, &plan->weights[i]);
        if (st != FT_OK)
            return st;
        done += plan->weights[i].bytes;
        if (done - dropped >= CACHED_MOST) {
            drop_cache(l);
            dropped = done;
        }
        ft_progress_report(&l->opts->progress, done, total);
    }
    ft_status st = check_embedding(l);
    if (st == FT_OK && l->model->map.base)
        st = ft_model_check_map(l->model, &l->gguf);
    drop_cache(l);
    return st;
}

/* ---- packed files ---- */

/* What a packed file cannot be loaded as. */
static ft_status check_packed(loader *l)
{
    const ft_model_opts *opts = l->opts;
    const bool devices = opts->devices && opts->devices->n > 0 && opts->n_gpu_layers != 0;
    ft_status st = ft_packed_read(&l->gguf, &l->packed);
    if (st != FT_OK || !l->packed.is)
        return st;
    if (devices)
        return ft_gguf_refuse(&l->gguf, FT_UNSUPPORTED,
                              "a packed file is for the CPU: pass --device none, or the file that "
                              "it was made from");
    if (opts->of && l->packed.of != opts->of)
        return ft_gguf_refuse(&l->gguf, FT_CORRUPT, "packed weights of another model");
    for (int64_t i = 0; i < gguf_get_n_tensors(l->gguf.ctx); i++)
        if ((opts->no_pack || opts->no_repack) &&
            ft_packed_name(gguf_get_tensor_name(l->gguf.ctx, i)))
            return ft_gguf_refuse(&l->gguf, FT_INVALID,
                                  "packed for our own kernels: ggml's (--kernels ggml) need the "
                                  "file that it was made from");
    return FT_OK;
}

/* Checks that the tensors of a packed file lie in its order, and that they are packed if all that
 * can be must be. */
static ft_status check_places(loader *l)
{
    const ft_plan *plan = &l->model->plan;
    const bool all = !l->opts->choose && !l->opts->no_pack && !l->opts->no_repack;
    size_t *order = malloc(plan->n * sizeof *order);
    if (!order)
        return ft_gguf_refuse(&l->gguf, FT_NOMEM, "out of memory");
    const size_t n = ft_plan_file_order(plan, order);
    for (size_t i = 0; i < n; i++) {
        const ft_planned *w = &plan->weights[order[i]];
        const char *name = gguf_get_tensor_name(l->gguf.ctx, w->id);
        if (w->id != (int64_t)i)
            ft_gguf_refuse(&l->gguf, FT_CORRUPT, "tensor '%s' is not in a packed file's order",
                           name);
        if (all && (w->is_matrix || order[i] == plan->head) && !w->stored &&
            ft_pack_fits(w->type, w->n_in, w->n_out))
            ft_gguf_refuse(&l->gguf, FT_INVALID,
                           "'%s' was left to ggml when the file was packed: --kernels packed needs "
                           "the file that it was made from",
                           name);
    }
    free(order);
    return l->gguf.st;
}

/* ---- opening ---- */

static ft_status make_plan(loader *l)
{
    ft_placer placer;
    const ft_model_opts *opts = l->opts;
    const ft_plan_input in = {opts, &l->gguf, &l->model->info.hp, &l->src, &placer, l->packed.hash};
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
    if (l->gguf.parts)
        return ft_gguf_refuse(&l->gguf, FT_UNSUPPORTED,
                              "the parts of a split model are not read in every pass: make one "
                              "file of them with model pack");
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
    ft_status st = ft_gguf_open(l->opts->path, l->err, &l->gguf);
    if (st != FT_OK)
        return st;
    l->model = calloc(1, sizeof *l->model);
    l->hash = XXH3_createState();
    if (l->model)
        l->model->fd = -1;
    if (!l->model || !l->hash)
        return ft_gguf_refuse(&l->gguf, FT_NOMEM, "out of memory");
    ft_hparams *hp = &l->model->info.hp;
    st = check_packed(l);
    l->model->info.packed_file = l->packed.is;
    if (st == FT_OK)
        st = ft_hparams_read(&l->gguf, hp);
    if (st == FT_OK)
        st = ft_sources_find(&l->gguf, hp, l->packed.is, &l->src);
    if (st == FT_OK)
        st = make_plan(l);
    if (st == FT_OK && l->packed.is)
        st = check_places(l);
    if (st == FT_OK)
        st = ft_model_describe(l->model, &l->gguf);
    if (st == FT_OK && !l->packed.is)
        st = ft_fingerprint_sums(&l->gguf, l->packed.sums);
    if (st == FT_OK)
        st = ft_fingerprint_of(&l->gguf, hp, l->packed.sums, &l->model->info.fingerprint);
    return st == FT_OK ? choose_streamed(l) : st;
}

static void loader_deinit(loader *l)
{
    free(l->staging);
    (void)XXH3_freeState(l->hash);
    ft_sources_deinit(&l->src);
    ft_gguf_close(&l->gguf);
}

/* Weights that are checked on a thread of their own. */
typedef struct aside {
    loader *loader;
    pthread_t thread;
} aside;

static void *check_aside(void *ctx)
{
    loader *l = ((aside *)ctx)->loader;
    if (read_weights(l) != FT_OK)
        assert(l->gguf.st != FT_OK);
    return NULL;
}

/* Checks weights that are mapped, and makes the vocabulary meanwhile. Both take a tenth of a second
 * or more. The vocabulary is made on this thread: allocating is slower on others. */
static ft_status read_both(loader *l)
{
    ft_error err = {0};
    ft_gguf metadata = l->gguf; /* which does not change; an error of its own */
    aside a = {.loader = l};
    ft_status st = ft_thread_start(check_aside, &a, l->err, &a.thread);
    if (st != FT_OK)
        return l->gguf.st = st;
    metadata.err = &err;
    st = ft_vocab_read(&metadata, l->opts->vocab);
    pthread_join(a.thread, NULL);
    if (l->gguf.st != FT_OK || st == FT_OK)
        return l->gguf.st;
    l->gguf.st = st;
    return ft_error_set(l->err, st, "%s", err.message);
}

/* Notes how the file writes its vocabulary. One that was made from it knows that already. */
static ft_status note_vocab(loader *l)
{
    if (!l->opts->vocab)
        return ft_vocab_written(&l->gguf, &l->model->vocab_written);
    l->model->vocab_written = (*l->opts->vocab)->written;
    return FT_OK;
}

/* Vocabulary, memory and weights of a model that is planned. */
static ft_status fill(loader *l)
{
    const ft_model_opts *opts = l->opts;
    if (opts->map && l->packed.is && !opts->stream)
        ft_model_map(l->model, &l->gguf);
    const bool both = opts->vocab && l->model->map.base;
    ft_status st = opts->vocab && !both ? ft_vocab_read(&l->gguf, opts->vocab) : FT_OK;
    if (st == FT_OK)
        st = allocate(l);
    if (st == FT_OK)
        st = both ? read_both(l) : read_weights(l);
    if (st == FT_OK)
        st = note_vocab(l);
    if (st == FT_OK && opts->stream) {
        l->model->fd = l->gguf.fd;
        l->gguf.fd = -1;
    }
    if (st != FT_OK && opts->vocab) {
        ft_vocab_destroy(*opts->vocab);
        *opts->vocab = NULL;
    }
    return st;
}

ft_status ft_model_load(const ft_model_opts *opts, ft_error *err, ft_model **out)
{
    loader l = {.opts = opts, .err = err, .gguf = {.fd = -1}};
    *out = NULL;
    if (opts->vocab)
        *opts->vocab = NULL;
    ft_kept kept = {.opts = opts, .load = ft_model_load};
    *out = ft_kept_load(&kept);
    if (*out)
        return FT_OK;
    ft_status st = open_and_plan(&l);
    if (st == FT_OK)
        *out = ft_kept_make(&kept, &(ft_opened){&l.gguf, &l.src, l.model});
    if (st == FT_OK && !*out) {
        st = fill(&l);
        *out = l.model;
        l.model = NULL;
    }
    loader_deinit(&l);
    ft_model_destroy(l.model);
    if (st != FT_OK) {
        ft_model_destroy(*out);
        *out = NULL;
    }
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
