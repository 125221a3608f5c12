// SPDX-License-Identifier: Apache-2.0
// Any bytes as a GGUF file: ft_gguf_scan must judge them without reading past their end, and what
// it passes must not make ggml's reader abort.
#include <stddef.h>
#include <stdint.h>

#include "ggml.h"
#include "model/gguf_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void no_log(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)level;
    (void)text;
    (void)ctx;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_error err = {0};
    bool short_data = false;
    struct gguf_init_params params = {.no_alloc = true};
    ggml_log_set(no_log, NULL);
    if (ft_gguf_scan(data, n, n, &err, &short_data) != FT_OK)
        return 0;
    gguf_free(gguf_init_from_buffer(data, n, params));
    /* The same bytes as the beginning of a larger file. */
    (void)!ft_gguf_scan(data, n, (uint64_t)n + 4096, &err, &short_data);
    return 0;
}
