// SPDX-License-Identifier: Apache-2.0
// Requantizes through libllama. The input is checked first, with hyperparameters and tensors,
// because libllama asserts on some of them; so only families that the engine computes are accepted.
// Stateless; one call uses n_threads threads of libllama.
#include "model/quantize.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "llama.h"
#include "model/hparams.h"
#include "model/llama_calls.h"
#include "model/new_file.h"

/* Types that need no importance matrix. */
static const struct kind {
    const char *name;
    enum llama_ftype ftype;
} kinds[] = {
    {"f32", LLAMA_FTYPE_ALL_F32},          {"f16", LLAMA_FTYPE_MOSTLY_F16},
    {"bf16", LLAMA_FTYPE_MOSTLY_BF16},     {"q8_0", LLAMA_FTYPE_MOSTLY_Q8_0},
    {"q6_k", LLAMA_FTYPE_MOSTLY_Q6_K},     {"q5_0", LLAMA_FTYPE_MOSTLY_Q5_0},
    {"q5_1", LLAMA_FTYPE_MOSTLY_Q5_1},     {"q5_k_s", LLAMA_FTYPE_MOSTLY_Q5_K_S},
    {"q5_k_m", LLAMA_FTYPE_MOSTLY_Q5_K_M}, {"q4_0", LLAMA_FTYPE_MOSTLY_Q4_0},
    {"q4_1", LLAMA_FTYPE_MOSTLY_Q4_1},     {"q4_k_s", LLAMA_FTYPE_MOSTLY_Q4_K_S},
    {"q4_k_m", LLAMA_FTYPE_MOSTLY_Q4_K_M}, {"iq4_nl", LLAMA_FTYPE_MOSTLY_IQ4_NL},
    {"iq4_xs", LLAMA_FTYPE_MOSTLY_IQ4_XS}, {"q3_k_m", LLAMA_FTYPE_MOSTLY_Q3_K_M},
    {"q2_k", LLAMA_FTYPE_MOSTLY_Q2_K},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

static ft_status find_kind(const char *type, ft_error *err, enum llama_ftype *out)
{
    char known[256] = "";
    for (size_t i = 0; i < N_KINDS; i++) {
        size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", kinds[i].name);
        if (strcasecmp(kinds[i].name, type) == 0) {
            *out = kinds[i].ftype;
            return FT_OK;
        }
    }
    return ft_error_set(err, FT_INVALID, "unknown weight type '%.40s': one of %s", type, known);
}

/* A path that opens the file that was checked, whatever its own path names by now. Without /proc,
 * and of a split model, whose parts libllama finds by their names: its own path. */
static const char *path_of(const ft_gguf *gguf, char same[32])
{
    snprintf(same, 32, "/proc/self/fd/%d", gguf->fd);
    return !gguf->parts && access(same, R_OK) == 0 ? same : gguf->path;
}

static ft_status run(const ft_gguf *gguf, const char *out, enum llama_ftype ftype, int n_threads,
                     ft_error *err)
{
    char same[32];
    ft_error why = {0};
    struct llama_model_quantize_params params = llama_model_quantize_default_params();
    ft_new_file file;
    params.ftype = ftype;
    params.nthread = n_threads > 0 ? n_threads : 0;
    params.allow_requantize = true;
    ft_status st = ft_new_file_create_named(gguf->path, out, err, &file);
    if (st != FT_OK)
        return st;
    st = ft_llama_quantize(path_of(gguf, same), file.temp.data, &params, &why);
    if (st != FT_OK)
        st = ft_error_set(err, st,
                          "%s: libllama could not write %s (%.200s): is there room on the disk? "
                          "FORETOKEN_LOG=debug shows its messages",
                          gguf->path, out, why.message);
    return ft_new_file_finish(&file, st, err);
}

ft_status ft_model_quantize(const char *in, const char *out, const char *type, int n_threads,
                            ft_error *err)
{
    enum llama_ftype ftype = LLAMA_FTYPE_ALL_F32;
    ft_gguf gguf;
    ft_hparams hp;
    ft_sources sources;
    ft_status st = find_kind(type, err, &ftype);
    if (st == FT_OK)
        st = ft_sources_open(in, err, &gguf, &hp, &sources);
    if (st != FT_OK)
        return st;
    ft_sources_deinit(&sources);
    st = run(&gguf, out, ftype, n_threads, err);
    ft_gguf_close(&gguf);
    return st;
}
