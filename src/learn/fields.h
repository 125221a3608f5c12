/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of JSON files that this program writes: reading checks type and range, and takes a missing
 * field (NULL) as wrong. Pure; any thread. */
#ifndef FT_LEARN_FIELDS_H
#define FT_LEARN_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a file shows of a model's fingerprint: 16 hexadecimal digits. */
bool ft_field_fingerprint(const json_t *value, uint64_t *out);
json_t *ft_field_fingerprint_json(uint64_t fingerprint);

/* Numbers from `least` to `most`. */
bool ft_field_number(const json_t *value, double least, double most, double *out);
bool ft_field_whole(const json_t *value, uint32_t least, uint32_t most, uint32_t *out);

/* Lists of exactly n. NULL of a writer: out of memory. */
bool ft_field_floats(const json_t *array, size_t n, double least, double most, float *out);
json_t *ft_field_floats_json(const float *x, size_t n);
bool ft_field_wholes(const json_t *array, size_t n, uint32_t most, uint32_t *out); /* from 1 */
json_t *ft_field_wholes_json(const uint32_t *x, size_t n);

#endif
