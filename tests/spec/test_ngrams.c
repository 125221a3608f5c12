// SPDX-License-Identifier: Apache-2.0
// The index of n-grams against a search through the whole text, and against an index that was made
// anew, through random growth and shrinking, with and without a prediction.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "spec/ngrams.h"

enum { TEXT_MAX = 6000, PREDICTION = 300, RECENT = 40 };

static ft_error err;

static void must(ft_status status)
{
    if (status != FT_OK)
        fail_msg("%s: %s", ft_status_name(status), err.message);
}

/* The tokens behind text[n], last one first. */
static uint32_t recent_of(const int32_t *text, uint32_t n, int32_t *last)
{
    uint32_t k = 0;
    for (; k < RECENT && k < n; k++)
        last[k] = text[n - 1 - k];
    return k;
}

static uint32_t find(const ft_ngrams *x, const int32_t *text, uint32_t n, ft_ngrams_match *found)
{
    int32_t last[RECENT];
    const uint32_t k = recent_of(text, n, last);
    memset(found, 0, FT_NGRAMS_MOST * sizeof *found);
    return ft_ngrams_find(x, last, k, found);
}

/* The longest match of text[n] before place p of `in`. */
static uint32_t match_of(const int32_t *in, uint32_t p, const int32_t *text, uint32_t n)
{
    uint32_t k = 0;
    while (k < p && k < n && k < FT_NGRAMS_MATCH && in[p - 1 - k] == text[n - 1 - k])
        k++;
    return k;
}

static uint32_t longest(const int32_t *in, uint32_t n_in, const int32_t *text, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t p = 1; p < n_in; p++) {
        const uint32_t k = match_of(in, p, text, n);
        best = k > best ? k : best;
    }
    return best;
}

/* Some token of `in` follows a match of this length. */
static bool follows(const int32_t *in, uint32_t n_in, const int32_t *text, uint32_t n,
                    const ft_ngrams_match *m)
{
    for (uint32_t p = 1; p < n_in; p++)
        if (in[p] == m->token && match_of(in, p, text, n) == m->length)
            return true;
    return false;
}

/* A text that repeats itself: random tokens, and copies of what was there. */
static void make_text(int32_t *text, uint32_t n, uint64_t seed)
{
    ft_rng rng;
    ft_rng_init(&rng, seed);
    for (uint32_t i = 0; i < n;) {
        uint32_t from = i > 50 ? ft_rng_below(&rng, i - 40) : 0;
        uint32_t k = 1 + ft_rng_below(&rng, 40);
        const bool copy = i > 50 && ft_rng_below(&rng, 2) == 0;
        for (; k > 0 && i < n; k--)
            text[i++] = copy ? text[from++] : (int32_t)ft_rng_below(&rng, 50);
    }
}

static void must_be_true(const ft_ngrams *x, const int32_t *text, uint32_t n,
                         const int32_t *prediction, uint32_t n_prediction)
{
    ft_ngrams_match found[FT_NGRAMS_MOST];
    const uint32_t n_found = find(x, text, n, found);
    const uint32_t in_text = longest(text, n, text, n);
    const uint32_t in_prediction = longest(prediction, n_prediction, text, n);
    const uint32_t best = in_text > in_prediction ? in_text : in_prediction;
    /* Which places are looked at depends on the length of chains, but a long match is among the
     * first, as 50 tokens make some 10^8 n-grams of five. */
    assert_true(n_found > 0 || best < FT_NGRAMS_LONG);
    assert_true(best < FT_NGRAMS_LONG || found[0].length == best);
    for (uint32_t i = 0; i < n_found; i++) {
        assert_true(i == 0 || found[i].length <= found[i - 1].length);
        assert_true(found[i].length >= FT_NGRAMS_SHORT && found[i].length <= FT_NGRAMS_MATCH);
        assert_true(found[i].seen > 0);
        assert_true(found[i].predicted ? follows(prediction, n_prediction, text, n, &found[i])
                                       : follows(text, n, text, n, &found[i]));
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(found[i].token, found[j].token);
    }
}

static void test_finds_the_longest_match(void **state)
{
    static int32_t text[TEXT_MAX], prediction[PREDICTION];
    ft_ngrams *x = NULL;
    make_text(text, TEXT_MAX, 1);
    make_text(prediction, PREDICTION, 2);
    memcpy(prediction + 100, text + 900, 80 * sizeof *text);
    for (uint32_t with = 0; with < 2; with++) {
        const uint32_t n_prediction = with ? PREDICTION : 0;
        must(ft_ngrams_create(prediction, n_prediction, &err, &x));
        for (uint32_t n = 0; n < 1200; n++) {
            must_be_true(x, text, n, prediction, n_prediction);
            must(ft_ngrams_append(x, text + n, 1, &err));
        }
        ft_ngrams_destroy(x);
    }
}

/* An index that grew and shrank finds what one of the same text finds that only grew. */
static void test_shrinking_leaves_no_trace(void **state)
{
    static int32_t text[TEXT_MAX], other[TEXT_MAX];
    ft_ngrams_match a[FT_NGRAMS_MOST], b[FT_NGRAMS_MOST];
    ft_ngrams *x = NULL, *fresh = NULL;
    ft_rng rng;
    ft_rng_init(&rng, 3);
    make_text(text, TEXT_MAX, 4);
    make_text(other, TEXT_MAX, 5);
    must(ft_ngrams_create(other + 3000, PREDICTION, &err, &x));
    must(ft_ngrams_create(other + 3000, PREDICTION, &err, &fresh));
    for (uint32_t n = 0; n < 5000;) {
        const uint32_t more = 1 + ft_rng_below(&rng, 60), wrong = ft_rng_below(&rng, 90);
        must(ft_ngrams_append(x, other + n, wrong, &err));
        ft_ngrams_truncate(x, n);
        must(ft_ngrams_append(x, text + n, more, &err));
        must(ft_ngrams_append(fresh, text + n, more, &err));
        n += more;
        assert_int_equal(ft_ngrams_length(x), n);
        assert_int_equal(ft_ngrams_token(x, n - 1), text[n - 1]);
        assert_int_equal(find(x, text, n, a), find(fresh, text, n, b));
        assert_memory_equal(a, b, sizeof a);
    }
    ft_ngrams_truncate(x, 0);
    assert_int_equal(ft_ngrams_length(x), 0);
    assert_int_equal(ft_ngrams_predicted(x, 7), other[3007]);
    ft_ngrams_destroy(x);
    ft_ngrams_destroy(fresh);
}

/* What follows in several ways is found in all of them; the way that was seen last is first among
 * matches of one length. */
static void test_finds_what_differs(void **state)
{
    static const int32_t text[] = {1, 2, 3, 10, 9, 8, 1, 2, 3, 11, 7, 6, 1, 2, 3, 10, 5, 1, 2, 3};
    ft_ngrams_match found[FT_NGRAMS_MOST];
    ft_ngrams *x = NULL;
    must(ft_ngrams_create(NULL, 0, &err, &x));
    must(ft_ngrams_append(x, text, sizeof text / sizeof *text, &err));
    assert_int_equal(find(x, text, sizeof text / sizeof *text, found), 2);
    assert_int_equal(found[0].token, 10);
    assert_int_equal(found[0].seen, 2);
    assert_int_equal(found[0].length, 3);
    assert_int_equal(found[1].token, 11);
    assert_int_equal(found[1].seen, 1);
    ft_ngrams_destroy(x);
}

/* A prediction's end and the text's beginning are no neighbours. */
static void test_border(void **state)
{
    static const int32_t prediction[] = {4, 5}, text[] = {6, 7, 8}, asked[] = {4, 5};
    ft_ngrams_match found[FT_NGRAMS_MOST];
    ft_ngrams *x = NULL;
    must(ft_ngrams_create(prediction, 2, &err, &x));
    must(ft_ngrams_append(x, text, 3, &err));
    assert_int_equal(find(x, asked, 2, found), 0);
    ft_ngrams_destroy(x);
}

/* However often an n-gram comes, a search looks at a bounded number of places. */
static void test_search_is_bounded(void **state)
{
    static int32_t text[TEXT_MAX];
    ft_ngrams_match found[FT_NGRAMS_MOST];
    ft_ngrams *x = NULL;
    must(ft_ngrams_create(NULL, 0, &err, &x));
    must(ft_ngrams_append(x, text, TEXT_MAX, &err)); /* one token, again and again */
    assert_int_equal(find(x, text, TEXT_MAX, found), 1);
    assert_int_equal(found[0].length, FT_NGRAMS_MATCH);
    assert_in_range(found[0].seen, 1, 2 * FT_NGRAMS_WALK);
    ft_ngrams_destroy(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_the_longest_match),
        cmocka_unit_test(test_shrinking_leaves_no_trace),
        cmocka_unit_test(test_finds_what_differs),
        cmocka_unit_test(test_border),
        cmocka_unit_test(test_search_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
