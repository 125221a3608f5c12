/* SPDX-License-Identifier: Apache-2.0
 *
 * Energy that the machine's processors have used, as the kernel's powercap interface counts it
 * (RAPL). It is of the whole machine, not of this process. Stateless; any thread.
 */
#ifndef FT_BASE_ENERGY_H
#define FT_BASE_ENERGY_H

#include <stdbool.h>
#include <stdint.h>

#define FT_ENERGY_ROOT     "/sys/class/powercap"
#define FT_ENERGY_PACKAGES 16 /* of a machine at most; others are not counted */

/* Counters of all packages, each of which starts again at 0 behind its `range`. */
typedef struct ft_energy {
    uint32_t n; /* 0: this machine has none, or this process may not read them */
    struct {
        uint64_t uj, range_uj;
    } package[FT_ENERGY_PACKAGES];
} ft_energy;

/* root: FT_ENERGY_ROOT. */
ft_energy ft_energy_now(const char *root);
/* Joules from one time to a later one; negative: not known. Right if no counter went round more
 * than once, which takes some minutes at least. */
double ft_energy_joules(const ft_energy *from, const ft_energy *to);

#endif
