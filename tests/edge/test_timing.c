// SPDX-License-Identifier: Apache-2.0
// Times of rounds without a link and without a clock: what each kind of verdict says about the
// network, and what it does not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "edge/timing.h"

static ft_msg_verdict verdict(uint32_t queue_us, uint32_t verify_us)
{
    return (ft_msg_verdict){.queue_us = queue_us, .verify_us = verify_us};
}

/* A round of a tree in an open stream. */
static void one_round(ft_timing *t, int64_t sent_us, int64_t came_us, const ft_msg_verdict *v)
{
    ft_timing_sent(t, sent_us);
    ft_timing_verdict(t, came_us, v, 4);
}

static void test_an_ordinary_round(void **state)
{
    const ft_msg_verdict v = verdict(1000, 4000);
    ft_timing t = {0};
    one_round(&t, 0, 12000, &v);
    assert_true(t.round.known && t.round.us == 12000);
    assert_true(t.rtt_sample.known && t.rtt_sample.us == 7000);
    assert_true(t.mark.known && t.mark.us == 5000);
    assert_true(t.rtt_us.known && t.wait_us.known);
    assert_int_equal(ft_timing_rtt_us(&t), 7000);
    one_round(&t, 20000, 20000 + 17000, &v);
    assert_int_equal(ft_timing_rtt_us(&t), 8000); /* a fifth of the way */
}

static void test_the_first_of_a_stream_says_nothing(void **state)
{
    const ft_msg_verdict v = verdict(0, 4000);
    ft_timing t = {0};
    ft_timing_opens(&t, 10);
    one_round(&t, 100, 500000, &v);
    assert_false(t.round.known || t.rtt_sample.known || t.mark.known);
    assert_false(t.rtt_us.known || t.wait_us.known);
    assert_int_equal(ft_timing_rtt_us(&t), 0);
    one_round(&t, 600000, 606000, &v);
    assert_true(t.round.known && t.rtt_sample.us == 2000);
}

/* Only the first verdict of a run tells of the network, and a next run's none. */
static void test_runs(void **state)
{
    const ft_msg_verdict v = verdict(0, 1000);
    ft_timing t = {0};
    ft_timing_sent(&t, 0);
    ft_timing_verdict(&t, 3000, &v, 0);
    assert_true(t.rtt_sample.known);
    assert_false(t.wait_us.known); /* no tree */
    ft_timing_verdict(&t, 4000, &v, 0);
    assert_false(t.rtt_sample.known || t.round.known);
    ft_timing_sent(&t, 5000);
    t.sent = ft_unknown();
    ft_timing_verdict(&t, 6000, &v, 0);
    assert_false(t.rtt_sample.known);
    assert_int_equal(ft_timing_rtt_us(&t), 2000);
}

/* A round that began with an early draft lasts from one verdict to the next. */
static void test_an_early_round(void **state)
{
    const ft_msg_verdict v = verdict(0, 4000);
    ft_timing t = {0};
    one_round(&t, 0, 10000, &v);
    ft_timing_sent_early(&t);
    ft_timing_verdict(&t, 16500, &v, 4);
    assert_true(t.round.known && t.round.us == 6500);
    assert_false(t.rtt_sample.known);
    assert_true(t.mark.known && t.mark.us == 8000); /* as if sent to arrive at the last mark */
    ft_timing_sent(&t, 20000);
    ft_timing_verdict(&t, 30000, &v, 4);
    assert_true(t.rtt_sample.known);
}

static void test_near(void **state)
{
    const ft_msg_verdict v = verdict(0, 1000);
    ft_timing t = {0};
    assert_false(ft_timing_near(&t, 0, 1e9).known); /* nothing is known */
    one_round(&t, 0, 10000, &v);
    ft_timing_sent(&t, 20000);
    assert_false(ft_timing_near(&t, 21000, 3000).known); /* there is time for a forward */
    const ft_known_us near = ft_timing_near(&t, 29000, 3000);
    assert_true(near.known && near.us >= 1000 && near.us <= 4001);
    assert_false(ft_timing_near(&t, 40000, 3000).known); /* it is late: work on */
    ft_timing_ahead(&t, 9500); /* a forward takes longer while a verdict is awaited */
    assert_true(ft_timing_near(&t, 21000, 3000).known);
}

/* Never before ten seconds, then by the slowest of late; longer for what the server does first. */
static void test_the_limit_of_an_answer(void **state)
{
    ft_timing t = {0};
    ft_timing_opens(&t, 2000);
    assert_int_equal(ft_timing_limit_us(&t), 32000000);
    ft_timing_reads(&t, 2000);
    assert_int_equal(ft_timing_limit_us(&t), 210000000);
    ft_timing_waited(&t, 90000000); /* reading says nothing about rounds */
    t.first = false;
    assert_int_equal(ft_timing_limit_us(&t), 10000000);
    ft_timing_waited(&t, 800000);
    assert_int_equal(ft_timing_limit_us(&t), 16000000);
    for (int i = 0; i < 4; i++)
        ft_timing_waited(&t, 100000);
    assert_int_equal(ft_timing_limit_us(&t), 10000000);
}

static void test_the_limit_doubles(void **state)
{
    ft_timing t = {0};
    for (int i = 0; i < 100; i++)
        ft_timing_overdue(&t);
    assert_int_equal(ft_timing_limit_us(&t), 2560000000);
    ft_timing_opens(&t, 0); /* a new stream alone is no verdict */
    assert_true(ft_timing_limit_us(&t) > 2560000000);
    ft_timing_waited(&t, 1);
    assert_int_equal(ft_timing_limit_us(&t), 10000000);
}

/* A server that is alive gets twice the time, three times for one answer. */
static void test_more_time(void **state)
{
    ft_timing t = {0};
    for (int i = 0; i < 2; i++) {
        for (int64_t us = 10000000; us < 80000000; us *= 2) {
            assert_int_equal(ft_timing_limit_us(&t), us);
            assert_true(ft_timing_longer(&t));
        }
        assert_int_equal(ft_timing_limit_us(&t), 80000000);
        assert_false(ft_timing_longer(&t));
        ft_timing_waited(&t, 1);
    }
}

/* A Draft's trip is its bytes and the network's time, unless other bytes went out since the message
 * before, or the verdict tells nothing of the network. */
static void test_trip_of_a_draft(void **state)
{
    const ft_msg_verdict v = verdict(1000, 4000);
    ft_timing t = {0};
    ft_timing_opens(&t, 10);
    ft_timing_open_sent(&t, 0, 300, true);
    ft_timing_draft_bytes(&t, 300, 360);
    one_round(&t, 10, 50000, &v); /* the first of a stream */
    assert_int_equal(t.trip.bytes, 0);
    ft_timing_draft_bytes(&t, 360, 460);
    one_round(&t, 60000, 72000, &v);
    assert_int_equal(t.trip.kind, FT_UPLINK_DRAFT);
    assert_int_equal(t.trip.bytes, 100);
    assert_int_equal(t.trip.us, 7000);
    ft_timing_draft_bytes(&t, 500, 600); /* 40 bytes went out in between */
    one_round(&t, 80000, 92000, &v);
    assert_int_equal(t.trip.bytes, 0);
    ft_timing_draft_bytes(&t, 600, 650);
    one_round(&t, 100000, 112000, &v);
    assert_int_equal(t.trip.bytes, 50);
    ft_timing_sent_early(&t);
    ft_timing_verdict(&t, 118000, &v, 4);
    assert_int_equal(t.trip.bytes, 0);
}

/* Open's trip: only if the link had a connection, and the server tells its time. */
static void test_trip_of_open(void **state)
{
    static const struct {
        bool at_once;
        uint32_t queue_us;
        uint64_t bytes;
        int64_t us;
    } cases[] = {{true, 500, 300, 19500}, {false, 500, 0, 0}, {true, 0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_timing t = {0};
        ft_timing_opens(&t, 10);
        ft_timing_open_sent(&t, 1000, 300, cases[i].at_once);
        ft_timing_opened(&t, 21000, cases[i].queue_us);
        assert_int_equal(t.trip.bytes, cases[i].bytes);
        if (t.trip.bytes > 0) {
            assert_int_equal(t.trip.kind, FT_UPLINK_OPEN);
            assert_int_equal(t.trip.us, cases[i].us);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_ordinary_round),
        cmocka_unit_test(test_trip_of_a_draft),
        cmocka_unit_test(test_trip_of_open),
        cmocka_unit_test(test_the_first_of_a_stream_says_nothing),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_an_early_round),
        cmocka_unit_test(test_near),
        cmocka_unit_test(test_the_limit_of_an_answer),
        cmocka_unit_test(test_the_limit_doubles),
        cmocka_unit_test(test_more_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
