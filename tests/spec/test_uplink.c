// SPDX-License-Identifier: Apache-2.0
// spec/uplink on a virtual link (base/line.h): jitter, a server whose own time is not told exactly,
// messages that are late by far, rates and paths that change. Seeds are fixed, so a share that
// holds once always holds.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/line.h"
#include "base/num.h"
#include "base/rng.h"
#include "spec/uplink.h"

enum { SEEDS = 100 };

typedef struct way {
    ft_rng rng;
    ft_line line;
    double now_us;
    double rtt_us, jitter_us; /* each way so much more at most */
    double server_us;         /* mean of an exponential distribution: queueing not accounted for */
    double late;              /* share of messages that are late by up to late_us */
    double late_us;
} way;

static way make(uint64_t seed, double mbit)
{
    way l = {.rtt_us = 40000, .jitter_us = 100, .server_us = 50, .late_us = 200000};
    const ft_line_rate rate = {.bits_per_s = {mbit * 1e6}};
    ft_rng_init(&l.rng, seed);
    ft_line_init(&l.line, &rate);
    return l;
}

static void set_rate(way *l, double mbit)
{
    const ft_line_rate rate = {.bits_per_s = {mbit * 1e6}};
    ft_line_init(&l->line, &rate);
}

static double between(way *l, double low, double high)
{
    return low + (high - low) * ft_rng_unit(&l->rng);
}

/* One round trip. Open takes a millisecond of the server's more. */
static void send_and_wait(way *l, ft_uplink *u, ft_uplink_kind kind, uint64_t bytes)
{
    const int64_t sent_ns = ft_line_take(&l->line, (int64_t)(l->now_us * 1e3), bytes);
    double us = (double)sent_ns / 1e3 - l->now_us + l->rtt_us;
    us += between(l, 0, l->jitter_us) + between(l, 0, l->jitter_us);
    us -= l->server_us * log(ft_rng_unit(&l->rng));
    us += kind == FT_UPLINK_OPEN ? between(l, 500, 1500) : 0;
    us += ft_rng_unit(&l->rng) < l->late ? between(l, 0, l->late_us) : 0;
    l->now_us += us + 20000;
    ft_uplink_saw(u, kind, bytes, (int64_t)us);
}

static void exchange(way *l, ft_uplink *u, uint64_t bytes)
{
    send_and_wait(l, u, FT_UPLINK_DRAFT, bytes);
}

/* Rounds of a kilobyte or more. */
static void rounds(way *l, ft_uplink *u, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        exchange(l, u, (uint64_t)between(l, 1000, 3000));
}

static bool within(ft_uplink *u, double mbit, double share)
{
    const ft_uplink_rate rate = ft_uplink_rate_now(u);
    return rate.known && fabs(rate.bits_per_s / 1e6 / mbit - 1) <= share;
}

static void test_exact_line(void **state)
{
    (void)state;
    ft_uplink u = {0};
    for (uint32_t i = 0; i < 8; i++) {
        assert_false(ft_uplink_rate_now(&u).known);
        ft_uplink_saw(&u, FT_UPLINK_DRAFT, 1000 + 100 * i,
                      5000 + 4 * (1000 + 100 * i)); /* 2 Mbit/s */
    }
    const ft_uplink_rate rate = ft_uplink_rate_now(&u);
    assert_true(rate.known && fabs(rate.bits_per_s - 2e6) < 1 && fabs(rate.empty_us - 5000) < 1);
}

/* With a given rate, one round trip tells the rest of its time; nearly half may be late. */
static void test_empty(void **state)
{
    (void)state;
    ft_uplink u = {0};
    assert_true(ft_uplink_empty_us(&u, 2e6) == 0);
    ft_uplink_saw(&u, FT_UPLINK_OPEN, 1000, 90000);
    assert_true(ft_uplink_empty_us(&u, 2e6) == 0);
    for (uint32_t i = 0; i < 11; i++) {
        const int64_t late_us = i % 2 ? 30000 : 0;
        ft_uplink_saw(&u, FT_UPLINK_DRAFT, 1000, 5000 + 4 * 1000 + late_us);
        assert_false(ft_uplink_rate_now(&u).known);
        assert_true(i % 2 || fabs(ft_uplink_empty_us(&u, 2e6) - 5000) < 1e-9);
    }
    assert_true(ft_uplink_empty_us(&u, 1e3) == 1); /* that rate cannot be */
}

/* What tells nothing: one size, times that do not grow, values that are none. */
static void test_unknown(void **state)
{
    (void)state;
    ft_uplink same = {0}, flat = {0}, falling = {0}, none = {0};
    for (uint32_t i = 0; i < 100; i++) {
        ft_uplink_saw(&same, FT_UPLINK_DRAFT, 1500, 40000 + i % 7);
        ft_uplink_saw(&flat, FT_UPLINK_DRAFT, 1000 + i, 40000);
        ft_uplink_saw(&falling, FT_UPLINK_DRAFT, 1000 + i, 40000 - i);
        ft_uplink_saw(&none, FT_UPLINK_DRAFT, 0, 40000 + i);
        ft_uplink_saw(&none, FT_UPLINK_DRAFT, 1000 + i, 0);
        ft_uplink_saw(&none, FT_UPLINK_DRAFT, 1000 + i, -5);
        ft_uplink_saw(&none, FT_UPLINK_DRAFT, FT_UPLINK_MOST_BYTES + 1 + i, 90000 + i);
        assert_false(ft_uplink_rate_now(&same).known);
        assert_false(ft_uplink_rate_now(&flat).known);
        assert_false(ft_uplink_rate_now(&falling).known);
    }
    assert_int_equal(none.kind[FT_UPLINK_DRAFT].n, 0);
}

/* Within 10 % after 20 rounds of a kilobyte or more. */
static void test_known_after_20(void **state)
{
    (void)state;
    static const struct {
        double mbit, jitter_us;
    } links[] = {{0.02, 5000}, {0.05, 5000}, {0.5, 1000}, {2, 200}, {6, 50}};
    for (size_t i = 0; i < FT_COUNT(links); i++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            way l = make(seed, links[i].mbit);
            ft_uplink u = {0};
            l.jitter_us = links[i].jitter_us;
            l.server_us = links[i].jitter_us / 2;
            rounds(&l, &u, 20);
            if (!within(&u, links[i].mbit, 0.1))
                fail_msg("%g Mbit/s, seed %d: %g", links[i].mbit, (int)seed,
                         ft_uplink_rate_now(&u).bits_per_s / 1e6);
        }
}

/* One message in ten late by up to a second, as when packets are sent again. */
static void test_late_messages(void **state)
{
    (void)state;
    uint32_t wrong = 0, known = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        way l = make(seed, 2);
        ft_uplink u = {0};
        l.late = 0.1;
        l.late_us = 1e6;
        rounds(&l, &u, FT_UPLINK_SAMPLES);
        known += ft_uplink_rate_now(&u).known;
        wrong += ft_uplink_rate_now(&u).known && !within(&u, 2, 0.1);
    }
    assert_in_range(known, 95 * SEEDS / 100, SEEDS);
    assert_int_equal(wrong, 0);
}

/* Where noise hides what bytes take it says so: what it says is right in 19 of 20 cases. */
static void test_noise(void **state)
{
    (void)state;
    static const double mbit[] = {0.5, 2, 6, 50, 1000};
    uint32_t known = 0, wrong = 0, n = 0;
    for (size_t i = 0; i < FT_COUNT(mbit); i++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            way l = make(seed, mbit[i]);
            ft_uplink u = {0};
            l.jitter_us = 2000;
            l.server_us = 500;
            for (uint32_t r = 0; r < 60; r++) {
                rounds(&l, &u, 1);
                known += ft_uplink_rate_now(&u).known;
                wrong += ft_uplink_rate_now(&u).known && !within(&u, mbit[i], 0.1);
                n++;
            }
            assert_false(mbit[i] > 6 && ft_uplink_rate_now(&u).known);
        }
    assert_true(known > n / 10 && known < n / 2);
    assert_true(wrong < known / 20);
}

/* Texts of trees: a run, small drafts, and their Open, which alone is large. Drafts would not tell
 * this rate; after some texts it is known. */
static void test_prompts(void **state)
{
    (void)state;
    uint32_t early = 0, known = 0, right = 0, wrong = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        way l = make(seed, 2);
        ft_uplink u = {0};
        for (uint32_t text = 0; text < 16; text++) {
            send_and_wait(&l, &u, FT_UPLINK_OPEN, (uint64_t)between(&l, 300, 6000));
            exchange(&l, &u, 30);
            for (uint32_t i = 0; i < 12; i++)
                exchange(&l, &u, (uint64_t)between(&l, 60, 150));
            early += text == 0 && ft_uplink_rate_now(&u).known;
            known += ft_uplink_rate_now(&u).known;
            wrong += ft_uplink_rate_now(&u).known && !within(&u, 2, 0.1);
        }
        right += within(&u, 2, 0.1);
    }
    assert_in_range(right, 95 * SEEDS / 100, SEEDS);
    assert_true(known > 0 && wrong < known / 20);
    assert_in_range(early, 0, SEEDS / 20);
}

/* A change that Drafts show is one for Opens, too: those of before are not taken for the new
 * rate's. */
static void test_change_and_prompts(void **state)
{
    (void)state;
    uint32_t right = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        way l = make(seed, 0.5);
        ft_uplink u = {0};
        for (uint32_t i = 0; i < 16; i++) {
            send_and_wait(&l, &u, FT_UPLINK_OPEN, (uint64_t)between(&l, 300, 6000));
            rounds(&l, &u, 2);
        }
        set_rate(&l, 2);
        rounds(&l, &u, FT_UPLINK_MOVED + 8);
        right += within(&u, 2, 0.1);
    }
    assert_in_range(right, 95 * SEEDS / 100, SEEDS);
}

/* A change of the rate is followed within FT_UPLINK_MOVED samples, on a link whose noise is small
 * against what the bytes take, and soon on others. */
static void test_change(void **state)
{
    (void)state;
    static const double change[][2] = {{2, 6}, {6, 2}, {2, 0.5}, {0.02, 0.05}, {0.05, 0.02}};
    for (size_t i = 0; i < FT_COUNT(change); i++) {
        uint32_t right = 0, later = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            way l = make(seed, change[i][0]);
            ft_uplink u = {0};
            l.jitter_us = l.server_us = 50;
            rounds(&l, &u, 24);
            set_rate(&l, change[i][1]);
            rounds(&l, &u, FT_UPLINK_MOVED);
            right += within(&u, change[i][1], 0.1);
            rounds(&l, &u, 12);
            later += within(&u, change[i][1], 0.1);
        }
        assert_in_range(right, 90 * SEEDS / 100, SEEDS);
        assert_in_range(later, 98 * SEEDS / 100, SEEDS);
    }
}

/* A longer path is no other rate. */
static void test_path(void **state)
{
    (void)state;
    uint32_t right = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        way l = make(seed, 2);
        ft_uplink u = {0};
        rounds(&l, &u, 24);
        l.rtt_us += 25000;
        for (uint32_t i = 0; i < 30; i++) {
            rounds(&l, &u, 1);
            right += within(&u, 2, 0.1);
        }
        assert_true(fabs(ft_uplink_rate_now(&u).empty_us - l.rtt_us) < 1500);
    }
    assert_in_range(right, 30 * 95 * SEEDS / 100, 30 * SEEDS);
}

/* A two-state link: the present rate, but for the samples that a change takes. */
static void test_markov(void **state)
{
    (void)state;
    uint32_t n = 0, right = 0, known = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        way l = make(seed, 1);
        const ft_line_rate rate = {{2e6, 6e6}, 200000000, 0.95, seed}; /* 4 s a state */
        ft_uplink u = {0};
        double before = 0;
        uint32_t steady = 0; /* samples since the rate changed */
        ft_line_init(&l.line, &rate);
        for (uint32_t i = 0; i < 600; i++) {
            rounds(&l, &u, 1);
            const double now =
                ft_line_rate_at(&rate, (int64_t)(l.now_us * 1e3) - l.line.began_ns) / 1e6;
            steady = now == before ? steady + 1 : 0;
            before = now;
            if (i < 24 || steady < FT_UPLINK_MOVED + 1) /* one may lie across the change */
                continue;
            n++;
            known += ft_uplink_rate_now(&u).known;
            right += within(&u, now, 0.1);
        }
    }
    assert_true(n > 3000);
    assert_true(known > 0.95 * n && right > 0.9 * n);
}

/* What is older than FT_UPLINK_SAMPLES has no influence. */
static void test_forgets(void **state)
{
    (void)state;
    ft_uplink a = {0}, b = {0};
    for (uint32_t i = 0; i < 50; i++)
        ft_uplink_saw(&a, FT_UPLINK_DRAFT, 1000 + 37 * (i % 20), 45000 + i * i % 900);
    for (uint32_t i = 0; i < FT_UPLINK_SAMPLES; i++) {
        const uint64_t bytes = 1000 + i * 911 % 2000;
        const int64_t us = 40000 + (int64_t)(4 * bytes) + i * i % 701;
        ft_uplink_saw(&a, FT_UPLINK_DRAFT, bytes, us);
        ft_uplink_saw(&b, FT_UPLINK_DRAFT, bytes, us);
    }
    const ft_uplink_rate of_a = ft_uplink_rate_now(&a), of_b = ft_uplink_rate_now(&b);
    assert_true(of_a.known && of_b.known);
    assert_true(of_a.bits_per_s == of_b.bits_per_s && of_a.empty_us == of_b.empty_us);
}

/* What small messages have displaced stays as the last one, until the rate changes. */
static void test_last(void **state)
{
    (void)state;
    ft_uplink u = {0};
    assert_false(u.last.known);
    for (uint32_t i = 0; i < 30; i++)
        ft_uplink_saw(&u, FT_UPLINK_DRAFT, 1000 + 100 * i, 5000 + 4 * (1000 + 100 * i) + i % 3);
    const ft_uplink_rate rate = ft_uplink_rate_now(&u);
    assert_true(rate.known);
    for (uint32_t i = 0; i < 100; i++)
        ft_uplink_saw(&u, FT_UPLINK_DRAFT, 60, 5000 + 4 * 60 + i % 3);
    assert_false(ft_uplink_rate_now(&u).known);
    assert_true(u.last.known && u.last.bits_per_s == rate.bits_per_s);
    for (uint32_t i = 0; i < FT_UPLINK_SAMPLES; i++)
        ft_uplink_saw(&u, FT_UPLINK_DRAFT, 60 + 100 * i, 5000 + 40 * (60 + 100 * i));
    assert_true(ft_uplink_rate_now(&u).known && fabs(u.last.bits_per_s / 2e5 - 1) < 0.1);
    for (uint32_t i = 0; i < FT_UPLINK_MOVED; i++)
        ft_uplink_saw(&u, FT_UPLINK_DRAFT, 60 + 1000 * i, 5000 + 80 * (60 + 1000 * i));
    assert_false(u.last.known);
}

/* Lines are found when they are needed; when that is changes nothing. */
static void test_asked_seldom(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        ft_uplink often = {0}, seldom = {0};
        ft_rng rng;
        ft_rng_init(&rng, seed);
        for (uint32_t i = 0; i < 200; i++) {
            const uint64_t bytes = 100 + (uint64_t)(1500 * ft_rng_unit(&rng));
            const double us_per_byte = i < 80 ? 4 : 16; /* the rate changes, then the path */
            const double us =
                (i < 140 ? 20000 : 45000) + us_per_byte * (double)bytes + 300 * ft_rng_unit(&rng);
            const ft_uplink_kind kind = i % 7 ? FT_UPLINK_DRAFT : FT_UPLINK_OPEN;
            ft_uplink_saw(&often, kind, bytes, (int64_t)us);
            ft_uplink_saw(&seldom, kind, bytes, (int64_t)us);
            const ft_uplink_rate a = ft_uplink_rate_now(&often);
            if (i % 41 != 0)
                continue;
            const ft_uplink_rate b = ft_uplink_rate_now(&seldom);
            assert_true(a.known == b.known && a.bits_per_s == b.bits_per_s &&
                        a.empty_us == b.empty_us);
        }
        assert_true(within(&seldom, 0.5, 0.1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_line),    cmocka_unit_test(test_empty),
        cmocka_unit_test(test_unknown),       cmocka_unit_test(test_known_after_20),
        cmocka_unit_test(test_late_messages), cmocka_unit_test(test_noise),
        cmocka_unit_test(test_prompts),       cmocka_unit_test(test_change_and_prompts),
        cmocka_unit_test(test_change),        cmocka_unit_test(test_path),
        cmocka_unit_test(test_markov),        cmocka_unit_test(test_forgets),
        cmocka_unit_test(test_asked_seldom),  cmocka_unit_test(test_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
