// SPDX-License-Identifier: Apache-2.0
// The packages' counters: ROOT/intel-rapl:N/energy_uj, and max_energy_range_uj beside it. AMD's
// processors have the same names.
#include "base/energy.h"

#include <inttypes.h>
#include <stdio.h>

static bool read_number(const char *root, uint32_t package, const char *file, uint64_t *out)
{
    char path[300];
    snprintf(path, sizeof path, "%s/intel-rapl:%u/%s", root, package, file);
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    const bool ok = fscanf(f, "%" SCNu64, out) == 1;
    fclose(f);
    return ok;
}

ft_energy ft_energy_now(const char *root)
{
    ft_energy e = {0};
    while (e.n < FT_ENERGY_PACKAGES && read_number(root, e.n, "energy_uj", &e.package[e.n].uj) &&
           read_number(root, e.n, "max_energy_range_uj", &e.package[e.n].range_uj))
        e.n++;
    return e;
}

double ft_energy_joules(const ft_energy *from, const ft_energy *to)
{
    double uj = 0;
    if (from->n == 0 || from->n != to->n)
        return -1;
    for (uint32_t i = 0; i < to->n; i++) {
        const uint64_t a = from->package[i].uj, b = to->package[i].uj;
        uj += b >= a ? (double)(b - a) : (double)(b + to->package[i].range_uj - a);
    }
    return uj / 1e6;
}
