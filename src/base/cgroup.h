/* SPDX-License-Identifier: Apache-2.0
 *
 * What the memory cgroups of this process allow it (cgroups(7), version 1 or 2). Any thread.
 */
#ifndef FT_BASE_CGROUP_H
#define FT_BASE_CGROUP_H

#include <stddef.h>
#include <stdint.h>

/* The least limit of the process's group and of the groups around it, in bytes; UINT64_MAX: there
 * is none, or the system does not say. path (NULL: not wanted): the file that has it. */
uint64_t ft_cgroup_memory_limit(char *path, size_t path_size);

#endif
