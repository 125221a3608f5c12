// SPDX-License-Identifier: Apache-2.0
// Bytes that should be a lattice point's. The first byte chooses code and vocabulary, the next two
// are l. What is taken is a point, and the code writes the same bytes for it.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "spec/lattice.h"

enum { L_MOST = 1000 };

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_form(const ft_lattice_point *p, uint32_t l, uint32_t n_vocab)
{
    uint64_t sum = 0;
    require(p->l == l && p->n >= 1 && p->n <= l && p->n <= n_vocab);
    for (uint32_t i = 0; i < p->n; i++) {
        require(p->token[i] > (i > 0 ? p->token[i - 1] : -1) && (uint32_t)p->token[i] < n_vocab);
        require(p->count[i] >= 1);
        sum += p->count[i];
    }
    require(sum == l);
}

static void check(const ft_lattice_code *code, ft_lattice_work *work, uint32_t l,
                  const uint8_t *data, size_t n)
{
    const char *wrong = code->decode(work, l, data, n, &work->point);
    if (wrong) {
        require(wrong[0] != 0);
        return;
    }
    check_form(&work->point, l, work->n_vocab);
    const size_t most = code->most_bytes(work->n_vocab, l);
    uint8_t *again = malloc(most ? most : 1);
    require(again != NULL);
    const uint64_t bits = code->encode(work, &work->point, again, most);
    require(bits <= 8 * most && (bits + 7) / 8 == n);
    require(n == 0 || memcmp(again, data, n) == 0);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const uint32_t vocab[] = {1, 5, 300, 49152};
    if (n < 3)
        return 0;
    const uint32_t n_vocab = vocab[data[0] >> 1 & 3];
    const uint32_t l = 1 + (data[1] | (uint32_t)data[2] << 8) % L_MOST;
    void *memory = malloc(ft_lattice_work_bytes(n_vocab, l));
    require(memory != NULL);
    ft_lattice_work work = ft_lattice_work_in(memory, n_vocab, l);
    check(data[0] & 1 ? &ft_lattice_adaptive : &ft_lattice_index, &work, l, data + 3, n - 3);
    free(memory);
    return 0;
}
