// SPDX-License-Identifier: Apache-2.0
// Requantizing through libllama. The input is checked first, hyperparameters and tensors included,
// since libllama asserts on some of them; so only families that the engine computes pass. The output is written under a temporary
// name beside its own and renamed when whole, so that an interrupted run leaves no half file under
// the name that others open. Stateless; one call uses n_threads threads of libllama's.
#include "model/quantize.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "llama.h"
#include "model/hparams.h"

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

/* Writing over the input would destroy it before it is read. */
static ft_status check_paths(const char *in, const char *out, ft_error *err)
{
    struct stat a, b;
    if (stat(in, &a) == 0 && stat(out, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return ft_error_set(err, FT_INVALID, "%s: input and output are the same file", in);
    return FT_OK;
}

/* An empty new file beside out, whose name goes to *temp. */
static ft_status make_temp(const char *out, ft_error *err, ft_buf *temp)
{
    ft_status st = ft_buf_printf(temp, "%s.XXXXXX", out);
    if (st != FT_OK)
        return ft_error_set(err, FT_NOMEM, "%s: out of memory", out);
    int fd = mkstemp(temp->data);
    if (fd < 0) {
        ft_error_set(err, FT_IO, "%s: cannot write beside it: %s", out, strerror(errno));
        ft_buf_clear(temp);
        return FT_IO;
    }
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask); /* mkstemp makes it private */
    close(fd);
    return FT_OK;
}

static ft_status run(const char *in, const char *out, enum llama_ftype ftype, int n_threads,
                     ft_error *err)
{
    struct llama_model_quantize_params params = llama_model_quantize_default_params();
    ft_buf temp = {0};
    params.ftype = ftype;
    params.nthread = n_threads > 0 ? n_threads : 0;
    params.allow_requantize = true;
    ft_status st = make_temp(out, err, &temp);
    if (st == FT_OK && llama_model_quantize(in, temp.data, &params) != 0)
        st = ft_error_set(err, FT_IO,
                          "%s: libllama could not write %s: is there room on the disk? "
                          "FORETOKEN_LOG=debug shows its own words",
                          in, out);
    if (st == FT_OK && rename(temp.data, out) != 0)
        st = ft_error_set(err, FT_IO, "%s: %s", out, strerror(errno));
    if (st != FT_OK && temp.len > 0)
        unlink(temp.data);
    ft_buf_deinit(&temp);
    return st;
}

ft_status ft_model_quantize(const char *in, const char *out, const char *type, int n_threads,
                            ft_error *err)
{
    enum llama_ftype ftype = LLAMA_FTYPE_ALL_F32;
    ft_gguf gguf;
    ft_hparams hp;
    ft_sources sources = {0};
    ft_status st = find_kind(type, err, &ftype);
    if (st == FT_OK)
        st = ft_gguf_open(in, err, &gguf);
    if (st != FT_OK)
        return st;
    st = ft_hparams_read(&gguf, err, &hp);
    if (st == FT_OK)
        st = ft_sources_find(&gguf, &hp, err, &sources);
    ft_sources_deinit(&sources);
    ft_gguf_close(&gguf);
    if (st == FT_OK)
        st = check_paths(in, out, err);
    return st == FT_OK ? run(in, out, ftype, n_threads, err) : st;
}
