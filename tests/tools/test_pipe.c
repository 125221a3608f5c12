// SPDX-License-Identifier: Apache-2.0
// One direction of netlab's links (tools/net/pipe.c) on a clock of the test's own: delay, jitter
// without reordering, loss that only the seed decides, the line's rate, its queue.
#include "net/pipe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ll

static ft_pipe *make(ft_pipe_opts opts)
{
    ft_pipe *pipe = NULL;
    assert_int_equal(ft_pipe_create(&opts, NULL, &pipe), FT_OK);
    return pipe;
}

static void push(ft_pipe *pipe, int64_t now_ns, uint32_t id, size_t n)
{
    uint8_t data[FT_PIPE_MTU] = {0};
    memcpy(data, &id, sizeof id);
    ft_pipe_push(pipe, now_ns, data, n);
}

static uint32_t id_of(const ft_packet *packet)
{
    uint32_t id;
    memcpy(&id, packet->data, sizeof id);
    return id;
}

static void test_delay(void **state)
{
    (void)state;
    ft_pipe *pipe = make((ft_pipe_opts){.delay_ns = 10 * MS});
    assert_true(ft_pipe_due_ns(pipe) == INT64_MAX);
    assert_null(ft_pipe_pop(pipe, 1000 * MS));
    push(pipe, 5 * MS, 1, 100);
    push(pipe, 6 * MS, 2, FT_PIPE_MTU);
    assert_true(ft_pipe_due_ns(pipe) == 15 * MS);
    assert_null(ft_pipe_pop(pipe, 15 * MS - 1));
    const ft_packet *packet = ft_pipe_pop(pipe, 15 * MS);
    assert_true(packet && id_of(packet) == 1 && packet->n == 100);
    assert_null(ft_pipe_pop(pipe, 15 * MS));
    packet = ft_pipe_pop(pipe, 18 * MS); /* the caller is late by 2 ms */
    assert_true(packet && id_of(packet) == 2 && packet->n == FT_PIPE_MTU);
    assert_true(ft_pipe_due_ns(pipe) == INT64_MAX);
    ft_pipe_stats stats = ft_pipe_get_stats(pipe);
    assert_int_equal(stats.packets, 2);
    assert_int_equal(stats.bytes, 1600);
    assert_int_equal(stats.delivered, 2);
    assert_int_equal(stats.lost + stats.dropped, 0);
    assert_true(stats.delay_ns == 22.0 * MS);
    assert_true(stats.late_ns == 2 * MS && stats.late_max_ns == 2 * MS);
    ft_pipe_destroy(pipe);
    ft_pipe_destroy(NULL);
}

/* Due times lie within [delay, delay + jitter] unless the packet ahead is due later still. */
static void test_jitter(void **state)
{
    (void)state;
    enum { N = 2000 };
    ft_pipe *pipe = make((ft_pipe_opts){.delay_ns = 10 * MS, .jitter_ns = 4 * MS, .seed = 3});
    int64_t ahead = 0, least = INT64_MAX, most = 0;
    for (int i = 0; i < N; i++)
        push(pipe, i * MS, (uint32_t)i, 64);
    for (int i = 0; i < N; i++) {
        int64_t due = ft_pipe_due_ns(pipe), delay = due - i * MS;
        const ft_packet *packet = ft_pipe_pop(pipe, due);
        assert_true(packet && id_of(packet) == (uint32_t)i);
        assert_true(due >= ahead && delay >= 10 * MS && delay <= 14 * MS);
        ahead = due;
        least = delay < least ? delay : least;
        most = delay > most ? delay : most;
    }
    assert_true(least < 10 * MS + MS / 4 && most > 14 * MS - MS / 4);
    ft_pipe_destroy(pipe);
}

/* Bit i: was packet i lost? They come gap_ns apart, on a line of this rate. */
static size_t losses(uint64_t seed, double loss, int64_t gap_ns, double bits_per_s, uint8_t *lost,
                     size_t n)
{
    ft_pipe *pipe = make((ft_pipe_opts){
        .loss = loss, .seed = seed, .rate = {{bits_per_s}}, .queue_ns = INT64_MAX / 4});
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        push(pipe, (int64_t)i * gap_ns, 0, 64 + i % 1000);
        size_t now = (size_t)ft_pipe_get_stats(pipe).lost;
        lost[i] = now > sum;
        sum = now;
        while (ft_pipe_pop(pipe, (int64_t)i * gap_ns))
            ;
    }
    ft_pipe_destroy(pipe);
    return sum;
}

static void test_loss(void **state)
{
    (void)state;
    enum { N = 20000 };
    static uint8_t a[N], b[N];
    size_t n = losses(7, 0.1, MS, 0, a, N);
    assert_true(n > N * 0.09 && n < N * 0.11); /* 5 standard deviations */
    assert_int_equal(losses(7, 0.1, 3, 1e6, b, N), n);
    assert_memory_equal(a, b, N); /* whatever the times */
    losses(8, 0.1, MS, 0, b, N);
    assert_true(memcmp(a, b, N) != 0);
    size_t pairs = 0; /* independent: two in a row as often as chance has it */
    for (size_t i = 1; i < N; i++)
        pairs += a[i] && a[i - 1];
    assert_true(pairs > N * 0.006 && pairs < N * 0.014);
    assert_int_equal(losses(7, 0, MS, 0, a, N), 0);
    assert_int_equal(losses(7, 1, MS, 0, a, N), N);
}

/* Reordered packets take so much longer, the others are as without; the same packets are lost. */
static void test_reorder(void **state)
{
    (void)state;
    enum { N = 2000 };
    const ft_pipe_opts plain = {.delay_ns = 10 * MS, .loss = 0.1, .seed = 3};
    ft_pipe_opts opts = plain;
    opts.reorder = 0.2;
    opts.reorder_ns = 5 * MS;
    ft_pipe *ordered = make(plain), *pipe = make(opts);
    size_t n_late = 0, n_overtaken = 0;
    uint32_t highest = 0;
    for (uint32_t i = 0; i < N; i++) {
        push(ordered, i * MS, i, 64);
        push(pipe, i * MS, i, 64);
    }
    assert_int_equal(ft_pipe_get_stats(pipe).lost, ft_pipe_get_stats(ordered).lost);
    for (int64_t due; (due = ft_pipe_due_ns(pipe)) != INT64_MAX;) {
        const ft_packet *packet = ft_pipe_pop(pipe, due);
        assert_non_null(packet);
        int64_t delay = due - packet->came_ns;
        assert_true(delay == 10 * MS || delay == 15 * MS);
        n_late += delay == 15 * MS;
        n_overtaken += id_of(packet) < highest;
        highest = id_of(packet) > highest ? id_of(packet) : highest;
    }
    ft_pipe_stats stats = ft_pipe_get_stats(pipe);
    assert_int_equal(stats.reordered, n_late);
    assert_int_equal(stats.delivered + stats.lost, N);
    assert_true(n_late > N * 0.15 && n_late < N * 0.21);
    assert_true(n_overtaken > N * 0.14);
    ft_pipe_destroy(ordered);
    ft_pipe_destroy(pipe);
}

static void test_rate(void **state)
{
    (void)state;
    /* 1,000 bytes take 1 ms */
    ft_pipe *pipe = make((ft_pipe_opts){.delay_ns = 5 * MS, .rate = {{8e6}}, .queue_ns = 3 * MS});
    for (uint32_t i = 0; i < 10; i++) /* at once: one is sent, three wait, one more may begin to */
        push(pipe, 0, i, 1000);
    for (int i = 0; i < 4; i++) {
        assert_true(ft_pipe_due_ns(pipe) == (6 + i) * MS);
        assert_int_equal(id_of(ft_pipe_pop(pipe, (6 + i) * MS)), i);
    }
    assert_true(ft_pipe_due_ns(pipe) == INT64_MAX);
    assert_int_equal(ft_pipe_get_stats(pipe).dropped, 6);
    push(pipe, 20 * MS, 10, 500); /* an idle line saves up nothing */
    push(pipe, 20 * MS, 11, 500);
    assert_true(ft_pipe_due_ns(pipe) == 25 * MS + MS / 2);
    assert_non_null(ft_pipe_pop(pipe, 26 * MS));
    assert_true(ft_pipe_due_ns(pipe) == 26 * MS);
    ft_pipe_destroy(pipe);
}

/* A rate with steps: packets leave when the line has sent their bits, by the pipe's own seed; its
 * time begins with the first packet. */
static void test_steps(void **state)
{
    (void)state;
    const ft_line_rate rate = {{1e6, 8e6}, 4 * MS, 0.6, 0};
    const int64_t began_ns = 77 * MS;
    size_t n_slow = 0, n_fast = 0;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        ft_pipe *pipe = make((ft_pipe_opts){.rate = rate, .queue_ns = 0, .seed = seed});
        ft_line_rate own = rate;
        own.seed = seed;
        for (uint32_t i = 0; i < 200; i++) { /* 100 bytes fit into any step */
            const int64_t since_ns = i * rate.step_ns;
            push(pipe, began_ns + since_ns, i, 100);
            const bool slow = ft_line_rate_at(&own, since_ns) == 1e6;
            n_slow += slow;
            n_fast += !slow;
            assert_true(ft_pipe_due_ns(pipe) == began_ns + since_ns + (slow ? 800000 : 100000));
            assert_non_null(ft_pipe_pop(pipe, began_ns + since_ns + MS));
        }
        ft_pipe_destroy(pipe);
    }
    assert_true(n_slow > 100 && n_fast > 100);
}

/* Lost packets take the line's time, too. */
static void test_lost_take_time(void **state)
{
    (void)state;
    uint8_t lost[64];
    ft_pipe *pipe =
        make((ft_pipe_opts){.rate = {{8e6}}, .queue_ns = 1000 * MS, .loss = 0.5, .seed = 2});
    assert_true(losses(2, 0.5, 0, 0, lost, 64) > 0);
    for (uint32_t i = 0; i < 64; i++)
        push(pipe, 0, i, 1000);
    for (uint32_t i = 0; i < 64; i++)
        if (!lost[i]) {
            assert_true(ft_pipe_due_ns(pipe) == (i + 1) * MS);
            assert_int_equal(id_of(ft_pipe_pop(pipe, 1000 * MS)), i);
        }
    ft_pipe_destroy(pipe);
}

static void test_too_many(void **state)
{
    (void)state;
    ft_pipe *pipe = make((ft_pipe_opts){.delay_ns = MS});
    for (uint32_t i = 0; i < FT_PIPE_MAX_PACKETS + 3; i++)
        push(pipe, 0, i, 20);
    assert_int_equal(ft_pipe_get_stats(pipe).dropped, 3);
    for (uint32_t i = 0; i < FT_PIPE_MAX_PACKETS; i++)
        assert_int_equal(id_of(ft_pipe_pop(pipe, MS)), i);
    push(pipe, MS, 9, 20);
    assert_int_equal(ft_pipe_get_stats(pipe).dropped, 3);
    ft_pipe_destroy(pipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delay),          cmocka_unit_test(test_jitter),
        cmocka_unit_test(test_loss),           cmocka_unit_test(test_rate),
        cmocka_unit_test(test_lost_take_time), cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_reorder),        cmocka_unit_test(test_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
