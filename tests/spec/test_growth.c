// SPDX-License-Identifier: Apache-2.0
// Growth of draft trees without any model: candidates come from a hash of the path. A tree that
// grew to its end is compared with the best nodes of the whole tree of candidates, found by brute
// force.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/secret.h"
#include "spec/growth.h"
#include "spec/tuning.h"
#include "support/drafts.h"

static ft_growth g;

/* A made-up model: children of a node are a function of its path alone. */
static void children_of(uint64_t path, ft_draft_children *out)
{
    ft_rng rng;
    float left = 1;
    ft_rng_init(&rng, path);
    *out = (ft_draft_children){.n = 1 + ft_rng_below(&rng, FT_DRAFT_RANKED)};
    for (uint32_t i = 0; i < out->n; i++) {
        float p = left * (0.3f + 0.5f * (float)ft_rng_unit(&rng));
        out->at[i] = (ft_draft_child){.token = (int32_t)(i * 1000 + ft_rng_below(&rng, 1000)),
                                      .logp = logf(p)};
        left -= p;
    }
    out->shape = (ft_shape){.entropy = (float)(path % 97), .margin = 0.25f, .deviation = 2};
}

static uint64_t path_of(uint64_t text, int32_t at)
{
    if (at < 0)
        return text;
    return ft_fnv64(path_of(text, g.node[at].parent), &g.node[at].token, sizeof(int32_t));
}

static void begin(uint64_t text, uint32_t branch)
{
    ft_draft_children c;
    ft_growth_clear(&g);
    children_of(text, &c);
    ft_growth_add(&g, -1, &c, branch);
}

static void compute(uint64_t text, const uint16_t *chosen, uint32_t n, uint32_t branch,
                    bool proactive)
{
    ft_draft_children c;
    ft_growth_computed(&g, chosen, n, proactive);
    for (uint32_t i = 0; i < n; i++) {
        children_of(path_of(text, chosen[i]), &c);
        ft_growth_add(&g, chosen[i], &c, branch);
    }
    ft_growth_check(&g);
}

static const ft_growth_limits no_limits = {.leaves = FT_DRAFT_LEAVES, .depth = UINT32_MAX};

static uint32_t grow(uint64_t text, const ft_draft_params *p, uint32_t forwards)
{
    uint16_t chosen[FT_DRAFT_LEAVES];
    uint32_t n, done = 0;
    for (; done < forwards && (n = ft_growth_choose(&g, p, &no_limits, chosen)) > 0; done++)
        compute(text, chosen, n, p->branch, false);
    return done;
}

/* Adds to `found` the cum of every node at or below one whose cum is at least `worst`. */
static void all_nodes(uint64_t path, float cum, float worst, uint32_t branch, uint32_t *better)
{
    ft_draft_children c;
    children_of(path, &c);
    for (uint32_t i = 0; i < c.n && i < branch; i++) {
        float below = cum + c.at[i].logp;
        if (below <= worst)
            continue;
        (*better)++;
        all_nodes(ft_fnv64(path, &c.at[i].token, sizeof(int32_t)), below, worst, branch, better);
    }
}

/* Whatever the width, growth ends with the best nodes there are. */
static void test_grows_to_the_best(void **state)
{
    for (uint64_t text = 0; text < 40; text++) {
        ft_tree first, tree;
        uint16_t chosen[FT_DRAFT_LEAVES];
        for (uint32_t width = 1; width <= 64; width *= 4) {
            ft_draft_params p = ft_draft_params_tree(1 + (uint32_t)text, 0, width);
            p.branch = 1 + (uint32_t)text % 8;
            begin(text, p.branch);
            uint32_t forwards = grow(text, &p, 1000);
            ft_growth_emit(&g, &p, &tree);
            assert_true(forwards < 200);
            assert_int_equal(tree.n, p.budget);
            if (width == 1)
                first = tree;
            else
                test_trees_same(&first, &tree);
            float worst = 0;
            uint32_t better = 0;
            for (uint32_t i = 0; i < tree.n; i++)
                worst = fminf(worst, tree.cum_logp[i]);
            all_nodes(text, 0, worst, p.branch, &better);
            assert_int_equal(better, tree.n - 1); /* all but the worst itself */
            assert_float_equal(g.displaced, worst, 1e-6);
            p.budget = FT_TREE_MAX;
            (void)ft_growth_choose(&g, &p, &no_limits, chosen);
            assert_int_equal(g.displaced == -INFINITY, g.n < FT_TREE_MAX);
        }
    }
}

/* Once a tree brings enough, it neither grows nor takes nodes that are not likely. With a tree
 * that brings less, or where all nodes are likely enough, nothing changes. */
static void test_enough(void **state)
{
    (void)state;
    for (uint64_t text = 0; text < 40; text++) {
        ft_draft_params p = ft_draft_params_tree(24, 0, 4);
        ft_tree all, tree;
        begin(text, p.branch);
        const uint32_t forwards = grow(text, &p, 1000);
        ft_growth_emit(&g, &p, &all);
        const double most = ft_tree_tokens(&all);
        for (int step = 1; step <= 4; step++) {
            p.enough_tok = (float)(1 + (most - 1) * step / 4);
            p.surplus_logp = step % 2 ? 0 : logf(0.3f);
            begin(text, p.branch);
            assert_true(grow(text, &p, 1000) <= forwards);
            ft_growth_emit(&g, &p, &tree);
            const double tokens = ft_tree_tokens(&tree);
            assert_true(tokens >= (double)p.enough_tok - 1e-4);
            /* Without a node there is not enough, or it is likely. */
            for (uint32_t i = 0; i < tree.n; i++)
                assert_true(tokens - (double)expf(tree.cum_logp[i]) < (double)p.enough_tok ||
                            tree.cum_logp[i] >= p.surplus_logp);
        }
        p.enough_tok = (float)most + 1;
        begin(text, p.branch);
        assert_int_equal(grow(text, &p, 1000), forwards);
        ft_growth_emit(&g, &p, &tree);
        test_trees_same(&all, &tree);
    }
}

/* No node that could be computed and was left out is more probable than chosen[i]. */
static void check_likeliest(const uint16_t *chosen, uint32_t n, uint32_t i)
{
    assert_true(g.node[chosen[i]].pending < 0);
    assert_true(g.node[chosen[i]].cum >= -logf(ft_spec_tune->growth.proactive_odds));
    for (uint32_t k = 0; k < g.n; k++) {
        bool taken = g.node[k].pending >= 0;
        for (uint32_t j = 0; j < n; j++)
            taken |= chosen[j] == k;
        assert_true(taken || g.node[k].cum <= g.node[chosen[i]].cum);
    }
}

/* One proactive forward; the chosen nodes are the likeliest, or the expansion leaf and below. */
static void grow_proactively(uint64_t text, const ft_draft_params *p)
{
    uint16_t chosen[FT_DRAFT_LEAVES];
    bool first = g.expansion_leaf < 0;
    uint32_t n = ft_growth_choose_proactive(&g, p, &no_limits, chosen);
    for (uint32_t i = 0; i < n && p->proactive == FT_PROACTIVE_LIKELIEST; i++)
        check_likeliest(chosen, n, i);
    if (p->proactive == FT_PROACTIVE_LIKELIEST && p->grow == FT_GROW_BEST && n > 0 && first &&
        g.node[g.expansion_leaf].pending < 0)
        assert_int_equal(chosen[0], g.expansion_leaf);
    compute(text, chosen, n, p->branch, true);
    for (uint32_t i = 0; i < n && p->proactive == FT_PROACTIVE_LEAF;
         i++) { /* the expansion leaf, or below it */
        int32_t at = chosen[i];
        while (at >= 0 && at != g.expansion_leaf)
            at = g.node[at].parent;
        assert_int_equal(at, g.expansion_leaf);
    }
}

/* A node is still what the model says of the text. */
static void check_node(uint64_t text, uint32_t i)
{
    ft_draft_children c;
    bool found = false;
    children_of(path_of(text, g.node[i].parent), &c);
    for (uint32_t k = 0; k < c.n; k++)
        found |= c.at[k].token == g.node[i].token && c.at[k].logp == g.node[i].logp;
    assert_true(found);
    float feature[FT_FEATURES];
    ft_growth_features(&g, i, feature);
    assert_true(feature[FT_FEATURE_ENTROPY] == c.shape.entropy);
    assert_true(feature[FT_FEATURE_POSITION] == (float)g.node[i].depth);
}

/* Random rounds of growth, growth ahead and verdicts keep the invariants; what is below the text's
 * new end stays, with its numbers. */
static void test_rounds_keep_the_invariants(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 5);
    uint64_t text = 77, kept = 0;
    begin(text, 6);
    for (uint32_t round = 0; round < 300; round++) {
        ft_draft_params p =
            ft_draft_params_tree(1 + ft_rng_below(&rng, 60), 4, 1 + ft_rng_below(&rng, 12));
        ft_tree tree;
        uint16_t nodes[FT_GROWTH_MAX];
        uint32_t path[FT_TREE_MAX], keep[FT_DRAFT_PENDING];
        p.branch = 6;
        p.grow = (ft_grow)(round % 3);
        memcpy(p.children, (uint8_t[]){3, 2, 1}, 3);
        grow(text, &p, ft_rng_below(&rng, 5));
        ft_growth_emit(&g, &p, &tree);
        for (uint32_t calls = ft_rng_below(&rng, 10); calls > 0; calls--) {
            p.proactive = round % 2 ? FT_PROACTIVE_LEAF : FT_PROACTIVE_LIKELIEST;
            grow_proactively(text, &p);
        }
        uint32_t n_path = test_tree_path(&tree, ft_rng_below(&rng, tree.n), path);
        int walk = ft_growth_walk(&g, path, n_path, NULL, 0, nodes);
        assert_int_equal(walk, n_path);
        for (uint32_t i = 0; i < n_path; i++)
            assert_int_equal(g.node[nodes[i]].token, tree.token[path[i]]);
        int32_t end = nodes[n_path - 1];
        text = path_of(text, end);
        if (g.node[end].pending < 0) {
            begin(text, p.branch);
            continue;
        }
        uint32_t before = g.n_pending, n_keep = ft_growth_reroot(&g, end, keep);
        kept += n_keep;
        ft_growth_check(&g);
        assert_true(n_keep == g.n_pending && n_keep < before);
        for (uint32_t i = 0; i < n_keep; i++)
            assert_true(keep[i] < before && (i == 0 || keep[i] > keep[i - 1]));
        for (uint32_t i = 0; i < g.n; i++)
            check_node(text, i);
    }
    assert_true(kept > 300);
}

/* However much is wanted, growth ahead leaves pool and pending numbers for the draft to come. */
static void test_proactive_leaves_room(void **state)
{
    const uint32_t all = UINT32_MAX;
    const ft_draft_params wants[] = {
        {.budget = FT_TREE_MAX, .depth = 7, .width = 8, .branch = 8, .min_logp = -INFINITY},
        {.budget = FT_TREE_MAX, .depth = 30, .width = 16, .branch = 16, .min_logp = -INFINITY},
        {.budget = FT_TREE_MAX, .depth = all, .width = all, .branch = all, .min_logp = -INFINITY}};
    for (uint64_t text = 0; text < 12; text++) {
        ft_draft_params want = wants[text % 3], *p = &want;
        uint32_t leaves = ft_draft_params_leaves(p), n;
        p->proactive = FT_PROACTIVE_LEAF;
        uint32_t nodes = leaves * (p->branch < FT_DRAFT_RANKED ? p->branch : FT_DRAFT_RANKED);
        ft_tree tree;
        uint16_t chosen[FT_DRAFT_LEAVES];
        ft_draft_params few = ft_draft_params_tree(8, 0, 2);
        begin(text, few.branch);
        grow(text, &few, 3);
        ft_growth_emit(&g, &few, &tree);
        while ((n = ft_growth_choose_proactive(&g, p, &no_limits, chosen)) > 0)
            compute(text, chosen, n, p->branch, true);
        uint32_t pool = nodes < FT_GROWTH_MAX / 2 ? nodes : FT_GROWTH_MAX / 2;
        uint32_t pending = leaves < FT_DRAFT_PENDING / 2 ? leaves : FT_DRAFT_PENDING / 2;
        assert_true(g.n + pool <= FT_GROWTH_MAX);
        assert_true(g.n_pending + pending <= FT_DRAFT_PENDING);
        assert_true(g.n_pending > 20);
    }
}

static void test_walks(void **state)
{
    ft_draft_params p = ft_draft_params_tree(20, 0, 4);
    ft_tree tree;
    uint16_t nodes[FT_GROWTH_MAX];
    begin(3, p.branch);
    grow(3, &p, 100);
    ft_growth_emit(&g, &p, &tree);
    const uint32_t twice[] = {0, 0}, far[] = {20};
    assert_int_equal(ft_growth_walk(&g, twice, 2, NULL, 0, nodes), -1);
    assert_int_equal(ft_growth_walk(&g, far, 1, NULL, 0, nodes), -1);
    assert_int_equal(ft_growth_walk(&g, NULL, 0, NULL, 0, nodes), 0);
    /* A path that comes as the target's own tokens leads to the same nodes, and ends outside the
     * pool. */
    uint32_t path[FT_TREE_MAX], n = test_tree_path(&tree, tree.n - 1, path);
    int32_t next[FT_TREE_MAX + 1];
    for (uint32_t i = 0; i < n; i++)
        next[i] = tree.token[path[i]];
    next[n] = -5;
    assert_int_equal(ft_growth_walk(&g, NULL, 0, next, n + 1, nodes), n);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(nodes[i], g.emitted[path[i]]);
    assert_int_equal(ft_growth_walk(&g, path, 1, next + 1, n, nodes), n);
}

/* A token by the source's chances to the power of `power`; one that is no child stands for the
 * rest. */
static int32_t draw(const ft_draft_children *c, double power, ft_rng *rng)
{
    double p[FT_DRAFT_RANKED + 1], rest = 1, sum = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        rest -= exp((double)c->at[i].logp);
        sum += p[i] = exp(power * (double)c->at[i].logp);
    }
    sum += pow(fmax(rest, 1e-3), power);
    double at = ft_rng_unit(rng) * sum;
    for (uint32_t i = 0; i < c->n; i++)
        if ((at -= p[i]) < 0)
            return c->at[i].token;
    return -1;
}

/* What is learned of a source is how much surer it could have been; drafts believe it from then
 * on. */
static void test_calibration(void **state)
{
    static const double powers[] = {0.7, 1, 2};
    for (size_t k = 0; k < sizeof powers / sizeof *powers; k++) {
        ft_calibration learned = {.sharpness = 1};
        ft_draft_children c;
        ft_rng rng;
        ft_rng_init(&rng, 7);
        for (uint64_t text = 0; text < 3000; text++) {
            begin(text, FT_DRAFT_RANKED);
            children_of(text, &c);
            ft_growth_saw(&g, -1, draw(&c, powers[k], &rng), &learned);
        }
        if (fabs((double)learned.sharpness - powers[k]) > 0.25 * powers[k])
            fail_msg("%g, learned %g", powers[k], (double)learned.sharpness);
        assert_true(fabs((double)learned.rest) < 0.6);
        begin(1, FT_DRAFT_RANKED);
        float said = g.node[0].logp;
        ft_growth_clear(&g);
        g.calibration = learned;
        children_of(1, &c);
        ft_growth_add(&g, -1, &c, FT_DRAFT_RANKED);
        double sum = 0;
        for (uint32_t i = 0; i < g.n; i++)
            sum += exp((double)g.node[i].logp);
        assert_true(sum <= 1 + 1e-5 && g.node[0].said == said);
        assert_true(powers[k] < 1.5 || g.node[0].logp > said);
        assert_true(powers[k] > 0.8 || g.node[0].logp < said);
    }
}

/* The likeliest child of the likeliest child, and so on, as far as something is known. */
static void test_likeliest_text(void **state)
{
    int32_t token[8];
    begin(77, FT_DRAFT_RANKED);
    ft_draft_params params = ft_draft_params_tree(32, 5, 4);
    const ft_growth_limits limits = {.leaves = 4, .depth = 100};
    uint16_t chosen[FT_DRAFT_LEAVES];
    for (uint32_t n; (n = ft_growth_choose(&g, &params, &limits, chosen)) > 0 && g.n_pending < 12;)
        compute(77, chosen, n, FT_DRAFT_RANKED, false);
    const uint32_t n = ft_growth_likeliest(&g, token, 8);
    int32_t at = -1;
    assert_true(n > 1);
    for (uint32_t i = 0; i < n; i++) {
        int32_t next = -1;
        for (uint32_t k = 0; k < g.n; k++)
            if (g.node[k].parent == at) {
                if (g.node[k].token == token[i])
                    next = (int32_t)k;
            }
        assert_true(next >= 0);
        for (uint32_t k = 0; k < g.n; k++)
            assert_true(g.node[k].parent != at || g.node[k].logp <= g.node[next].logp);
        at = next;
    }
    for (uint32_t k = 0; k < g.n; k++) /* it ends where nothing is known */
        assert_true(g.node[k].parent != at);
    assert_int_equal(ft_growth_likeliest(&g, token, 1), 1);
    ft_growth_clear(&g);
    assert_int_equal(ft_growth_likeliest(&g, token, 8), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_likeliest_text),
        cmocka_unit_test(test_grows_to_the_best),
        cmocka_unit_test(test_enough),
        cmocka_unit_test(test_rounds_keep_the_invariants),
        cmocka_unit_test(test_proactive_leaves_room),
        cmocka_unit_test(test_walks),
        cmocka_unit_test(test_calibration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
