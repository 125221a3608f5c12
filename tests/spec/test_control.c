// SPDX-License-Identifier: Apache-2.0
// The controller in simulated worlds: devices, networks, servers and drafts of all kinds, thousands of
// rounds each. It is held against decoding in runs only, and against the best tree that one could have
// fixed in advance.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "spec/control.h"

#define MAX_BUDGET 32
#define MAX_DEPTH  12
#define MAX_WIDTH  4

/* ---- a world ---- */

typedef struct world {
    double forward_us, draft_fixed_us, rtt_us;
    double pass_us, node_us; /* of a verification: without nodes, and a node */
    double accept;           /* of a level that has one node, given the one before */
    double fade;             /* of misses a level deeper */
    double load;             /* all that the server does takes so many times as long */
    double others_us;        /* a round waits up to so long for others */
    bool hints;              /* the server says what a token of a run takes */
    double noise;
} world;

static double miss_of(const world *w, uint32_t budget, uint32_t depth, uint32_t level)
{
    double width = fmax((double)budget / depth, 1);
    return fmin((1 - w->accept) * pow(width, -0.4) * pow(w->fade, level), 1);
}

static double tokens_of(const world *w, uint32_t budget, uint32_t depth)
{
    double tokens = 1, path = 1;
    for (uint32_t i = 0; i < depth; i++)
        tokens += path *= 1 - miss_of(w, budget, depth, i);
    return tokens;
}

static double plain_us(const world *w)
{
    return w->load * w->pass_us + w->others_us / 2;
}

static double tree_us(const world *w, uint32_t budget, uint32_t depth)
{
    double us = w->draft_fixed_us + depth * w->forward_us + w->rtt_us + w->others_us / 2 +
                w->load * (w->pass_us + w->node_us * budget);
    return us / tokens_of(w, budget, depth);
}

/* Of all fixed choices, a run among them. */
static double best_us(const world *w)
{
    double best = plain_us(w);
    for (uint32_t budget = 1; budget <= MAX_BUDGET; budget *= 2)
        for (uint32_t depth = 1; depth <= MAX_DEPTH && depth <= budget; depth++)
            if (budget <= MAX_WIDTH * depth)
                best = fmin(best, tree_us(w, budget, depth));
    return best;
}

/* ---- living in it ---- */

typedef struct life {
    ft_control control;
    ft_control_room room;
    ft_rng rng;
    bool ran; /* the last step was a run */
    double us, tokens, shadow_us;
    uint32_t steps, rounds, changes;
    uint32_t budget, depth;
} life;

static double noisy(life *l, const world *w, double us)
{
    return us * exp(w->noise * ft_rng_normal(&l->rng) - w->noise * w->noise / 2);
}

static uint32_t draw_path(life *l, const world *w, uint32_t budget, uint32_t depth)
{
    uint32_t n = 0;
    while (n < depth && ft_rng_unit(&l->rng) >= miss_of(w, budget, depth, n))
        n++;
    return n;
}

static double draft(life *l, const world *w, uint32_t depth)
{
    double us = noisy(l, w, w->draft_fixed_us + depth * w->forward_us);
    ft_control_saw_draft(&l->control, depth, depth, (int64_t)us);
    return us;
}

static uint32_t hint(const world *w)
{
    return w->hints ? (uint32_t)plain_us(w) : 0;
}

static void run(life *l, const world *w, const ft_control_choice *choice)
{
    double rtt = l->ran ? 0 : noisy(l, w, w->rtt_us), us = 0;
    for (uint32_t i = 0; i < choice->run; i++)
        us += noisy(l, w, plain_us(w));
    l->us += rtt + us;
    l->tokens += choice->run;
    ft_control_saw_run(&l->control, choice->run, (int64_t)us, hint(w));
    if (choice->shadow) {
        double shadow_us = draft(l, w, choice->depth);
        l->shadow_us += shadow_us;
        ft_control_saw_shadow(&l->control, choice->budget, choice->depth,
                              draw_path(l, w, choice->budget, choice->depth), (int64_t)shadow_us);
    }
    l->ran = true;
}

static void speculate(life *l, const world *w, const ft_control_choice *choice)
{
    double draft_us = draft(l, w, choice->depth), rtt_us = noisy(l, w, w->rtt_us);
    double queue_us = w->others_us * ft_rng_unit(&l->rng);
    double verify_us = noisy(l, w, w->load * (w->pass_us + w->node_us * choice->budget));
    ft_control_round r = {.nodes = choice->budget,
                          .depth = choice->depth,
                          .n_path = draw_path(l, w, choice->budget, choice->depth),
                          .draft_us = (int64_t)draft_us,
                          .wait_us = (int64_t)(rtt_us + queue_us + verify_us),
                          .queue_us = (int64_t)queue_us,
                          .verify_us = (int64_t)verify_us,
                          .rtt_us = (int64_t)rtt_us,
                          .hint_token_us = hint(w)};
    l->us += draft_us + rtt_us + queue_us + verify_us;
    l->tokens += r.n_path + 1;
    l->rounds++;
    ft_control_saw_round(&l->control, &r);
    l->ran = false;
}

static ft_control_choice step(life *l, const world *w)
{
    ft_control_choice choice = ft_control_choose(&l->control, &l->room);
    bool changed = choice.speculate == l->ran && l->steps > 0;
    l->changes += changed;
    l->steps++;
    if (choice.speculate) {
        assert_true(choice.budget >= choice.depth && choice.depth >= 1);
        assert_true(choice.budget <= l->room.nodes && choice.depth <= l->room.depth);
        speculate(l, w, &choice);
    } else {
        assert_in_range(choice.run, FT_CONTROL_RUN_MIN, FT_CONTROL_RUN_MAX);
        run(l, w, &choice);
    }
    return choice;
}

static void life_init(life *l, uint64_t seed, ft_depth_rule rule)
{
    const ft_control_opts opts = {.max_budget = MAX_BUDGET,
                                  .max_depth = MAX_DEPTH,
                                  .max_width = MAX_WIDTH,
                                  .depth_rule = rule};
    *l = (life){.room = {MAX_BUDGET, MAX_DEPTH}};
    ft_rng_init(&l->rng, seed);
    ft_control_init(&l->control, &opts);
}

/* ---- the paper's case ---- */

static void test_depth_of_the_paper(void **state)
{
    (void)state;
    assert_int_equal(ft_control_pipeline_depth(94200, 15000, 11000, 16), 7);
    assert_int_equal(ft_control_pipeline_depth(94200, 40000, 11000, 16), 5);
    assert_int_equal(ft_control_pipeline_depth(94200, 50000, 11000, 16), 4);
    assert_int_equal(ft_control_pipeline_depth(94200, 15000, 11000, 6), 6);
    assert_int_equal(ft_control_pipeline_depth(10000, 50000, 11000, 16), 1);
}

/* ---- worlds that stand still ---- */

static const world base = {.forward_us = 2000,
                           .draft_fixed_us = 200,
                           .rtt_us = 10000,
                           .pass_us = 30000,
                           .accept = 0.7,
                           .fade = 1,
                           .load = 1,
                           .hints = true,
                           .noise = 0.1};

static void check_world(const world *w, uint64_t seed, uint32_t steps)
{
    life l;
    life_init(&l, seed, FT_DEPTH_LATENCY);
    for (uint32_t i = 0; i < steps; i++)
        (void)step(&l, w);
    double over_plain = l.us / (l.tokens * plain_us(w)), over_best = l.us / (l.tokens * best_us(w));
    if (over_plain > 1.05 || over_best > 1.20)
        fail_msg("forward %.0f rtt %.0f pass %.0f node %.0f accept %.2f fade %.1f hints %d: "
                 "over plain %.3f, over best %.3f; rounds %u of %u, changes %u",
                 w->forward_us, w->rtt_us, w->pass_us, w->node_us, w->accept, w->fade, w->hints,
                 over_plain, over_best, l.rounds, l.steps, l.changes);
    assert_true(l.shadow_us < 0.025 * l.us);
}

static void test_worlds(void **state)
{
    static const double forwards[] = {500, 5000, 60000}, rtts[] = {0, 15000, 50000, 200000};
    static const double nodes[] = {0, 0.01, 0.08}, accepts[] = {0.1, 0.4, 0.7, 0.95};
    static const double passes[] = {5000, 50000};
    uint64_t seed = 0;
    (void)state;
    for (size_t f = 0; f < 3; f++)
        for (size_t r = 0; r < 4; r++)
            for (size_t n = 0; n < 3; n++)
                for (size_t a = 0; a < 4; a++)
                    for (size_t p = 0; p < 2; p++)
                        for (int hints = 0; hints < 2; hints++) {
                            world w = base;
                            w.forward_us = forwards[f];
                            w.rtt_us = rtts[r];
                            w.pass_us = passes[p];
                            w.node_us = nodes[n] * w.pass_us;
                            w.accept = accepts[a];
                            w.fade = seed % 3 == 0 ? 1.1 : 1;
                            w.hints = hints > 0;
                            check_world(&w, seed++, 3000);
                        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_depth_of_the_paper),
        cmocka_unit_test(test_worlds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
