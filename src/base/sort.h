/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorts in place without allocating (the C library's qsort allocates for long arrays). */
#ifndef FT_BASE_SORT_H
#define FT_BASE_SORT_H

#include <stdbool.h>
#include <stddef.h>

#define FT_SORT_SIZE_MAX 64 /* bytes of an element */

/* Whether element a comes before element b. */
typedef bool ft_sort_before(const void *ctx, const void *a, const void *b);

/* Sorts n elements of `size` bytes each, in n log n steps for any input. Not stable: if equal
 * elements must keep an order, `before` decides it. */
void ft_sort(void *array, size_t n, size_t size, ft_sort_before *before, const void *ctx);

/* Finds the first few of many elements without sorting the rest. ft_heap_make orders n elements as
 * a heap, in about n steps. Each ft_heap_pop moves the first of n elements to array[n - 1] and
 * leaves a heap of n - 1 elements, in log n steps. */
void ft_heap_make(void *array, size_t n, size_t size, ft_sort_before *before, const void *ctx);
void ft_heap_pop(void *array, size_t n, size_t size, ft_sort_before *before, const void *ctx);

#endif
