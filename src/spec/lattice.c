// SPDX-License-Identifier: Apache-2.0
// The lattice quantizer (Reznik, An Algorithm for Quantization of Discrete Probability
// Distributions, DCC 2011; Quantize-Sample-and-Verify III-B) and the workspace of points.
// Invariant: a point depends on l, tokens and weights alone, to the bit. Probabilities are integer
// weights over their integer sum W, so the products l w and the errors b W - l w are exact, and
// equal errors are equal on every machine. The workspace's owner calls. Codes are in
// lattice_index.c and lattice_adaptive.c.
#include "spec/lattice.h"

#include <assert.h>
#include <stdbool.h>

#include "base/num.h"
#include "base/sort.h"
#include "spec/sampling.h"

/* ---- workspace ---- */

#define ALIGN 16

/* The next `bytes` of a workspace's memory; memory NULL: only counts. */
static void *part(char *memory, size_t *used, size_t bytes)
{
    void *at = memory ? memory + *used : NULL;
    *used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static size_t divide(char *memory, uint32_t n_vocab, uint32_t l_max, ft_lattice_work *work)
{
    const size_t n_point = ft_min_u32(l_max, n_vocab);
    size_t used = 0;
    assert(n_vocab > 0 && n_vocab <= INT32_MAX && l_max > 0 && l_max <= FT_LATTICE_L_MAX);
    *work = (ft_lattice_work){
        .n_vocab = n_vocab, .l_max = l_max, .n_limbs = ft_lattice_index_limbs(n_vocab, l_max)};
    work->point.token = part(memory, &used, n_point * sizeof *work->point.token);
    work->point.count = part(memory, &used, n_point * sizeof *work->point.count);
    work->errors = part(memory, &used, n_vocab * sizeof *work->errors);
    for (size_t i = 0; i < FT_COUNT(work->number); i++)
        work->number[i] = part(memory, &used, work->n_limbs * sizeof *work->number[i]);
    return used;
}

size_t ft_lattice_work_bytes(uint32_t n_vocab, uint32_t l_max)
{
    ft_lattice_work work;
    return divide(NULL, n_vocab, l_max, &work);
}

ft_lattice_work ft_lattice_work_in(void *memory, uint32_t n_vocab, uint32_t l_max)
{
    ft_lattice_work work;
    (void)divide(memory, n_vocab, l_max, &work);
    return work;
}

/* ---- the nearest point ---- */

/* floor(l w / W + 1/2). Most tokens of a vocabulary round to 0, and need no division. */
static inline uint32_t rounded(uint64_t l_w, uint64_t sum)
{
    return 2 * l_w < sum ? 0 : (uint32_t)((2 * l_w + sum) / (2 * sum));
}

/* The error that is corrected first; of equal ones, the lower token's. */
static bool corrected_before(const void *ctx, const void *a, const void *b)
{
    const ft_lattice_error *x = a, *y = b;
    return x->error < y->error || (x->error == y->error && x->index < y->index);
}

static bool by_index(const void *ctx, const void *a, const void *b)
{
    return ((const ft_lattice_error *)a)->index < ((const ft_lattice_error *)b)->index;
}

/* Moves those of e[n] to the front that may be among the n_chosen smallest, and returns how many
 * they are. A vocabulary has mostly tokens that round to 0 with hardly an error, and most of these
 * stay behind. Errors are within half of `sum`. */
static size_t narrow(ft_lattice_error *e, size_t n, size_t n_chosen, uint64_t sum)
{
    enum { PARTS = 512 };
    const int64_t half = (int64_t)(sum / 2 + 1);
    size_t count[PARTS + 2] = {0}, below = 0, last = 0, kept = 0;
    uint32_t shift = 0;
    while (sum >> shift >= PARTS)
        shift++;
    for (size_t i = 0; i < n; i++)
        count[(uint64_t)(e[i].error + half) >> shift]++;
    while ((below += count[last]) < n_chosen)
        last++;
    for (size_t i = 0; i < n; i++)
        if ((uint64_t)(e[i].error + half) >> shift <= last)
            e[kept++] = e[i];
    return kept;
}

/* Where the rounded counts sum to `over` more than l, those of the `over` largest errors lose one;
 * where they sum to less, those of the smallest gain one (Reznik's third step). At least twice as
 * many errors as that have the right sign, because each is at most 1/2: so no count falls below 0.
 * Returns the chosen tokens [n_chosen] by index. */
static const ft_lattice_error *choose(ft_lattice_error *e, size_t n, int64_t over, size_t n_chosen,
                                      uint64_t sum)
{
    for (size_t i = 0; over > 0 && i < n; i++)
        e[i].error = -e[i].error;
    n = narrow(e, n, n_chosen, sum);
    ft_heap_make(e, n, sizeof *e, corrected_before, NULL);
    for (size_t i = 0; i < n_chosen; i++)
        ft_heap_pop(e, n - i, sizeof *e, corrected_before, NULL);
    ft_sort(e + n - n_chosen, n_chosen, sizeof *e, by_index, NULL);
    return e + n - n_chosen;
}

void ft_lattice_quantize(ft_lattice_work *work, uint32_t l, const int32_t *tokens,
                         const uint64_t *weights, size_t n, ft_lattice_point *out)
{
    uint64_t sum = 0;
    int64_t over = -(int64_t)l;
    assert(l > 0 && l <= work->l_max && n > 0 && n <= work->n_vocab);
    for (size_t i = 0; i < n; i++) {
        assert(weights[i] > 0 && weights[i] <= FT_SAMPLING_WEIGHT_MAX);
        sum += weights[i];
    }
    assert(sum < UINT64_C(1) << 62);
    for (size_t i = 0; i < n; i++) {
        const uint32_t count = rounded(l * weights[i], sum);
        over += count;
        work->errors[i] = (ft_lattice_error){(int64_t)(count * sum - l * weights[i]), (uint32_t)i};
    }
    const size_t n_chosen = (size_t)(over < 0 ? -over : over);
    const ft_lattice_error *chosen = over ? choose(work->errors, n, over, n_chosen, sum) : NULL;
    *out = (ft_lattice_point){.l = l, .token = out->token, .count = out->count};
    for (size_t i = 0, c = 0; i < n; i++) {
        uint32_t count = rounded(l * weights[i], sum);
        if (c < n_chosen && chosen[c].index == i) {
            count += over < 0 ? 1 : UINT32_MAX; /* that is, 1 less */
            c++;
        }
        if (count == 0)
            continue;
        out->token[out->n] = tokens[i];
        out->count[out->n++] = count;
    }
}

uint32_t ft_lattice_count(const ft_lattice_point *point, int32_t token)
{
    uint32_t lo = 0, hi = point->n;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (point->token[mid] == token)
            return point->count[mid];
        if (point->token[mid] < token)
            lo = mid + 1;
        else
            hi = mid;
    }
    return 0;
}
