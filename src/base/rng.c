// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10, a sequence of its outputs, and the kernel's random bytes.
#include "base/rng.h"

#include <errno.h>
#include <math.h>
#include <sys/random.h>

void ft_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void ft_rng_init(ft_rng *rng, uint64_t seed)
{
    *rng = (ft_rng){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)}};
}

uint32_t ft_rng_u32(ft_rng *rng)
{
    if (rng->left == 0) {
        uint32_t counter[4] = {(uint32_t)rng->counter, (uint32_t)(rng->counter >> 32), 0, 0};
        ft_philox4x32(counter, rng->key, rng->out);
        rng->counter++;
        rng->left = 4;
    }
    return rng->out[--rng->left];
}

uint32_t ft_rng_below(ft_rng *rng, uint32_t n)
{
    return (uint32_t)(((uint64_t)ft_rng_u32(rng) * n) >> 32);
}

double ft_rng_unit(ft_rng *rng)
{
    return (ft_rng_u32(rng) + 0.5) / 4294967296.0;
}

double ft_rng_normal(ft_rng *rng)
{
    double u = ft_rng_unit(rng), v = ft_rng_unit(rng);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v); /* Box-Muller */
}

ft_status ft_random_bytes(void *out, size_t n)
{
    unsigned char *p = out;
    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return FT_IO;
        p += got;
        n -= (size_t)got;
    }
    return FT_OK;
}
