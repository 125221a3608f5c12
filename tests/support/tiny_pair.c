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

/* Each kind of server may raise the budget once, and once more when the program itself takes more
 * than it did a moment ago: its own memory varies under load. */
#define TRIES 8

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

/* The last number behind "at least" in a file; 0: none. Empties the file. */
static long least_said(const char *path)
{
    char line[1024];
    long least = 0;
    FILE *said = fopen(path, "r+");
    assert_non_null(said);
    while (fgets(line, sizeof line, said)) {
        const char *at = strstr(line, "at least ");
        least = at ? atol(at + strlen("at least ")) : least;
    }
    assert_int_equal(ftruncate(fileno(said), 0), 0);
    fclose(said);
    return least;
}

json_t *tiny_pair_bench_memory(const tiny_pair *pair, const char *command, const char *args,
                               long *memory)
{
    char line[2048], *said = tiny_temp_path();
    json_t *json = NULL;
    *memory = 1 << 20;
    for (int tries = 0; tries < TRIES && !json; tries++) {
        snprintf(line, sizeof line,
                 "FORETOKEN_LOG=error %s %s -m '%s' -md '%s' --prompts '%s' --json %s --memory %ld "
                 "2>'%s'",
                 getenv("FT_BINARY"), command, pair->target, pair->draft, pair->prompts, args,
                 *memory, said);
        FILE *out = popen(line, "r");
        assert_non_null(out);
        json = json_loadf(out, 0, NULL);
        const bool ended = pclose(out) == 0;
        const long least = least_said(said);
        if (ended != (json != NULL) || (!json && least <= *memory))
            fail_msg("%s: refused, and not for its memory", line);
        if (!json)
            *memory = least + (1 << 20);
    }
    assert_non_null(json);
    unlink(said);
    free(said);
    return json;
}
