// SPDX-License-Identifier: Apache-2.0
// foretoken info: what a model file holds and how it would run here, without loading its weights;
// or which devices there are.
#include <inttypes.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "engine/gemm_kernel.h"
#include "engine/products.h"
#include "engine/target.h"
#include "model/device.h"
#include "model/model.h"
#include "model/vocab.h"

/* K and V of one token in f16, all layers. */
static uint64_t kv_bytes_per_token(const ft_hparams *hp)
{
    return 2ull * 2 * hp->n_layer * hp->n_head_kv * hp->head_dim;
}

/* As a server would tell it that runs the model with its default flags, on the CPU. */
static uint64_t target_of(const ft_model_info *info)
{
    const ft_target target = {.weights = info->fingerprint.weights,
                              .products = info->memory.products};
    return ft_target_fingerprint(&target);
}

static json_t *types_json(const ft_model_info *info)
{
    json_t *types = json_array();
    for (int i = 0; i < GGML_TYPE_COUNT; i++)
        if (info->types[i].n_tensors)
            json_array_append_new(types, json_pack("{s:s, s:I, s:I}", "type", ggml_type_name(i),
                                                   "tensors", (json_int_t)info->types[i].n_tensors,
                                                   "bytes", (json_int_t)info->types[i].bytes));
    return types;
}

static json_t *hparams_json(const ft_hparams *hp)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f}", "n_layer",
                     (int)hp->n_layer, "n_embd", (int)hp->n_embd, "n_ff", (int)hp->n_ff, "n_head",
                     (int)hp->n_head, "n_head_kv", (int)hp->n_head_kv, "head_dim",
                     (int)hp->head_dim, "n_vocab", (int)hp->n_vocab, "n_ctx_train",
                     (int)hp->n_ctx_train, "rms_eps", (double)hp->rms_eps, "rope_base",
                     (double)hp->rope_base, "rope_scale", (double)hp->rope_scale);
}

/* The tokens that end a text. */
static json_t *ends_json(const ft_vocab *vocab)
{
    json_t *ends = json_array();
    for (int32_t token = 0; token < ft_vocab_size(vocab); token++)
        if (ft_vocab_is_eog(vocab, token))
            json_array_append_new(ends, json_integer(token));
    return ends;
}

/* vocab NULL: it cannot be used, for this reason. */
static json_t *vocab_json(const ft_vocab *vocab, const char *why)
{
    if (!vocab)
        return json_pack("{s:s}", "error", why);
    return json_pack("{s:i, s:o, s:i, s:o, s:b}", "size", (int)ft_vocab_size(vocab), "fingerprint",
                     json_sprintf("%016" PRIx64, ft_vocab_fingerprint(vocab)), "bos",
                     (int)ft_vocab_bos(vocab), "ends", ends_json(vocab), "chat_template",
                     ft_vocab_has_chat(vocab));
}

static int print_json(const char *path, const ft_model_info *info, const ft_vocab *vocab,
                      const char *why)
{
    const ft_model_memory *memory = &info->memory;
    char kernels[FT_PRODUCTS_TEXT];
    ft_products_text(&memory->products, kernels);
    json_t *o = json_pack(
        "{s:s, s:o, s:o, s:s, s:s, s:I, s:b, s:s, s:I, s:i, s:i, s:b, s:b, s:I, s:o, s:o, s:o, "
        "s:{s:I, s:I, s:I, s:I}, s:s}",
        "file", path, "fingerprint", json_sprintf("%016" PRIx64, info->fingerprint.model), "target",
        json_sprintf("%016" PRIx64, target_of(info)), "family", ft_family_name(info->hp.family),
        "name", info->name, "file_bytes", (json_int_t)info->file_bytes, "packed_file",
        info->packed_file, "type", info->type_name, "parameters", (json_int_t)info->n_params,
        "matrices", (int)info->n_matrices, "repacked_matrices", (int)info->n_repacked, "tied_head",
        info->tied, "rope_factors", info->rope_factors, "kv_bytes_per_token",
        (json_int_t)kv_bytes_per_token(&info->hp), "hparams", hparams_json(&info->hp), "weights",
        types_json(info), "vocabulary", vocab_json(vocab, why), "memory", "bytes",
        (json_int_t)memory->bytes, "packed_bytes", (json_int_t)memory->packed_bytes,
        "repacked_bytes", (json_int_t)memory->repacked_bytes, "copied_bytes",
        (json_int_t)memory->copied_bytes, "kernels", kernels);
    if (o)
        return ft_cmd_print_json(o);
    fprintf(stderr, "foretoken info: the name in %s is no UTF-8\n", path);
    return 1;
}

/* The matrix kernels, and for each packed type the one that this processor runs. */
static void print_kernels(const ft_model_info *info)
{
    char text[FT_PRODUCTS_TEXT];
    ft_products_text(&info->memory.products, text);
    printf("kernels      %s\n", text);
    for (int t = 0; t < GGML_TYPE_COUNT; t++)
        if (info->memory.products.packed >> t & 1)
            printf("packed       %-8s by %s\n", ggml_type_name(t), ft_gemm_kernel_best(t)->name);
}

static void print_text(const ft_model_info *info, const ft_vocab *vocab, const char *why)
{
    const ft_hparams *hp = &info->hp;
    printf("name         %s\n", info->name);
    printf("family       %s\n", ft_family_name(hp->family));
    printf("fingerprint  %016" PRIx64 "\n", info->fingerprint.model);
    printf("target       %016" PRIx64 " as serve tells it, with its default flags, on the CPU\n",
           target_of(info));
    printf("parameters   %.1f M in %.1f MB, mostly %s\n", (double)info->n_params / 1e6,
           (double)info->file_bytes / 1e6, info->type_name);
    if (info->packed_file)
        printf("file         packed (model pack): it fixes the kernels, and is for the CPU\n");
    printf("layers       %u of width %u, feed-forward %u\n", hp->n_layer, hp->n_embd, hp->n_ff);
    printf("heads        %u of %u, %u for keys and values\n", hp->n_head, hp->head_dim,
           hp->n_head_kv);
    printf("context      %u tokens in training\n", hp->n_ctx_train);
    printf("rope         base %g, scale %g%s\n", (double)hp->rope_base, (double)hp->rope_scale,
           info->rope_factors ? ", with factors" : "");
    printf("head         %s\n", info->tied ? "tied to the embedding" : "its own");
    printf("kv cache     %" PRIu64 " bytes a token (f16)\n", kv_bytes_per_token(hp));
    for (int i = 0; i < GGML_TYPE_COUNT; i++)
        if (info->types[i].n_tensors)
            printf("weights      %-8s %5" PRIu64 " tensors %10.1f MB\n", ggml_type_name(i),
                   info->types[i].n_tensors, (double)info->types[i].bytes / 1e6);
    printf("repacked     %u of %u layer matrices%s\n", info->n_repacked, info->n_matrices,
           2 * info->n_repacked > info->n_matrices
               ? ""
               : " (many tokens a pass are cheaper in q4_0, iq4_nl or bf16)");
    printf(
        "memory       %.1f MB of weights, %.1f MB packed, %.1f MB in ggml's packed types, %.1f MB "
        "copies\n",
        (double)info->memory.bytes / 1e6, (double)info->memory.packed_bytes / 1e6,
        (double)info->memory.repacked_bytes / 1e6, (double)info->memory.copied_bytes / 1e6);
    print_kernels(info);
    if (vocab)
        printf("vocabulary   %d tokens, fingerprint %016" PRIx64 "\nchat         %s\n",
               (int)ft_vocab_size(vocab), ft_vocab_fingerprint(vocab),
               ft_vocab_has_chat(vocab) ? "has a template" : "no template");
    else
        printf("vocabulary   cannot be used: %s\n", why);
}

static int print_devices(const char *rpc, bool json)
{
    ft_device_info info[64];
    ft_error err = {0};
    if (rpc && ft_devices_add_rpc(rpc, &err) != FT_OK)
        return ft_cmd_fail(&err);
    size_t n = ft_devices_list(info, FT_COUNT(info));
    json_t *list = json_array();
    for (size_t i = 0; i < n && i < FT_COUNT(info); i++) {
        if (!json)
            printf("%-10s %-40s %8.0f MB free of %8.0f%s\n", info[i].name, info[i].description,
                   (double)info[i].free_bytes / 1e6, (double)info[i].total_bytes / 1e6,
                   info[i].gpu ? "" : "  (no layers: the CPU has its own way)");
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:b, s:I, s:I}", "name", info[i].name,
                                        "description", info[i].description, "layers", info[i].gpu,
                                        "free_bytes", (json_int_t)info[i].free_bytes, "total_bytes",
                                        (json_int_t)info[i].total_bytes));
    }
    if (json)
        return ft_cmd_print_json(json_pack("{s:o}", "devices", list));
    json_decref(list);
    return 0;
}

typedef struct options {
    bool json, devices;
    const char *rpc;
} options;

static const ft_flag rows[] = {
    {"--devices", NULL, FT_FLAG(options, devices), NULL, "list the devices for --device instead"},
    {"--rpc", NULL, FT_FLAG(options, rpc), "SERVERS",
     "with --devices: also those of the rpc-servers HOST:PORT,..."},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object"},
};

static const options defaults = {0};

static int run(void *selected, int n_words, char **words)
{
    const options *x = selected;
    if (x->devices && n_words == 0)
        return print_devices(x->rpc, x->json);
    if (n_words != 1) {
        fprintf(stderr, "foretoken info: FILE is needed: --help shows the usage\n");
        return 2;
    }
    ft_error err = {0}, why = {0};
    ft_model_info info;
    ft_vocab *vocab = NULL;
    ft_model_opts opts = {.path = words[0], .choose = ft_products_choose};
    int code = 0;
    if (ft_model_inspect(&opts, &err, &info) != FT_OK)
        return ft_cmd_fail(&err);
    if (ft_vocab_load(words[0], &why, &vocab) != FT_OK)
        vocab = NULL;
    if (x->json)
        code = print_json(words[0], &info, vocab, why.message);
    else
        print_text(&info, vocab, why.message);
    ft_vocab_destroy(vocab);
    return code;
}

const ft_command ft_cmd_info = {
    .name = "info",
    .summary = "show what a model file holds, or which devices there are",
    .usage = "FILE|--devices [--json]",
    .about = "Says what the model file FILE (GGUF) holds and how it would run on this machine. "
             "Checks the file on the way.",
    FT_CMD_OPTIONS(rows, defaults),
    .max_words = 1,
    .model_word = true,
    .run = run};
