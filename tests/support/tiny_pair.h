/* SPDX-License-Identifier: Apache-2.0
 *
 * What a comparison command is given: a tiny target, a draft of the same weights that are rounded,
 * so that it agrees now and then, and a file of prompts. */
#ifndef FT_TEST_TINY_PAIR_H
#define FT_TEST_TINY_PAIR_H

#include <jansson.h>

typedef struct tiny_pair {
    char *target, *draft, *prompts; /* temporary files */
} tiny_pair;

/* prompts: lines of JSON. Ends the test program if it cannot; owes a remove. */
tiny_pair tiny_pair_make(const char *prompts);
/* The same, with a target of which layers can be left out of memory; packed. */
tiny_pair tiny_pair_make_large(const char *prompts);
void tiny_pair_remove(tiny_pair *pair);
/* program_json of "bench capacity" or the like over these files. */
json_t *tiny_pair_bench(const tiny_pair *pair, const char *command, const char *args, int *status);
/* The same under --memory, with about the least budget that all of its servers accept: a budget is
 * raised until none of them refuses it. *memory: that budget, in bytes. Ends the test program if
 * the command ends for another reason. */
json_t *tiny_pair_bench_memory(const tiny_pair *pair, const char *command, const char *args,
                               long *memory);

#endif
