// SPDX-License-Identifier: Apache-2.0
// A trace file, which may come from anywhere. Each input is written into a file and read: what is
// taken is whole and within its limits.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "learn/trace.h"

static char path[] = "/tmp/ft_fuzz_trace_XXXXXX";

static void require(int condition)
{
    if (!condition)
        abort();
}

static void clean(void)
{
    char beside[sizeof path + 8];
    unlink(path);
    snprintf(beside, sizeof beside, "%s-wal", path);
    unlink(beside);
    snprintf(beside, sizeof beside, "%s-shm", path);
    unlink(beside);
}

static void write_input(const uint8_t *data, size_t n)
{
    static int made;
    if (!made) {
        int fd = mkstemp(path);
        require(fd >= 0);
        close(fd);
        atexit(clean);
        made = 1;
    }
    clean();
    FILE *file = fopen(path, "wb");
    require(file != NULL);
    require(fwrite(data, 1, n, file) == n);
    require(fclose(file) == 0);
}

static bool see(void *ctx, const ft_trace_sample *s)
{
    uint64_t *n = ctx;
    require(s->index < FT_TRACE_NODES && s->parent >= -1 && s->parent < (int32_t)s->index);
    require(s->depth <= s->index);
    for (int f = 0; f < FT_FEATURES; f++)
        require(isfinite(s->feature[f]));
    return ++*n < 10000;
}

static bool see_round(void *ctx, const ft_trace_drafted *r)
{
    uint64_t *n = ctx;
    require(r->drafted > 0 && r->drafted <= FT_TRACE_NODES && r->accepted <= r->drafted);
    require(r->draft_us >= -1 && r->rtt_us >= -1 && r->queue_us >= -1 && r->verify_us >= -1);
    return ++*n < 10000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_trace_summary s;
    ft_error err = {0};
    uint64_t samples = 0, rounds = 0;
    write_input(data, n);
    if (ft_trace_summarize(path, &err, &s) == FT_OK)
        require(s.n_depths <= FT_TRACE_NODES && s.accepted <= s.nodes && s.judged <= s.nodes);
    else
        require(err.message[0] != 0);
    err.message[0] = 0;
    if (ft_trace_each_node(path, see, &samples, &err) != FT_OK)
        require(err.message[0] != 0);
    err.message[0] = 0;
    if (ft_trace_each_round(path, see_round, &rounds, &err) != FT_OK)
        require(err.message[0] != 0);
    return 0;
}
