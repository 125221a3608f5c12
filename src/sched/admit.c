// SPDX-License-Identifier: Apache-2.0
// Admission. The estimate of load does not know all that a text costs. So two limits hold: one on
// the load, one on the rounds that are behind. Pure; the caller owns the state.
#include "sched/admit.h"

#include <math.h>

#include "sched/tuning.h"

#define TUNE (ft_sched_tune->admit)

/* Open texts may need so many times the pool: they rarely need all of it at once, and the KV of one
 * that gave way is computed again. With more of them each would wait for too many turns. */
#define KV_OVERCOMMIT 4

double ft_admit_load(const ft_cost *cost, const ft_gain *usual, const ft_admit_text *text)
{
    const ft_gain *seen = text->gain && text->gain->tok.known ? text->gain : usual;
    double tok = seen->tok.known ? seen->tok.value : 1; /* as if the target decoded alone */
    double mean = seen->tok.known ? seen->rows.value : 1;
    uint32_t rows = (uint32_t)ceil(mean);
    const ft_pass round = ft_pass_plus((ft_pass){0}, text->len, rows, rows);
    return text->tokens_per_s / tok * ft_cost_added_us(cost, &round) * (mean / rows) / 1e6;
}

bool ft_admit_promise(double promised, double asked, double behind)
{
    if (promised == 0) /* where estimates are wrong, somebody's rounds must correct them */
        return true;
    return promised + asked <= TUNE.load_most && behind <= TUNE.behind_most;
}

uint32_t ft_admit_more(double promised, double asked, double behind, uint32_t most)
{
    if (most == 0 || !ft_admit_promise(promised, asked, behind))
        return 0;
    const uint32_t first = promised == 0; /* it is given whatever its load is */
    if (behind > TUNE.behind_most)
        return first;
    double left = TUNE.load_most - promised - first * asked;
    double more = left < 0 ? 0 : asked > 0 ? floor(left / asked) : most;
    return more + first < most ? (uint32_t)more + first : most;
}

bool ft_admit_is_behind(const ft_promise *promise, const ft_late_round *round)
{
    const int64_t since_us = round->verdict_us - promise->asked_us;
    const int64_t passes_us = 2 * (round->verdict_us - round->pass_us);
    const double owed_tok = promise->tokens_per_s * (double)(since_us - passes_us) / 1e6;
    return round->verdict_us > round->budget_us &&
           round->budget_us > round->arrival_us + 1 && /* else its edge took all the time */
           promise->had_tok < owed_tok;
}

/* What is left of a share since the last round. */
static double left_of(const ft_admit_behind *behind, int64_t now_us)
{
    return exp((double)(behind->saw_us - now_us) / 1e6 / TUNE.behind_s);
}

double ft_admit_behind_share(const ft_admit_behind *behind, int64_t now_us)
{
    return behind->share * left_of(behind, now_us);
}

void ft_admit_saw(ft_admit_behind *behind, bool is_behind, int64_t now_us)
{
    const double weight = TUNE.behind_weight;
    behind->share = behind->share * fmin(left_of(behind, now_us), 1 - weight) + weight * is_behind;
    behind->saw_us = now_us;
}

bool ft_admit_kv(const ft_admit_blocks *wanted, uint32_t pool_blocks)
{
    const uint64_t most = (uint64_t)KV_OVERCOMMIT * pool_blocks;
    return wanted->all <= most || wanted->of_tenant <= most / wanted->n_tenants;
}
