/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to src/sim: the state of one simulation of a fleet. Time goes in ticks. Within a tick the
 * servers know nothing of each other, so several threads simulate them. Between two ticks one
 * thread assigns the texts that users ask for in the next one. */
#ifndef FT_SIM_FLEET_INTERNAL_H
#define FT_SIM_FLEET_INTERNAL_H

#include "base/workers.h"
#include "sim/fleet.h"
#include "sim/wisp_internal.h"

#define FT_FLEET_TICK_US     20000 /* loads that a proxy compares are up to so old */
#define FT_FLEET_THREADS_MAX 64
#define FT_FLEET_COPIES      2 /* of a chat's KV, at the last servers that had it */

/* A device's chat. Where the device is a member of a server, that server's thread owns it. */
typedef struct ft_fleet_chat {
    uint32_t number; /* of the device's chats */
    uint32_t turn, turns;
    uint32_t prefix;                  /* tokens of the turns before */
    uint32_t server[FT_FLEET_COPIES]; /* where copies of its KV may be kept */
    uint32_t newest;                  /* of them, the one of the last turn */
    bool asked;                       /* a text is asked for and has not ended */
    bool again; /* its next event: the same text is asked for again; else a new one */
    int64_t ask_us;
    uint32_t next; /* 1 + device of the same tick; 0: none */
} ft_fleet_chat;

/* What one thread writes. */
typedef struct ft_fleet_worker {
    ft_fleet_part part[FT_FLEET_PARTS];
    uint32_t *asks; /* [n_ticks] 1 + the first device that asks then; 0: none */
} ft_fleet_worker;

typedef struct ft_fleet_due {
    int64_t at_us;
    uint32_t who;
} ft_fleet_due;

typedef struct ft_fleet {
    const ft_fleet_opts *opts;
    const double *k; /* of the fleet */
    ft_sim_opts times;
    ft_cost cost;
    device *devices;        /* [n_devices] */
    ft_fleet_chat *chats;   /* [n_devices] */
    ft_sim_prefix *kept_of; /* [n_devices, FT_FLEET_COPIES] */
    ft_fleet_due *due;      /* [n_devices] */
    sim *servers;           /* [n_servers]; the one that may be added is the last one */
    ft_sim_prefixes *kept;  /* [n_servers] */
    uint32_t *load;         /* [n_servers] texts */
    uint32_t n_servers;
    ft_fleet_servers proxy;
    ft_rng rng; /* the proxy's */
    ft_workers *workers;
    ft_fleet_worker *of_worker; /* [n_workers] */
    int n_workers;
    int64_t lost_us, added_us; /* INT64_MAX: never */
    uint32_t tick, n_ticks;
    ft_fleet_part_id part;
} ft_fleet;

/* What is kept of the device's chat, as a place in kept_of. */
static inline uint32_t ft_fleet_kept(uint32_t who, uint32_t copy)
{
    return who * FT_FLEET_COPIES + copy;
}

/* ---- chats (fleet_chat.c); s is the server, and w the thread that runs it ---- */
/* A device's first chat, in mid-course: its earlier turns are at the server that the proxy
 * chooses. */
void ft_fleet_chat_init(ft_fleet *f, uint32_t who);
void ft_fleet_take(ft_fleet *f, ft_fleet_worker *w, sim *s, const ft_sim_event *e);
/* Server s, which is gone, has had its members[n]: their edges ask anew. */
void ft_fleet_chats_move(ft_fleet *f, sim *s, size_t n);

#endif
