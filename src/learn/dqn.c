// SPDX-License-Identifier: Apache-2.0
// Double DQN. The network that is trained says which action of the next state is best; a copy of it
// that is older says what that action is worth. So a value that is too high by chance is not chosen
// for being too high. Experiences lie in a ring and are drawn from it evenly.
#include "learn/dqn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "learn/mlp_adam.h"

#define RATE_LAST  0.01f /* of the learning rate, at the end */
#define SLOPE_MOST 1.0f  /* of an action's loss: Huber's, so that a rare one tears nothing */
/* States worth less than this count less. It only keeps a worth of 0 from being divided by. */
#define WORTH_LEAST 0.1f

typedef struct memory {
    uint32_t n_in, n_out, cap, n, at; /* n are there; the next one goes to `at` */
    float *state;                     /* [cap, n_in] */
    float *next;                      /* [cap, n_out, n_in] */
    float *reward, *discount;         /* [cap, n_out] */
} memory;

typedef struct trainer {
    const ft_dqn_opts *opts;
    const ft_dqn_world *world;
    ft_rng rng;
    ft_mlp_adam adam;
    ft_mlp older;
    memory kept;
} trainer;

static ft_status memory_init(memory *m, const ft_mlp_shape *shape, uint32_t cap, ft_error *err)
{
    const size_t n_in = shape->width[0], n_out = shape->width[shape->n_layers];
    *m = (memory){.n_in = (uint32_t)n_in, .n_out = (uint32_t)n_out, .cap = cap};
    m->state = malloc(cap * n_in * sizeof *m->state);
    m->next = malloc(cap * n_out * n_in * sizeof *m->next);
    m->reward = malloc(2 * cap * n_out * sizeof *m->reward);
    if (!m->state || !m->next || !m->reward)
        return ft_error_set(err, FT_NOMEM, "dqn: out of memory");
    m->discount = m->reward + cap * n_out;
    return FT_OK;
}

static void memory_deinit(memory *m)
{
    free(m->state);
    free(m->next);
    free(m->reward);
}

static uint32_t best_of(const float *value, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (value[i] > value[best])
            best = i;
    return best;
}

static void copy_weights(const ft_mlp *from, ft_mlp *to)
{
    memcpy(to->weight[0], from->weight[0], ft_mlp_n_params(&from->shape) * sizeof(float));
}

/* ---- trying ---- */

static void act_once(trainer *t, float explore)
{
    memory *m = &t->kept;
    float value[FT_MLP_WIDTH], *state = m->state + (size_t)m->at * m->n_in;
    const size_t row = (size_t)m->at * m->n_out;
    uint32_t action = ft_rng_below(&t->rng, m->n_out);
    t->world->see(t->world->ctx, state);
    t->world->look(t->world->ctx, m->reward + row, m->discount + row, m->next + row * m->n_in);
    if (ft_rng_unit(&t->rng) >= (double)explore) {
        ft_mlp_run(t->adam.net, state, 1, value);
        action = best_of(value, m->n_out);
    }
    t->world->act(t->world->ctx, action);
    m->at = (m->at + 1) % m->cap;
    m->n += m->n < m->cap;
}

/* ---- learning ---- */

/* Of an action in a state that is remembered; row: of both. */
static float target_of(const trainer *t, size_t row)
{
    const memory *m = &t->kept;
    const float *next = m->next + row * m->n_in;
    float value[FT_MLP_WIDTH];
    if (m->discount[row] <= 0)
        return m->reward[row];
    ft_mlp_run(t->adam.net, next, 1, value);
    const uint32_t best = best_of(value, m->n_out);
    ft_mlp_run(&t->older, next, 1, value);
    return m->reward[row] + m->discount[row] * value[best];
}

/* The loss of a state is that of relative errors: what is best where little can be reached counts
 * as much as where much can. */
static void learn_state(trainer *t, uint32_t i)
{
    const memory *m = &t->kept;
    float value[FT_MLP_WIDTH], target[FT_MLP_WIDTH], slope[FT_MLP_WIDTH], most = WORTH_LEAST;
    for (uint32_t a = 0; a < m->n_out; a++) {
        target[a] = target_of(t, (size_t)i * m->n_out + a);
        most = fmaxf(most, fabsf(target[a]));
    }
    ft_mlp_adam_run(&t->adam, m->state + (size_t)i * m->n_in, value);
    for (uint32_t a = 0; a < m->n_out; a++) {
        const float error = (value[a] - target[a]) / most;
        slope[a] = fmaxf(-SLOPE_MOST, fminf(SLOPE_MOST, error)) / most / (float)t->opts->batch;
    }
    ft_mlp_adam_back(&t->adam, slope);
}

static void learn_once(trainer *t, float rate)
{
    for (uint32_t b = 0; b < t->opts->batch; b++)
        learn_state(t, ft_rng_below(&t->rng, t->kept.n));
    ft_mlp_adam_step(&t->adam, rate);
}

static void train(trainer *t)
{
    const ft_dqn_opts *o = t->opts;
    while (t->kept.n < o->batch)
        act_once(t, 1);
    for (uint32_t step = 1; step <= o->steps; step++) {
        const float done = (float)step / (float)o->steps;
        const float explore = done < 0.5f ? 1 - (1 - o->explore_last) * 2 * done : o->explore_last;
        for (uint32_t i = 0; i < o->acts; i++)
            act_once(t, explore);
        learn_once(t, o->rate * (1 - (1 - RATE_LAST) * done));
        if (step % o->target_every == 0)
            copy_weights(t->adam.net, &t->older);
        if ((step % o->check_every == 0 || step == o->steps) && t->world->check &&
            !t->world->check(t->world->ctx, step, t->adam.net))
            return;
    }
}

ft_status ft_dqn_train(const ft_dqn_opts *opts, const ft_dqn_world *world, const uint8_t *mask,
                       ft_error *err, ft_mlp *net)
{
    trainer t = {.opts = opts, .world = world};
    if (opts->steps < 1 || opts->batch < 1 || opts->memory < opts->batch || opts->acts < 1 ||
        opts->target_every < 1 || opts->check_every < 1)
        return ft_error_set(err, FT_INVALID, "dqn: a number of its options is too small");
    ft_rng_init(&t.rng, opts->seed);
    ft_status status = ft_mlp_init(&net->shape, err, &t.older);
    if (status == FT_OK)
        status = ft_mlp_adam_init(net, mask, &t.rng, err, &t.adam);
    if (status == FT_OK)
        status = memory_init(&t.kept, &net->shape, opts->memory, err);
    if (status == FT_OK) {
        copy_weights(net, &t.older);
        train(&t);
    }
    memory_deinit(&t.kept);
    ft_mlp_adam_deinit(&t.adam);
    ft_mlp_deinit(&t.older);
    return status;
}
