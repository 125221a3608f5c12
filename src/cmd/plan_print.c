// SPDX-License-Identifier: Apache-2.0
// Tables and JSON of plans, as `foretoken plan` and `foretoken batch --dry-run` print them.
#include "cmd/plan_print.h"

#include <stdio.h>

static json_t *batch_json(const ft_plan_view *v, const ft_plan_batch *b)
{
    json_t *tasks = json_array();
    for (uint32_t i = 0; i < b->shape.n; i++)
        json_array_append_new(tasks, json_string(v->tasks[v->plan->order[b->first + i]].id));
    return json_pack("{s:o, s:i, s:i, s:i, s:f, s:f, s:f}", "tasks", tasks, "input",
                     (int)b->shape.in_max, "output", (int)b->shape.out_max, "rounds",
                     (int)b->rounds, "draft_s", b->draft_s, "verify_s", b->verify_s, "end_s",
                     b->end_s);
}

json_t *ft_plan_view_json(const ft_plan_view *v, const char *command)
{
    const ft_batch_plan *p = v->plan;
    json_t *batches = json_array();
    for (uint32_t i = 0; i < p->n_batches; i++)
        json_array_append_new(batches, batch_json(v, &p->batches[i]));
    return json_pack("{s:s, s:s, s:i, s:f, s:o, s:f, s:f}", "command", command, "algorithm",
                     v->algorithm, "length", (int)p->length, "tokens_per_round",
                     p->tokens_per_round, "batches", batches, "t_inf_s", p->inf_s, "total_s",
                     p->total_s);
}

static void print_task(const ft_plan_view *v, uint32_t batch, uint32_t task)
{
    const ft_plan_task *t = &v->tasks[task];
    printf("%5u %7u %7u ", batch + 1, t->in_tok, t->out_tok);
    if (v->uplink)
        printf("%9.3f ", 100 * v->plan->share[task]);
    printf("%10.3f  %s\n", v->plan->end_s[task], t->id);
}

void ft_plan_view_print(const ft_plan_view *v)
{
    const ft_batch_plan *p = v->plan;
    printf("%u tasks in %u batches; %u tokens drafted a round, which brings %.2f\n", v->n,
           p->n_batches, p->length, p->tokens_per_round);
    if (v->uplink)
        printf("%.3f s = %.3f s until all inputs are there + %.3f s of inference (algorithm %s)\n",
               p->total_s, p->com_s, p->inf_s, v->algorithm);
    else
        printf("%.3f s (algorithm %s)\n", p->total_s, v->algorithm);
    printf("\n%5s %6s %7s %7s %7s %10s %10s %10s\n", "batch", "tasks", "input", "output", "rounds",
           "draft s", "verify s", "ends at s");
    for (uint32_t i = 0; i < p->n_batches; i++) {
        const ft_plan_batch *b = &p->batches[i];
        printf("%5u %6u %7u %7u %7u %10.3f %10.3f %10.3f\n", i + 1, b->shape.n, b->shape.in_max,
               b->shape.out_max, b->rounds, b->draft_s, b->verify_s, b->end_s);
    }
    printf("\n%5s %7s %7s ", "batch", "input", "output");
    if (v->uplink)
        printf("%9s ", "uplink %");
    printf("%10s  %s\n", "ends at s", "task");
    for (uint32_t i = 0; i < p->n_batches; i++)
        for (uint32_t k = 0; k < p->batches[i].shape.n; k++)
            print_task(v, i, p->order[p->batches[i].first + k]);
}
