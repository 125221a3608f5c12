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

typedef struct found {
    uint64_t limit;
    char path[512];
} found;

/* Looks at a group and at all around it; `group` is shortened on the way. */
static void look(const char *root, char *group, const char *file, found *least)
{
    for (;;) {
        char path[sizeof least->path];
        const int n = snprintf(path, sizeof path, "%s%s/%s", root, group, file);
        const uint64_t limit = n < (int)sizeof path ? read_limit(path) : UINT64_MAX;
        if (limit < least->limit) {
            least->limit = limit;
            memcpy(least->path, path, sizeof path);
        }
        char *slash = strrchr(group, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

/* One line of /proc/self/cgroup. */
static void look_at_line(char *line, found *least)
{
    char *controllers = strchr(line, ':'),
         *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return;
    *group++ = 0;
    group[strcspn(group, "\n")] = 0;
    if (strcmp(group, "/") == 0)
        *group = 0;
    if (strcmp(controllers, ":memory") == 0)
        look(ROOT_V1, group, "memory.limit_in_bytes", least);
    else if (strcmp(controllers, ":") == 0)
        look(ROOT_V2, group, "memory.max", least);
}

uint64_t ft_cgroup_memory_limit(char *path, size_t path_size)
{
    found least = {.limit = UINT64_MAX};
    char line[512];
    FILE *f = fopen("/proc/self/cgroup", "r");
    while (f && fgets(line, sizeof line, f))
        look_at_line(line, &least);
    if (f)
        fclose(f);
    if (path && path_size)
        snprintf(path, path_size, "%s", least.path);
    return least.limit;
}
