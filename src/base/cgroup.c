// SPDX-License-Identifier: Apache-2.0
// Memory limits of cgroups. A line of /proc/self/cgroup names the process's group in a hierarchy:
// "4:memory:/a/b" in version 1, "0::/a/b" in version 2. Each group on the way to the root may have
// a limit. Stateless.
#include "base/cgroup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOT_V1 "/sys/fs/cgroup/memory"
#define ROOT_V2 "/sys/fs/cgroup"

/* The number in a file; UINT64_MAX: there is no file, or it says "max". */
static uint64_t read_limit(const char *path)
{
    char text[64] = "";
    char *end = text;
    FILE *f = fopen(path, "r");
    if (!f)
        return UINT64_MAX;
    const char *line = fgets(text, sizeof text, f);
    fclose(f);
    errno = 0;
    const uint64_t limit = line ? strtoull(text, &end, 10) : 0;
    return end == text || errno ? UINT64_MAX : limit;
}

/* A line of /proc/self/cgroup: the directory that it names; false: it is about no memory. */
static bool read_line(char *line, ft_cgroup *out)
{
    char *controllers = strchr(line, ':'),
         *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return false;
    *group++ = 0;
    group[strcspn(group, "\n")] = 0;
    out->v2 = strcmp(controllers, ":") == 0;
    if (!out->v2 && strcmp(controllers, ":memory") != 0)
        return false;
    out->root = strlen(out->v2 ? ROOT_V2 : ROOT_V1);
    const int n = snprintf(out->dir, sizeof out->dir, "%s%s", out->v2 ? ROOT_V2 : ROOT_V1,
                           strcmp(group, "/") == 0 ? "" : group);
    return n < (int)sizeof out->dir;
}

bool ft_cgroup_own(ft_cgroup *out)
{
    char line[512];
    bool known = false;
    FILE *f = fopen("/proc/self/cgroup", "r");
    *out = (ft_cgroup){0};
    while (f && fgets(line, sizeof line, f)) {
        ft_cgroup one;
        /* with both versions mounted, the memory controller is in version 1 if that has it */
        if (!read_line(line, &one) || (known && one.v2))
            continue;
        *out = one;
        known = true;
    }
    if (f)
        fclose(f);
    while (known && access(out->dir, R_OK) != 0)
        if (!ft_cgroup_up(out))
            known = false; /* none of it is mounted */
    return known;
}

bool ft_cgroup_up(ft_cgroup *group)
{
    if (strlen(group->dir) <= group->root)
        return false;
    *strrchr(group->dir, '/') = 0;
    return true;
}

uint64_t ft_cgroup_memory_limit(char *path, size_t path_size)
{
    ft_cgroup group;
    uint64_t least = UINT64_MAX;
    if (path && path_size)
        *path = 0;
    for (bool more = ft_cgroup_own(&group); more; more = ft_cgroup_up(&group)) {
        char file[sizeof group.dir + 32];
        snprintf(file, sizeof file, "%s/%s", group.dir,
                 group.v2 ? "memory.max" : "memory.limit_in_bytes");
        const uint64_t limit = read_limit(file);
        if (limit >= least)
            continue;
        least = limit;
        if (path && path_size)
            snprintf(path, path_size, "%s", file);
    }
    return least;
}
