// SPDX-License-Identifier: Apache-2.0
// Double DQN. The network that is trained says which action of the next state is best; a copy of it
// that is older says what that action is worth. So a value that is too high by chance is not chosen
// for being too high. Experiences lie in a ring and are drawn from it evenly.
#include "learn/dqn.h"

#include <stdlib.h>
#include <string.h>

#include "learn/mlp_adam.h"

#define RATE_LAST  0.01f /* of the learning rate, at the end */
#define SLOPE_MOST 1.0f  /* of one experience's loss: Huber's, so that a rare one tears nothing */

typedef struct memory {
    uint32_t n_in, cap, n, at; /* n are there; the next one goes to `at` */
    float *state, *next;       /* [cap, n_in] */
    float *reward, *discount;  /* [cap] */
    uint32_t *action;          /* [cap] */
} memory;

typedef struct trainer {
    const ft_dqn_opts *opts;
    const ft_dqn_world *world;
    ft_rng rng;
    ft_mlp_adam adam;
    ft_mlp older;
    memory kept;
    float *state; /* [n_in] the present one */
} trainer;

static uint32_t n_actions(const trainer *t)
{
    return t->older.shape.width[t->older.shape.n_layers];
}

static ft_status memory_init(memory *m, uint32_t cap, uint32_t n_in, ft_error *err)
{
    *m = (memory){.n_in = n_in, .cap = cap};
    m->state = malloc(2 * (size_t)cap * n_in * sizeof *m->state);
    m->reward = malloc(2 * (size_t)cap * sizeof *m->reward);
    m->action = malloc(cap * sizeof *m->action);
    if (!m->state || !m->reward || !m->action)
        return ft_error_set(err, FT_NOMEM, "dqn: out of memory");
    m->next = m->state + (size_t)cap * n_in;
    m->discount = m->reward + cap;
    return FT_OK;
}

static void memory_deinit(memory *m)
{
    free(m->state);
    free(m->reward);
    free(m->action);
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
    float value[FT_MLP_WIDTH];
    const size_t row = (size_t)m->at * m->n_in;
    uint32_t action = ft_rng_below(&t->rng, n_actions(t));
    if (ft_rng_unit(&t->rng) >= (double)explore) {
        ft_mlp_run(t->adam.net, t->state, 1, value);
        action = best_of(value, n_actions(t));
    }
    memcpy(m->state + row, t->state, m->n_in * sizeof *t->state);
    m->action[m->at] = action;
    t->world->act(t->world->ctx, action, &m->reward[m->at], &m->discount[m->at]);
    t->world->see(t->world->ctx, t->state);
    memcpy(m->next + row, t->state, m->n_in * sizeof *t->state);
    m->at = (m->at + 1) % m->cap;
    m->n += m->n < m->cap;
}

/* ---- learning ---- */

static float target_of(const trainer *t, uint32_t i)
{
    const memory *m = &t->kept;
    const float *next = m->next + (size_t)i * m->n_in;
    float value[FT_MLP_WIDTH];
    if (m->discount[i] <= 0)
        return m->reward[i];
    ft_mlp_run(t->adam.net, next, 1, value);
    const uint32_t best = best_of(value, n_actions(t));
    ft_mlp_run(&t->older, next, 1, value);
    return m->reward[i] + m->discount[i] * value[best];
}

static void learn_once(trainer *t, float rate)
{
    const memory *m = &t->kept;
    float value[FT_MLP_WIDTH], slope[FT_MLP_WIDTH];
    for (uint32_t b = 0; b < t->opts->batch; b++) {
        const uint32_t i = ft_rng_below(&t->rng, m->n);
        const float target = target_of(t, i);
        ft_mlp_adam_run(&t->adam, m->state + (size_t)i * m->n_in, value);
        float error = value[m->action[i]] - target;
        error = error > SLOPE_MOST ? SLOPE_MOST : error < -SLOPE_MOST ? -SLOPE_MOST : error;
        memset(slope, 0, n_actions(t) * sizeof *slope);
        slope[m->action[i]] = error / (float)t->opts->batch;
        ft_mlp_adam_back(&t->adam, slope);
    }
    ft_mlp_adam_step(&t->adam, rate);
}

static void train(trainer *t)
{
    const ft_dqn_opts *o = t->opts;
    t->world->see(t->world->ctx, t->state);
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
        status = memory_init(&t.kept, opts->memory, net->shape.width[0], err);
    if (status == FT_OK && !(t.state = malloc(net->shape.width[0] * sizeof *t.state)))
        status = ft_error_set(err, FT_NOMEM, "dqn: out of memory");
    if (status == FT_OK) {
        copy_weights(net, &t.older);
        train(&t);
    }
    free(t.state);
    memory_deinit(&t.kept);
    ft_mlp_adam_deinit(&t.adam);
    ft_mlp_deinit(&t.older);
    return status;
}
