// SPDX-License-Identifier: Apache-2.0
// What follows from what was seen: what things take, what a tree brings, and what trees may lose.
// Pure reads of the state.
#include "spec/control_estimate.h"

#include <math.h>

#include "base/num.h"
#include "spec/tuning.h"

/* Tuning constants, spec/tuning.h. */
#define ACCEPT (ft_spec_tune->accept)
#define MODES  (ft_spec_tune->modes)
#define TRIES  (ft_spec_tune->tries)

double ft_control_line_at(const ft_control_line *l, double x)
{
    return fmax(l->y + l->slope * (x - l->x), 0);
}

/* ---- acceptance ---- */

static double ratio(const ft_control_ratio *r, double prior)
{
    return (r->came + ACCEPT.shape_count * prior) / (r->expected + ACCEPT.shape_count);
}

double ft_control_miss_rate(const ft_control *c)
{
    return ft_clamp(c->miss.came / c->miss.expected, 0.01, 1);
}

ft_control_odds ft_control_odds_of(const ft_control *c)
{
    ft_control_odds o = {.miss = ft_control_miss_rate(c)};
    o.level[0] = ratio(&c->level[0], 1);
    o.width[0] = ratio(&c->width[0], 1);
    for (int i = 1; i < FT_CONTROL_LEVELS; i++)
        o.level[i] = ratio(&c->level[i], o.level[i - 1]);
    for (int i = 1; i < FT_CONTROL_WIDTHS; i++)
        o.width[i] = fmin(ratio(&c->width[i], ACCEPT.width_gain * o.width[i - 1]), o.width[i - 1]);
    return o;
}

/* A tree's place among the classes of width: *class, and the share of the next one. */
double ft_control_width_place(uint32_t nodes, uint32_t depth, uint32_t *class)
{
    double place = ft_clamp(log2((double)nodes / depth), 0, FT_CONTROL_WIDTHS - 1);
    *class = ft_min_u32((uint32_t)place, FT_CONTROL_WIDTHS - 2);
    return place - *class;
}

double ft_control_width_factor(const ft_control_odds *o, uint32_t nodes, uint32_t depth)
{
    uint32_t class;
    double next = ft_control_width_place(nodes, depth, &class);
    return o->width[class] * (1 - next) + o->width[class + 1] * next;
}

/* ---- what things take ---- */

/* The server's load now, in us a token of a run would take: its word, or a bare verification. */
static double reference_us(const ft_control *c)
{
    if (c->hint_us > 0)
        return c->hint_us;
    return c->verify.n ? ft_control_line_at(&c->verify, 0) + c->queue_us : 0;
}

double ft_control_token_us(const ft_control *c)
{
    if (c->run_us <= 0)
        return reference_us(c);
    if (c->run_hint_us <= 0 || c->hint_us <= 0)
        return c->run_us; /* measured again from time to time */
    return c->run_us * ft_clamp(c->hint_us / c->run_hint_us, 0.2, 5);
}

/* Whether verifications take another time now than when a run was measured last. */
bool ft_control_load_changed(const ft_control *c)
{
    double then_us = ft_control_line_at(&c->run_verify, c->verify.x), now_us = c->verify.y;
    return c->hint_us <= 0 &&
           (now_us > TRIES.changed_load * then_us || then_us > TRIES.changed_load * now_us);
}

double ft_control_forward_us(const ft_control *c)
{
    return c->draft.n ? c->draft.slope : 0;
}

double ft_control_answer_us(const ft_control *c, uint32_t nodes)
{
    return c->verify.n ? c->queue_us + ft_control_line_at(&c->verify, nodes) : 0;
}

/* How much longer than at the last verdict the server takes, as runs tell. */
double ft_control_slower(const ft_control *c)
{
    if (!c->running || c->round_ref_us <= 0)
        return 1;
    return ft_clamp(ft_control_token_us(c) / c->round_ref_us, 0.1, 10);
}

/* Time from one verdict to the next. */
double ft_control_cycle_us(const ft_control *c, uint32_t budget, uint32_t depth)
{
    return ft_control_line_at(&c->draft, depth * c->forwards) + c->rtt_us +
           ft_control_slower(c) * (c->queue_us + ft_control_line_at(&c->verify, budget));
}

double ft_control_tokens_of(const ft_control_odds *o, uint32_t budget, uint32_t depth)
{
    double tokens = 1, path = 1, miss = o->miss * ft_control_width_factor(o, budget, depth);
    for (uint32_t i = 0; i < depth; i++) {
        path *= 1 - ft_clamp(miss * o->level[ft_min_u32(i, FT_CONTROL_LEVELS - 1)], 0.005, 1);
        tokens += path;
    }
    return tokens;
}

double ft_control_loss_limit_us(const ft_control *c)
{
    return MODES.loss_rounds * ft_control_cycle_us(c, c->budget, c->depth) +
           MODES.loss_tokens * ft_control_token_us(c);
}
