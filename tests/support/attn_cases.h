/* SPDX-License-Identifier: Apache-2.0
 * Attention on random shapes, block tables and trees. Needs neither ggml nor a test library, so
 * that it also runs where neither is (tools/check-neon). */
#ifndef FT_TEST_ATTN_CASES_H
#define FT_TEST_ATTN_CASES_H

#include <stddef.h>
#include <stdint.h>

/* Each gives NULL, or what is wrong (valid until the next call). */

/* One random batch: plain C against the definition of attention in double precision, every kernel
 * of this processor against plain C, on one thread and with its work split for many, and single
 * rows computed alone against the same rows in the batch. */
const char *attn_case_kernels(uint64_t seed);
/* Long and short sessions side by side on real threads. */
const char *attn_case_threads(uint64_t seed);
/* Kernels write the same K and V; tokens can be copied between lanes. */
const char *attn_case_writing(uint64_t seed);
/* Halves in integer arithmetic against the processor's. */
const char *attn_case_halves(void);

#endif
