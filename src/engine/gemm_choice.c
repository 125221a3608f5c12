// SPDX-License-Identifier: Apache-2.0
// Measures our products against ggml's. Both run as they do in a pass, operators of a ggml graph on one
// thread, in turn; the minimum of a few runs of the thread's own time counts, so that other programs
// matter little. The matrix is small: what it costs to fetch a large one from memory is the same for
// both, which have it in as many bytes. Results are kept for the process, under one lock.
#include "engine/gemm_choice.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "engine/gemm.h"
#include "engine/gemm_kernel.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

enum {
    MAX_CHOICES = 48,
    REPEATS = 3,
    MOST_IN = 4096,   /* a wider matrix is measured at this width */
    WEIGHTS = 1 << 17 /* of the matrix, about */
};
#define TIE 0.9 /* ggml's time over ours from which on ours stays */

const uint32_t ft_gemm_choice_rows[FT_GEMM_CHOICE_ROWS] = {1, 4, 16, 64};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ft_gemm_choice choices[MAX_CHOICES]; /* guarded by lock */
static size_t n_choices;                    /* likewise */

/* ---- one product ---- */

typedef struct product {
    struct ggml_context *weight_ctx, *ctx;
    ggml_backend_buffer_t weight_buffer, buffer;
    struct ggml_cgraph *graph;
} product;

static void product_deinit(product *p)
{
    ggml_backend_buffer_free(p->weight_buffer);
    ggml_backend_buffer_free(p->buffer);
    ggml_free(p->weight_ctx);
    ggml_free(p->ctx);
}

/* Any bytes do for weights that are only timed; these make no infinities in any type. */
static bool set_weight(struct ggml_tensor *w)
{
    size_t bytes = ggml_nbytes(w);
    void *plain = malloc(bytes);
    if (!plain)
        return false;
    memset(plain, 0x11, bytes);
    if (ft_is_packed(w))
        ft_pack(w->type, w->ne[0], w->ne[1], plain, w->data);
    else
        ggml_backend_tensor_set(w, plain, 0, bytes);
    free(plain);
    return true;
}

/* rival: ggml's product with a weight in that buffer type; NULL: ours. */
static bool product_init(product *p, const ft_gemm_choice *c, uint32_t n_rows, ggml_backend_t cpu,
                         ggml_backend_buffer_type_t rival)
{
    const struct ggml_init_params params = {.mem_size = 1 << 16, .no_alloc = true};
    *p = (product){.weight_ctx = ggml_init(params), .ctx = ggml_init(params)};
    if (!p->weight_ctx || !p->ctx)
        return false;
    struct ggml_tensor *w = ggml_new_tensor_2d(p->weight_ctx, c->type, c->n_in, c->n_out);
    struct ggml_tensor *x = ggml_new_tensor_2d(p->ctx, GGML_TYPE_F32, c->n_in, n_rows), *y;
    p->weight_buffer = ggml_backend_alloc_ctx_tensors_from_buft(
        p->weight_ctx, rival ? rival : ggml_backend_get_default_buffer_type(cpu));
    if (!p->weight_buffer)
        return false;
    if (rival) {
        y = ft_gemm_ggml(p->ctx, w, x);
    } else {
        ft_pack_mark(w);
        ft_gemm_rows rows = ft_gemm_make(p->ctx, ft_gemm_rows_type(w->type), x);
        y = ft_gemm(p->ctx, w, &rows, NULL);
    }
    p->graph = ggml_new_graph_custom(p->ctx, 16, false);
    ggml_build_forward_expand(p->graph, y);
    p->buffer = ggml_backend_alloc_ctx_tensors(p->ctx, cpu);
    if (!p->buffer || !set_weight(w))
        return false;
    for (int64_t i = 0; i < ggml_nelements(x); i++)
        ((float *)x->data)[i] = (float)(i % 31 - 15);
    return true;
}

static double thread_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* The shorter of *best (0: none yet) and one run. */
static bool time_run(const product *p, ggml_backend_t cpu, float *best)
{
    double begin = thread_us();
    bool ok = ggml_backend_graph_compute(cpu, p->graph) == GGML_STATUS_SUCCESS;
    float us = (float)(thread_us() - begin);
    *best = *best > 0 && *best < us ? *best : us;
    return ok;
}

static bool measure_rows(ft_gemm_choice *c, int i, ggml_backend_t cpu,
                         ggml_backend_buffer_type_t rival)
{
    product ours, theirs = {0};
    bool ok = product_init(&ours, c, ft_gemm_choice_rows[i], cpu, NULL) &&
              product_init(&theirs, c, ft_gemm_choice_rows[i], cpu, rival);
    for (int k = 0; k < REPEATS && ok; k++)
        ok = time_run(&ours, cpu, &c->ours_us[i]) && time_run(&theirs, cpu, &c->ggml_us[i]);
    product_deinit(&ours);
    product_deinit(&theirs);
    return ok;
}

/* ---- choices ---- */

/* ggml's products with floats round a row differently among others, which no speed makes up for; the
 * plain kernel's slowness would. */
static bool only_ours(const ft_gemm_choice *c)
{
    bool is_float =
        c->type == GGML_TYPE_F32 || c->type == GGML_TYPE_F16 || c->type == GGML_TYPE_BF16;
    return is_float && ft_gemm_kernel_best(c->type) != &ft_gemm_kernel_plain;
}

/* One that cannot be measured for want of memory is decided without. */
static void measure(ft_gemm_choice *c, ggml_backend_buffer_type_t rival)
{
    ggml_backend_t cpu = ggml_backend_cpu_init();
    double log_ratio = 0;
    bool ok = cpu != NULL;
    if (cpu)
        ggml_backend_cpu_set_n_threads(cpu, 1);
    for (int i = 0; i < FT_GEMM_CHOICE_ROWS && ok; i++) {
        ok = measure_rows(c, i, cpu, rival);
        log_ratio += log((c->ggml_us[i] + 1e-3) / (c->ours_us[i] + 1e-3));
    }
    ggml_backend_free(cpu);
    c->packed = ok ? log_ratio / FT_GEMM_CHOICE_ROWS >= log(TIE) : ft_pack_pays();
    c->packed = c->packed || only_ours(c);
    FT_LOGI("engine",
            "weights type=%s width=%u kernel=\"%s\" rows=1,4,16,64 us=%.0f,%.0f,%.0f,%.0f "
            "ggml=%s ggml_us=%.0f,%.0f,%.0f,%.0f packed=%d",
            ggml_type_name(c->type), c->n_in, c->kernel, (double)c->ours_us[0],
            (double)c->ours_us[1], (double)c->ours_us[2], (double)c->ours_us[3], c->rival,
            (double)c->ggml_us[0], (double)c->ggml_us[1], (double)c->ggml_us[2],
            (double)c->ggml_us[3], c->packed);
}

static uint32_t log2_of(uint32_t n)
{
    return 31 - (uint32_t)__builtin_clz(n);
}

/* The same type, and widths of one power of two, against the same rival. */
static bool same_class(const ft_gemm_choice *a, const ft_gemm_choice *b)
{
    return a->type == b->type && log2_of(a->n_in) == log2_of(b->n_in) &&
           strcmp(a->rival, b->rival) == 0;
}

bool ft_gemm_choose(enum ggml_type type, int64_t n_in, int64_t n_out,
                    ggml_backend_buffer_type_t rival)
{
    uint32_t width = (uint32_t)(n_in < MOST_IN ? n_in : MOST_IN), i = 0;
    uint32_t height =
        (WEIGHTS / width + 31) / 32 * 32; /* ggml repacks multiples of 8, some of 16 */
    ft_gemm_choice c = {.type = type,
                        .n_in = width,
                        .n_out = height < 512 ? height : 512,
                        .rival = ggml_backend_buft_name(rival),
                        .kernel = ft_gemm_kernel_best(type)->name};
    (void)n_out; /* more outputs are more of the same */
    pthread_mutex_lock(&lock);
    while (i < n_choices && !same_class(&choices[i], &c))
        i++;
    if (i < n_choices) {
        c = choices[i];
    } else {
        measure(&c, rival);
        if (n_choices < MAX_CHOICES)
            choices[n_choices++] = c;
    }
    pthread_mutex_unlock(&lock);
    return c.packed;
}

size_t ft_gemm_choices(ft_gemm_choice *out, size_t max)
{
    pthread_mutex_lock(&lock);
    size_t n = n_choices;
    memcpy(out, choices, (n < max ? n : max) * sizeof *out);
    pthread_mutex_unlock(&lock);
    return n;
}
