// SPDX-License-Identifier: Apache-2.0
// A person's scenario of foretoken plan. Whatever is taken must be in range, and its plan, if it
// has few tasks, must be one that keeps the rules.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plan/scenario.h"

#define TASKS_PLANNED 6 /* more take too long */

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_tasks(const ft_plan_scenario *s)
{
    require(s->n >= 1 && s->n <= FT_PLAN_TASKS_MAX && s->length_least <= s->length_most &&
            s->length_most <= FT_PLAN_LENGTH_MAX && s->acceptance >= 0 && s->acceptance <= 1);
    for (uint32_t k = 0; k < s->n; k++) {
        const ft_plan_task *t = &s->tasks[k];
        require(t->id == s->ids[k] && *t->id && strlen(t->id) <= FT_PLAN_ID_MAX);
        require(t->in_tok >= 1 && t->out_tok >= 1 && t->rate_bits_s >= 1e-9 &&
                isfinite(t->payload_bits) && t->release_s >= 0);
        for (uint32_t other = 0; other < k && s->n <= TASKS_PLANNED; other++)
            require(strcmp(t->id, s->ids[other]) != 0);
    }
}

static void check_plan(const ft_plan_problem *p, const ft_batch_plan *plan)
{
    uint32_t n = 0;
    double share = 0;
    for (uint32_t i = 0; i < plan->n_batches; i++)
        n += plan->batches[i].shape.n;
    for (uint32_t k = 0; k < p->n; k++) {
        share += plan->share[k];
        require(plan->end_s[k] >= plan->com_s && plan->end_s[k] <= plan->total_s * (1 + 1e-9));
    }
    require(n == p->n && fabs(share - 1) < 1e-9 && isfinite(plan->total_s));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *text = malloc(n + 1);
    ft_plan_scenario s;
    ft_batch_plan plan;
    ft_error err = {0};
    require(text != NULL);
    if (n > 0)
        memcpy(text, data, n);
    text[n] = 0;
    const ft_status status = ft_plan_scenario_parse(text, n, &err, &s);
    free(text);
    if (status != FT_OK) {
        require(err.message[0] != 0 && !strchr(err.message, '\n'));
        return 0;
    }
    check_tasks(&s);
    ft_plan_problem p = ft_plan_scenario_problem(&s);
    p.n = p.n < TASKS_PLANNED ? p.n : TASKS_PLANNED;
    if (p.length_most > p.length_least + 1)
        p.length_most = p.length_least + 1;
    for (uint32_t k = 0; k < p.n; k++)
        if (s.tasks[k].out_tok > 10000)
            s.tasks[k].out_tok = 10000; /* the trace of a plan goes through all rounds */
    if (ft_batch_plan_make(&p, FT_PLAN_BEST, NULL, &err, &plan) == FT_OK)
        check_plan(&p, &plan);
    else
        require(err.message[0] != 0);
    ft_batch_plan_deinit(&plan);
    ft_plan_scenario_deinit(&s);
    return 0;
}
