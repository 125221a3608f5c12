// SPDX-License-Identifier: Apache-2.0
// Publishes the statistics, then calls the client's callback. The functions run on the engine
// thread. The inbox's lock guards the published copy of the statistics. There is no other state.
#include "serve/answers.h"

#include "model/streamed.h"

/* What passes have read of the target's file, where not all of it is in memory. */
static void read_streamed(ft_verifier *v)
{
    if (!v->opts.streamed)
        return;
    const ft_weight_stream_stats s = ft_streamed_stats(v->opts.streamed);
    v->stats.streamed_bytes = s.read_bytes;
    v->stats.streamed_wait_us = (uint64_t)s.waited_us;
}

void ft_answer_publish(ft_verifier *v)
{
    ft_engine_stats es;
    ft_engine_get_stats(v->engine, &es);
    v->stats.kv_blocks = es.blocks;
    v->stats.kv_blocks_free = es.blocks_free;
    v->stats.kv_used = es.blocks > 0 ? 1 - (double)es.blocks_free / es.blocks : 0;
    v->stats.kv_blocks_cached = es.blocks_cached;
    v->stats.prefix_evicted = es.prefix_evicted;
    v->stats.passes_alone = es.alone;
    v->stats.heads = es.heads;
    v->stats.head_rows = es.head_rows;
    read_streamed(v);
    pthread_mutex_lock(&v->inbox.lock);
    v->published.stats = v->stats;
    pthread_mutex_unlock(&v->inbox.lock);
}

void ft_answer(ft_verifier *v, ft_vsession *handle)
{
    ft_answer_publish(v);
    ft_handle_answer(handle, &v->answer);
}

void ft_answer_gone(ft_verifier *v, ft_vsession *handle, ft_status code, const char *message,
                    uint32_t retry_after_ms)
{
    ft_answer_publish(v);
    ft_handle_gone(handle, code, message, retry_after_ms);
}
