/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting in place without allocating: the C library's qsort takes memory for long arrays. */
#ifndef FT_BASE_SORT_H
#define FT_BASE_SORT_H

#include <stdbool.h>
#include <stddef.h>

#define FT_SORT_SIZE_MAX 64 /* bytes of an element */

/* Whether element a stands before b. */
typedef bool ft_sort_before(const void *ctx, const void *a, const void *b);

/* n elements of `size` bytes each; n log n steps whatever order they are in. Not stable: where
 * equal elements should keep an order, `before` says which. */
void ft_sort(void *array, size_t n, size_t size, ft_sort_before *before, const void *ctx);

/* The first few of many, without sorting the rest: make orders n elements as a heap (some n steps),
 * each pop then moves the first of n to array[n - 1] and leaves a heap of n - 1 (log n steps). */
void ft_heap_make(void *array, size_t n, size_t size, ft_sort_before *before, const void *ctx);
void ft_heap_pop(void *array, size_t n, size_t size, ft_sort_before *before, const void *ctx);

#endif
