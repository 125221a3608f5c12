// SPDX-License-Identifier: Apache-2.0
// Constant-time comparison, hexadecimal, SipHash, FNV-1a. Pure functions.
#include "base/secret.h"

#include <string.h>

#define HEX_DIGITS "0123456789abcdef"

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
        /* behind the end of `expected`: compares with its NUL, which is never equal */
        const volatile unsigned char *e = (const volatile unsigned char *)expected;
        diff |= (unsigned)(e[i < n_expected ? i : n_expected] ^ (unsigned char)given[i]);
    }
    return diff == 0;
}

void ft_hex(const void *data, size_t n, char *out)
{
    static const char digits[] = HEX_DIGITS;
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * n] = 0;
}

bool ft_hex_is(const char *text, size_t n)
{
    return strlen(text) == n && strspn(text, HEX_DIGITS) == n;
}

/* Little-endian, up to eight bytes. */
static uint64_t load(const unsigned char *p, size_t n)
{
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++)
        word |= (uint64_t)p[i] << (8 * i);
    return word;
}

static uint64_t rotated(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void sip_rounds(uint64_t v[4], int n)
{
    while (n-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotated(v[1], 13) ^ v[0];
        v[3] = rotated(v[3], 16) ^ v[2];
        v[0] = rotated(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotated(v[1], 17) ^ v[2];
        v[3] = rotated(v[3], 21) ^ v[0];
        v[2] = rotated(v[2], 32);
    }
}

static void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_rounds(v, 2);
    v[0] ^= word;
}

uint64_t ft_siphash(const uint8_t key[16], const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t k0 = load(key, 8), k1 = load(key + 8, 8);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575ull, k1 ^ 0x646f72616e646f6dull,
                     k0 ^ 0x6c7967656e657261ull, k1 ^ 0x7465646279746573ull};
    for (size_t i = 0; i + 8 <= n; i += 8)
        sip_word(v, load(p + i, 8));
    sip_word(v, load(p + n / 8 * 8, n % 8) | (uint64_t)n << 56);
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t ft_fnv64(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ p[i]) * 0x100000001b3ull;
    return hash;
}
