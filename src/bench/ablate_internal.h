/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the virtual world of bench/ablate_world.h:
 *
 *   ablate_world.c   the clock, the link and an edge's life
 *   ablate_draft.c   the draft source: recorded drafts, which move the clock
 *   ablate_server.c  the server: its passes and the session
 *   ablate_net.c     chance, and messages on their way
 */
#ifndef FT_BENCH_ABLATE_INTERNAL_H
#define FT_BENCH_ABLATE_INTERNAL_H

#include "base/rng.h"
#include "bench/ablate_world.h"

#define FT_ABLATE_OTHERS 64
#define FT_ABLATE_INBOX  512
#define FT_ABLATE_NEVER  INT64_MAX

/* A draft at the server. */
typedef struct ft_ablate_request {
    bool there;
    int64_t at_us; /* it came, or the one before it was answered */
    ft_msg_draft draft;
} ft_ablate_request;

typedef struct ft_ablate_parcel {
    int64_t at_us;
    ft_server_msg *msg;
} ft_ablate_parcel;

/* The server's engine. */
typedef struct ft_ablate_engine {
    ft_cost cost;
    ft_rng noise, think;
    int64_t other_us[FT_ABLATE_OTHERS]; /* their next draft comes */
    bool other_in[FT_ABLATE_OTHERS];    /* they are in the pass */
    bool busy, mine;                    /* a pass runs; this session is in it */
    bool verified;                      /* a tree, ever */
    uint32_t spiked; /* tokens of the session's text whose luck passes have had */
    int64_t start_us, end_us;
    ft_pass shape, my_shape;
} ft_ablate_engine;

/* The session at the server: at most one draft that waits or is in a pass, one next run and one
 * early draft. */
typedef struct ft_ablate_session {
    const ft_ablate_text *text;
    uint32_t number;    /* of the text in this life */
    uint32_t at, round; /* tokens of the text that are out */
    ft_ablate_request out, next, early;
    int64_t read_us; /* until then the prompt is read */
    int64_t answered_us, free_us;
    double price;
} ft_ablate_session;

typedef struct ft_ablate_world {
    const ft_ablate_world_opts *opts;
    const ft_ablate_case *how;
    uint64_t seed;
    int64_t now_us;
    ft_ablate_life *life;
    /* the device */
    ft_rng draft;
    uint64_t forwards;
    /* the network */
    ft_rng net;
    int64_t up_us, down_us; /* the last message came */
    ft_ablate_parcel inbox[FT_ABLATE_INBOX];
    uint32_t n_inbox;
    ft_ablate_engine engine;
    ft_ablate_session session;
} ft_ablate_world;

/* A factor of mean 1. */
double ft_ablate_noisy(ft_rng *rng, double sigma);
/* A number whose logarithm is drawn evenly; 0 < least <= most. */
double ft_ablate_between(ft_rng *rng, double least, double most);
/* Luck of a place in the text, [0, 1): the same whatever the edge does, so that two lives with the
 * same seed meet the same mishaps. `what` tells one kind of luck from another. */
double ft_ablate_luck(const ft_ablate_world *world, uint32_t position, uint32_t what);

/* A message leaves the edge; it reaches the server at up_us. */
void ft_ablate_send(ft_ablate_world *world);
/* Takes msg; it reaches the edge later. */
void ft_ablate_reply(ft_ablate_world *world, ft_server_msg *msg, int64_t at_us);

/* A factory's `create`, over a world. */
FT_WARN_UNUSED ft_status ft_ablate_source(void *world, const ft_rule *rule,
                                          const ft_sampling *sampling, ft_error *err,
                                          ft_draft_source **out);

/* At a life's begin. */
void ft_ablate_server_begin(ft_ablate_world *world);
/* When something happens at the server next; FT_ABLATE_NEVER: not before the edge sends. */
int64_t ft_ablate_server_next(const ft_ablate_world *world);
/* It happens. */
void ft_ablate_server_step(ft_ablate_world *world);
/* A message came. */
void ft_ablate_server_open(ft_ablate_world *world, int64_t at_us);
void ft_ablate_server_draft(ft_ablate_world *world, const ft_msg_draft *draft, int64_t at_us);

#endif
