// SPDX-License-Identifier: Apache-2.0
// spec/rule_ratio.c: whatever the draft and its resolution, tokens have the target's law, unless
// somebody who has seen them decides how many are sent. Draws are keyed, and the same everywhere.
// Bad points are refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "base/rng.h"
#include "spec/lattice.h"
#include "spec/rule.h"
#include "support/stats.h"

enum { VOCAB = 30, WALKS = 20000, POSITION = 9, CHAIN = 2 };

static struct {
    float target[VOCAB], target_after[3][VOCAB]; /* by the token before, modulo 3 */
    float draft[VOCAB];
    ft_rule_work *work, *server_work;
    ft_rule_terms terms; /* of sampled texts */
} w;

/* In steps of 1/64 and below `width`: the same on every machine, as draws_are_pinned wants it. */
static float any_logit(ft_rng *rng, uint32_t width)
{
    return (float)ft_rng_below(rng, 64 * width) / 64;
}

static int set_up(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 4);
    for (int i = 0; i < VOCAB; i++) {
        w.target[i] = any_logit(&rng, 3) + any_logit(&rng, 3);
        w.draft[i] = w.target[i] + any_logit(&rng, 2);
        for (int k = 0; k < 3; k++)
            w.target_after[k][i] = w.target[i] + any_logit(&rng, 2);
    }
    w.terms = ft_rule_ratio.terms(&ft_rule_ratio, VOCAB, NULL);
    return ft_rule_work_create(ft_rules_all, VOCAB, NULL, &w.work) != FT_OK ||
           ft_rule_work_create(ft_rules_all, VOCAB, NULL, &w.server_work) != FT_OK;
}

static int tear_down(void **state)
{
    ft_rule_work_destroy(w.work);
    ft_rule_work_destroy(w.server_work);
    return 0;
}

/* ---- a chain and its walk ---- */

typedef struct chain {
    ft_tree tree;
    ft_buf evidence;
    ft_sampling sampling;
} chain;

static const int32_t text[POSITION] = {1, 2, 3, 4, 5, 6, 7, 7, 8};

static const float *row_of(void *ctx, int32_t node)
{
    const chain *c = ctx;
    return node < 0 ? w.target : w.target_after[c->tree.token[node] % 3];
}

static void add_node(chain *c, uint32_t l, uint32_t round)
{
    static uint8_t bytes[4096];
    const ft_draw d = {.sampling = &c->sampling,
                       .logits = w.draft,
                       .past = {text, POSITION, c->tree.token, c->tree.n},
                       .position = POSITION + c->tree.n,
                       .round = round,
                       .resolution = l};
    ft_draft_children out;
    assert_true(w.terms.evidence_bytes <= sizeof bytes);
    ft_rule_ratio.draw(&ft_rule_ratio, w.work, &d, &out, bytes);
    assert_int_equal(out.n, 1);
    assert_true(out.n_evidence <= w.terms.evidence_bytes);
    ft_tree_add(&c->tree, (int32_t)c->tree.n - 1, out.at[0].token, 0);
    assert_int_equal(ft_evidence_append(&c->evidence, bytes, out.n_evidence), FT_OK);
}

static void begin(chain *c, const ft_sampling *s)
{
    ft_tree_clear(&c->tree);
    ft_buf_clear(&c->evidence);
    c->sampling = *s;
}

static ft_drafted drafted_of(const chain *c)
{
    return (ft_drafted){.tree = &c->tree,
                        .evidence = (const uint8_t *)c->evidence.data,
                        .n_evidence = (uint32_t)c->evidence.len,
                        .sampling = &c->sampling,
                        .position = POSITION,
                        .text = text};
}

static ft_verified walk(chain *c)
{
    const ft_drafted drafted = drafted_of(c);
    ft_rule_terms terms = w.terms;
    if (c->sampling.temperature == 0)
        terms = ft_rule_ratio.terms(&ft_rule_ratio, VOCAB, &c->sampling);
    ft_verified v = {0};
    ft_error err = {0};
    if (ft_rule_check(&ft_rule_ratio, &terms, &drafted, &err) != FT_OK)
        fail_msg("%s", err.message);
    assert_true(
        ft_rule_ratio.walk(&ft_rule_ratio, w.server_work, &drafted, (ft_rows){row_of, c}, &v));
    return v;
}

/* ---- the law ---- */

typedef struct seen {
    double first[VOCAB], second[3][VOCAB]; /* counts; second: by the first, modulo 3 */
    double accepted;
} seen;

/* Which tokens a sender withholds who has seen them. */
typedef bool withholds(int32_t token);

static void send_many(const ft_sampling *sampling, uint32_t l, withholds *withheld, seen *out)
{
    chain c = {0};
    ft_sampling s = *sampling;
    *out = (seen){0};
    for (s.seed = 0; s.seed < WALKS; s.seed++) {
        begin(&c, &s);
        for (int i = 0; i < CHAIN; i++) {
            const size_t before = c.evidence.len;
            add_node(&c, l, 3);
            if (withheld && withheld(c.tree.token[i])) {
                c.tree.n--;
                c.evidence.len = before;
                break;
            }
        }
        const ft_verified v = walk(&c);
        assert_null(v.refused);
        const int32_t first = v.n_path > 0 ? c.tree.token[0] : v.next;
        out->first[first]++;
        out->accepted += v.n_path;
        if (v.n_path > 0)
            out->second[first % 3][v.n_path > 1 ? c.tree.token[1] : v.next]++;
    }
    ft_buf_deinit(&c.evidence);
}

/* Of counts, that they are draws of the target's. */
static double p_value(const ft_sampling *s, const float *logits, const double *count)
{
    double expected[VOCAB] = {0}, n = 0;
    const ft_candidate *c;
    for (int i = 0; i < VOCAB; i++)
        n += count[i];
    const size_t n_candidates = ft_sampler_candidates(w.work->sampler, s, logits, &c);
    for (size_t i = 0; i < n_candidates; i++)
        expected[c[i].token] = n * exp((double)c[i].logp);
    return ft_chi_square_p(count, expected, VOCAB);
}

/* With penalties the law is that of the target's logits behind them. */
static void penalties_change_the_law(void **state)
{
    const ft_penalties p = {
        .presence = 0.5f, .frequency = 0.25f, .n_bias = 2, .bias_token = {9, 20}, .bias = {2, -1}};
    ft_sampling s = {.temperature = 1, .top_p = 1, .penalties = &p, .answer_at = POSITION - 3};
    float expected[VOCAB];
    seen got;
    memcpy(expected, w.target, sizeof expected);
    expected[7] -= 2 * 0.25f + 0.5f;
    expected[8] -= 0.25f + 0.5f;
    expected[9] += 2;
    expected[20] -= 1;
    send_many(&s, FT_RATIO_L_DEFAULT, NULL, &got);
    assert_true(got.accepted > WALKS / 4);
    assert_true(p_value(&s, expected, got.first) > 1e-3);
    assert_true(p_value(&s, w.target, got.first) < 1e-9); /* the test can fail */
}

static void the_law_is_the_targets(void **state)
{
    static const struct {
        ft_sampling s;
        uint32_t l;
    } cases[] = {{{.temperature = 0.9f, .top_p = 1}, 1},
                 {{.temperature = 0.9f, .top_p = 1}, 8},
                 {{.temperature = 0.9f, .top_p = 1}, 0},
                 {{.temperature = 1.5f, .top_p = 1}, FT_RATIO_L_MAX},
                 {{.temperature = 0.9f, .top_p = 1, .top_k = 6}, 100},
                 {{.temperature = 1.2f, .top_p = 0.8f, .min_p = 0.02f}, 100}};
    for (size_t i = 0; i < FT_COUNT(cases); i++) {
        seen got;
        send_many(&cases[i].s, cases[i].l, NULL, &got);
        double least = p_value(&cases[i].s, w.target, got.first);
        for (int k = 0; k < 3; k++)
            least = fmin(least, p_value(&cases[i].s, w.target_after[k], got.second[k]));
        print_message("l %u: %.2f of a chain accepted, least p %.4f\n", cases[i].l,
                      got.accepted / WALKS / CHAIN, least);
        assert_true(least > 1e-4);
        /* the draft is worth something, if it is more than one token */
        assert_true(got.accepted > (cases[i].l == 1 ? 0.02 : 0.2) * WALKS);
    }
}

/* A finer point is nearer to the draft's distribution, and so to the target's. */
static void more_is_accepted_of_finer_points(void **state)
{
    const ft_sampling s = {.temperature = 0.9f, .top_p = 1};
    seen coarse, fine;
    send_many(&s, 2, NULL, &coarse);
    send_many(&s, 240, NULL, &fine);
    assert_true(fine.accepted > 1.1 * coarse.accepted);
}

static bool is_even(int32_t token)
{
    return token % 2 == 0;
}

static bool is_unlikely(int32_t token)
{
    return w.draft[token] < 6;
}

/* The trap: who withholds tokens that he has seen changes the law, as a predictor does that stops
 * at a token which it does not trust. */
static void withheld_tokens_change_the_law(void **state)
{
    const ft_sampling s = {.temperature = 0.9f, .top_p = 1};
    seen got;
    send_many(&s, 240, is_even, &got);
    assert_true(p_value(&s, w.target, got.first) < 1e-9);
    send_many(&s, 240, is_unlikely, &got);
    assert_true(p_value(&s, w.target, got.first) < 1e-9);
    const ft_rule_terms terms = ft_rule_ratio.terms(&ft_rule_ratio, VOCAB, &s);
    assert_false(terms.adaptive); /* so nobody may */
    assert_false(ft_rule_takes_early(&terms));
}

/* ---- draws ---- */

/* The drawn tokens have the law of the point that goes with them. */
static void drafts_are_drawn_from_the_point(void **state)
{
    ft_sampling s = {.temperature = 0.9f, .top_p = 1};
    double got[VOCAB] = {0}, expected[VOCAB] = {0};
    const int32_t *tokens;
    const uint64_t *weights;
    void *memory = malloc(ft_lattice_work_bytes(VOCAB, 20));
    ft_lattice_work lattice = ft_lattice_work_in(memory, VOCAB, 20);
    const size_t n = ft_sampler_weights(w.work->sampler, &s, w.draft, &tokens, &weights);
    ft_lattice_quantize(&lattice, 20, tokens, weights, n, &lattice.point);
    chain c = {0};
    for (s.seed = 0; s.seed < WALKS; s.seed++) {
        begin(&c, &s);
        add_node(&c, 20, 1);
        got[c.tree.token[0]]++;
    }
    for (uint32_t i = 0; i < lattice.point.n; i++)
        expected[lattice.point.token[i]] = WALKS * lattice.point.count[i] / 20.0;
    assert_true(ft_chi_square_p(got, expected, VOCAB) > 1e-4);
    ft_buf_deinit(&c.evidence);
    free(memory);
}

/* The share of seeds for which two draws give the same token. */
static double agreement(uint32_t round, bool with_exact)
{
    ft_sampling s = {.temperature = 0.9f, .top_p = 1};
    chain a = {0}, b = {0};
    double same = 0;
    for (s.seed = 0; s.seed < 4000; s.seed++) {
        begin(&a, &s);
        begin(&b, &s);
        add_node(&a, 240, 1);
        add_node(&b, 240, round);
        const int32_t other =
            with_exact ? ft_sampler_draw(w.work->sampler, &s, w.draft, POSITION) : b.tree.token[0];
        same += a.tree.token[0] == other;
        if (round == 1) /* the same inputs, the same bytes */
            assert_memory_equal(a.evidence.data, b.evidence.data, a.evidence.len);
    }
    ft_buf_deinit(&a.evidence);
    ft_buf_deinit(&b.evidence);
    return same / 4000;
}

/* Independent draws agree with probability sum q^2. */
static void each_round_draws_anew(void **state)
{
    const ft_sampling s = {.temperature = 0.9f, .top_p = 1};
    const ft_candidate *c;
    double by_chance = 0;
    const size_t n = ft_sampler_candidates(w.work->sampler, &s, w.draft, &c);
    for (size_t i = 0; i < n; i++)
        by_chance += exp(2 * (double)c[i].logp);
    assert_true(agreement(1, false) == 1);
    assert_true(fabs(agreement(2, false) - by_chance) < 0.04);
    assert_true(fabs(agreement(1, true) - by_chance) < 0.04); /* not the noise of exact */
}

/* On every machine, in every version: else an edge and a server of two versions, or two servers
 * that one text moves between, would not agree what a seed gives. */
static void draws_are_pinned(void **state)
{
    static const int32_t drafted[] = {14, 4, 22, 0, 14, 14, 24, 14, 9, 10};
    static const int32_t out[] = {6, 1, 9, 9, 6, 15, 8, 6, 14, 12};
    chain c = {0};
    for (uint64_t seed = 0; seed < FT_COUNT(drafted); seed++) {
        const ft_sampling s = {.temperature = 1, .top_p = 1, .seed = seed << 30};
        begin(&c, &s);
        add_node(&c, 100, (uint32_t)seed);
        add_node(&c, 100, (uint32_t)seed);
        const ft_verified v = walk(&c);
        assert_int_equal(c.tree.token[1], drafted[seed]);
        assert_int_equal(v.next, out[seed]);
    }
    ft_buf_deinit(&c.evidence);
}

/* ---- what a point says ---- */

/* A token is drawn as often as the evidence says. */
static void a_point_says_how_probable_tokens_are(void **state)
{
    static const uint32_t l[] = {8, 240, 720};
    for (size_t k = 0; k < FT_COUNT(l); k++) {
        double count[VOCAB] = {0}, expected[VOCAB];
        chain c = {0};
        for (uint64_t seed = 0; seed < 4000; seed++) {
            begin(&c, &(ft_sampling){.temperature = 1, .top_p = 1, .seed = seed});
            add_node(&c, l[k], 1);
            count[c.tree.token[0]]++;
        }
        uint32_t n, n_said = 0;
        const ft_drafted drafted = drafted_of(&c);
        const uint8_t *evidence = ft_evidence_of(&drafted, 0, &n);
        float sum = 0;
        for (int32_t i = 0; i < VOCAB; i++) {
            const float said = ft_rule_ratio.said(&ft_rule_ratio, w.work, evidence, n, i);
            expected[i] = 4000 * (double)said;
            sum += said;
            n_said += said > 0;
            assert_true(said > 0 || (said >= 0 && count[i] == 0));
        }
        assert_true(n_said > 1 && fabsf(sum - 1) < 1e-5f);
        assert_true(ft_chi_square_p(count, expected, VOCAB) > 1e-4);
        assert_true(ft_rule_ratio.said(&ft_rule_ratio, w.work, evidence, 1, 0) < 0);
        ft_buf_deinit(&c.evidence);
    }
}

/* ft_ratio_sent_bytes is what a node's evidence takes. Near the end of its room the adaptive code
 * may not know whether it fits; then the index code is sent, which is hardly longer. */
static void evidence_is_as_long_as_said(void **state)
{
    static uint8_t code[4096];
    static const float flatter[] = {1, 0.5f, 0}; /* flat: the index code is the shorter one */
    uint32_t codes_seen = 0;
    for (uint32_t i = 0; i < 60; i++) {
        const uint32_t l = i % 2 ? 240 : 20;
        float logits[VOCAB];
        uint8_t bytes[4096];
        for (int k = 0; k < VOCAB; k++)
            logits[k] = flatter[i % 3] * w.draft[(k + (int)i) % VOCAB];
        const ft_sampling s = {.temperature = 1, .top_p = 1};
        const ft_draw d = {.sampling = &s, .logits = logits, .position = i, .resolution = l};
        ft_draft_children child;
        ft_buf all = {0};
        ft_rule_ratio.draw(&ft_rule_ratio, w.work, &d, &child, bytes);
        assert_int_equal(ft_evidence_append(&all, bytes, child.n_evidence), FT_OK);
        ft_lattice_work work = ft_lattice_work_in(w.work->scratch, VOCAB, FT_RATIO_L_MAX);
        codes_seen |= 1u << (bytes[0] % 4);
        const ft_lattice_code *coder = bytes[0] % 4 ? &ft_lattice_adaptive : &ft_lattice_index;
        const uint32_t head = 4 * l > 127 ? 2 : 1;
        assert_null(coder->decode(&work, l, bytes + head, child.n_evidence - head, &work.point));
        const uint64_t index = ft_lattice_index.encode(&work, &work.point, code, sizeof code);
        const uint64_t adaptive = ft_lattice_adaptive.encode(&work, &work.point, code, sizeof code);
        const uint32_t sent = ft_ratio_sent_bytes(l, (uint32_t)index, (uint32_t)adaptive);
        assert_true(sent == all.len || (sent < all.len && all.len <= sent + 4));
        assert_true(sent == all.len || adaptive + 5 * 8 > index);
        ft_buf_deinit(&all);
    }
    assert_int_equal(codes_seen, 3 /* both */);
}

/* ---- as other rules ---- */

static void greedy_is_exact(void **state)
{
    const ft_sampling s = ft_sampling_default();
    const ft_rule_terms terms = ft_rule_ratio.terms(&ft_rule_ratio, VOCAB, &s);
    assert_true(terms.trees && terms.adaptive && terms.same_tokens);
    assert_int_equal(terms.evidence_bytes, 0);
    const ft_draw d = {.sampling = &s, .logits = w.draft, .position = POSITION};
    ft_draft_children a, b;
    ft_rule_ratio.draw(&ft_rule_ratio, w.work, &d, &a, NULL);
    ft_rule_exact.draw(&ft_rule_exact, w.work, &d, &b, NULL);
    assert_int_equal(a.n, b.n);
    assert_int_equal(a.n_evidence, 0);
    for (uint32_t i = 0; i < a.n; i++)
        assert_int_equal(a.at[i].token, b.at[i].token);
    chain c = {.sampling = s};
    ft_tree_add(&c.tree, -1, a.at[0].token, 0);
    ft_verified v = walk(&c), e = {0};
    const ft_drafted drafted = drafted_of(&c);
    ft_rule_exact.walk(&ft_rule_exact, w.work, &drafted, (ft_rows){row_of, &c}, &e);
    assert_int_equal(v.n_path, e.n_path);
    assert_int_equal(v.next, e.next);
}

typedef struct some_rows {
    chain *c;
    int32_t upto; /* nodes from here on have none */
} some_rows;

static const float *some_row_of(void *ctx, int32_t node)
{
    const some_rows *some = ctx;
    return node < some->upto ? row_of(some->c, node) : NULL;
}

/* In steps, as rows come in, a walk finds what it finds at once. */
static void walks_in_steps(void **state)
{
    chain c = {0};
    uint32_t waited = 0;
    ft_sampling s = {.temperature = 0.9f, .top_p = 1};
    for (s.seed = 0; s.seed < 200; s.seed++) {
        begin(&c, &s);
        for (int i = 0; i < 5; i++)
            add_node(&c, 0, 1);
        const ft_verified whole = walk(&c);
        const ft_drafted drafted = drafted_of(&c);
        some_rows some = {&c, -1};
        ft_verified v = {0};
        for (; !ft_rule_ratio.walk(&ft_rule_ratio, w.work, &drafted, (ft_rows){some_row_of, &some},
                                   &v);
             some.upto++) {
            assert_int_equal((int32_t)v.n_path, some.upto + 1);
            waited++;
        }
        assert_int_equal(v.n_path, whole.n_path);
        assert_int_equal(v.next, whole.next);
    }
    assert_true(waited > 400);
    ft_buf_deinit(&c.evidence);
}

/* ---- bad evidence ---- */

static void set_evidence(chain *c, const uint8_t *bytes, uint32_t n)
{
    ft_buf_clear(&c->evidence);
    assert_int_equal(ft_evidence_append(&c->evidence, bytes, n), FT_OK);
}

static void bad_heads(void **state)
{
    static const struct {
        uint8_t bytes[4];
        uint32_t n;
        const char *why;
    } bad[] = {{{0}, 0, "ends before l and code"},
               {{0x85}, 1, "ends before l and code"},
               {{0x85, 0x80, 0x80, 0}, 4, "ends before l and code"},
               {{0x22}, 1, "names a code that there is not"},
               {{0x01}, 1, "its l is 0 or too large"},
               {{0x85, 0x20}, 2, "its l is 0 or too large"}}; /* 1,025 */
    const ft_sampling s = {.temperature = 1, .top_p = 1};
    chain c = {0};
    begin(&c, &s);
    add_node(&c, 8, 1);
    const ft_rule_terms terms = ft_rule_ratio.terms(&ft_rule_ratio, VOCAB, &s);
    for (size_t i = 0; i < FT_COUNT(bad); i++) {
        ft_error err = {0};
        set_evidence(&c, bad[i].bytes, bad[i].n);
        const ft_drafted drafted = drafted_of(&c);
        assert_int_equal(ft_rule_check(&ft_rule_ratio, &terms, &drafted, &err), FT_INVALID);
        if (!strstr(err.message, bad[i].why))
            fail_msg("'%s' lacks '%s'", err.message, bad[i].why);
    }
    ft_buf_deinit(&c.evidence);
}

/* Evidence of a point of l = 4 in which one token has all. */
static void point_of(const ft_lattice_code *code, int32_t token, uint8_t *out, uint32_t *n)
{
    void *memory = malloc(ft_lattice_work_bytes(VOCAB, 4));
    ft_lattice_work lattice = ft_lattice_work_in(memory, VOCAB, 4);
    lattice.point = (ft_lattice_point){
        .l = 4, .n = 1, .token = lattice.point.token, .count = lattice.point.count};
    lattice.point.token[0] = token;
    lattice.point.count[0] = 4;
    out[0] = (uint8_t)(4 * 4 + code->id);
    *n = 1 + (uint32_t)(code->encode(&lattice, &lattice.point, out + 1, 100) + 7) / 8;
    free(memory);
}

static void bad_points(void **state)
{
    static const ft_lattice_code *const codes[] = {&ft_lattice_index, &ft_lattice_adaptive};
    const ft_sampling s = {.temperature = 1, .top_p = 1};
    uint8_t bytes[101];
    uint32_t n;
    chain c = {0};
    begin(&c, &s);
    add_node(&c, 8, 1);
    const int32_t token = c.tree.token[0];
    for (size_t i = 0; i < FT_COUNT(codes); i++) {
        point_of(codes[i], token, bytes, &n);
        set_evidence(&c, bytes, n);
        assert_null(walk(&c).refused);
        bytes[n] = 1; /* a byte behind its end */
        set_evidence(&c, bytes, n + 1);
        assert_non_null(walk(&c).refused);
        point_of(codes[i], (token + 1) % VOCAB, bytes, &n);
        set_evidence(&c, bytes, n);
        assert_string_equal(walk(&c).refused, "it gives the node's token no weight");
        memset(bytes + 1, 0xff, sizeof bytes - 1);
        set_evidence(&c, bytes, n);
        assert_non_null(walk(&c).refused);
    }
    ft_buf_deinit(&c.evidence);
}

/* A node is refused when the walk comes to it, and not before. */
static void the_second_is_bad(void **state)
{
    ft_sampling s = {.temperature = 0.9f, .top_p = 1};
    chain c = {0};
    uint32_t refused = 0, passed = 0;
    for (s.seed = 0; s.seed < 200; s.seed++) {
        begin(&c, &s);
        add_node(&c, 8, 1);
        add_node(&c, 8, 1);
        c.evidence.data[c.evidence.len - 1] ^= 0x55;
        const ft_verified v = walk(&c);
        assert_true(v.refused ? v.n_path == 1 : true);
        refused += v.refused != NULL;
        passed += v.n_path == 0;
    }
    assert_true(refused > 20 && passed > 20);
    ft_buf_deinit(&c.evidence);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_law_is_the_targets),
        cmocka_unit_test(penalties_change_the_law),
        cmocka_unit_test(more_is_accepted_of_finer_points),
        cmocka_unit_test(withheld_tokens_change_the_law),
        cmocka_unit_test(drafts_are_drawn_from_the_point),
        cmocka_unit_test(each_round_draws_anew),
        cmocka_unit_test(draws_are_pinned),
        cmocka_unit_test(a_point_says_how_probable_tokens_are),
        cmocka_unit_test(evidence_is_as_long_as_said),
        cmocka_unit_test(greedy_is_exact),
        cmocka_unit_test(walks_in_steps),
        cmocka_unit_test(bad_heads),
        cmocka_unit_test(bad_points),
        cmocka_unit_test(the_second_is_bad),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
