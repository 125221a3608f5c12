// SPDX-License-Identifier: Apache-2.0
// The weights of a model that are read anew in every pass. Only addresses of tensors change: the
// engine's graphs of a layer are built after the wait for it. Owned by the thread that computes
// passes; the reader (stream.h) has its own.
#include "model/streamed.h"

#include <stdlib.h>
#include <string.h>

#include "model/model_impl.h"
#include "model/streamed_parts.h"

#define RESIDENT UINT32_MAX
/* Rows of the embedding that are looked up at once. */
#define ROWS 64

struct ft_streamed {
    const ft_model *model; /* borrowed */
    ft_streamed_parts parts;
    ft_weight_stream *stream;
    uint32_t *part_of;        /* [n_layer] the part of each layer; RESIDENT */
    struct ggml_context *ctx; /* of `head` */
    /* for all tensors that have no memory of their own: ggml asks a tensor's buffer for its type */
    ggml_backend_buffer_t buffer;
    struct ggml_tensor **head; /* [n_head] the tensors of the head's parts */
    size_t n_head;
    ft_matrix embedding;
    bool embedding_resident;
    uint64_t *offsets; /* [ROWS] of rows that are looked up */
    char *rows;        /* [ROWS, bytes of a row] */
};

/* An address for tensors that have no memory now: graphs are laid out before there is some. */
static _Alignas(64) char nowhere[64];

/* ---- life ---- */

static void have_no_memory(const ft_streamed *s, struct ggml_tensor *t)
{
    t->data = nowhere;
    t->buffer = s->buffer;
}

static struct ggml_tensor *head_tensor(const ft_streamed *s, const ft_matrix *m)
{
    struct ggml_tensor *t = ggml_new_tensor_2d(s->ctx, m->type, m->n_in, m->n_out);
    if (m->packed)
        ft_pack_mark(t);
    have_no_memory(s, t);
    return t;
}

static bool make_head(ft_streamed *s)
{
    s->n_head = s->parts.n - s->parts.n_layers;
    s->head = calloc(s->n_head + 1, sizeof *s->head);
    s->ctx = ggml_init((struct ggml_init_params){
        .mem_size = (s->n_head + 1) * ggml_tensor_overhead(), .no_alloc = true});
    if (!s->head || !s->ctx)
        return false;
    for (size_t i = 0; i < s->n_head; i++)
        s->head[i] = head_tensor(s, &s->parts.at[s->parts.n_layers + i].matrix[0]);
    return true;
}

/* The layers' parts, and addresses for their matrices. */
static bool list_layers(ft_streamed *s)
{
    const uint32_t n_layer = s->model->info.hp.n_layer;
    s->part_of = calloc(n_layer, sizeof *s->part_of);
    if (!s->part_of)
        return false;
    for (uint32_t i = 0; i < n_layer; i++)
        s->part_of[i] = RESIDENT;
    for (size_t i = 0; i < s->parts.n_layers; i++) {
        const ft_streamed_part *p = &s->parts.at[i];
        s->part_of[p->layer] = (uint32_t)i;
        for (size_t k = 0; k < p->n; k++)
            have_no_memory(s, p->matrix[k].tensor);
    }
    return true;
}

static bool make_rows(ft_streamed *s, const ft_memory_plan *plan)
{
    s->embedding = ft_model_embedding_matrix(s->model);
    s->embedding_resident = plan->embedding_resident;
    if (s->embedding_resident)
        return true;
    s->offsets = calloc(ROWS, sizeof *s->offsets);
    s->rows = calloc(ROWS, ft_streamed_row(&s->embedding, 0).bytes);
    return s->offsets && s->rows;
}

static ft_status make(ft_streamed *s, const ft_streamed_opts *opts, ft_error *err)
{
    ft_status status = ft_streamed_parts_make(s->model, opts->plan, err, &s->parts);
    if (status != FT_OK)
        return status;
    s->buffer = ggml_backend_cpu_buffer_from_ptr(nowhere, sizeof nowhere);
    if (!s->buffer || !list_layers(s) || !make_head(s) || !make_rows(s, opts->plan))
        return ft_error_set(err, FT_NOMEM, "%s: out of memory", s->model->path);
    ft_weight_stream_opts stream =
        ft_streamed_reads(&s->parts, s->embedding_resident ? NULL : &s->embedding);
    stream.fd = ft_model_fd(s->model);
    stream.path = s->model->path;
    stream.n_slots = opts->plan->n_slots;
    stream.no_overlap = opts->no_overlap;
    return ft_weight_stream_create(&stream, err, &s->stream);
}

ft_status ft_streamed_create(const ft_streamed_opts *opts, ft_error *err, ft_streamed **out)
{
    *out = NULL;
    ft_streamed *s = calloc(1, sizeof *s);
    if (!s)
        return ft_error_set(err, FT_NOMEM, "%s: out of memory", opts->model->path);
    s->model = opts->model;
    const ft_status status = make(s, opts, err);
    if (status != FT_OK) {
        ft_streamed_destroy(s);
        return status;
    }
    *out = s;
    return FT_OK;
}

void ft_streamed_destroy(ft_streamed *s)
{
    if (!s)
        return;
    ft_weight_stream_destroy(s->stream);
    ft_streamed_parts_deinit(&s->parts);
    ggml_free(s->ctx);
    ggml_backend_buffer_free(s->buffer);
    free(s->head);
    free(s->part_of);
    free(s->offsets);
    free(s->rows);
    free(s);
}

/* ---- a pass ---- */

void ft_streamed_begin(ft_streamed *s, bool head)
{
    ft_weight_stream_begin(s->stream, head ? s->parts.n : s->parts.n_layers);
}

/* Looks up at most ROWS rows in the file. */
static ft_status look_up(ft_streamed *s, const int32_t *tokens, uint32_t n, ft_error *err, float *x)
{
    const size_t bytes = ft_streamed_row(&s->embedding, 0).bytes;
    for (uint32_t i = 0; i < n; i++)
        s->offsets[i] = ft_streamed_row(&s->embedding, tokens[i]).offset;
    const ft_status status = ft_weight_stream_rows(s->stream, s->offsets, n, bytes, s->rows, err);
    for (uint32_t i = 0; i < n && status == FT_OK; i++)
        ft_streamed_row_make(&s->embedding, tokens[i], s->rows + i * bytes,
                             x + (size_t)i * (size_t)s->embedding.n_in);
    return status;
}

/* The same from memory, where a matrix is packed or not as in a packed file. */
static void look_up_resident(const ft_streamed *s, const int32_t *tokens, uint32_t n, float *x)
{
    ft_matrix m = s->embedding;
    m.way = FT_EXTENT_AS_IS;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t at = ft_streamed_row(&m, tokens[i]).offset - m.part[0].offset;
        ft_streamed_row_make(&m, tokens[i], (const char *)m.tensor->data + at,
                             x + (size_t)i * (size_t)m.n_in);
    }
}

ft_status ft_streamed_embed(ft_streamed *s, const int32_t *tokens, uint32_t n, ft_error *err,
                            float *x)
{
    ft_status status = FT_OK;
    if (s->embedding_resident) {
        look_up_resident(s, tokens, n, x);
        return FT_OK;
    }
    for (uint32_t i = 0; i < n && status == FT_OK; i += ROWS)
        status = look_up(s, tokens + i, n - i < ROWS ? n - i : ROWS, err,
                         x + (size_t)i * (size_t)s->embedding.n_in);
    return status;
}

/* Where a part's matrix is: in the file's bytes, or where convert has put it. */
static void *address(const ft_streamed_part *p, const ft_weight_data *data, size_t i)
{
    return data->slot ? (char *)data->slot + p->at[i] : (void *)data->extents[i];
}

ft_status ft_streamed_wait(ft_streamed *s, uint32_t layer, ft_error *err)
{
    const uint32_t part = s->part_of[layer];
    const ft_streamed_part *p = part == RESIDENT ? NULL : &s->parts.at[part];
    ft_weight_data data;
    if (!p)
        return FT_OK;
    const ft_status status = ft_weight_stream_wait(s->stream, part, err, &data);
    for (size_t i = 0; i < p->n && status == FT_OK; i++)
        p->matrix[i].tensor->data = address(p, &data, i);
    return status;
}

void ft_streamed_release(ft_streamed *s, uint32_t layer)
{
    const uint32_t part = s->part_of[layer];
    if (part == RESIDENT)
        return;
    for (size_t i = 0; i < s->parts.at[part].n; i++)
        s->parts.at[part].matrix[i].tensor->data = nowhere;
    ft_weight_stream_release(s->stream, part);
}

uint32_t ft_streamed_n_head_parts(const ft_streamed *s)
{
    return (uint32_t)s->n_head;
}

struct ggml_tensor *ft_streamed_head_part(ft_streamed *s, uint32_t part, uint32_t *first)
{
    *first = s->parts.at[s->parts.n_layers + part].head.first;
    return s->head[part];
}

ft_status ft_streamed_wait_head_part(ft_streamed *s, uint32_t part, ft_error *err)
{
    const size_t at = s->parts.n_layers + part;
    ft_weight_data data;
    const ft_status status = ft_weight_stream_wait(s->stream, at, err, &data);
    if (status == FT_OK)
        s->head[part]->data = address(&s->parts.at[at], &data, 0);
    return status;
}

void ft_streamed_release_head_part(ft_streamed *s, uint32_t part)
{
    s->head[part]->data = nowhere;
    ft_weight_stream_release(s->stream, s->parts.n_layers + part);
}

ft_weight_stream_stats ft_streamed_stats(ft_streamed *s)
{
    return ft_weight_stream_get_stats(s->stream);
}

int64_t ft_streamed_waited_us(ft_streamed *s)
{
    return s ? ft_streamed_stats(s).waited_us : 0;
}
