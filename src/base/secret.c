// SPDX-License-Identifier: Apache-2.0
// Constant-time comparison, hexadecimal, FNV-1a. Pure functions.
#include "base/secret.h"

#include <string.h>

bool ft_secret_equal(const void *a, const void *b, size_t n)
{
    const volatile unsigned char *x = a, *y = b;
    unsigned char diff = 0;
    for (size_t i = 0; i < n; i++)
        diff |= (unsigned char)(x[i] ^ y[i]);
    return diff == 0;
}

bool ft_secret_equal_str(const char *expected, const char *given)
{
    if (!expected || !given)
        return false;
    size_t n_expected = strlen(expected), n_given = strlen(given);
    unsigned diff = n_expected != n_given;
    for (size_t i = 0; i < n_given; i++) {
        /* past the expected end compare with its NUL: never equal, never out of bounds */
        const volatile unsigned char *e = (const volatile unsigned char *)expected;
        diff |= (unsigned)(e[i < n_expected ? i : n_expected] ^ (unsigned char)given[i]);
    }
    return diff == 0;
}

void ft_hex(const void *data, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * n] = 0;
}

uint64_t ft_fnv64(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ p[i]) * 0x100000001b3ull;
    return hash;
}
