// SPDX-License-Identifier: Apache-2.0
// What was seen becomes estimates: times are lines or means that follow, acceptance is counts that
// fade, and what trees have cost over runs is an account. Pure; the caller owns the state.
#include "spec/control.h"

#include <math.h>

#include "base/num.h"
#include "spec/control_estimate.h"
#include "spec/tuning.h"

/* Tuning constants, spec/tuning.h. */
#define TIMES  (ft_spec_tune->times)
#define ACCEPT (ft_spec_tune->accept)
#define TREES  (ft_spec_tune->trees)
#define MODES  (ft_spec_tune->modes)
#define TRIES  (ft_spec_tune->tries)

#define PRICE_MOST 0.99 /* a row of one's own is always worth it */

/* A filter for level and slope: the slope learns only from measurements apart from where the line
 * stands, and keeps still otherwise. The line is never negative right of `zero`. */
static void line_add(ft_control_line *l, double x, double y, double first_slope, double zero)
{
    if (l->n++ == 0) {
        *l = (ft_control_line){x, y, first_slope, TIMES.slope_doubt * TIMES.slope_doubt, 1};
        return;
    }
    double scale = fmax(l->y, 1), dx = x - l->x, at = ft_control_line_at(l, x);
    double off = fmin(y - at, TIMES.outlier * scale); /* the machine may have been elsewhere */
    double gain = l->doubt * dx / (l->doubt * dx * dx + TIMES.noise * TIMES.noise);
    double follow = fmax(TIMES.smooth, 1. / l->n);
    l->slope += gain * off;
    l->doubt = ft_clamp(l->doubt * (1 - gain * dx) + TIMES.slope_drift * TIMES.slope_drift, 0,
                        TIMES.slope_doubt * TIMES.slope_doubt);
    l->y += l->slope * follow * dx + follow * (off - gain * off * dx);
    l->x += follow * dx;
    l->y = fmax(l->y, 1);
    l->slope = ft_clamp(l->slope, 0, l->y / fmax(l->x - zero, 1));
}

static void count(ft_control_ratio *r, double missed, double expected, double fade)
{
    r->came = r->came * fade + missed;
    r->expected = r->expected * fade + expected;
}

/* A change of the text's kind must not wait until old counts have faded. */
static void notice_change(ft_control *c)
{
    double miss = ft_control_miss_rate(c), off = c->recent.came - miss * c->recent.expected;
    double variance = fmax(miss * (1 - miss), 0.05) / (1 - ACCEPT.fade_recent * ACCEPT.fade_recent);
    if (off * off > ACCEPT.changed * ACCEPT.changed * variance)
        c->miss = c->recent;
}

/* Of a tree of `depth` levels the text followed n_path nodes. */
static void saw_path(ft_control *c, uint32_t nodes, uint32_t depth, uint32_t n_path)
{
    uint32_t class;
    double next = ft_control_width_place(nodes, depth, &class);
    for (uint32_t i = 0; i <= n_path && i < depth; i++) {
        ft_control_odds o = ft_control_odds_of(c);
        uint32_t at = ft_min_u32(i, FT_CONTROL_LEVELS - 1);
        double missed = i == n_path, width = ft_control_width_factor(&o, nodes, depth);
        double alone = o.miss * o.level[at]; /* expected of a single node */
        count(&c->miss, missed, width * o.level[at], ACCEPT.fade);
        count(&c->recent, missed, width * o.level[at], ACCEPT.fade_recent);
        count(&c->level[at], missed, o.miss * width, ACCEPT.fade_shape);
        for (uint32_t j = 0; j < 2; j++) {
            double part = j ? next : 1 - next, over = o.width[class + j] / width;
            if (part > 0)
                count(&c->width[class + j], part * missed * over, part * alone,
                      1 - part * (1 - ACCEPT.fade_shape));
        }
        notice_change(c);
    }
}

/* ---- measurements ---- */

void ft_control_init(ft_control *c, const ft_control_opts *opts)
{
    *c = (ft_control){.opts = *opts,
                      .forwards = 1,
                      .miss = {ACCEPT.miss_prior * ACCEPT.prior_count, ACCEPT.prior_count},
                      .probe_in = TRIES.probe_first,
                      .probe_step = TRIES.probe_first};
}

void ft_control_new_text(ft_control *c)
{
    double keep = fmin(ACCEPT.text_count / c->miss.expected, 1);
    c->miss.came *= keep;
    c->miss.expected *= keep;
    c->recent = (ft_control_ratio){0};
}

void ft_control_expect_draft(ft_control *c, int64_t forward_us)
{
    if (c->draft.n == 0 && forward_us > 0)
        line_add(&c->draft, 1, (double)forward_us, (double)forward_us, 0);
}

void ft_control_saw_draft(ft_control *c, uint32_t levels, uint32_t forwards, int64_t us)
{
    if (levels == 0 || us <= 0)
        return;
    c->forwards += TIMES.smooth_rtt * (fmin((double)forwards / levels, 2) - c->forwards);
    if (forwards == 0 || (!c->warm && c->draft.n > 0 &&
                          (double)us > TIMES.cold * ft_control_line_at(&c->draft, forwards)))
        return;
    bool apart = fabs(forwards - c->draft.x) >= 1;
    line_add(&c->draft, forwards, (double)us, (double)us / forwards, 0);
    if (!apart) /* tells nothing of the slope: then rather all is forwards' than nothing */
        c->draft.slope += TIMES.smooth_rtt * (c->draft.y / fmax(c->draft.x, 1) - c->draft.slope);
}

static void forgive(ft_control *c, double us)
{
    double limit = ft_control_loss_limit_us(c);
    c->loss_us = ft_clamp(c->loss_us - MODES.loss_share * us, -limit, 2 * limit);
    c->shadow_us = fmax(c->shadow_us - TRIES.shadow_share * us, 0);
}

static void saw_verify(ft_control *c, const ft_control_round *r)
{
    double y = fmax((double)r->verify_us, 1), change = ft_control_slower(c);
    /* Drafts that come just in time don't wait, however busy others keep the server. */
    int64_t waited_us = c->busy && r->others_us > r->queue_us ? r->others_us : r->queue_us;
    c->verify.y *= change;
    c->verify.slope *= change;
    c->queue_us *= change;
    if (c->verify.n == 0 && c->run_us > 0) /* as a pass without nodes takes */
        line_add(&c->verify, 0, c->run_us, TIMES.slope_prior * c->run_us, -1);
    line_add(&c->verify, r->nodes, y, TIMES.slope_prior * y / (1 + TIMES.slope_prior * r->nodes),
             -1);
    c->round_ref_us = 0;
    c->queue_us += TIMES.smooth * ((double)r->queue_us - c->queue_us);
    c->queued += TIMES.smooth_rtt * ((double)((double)waited_us > TREES.queued * y) - c->queued);
    c->busy = c->queued > (c->busy ? TREES.busy_off : TREES.busy_on);
}

/* The first tree of all, and far slower than a verification without nodes, which a run has shown,
 * lets one expect: neither estimates nor account shall hold it against the others. */
static bool is_cold(const ft_control *c, const ft_control_round *r)
{
    double draft_us = ft_control_line_at(&c->draft, r->depth),
           verify_us = ft_control_line_at(&c->verify, r->nodes);
    return !c->warm && r->nodes > 0 && c->run_us > 0 && c->verify.n == 0 &&
           (double)(r->draft_us + r->verify_us) > TIMES.cold * (draft_us + verify_us);
}

void ft_control_saw_round(ft_control *c, const ft_control_round *r)
{
    double us = (double)(r->draft_us + r->wait_us);
    bool cold = is_cold(c, r);
    c->warm = true;
    if (!cold)
        saw_verify(c, r);
    ft_control_saw_rtt(c, r->rtt_us);
    if (r->others_us > 0)
        ft_busy_saw(&c->others, r->others_us, r->verify_us);
    if (r->hint_token_us)
        ft_smooth(&c->hint_us, r->hint_token_us, TIMES.smooth);
    if (r->nodes > 0 && r->depth > 0)
        saw_path(c, r->nodes, r->depth, r->n_path);
    if (!cold)
        c->loss_us += us - (r->n_path + 1) * ft_control_token_us(c);
    forgive(c, us);
}

void ft_control_saw_run(ft_control *c, uint32_t tokens, int64_t us, uint32_t hint_token_us)
{
    if (hint_token_us)
        ft_smooth(&c->hint_us, hint_token_us, TIMES.smooth);
    if (tokens == 0 || us <= 0)
        return;
    double sample = (double)us / tokens;
    if (c->run_us > 0) {
        double before = ft_control_token_us(c);
        c->run_us = before + TIMES.smooth * (fmin(sample, TIMES.run_outlier * before) - before);
    } else {
        c->run_us = sample;
    }
    c->verify.doubt = fmin(c->verify.doubt + TIMES.slope_drift * TIMES.slope_drift,
                           TIMES.slope_doubt * TIMES.slope_doubt);
    if (c->verify.n == 0)
        c->verify = (ft_control_line){.y = c->run_us, .slope = TIMES.slope_prior * c->run_us};
    c->run_hint_us = c->hint_us;
    c->run_verify = c->verify;
    if (c->round_ref_us <= 0)
        c->round_ref_us = c->run_us;
    forgive(c, (double)us);
}

void ft_control_saw_shadow(ft_control *c, uint32_t nodes, uint32_t depth, uint32_t n_path,
                           int64_t us)
{
    c->shadow_us += (double)us;
    if (nodes > 0 && depth > 0)
        saw_path(c, nodes, depth, n_path);
}

void ft_control_saw_price(ft_control *c, double price)
{
    c->price = ft_clamp(price, 0, PRICE_MOST);
}

void ft_control_saw_rtt(ft_control *c, int64_t us)
{
    if (us >= 0)
        ft_smooth(&c->rtt_us, (double)us, TIMES.smooth_rtt);
}
