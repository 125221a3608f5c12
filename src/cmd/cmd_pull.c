// SPDX-License-Identifier: Apache-2.0
// foretoken pull: fetches a model by name.
#include <stdio.h>
#include <stdlib.h>

#include "cmd/models.h"

typedef struct options {
    bool json;
} options;

static const ft_flag rows[] = {
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {0};

static int run(void *selected, int n_words, char **words)
{
    const options *x = selected;
    const ft_hub_opts opts = ft_models_opts();
    ft_error err = {0};
    ft_hub_model model;
    int code = 0;
    if (ft_hub_pull(&opts, words[0], &err, &model) != FT_OK)
        return ft_cmd_fail(&err);
    if (x->json)
        code = ft_cmd_print_json(json_pack(
            "{s:s, s:s, s:s, s:s, s:I, s:I, s:b}", "name", words[0], "path", model.path, "sha256",
            model.sha256, "commit", model.commit, "files", (json_int_t)model.n_files, "bytes",
            (json_int_t)model.bytes, "fetched", (int)model.fetched));
    else
        printf("%s\n", model.path);
    free(model.path);
    return code;
}

const ft_command ft_cmd_pull = {
    .name = "pull",
    .summary = "fetch a model by name, and check it",
    .usage = "NAME [--json]",
    .about = "Fetches hf:ORG/REPO, hf:ORG/REPO:QUANT or hf:ORG/REPO:FILE from a Hugging Face hub "
             "into its cache, all parts of a split file, and goes on where an earlier try ended. "
             "Then it reads the files, compares their SHA-256 with the hub's, checks their GGUF "
             "structure and prints the path of the first one. Of ollama:NAME[:TAG] it checks what "
             "Ollama has on this disk. Every flag that takes a MODEL takes such a name, too "
             "(docs/MODELS.md, which also lists the environment variables).",
    FT_CMD_OPTIONS(rows, defaults),
    .min_words = 1,
    .max_words = 1,
    .run = run};
