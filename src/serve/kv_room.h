/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares the KV pool: admits texts, and takes blocks from sessions when blocks are short. The
 * functions are called on the engine thread.
 */
#ifndef FT_SERVE_KV_ROOM_H
#define FT_SERVE_KV_ROOM_H

#include "serve/state.h"

/* The cache scope of sessions with this credential; 0: there is no prefix cache. */
uint64_t ft_kv_scope(const ft_verifier *v, const char *credential);
/* If the session holds no KV, takes over the KV of its text's start from the prefix cache. */
void ft_kv_attach(ft_sess *s);

/* Returns FT_EXHAUSTED if the pool is too small for the open texts and one more text of n_tok
 * tokens. */
FT_WARN_UNUSED ft_status ft_kv_admit(const ft_verifier *v, uint32_t n_tok, ft_error *err);
/* Reserves blocks for `needs`. The need that has waited longest comes first. A session without KV
 * takes over KV from the prefix cache. If blocks are short, sessions are evicted. A need that still
 * does not fit gets need.out = true. needs[0], the oldest need, always fits: any other session may
 * be evicted for it. Returns how many blocks are free, the reserved ones included. */
uint32_t ft_kv_make_room(ft_verifier *v, ft_need *needs, size_t n);

#endif
