// SPDX-License-Identifier: Apache-2.0
// foretoken models: what the caches hold.
#include <stdio.h>

#include "cmd/models.h"

typedef struct options {
    bool json;
} options;

static const ft_flag rows[] = {
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {0};

static json_t *list_json(const ft_hub_list *list)
{
    json_t *models = json_array();
    for (size_t i = 0; i < list->n; i++) {
        const ft_hub_entry *entry = &list->entry[i];
        json_array_append_new(models, json_pack("{s:s, s:s, s:I, s:I}", "name", entry->name, "path",
                                                entry->path, "files", (json_int_t)entry->n_files,
                                                "bytes", (json_int_t)entry->bytes));
    }
    return json_pack("{s:o}", "models", models);
}

static void print_text(const ft_hub_list *list)
{
    if (list->n == 0)
        fprintf(stderr, "foretoken: none here: `foretoken pull hf:ORG/REPO:QUANT` fetches one\n");
    for (size_t i = 0; i < list->n; i++) {
        printf("%10.1f MB  %s", (double)list->entry[i].bytes / 1e6, list->entry[i].name);
        if (list->entry[i].n_files > 1)
            printf(" (%zu files)", list->entry[i].n_files);
        putchar('\n');
    }
}

static int run(void *selected, int n_words, char **words)
{
    const options *x = selected;
    const ft_hub_opts opts = ft_models_opts();
    ft_error err = {0};
    ft_hub_list list;
    int code = 0;
    if (ft_hub_list_read(&opts.env, &err, &list) != FT_OK)
        return ft_cmd_fail(&err);
    if (x->json)
        code = ft_cmd_print_json(list_json(&list));
    else
        print_text(&list);
    ft_hub_list_deinit(&list);
    return code;
}

const ft_command ft_cmd_models = {
    .name = "models",
    .summary = "list the models on this disk that have names",
    .usage = "[--json]",
    .about = "Lists the models in the cache of the Hugging Face hub and in Ollama's, by names that "
             "every flag takes that takes a MODEL. Nothing is fetched.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
