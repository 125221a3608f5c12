// SPDX-License-Identifier: Apache-2.0
// Temporary files and a command line. Stateless.
#include "support/tiny_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/program.h"
#include "support/tiny_gguf.h"

tiny_pair tiny_pair_make(const char *prompts)
{
    const tiny_gguf_opts opts = {.type = GGML_TYPE_Q8_0, .seed = 3};
    const tiny_gguf_opts rounded = {.type = GGML_TYPE_Q4_0, .seed = 3};
    tiny_pair pair = {.target = tiny_gguf_temp(&opts),
                      .draft = tiny_gguf_temp(&rounded),
                      .prompts = tiny_temp_path()};
    FILE *out = fopen(pair.prompts, "w");
    assert_non_null(out);
    assert_true(fputs(prompts, out) >= 0);
    assert_int_equal(fclose(out), 0);
    return pair;
}

void tiny_pair_remove(tiny_pair *pair)
{
    char *const paths[] = {pair->target, pair->draft, pair->prompts};
    for (size_t i = 0; i < 3; i++) {
        unlink(paths[i]);
        free(paths[i]);
    }
    *pair = (tiny_pair){0};
}

json_t *tiny_pair_bench(const tiny_pair *pair, const char *command, const char *args, int *status)
{
    return program_json(status, "%s -m '%s' -md '%s' --prompts '%s' --json %s", command,
                        pair->target, pair->draft, pair->prompts, args);
}
