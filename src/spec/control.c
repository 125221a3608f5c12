// SPDX-License-Identifier: Apache-2.0
// When and how much to speculate, from what things take and how much is accepted.
//
// Compared is time per token, where a token counts less by what its rows cost others (worth()): of a
// tree (draft + network + queue + verification over the tokens that it brings) and of a run, where the server decodes by itself and the network is paid once. What a
// verification of n nodes takes is a line through the session's own rounds; it holds what others put
// into the same passes. What a tree brings follows from the probability that a level is missed, learnt
// from every tree that was sent or drafted as a shadow.
//
// Estimates may be wrong, so a second, measured account stands above them: loss_us, what rounds have
// cost over the same tokens in runs. Above a limit there are only runs, until time has forgiven it, at
// LOSS_SHARE of the time: so speculation costs no more than that over plain decoding, whatever the
// estimates say.
//
// A young session knows nothing, and must neither lose much nor be put off by one bad tree. It begins with
// a short run, which costs nothing over plain decoding and tells the network and what a token takes. A
// tree is tried only if one that is accepted to its end could pay by that and by what the draft model was
// warmed to take. The first tree's times, where they are far off, are those of cold caches.
//
// Pure; the caller owns the state. A choice costs some microseconds.
#include "spec/control.h"

#include <math.h>
#include <string.h>

#include "base/num.h"

#define PRICE_MOST   0.99 /* a row of one's own is always worth it */
#define LOSS_SHARE   0.02 /* of the time may be lost with trees that don't pay... */
#define SHADOW_SHARE 0.02 /* ...and spent on drafts that are not sent */
#define ENTER        1.1  /* times better than a run a tree must look to begin with trees */
#define STICK        0.97 /* of the present tree's time a token another must need at most */
#define SMOOTH       0.3  /* of a new sample in times: half the way in two rounds */
#define SMOOTH_RTT   0.2
#define NOISE        0.15 /* of a measured time, relative */
#define SLOPE_DOUBT  0.05 /* what is not known of a line's slope at first, a unit of x, over y... */
#define SLOPE_DRIFT  0.002 /* ...and what it may change a measurement */
#define SLOPE_PRIOR  0.04  /* of the bare verification a node costs, unless measured */
#define FADE         0.99  /* of counts of misses, an observation: about 100 count */
#define FADE_RECENT  0.92  /* about 12 */
#define CHANGED      3. /* standard deviations by which the recent ones must differ to replace all */
#define FADE_SHAPE   0.995 /* how widths and levels differ changes slowly */
#define MISS_PRIOR   0.4
#define WIDTH_GAIN \
    0.85 /* misses with twice the nodes a level, over those with once, unless measured */
#define PRIOR_COUNT  3. /* expected misses that the prior of all weighs... */
#define SHAPE_COUNT  8. /* ...and those of levels and widths */
#define TEXT_COUNT   6. /* that are left of others' texts */
#define BUSY_ON      0.3 /* share of rounds that waited for others, above which they keep it busy... */
#define BUSY_OFF     0.05 /* ...until it is below that */
#define QUEUED       0.2  /* of a verification: a shorter wait is no pass of others */
#define TRIAL_EVERY  20   /* rounds until a neighbouring tree is tried... */
#define TRIAL_WORST  1.25 /* ...if it looks no worse than that */
#define RUN_EVERY    256  /* rounds until a run is measured again... */
#define RUN_OFTEN    64   /* ...where trees are less than RUN_NEAR times better... */
#define RUN_SOON     16   /* ...where none was yet, or the server's load has changed since... */
#define RUN_NEAR     1.4
#define RUN_FAR      3. /* ...and where trees are better by that, never */
#define CHANGED_LOAD 1.4
#define PROBE_FIRST  16 /* runs until a round is tried against the estimates; doubles */
#define PROBE_LAST   1024
#define SURPRISE     0.8 /* of the time expected: then the next is tried at once */
#define SHADOW_DEPTH 4
#define FIRST_DEPTH \
    2 /* of the first tree of all, a chain: it pays soonest, and costs least if not */
#define FIRST_RUNS 3 /* runs that the first one counts for, before trees may begin */
#define COLD       2. /* times longer than expected: says more of caches than of trees, the first time */
/* Drafts may come so much of a verification late: SpecEdge's 94.2 ms leave room for 5 forwards of 11 ms
 * beside 40 ms of network. Rounding to the nearest depth would let the engine wait half a forward. */
#define PIPELINE_SLACK 1.02
#define WIDTH_LIMIT    8

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* ---- lines ---- */

static double line_at(const ft_control_line *l, double x)
{
    return fmax(l->y + l->slope * (x - l->x), 0);
}

/* A filter for level and slope: the slope learns only from measurements apart from where the line
 * stands, and keeps still otherwise. The line is never negative right of `zero`. */
static void line_add(ft_control_line *l, double x, double y, double first_slope, double zero)
{
    if (l->n++ == 0) {
        *l = (ft_control_line){x, y, first_slope, SLOPE_DOUBT * SLOPE_DOUBT, 1};
        return;
    }
    double scale = fmax(l->y, 1), dx = x - l->x, at = line_at(l, x);
    double off = fmin(y - at, 3 * scale); /* the machine may have been elsewhere */
    double gain = l->doubt * dx / (l->doubt * dx * dx + NOISE * NOISE);
    double follow = fmax(SMOOTH, 1. / l->n);
    l->slope += gain * off;
    l->doubt =
        clamp(l->doubt * (1 - gain * dx) + SLOPE_DRIFT * SLOPE_DRIFT, 0, SLOPE_DOUBT * SLOPE_DOUBT);
    l->y += l->slope * follow * dx + follow * (off - gain * off * dx);
    l->x += follow * dx;
    l->y = fmax(l->y, 1);
    l->slope = clamp(l->slope, 0, l->y / fmax(l->x - zero, 1));
}

/* ---- acceptance ---- */

static double ratio(const ft_control_ratio *r, double prior)
{
    return (r->came + SHAPE_COUNT * prior) / (r->expected + SHAPE_COUNT);
}

static double miss_rate(const ft_control *c)
{
    return clamp(c->miss.came / c->miss.expected, 0.01, 1);
}

/* What the counts say. */
typedef struct odds {
    double miss;
    double width[FT_CONTROL_WIDTHS]; /* a class misses no more often than a narrower one */
    double level[FT_CONTROL_LEVELS]; /* one of which little is known is like the one before */
} odds;

static odds odds_of(const ft_control *c)
{
    odds o = {.miss = miss_rate(c)};
    o.level[0] = ratio(&c->level[0], 1);
    o.width[0] = ratio(&c->width[0], 1);
    for (int i = 1; i < FT_CONTROL_LEVELS; i++)
        o.level[i] = ratio(&c->level[i], o.level[i - 1]);
    for (int i = 1; i < FT_CONTROL_WIDTHS; i++)
        o.width[i] = fmin(ratio(&c->width[i], WIDTH_GAIN * o.width[i - 1]), o.width[i - 1]);
    return o;
}

/* A tree's place among the classes of width: *class, and the share of the next one. */
static double width_place(uint32_t nodes, uint32_t depth, uint32_t *class)
{
    double place = clamp(log2((double)nodes / depth), 0, FT_CONTROL_WIDTHS - 1);
    *class = ft_min_u32((uint32_t)place, FT_CONTROL_WIDTHS - 2);
    return place - *class;
}

static double width_factor(const odds *o, uint32_t nodes, uint32_t depth)
{
    uint32_t class;
    double next = width_place(nodes, depth, &class);
    return o->width[class] * (1 - next) + o->width[class + 1] * next;
}

static void count(ft_control_ratio *r, double missed, double expected, double fade)
{
    r->came = r->came * fade + missed;
    r->expected = r->expected * fade + expected;
}

/* A change of the text's kind must not wait until old counts have faded. */
static void notice_change(ft_control *c)
{
    double miss = miss_rate(c), off = c->recent.came - miss * c->recent.expected;
    double variance = fmax(miss * (1 - miss), 0.05) / (1 - FADE_RECENT * FADE_RECENT);
    if (off * off > CHANGED * CHANGED * variance)
        c->miss = c->recent;
}

/* Of a tree of `depth` levels the text followed n_path nodes. */
static void saw_path(ft_control *c, uint32_t nodes, uint32_t depth, uint32_t n_path)
{
    uint32_t class;
    double next = width_place(nodes, depth, &class);
    for (uint32_t i = 0; i <= n_path && i < depth; i++) {
        odds o = odds_of(c);
        uint32_t at = ft_min_u32(i, FT_CONTROL_LEVELS - 1);
        double missed = i == n_path, width = width_factor(&o, nodes, depth);
        double alone = o.miss * o.level[at]; /* expected of a single node */
        count(&c->miss, missed, width * o.level[at], FADE);
        count(&c->recent, missed, width * o.level[at], FADE_RECENT);
        count(&c->level[at], missed, o.miss * width, FADE_SHAPE);
        for (uint32_t j = 0; j < 2; j++) {
            double part = j ? next : 1 - next, over = o.width[class + j] / width;
            if (part > 0)
                count(&c->width[class + j], part * missed * over, part * alone,
                      1 - part * (1 - FADE_SHAPE));
        }
        notice_change(c);
    }
}

/* ---- what things take ---- */

/* The server's load now, in us a token of a run would take: its word, or a bare verification. */
static double reference_us(const ft_control *c)
{
    if (c->hint_us > 0)
        return c->hint_us;
    return c->verify.n ? line_at(&c->verify, 0) + c->queue_us : 0;
}

double ft_control_token_us(const ft_control *c)
{
    if (c->run_us <= 0)
        return reference_us(c);
    if (c->run_hint_us <= 0 || c->hint_us <= 0)
        return c->run_us; /* measured again from time to time */
    return c->run_us * clamp(c->hint_us / c->run_hint_us, 0.2, 5);
}

/* Whether verifications take another time now than when a run was measured last. */
static bool load_changed(const ft_control *c)
{
    double then_us = line_at(&c->run_verify, c->verify.x), now_us = c->verify.y;
    return c->hint_us <= 0 && (now_us > CHANGED_LOAD * then_us || then_us > CHANGED_LOAD * now_us);
}

double ft_control_forward_us(const ft_control *c)
{
    return c->draft.n ? c->draft.slope : 0;
}

double ft_control_answer_us(const ft_control *c, uint32_t nodes)
{
    return c->verify.n ? c->queue_us + line_at(&c->verify, nodes) : 0;
}

/* How much longer than at the last verdict the server takes, as runs tell. */
static double slower(const ft_control *c)
{
    if (!c->running || c->round_ref_us <= 0)
        return 1;
    return clamp(ft_control_token_us(c) / c->round_ref_us, 0.1, 10);
}

/* Time from one verdict to the next. */
static double cycle_us(const ft_control *c, uint32_t budget, uint32_t depth)
{
    return line_at(&c->draft, depth * c->forwards) + c->rtt_us +
           slower(c) * (c->queue_us + line_at(&c->verify, budget));
}

static double tokens_of(const odds *o, uint32_t budget, uint32_t depth)
{
    double tokens = 1, path = 1, miss = o->miss * width_factor(o, budget, depth);
    for (uint32_t i = 0; i < depth; i++) {
        path *= 1 - clamp(miss * o->level[ft_min_u32(i, FT_CONTROL_LEVELS - 1)], 0.005, 1);
        tokens += path;
    }
    return tokens;
}

/* ---- trees ---- */

typedef struct tree {
    uint32_t budget, depth;
    double token_us;
} tree;

/* What candidates are judged by. */
typedef struct frame {
    uint32_t least, nodes, depth; /* nodes at least, at most, and levels at most */
    uint32_t fixed_depth;         /* 0: the depth is free */
    odds odds;
} frame;

static uint32_t max_width(const ft_control *c)
{
    return c->opts.max_width ? c->opts.max_width : WIDTH_LIMIT;
}

static bool makes_tree(const ft_control *c, const frame *f, uint32_t budget, uint32_t depth)
{
    return depth > 0 && depth <= f->depth && depth <= budget && budget <= f->nodes &&
           budget >= f->least && budget <= (uint64_t)max_width(c) * depth;
}

/* Tokens of a tree less what its rows cost others, in tokens of runs, each of which has a row too. */
static double worth(const ft_control *c, double tokens, uint32_t budget)
{
    return (tokens - c->price * (1 + budget)) / (1 - c->price);
}

static tree judged(const ft_control *c, const frame *f, uint32_t budget, uint32_t depth)
{
    double tokens = worth(c, tokens_of(&f->odds, budget, depth), budget);
    return (tree){budget, depth, tokens > 0 ? cycle_us(c, budget, depth) / tokens : INFINITY};
}

uint32_t ft_control_pipeline_depth(double verify_us, double rtt_us, double forward_us, uint32_t max)
{
    if (forward_us <= 0)
        return max ? max : 1;
    double depth = (PIPELINE_SLACK * verify_us - rtt_us) / forward_us;
    return (uint32_t)clamp(floor(depth), 1, max ? max : 1);
}

/* SpecEdge 4.3, for the present budget; a depth that is still near enough stays. Where it is known for how
 * long the server is busy with others: what can be drafted until then, of which spent_us is over. */
static uint32_t pipeline_depth(const ft_control *c, uint32_t max, int64_t spent_us)
{
    double verify_us = line_at(&c->verify, c->budget), forward_us = ft_control_forward_us(c);
    double until_us = ft_turn_until_us(&c->turn);
    if (until_us > 0 && spent_us > 0 && forward_us > 0)
        return (uint32_t)clamp(floor((until_us - (double)spent_us) / forward_us), 1, max ? max : 1);
    double spare = forward_us > 0 ? (PIPELINE_SLACK * verify_us - c->rtt_us) / forward_us - c->depth
                                  : INFINITY;
    if (c->depth > 0 && c->depth <= max && spare > -0.35 && spare < 1.15)
        return c->depth;
    return ft_control_pipeline_depth(verify_us, c->rtt_us, forward_us, max);
}

uint32_t ft_control_depth_at(ft_control *c, uint32_t budget, uint32_t max, int64_t spent_us)
{
    c->budget = budget;
    c->depth = c->verify.n > 0 && c->draft.n > 0 ? pipeline_depth(c, max, spent_us) : max;
    return c->depth;
}

/* The tree with the least time a token. */
static tree best_tree(const ft_control *c, const frame *f)
{
    tree best = {1, 1, INFINITY};
    for (uint32_t budget = f->least; budget <= f->nodes;
         budget = budget < f->nodes ? ft_min_u32(2 * budget, f->nodes) : budget + 1)
        for (uint32_t d = 1; d <= f->depth && d <= budget; d++) {
            uint32_t depth = f->fixed_depth ? ft_min_u32(f->fixed_depth, budget) : d;
            if (makes_tree(c, f, budget, depth)) {
                tree t = judged(c, f, budget, depth);
                best = t.token_us < best.token_us ? t : best;
            }
            if (f->fixed_depth)
                break;
        }
    return best;
}

/* The present tree, unless another is clearly better. */
static tree next_tree(const ft_control *c, const frame *f)
{
    tree best = best_tree(c, f);
    if (!makes_tree(c, f, c->budget, c->depth) || (f->fixed_depth && f->fixed_depth != c->depth))
        return best;
    tree now = judged(c, f, c->budget, c->depth);
    return best.token_us < STICK * now.token_us ? best : now;
}

/* A neighbour of the present tree, now and then: what is never tried is never learnt. */
static tree with_trials(ft_control *c, const frame *f, tree now)
{
    if (c->rounds % TRIAL_EVERY != TRIAL_EVERY - 1)
        return now;
    uint32_t way = c->trials++ % 4, budget = now.budget, depth = now.depth;
    if (way % 2 == 0)
        budget = way == 0 ? 2 * budget : budget / 2;
    else if (!f->fixed_depth) {
        depth = way == 1 ? depth + 1 : depth - 1;
        budget = budget * depth / now.depth; /* as wide */
    }
    depth = ft_min_u32(depth, budget);
    if (!makes_tree(c, f, budget, depth))
        return now;
    tree other = judged(c, f, budget, depth);
    return other.token_us < TRIAL_WORST * now.token_us ? other : now;
}

/* ---- trees or runs ---- */

static double loss_limit_us(const ft_control *c)
{
    return 2 * cycle_us(c, c->budget, c->depth) + 8 * ft_control_token_us(c);
}

static ft_control_choice tree_choice(ft_control *c, tree t)
{
    c->since_run++;
    return (ft_control_choice){.speculate = true, .budget = t.budget, .depth = t.depth};
}

static ft_control_choice run_choice(ft_control *c)
{
    double token_us = ft_control_token_us(c);
    double run = token_us > 0 ? ceil(2 * c->rtt_us / token_us) : 0;
    c->since_run = 0;
    if (c->opts.max_budget == 0) /* nothing else will ever be chosen, and a run's end costs a server
                                    that drafts by itself what its last tree held beyond */
        run = FT_CONTROL_RUN_MAX;
    return (ft_control_choice){.run = (uint32_t)clamp(run, FT_CONTROL_RUN_MIN, FT_CONTROL_RUN_MAX)};
}

static void change(ft_control *c, bool running)
{
    if (c->running == running)
        return;
    c->running = running;
    c->rounds = 0;
    c->probe_in = c->probe_step = PROBE_FIRST;
    if (running)
        c->loss_us += c->rtt_us; /* until the first run's first token */
}

/* Adds a shadow where time allows one, and some acceptance would make trees pay. */
static ft_control_choice with_shadow(ft_control *c, const frame *f, ft_control_choice choice)
{
    frame all = *f;
    all.odds.miss = 0.02;
    if (c->shadow_us > 0 || best_tree(c, &all).token_us * ENTER >= ft_control_token_us(c))
        return choice;
    /* Wide ones and such as would be sent in turn: nodes that are not sent cost little. */
    uint32_t width = c->trials++ % 2 ? max_width(c) : c->budget / c->depth;
    choice.shadow = true;
    choice.depth = ft_min_u32(ft_min_u32(SHADOW_DEPTH, f->depth), f->nodes);
    choice.budget = ft_min_u32(choice.depth * (width ? width : 1), f->nodes);
    return choice;
}

/* The best tree, if a verification without nodes takes what a token of a run does, and nodes cost
 * nothing, or (sloped) what then follows from the rounds seen. False: even then it would not pay. */
static bool pays_if(const ft_control *c, const frame *f, bool sloped, tree *out)
{
    ft_control guess = *c;
    ft_control_line *v = &guess.verify;
    double token_us = ft_control_token_us(c), bare_us = fmin(token_us / slower(c), line_at(v, 0));
    v->slope = sloped ? fmax(v->y - bare_us, 0) / fmax(v->x, 1) : 0;
    v->x = 0;
    v->y = bare_us;
    *out = best_tree(&guess, f);
    return out->token_us * ENTER < token_us;
}

/* Whether a round shall tell if the estimates are wrong, and with which tree. */
static bool probe_due(ft_control *c, const frame *f, tree *probe)
{
    if (c->probe_in > 0) {
        c->probe_in--;
        return false;
    }
    c->probe_sloped = !c->probe_sloped;
    if (2 * c->loss_us > loss_limit_us(c) || !pays_if(c, f, c->probe_sloped, probe))
        return false;
    c->probe_step = ft_min_u32(2 * c->probe_step, PROBE_LAST);
    c->probe_in = c->probe_step;
    return true;
}

static ft_control_choice while_running(ft_control *c, const frame *f, tree best)
{
    double token_us = ft_control_token_us(c);
    tree probe;
    c->rounds++;
    if (c->rounds > 2 && best.token_us * ENTER < token_us && 2 * c->loss_us <= loss_limit_us(c)) {
        change(c, false);
        return tree_choice(c, best);
    }
    if (probe_due(c, f, &probe))
        return tree_choice(c, probe);
    return with_shadow(c, f, run_choice(c));
}

/* Whether a run shall be measured again, where trees are so many times better. */
static bool run_due(const ft_control *c, double better)
{
    if (better > RUN_FAR)
        return false;
    return c->since_run >= (better > RUN_NEAR ? RUN_EVERY : RUN_OFTEN) ||
           (c->since_run >= RUN_SOON && (c->run_us <= 0 || load_changed(c)));
}

static ft_control_choice while_speculating(ft_control *c, const frame *f, tree best)
{
    double token_us = ft_control_token_us(c);
    if (token_us > 0 && (best.token_us > token_us || c->loss_us > loss_limit_us(c))) {
        change(c, true);
        return with_shadow(c, f, run_choice(c));
    }
    if (run_due(c, token_us / best.token_us))
        return run_choice(c);
    best = with_trials(c, f, best);
    c->rounds++;
    return tree_choice(c, best);
}

static frame frame_of(const ft_control *c, const ft_control_room *room)
{
    frame f = {.nodes = ft_min_u32(c->opts.max_budget, room->nodes),
               .depth = ft_min_u32(c->opts.max_depth, room->depth),
               .odds = odds_of(c)};
    f.depth = ft_min_u32(f.depth, f.nodes);
    f.least = ft_min_u32(c->opts.min_budget ? c->opts.min_budget : 1, max_width(c) * f.depth);
    f.least = ft_min_u32(f.least, f.nodes);
    return f;
}

static void fix_depth(frame *f, uint32_t depth, uint32_t width)
{
    f->fixed_depth = depth;
    f->nodes = ft_min_u32(f->nodes, width * depth);
    f->least = ft_min_u32(f->least, f->nodes);
}

/* Before the first tree: whether one could pay, if all of it were accepted (where others pay for it: as much
 * as usually is) and a verification without nodes took what a token of a run does. False until a run was
 * measured, which costs nothing. */
static bool hopeful(const ft_control *c, const frame *f)
{
    frame all = *f;
    tree best;
    if (c->price == 0)
        all.odds.miss = 0.02;
    return c->run_us > 0 && pays_if(c, &all, false, &best);
}

static ft_control_choice first_run(ft_control *c)
{
    ft_control_choice choice = run_choice(c);
    c->running = true;
    c->rounds = FIRST_RUNS;
    if (c->run_us <= 0)
        choice.run = ft_min_u32(choice.run, FT_CONTROL_RUN_FIRST);
    return choice;
}

static ft_control_choice first_tree(ft_control *c, const frame *f)
{
    c->depth = ft_min_u32(FIRST_DEPTH, f->depth);
    c->budget = f->least > c->depth ? f->least : c->depth;
    c->running = false;
    return tree_choice(c, (tree){.budget = c->budget, .depth = c->depth});
}

ft_control_choice ft_control_choose(ft_control *c, const ft_control_room *room)
{
    frame f = frame_of(c, room);
    if (f.depth ==
        0) /* a text's last token, or no room for the draft now: says nothing of what pays */
        return run_choice(c);
    if (c->verify.n == 0 && !c->opts.no_runs && !hopeful(c, &f))
        return first_run(c);
    if (c->draft.n == 0 || c->verify.n == 0)
        return first_tree(c, &f);
    if (c->opts.depth_rule == FT_DEPTH_PIPELINE || (c->opts.depth_rule == FT_DEPTH_AUTO && c->busy))
        fix_depth(&f, pipeline_depth(c, f.depth, room->spent_us), max_width(c));
    tree best = next_tree(c, &f);
    c->budget = best.budget;
    c->depth = best.depth;
    if (c->opts.no_runs) {
        best = with_trials(c, &f, best);
        c->rounds++;
        return tree_choice(c, best);
    }
    return c->running ? while_running(c, &f, best) : while_speculating(c, &f, best);
}

/* ---- what was seen ---- */

void ft_control_init(ft_control *c, const ft_control_opts *opts)
{
    *c = (ft_control){.opts = *opts,
                      .forwards = 1,
                      .miss = {MISS_PRIOR * PRIOR_COUNT, PRIOR_COUNT},
                      .probe_in = PROBE_FIRST,
                      .probe_step = PROBE_FIRST};
}

void ft_control_new_text(ft_control *c)
{
    double keep = fmin(TEXT_COUNT / c->miss.expected, 1);
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
    c->forwards += SMOOTH_RTT * (fmin((double)forwards / levels, 2) - c->forwards);
    if (forwards == 0 ||
        (!c->warm && c->draft.n > 0 && (double)us > COLD * line_at(&c->draft, forwards)))
        return;
    bool apart = fabs(forwards - c->draft.x) >= 1;
    line_add(&c->draft, forwards, (double)us, (double)us / forwards, 0);
    if (!apart) /* tells nothing of the slope: then rather all is forwards' than nothing */
        c->draft.slope += SMOOTH_RTT * (c->draft.y / fmax(c->draft.x, 1) - c->draft.slope);
}

static void forgive(ft_control *c, double us)
{
    double limit = loss_limit_us(c);
    c->loss_us = clamp(c->loss_us - LOSS_SHARE * us, -limit, 2 * limit);
    c->shadow_us = fmax(c->shadow_us - SHADOW_SHARE * us, 0);
}

static void saw_verify(ft_control *c, const ft_control_round *r)
{
    double y = fmax((double)r->verify_us, 1), change = slower(c);
    /* Drafts that come just in time don't wait, however busy others keep the server. */
    int64_t waited_us = c->busy && r->others_us > r->queue_us ? r->others_us : r->queue_us;
    c->verify.y *= change;
    c->verify.slope *= change;
    if (c->running && y < SURPRISE * line_at(&c->verify, r->nodes))
        c->probe_in = 0;
    c->queue_us *= change;
    if (c->verify.n == 0 && c->run_us > 0) /* as a pass without nodes takes */
        line_add(&c->verify, 0, c->run_us, SLOPE_PRIOR * c->run_us, -1);
    line_add(&c->verify, r->nodes, y, SLOPE_PRIOR * y / (1 + SLOPE_PRIOR * r->nodes), -1);
    c->round_ref_us = 0;
    c->queue_us += SMOOTH * ((double)r->queue_us - c->queue_us);
    c->queued += SMOOTH_RTT * ((double)((double)waited_us > QUEUED * y) - c->queued);
    c->busy = c->queued > (c->busy ? BUSY_OFF : BUSY_ON);
}

/* The first tree of all, and far slower than a verification without nodes, which a run has shown, lets one
 * expect: neither estimates nor account shall hold it against the others. */
static bool is_cold(const ft_control *c, const ft_control_round *r)
{
    double draft_us = line_at(&c->draft, r->depth), verify_us = line_at(&c->verify, r->nodes);
    return !c->warm && r->nodes > 0 && c->run_us > 0 && c->verify.n == 0 &&
           (double)(r->draft_us + r->verify_us) > COLD * (draft_us + verify_us);
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
        ft_turn_saw(&c->turn, r->others_us, r->verify_us);
    if (r->hint_token_us)
        ft_smooth(&c->hint_us, r->hint_token_us, SMOOTH);
    if (r->nodes > 0 && r->depth > 0)
        saw_path(c, r->nodes, r->depth, r->n_path);
    if (!cold)
        c->loss_us += us - (r->n_path + 1) * ft_control_token_us(c);
    forgive(c, us);
}

void ft_control_saw_run(ft_control *c, uint32_t tokens, int64_t us, uint32_t hint_token_us)
{
    if (hint_token_us)
        ft_smooth(&c->hint_us, hint_token_us, SMOOTH);
    if (tokens == 0 || us <= 0)
        return;
    double sample = (double)us / tokens;
    if (c->run_us > 0) {
        double before = ft_control_token_us(c);
        c->run_us = before + SMOOTH * (fmin(sample, 4 * before) - before);
    } else {
        c->run_us = sample;
    }
    c->verify.doubt = fmin(c->verify.doubt + SLOPE_DRIFT * SLOPE_DRIFT, SLOPE_DOUBT * SLOPE_DOUBT);
    if (c->verify.n == 0)
        c->verify = (ft_control_line){.y = c->run_us, .slope = SLOPE_PRIOR * c->run_us};
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
    c->price = clamp(price, 0, PRICE_MOST);
}

void ft_control_saw_rtt(ft_control *c, int64_t us)
{
    if (us >= 0)
        ft_smooth(&c->rtt_us, (double)us, SMOOTH_RTT);
}
