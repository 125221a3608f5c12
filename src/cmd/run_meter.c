// SPDX-License-Identifier: Apache-2.0
// Marks at the first and the last piece of an answer, and their difference. Owned by the thread
// that generates.
#include "cmd/run_meter.h"

#include <sys/resource.h>

#include "base/clock.h"

static int64_t micros(struct timeval t)
{
    return (int64_t)t.tv_sec * 1000000 + t.tv_usec;
}

static void mark(ft_run_meter *m, ft_run_mark *out)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    out->us = ft_monotonic_us();
    out->cpu_us = micros(usage.ru_utime) + micros(usage.ru_stime);
    out->energy = ft_energy_now(FT_ENERGY_ROOT);
    if (m->streamed)
        out->stream = ft_streamed_stats(m->streamed);
}

void ft_run_meter_begin(ft_run_meter *m, ft_streamed *streamed)
{
    *m = (ft_run_meter){.streamed = streamed};
}

void ft_run_meter_piece(ft_run_meter *m, size_t n_tokens)
{
    if (m->pieces == 0)
        m->start_us = ft_process_age_us();
    mark(m, m->pieces ? &m->last : &m->first);
    m->tokens += m->pieces++ ? n_tokens : 0;
}

double ft_run_meter_tokens_per_s(const ft_run_meter *m)
{
    const double us = m->pieces > 1 ? (double)(m->last.us - m->first.us) : 0;
    return us > 0 ? (double)m->tokens * 1e6 / us : 0;
}

/* Since `from`. */
static void set_stream(json_t *object, const ft_weight_stream_stats *now,
                       const ft_weight_stream_stats *from)
{
    json_object_set_new(object, "streamed_bytes",
                        json_integer((json_int_t)(now->read_bytes - from->read_bytes)));
    json_object_set_new(object, "streamed_us", json_integer(now->reading_us - from->reading_us));
    json_object_set_new(object, "streamed_waited_us",
                        json_integer(now->waited_us - from->waited_us));
}

void ft_run_meter_json(const ft_run_meter *m, json_t *object)
{
    const ft_run_mark *last = m->pieces > 1 ? &m->last : &m->first;
    json_t *decode = json_pack("{s:I, s:f, s:f}", "tokens", (json_int_t)m->tokens, "ms",
                               (double)(last->us - m->first.us) / 1e3, "cpu_ms",
                               (double)(last->cpu_us - m->first.cpu_us) / 1e3);
    const double joules = ft_energy_joules(&m->first.energy, &last->energy);
    json_object_set_new(decode, "joules", joules < 0 ? json_null() : json_real(joules));
    json_object_set_new(object, "start_ms",
                        m->start_us > 0 ? json_real((double)m->start_us / 1e3) : json_null());
    json_object_set_new(object, "decode", decode);
    if (!m->streamed)
        return;
    const ft_weight_stream_stats none = {0}, now = ft_streamed_stats(m->streamed);
    set_stream(decode, &last->stream, &m->first.stream);
    set_stream(object, &now, &none);
}
