// SPDX-License-Identifier: Apache-2.0
// The CPU and the devices of an engine. Owned by the engine's thread.
//
// ggml's pool of CPU threads is created once; the owner is one of its threads. They sleep between
// passes. Waking them costs microseconds. Polling would take a core from other programs, above all
// from another engine on this machine: with draft and target on one machine, a round takes 3.5 ms
// with sleeping threads and 6.7 ms with polling ones.
//
// An RPC server computes its last graph again when it is told to. ggml's RPC backend notes which
// graph that is before it sends the graph, and one note serves all engines of the process: two
// threads can leave the wrong one. So engines with layers on RPC servers hand over their graphs one
// after another, under `handing_over`, and wait for the last result without it.
#include "engine/backends.h"

#include <pthread.h>
#include <string.h>

#define POLL 0 /* ggml's setting: no polling between passes */

static pthread_mutex_t handing_over = PTHREAD_MUTEX_INITIALIZER;

static ft_status open_cpu(ft_backends *backends)
{
    struct ggml_threadpool_params params = ggml_threadpool_params_default(backends->n_threads);
    params.poll = POLL;
    backends->at[0] = ggml_backend_cpu_init();
    backends->pool = ggml_threadpool_new(&params);
    if (!backends->at[0] || !backends->pool)
        return FT_NOMEM;
    ggml_backend_cpu_set_threadpool(backends->at[0], backends->pool);
    ggml_backend_cpu_set_n_threads(backends->at[0], backends->n_threads);
    return FT_OK;
}

static bool holds_any(const ft_model *model, uint32_t place)
{
    for (uint32_t i = 0; i < ft_model_hparams(model)->n_layer; i++)
        if (ft_model_where_layer(model, i) == place)
            return true;
    return ft_model_where_head(model) == place || ft_model_where_embedding(model) == place;
}

static bool is_remote(ggml_backend_dev_t dev)
{
    return strcmp(ggml_backend_reg_name(ggml_backend_dev_backend_reg(dev)), "RPC") == 0;
}

ft_status ft_backends_init(ft_backends *backends, const ft_model *model, int n_threads,
                           ft_error *err)
{
    const ft_devices *devices = ft_model_devices(model);
    *backends = (ft_backends){.n = 1 + devices->n, .n_threads = n_threads};
    if (open_cpu(backends) != FT_OK) {
        ft_backends_deinit(backends);
        return ft_error_set(err, FT_NOMEM, "engine: no memory for %d threads", n_threads);
    }
    for (uint32_t place = 1; place < backends->n; place++) {
        if (!holds_any(model, place))
            continue;
        backends->at[place] = ggml_backend_dev_init(devices->dev[place - 1], NULL);
        if (!backends->at[place]) {
            ft_backends_deinit(backends);
            return ft_error_set(err, FT_UNAVAILABLE, "engine: device %s cannot be opened",
                                ggml_backend_dev_name(devices->dev[place - 1]));
        }
        backends->devices = true;
        backends->remote = backends->remote || is_remote(devices->dev[place - 1]);
    }
    return FT_OK;
}

static void lock_if(bool remote)
{
    if (remote)
        pthread_mutex_lock(&handing_over);
}

static void unlock_if(bool remote)
{
    if (remote)
        pthread_mutex_unlock(&handing_over);
}

enum ggml_status ft_backends_compute(const ft_backends *backends, uint32_t place,
                                     struct ggml_cgraph *graph)
{
    lock_if(backends->remote);
    const enum ggml_status status = ggml_backend_graph_compute_async(backends->at[place], graph);
    unlock_if(backends->remote);
    ggml_backend_synchronize(backends->at[place]);
    return status;
}

enum ggml_status ft_backends_compute_spread(const ft_backends *backends, ggml_backend_sched_t sched,
                                            struct ggml_cgraph *graph)
{
    lock_if(backends->remote);
    const enum ggml_status status = ggml_backend_sched_graph_compute_async(sched, graph);
    unlock_if(backends->remote);
    ggml_backend_sched_synchronize(sched);
    return status;
}

void ft_backends_deinit(ft_backends *backends)
{
    for (size_t i = 0; i < backends->n; i++)
        if (backends->at[i])
            ggml_backend_free(backends->at[i]);
    if (backends->pool)
        ggml_threadpool_free(backends->pool);
    *backends = (ft_backends){0};
}
