// SPDX-License-Identifier: Apache-2.0
// UTF-8 checks against a table, the text stream split at every byte, and a property test: whatever
// the split, the stream's text is that of the whole, cut at the stop string that is complete first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/text.h"

#define FFFD "\xef\xbf\xbd"

/* bytes, length of its complete prefix, its repaired form (NULL: valid as it is) */
static const struct {
    const char *bytes;
    size_t complete;
    const char *repaired;
} table[] = {
    {"", 0, NULL},
    {"a", 1, NULL},
    {"\x7f", 1, NULL},
    {"\xc2\x80", 2, NULL},
    {"\xdf\xbf", 2, NULL},
    {"\xe0\xa0\x80", 3, NULL},
    {"\xed\x9f\xbf", 3, NULL},
    {"\xee\x80\x80", 3, NULL},
    {"\xef\xbf\xbf", 3, NULL},
    {"\xf0\x90\x80\x80", 4, NULL},
    {"\xf4\x8f\xbf\xbf", 4, NULL},
    {"\x80", 1, FFFD},
    {"\xbf", 1, FFFD},
    {"\xc0\x80", 2, FFFD FFFD},          /* overlong NUL */
    {"\xc1\xbf", 2, FFFD FFFD},          /* overlong */
    {"\xe0\x9f\xbf", 3, FFFD FFFD FFFD}, /* overlong */
    {"\xf0\x8f\xbf\xbf", 4, FFFD FFFD FFFD FFFD},
    {"\xed\xa0\x80", 3, FFFD FFFD FFFD},          /* surrogate */
    {"\xf4\x90\x80\x80", 4, FFFD FFFD FFFD FFFD}, /* over U+10FFFF */
    {"\xf5", 1, FFFD},
    {"\xff", 1, FFFD},
    {"\xfe\xfe", 2, FFFD FFFD},
    {"\xc3", 0, FFFD}, /* unfinished */
    {"\xe2\x82", 0, FFFD},
    {"\xf0\x9f\x98", 0, FFFD},
    {"\xf0\x9f", 0, FFFD},
    {"a\xf0", 1, "a" FFFD},
    {"\xe2\x82x", 3, FFFD "x"}, /* one mark for one broken character */
    {"\xf0\x9f\x98\xe2\x82\xac", 6, FFFD "\xe2\x82\xac"},
    {"\xf0\x9f\x98\xc3", 3, FFFD FFFD},
    {"\xe2\x82\xac\x82", 4, "\xe2\x82\xac" FFFD},
    {"\xc3\xa9\xc3\xa9\xc3", 4, "\xc3\xa9\xc3\xa9" FFFD},
    {"\x80\x80\x80\x80", 4, FFFD FFFD FFFD FFFD},
};

static void test_utf8_table(void **state)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const char *bytes = table[i].bytes;
        size_t n = strlen(bytes);
        ft_buf out = {0};
        assert_int_equal(ft_utf8_valid(bytes, n), table[i].repaired == NULL);
        assert_int_equal(ft_utf8_complete(bytes, n), table[i].complete);
        assert_int_equal(ft_utf8_repair(bytes, n, &out), FT_OK);
        assert_string_equal(ft_buf_str(&out), table[i].repaired ? table[i].repaired : bytes);
        assert_true(ft_utf8_valid(ft_buf_str(&out), out.len));
        ft_buf_deinit(&out);
    }
    assert_true(ft_utf8_valid("a\0b", 3));
    assert_int_equal(ft_utf8_complete("a\0\xc3", 3), 2);
}

/* Every code point, encoded by the definition, is valid; surrogates are not. */
static void test_every_code_point(void **state)
{
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char u[4];
        size_t n;
        if (c < 0x80) {
            u[0] = (char)c;
            n = 1;
        } else if (c < 0x800) {
            u[0] = (char)(0xc0 | c >> 6);
            u[1] = (char)(0x80 | (c & 63));
            n = 2;
        } else if (c < 0x10000) {
            u[0] = (char)(0xe0 | c >> 12);
            u[1] = (char)(0x80 | (c >> 6 & 63));
            u[2] = (char)(0x80 | (c & 63));
            n = 3;
        } else {
            u[0] = (char)(0xf0 | c >> 18);
            u[1] = (char)(0x80 | (c >> 12 & 63));
            u[2] = (char)(0x80 | (c >> 6 & 63));
            u[3] = (char)(0x80 | (c & 63));
            n = 4;
        }
        bool surrogate = c >= 0xd800 && c <= 0xdfff;
        if (ft_utf8_valid(u, n) == surrogate)
            fail_msg("U+%04X", c);
        for (size_t cut = 1; cut < n && !surrogate; cut++)
            if (ft_utf8_valid(u, cut) || ft_utf8_complete(u, cut) != 0)
                fail_msg("U+%04X cut to %zu", c, cut);
    }
}

struct pieces {
    const char *const *stops;
    size_t n_stops;
    const char *text;
    const size_t *ends; /* [n_ends] where each piece ends */
    size_t n_ends;
};

/* What a stream shows for these pieces, and whether it stopped; all of it is valid UTF-8. */
static bool stream(const struct pieces *p, ft_buf *out)
{
    ft_text_stream ts;
    ft_text_stream_init(&ts, p->stops, p->n_stops);
    for (size_t i = 0, from = 0; i < p->n_ends; from = p->ends[i++]) {
        assert_int_equal(ft_text_stream_push(&ts, p->text + from, p->ends[i] - from, out), FT_OK);
        assert_true(ft_utf8_valid(ft_buf_str(out), out->len));
    }
    assert_int_equal(ft_text_stream_finish(&ts, out), FT_OK);
    assert_true(ft_utf8_valid(ft_buf_str(out), out->len));
    bool stopped = ts.stopped;
    ft_text_stream_deinit(&ts);
    return stopped;
}

static const char mixed[] = "a\xc3\xa9z\xe2\x82\xac\xf0\x9f\x98\x80 \xd7\xa9\xe6\xbc\xa2!";

static void test_split_at_every_byte(void **state)
{
    size_t n = sizeof mixed - 1;
    for (size_t a = 0; a <= n; a++)
        for (size_t b = a; b <= n; b++) {
            size_t ends[] = {a, b, n};
            ft_buf out = {0};
            struct pieces p = {NULL, 0, mixed, ends, 3};
            assert_false(stream(&p, &out));
            assert_string_equal(ft_buf_str(&out), mixed);
            ft_buf_deinit(&out);
        }
}

/* Without stop strings nothing but an unfinished character is ever held back. */
static void test_holds_back_no_more_than_a_character(void **state)
{
    ft_text_stream ts;
    ft_buf out = {0};
    ft_text_stream_init(&ts, NULL, 0);
    for (size_t i = 0; i < sizeof mixed - 1; i++) {
        assert_int_equal(ft_text_stream_push(&ts, mixed + i, 1, &out), FT_OK);
        assert_int_equal(out.len, ft_utf8_complete(mixed, i + 1));
    }
    ft_text_stream_deinit(&ts);
    ft_buf_deinit(&out);
}

static void test_stop_across_pieces(void **state)
{
    const char *stops[] = {"</s>", "STOP"};
    ft_text_stream ts;
    ft_buf out = {0};
    ft_text_stream_init(&ts, stops, 2);
    assert_int_equal(ft_text_stream_push(&ts, "one <", 5, &out), FT_OK);
    assert_string_equal(ft_buf_str(&out), "one ");
    assert_int_equal(ft_text_stream_push(&ts, "b> S", 4, &out), FT_OK);
    assert_string_equal(ft_buf_str(&out), "one <b> ");
    assert_int_equal(ft_text_stream_push(&ts, "STO", 3, &out), FT_OK);
    assert_string_equal(ft_buf_str(&out), "one <b> S");
    assert_false(ts.stopped);
    assert_int_equal(ft_text_stream_push(&ts, "P and more", 10, &out), FT_OK);
    assert_string_equal(ft_buf_str(&out), "one <b> S");
    assert_true(ts.stopped);
    assert_int_equal(ts.stop, 1);
    assert_int_equal(ft_text_stream_push(&ts, "after", 5, &out), FT_OK);
    assert_int_equal(ft_text_stream_finish(&ts, &out), FT_OK);
    assert_string_equal(ft_buf_str(&out), "one <b> S");
    ft_text_stream_deinit(&ts);
    ft_buf_deinit(&out);
}

static void test_finish_shows_what_was_held(void **state)
{
    const char *stops[] = {"\n\nUser:"};
    ft_text_stream ts;
    ft_buf out = {0};
    ft_text_stream_init(&ts, stops, 1);
    assert_int_equal(ft_text_stream_push(&ts, "bye\n\nUse\xe2\x82", 10, &out), FT_OK);
    assert_string_equal(ft_buf_str(&out), "bye\n\nUse");
    assert_int_equal(ft_text_stream_push(&ts, "\xac\n\n", 3, &out), FT_OK);
    assert_string_equal(ft_buf_str(&out), "bye\n\nUse\xe2\x82\xac");
    assert_int_equal(ft_text_stream_push(&ts, "\xf0\x9f", 2, &out), FT_OK);
    assert_int_equal(ft_text_stream_finish(&ts, &out), FT_OK);
    assert_string_equal(ft_buf_str(&out), "bye\n\nUse\xe2\x82\xac\n\n" FFFD);
    assert_int_equal(ft_text_stream_finish(&ts, &out), FT_OK); /* nothing twice */
    assert_string_equal(ft_buf_str(&out), "bye\n\nUse\xe2\x82\xac\n\n" FFFD);
    ft_text_stream_deinit(&ts);
    ft_buf_deinit(&out);
}

/* One stop inside another, one that ends another, and one that overlaps itself. */
static void test_overlapping_stops(void **state)
{
    static const struct {
        const char *stops[3];
        size_t n_stops;
        const char *text, *shown;
    } cases[] = {
        {{"abcd", "bc"}, 2, "xabcd", "xa"}, /* "bc" is complete before "abcd" */
        {{"bcd", "abcd"}, 2, "xabcd", "x"}, /* both end together: the longer one */
        {{"aab"}, 1, "aaaab", "aa"},        {{"abab", "ba"}, 2, "zabab", "za"},
        {{"\n\n", "\n"}, 2, "a\n\nb", "a"}, {{"\xc3\xa9", "\xa9"}, 1, "a\xc3\xa9", "a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = strlen(cases[i].text);
        for (size_t a = 0; a <= n; a++)
            for (size_t b = a; b <= n; b++) {
                size_t ends[] = {a, b, n};
                ft_buf out = {0};
                struct pieces p = {cases[i].stops, cases[i].n_stops, cases[i].text, ends, 3};
                assert_true(stream(&p, &out));
                assert_string_equal(ft_buf_str(&out), cases[i].shown);
                ft_buf_deinit(&out);
            }
    }
}

/* The definition, on the whole text: the first end of any stop string, of those the longest. */
static size_t naive_cut(const char *text, size_t n, const char *const *stops, size_t n_stops)
{
    for (size_t end = 1; end <= n; end++) {
        size_t longest = 0;
        for (size_t s = 0; s < n_stops; s++) {
            size_t k = strlen(stops[s]);
            if (k <= end && k > longest && memcmp(text + end - k, stops[s], k) == 0)
                longest = k;
        }
        if (longest)
            return end - longest;
    }
    return SIZE_MAX;
}

static void random_text(ft_rng *rng, char *text, size_t *n, size_t max)
{
    static const char *const alphabet[] = {"a", "b",  "a", "b",    "\xc3\xa9",
                                           "c", "ab", "a", "\xe2", "\xf0\x9f\x98\x80"};
    *n = 0;
    size_t count = ft_rng_below(rng, (uint32_t)max + 1);
    for (size_t i = 0; i < count; i++) {
        const char *piece = alphabet[ft_rng_below(rng, 10)];
        memcpy(text + *n, piece, strlen(piece));
        *n += strlen(piece);
    }
    text[*n] = 0;
}

static void test_property_against_naive(void **state)
{
    ft_rng rng;
    unsigned stops_seen = 0;
    ft_rng_init(&rng, 2026);
    for (int trial = 0; trial < 30000; trial++) {
        char text[128], stop_text[3][32];
        const char *stops[3];
        size_t n, n_stops = ft_rng_below(&rng, 4), ends[128], n_ends = 0;
        random_text(&rng, text, &n, 20);
        for (size_t s = 0; s < n_stops; s++) {
            size_t k;
            do
                random_text(&rng, stop_text[s], &k, 4);
            while (k == 0 || !ft_utf8_valid(stop_text[s], k));
            stops[s] = stop_text[s];
        }
        for (size_t i = 1; i < n; i++)
            if (ft_rng_below(&rng, 2))
                ends[n_ends++] = i;
        ends[n_ends++] = n;

        size_t cut = naive_cut(text, n, stops, n_stops);
        ft_buf expected = {0}, out = {0};
        struct pieces p = {stops, n_stops, text, ends, n_ends};
        assert_int_equal(ft_utf8_repair(text, cut == SIZE_MAX ? n : cut, &expected), FT_OK);
        bool stopped = stream(&p, &out);
        assert_int_equal(stopped, cut != SIZE_MAX);
        assert_string_equal(ft_buf_str(&out), ft_buf_str(&expected));
        stops_seen += stopped;
        ft_buf_deinit(&expected);
        ft_buf_deinit(&out);
    }
    assert_true(stops_seen > 3000 && stops_seen < 27000); /* both outcomes were tried */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_table),
        cmocka_unit_test(test_every_code_point),
        cmocka_unit_test(test_split_at_every_byte),
        cmocka_unit_test(test_holds_back_no_more_than_a_character),
        cmocka_unit_test(test_stop_across_pieces),
        cmocka_unit_test(test_finish_shows_what_was_held),
        cmocka_unit_test(test_overlapping_stops),
        cmocka_unit_test(test_property_against_naive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
