// SPDX-License-Identifier: Apache-2.0
// Heap sort. Stateless; any thread.
#include "base/sort.h"

#include <assert.h>
#include <string.h>

typedef struct heap {
    char *array;
    size_t size;
    ft_sort_before *before;
    const void *ctx;
} heap;

static bool stands_before(const heap *h, size_t a, size_t b)
{
    return h->before(h->ctx, h->array + a * h->size, h->array + b * h->size);
}

static void swap(const heap *h, size_t a, size_t b)
{
    char held[FT_SORT_SIZE_MAX], *x = h->array + a * h->size, *y = h->array + b * h->size;
    memcpy(held, x, h->size);
    memcpy(x, y, h->size);
    memcpy(y, held, h->size);
}

/* The last in order is on top. */
static void sift_down(const heap *h, size_t n, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && stands_before(h, child, child + 1))
            child++;
        if (!stands_before(h, i, child))
            return;
        swap(h, i, child);
    }
}

void ft_sort(void *array, size_t n, size_t size, ft_sort_before *before, const void *ctx)
{
    const heap h = {array, size, before, ctx};
    assert(size <= FT_SORT_SIZE_MAX);
    for (size_t i = n / 2; i-- > 0;)
        sift_down(&h, n, i);
    for (size_t end = n; end > 1;) {
        swap(&h, 0, --end);
        sift_down(&h, end, 0);
    }
}
