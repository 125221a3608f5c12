// SPDX-License-Identifier: Apache-2.0
// Temporary files of tiny models. Stateless.
#include "support/memory_models.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/tiny_gguf.h"

bool memory_models_make(memory_models *m)
{
    const tiny_gguf_opts large = {.type = GGML_TYPE_Q8_0, .n_layer = 20, .n_embd = 256, .seed = 1};
    char command[1000];
    m->target = tiny_gguf_temp(&large);
    m->draft = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 1});
    m->packed = tiny_temp_path();
    snprintf(command, sizeof command, "%s model pack '%s' '%s' >/dev/null 2>&1",
             getenv("FT_BINARY"), m->target, m->packed);
    return m->target && m->draft && system(command) == 0;
}

void memory_models_remove(memory_models *m)
{
    char *const all[] = {m->target, m->packed, m->draft};
    for (size_t i = 0; i < 3; i++) {
        unlink(all[i]);
        free(all[i]);
    }
}
