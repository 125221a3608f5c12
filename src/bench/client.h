/* SPDX-License-Identifier: Apache-2.0
 * An edge without a drafter: it opens a session on a verifier in this process, drafts chains of any
 * tokens, and applies verdicts. Owned by one thread. */
#ifndef FT_BENCH_CLIENT_H
#define FT_BENCH_CLIENT_H

#include "local/link.h"

#define FT_BENCH_CHAIN 4 /* drafted tokens a round */

typedef struct ft_bench_client {
    ft_link *link;
    ft_msg_draft draft;
    int32_t *text; /* [cap] */
    uint32_t n, cap;
    uint32_t n_vocab, cached_tokens;
    uint64_t seed;
    bool finished;
} ft_bench_client;

/* A text of n tokens that depends on seed, with room for `more`. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_bench_client_init(ft_bench_client *c, uint64_t seed, uint32_t n_vocab,
                                              uint32_t n, uint32_t more, ft_error *err);
void ft_bench_client_deinit(ft_bench_client *c);
/* n further tokens of the user's; there is room. */
void ft_bench_client_append(ft_bench_client *c, uint32_t n);
/* Opens a session with the text so far; waits for nothing. */
FT_WARN_UNUSED ft_status ft_bench_client_open(ft_bench_client *c, ft_verifier *verifier,
                                              ft_error *err);
/* Drafts, waits for the verdict, applies it. */
FT_WARN_UNUSED ft_status ft_bench_client_round(ft_bench_client *c, ft_error *err);
/* Ends the session and waits until it is gone. */
void ft_bench_client_close(ft_bench_client *c);

#endif
