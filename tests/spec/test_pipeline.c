// SPDX-License-Identifier: Apache-2.0
// Depth rule pipeline for sessions that share an engine, each in a pass of its own, first come
// first served: how long the engine waits, and how long drafts wait, if each session drafts until
// the others are done.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/num.h"
#include "base/rng.h"
#include "spec/control.h"

#define VERIFY_US  94000
#define FORWARD_US 11000
#define RTT_US     15000
#define SESSIONS   2
#define DEPTH      7

typedef struct session {
    ft_control control;
    int64_t arrives_us, sent_us, mark_us; /* mark 0: not known */
    int64_t answered_us, free_us;         /* as serve/verdict.c has them */
    uint32_t depth;
} session;

typedef struct engine {
    session session[SESSIONS];
    uint32_t n; /* sessions that take part */
    ft_rng rng;
    double jitter; /* of verifications and the network */
    int64_t free_us, idle_us, queue_us;
    uint32_t passes;
} engine;

static int64_t noisy(engine *e, int64_t us)
{
    return (int64_t)((double)us * (1 + e->jitter * (2 * ft_rng_unit(&e->rng) - 1)));
}

/* After a verdict that reached the edge at `at`. At most 7 forwards, which with the network fill a
 * verification. */
static void draft(engine *e, session *s, int64_t at)
{
    const int64_t spent_us = s->mark_us > 0 ? at - s->mark_us : 0;
    s->depth = ft_control_depth_at(&s->control, 32, DEPTH, spent_us);
    s->sent_us = at + (int64_t)s->depth * FORWARD_US;
    s->arrives_us = s->sent_us + noisy(e, RTT_US / 2);
}

/* The next pass. */
static void pass(engine *e)
{
    session *s = &e->session[0];
    for (uint32_t i = 1; i < e->n; i++)
        s = e->session[i].arrives_us < s->arrives_us ? &e->session[i] : s;
    int64_t begins_us = s->arrives_us > e->free_us ? s->arrives_us : e->free_us;
    int64_t queue_us = begins_us - s->arrives_us, verify_us = noisy(e, VERIFY_US);
    for (uint32_t i = 0; i < e->n && begins_us > e->free_us; i++)
        if (e->session[i].free_us == 0)
            e->session[i].free_us = e->free_us;
    int64_t others_us = (s->free_us ? s->free_us : begins_us) - s->answered_us;
    e->idle_us += begins_us - e->free_us;
    e->queue_us += queue_us;
    e->passes++;
    e->free_us = begins_us + verify_us;
    const ft_control_round round = {.nodes = 32,
                                    .depth = s->depth,
                                    .verify_us = verify_us,
                                    .queue_us = queue_us,
                                    .rtt_us = RTT_US,
                                    .others_us = s->mark_us > 0 ? others_us : 0};
    ft_control_saw_round(&s->control, &round);
    s->answered_us = e->free_us;
    s->free_us = 0;
    s->mark_us = s->sent_us + queue_us + verify_us;
    draft(e, s, e->free_us + noisy(e, RTT_US / 2));
}

static void engine_init(engine *e, double jitter)
{
    *e = (engine){.n = SESSIONS, .jitter = jitter};
    ft_rng_init(&e->rng, 5);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        const ft_control_opts opts = {.max_budget = 32, .max_depth = DEPTH, .max_width = 8};
        ft_control_init(&e->session[i].control, &opts);
        ft_control_expect_draft(&e->session[i].control, FORWARD_US);
        draft(e, &e->session[i], (int64_t)i * 1000);
    }
}

static void passes(engine *e, uint32_t n)
{
    e->idle_us = e->queue_us = e->passes = 0;
    while (e->passes < n)
        pass(e);
}

/* Seven forwards and the network take a little less than a verification where nothing is ever late,
 * and the engine waits whenever something is. */
static void test_engine_does_not_wait(void **state)
{
    static const double jitters[] = {0, 0.02, 0.05};
    (void)state;
    for (size_t i = 0; i < sizeof jitters / sizeof *jitters; i++) {
        engine e;
        engine_init(&e, jitters[i]);
        passes(&e, 40);
        passes(&e, 1000);
        assert_in_range(e.idle_us, 0, VERIFY_US * 1000 / 100);
        /* ...and not because all stopped drafting long before */
        assert_in_range(e.queue_us / 1000, 1, 2 * FORWARD_US);
    }
}

/* A session that is left alone drafts as deep as a verification lasts. When others come again, it
 * alternates with them again. */
static void test_others_leave_and_come(void **state)
{
    engine e;
    (void)state;
    engine_init(&e, 0.02);
    passes(&e, 100);
    assert_true(e.session[0].control.others_us > 0);
    e.n = 1;
    passes(&e, 20);
    assert_true(e.session[0].control.others_us == 0);
    assert_int_equal(e.session[0].depth, 7);
    e.n = 2;
    e.session[1].mark_us = 0;
    e.session[1].arrives_us = e.free_us;
    passes(&e, 60);
    passes(&e, 300);
    assert_in_range(e.idle_us, 0, VERIFY_US * 300 / 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engine_does_not_wait),
        cmocka_unit_test(test_others_leave_and_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
