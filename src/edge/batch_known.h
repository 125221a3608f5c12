/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of a pair of stations and of its texts: costs of passes, how often drafted tokens
 * are accepted, the network's part of a round, when texts end by themselves. What was measured
 * replaces what was assumed. Pure; the caller owns the state.
 */
#ifndef FT_EDGE_BATCH_KNOWN_H
#define FT_EDGE_BATCH_KNOWN_H

#include <stdbool.h>

#include "plan/plan.h"
#include "sched/cost_file.h"

typedef enum ft_station { FT_STATION_DRAFT, FT_STATION_VERIFY, FT_STATIONS } ft_station;

/* The reading of texts, as of prompts, which is cut into passes as the station likes. */
typedef struct ft_batch_reading {
    double tokens, us;
} ft_batch_reading;

typedef struct ft_batch_known {
    ft_cost cost[FT_STATIONS];
    bool costs_known[FT_STATIONS];
    ft_batch_reading reading[FT_STATIONS]; /* so far, the oldest fading */
    double judged, accepted; /* drafted tokens, those behind the first rejected one left out */
    double trip_s;           /* mean of n_trips, the oldest fading */
    uint32_t n_trips;
    double tokens;    /* of all texts so far */
    uint32_t n_stops; /* texts that ended by themselves */
} ft_batch_known;

/* Nothing is measured; a drafted token is accepted with this chance. */
void ft_batch_known_init(ft_batch_known *k, double acceptance);
/* Costs of a station from a file; measured passes replace them over time. */
void ft_batch_known_costs(ft_batch_known *k, ft_station station, const ft_costs *costs);

/* A pass of the station took `us`. */
void ft_batch_known_saw_pass(ft_batch_known *k, ft_station station, const ft_pass *pass, double us);
/* The station has read so many tokens of a text. */
void ft_batch_known_saw_reading(ft_batch_known *k, ft_station station, uint32_t tokens, double us);
/* Of a chain of drafted tokens so many were accepted. */
void ft_batch_known_saw_chain(ft_batch_known *k, uint32_t drafted, uint32_t accepted);
/* The network's part of a round. */
void ft_batch_known_saw_trip(ft_batch_known *k, double s);
/* A text grew by so many tokens; stopped: and has ended by itself. */
void ft_batch_known_saw_text(ft_batch_known *k, uint32_t tokens, bool stopped);

/* Microseconds in which the station reads a token of a text; 0: it has read none. */
double ft_batch_known_read_us(const ft_batch_known *k, ft_station station);
/* alpha of Zhu et al., (7). */
double ft_batch_known_acceptance(const ft_batch_known *k);
/* How many tokens a text brings yet if it may bring `most` > 0: at least one. */
double ft_batch_known_tokens(const ft_batch_known *k, uint32_t most);

/* What decides how long a plan takes. */
typedef struct ft_batch_facts {
    double tokens;               /* that a round brings */
    double round_s[FT_STATIONS]; /* of a batch of the plan */
    uint32_t n;                  /* tasks that are not done */
} ft_batch_facts;

/* Whether the facts differ so much from those of a plan that another plan may be better. */
bool ft_batch_facts_differ(const ft_batch_facts *then, const ft_batch_facts *now);
/* Whether a new plan is so much better than the batches as they are that it is worth changing
 * them: seconds that are left. */
bool ft_batch_worth_changing(double as_is_s, double planned_s);

#endif
