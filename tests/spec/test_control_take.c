// SPDX-License-Identifier: Apache-2.0
// Trees that cost no time to draft, on a virtual clock: lookups that never hold cost at most 2 %
// over runs alone; those that always hold are taken; a server whose nodes turn out to be dear is
// sent fewer; a wrong first guess at their cost is found out.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/num.h"
#include "spec/control.h"
#include "spec/lookup.h"

enum { TEXT = 384, NODES = 32 };

/* A server and its link; times in us. */
typedef struct world {
    double rtt_us, pass_us, row_us;
} world;

/* What is found at each token of a text. */
typedef struct finds {
    uint32_t length; /* of the match */
    bool holds;
} finds;

typedef struct outcome {
    double us;
    uint32_t trees, nodes;
} outcome;

/* The offer of a chain: each node's match is longer by one. */
static ft_control_offer chain_of(const ft_lookup_rates *rates, uint32_t length, double least)
{
    ft_control_offer offer = {.tokens = 1, .final = true};
    double chance = 1;
    for (uint32_t i = 0; i < NODES; i++) {
        const ft_ngrams_match match = {.token = 1, .length = length + i, .seen = 1};
        chance *= (double)ft_lookup_chance(rates, &match, 0);
        if (i > 0 && chance < least)
            break;
        offer.nodes++;
        offer.tokens += chance;
    }
    return offer;
}

/* Matches that hold get longer. */
static void saw(ft_lookup_rates *rates, const finds *f, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const ft_ngrams_match match = {
            .token = 1, .length = f->length + (f->holds ? i : 0), .seen = 1};
        ft_lookup_saw(rates, &match, 1, f->holds ? 1 : 2);
    }
}

/* A run of n tokens; the network counts where the one before it was no run. */
static double run_us(const world *w, ft_control *c, uint32_t n, bool after_run)
{
    ft_control_saw_run(c, n, (int64_t)(n * w->pass_us), 0);
    if (!after_run)
        ft_control_saw_rtt(c, (int64_t)w->rtt_us);
    return n * w->pass_us + (after_run ? 0 : w->rtt_us);
}

static double tree_us(const world *w, ft_control *c, uint32_t nodes, uint32_t n_path)
{
    const ft_control_round round = {.nodes = nodes,
                                    .n_path = n_path,
                                    .draft_us = 20,
                                    .wait_us =
                                        (int64_t)(w->rtt_us + w->pass_us + nodes * w->row_us),
                                    .verify_us = (int64_t)(w->pass_us + nodes * w->row_us),
                                    .rtt_us = (int64_t)w->rtt_us};
    ft_control_saw_round(c, &round);
    return (double)round.wait_us;
}

/* A text; `c` is what was learnt before. */
static outcome write_text(const world *w, const finds *f, ft_control *c)
{
    ft_lookup_rates rates = {0};
    outcome o = {0};
    bool after_run = false;
    for (uint32_t n = 0; n < TEXT;) {
        const ft_control_offer offer = chain_of(&rates, f->length, ft_control_least_chance(c));
        const ft_control_choice choice = ft_control_take(c, &offer);
        uint32_t tokens = ft_min_u32(choice.run, TEXT - n);
        if (choice.speculate) {
            const uint32_t n_path = f->holds ? offer.nodes : 0;
            o.us += tree_us(w, c, offer.nodes, n_path);
            o.trees++;
            o.nodes += offer.nodes;
            tokens = n_path + 1;
        } else {
            o.us += run_us(w, c, tokens, after_run);
        }
        after_run = !choice.speculate;
        saw(&rates, f, tokens);
        n += tokens;
    }
    return o;
}

static ft_control begin(uint32_t most)
{
    const ft_control_opts opts = {.max_budget = most, .max_depth = NODES, .max_width = 8};
    ft_control c;
    ft_control_init(&c, &opts);
    return c;
}

static const world worlds[] = {
    {0, 30000, 500},      {0, 30000, 3000},    {15000, 30000, 1000}, {40000, 30000, 300},
    {40000, 94000, 2000}, {80000, 20000, 200}, {5000, 200000, 4000},
};

/* Several texts, as what is learnt of one serves the next. */
static void test_what_never_holds(void **state)
{
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        for (uint32_t length = FT_NGRAMS_SHORT; length <= FT_NGRAMS_MATCH; length += 3) {
            const world *w = &worlds[i];
            const finds f = {.length = length};
            ft_control c = begin(NODES);
            double us = 0, plain_us = 0;
            for (int text = 0; text < 4; text++) {
                us += write_text(w, &f, &c).us;
                plain_us += w->rtt_us + TEXT * w->pass_us;
            }
            if (us > 1.02 * plain_us)
                fail_msg("world %zu, matches of %u: %.4f", i, length, us / plain_us);
        }
}

static void test_what_always_holds(void **state)
{
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        const world *w = &worlds[i];
        const finds f = {.length = 8, .holds = true};
        ft_control c = begin(NODES);
        const double plain_us = w->rtt_us + TEXT * w->pass_us;
        (void)write_text(w, &f, &c);
        assert_true(write_text(w, &f, &c).us < 0.5 * plain_us);
    }
}

/* Dear nodes: only likely ones are offered. */
static void test_least_chance_follows_the_rows(void **state)
{
    const finds f = {.length = 8, .holds = true};
    double before = 0;
    for (double row_us = 100; row_us < 20000; row_us *= 3) {
        const world w = {1000, 30000, row_us};
        ft_control c = begin(NODES);
        (void)write_text(&w, &f, &c);
        const double least = ft_control_least_chance(&c);
        assert_true(least >= before && least <= 1);
        before = least;
    }
    assert_true(before > 0.1);
}

/* An edge that believes that nodes are dear finds out that they are not. */
static void test_finds_out(void **state)
{
    const world w = {1000, 30000, 100};
    const finds f = {.length = 3, .holds = true};
    ft_control c = begin(NODES);
    (void)write_text(&w, &f, &c);
    c.verify.slope = w.pass_us;
    c.running = true;
    uint32_t trees = 0;
    for (int text = 0; text < 6; text++)
        trees += write_text(&w, &f, &c).trees;
    assert_true(trees > 20);
    assert_true(c.verify.slope < 0.1 * w.pass_us);
}

static void test_begins_with_a_run(void **state)
{
    ft_control c = begin(NODES);
    const ft_control_offer sure = {.nodes = 8, .tokens = 9, .final = true};
    assert_false(ft_control_take(&c, &sure).speculate);
    ft_control_saw_run(&c, 8, 240000, 0);
    assert_true(ft_control_take(&c, &sure).speculate);
    const ft_control_offer none = {.tokens = 1, .final = true};
    assert_false(ft_control_take(&c, &none).speculate);
    assert_true(ft_control_take(&c, &none).run > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_never_holds),
        cmocka_unit_test(test_what_always_holds),
        cmocka_unit_test(test_least_chance_follows_the_rows),
        cmocka_unit_test(test_finds_out),
        cmocka_unit_test(test_begins_with_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
