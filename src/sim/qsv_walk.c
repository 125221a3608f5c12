// SPDX-License-Identifier: Apache-2.0
// Rounds on a virtual clock. The edge drafts, sends, waits and drafts again; nothing overlaps, as
// in the paper. Invariant: a walk's position is at most the text's length, and its time never goes
// back.
#include "sim/qsv_walk.h"

#include <math.h>

#include "base/rng.h"
#include "spec/rule.h"

#define DOMAIN 0x71737620u /* of the draws of acceptance, so that a seed serves other draws, too */
#define NS     1e6         /* of a millisecond */

/* Bits that tell one of n things. */
static uint32_t bits_of(uint64_t n)
{
    uint32_t bits = 0;
    while (bits < 64 && (UINT64_C(1) << bits) < n)
        bits++;
    return bits;
}

ft_status ft_qsv_setting_init(const ft_qsv_config *config, const ft_positions *positions,
                              ft_error *err, ft_qsv_setting *out)
{
    *out = (ft_qsv_setting){
        .config = config, .positions = positions, .token_bits = bits_of(positions->n_vocab)};
    for (uint32_t i = 0; i < config->n_l; i++) {
        out->row[i] = ft_positions_find_l(positions, config->l[i]);
        if (out->row[i] == positions->n_l)
            return ft_error_set(err, FT_INVALID,
                                "simulate: the positions have no l = %u, which the setting uses: "
                                "record them with it",
                                config->l[i]);
    }
    return FT_OK;
}

void ft_qsv_walk_init(ft_qsv_walk *walk, const ft_qsv_setting *setting, const ft_qsv_link *link,
                      uint64_t seed, uint32_t replay)
{
    ft_line_rate rate = link->rate;
    rate.seed = seed + replay;
    *walk = (ft_qsv_walk){.setting = setting, .seed = seed, .replay = replay};
    ft_line_init(&walk->line, &rate);
    walk->line.begun = true; /* step 0 of a chain begins at time 0 */
}

void ft_qsv_walk_text(ft_qsv_walk *walk, uint32_t text)
{
    walk->text = text;
    walk->at = 0;
    walk->past = (ft_policy_past){0};
}

static const ft_positions_text *text_of(const ft_qsv_walk *walk)
{
    return &walk->setting->positions->texts[walk->text];
}

bool ft_qsv_walk_more(const ft_qsv_walk *walk)
{
    return walk->at < text_of(walk)->n;
}

void ft_qsv_walk_state(const ft_qsv_walk *walk, float state[FT_POLICY_INPUTS])
{
    ft_policy_state(&walk->past, ft_line_rate_at(&walk->line.rate, walk->now_ns), state);
}

/* ---- a draft ---- */

static double draw(const ft_qsv_walk *walk, uint32_t at)
{
    const uint32_t counter[4] = {at, walk->text, walk->replay, DOMAIN};
    const uint32_t key[2] = {(uint32_t)walk->seed, (uint32_t)(walk->seed >> 32)};
    uint32_t out[4];
    ft_philox4x32(counter, key, out);
    return (out[0] + 0.5) / 4294967296.0;
}

/* The chance that the target's token at a position is accepted. */
static double chance(const ft_qsv_walk *walk, const ft_qsv_draft *draft, uint32_t at)
{
    const ft_qsv_setting *s = walk->setting;
    const ft_positions_text *text = text_of(walk);
    const size_t cell = (size_t)s->row[draft->i_l] * text->n + at;
    const double p = (double)text->p[at];
    switch (draft->kind) {
    case FT_QSV_QS:
        return fmin(1, (double)text->count[cell] / s->config->l[draft->i_l] / p);
    case FT_QSV_SQ:
        return (double)text->sq_accept[cell];
    case FT_QSV_WHOLE:
        return fmin(1, (double)text->q[at] / p);
    case FT_QSV_EXACT:
        break;
    }
    return text->rank[at] < draft->width ? 1 : 0;
}

/* Of the point at a position. */
static double point_bits(const ft_qsv_walk *walk, uint32_t i_l, uint32_t at)
{
    const ft_qsv_setting *s = walk->setting;
    const ft_positions_text *text = text_of(walk);
    const uint32_t index = s->positions->index_bits[s->row[i_l]];
    const uint32_t adaptive = text->adaptive_bits[(size_t)s->row[i_l] * text->n + at];
    switch (s->config->code) {
    case FT_QSV_CODE_INDEX:
        return index;
    case FT_QSV_CODE_ADAPTIVE:
        return adaptive;
    default:
        return 8.0 * ft_ratio_sent_bytes(s->config->l[i_l], index, adaptive);
    }
}

/* Bits that one node takes on the uplink: its number in the vocabulary and its distribution. */
static double node_bits(const ft_qsv_walk *walk, const ft_qsv_draft *draft, uint32_t at)
{
    const ft_qsv_setting *s = walk->setting;
    double bits = s->token_bits;
    if (draft->kind == FT_QSV_WHOLE)
        bits += s->config->k[FT_QSV_PROBABILITY_BITS] * s->positions->n_vocab;
    else if (draft->kind != FT_QSV_EXACT)
        bits += point_bits(walk, draft->i_l, at);
    return bits;
}

static uint32_t levels_of(const ft_qsv_walk *walk, const ft_qsv_draft *draft)
{
    const ft_positions_text *text = text_of(walk);
    const uint32_t left = text->n - walk->at;
    const uint32_t most = draft->length < left ? draft->length : left;
    uint32_t levels = 1;
    while (levels < most && (double)text->top[walk->at + levels] >= draft->threshold)
        levels++;
    return levels;
}

/* What the target accepts, and the bits of all that was drafted. */
static void judge(const ft_qsv_walk *walk, const ft_qsv_draft *draft, ft_qsv_round *out)
{
    const uint32_t left = text_of(walk)->n - walk->at;
    double all = 1; /* chance that all so far are accepted */
    bool on = true;
    out->expected = 1;
    out->bits = walk->setting->config->k[FT_QSV_MESSAGE_BITS];
    for (uint32_t i = 0; i < out->levels; i++) {
        const uint32_t at = walk->at + i;
        const double c = chance(walk, draft, at);
        all *= c;
        if (i + 1 < left) /* behind the last token of the text there is none of the target's */
            out->expected += all;
        on = on && draw(walk, at) < c;
        out->accepted += on;
        out->bits += draft->width * node_bits(walk, draft, at);
        /* Only the first node of a level has children. */
        if (draft->kind == FT_QSV_EXACT && text_of(walk)->rank[at] > 0) {
            all = 0;
            on = false;
        }
    }
    out->tokens = out->accepted < left ? out->accepted + 1 : left;
}

/* The tokens that the round brought become text. An edge has a point for each drafted token, and
 * for the one that came instead of a rejected one. */
static void remember(ft_qsv_walk *walk, const ft_qsv_draft *draft, const ft_qsv_round *round)
{
    const ft_qsv_setting *s = walk->setting;
    const ft_positions_text *text = text_of(walk);
    for (uint32_t i = 0; i < round->tokens; i++) {
        const size_t cell = (size_t)s->row[draft->i_l] * text->n + walk->at + i;
        const bool has_point = draft->kind == FT_QSV_QS && i < round->levels;
        ft_policy_saw(&walk->past,
                      has_point ? (float)text->count[cell] / (float)s->config->l[draft->i_l] : -1);
    }
}

/* ---- its times ---- */

static double down_ms(const ft_qsv_setting *s, uint64_t n_answers)
{
    const double kbit_s = s->config->k[FT_QSV_DOWN_KBIT_S];
    return kbit_s > 0 ? (s->token_bits + bits_of(n_answers)) / kbit_s : 0; /* eq. (8) */
}

static double verify_ms(const ft_qsv_setting *s, uint32_t nodes)
{
    const double *k = s->config->k;
    return s->verify_ms ? s->verify_ms[nodes]
                        : k[FT_QSV_VERIFY_MS] + nodes * k[FT_QSV_VERIFY_TOKEN_MS];
}

static void pass_ms(ft_qsv_walk *walk, double ms)
{
    walk->now_ns += (int64_t)(ms * NS);
}

void ft_qsv_walk_round(ft_qsv_walk *walk, const ft_qsv_draft *draft, ft_qsv_round *out)
{
    const double *k = walk->setting->config->k;
    const uint32_t levels = levels_of(walk, draft);
    *out = (ft_qsv_round){.levels = levels, .nodes = levels * draft->width};
    judge(walk, draft, out);
    out->draft_ms = levels * k[FT_QSV_DRAFT_MS];
    pass_ms(walk, out->draft_ms);
    /* eq. (7); a message is whole bytes */
    const int64_t sent_ns = ft_line_take(&walk->line, walk->now_ns, (size_t)ceil(out->bits / 8));
    out->up_ms = (double)(sent_ns - walk->now_ns) / NS;
    walk->now_ns = sent_ns;
    out->verify_ms = verify_ms(walk->setting, out->nodes);
    out->down_ms = k[FT_QSV_RTT_MS] + down_ms(walk->setting, (uint64_t)out->nodes + 1);
    pass_ms(walk, out->verify_ms + out->down_ms);
    remember(walk, draft, out);
    walk->at += out->tokens;
}

void ft_qsv_walk_plain(ft_qsv_walk *walk, ft_qsv_round *out)
{
    *out = (ft_qsv_round){.tokens = 1, .expected = 1, .verify_ms = verify_ms(walk->setting, 0)};
    /* The target goes on while a token is on its way, so only the slower of the two counts. */
    out->down_ms = fmax(0, down_ms(walk->setting, 1) - out->verify_ms);
    pass_ms(walk, out->verify_ms + out->down_ms);
    ft_policy_saw(&walk->past, -1);
    walk->at++;
}
