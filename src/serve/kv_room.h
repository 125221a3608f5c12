/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares the KV pool: admits texts, and takes blocks from sessions when they run short. Called on
 * the engine thread.
 */
#ifndef FT_SERVE_KV_ROOM_H
#define FT_SERVE_KV_ROOM_H

#include "serve/state.h"

/* The cache scope of sessions with this credential; 0: there is no prefix cache. */
uint64_t ft_kv_scope(const ft_verifier *v, const char *credential);
/* If the session holds no KV, takes over the start of its text from the prefix cache. */
void ft_kv_attach(ft_sess *s);

/* FT_EXHAUSTED: the pool is too small for the open texts and one more of n_tok tokens. */
FT_WARN_UNUSED ft_status ft_kv_admit(const ft_verifier *v, uint32_t n_tok, ft_error *err);
/* Reserves blocks for `needs`, which are in order of service. Takes over cached text for sessions
 * without KV. Sets need.out where blocks are short. The oldest need, needs[0], always fits: other
 * sessions are evicted for it. Returns the free blocks. */
uint32_t ft_kv_make_room(ft_verifier *v, ft_need *needs, size_t n);

#endif
