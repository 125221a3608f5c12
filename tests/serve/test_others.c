// SPDX-License-Identifier: Apache-2.0
// What sessions have of each other: the time that the engine worked for others, as verdicts tell
// it, and the groups in which they alternate. Two sessions think between a verdict and their next
// draft, on a clock whose time is the verifier's work and, while that has none, the edges'
// thinking.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/gate.h"
#include "support/local_client.h"
#include "support/target.h"

#define SESSIONS 2
#define VERDICTS 24

typedef struct world world;

typedef struct thinker {
    world *world;
    local_client c;
    test_text text;
    test_edge edge;
    int64_t due_us; /* its next draft; 0: sent, or nothing more to send */
} thinker;

struct world {
    test_work_clock work;
    _Atomic int64_t thought_us; /* time that passed without work */
    ft_clock clock;
    ft_verifier *v;
    int64_t think_us;
    thinker all[SESSIONS];
    pthread_mutex_t lock; /* guards what follows, and the thinkers */
    pthread_cond_t changed;
    uint32_t outstanding; /* drafts */
    uint32_t ended;       /* texts */
    uint32_t n_verdicts;
    uint32_t least_us[SESSIONS], most_us[SESSIONS]; /* others_us of their verdicts */
};

static int64_t world_us(void *ctx)
{
    world *w = ctx;
    ft_clock work = test_work_clock_of(&w->work);
    return work.now_us(work.ctx) + atomic_load(&w->thought_us);
}

/* Sends what is due. Under the lock. */
static void send_due(world *w)
{
    for (uint32_t i = 0; i < SESSIONS; i++) {
        thinker *t = &w->all[i];
        if (t->due_us == 0 || t->due_us > world_us(w))
            continue;
        t->due_us = 0;
        w->outstanding++;
        test_draft(&t->c.draft, &t->edge, &t->text);
        local_send(t->c.session, &t->c.draft);
    }
}

static void on_part(local_client *c, const ft_msg_verdict *verdict)
{
    thinker *t = c->user;
    world *w = t->world;
    const size_t i = (size_t)(t - w->all);
    pthread_mutex_lock(&w->lock);
    w->n_verdicts++;
    if (verdict->round > 1 && verdict->others_us < w->least_us[i])
        w->least_us[i] = verdict->others_us;
    if (verdict->others_us > w->most_us[i])
        w->most_us[i] = verdict->others_us;
    assert_true(test_apply(&t->text, &c->draft, verdict));
    w->ended += t->text.finish != FT_FINISH_NONE;
    if (t->text.finish == FT_FINISH_NONE && w->n_verdicts < VERDICTS)
        t->due_us = world_us(w) + w->think_us;
    send_due(w);
    w->outstanding--;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

/* Lets time pass until somebody has thought enough. False: nobody thinks. */
static bool think(world *w)
{
    int64_t next_us = INT64_MAX;
    for (uint32_t i = 0; i < SESSIONS; i++)
        if (w->all[i].due_us > 0 && w->all[i].due_us < next_us)
            next_us = w->all[i].due_us;
    if (next_us == INT64_MAX)
        return false;
    atomic_fetch_add(&w->thought_us, next_us - world_us(w));
    send_due(w);
    return true;
}

static void live(world *w)
{
    bool alive = true;
    test_gate gate;
    pthread_mutex_lock(&w->lock);
    while (alive) {
        while (w->outstanding > 0)
            pthread_cond_wait(&w->changed, &w->lock);
        test_gate_shut(&gate, w->v); /* no time passes while several send */
        alive = think(w);
        test_gate_open(&gate);
    }
    pthread_mutex_unlock(&w->lock);
}

/* Prompts whose texts do not end during the test. */
static test_text prompt[SESSIONS];

static int setup(void **state)
{
    (void)test_target_setup(state);
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    test_text *text = malloc(sizeof *text);
    uint64_t seed = 0;
    for (uint32_t i = 0; i < SESSIONS; i++)
        do {
            test_text_random(text, 10, ++seed);
            prompt[i] = *text;
            ft_msg_open open = local_open_msg(text, 0, 0, 2 * VERDICTS);
            test_edge edge = test_edge_make(TEST_DRAFT_NONE, NULL, target.n_vocab, 0);
            local_generate(v, &open, &edge, text);
        } while (text->finish != FT_FINISH_LENGTH);
    free(text);
    ft_verifier_destroy(v);
    return 0;
}

#define PASS_US  1000
#define THINK_US 1500

/* Two sessions live; the second one's first draft comes so much later than the first one's. */
static world *lived(int64_t later_us)
{
    world *w = calloc(1, sizeof *w);
    w->work = (test_work_clock){.pass_us = PASS_US};
    w->think_us = THINK_US;
    w->clock = (ft_clock){.now_us = world_us, .ctx = w};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->v = test_verifier_start((ft_verifier_opts){.clock = w->clock, .max_context = 1000});
    w->work.verifier = w->v;
    for (uint32_t i = 0; i < SESSIONS; i++) {
        thinker *t = &w->all[i];
        t->world = w;
        t->text = prompt[i];
        t->edge = test_edge_make(TEST_DRAFT_WRONG, NULL, target.n_vocab, i);
        ft_msg_open open = local_open_msg(&t->text, 0, 0, 0);
        local_open(&t->c, w->v, &open, "me");
        local_wait_opened(&t->c);
        t->c.on_part = on_part;
        t->c.user = t;
        t->due_us = 1 + i * later_us;
        w->least_us[i] = UINT32_MAX;
    }
    live(w);
    assert_int_equal(w->ended, 0);
    assert_true(w->n_verdicts >= VERDICTS);
    return w;
}

static void end(world *w)
{
    for (uint32_t i = 0; i < SESSIONS; i++)
        local_close(&w->all[i].c);
    test_verifier_expect_empty(w->v);
    ft_verifier_destroy(w->v);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* The second one's drafts come during the first one's passes. */
static void test_others_us(void **state)
{
    (void)state;
    world *w = lived(PASS_US / 2);
    /* The first one's verdicts come when the second one's draft is there; then both think. The
     * engine may notice only when the next draft comes that it has nothing to do. */
    assert_in_range(w->least_us[0], PASS_US, THINK_US);
    assert_in_range(w->most_us[0], PASS_US, THINK_US);
    assert_in_range(w->most_us[1], 0, THINK_US);
    end(w);
}

/* Both begin at once. One pass is split, and they stay apart: behind a session's verdict the engine
 * works for the other one. */
static void test_groups_form(void **state)
{
    (void)state;
    world *w = lived(0);
    assert_int_equal(test_verifier_stats(w->v).passes_split, 1);
    assert_true(w->least_us[0] > 0 || w->least_us[1] > 0);
    end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_us),
        cmocka_unit_test(test_groups_form),
    };
    return cmocka_run_group_tests(tests, setup, test_target_teardown);
}
