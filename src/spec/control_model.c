// SPDX-License-Identifier: Apache-2.0
// The controller's knowledge. Times are lines or means that follow measurements. Acceptance is one
// number, the chance that a level with one node is missed, from counts that fade; a law says what
// more nodes bring. Pure; the caller owns the state.
#include "spec/control_model.h"

#include <math.h>

#include "base/num.h"
#include "spec/tuning.h"

/* Tuning constants, spec/tuning.h. */
#define TIMES  (ft_spec_tune->times)
#define ACCEPT (ft_spec_tune->accept)
#define TRIES  (ft_spec_tune->tries)

/* A verification of so many nodes is expected to take twice as long as one of none, if nobody says
 * what a node takes. Without a price of nodes the first trees would be the largest, and if those do
 * not pay, runs follow. */
#define EXPECTED_NODES 128

#define PRICE_MOST 0.99 /* a row of one's own is always worth it */

/* Of a verification's time. Drafting ahead saves about half of the drafting, and makes a target on
 * the same processor some percent slower. */
#define LONG_DRAFT 0.1

double ft_control_line_at(const ft_control_line *l, double x)
{
    return fmax(l->y + l->slope * (x - l->x), 0);
}

/* Whether a time counts for nothing. off: how far it is from what was expected, doubt: the standard
 * deviation of that. One time that is far off is chance, two in a row are a change. *far: of the
 * time before. */
static bool is_chance(bool *far, double off, double doubt)
{
    const bool before = *far;
    *far = fabs(off) > TIMES.gate * doubt;
    return *far && !before;
}

/* A filter for level and slope. Only measurements far from the line's x change the slope. The line
 * is never negative to the right of `zero`. */
static void line_add(ft_control_line *l, double x, double y, double first_slope, double zero)
{
    if (l->n++ == 0) {
        *l = (ft_control_line){x, y, first_slope, TIMES.slope_doubt * TIMES.slope_doubt, 1, false};
        return;
    }
    const double dx = x - l->x, off = y - ft_control_line_at(l, x);
    const double doubt = l->doubt * dx * dx + TIMES.noise * TIMES.noise;
    if (is_chance(&l->far, off, l->y * sqrt(doubt)))
        return;
    double gain = l->doubt * dx / doubt;
    double follow = fmax(TIMES.smooth, 1. / l->n);
    l->slope += gain * off;
    l->doubt = ft_clamp(l->doubt * (1 - gain * dx) + TIMES.slope_drift * TIMES.slope_drift, 0,
                        TIMES.slope_doubt * TIMES.slope_doubt);
    l->y += l->slope * follow * dx + follow * (off - gain * off * dx);
    l->x += follow * dx;
    l->y = fmax(l->y, 1);
    l->slope = ft_clamp(l->slope, 0, l->y / fmax(l->x - zero, 1));
}

/* ---- acceptance ---- */

double ft_control_miss(const ft_control *c)
{
    return ft_clamp(c->missed / c->levels, 0.01, 1);
}

/* How often a level of such a tree is missed, over how often one with a single node is. The better
 * the draft, the more often its second guess is right where its first is wrong: w nodes are missed
 * with the chance miss^(1 + gain log2 w). By the ranks that `foretoken record positions` wrote for
 * three pairs of models the gain is 0.38 to 0.6. A little less loses less where a text differs. */
static double width_factor(double miss, uint32_t nodes, uint32_t depth)
{
    return pow(miss, ACCEPT.width_gain * log2(fmax((double)nodes / depth, 1)));
}

double ft_control_tokens_of(double miss, uint32_t budget, uint32_t depth)
{
    const double hit = 1 - ft_clamp(miss * width_factor(miss, budget, depth), 0.005, 1);
    double tokens = 1, path = 1;
    for (uint32_t i = 0; i < depth; i++)
        tokens += path *= hit;
    return tokens;
}

/* The text followed n_path nodes of a tree of `depth` levels. */
static void saw_path(ft_control *c, uint32_t nodes, uint32_t depth, uint32_t n_path)
{
    const double expected = width_factor(ft_control_miss(c), nodes, depth),
                 fade = ACCEPT.trees_fade;
    c->trees.n = c->trees.n * fade + 1;
    c->trees.nodes = c->trees.nodes * fade + nodes;
    c->trees.levels = c->trees.levels * fade + depth;
    c->trees.path = c->trees.path * fade + n_path;
    for (uint32_t i = 0; i <= n_path && i < depth; i++) {
        c->missed = c->missed * ACCEPT.fade + (i == n_path);
        c->levels = c->levels * ACCEPT.fade + expected;
    }
}

/* ---- what things take ---- */

double ft_control_token_us(const ft_control *c)
{
    if (c->run_us > 0 && c->run_hint_us > 0 && c->hint_us > 0)
        return c->run_us * ft_clamp(c->hint_us / c->run_hint_us, 0.2, 5);
    if (c->run_us > 0 || c->hint_us > 0)
        return c->run_us > 0 ? c->run_us : c->hint_us;
    return c->verify.n ? ft_control_line_at(&c->verify, 0) + c->queue_us : 0;
}

double ft_control_load(const ft_control *c)
{
    if (c->hint_us > 0 || c->run_verify.n == 0)
        return 1;
    const double then_us = ft_control_line_at(&c->run_verify, c->verify.x);
    return ft_control_line_at(&c->verify, c->verify.x) / fmax(then_us, 1);
}

double ft_control_forward_us(const ft_control *c)
{
    return c->draft.n ? c->draft.slope : 0;
}

double ft_control_row_us(const ft_control *c)
{
    return c->verify.n ? c->verify.slope : 0;
}

double ft_control_answer_us(const ft_control *c, uint32_t nodes)
{
    return c->verify.n ? c->queue_us + ft_control_line_at(&c->verify, nodes) : 0;
}

bool ft_control_drafts_long(const ft_control *c)
{
    return c->verify.n > 0 &&
           c->depth * ft_control_forward_us(c) >= LONG_DRAFT * ft_control_answer_us(c, c->budget);
}

double ft_control_slower(const ft_control *c)
{
    if (!c->running || c->verify_token_us <= 0)
        return 1;
    return ft_clamp(ft_control_token_us(c) / c->verify_token_us, 0.1, 10);
}

double ft_control_verify_us(const ft_control *c, uint32_t nodes)
{
    if (c->verify.n == 0)
        return (1 + TIMES.slope_prior * nodes) * ft_control_token_us(c);
    return ft_control_slower(c) * (c->queue_us + ft_control_line_at(&c->verify, nodes));
}

double ft_control_cycle_us(const ft_control *c, double budget, double depth)
{
    return ft_control_line_at(&c->draft, depth * c->forwards) + c->rtt_us +
           ft_control_slower(c) * (c->queue_us + ft_control_line_at(&c->verify, budget));
}

/* ---- measurements ---- */

void ft_control_init(ft_control *c, const ft_control_opts *opts)
{
    *c = (ft_control){.opts = *opts,
                      .forwards = 1,
                      .missed = ACCEPT.miss_prior * ACCEPT.prior_count,
                      .levels = ACCEPT.prior_count};
}

void ft_control_expect_draft(ft_control *c, int64_t forward_us)
{
    if (c->draft.n == 0 && forward_us > 0)
        line_add(&c->draft, 1, (double)forward_us, (double)forward_us, 0);
}

void ft_control_expect_verify(ft_control *c, int64_t us, int64_t node_us)
{
    const double slope = node_us > 0 ? (double)node_us : (double)us / EXPECTED_NODES;
    if (c->verify.n == 0 && us > 0)
        line_add(&c->verify, 0, (double)us, slope, 0);
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
    if (!apart) /* tells nothing of the slope: assume that all of the time is the forwards' */
        c->draft.slope += TIMES.smooth_rtt * (c->draft.y / fmax(c->draft.x, 1) - c->draft.slope);
}

static void saw_verify(ft_control *c, const ft_control_round *r)
{
    const double y = fmax((double)r->verify_us, 1), slower = ft_control_slower(c);
    c->verify.y *= slower;
    c->verify.slope *= slower;
    c->queue_us *= slower;
    if (c->verify.n == 0 && c->run_us > 0) /* a token of a run is a verification without nodes */
        line_add(&c->verify, 0, c->run_us, TIMES.slope_prior * c->run_us, -1);
    line_add(&c->verify, r->nodes, y, TIMES.slope_prior * y / (1 + TIMES.slope_prior * r->nodes),
             -1);
    c->queue_us += TIMES.smooth * ((double)r->queue_us - c->queue_us);
    if (c->verify_token_us > 0 || c->run_verify.n == 0)
        c->run_verify = c->verify;
    c->verify_token_us = 0;
}

/* One round without others may mean that two sessions have changed places. */
static void saw_others(ft_control *c, double us, double verify_us)
{
    if (verify_us <= 0)
        return;
    c->alone = us < TIMES.others * verify_us ? c->alone + 1 : 0;
    if (c->alone >= TIMES.alone_most)
        c->others_us = c->others_off_us = 0;
    if (c->alone > 0)
        return;
    if (c->others_us > 0)
        c->others_off_us += TIMES.smooth * (fabs(us - c->others_us) - c->others_off_us);
    ft_smooth(&c->others_us, us, TIMES.smooth);
}

double ft_control_busy_us(const ft_control *c)
{
    return fmax((1 - TIMES.others_margin) * c->others_us - TIMES.others_off * c->others_off_us, 0);
}

/* Whether this is the first tree, and it was far slower than what is known lets one expect: the
 * warm-up and the first run, or an earlier process. Then its times are those of cold caches and
 * tell nothing of later trees. */
static bool is_cold(const ft_control *c, const ft_control_round *r)
{
    const double verify_us = c->verify.n > 0 ? ft_control_line_at(&c->verify, r->nodes) : c->run_us;
    const double expected_us = ft_control_line_at(&c->draft, r->depth) + verify_us;
    return !c->warm && r->nodes > 0 && c->run_us > 0 &&
           (double)(r->draft_us + r->verify_us) > TIMES.cold * expected_us;
}

/* The share of the time that probes may lose. How long what they find will be of use is not known:
 * about as long as it has been (so far). Then the loss in sum should grow as the root of time, as
 * Exp3's does (Auer, Cesa-Bianchi, Freund and Schapire, 2002); the unit is what a token takes. But
 * conditions change, and so the share does not vanish. */
static double probe_share(const ft_control *c)
{
    const double token_us = ft_control_token_us(c);
    if (c->past_us <= token_us)
        return TRIES.probe_first;
    return fmax(TRIES.probe_first * sqrt(token_us / c->past_us), TRIES.probe_share);
}

/* Time that allows a share for what is tried. */
static void passed(ft_control *c, double us)
{
    c->past_us += us;
    c->shadow_us = fmax(c->shadow_us - TRIES.shadow_share * us, 0);
    c->probe_us = fmax(c->probe_us - probe_share(c) * us, 0);
}

void ft_control_saw_round(ft_control *c, const ft_control_round *r)
{
    const bool cold = is_cold(c, r);
    c->warm = true;
    if (!cold)
        saw_verify(c, r);
    ft_control_saw_rtt(c, r->rtt_us);
    saw_others(c, (double)r->others_us, (double)r->verify_us);
    if (r->hint_token_us)
        ft_smooth(&c->hint_us, r->hint_token_us, TIMES.smooth);
    if (r->nodes > 0 && r->depth > 0)
        saw_path(c, r->nodes, r->depth, r->n_path);
    passed(c, (double)(r->draft_us + r->wait_us));
}

void ft_control_saw_run(ft_control *c, uint32_t tokens, int64_t us, uint32_t hint_token_us)
{
    if (hint_token_us)
        ft_smooth(&c->hint_us, hint_token_us, TIMES.smooth);
    if (tokens == 0 || us <= 0)
        return;
    const double before_us = c->running && c->run_us > 0 ? ft_control_token_us(c) : 0;
    const double sample_us = (double)us / tokens;
    passed(c, (double)us);
    if (before_us > 0 && is_chance(&c->run_far, sample_us / before_us - 1, TIMES.noise))
        return;
    c->run_us = before_us > 0 ? before_us + TIMES.smooth * (sample_us - before_us) : sample_us;
    c->run_hint_us = c->hint_us;
    if (!c->running)
        c->run_verify = c->verify;
    if (c->verify_token_us <= 0)
        c->verify_token_us = c->run_us;
    c->verify.doubt = fmin(c->verify.doubt + TIMES.slope_drift * TIMES.slope_drift,
                           TIMES.slope_doubt * TIMES.slope_doubt);
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

void ft_control_saw_hint(ft_control *c, uint32_t token_us)
{
    if (token_us > 0 && c->hint_us <= 0 && (c->verify.n == 0 || c->run_us > 0))
        c->hint_us = token_us;
}

void ft_control_saw_rtt(ft_control *c, int64_t us)
{
    if (us >= 0)
        ft_smooth(&c->rtt_us, (double)us, TIMES.smooth_rtt);
}
