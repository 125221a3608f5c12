/* SPDX-License-Identifier: Apache-2.0
 *
 * Files for tests of memory budgets: a target of which layers can be left out of memory, the same
 * one packed by the program under test, and a draft. */
#ifndef FT_TEST_MEMORY_MODELS_H
#define FT_TEST_MEMORY_MODELS_H

#include <stdbool.h>

typedef struct memory_models {
    char *target, *packed, *draft; /* paths */
} memory_models;

/* false: they could not be made. The caller removes them. */
bool memory_models_make(memory_models *m);
void memory_models_remove(memory_models *m);

#endif
