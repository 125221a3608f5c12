// SPDX-License-Identifier: Apache-2.0
// What a hub answers, and Ollama's manifests. What is taken leads nowhere but below a folder of the
// cache, and whatever is chosen is in the list.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "hub/answer.h"
#include "hub/name.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_choice(const ft_hub_files *files, const char *pick)
{
    ft_hub_set set;
    ft_error err = {0};
    if (ft_hub_files_choose(files, pick, &err, &set) != FT_OK) {
        require(err.message[0] != 0);
        return;
    }
    require(set.n >= 1 && set.first < files->n && set.n <= files->n - set.first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_hub_files files;
    ft_ollama_layer layer;
    ft_error err = {0};
    if (ft_ollama_manifest_read((const char *)data, n, &err, &layer) == FT_OK)
        require(ft_hex_is(layer.sha256, FT_SHA256_HEX_SIZE - 1) && layer.bytes > 0);
    if (ft_hub_answer_read((const char *)data, n, &err, &files) != FT_OK) {
        require(err.message[0] != 0 && !files.file);
        return 0;
    }
    require(ft_hex_is(files.commit, FT_HUB_COMMIT_SIZE - 1));
    for (size_t i = 0; i < files.n; i++) {
        const ft_hub_file *file = &files.file[i];
        require(ft_hub_path_is_below(file->path) && ft_hub_path_is_gguf(file->path));
        require(!file->sha256[0] || ft_hex_is(file->sha256, FT_SHA256_HEX_SIZE - 1));
        require(file->bytes > 0 && (i == 0 || strcmp(files.file[i - 1].path, file->path) < 0));
        require(ft_hub_files_at(&files, i).n <= files.n - i);
        check_choice(&files, file->path);
    }
    check_choice(&files, "");
    check_choice(&files, "Q4_0");
    ft_hub_files_deinit(&files);
    return 0;
}
