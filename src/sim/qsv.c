// SPDX-License-Identifier: Apache-2.0
// Ways to choose drafts. Stateless: what a way remembers from round to round is in a chooser, which
// a run owns.
#include "sim/qsv.h"

#include <string.h>

#define X(id, text) [FT_QSV_METHOD_##id] = text,
const char *const ft_qsv_method_name[FT_QSV_METHODS] = {FT_QSV_METHOD_LIST(X)};
#undef X

typedef struct chooser {
    const ft_qsv_config *config;
    const ft_qsv_way *way;
    uint32_t length; /* HEURISTIC: of the next draft */
} chooser;

ft_status ft_qsv_check_policy(const ft_qsv_config *config, const ft_policy *policy, ft_error *err)
{
    if (policy->n_l == config->n_l &&
        policy->n_lengths == (uint32_t)config->k[FT_QSV_LENGTH_MOST] &&
        memcmp(policy->l, config->l, config->n_l * sizeof *config->l) == 0)
        return FT_OK;
    return ft_error_set(err, FT_INVALID,
                        "simulate: the policy chooses among other lengths or l than the setting: "
                        "train one with this setting");
}

static ft_qsv_draft choose(const chooser *c, const ft_qsv_walk *walk)
{
    static const ft_qsv_kind kind_of[FT_QSV_METHODS] = {[FT_QSV_METHOD_SQ] = FT_QSV_SQ,
                                                        [FT_QSV_METHOD_WHOLE] = FT_QSV_WHOLE,
                                                        [FT_QSV_METHOD_CHAIN] = FT_QSV_EXACT,
                                                        [FT_QSV_METHOD_TREE] = FT_QSV_EXACT};
    const ft_qsv_way *way = c->way;
    ft_qsv_draft draft = {
        .kind = kind_of[way->method], .length = way->length, .i_l = way->i_l, .width = 1};
    float state[FT_POLICY_INPUTS];
    ft_policy_choice choice;
    switch (way->method) {
    case FT_QSV_METHOD_POLICY:
        ft_qsv_walk_state(walk, state);
        choice = ft_policy_choose(way->policy, state);
        draft.length = choice.length;
        draft.i_l = choice.i_l;
        break;
    case FT_QSV_METHOD_HEURISTIC:
        draft.length = c->length;
        break;
    case FT_QSV_METHOD_THRESHOLD:
        draft.threshold = way->threshold;
        break;
    case FT_QSV_METHOD_TREE:
        draft.width = way->width;
        break;
    default:
        break;
    }
    return draft;
}

/* Section V-A: two more if all were accepted, otherwise as many as were. One at least: a round
 * without a draft would never grow again. */
static void learn(chooser *c, const ft_qsv_round *round)
{
    const uint32_t most = (uint32_t)c->config->k[FT_QSV_LENGTH_MOST];
    c->length = round->accepted == round->levels
                    ? c->length + (uint32_t)c->config->k[FT_QSV_HEURISTIC_STEP]
                    : round->accepted;
    c->length = c->length > most ? most : c->length < 1 ? 1 : c->length;
}

static void add(const ft_qsv_round *r, uint32_t l, ft_qsv_result *sum)
{
    sum->rounds++;
    sum->levels += r->levels;
    sum->nodes += r->nodes;
    sum->accepted += r->accepted;
    sum->tokens += r->tokens;
    sum->l_sum += (uint64_t)l * r->nodes;
    sum->bits += r->bits;
    sum->draft_ms += r->draft_ms;
    sum->up_ms += r->up_ms;
    sum->verify_ms += r->verify_ms;
    sum->down_ms += r->down_ms;
}

static void run_text(chooser *c, ft_qsv_walk *walk, ft_qsv_result *sum)
{
    ft_qsv_round round;
    c->length = c->way->length;
    while (ft_qsv_walk_more(walk)) {
        if (c->way->method == FT_QSV_METHOD_PLAIN) {
            ft_qsv_walk_plain(walk, &round);
            add(&round, 0, sum);
            continue;
        }
        const ft_qsv_draft draft = choose(c, walk);
        const bool point = draft.kind == FT_QSV_QS || draft.kind == FT_QSV_SQ;
        ft_qsv_walk_round(walk, &draft, &round);
        add(&round, point ? c->config->l[draft.i_l] : 0, sum);
        if (c->way->method == FT_QSV_METHOD_HEURISTIC)
            learn(c, &round);
    }
}

void ft_qsv_run(const ft_qsv_opts *opts, const ft_qsv_way *way, ft_qsv_result *out)
{
    chooser c = {.config = opts->setting->config, .way = way};
    *out = (ft_qsv_result){0};
    for (uint32_t replay = 0; replay < opts->replays; replay++) {
        ft_qsv_walk walk;
        ft_qsv_walk_init(&walk, opts->setting, opts->link, opts->seed, replay);
        for (size_t i = 0; i < opts->n_texts; i++) {
            ft_qsv_walk_text(&walk, opts->texts[i]);
            run_text(&c, &walk, out);
        }
    }
}

double ft_qsv_tokens_per_s(const ft_qsv_result *r)
{
    const double ms = r->draft_ms + r->up_ms + r->verify_ms + r->down_ms;
    return ms > 0 ? 1000 * (double)r->tokens / ms : 0;
}
