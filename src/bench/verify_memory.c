// SPDX-License-Identifier: Apache-2.0
// What either side of bench verify takes. Sums are rounded up where they are guessed;
// docs/BENCHMARKS.md says what becomes of a row that does not fit. Owned by one thread; reads what
// the system says of its memory and changes nothing.
//
// What libllama takes for a context, by what was measured of 16 to 256 sessions of 2,048 tokens:
//   cells    sessions x (text, root and nodes), rounded up to 256 in each cache, times K and V of a
//            token; and 160 bytes a cell for who owns it, 64 for each sequence that it belongs to
//   scores   rows of a ubatch x cells they are scored with: an f16 mask with flash attention;
//            without it an f32 mask, f32 scores of every head, and those again as f16 to multiply V
//            with
//   logits   of a ubatch, and of all rows of a batch (the buffer that llama_get_logits reads)
//   rows     of a ubatch between the operators of a layer
//   context  tensors and tables of its graphs; its scheduler also reserves 60 tensors for each node
//            that a graph might have, and touches few of them
#include "bench/verify_memory.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ggml.h"

#define GB            1e9
#define MARGIN_BYTES  ((size_t)768 << 20) /* left to the rest of the machine */
#define CELL_BYTES    160
#define SEQ_BYTES     64 /* a cell and sequence: a node of a map */
#define CONTEXT_BYTES ((size_t)4 << 20)
#define OURS_BYTES    ((size_t)64 << 20) /* tables, plans, the walks' memory */
#define NODES_TENSOR  8                  /* nodes of a graph a tensor of the model at most */
#define NODES_LEAST   1024
#define SPLIT_TENSORS 60 /* that the scheduler reserves for each */
#define LAYER_TENSORS 12

/* ---- sizes ---- */

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t row_bytes(const ft_hparams *hp)
{
    return (4 * (size_t)hp->n_ff + 8 * (size_t)hp->n_embd) * sizeof(float);
}

ft_bench_need ft_bench_need_sum(ft_bench_need a, ft_bench_need b)
{
    return (ft_bench_need){a.bytes + b.bytes, a.address + b.address};
}

ft_bench_need ft_bench_ours_need(const ft_bench_job *job, uint32_t max_tree)
{
    const ft_hparams *hp = ft_model_hparams(job->model);
    size_t tok = (size_t)job->n_sessions * (job->n_ctx + max_tree + 1 + 2 * FT_KV_BLOCK_TOK);
    size_t rows = min_size((size_t)job->n_sessions * (max_tree + 1), FT_BENCH_PASS_TOK);
    rows = rows < FT_BENCH_READ_TOK ? FT_BENCH_READ_TOK : rows;
    size_t bytes = tok * ft_bench_kv_tok_bytes(job->model, job->kv) +
                   rows * (row_bytes(hp) + hp->n_vocab * sizeof(float)) + OURS_BYTES;
    return (ft_bench_need){bytes, bytes};
}

/* ---- libllama ---- */

/* Rows of a ubatch of n sessions. */
static size_t ubatch_rows(const ft_bench_job *job, uint32_t n)
{
    return min_size((size_t)n * ft_bench_rows(job), FT_BENCH_UBATCH_TOK);
}

/* Cells of the cache, or of one of n streams. */
static size_t cells_of(const ft_bench_job *job, const ft_bench_way *way, uint32_t n)
{
    size_t room = job->n_ctx + ft_bench_rows(job);
    return ((way->unified ? n * room : room) + 255) / 256 * 256;
}

static size_t score_bytes(const ft_bench_job *job, const ft_bench_way *way, uint32_t n)
{
    const size_t heads = ft_model_hparams(job->model)->n_head;
    size_t of_cell =
        way->flash ? sizeof(uint16_t) : sizeof(float) + heads * (sizeof(float) + sizeof(uint16_t));
    return ubatch_rows(job, n) * cells_of(job, way, n) * of_cell;
}

size_t ft_bench_theirs_score_bytes(const ft_bench_job *job, const ft_bench_way *way)
{
    return score_bytes(job, way, way->per_ctx);
}

/* A context of n sessions. */
static ft_bench_need context_need(const ft_bench_job *job, const ft_bench_way *way, uint32_t n)
{
    const ft_hparams *hp = ft_model_hparams(job->model);
    size_t cells = cells_of(job, way, n) * (way->unified ? 1 : n);
    size_t ids = job->tree->n_leaves; /* of a cell at most: those of its session, lent or its own */
    size_t ubatch = ubatch_rows(job, n);
    size_t out = min_size((size_t)n * ft_bench_rows(job), FT_BENCH_PASS_TOK);
    size_t cell = ft_bench_kv_tok_bytes(job->model, FT_KV_F16) + CELL_BYTES + ids * SEQ_BYTES;
    size_t bytes = cells * cell + score_bytes(job, way, n) +
                   (ubatch + out) * hp->n_vocab * sizeof(float) + ubatch * row_bytes(hp) +
                   CONTEXT_BYTES;
    size_t nodes = (size_t)NODES_TENSOR * LAYER_TENSORS * hp->n_layer;
    nodes = nodes < NODES_LEAST ? NODES_LEAST : nodes;
    return (ft_bench_need){bytes, bytes + nodes * SPLIT_TENSORS * sizeof(struct ggml_tensor)};
}

ft_bench_need ft_bench_theirs_need(const ft_bench_job *job, const ft_bench_way *way)
{
    ft_bench_need need = {0};
    for (uint32_t at = 0; at < job->n_sessions; at += way->per_ctx) {
        uint32_t left = job->n_sessions - at, n = left < way->per_ctx ? left : way->per_ctx;
        need = ft_bench_need_sum(need, context_need(job, way, n));
    }
    return need;
}

/* ---- what there is ---- */

/* Pages that this process maps and that it has touched, in bytes; 0: unknown. */
static void own_size(size_t *mapped, size_t *resident)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%zu %zu", mapped, resident) != 2)
        *mapped = *resident = 0;
    *mapped *= page;
    *resident *= page;
    if (f)
        fclose(f);
}

static size_t left_of(size_t limit, size_t used)
{
    return limit > used ? limit - used : 0;
}

ft_bench_room ft_bench_room_now(size_t limit_bytes)
{
    struct rlimit limit;
    size_t mapped, resident, free_bytes = ft_bench_memory_free();
    ft_bench_room room = {free_bytes ? left_of(free_bytes, MARGIN_BYTES) : SIZE_MAX, SIZE_MAX};
    own_size(&mapped, &resident);
    if (limit_bytes)
        room.bytes = min_size(room.bytes, left_of(limit_bytes, resident));
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        room.address = left_of(limit.rlim_cur, mapped);
    return room;
}

bool ft_bench_fits(const ft_bench_room *room, ft_bench_need need)
{
    return need.bytes <= room->bytes && need.address <= room->address;
}

void ft_bench_need_describe(const ft_bench_room *room, ft_bench_need need, char *out, size_t size)
{
    if (need.bytes > room->bytes)
        snprintf(out, size, "%.2f GB needed, %.2f GB free", (double)need.bytes / GB,
                 (double)room->bytes / GB);
    else
        snprintf(out, size, "%.2f GB of address space needed, %.2f GB left of its limit",
                 (double)need.address / GB, (double)room->address / GB);
}
