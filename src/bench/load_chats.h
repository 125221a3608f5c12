/* SPDX-License-Identifier: Apache-2.0
 *
 * Chats of several turns, and users who hold them. A turn's prompt has all earlier turns of its
 * chat in it, with the target's answers; so the turns of a chat are made in order, each when the
 * answers before it are known. */
#ifndef FT_BENCH_LOAD_CHATS_H
#define FT_BENCH_LOAD_CHATS_H

#include "base/rng.h"
#include "bench/load_set.h"
#include "template/template.h"

typedef struct ft_bench_load_chat {
    ft_bench_load_prompt *turns; /* [n_turns] tokens and text are empty until they are known */
    uint32_t n_turns;
    uint64_t prefix; /* ft_chat_prefix_of */
} ft_bench_load_chat;

typedef struct ft_bench_load_chats {
    ft_bench_load_chat *chats; /* [n] */
    uint32_t n;
    const ft_vocab *vocab; /* borrowed */
    ft_template *template;
    ft_bench_prompts words; /* what users say */
} ft_bench_load_chats;

typedef struct ft_bench_load_chats_opts {
    const char *path;      /* of prompts: each is one message of a user */
    const ft_vocab *vocab; /* borrowed */
    uint32_t n;            /* chats; each begins with a prompt of its own */
    uint32_t turns;        /* mean; a chat has 1 to twice that - 1 */
    uint64_t seed;         /* of their numbers of turns */
} ft_bench_load_chats_opts;

/* FT_IO, FT_INVALID (also: fewer prompts than chats), FT_UNSUPPORTED (no chat template), FT_NOMEM
 * leave *out empty. */
FT_WARN_UNUSED ft_status ft_bench_load_chats_read(const ft_bench_load_chats_opts *opts,
                                                  ft_error *err, ft_bench_load_chats *out);
void ft_bench_load_chats_deinit(ft_bench_load_chats *chats);

/* What they are like once all texts are known: means, in tokens. */
typedef struct ft_bench_load_chats_shape {
    double first; /* a chat's first prompt */
    double more;  /* what a later prompt has beyond the turn before it; 0: there are none */
    double text;
} ft_bench_load_chats_shape;
ft_bench_load_chats_shape ft_bench_load_chats_shape_of(const ft_bench_load_chats *chats);

/* Who holds one chat at a time. One thread's. All-zero has none, but for `chats` and `rng`. */
typedef struct ft_bench_load_user {
    ft_bench_load_chats *chats; /* borrowed */
    ft_rng rng;
    ft_bench_load_chat *chat; /* NULL: none */
    uint32_t turn;
} ft_bench_load_user;

/* Begins chat i. midway: at a turn that is drawn, as if the earlier ones had been; their texts must
 * be known. */
void ft_bench_load_user_begin(ft_bench_load_user *user, uint32_t i, bool midway);
/* The prompt of this turn, borrowed; it is made if it is not there. Nobody else may hold a chat of
 * which prompts are missing. FT_INVALID, FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_bench_load_user_prompt(ft_bench_load_user *user, ft_error *err,
                                                   ft_bench_load_prompt **out);
/* Tokens of the turns before this one. */
uint32_t ft_bench_load_user_before(const ft_bench_load_user *user);
/* The turn is over; behind the last one the user has no chat. */
void ft_bench_load_user_next(ft_bench_load_user *user);
/* A pause of this mean; exponential. */
int64_t ft_bench_load_user_think_us(ft_bench_load_user *user, double mean_s);

#endif
