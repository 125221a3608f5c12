/* SPDX-License-Identifier: Apache-2.0
 * libllama as an oracle in tests: logits of every position of a prompt. */
#ifndef FT_TESTS_ORACLE_H
#define FT_TESTS_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

/* How libllama computes. */
typedef struct oracle_way {
    const char *device; /* as ft_devices_find has it; "none": the CPU */
    bool flash;
    uint32_t batch; /* tokens at a time; 0: all at once */
} oracle_way;

/* Logits [n, n_vocab] of a prompt; the caller frees. Ends the test program if the file does not
 * load. */
float *oracle_logits(const char *path, oracle_way way, const int32_t *tokens, uint32_t n,
                     uint32_t *n_vocab);

/* Sum of squared differences over the sum of b's squares. */
double oracle_nmse(const float *a, const float *b, uint64_t n);

#endif
