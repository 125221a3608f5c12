// SPDX-License-Identifier: Apache-2.0
// Heap sort. Stateless; any thread.
#include "base/sort.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

typedef struct heap {
    char *array;
    size_t size;
    ft_sort_before *before;
    const void *ctx;
    bool first_on_top; /* false: the last one is */
} heap;

/* Whether b belongs above a. */
static bool is_below(const heap *h, size_t a, size_t b)
{
    const char *x = h->array + a * h->size, *y = h->array + b * h->size;
    return h->first_on_top ? h->before(h->ctx, y, x) : h->before(h->ctx, x, y);
}

static void swap(const heap *h, size_t a, size_t b)
{
    char held[FT_SORT_SIZE_MAX], *x = h->array + a * h->size, *y = h->array + b * h->size;
    if (h->size == sizeof(uint64_t)) { /* copies of a known size need no call */
        uint64_t one, other;
        memcpy(&one, x, sizeof one);
        memcpy(&other, y, sizeof other);
        memcpy(x, &other, sizeof other);
        memcpy(y, &one, sizeof one);
        return;
    }
    memcpy(held, x, h->size);
    memcpy(x, y, h->size);
    memcpy(y, held, h->size);
}

static void sift_down(const heap *h, size_t n, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && is_below(h, child, child + 1))
            child++;
        if (!is_below(h, i, child))
            return;
        swap(h, i, child);
    }
}

static void make(const heap *h, size_t n)
{
    assert(h->size <= FT_SORT_SIZE_MAX);
    for (size_t i = n / 2; i-- > 0;)
        sift_down(h, n, i);
}

static void pop(const heap *h, size_t n)
{
    swap(h, 0, n - 1);
    sift_down(h, n - 1, 0);
}

void ft_sort(void *array, size_t n, size_t size, ft_sort_before *before, const void *ctx)
{
    const heap h = {array, size, before, ctx, false};
    make(&h, n);
    for (size_t end = n; end > 1; end--)
        pop(&h, end);
}

void ft_heap_make(void *array, size_t n, size_t size, ft_sort_before *before, const void *ctx)
{
    const heap h = {array, size, before, ctx, true};
    make(&h, n);
}

void ft_heap_pop(void *array, size_t n, size_t size, ft_sort_before *before, const void *ctx)
{
    const heap h = {array, size, before, ctx, true};
    pop(&h, n);
}
