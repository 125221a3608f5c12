/* SPDX-License-Identifier: Apache-2.0
 *
 * llama.cpp's own speculative decoding, as its example speculative-simple does it, through
 * libllama-common. It is a module of its own, which `bench local` loads at run time: the program
 * does not need that library. No exception leaves it. Used by one thread.
 */
#ifndef FT_THEIRS_SPECULATION_H
#define FT_THEIRS_SPECULATION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FT_THEIRS_MODULE "foretoken-theirs.so"
#define FT_THEIRS_SYMBOL "ft_theirs"
#define FT_THEIRS_WHY    256

typedef struct ft_theirs_opts {
    const char *model, *draft; /* draft: for the types that have one, else NULL */
    const char *type;          /* as llama.cpp's --spec-type has it; "none": a token a pass */
    int32_t n_draft;           /* drafted tokens at most, with a draft model */
    int32_t n_ctx, n_threads;
    float temperature; /* 0: greedy; the other samplers are as llama.cpp has them */
    uint32_t seed;
} ft_theirs_opts;

typedef struct ft_theirs_answer {
    int32_t *tokens;        /* [n_max] given by the caller; the end-of-text token is left out */
    int32_t n_max, n;       /* room; written */
    int32_t first_n;        /* tokens that the first pass brought */
    int64_t begin_us;       /* on the machine's monotonic clock: before the prompt, */
    int64_t first_us;       /* behind the first pass, */
    int64_t last_us;        /* and behind the last one */
    int64_t rounds, passes; /* passes with a draft; all that made text */
    int64_t drafted, accepted, round_tokens; /* of these rounds */
} ft_theirs_answer;

/* Functions return 0, or -1 with a reason in why[FT_THEIRS_WHY]. */
typedef struct ft_theirs_calls {
    int (*open)(const ft_theirs_opts *opts, char *why, void **out);
    int (*answer)(void *side, const int32_t *prompt, int32_t n, ft_theirs_answer *out, char *why);
    void (*close)(void *side);
} ft_theirs_calls;

/* What the module has, under FT_THEIRS_SYMBOL. */
extern const ft_theirs_calls ft_theirs;

#ifdef __cplusplus
}
#endif
#endif
