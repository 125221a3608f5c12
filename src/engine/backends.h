/* SPDX-License-Identifier: Apache-2.0
 *
 * The backends of an engine: the CPU with a pool of threads, and the devices that hold layers of
 * its model. A place has the same number as in the model (model.h): 0 is the CPU, n + 1 is the
 * model's n-th device. Owned by the engine's thread.
 *
 * Lock: one for all engines of the process, held inside the functions that compute.
 */
#ifndef FT_ENGINE_BACKENDS_H
#define FT_ENGINE_BACKENDS_H

#include "base/status.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "model/model.h"

#define FT_PLACES_MAX (FT_DEVICES_MAX + 1)

typedef struct ft_backends {
    ggml_backend_t at[FT_PLACES_MAX]; /* [n] by place; NULL if a device holds nothing */
    size_t n;
    struct ggml_threadpool *pool;
    int n_threads;
    bool devices; /* whether there is any backend besides the CPU */
    bool remote;  /* whether one of them is an RPC server's device */
} ft_backends;

/* Opens the backends that hold a part of the model. FT_NOMEM, FT_UNAVAILABLE (a device cannot be
 * opened): nothing needs a deinit then. */
FT_WARN_UNUSED ft_status ft_backends_init(ft_backends *backends, const ft_model *model,
                                          int n_threads, ft_error *err);
/* Computes a graph at one place, or one that `sched` spreads over several, and waits for it. The
 * caller is the engine's thread; other engines may compute at the same time, on the same devices,
 * too. */
FT_WARN_UNUSED enum ggml_status ft_backends_compute(const ft_backends *backends, uint32_t place,
                                                    struct ggml_cgraph *graph);
FT_WARN_UNUSED enum ggml_status ft_backends_compute_spread(const ft_backends *backends,
                                                           ggml_backend_sched_t sched,
                                                           struct ggml_cgraph *graph);
/* Legal for NULL and for an all-zero struct. */
void ft_backends_deinit(ft_backends *backends);

#endif
