/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers for credentials: comparison in constant time, hexadecimal, and a keyed hash. Also the
 * 64-bit hash FNV-1a for fingerprints, which is not for secrets.
 */
#ifndef FT_BASE_SECRET_H
#define FT_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Compares n bytes; the time depends only on n. */
bool ft_secret_equal(const void *a, const void *b, size_t n);

/* Compares strings; the time depends only on the length of `given`. False if one is NULL. */
bool ft_secret_equal_str(const char *expected, const char *given);

/* Writes n bytes as lower-case hexadecimal to out[2 * n + 1]. */
void ft_hex(const void *data, size_t n, char *out);
/* Whether text is n such digits and no more. */
bool ft_hex_is(const char *text, size_t n);

/* SipHash-2-4 (Aumasson and Bernstein, SipHash: a fast short-input PRF, 2012) of n bytes. Who does
 * not have the key can neither predict it nor find two inputs with the same hash. */
uint64_t ft_siphash(const uint8_t key[16], const void *data, size_t n);

#define FT_FNV64_INIT 0xcbf29ce484222325ull
/* Continues an FNV-1a hash over n bytes. */
uint64_t ft_fnv64(uint64_t hash, const void *data, size_t n);

#endif
