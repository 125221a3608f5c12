// SPDX-License-Identifier: Apache-2.0
// Temporary files and a command line. Stateless.
#include "support/tiny_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/memory_models.h"
#include "support/program.h"
#include "support/tiny_gguf.h"

static char *write_prompts(const char *prompts)
{
    char *path = tiny_temp_path();
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(prompts, out) >= 0);
    assert_int_equal(fclose(out), 0);
    return path;
}

tiny_pair tiny_pair_make(const char *prompts)
{
    const tiny_gguf_opts opts = {.type = GGML_TYPE_Q8_0, .seed = 3};
    const tiny_gguf_opts rounded = {.type = GGML_TYPE_Q4_0, .seed = 3};
    return (tiny_pair){.target = tiny_gguf_temp(&opts),
                       .draft = tiny_gguf_temp(&rounded),
                       .prompts = write_prompts(prompts)};
}

tiny_pair tiny_pair_make_large(const char *prompts)
{
    memory_models models;
    assert_true(memory_models_make(&models));
    unlink(models.target);
    free(models.target);
    return (tiny_pair){
        .target = models.packed, .draft = models.draft, .prompts = write_prompts(prompts)};
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

long tiny_pair_least_memory(const tiny_pair *pair, const char *command, const char *args,
                            long memory)
{
    char line[1024], shell[1024];
    long least = 0;
    snprintf(shell, sizeof shell, "%s %s -m '%s' -md '%s' --prompts '%s' --memory %ld %s 2>&1",
             getenv("FT_BINARY"), command, pair->target, pair->draft, pair->prompts, memory, args);
    FILE *said = popen(shell, "r");
    assert_non_null(said);
    while (fgets(line, sizeof line, said)) {
        const char *at = strstr(line, "at least ");
        least = at ? atol(at + strlen("at least ")) : least;
    }
    assert_true(pclose(said) != 0 && least > 0);
    return least;
}
