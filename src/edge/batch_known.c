// SPDX-License-Identifier: Apache-2.0
// Estimates from what rounds have shown. Pure.
#include "edge/batch_known.h"

#include <math.h>

/* The assumed acceptance counts as much as so many judged tokens: those of a batch's first rounds.
 * With half as many, a first round of few tasks would decide the length. Twice as many would make
 * a wrong assumption last twice as long. */
#define ASSUMED_TOK 32
#define TRIPS_KEPT  64 /* a round trip fades when so many others have been seen */
/* A reading fades when so many other tokens have been read: those of some tens of prompts. Half as
 * many would follow the machine's noise, twice as many would take longer to forget what it was. */
#define READ_KEPT_TOK 4096

/* A quarter changes which length is best; less is what noise and growing texts bring. */
#define FACTS_CHANGED 1.25
/* Less is within what the laws of times are wrong by. */
#define WORTH 0.05

void ft_batch_known_init(ft_batch_known *k, double acceptance)
{
    *k = (ft_batch_known){.judged = ASSUMED_TOK, .accepted = ASSUMED_TOK * acceptance};
    for (int i = 0; i < FT_STATIONS; i++)
        ft_cost_init(&k->cost[i]);
}

void ft_batch_known_costs(ft_batch_known *k, ft_station station, const ft_costs *costs)
{
    ft_cost_prime(&k->cost[station], costs->us, costs->error);
    k->costs_known[station] = true;
}

void ft_batch_known_saw_pass(ft_batch_known *k, ft_station station, const ft_pass *pass, double us)
{
    if (us < 1)
        return;
    ft_cost_observe(&k->cost[station], pass, (int64_t)us);
}

void ft_batch_known_saw_reading(ft_batch_known *k, ft_station station, uint32_t tokens, double us)
{
    ft_batch_reading *r = &k->reading[station];
    r->tokens += tokens;
    r->us += us;
    if (r->tokens > READ_KEPT_TOK) {
        r->us *= READ_KEPT_TOK / r->tokens;
        r->tokens = READ_KEPT_TOK;
    }
}

void ft_batch_known_saw_chain(ft_batch_known *k, uint32_t drafted, uint32_t accepted)
{
    k->accepted += accepted;
    k->judged += accepted < drafted ? accepted + 1.0 : drafted;
}

void ft_batch_known_saw_trip(ft_batch_known *k, double s)
{
    k->n_trips += k->n_trips < TRIPS_KEPT;
    k->trip_s += (s - k->trip_s) / k->n_trips;
}

void ft_batch_known_saw_text(ft_batch_known *k, uint32_t tokens, bool stopped)
{
    k->tokens += tokens;
    k->n_stops += stopped;
}

double ft_batch_known_read_us(const ft_batch_known *k, ft_station station)
{
    const ft_batch_reading *r = &k->reading[station];
    return r->tokens > 0 ? r->us / r->tokens : 0;
}

double ft_batch_known_acceptance(const ft_batch_known *k)
{
    return k->accepted / k->judged;
}

/* If each token ends a text with the same chance, texts that may go on for ever have tokens /
 * n_stops of them in the mean, counting the tokens of those that have not ended, too. The mean of
 * the smaller of such a length and `most`: */
double ft_batch_known_tokens(const ft_batch_known *k, uint32_t most)
{
    if (k->n_stops == 0)
        return most;
    const double mean = k->tokens / k->n_stops;
    return fmax(1, mean * (1 - exp(-(most / mean))));
}

static bool apart(double a, double b)
{
    return a > b * FACTS_CHANGED || b > a * FACTS_CHANGED;
}

bool ft_batch_facts_differ(const ft_batch_facts *then, const ft_batch_facts *now)
{
    return apart(then->tokens, now->tokens) || apart(then->n, now->n) ||
           apart(then->round_s[FT_STATION_DRAFT], now->round_s[FT_STATION_DRAFT]) ||
           apart(then->round_s[FT_STATION_VERIFY], now->round_s[FT_STATION_VERIFY]);
}

bool ft_batch_worth_changing(double as_is_s, double planned_s)
{
    return planned_s < (1 - WORTH) * as_is_s;
}
