// SPDX-License-Identifier: Apache-2.0
// A memory cgroup: a directory, and files in it. In version 2 a cgroup that has processes can give
// no memory limits to its children, so there the parent's parents are tried, too.
#include "bench/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cgroup.h"

#define REMOVE_TRIES 50 /* the kernel may need a moment behind the last process */
#define REMOVE_NS    10000000

static bool write_file(const char *dir, const char *file, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return ok;
}

static bool limit(const ft_bench_cgroup *g, uint64_t bytes)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
    if (!write_file(g->dir, g->v2 ? "memory.max" : "memory.limit_in_bytes", text))
        return false;
    (void)(g->v2 ? write_file(g->dir, "memory.swap.max", "0")
                 : write_file(g->dir, "memory.memsw.limit_in_bytes", text));
    return true;
}

ft_status ft_bench_cgroup_make(uint64_t limit_bytes, ft_error *err, ft_bench_cgroup *out)
{
    static unsigned count;
    ft_cgroup parent;
    *out = (ft_bench_cgroup){0};
    count++;
    for (bool more = ft_cgroup_own(&parent); more; more = ft_cgroup_up(&parent)) {
        out->v2 = parent.v2;
        if (parent.v2)
            (void)write_file(parent.dir, "cgroup.subtree_control", "+memory");
        snprintf(out->dir, sizeof out->dir, "%s/foretoken-bench-%ld-%u", parent.dir, (long)getpid(),
                 count);
        if (mkdir(out->dir, 0755) != 0)
            continue;
        if (limit(out, limit_bytes))
            return FT_OK;
        rmdir(out->dir);
    }
    out->dir[0] = 0;
    return ft_error_set(err, FT_FORBIDDEN, "this process may make no memory cgroups");
}

bool ft_bench_cgroup_enter(const ft_bench_cgroup *g)
{
    return write_file(g->dir, "cgroup.procs", "0");
}

uint64_t ft_bench_cgroup_peak(const ft_bench_cgroup *g)
{
    char path[600];
    unsigned long long bytes = 0;
    snprintf(path, sizeof path, "%s/%s", g->dir,
             g->v2 ? "memory.peak" : "memory.max_usage_in_bytes");
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%llu", &bytes) != 1)
        bytes = 0;
    if (f)
        fclose(f);
    return bytes;
}

void ft_bench_cgroup_remove(ft_bench_cgroup *g)
{
    const struct timespec pause = {.tv_nsec = REMOVE_NS};
    for (int i = 0; g->dir[0] && i < REMOVE_TRIES && rmdir(g->dir) != 0 && errno == EBUSY; i++)
        nanosleep(&pause, NULL);
    g->dir[0] = 0;
}
