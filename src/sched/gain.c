// SPDX-License-Identifier: Apache-2.0
// What rounds brought lately, as exponentially weighted means. A session's own mean starts from
// what is usual; the usual one starts from its first sample. Pure; the caller owns the state.
#include "sched/gain.h"

#include "sched/tuning.h"

#define TUNE          (ft_sched_tune->gain)
#define FIRST_RUN_TOK 1.0 /* a pass of a run brings one token, unless the server drafts for it */

static void saw(ft_gain *gain, const ft_gain_round *round, double weight)
{
    double tok = round->tok > 0 ? round->tok : 1;
    ft_mean_saw(&gain->kind_tok[round->kind], tok, weight);
    ft_mean_saw(&gain->rows, round->rows, weight);
    ft_mean_saw(&gain->tok, tok, weight);
}

void ft_gain_init(ft_gain *gain, const ft_gain *usual)
{
    *gain = usual ? *usual : (ft_gain){0};
    if (!gain->kind_tok[FT_GAIN_TREE].known)
        gain->kind_tok[FT_GAIN_TREE] = (ft_mean){true, TUNE.first_tree_tok};
    gain->kind_tok[FT_GAIN_RUN] = (ft_mean){true, FIRST_RUN_TOK};
}

void ft_gain_saw(ft_gain *gain, const ft_gain_round *round)
{
    saw(gain, round, TUNE.weight);
}

void ft_gain_saw_usual(ft_gain *usual, const ft_gain_round *round)
{
    saw(usual, round, TUNE.usual_weight);
}

double ft_gain_expected(const ft_gain *gain, ft_gain_kind kind)
{
    return gain->kind_tok[kind].value;
}
