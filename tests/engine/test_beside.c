// SPDX-License-Identifier: Apache-2.0
// Two engines that share the processor (base/turn.h). While one has a series of turns, a pass of
// the other is on one thread and is interrupted whenever the first wants the turn; a pass that a
// series finds on two threads is given up and computed anew. Its logits have the same bits each
// time.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine_internal.h" /* on how many threads the present pass is */
#include "support/tiny_gguf.h"

#define N_LAYER 24 /* so that a pass has many operations */
#define N_TOK   8
#define ENOUGH  20 /* interruptions */

/* Who goes first. */
typedef struct other {
    ft_turn *turn;
    const ft_engine *engine;
    bool many_series; /* a series for each turn, else one for all */
    atomic_bool ends;
    atomic_uint interrupted; /* passes that were on the way when it had the turn */
    int most_threads;        /* of these; read when it has ended */
    pthread_t thread;
} other;

static void must(ft_status status, const ft_error *err)
{
    if (status != FT_OK)
        fail_msg("%s", err->message);
}

static void have_turn(other *o)
{
    ft_turn_take(o->turn, true);
    const int n_threads = o->engine->pass_threads; /* it changes under the turn */
    if (n_threads > 0)
        atomic_fetch_add(&o->interrupted, 1);
    if (n_threads > o->most_threads)
        o->most_threads = n_threads;
    ft_turn_give_back(o->turn);
}

static void *go_first(void *arg)
{
    other *o = arg;
    if (!o->many_series)
        ft_turn_begin_series(o->turn);
    while (!atomic_load(&o->ends)) {
        if (o->many_series)
            ft_turn_begin_series(o->turn);
        have_turn(o);
        if (o->many_series)
            ft_turn_end_series(o->turn);
        usleep(20); /* so that the engine gets the turn, too */
    }
    if (!o->many_series)
        ft_turn_end_series(o->turn);
    return NULL;
}

/* Copies the logits behind a text of N_TOK tokens. */
static void forward(ft_engine *engine, uint32_t n_vocab, float *logits)
{
    const int32_t text[N_TOK] = {65, 66, 67, 68, 69, 70, 71, 72};
    const uint64_t want = 1ull << (N_TOK - 1);
    ft_error err = {0};
    ft_seq *seq;
    must(ft_seq_create(engine, &err, &seq), &err);
    ft_segment s = {.seq = seq, .tokens = text, .n = N_TOK, .want = &want};
    must(ft_engine_forward(engine, &s, 1, &err), &err);
    memcpy(logits, ft_engine_logits(engine, 0), n_vocab * sizeof *logits);
    ft_seq_destroy(seq);
}

/* The engine computes until it was interrupted often enough. Without interruptions the test runs
 * into its time limit. */
static void compute_beside(ft_engine *engine, ft_turn *turn, bool many_series, uint32_t n_vocab)
{
    other o = {.turn = turn, .engine = engine, .many_series = many_series};
    float *want = malloc(2 * n_vocab * sizeof *want), *got = want + n_vocab;
    forward(engine, n_vocab, want);
    assert_int_equal(pthread_create(&o.thread, NULL, go_first, &o), 0);
    while (atomic_load(&o.interrupted) < ENOUGH) {
        forward(engine, n_vocab, got);
        assert_memory_equal(got, want, n_vocab * sizeof *got);
    }
    atomic_store(&o.ends, true);
    pthread_join(o.thread, NULL);
    assert_int_equal(o.most_threads, 1);
    free(want);
}

static void test_interrupted(void **state)
{
    char *path = tiny_gguf_temp(&(tiny_gguf_opts){.n_layer = N_LAYER});
    const ft_model_opts model_opts = {.path = path};
    ft_error err = {0};
    ft_model *model;
    ft_engine *engine;
    ft_turn turn;
    (void)state;
    ft_turn_init(&turn);
    must(ft_model_load(&model_opts, &err, &model), &err);
    const ft_engine_opts opts = {
        .model = model, .kv_tok = 256, .max_batch_tok = 64, .n_threads = 2, .turn = &turn};
    must(ft_engine_create(&opts, &err, &engine), &err);
    compute_beside(engine, &turn, false, ft_model_hparams(model)->n_vocab);
    compute_beside(engine, &turn, true, ft_model_hparams(model)->n_vocab);
    ft_engine_destroy(engine);
    ft_model_destroy(model);
    ft_turn_deinit(&turn);
    unlink(path);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_interrupted)};
    tiny_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
