/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to src/sim: the state of one simulation, and the functions of its two sides, the devices
 * and the server. */
#ifndef FT_SIM_WISP_INTERNAL_H
#define FT_SIM_WISP_INTERNAL_H

#include "base/rng.h"
#include "sched/admit.h"
#include "sched/await.h"
#include "sched/gain.h"
#include "sched/late.h"
#include "sched/promise.h"
#include "sched/sched.h"
#include "sim/prefixes.h"
#include "sim/queue.h"
#include "sim/wisp.h"

#define FT_SIM_BLOCK_TOK 16u

typedef enum event_kind {
    EVENT_BEGIN, /* a device's user asks for a text */
    EVENT_ASK,   /* a device asks again for a text that was refused */
    EVENT_OPEN,  /* a prompt has arrived at the server */
    EVENT_OPENED,
    EVENT_REFUSED,
    EVENT_DRAFT, /* a draft has */
    EVENT_VERDICT,
    EVENT_END,  /* the last token has arrived at the device */
    EVENT_PASS, /* the pass is over */
    EVENT_LOOK  /* the server may start one that it held back; never in the queue */
} event_kind;

/* What one mode of serving is. */
typedef struct serving {
    const ft_sched_policy *policy;
    bool drafts, predicts, keeps_kv;
    bool admits; /* the server may refuse a text */
} serving;
/* As the config has it: its policy, and whether it admits. */
serving ft_sim_serving(const ft_sim_config *config, ft_sim_mode mode);
/* Whether passes of texts of at most longest_tok tokens can be simulated. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_sim_check(const ft_sim_config *config, double longest_tok,
                                      ft_error *err);
/* Tokens of the longest prompt and response. */
double ft_sim_longest_tok(const double *k);

typedef struct device {
    ft_rng rng;
    uint32_t class;
    double speed; /* promised tokens/s */
    /* its text */
    int64_t begun_us;                /* asked for at last: its speed counts from then on */
    int64_t patience_us;             /* until then it is asked for again where it is refused */
    uint32_t prompt, response, done; /* tokens; prompt + done are committed */
    ft_known_us first;               /* when its first tokens reach it */
    uint32_t first_tok;
    bool running;
    bool taken; /* a server has opened it */
    /* its round */
    uint32_t n_draft, n_accept;
    int64_t draft_us;
    /* at the server */
    bool open, here, in_pass; /* here: something to verify has arrived */
    bool fresh;               /* nothing was verified since it was opened */
    bool moved;               /* its server was lost; another one goes on with the text */
    uint32_t opened_tok;      /* `done` when it was opened */
    uint32_t kept;            /* its place among what servers keep (sim/prefixes.h) */
    uint32_t member;          /* 1 + place in sim.members; 0: its text is at no server */
    uint32_t n_kv, blocks;    /* tokens in KV; blocks held */
    uint32_t ready;           /* 1 + place in sim.ready; 0: nothing to do */
    int64_t open_us, arrival_us, used_us;
    ft_known_us verdict;       /* when the server sent the text's last one */
    ft_away away;              /* from verdicts to the next drafts */
    int64_t due_us, budget_us; /* when its verdict is due: by its text; by its round alone */
    int64_t owed_us;           /* when the promised speed requires more text */
    ft_gain gain;
} device;

typedef struct sim {
    const ft_sim_opts *opts;
    const ft_sim_config *config;
    const double *k;
    serving how;
    ft_sim_result *out;
    ft_sim_queue queue;
    int64_t now_us;
    device *devices;   /* [n_devices] */
    uint32_t *members; /* [n_members] whose texts are at this server */
    size_t n_members, cap;
    /* the server */
    const ft_cost *cost;
    ft_sim_prefixes *prefixes; /* KV of texts that have ended; NULL: none is kept */
    ft_sched_limits limits;
    ft_spikes spikes;
    ft_gain usual_gain;     /* of all sessions */
    ft_admit_behind behind; /* (sched/admit.h) */
    ft_rng noise;
    uint32_t *ready;   /* [n_ready of cap] who has work */
    uint32_t *of;      /* [cap] whose a work is */
    ft_work *work;     /* [cap] */
    ft_pick *picks;    /* [cap] of the pass that runs */
    uint32_t *pick_of; /* [cap] whose a pick is */
    size_t n_ready, n_picks;
    ft_pass pass, prompts;
    int64_t pass_us;
    bool busy;
    /* what it holds back */
    ft_await_text *awaited; /* [n_awaited of cap] who waits, or is expected */
    size_t n_awaited;
    ft_known_us look; /* when the next EVENT_LOOK is */
} sim;

/* ---- devices (wisp_device.c) ---- */
/* Draws the lengths of a new text, which is not asked for yet. */
void ft_sim_device_text(sim *s, uint32_t who);
void ft_sim_device_ask(sim *s, uint32_t who);
/* How long the device waits then. *again: for the same text; else its user gives that one up. */
int64_t ft_sim_device_refused(sim *s, uint32_t who, bool *again);
void ft_sim_device_draft(sim *s, uint32_t who);
void ft_sim_device_end(sim *s, uint32_t who);
/* Counts a text that is unfinished at the end and can no longer keep its promise. Without them the
 * slowest texts would not be counted. */
void ft_sim_device_count_late(sim *s, const device *d);
/* Whether its text would be as fast as promised if its last token came at now_us. */
ft_promise_kept ft_sim_device_kept(const device *d, int64_t now_us);
/* Counts a text that ended so, or can end so at best. */
void ft_sim_device_count(sim *s, const device *d, ft_promise_kept kept);
/* What its rounds are, and what the next one is expected to bring, in tokens. */
ft_gain_kind ft_sim_gain_kind(const sim *s);
double ft_sim_gain(const sim *s, const device *d);
/* The mean delay of a message. */
int64_t ft_sim_usual_delay_us(const sim *s);
/* The delay of one message. */
int64_t ft_sim_delay_us(sim *s, device *d);
int64_t ft_sim_longest_rtt_us(const sim *s);
bool ft_sim_counted(const sim *s);
/* What the server knows of a text's promise. A text's speed counts from its request on, at its
 * device (eq. (20)). */
ft_promise ft_sim_promise(const sim *s, const device *d);
/* The times of the device's round, whose pass is over now; spike is not set. */
ft_late_round ft_sim_round_times(const sim *s, const device *d);

/* ---- admission (wisp_admit.c) ---- */
/* Whether a text that arrives now is promised its speed. */
bool ft_sim_admits(const sim *s, const device *d);
/* A verdict is given; its tokens are committed. */
void ft_sim_admit_saw(sim *s, const device *d, const ft_gain_round *round);

/* ---- server (wisp_server.c) ---- */
/* A server without work. `cost` is borrowed and must be primed. longest_tok: of a text. */
void ft_sim_server_init(sim *s, const ft_cost *cost, double longest_tok, uint64_t seed);
/* Room for n members. FT_NOMEM: it is as it was. */
FT_WARN_UNUSED ft_status ft_sim_server_reserve(sim *s, size_t n, ft_error *err);
void ft_sim_server_deinit(sim *s);
/* One more member; there must be room. */
void ft_sim_server_join(sim *s, uint32_t who);
/* A member whose text has ended, or was refused. */
void ft_sim_server_leave(sim *s, uint32_t who);
/* The server is gone: its members lose their KV and their rounds, and are members no more. They
 * stay in members[n_members], which is returned, until the next join. */
size_t ft_sim_server_lose(sim *s);
void ft_sim_server_open(sim *s, uint32_t who);
void ft_sim_server_draft(sim *s, uint32_t who);
void ft_sim_server_pass_over(sim *s);
/* After an event. Starts a pass if there is none, somebody has work, and no other event is of this
 * moment. */
void ft_sim_server_run(sim *s);
/* The next event before until_us; false: there is none. */
bool ft_sim_next(sim *s, int64_t until_us, ft_sim_event *out);

/* ---- what waits although the engine is free (wisp_hold.c) ---- */
/* Removes from work[n] what is held back, and sets `look`. Returns how many works are left. */
size_t ft_sim_hold(sim *s, size_t n);
/* The most verifications of a pass that begins now with work[n]. */
uint32_t ft_sim_cap(const sim *s, size_t n);

#endif
