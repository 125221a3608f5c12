/* SPDX-License-Identifier: Apache-2.0
 *
 * What the memory cgroups of this process allow it (cgroups(7), version 1 or 2). Any thread.
 */
#ifndef FT_BASE_CGROUP_H
#define FT_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A group that the memory of processes is counted in. */
typedef struct ft_cgroup {
    char dir[480]; /* its directory */
    size_t root;   /* length of the hierarchy's own directory, with which dir begins */
    bool v2;
} ft_cgroup;

/* The group of this process or, where only a part of the hierarchy is mounted, the nearest one
 * around it. false: there is none. */
bool ft_cgroup_own(ft_cgroup *out);
/* Goes to the group around it; false: it is the outermost one. */
bool ft_cgroup_up(ft_cgroup *group);

/* The least limit of the process's group and of the groups around it, in bytes; UINT64_MAX: there
 * is none, or the system does not say. path (NULL: not wanted): the file that has it. */
uint64_t ft_cgroup_memory_limit(char *path, size_t path_size);

#endif
