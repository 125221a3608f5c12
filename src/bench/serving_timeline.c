// SPDX-License-Identifier: Apache-2.0
// The timeline of the serving comparison. No state beside the caller's.
#include "bench/serving_timeline.h"

ft_status ft_bench_timeline_open(ft_bench_timeline *t, const char *path, ft_error *err)
{
    const ft_timeline_opts opts = {
        .path = path, .process = "devices", .max_bytes = (uint64_t)FT_BENCH_TIMELINE_MB << 20};
    *t = (ft_bench_timeline){0};
    if (!path)
        return FT_OK;
    ft_status status = ft_timeline_open(&opts, err, &t->to);
    ft_timeline_name(t->to, FT_TIMELINE_MAIN, "modes");
    return status;
}

void ft_bench_timeline_mode(ft_bench_timeline *t, const char *mode, uint32_t rtt_us,
                            int64_t from_us, int64_t until_us)
{
    const ft_timeline_event e = {.name = mode,
                                 .track = FT_TIMELINE_MAIN,
                                 .begin_us = from_us,
                                 .end_us = until_us,
                                 .arg = {{"rtt_us", rtt_us}}};
    ft_timeline_add(t->to, &e);
    t->from_us = t->from_us ? t->from_us : from_us;
    t->until_us = until_us;
}

ft_status ft_bench_timeline_server(ft_bench_timeline *t, ft_bench_load_server *server,
                                   ft_error *err)
{
    char path[64];
    if (!t->to || server->pid <= 0)
        return FT_OK;
    ft_bench_load_server_end(server, path);
    return ft_timeline_include(t->to, path, t->from_us, t->until_us, err);
}

void ft_bench_timeline_close(ft_bench_timeline *t)
{
    ft_timeline_close(t->to);
    t->to = NULL;
}
