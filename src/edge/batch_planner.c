// SPDX-License-Identifier: Apache-2.0
// Makes problems of tasks, and batches of their plans. The caller's thread owns it.
#include "edge/batch_planner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "edge/stage_costs.h"
#include "plan/baselines.h"

#define STATIC_TASKS 8  /* of a batch of STATIC, unless the caller says how many */
#define TRIAL_TASKS  16 /* of a batch of a trial at most: a plan's batches are seldom larger */

#define X(id, name) [FT_BATCH_##id] = name,
const char *const ft_batch_algorithm_name[FT_BATCH_ALGORITHMS + 1] = {FT_BATCH_ALGORITHM_LIST(X)};
#undef X

static ft_status no_memory(ft_error *err)
{
    return ft_error_set(err, FT_NOMEM, "batch: out of memory");
}

ft_status ft_batch_planner_init(ft_batch_planner *p, const ft_batch_planner_opts *opts,
                                ft_batch_known *known, ft_error *err)
{
    const size_t n = opts->tasks->n;
    *p = (ft_batch_planner){.how = *opts,
                            .known = known,
                            .size = calloc(n, sizeof *p->size),
                            .task = calloc(n, sizeof *p->task),
                            .problem = calloc(n, sizeof *p->problem)};
    if (p->size && p->task && p->problem)
        return FT_OK;
    ft_batch_planner_deinit(p);
    return no_memory(err);
}

void ft_batch_planner_deinit(ft_batch_planner *p)
{
    free(p->size);
    free(p->task);
    free(p->problem);
    *p = (ft_batch_planner){0};
}

bool ft_batch_planner_knows(const ft_batch_planner *p)
{
    return p->known->costs_known[FT_STATION_VERIFY] &&
           (p->how.length_most == 0 || p->known->costs_known[FT_STATION_DRAFT]);
}

uint32_t ft_batch_trial_length(const ft_batch_planner_opts *opts, uint32_t round)
{
    static const uint32_t length[FT_BATCH_TRIAL_ROUNDS] = {2, 1, 4, 8};
    const uint32_t least = opts->length_most > 0 ? ft_max_u32(opts->length_least, 1) : 0;
    return ft_min_u32(ft_max_u32(length[round % FT_BATCH_TRIAL_ROUNDS], least), opts->length_most);
}

/* ---- the problem ---- */

/* Tokens that the task's answer brings yet. */
static uint32_t expected(const ft_batch_planner *p, const ft_batch_left *left)
{
    const ft_task *task = &p->how.tasks->task[left->task];
    uint32_t most = task->max_tokens;
    if (p->how.answer_tok)
        most = p->how.answer_tok[left->task];
    else if (most == 0)
        most = p->how.context > task->tokens.n ? p->how.context - (uint32_t)task->tokens.n : 1;
    most = most > left->tokens ? most - left->tokens : 1;
    if (!p->how.answer_tok)
        most = (uint32_t)lround(ft_batch_known_tokens(p->known, most));
    return ft_min_u32(ft_max_u32(most, 1), FT_PLAN_TOK_MAX);
}

/* Batches are under way side by side. If not all tasks can be, there should be room for two
 * batches. */
static uint32_t batch_most(const ft_batch_planner *p, size_t n)
{
    uint32_t most = ft_min_u32(p->how.at_once, FT_BATCH_TASKS_MAX);
    if (n > p->how.at_once && !p->how.one_at_a_time)
        most = ft_max_u32(most / 2, 1);
    return p->how.batch_most > 0 ? ft_min_u32(most, p->how.batch_most) : most;
}

static ft_plan_memory memory_of(const ft_batch_planner *p, ft_station station, uint64_t all_tok)
{
    const uint64_t kv = p->how.kv_tok[station];
    ft_plan_memory m = {.token_bytes = 1};
    if (kv > 0 && all_tok > kv) /* as above */
        m.most_bytes = (double)(p->how.one_at_a_time ? kv : kv / 2);
    return m;
}

/* A task that has no room beside others is a batch of its own, so it must fit. */
static void make_room(ft_plan_memory *m, uint64_t longest_tok)
{
    if (m->most_bytes > 0)
        m->most_bytes = fmax(m->most_bytes, (double)longest_tok);
}

static ft_plan_problem problem_of(const ft_batch_planner *p, const ft_batch_left *left, size_t n,
                                  ft_stage_costs *times)
{
    uint64_t sum = 0, longest = 0;
    double in_tok = 0, read_tok = 0;
    for (size_t i = 0; i < n; i++) {
        const ft_task *task = &p->how.tasks->task[left[i].task];
        const uint32_t in = (uint32_t)task->tokens.n + left[i].tokens;
        const uint32_t out = expected(p, &left[i]);
        p->problem[i] = (ft_plan_task){.id = task->id,
                                       .in_tok = ft_min_u32(ft_max_u32(in, 1), FT_PLAN_TOK_MAX),
                                       .out_tok = out,
                                       .rate_bits_s = 1};
        sum += (uint64_t)in + out;
        longest = (uint64_t)in + out > longest ? (uint64_t)in + out : longest;
        in_tok += in;
        read_tok += left[i].open ? in : 0;
    }
    *times = (ft_stage_costs){.draft = p->known->cost[FT_STATION_DRAFT].us,
                              .verify = p->known->cost[FT_STATION_VERIFY].us,
                              .draft_read_us = ft_batch_known_read_us(p->known, FT_STATION_DRAFT),
                              .verify_read_us = ft_batch_known_read_us(p->known, FT_STATION_VERIFY),
                              .read = in_tok > 0 ? read_tok / in_tok : 0};
    ft_plan_problem out = {.tasks = p->problem,
                           .n = (uint32_t)n,
                           .acceptance = ft_batch_known_acceptance(p->known),
                           .length_least = p->how.length_least,
                           .length_most = p->how.length_most,
                           .batch_most = batch_most(p, n),
                           .times = ft_stage_costs_times,
                           .times_ctx = times,
                           .draft = memory_of(p, FT_STATION_DRAFT, sum),
                           .verify = memory_of(p, FT_STATION_VERIFY, sum),
                           .flow = p->how.sequence ? FT_PLAN_SEQUENCE : FT_PLAN_ROLLING,
                           .delay_s = p->known->trip_s,
                           .leave = true};
    make_room(&out.draft, longest);
    make_room(&out.verify, longest);
    return out;
}

/* ---- plans ---- */

static ft_status make_by(const ft_batch_planner *p, const ft_plan_problem *problem, ft_error *err,
                         ft_batch_plan *plan)
{
    if (p->how.algorithm == FT_BATCH_STATIC) {
        const ft_plan_baseline_opts opts = {.static_size = p->how.batch_most > 0 ? p->how.batch_most
                                                                                 : STATIC_TASKS};
        return ft_plan_baseline_make(problem, FT_PLAN_STATIC, &opts, err, plan);
    }
    const ft_plan_algorithm algorithm =
        p->how.algorithm == FT_BATCH_PAPER ? FT_PLAN_PAPER : FT_PLAN_BEST;
    return ft_batch_plan_make(problem, algorithm, &p->how.watch, err, plan);
}

/* Without drafts the server decodes all texts in its passes, whatever batches the edge has: one
 * batch, or as many as can be under way. */
static ft_status make_undrafted(const ft_batch_planner *p, const ft_plan_problem *problem,
                                ft_error *err, ft_batch_plan *plan)
{
    ft_plan_given given = {.sizes = p->size, .order = p->task};
    for (uint32_t i = 0; i < problem->n; i++)
        p->task[i] = i;
    for (uint32_t left = problem->n; left > 0; left -= p->size[given.n_batches++])
        p->size[given.n_batches] = ft_min_u32(left, p->how.at_once);
    return ft_batch_plan_given(problem, &given, err, plan);
}

/* The same batches, one at a time. */
static ft_status in_sequence(const ft_batch_planner *p, const ft_plan_problem *problem,
                             ft_error *err, ft_batch_plan *plan)
{
    const ft_plan_given given = {plan->length, plan->n_batches, p->size, plan->order};
    ft_plan_problem sequence = *problem;
    ft_batch_plan out;
    sequence.flow = FT_PLAN_SEQUENCE;
    for (uint32_t i = 0; i < plan->n_batches; i++)
        p->size[i] = plan->batches[i].shape.n;
    const ft_status status = ft_batch_plan_given(&sequence, &given, err, &out);
    if (status == FT_OK) {
        ft_batch_plan_deinit(plan);
        *plan = out;
    }
    return status;
}

/* The least that a plan with drafts can take: verifications alone, of all tasks in one batch.
 * Several batches have more passes, each with the cost of a pass without rows. Uses p->task and
 * p->size. */
static ft_status least_drafted_s(const ft_batch_planner *p, const ft_plan_problem *problem,
                                 ft_error *err, double *least_s)
{
    static const double free_us[FT_COST_FACTORS];
    ft_stage_costs times = *(const ft_stage_costs *)problem->times_ctx;
    ft_plan_problem bare = *problem;
    ft_status status = FT_OK;
    times.draft = free_us;
    times.draft_read_us = 0;
    bare.times_ctx = &times;
    bare.delay_s = 0;
    *least_s = INFINITY;
    for (uint32_t i = 0; i < bare.n; i++)
        p->task[i] = i;
    p->size[0] = bare.n;
    for (uint32_t l = bare.length_least; l <= bare.length_most && status == FT_OK; l++) {
        const ft_plan_given given = {l, 1, p->size, p->task};
        ft_batch_plan plan;
        status = ft_batch_plan_given(&bare, &given, err, &plan);
        *least_s = fmin(*least_s, status == FT_OK ? plan.inf_s : INFINITY);
        ft_batch_plan_deinit(&plan);
    }
    return status;
}

/* The plan with drafts, and that without. The search for the former is left out where even its
 * bound is no better. */
static ft_status make(const ft_batch_planner *p, ft_plan_problem problem, ft_error *err,
                      ft_batch_plan *plan)
{
    ft_batch_plan plain = {0};
    double least_s = 0;
    ft_status status = FT_OK;
    *plan = (ft_batch_plan){0};
    if (p->how.length_least == 0)
        status = make_undrafted(p, &problem, err, &plain);
    problem.length_least = ft_max_u32(problem.length_least, 1);
    if (status == FT_OK && plain.n_batches > 0)
        status = least_drafted_s(p, &problem, err, &least_s);
    if (status == FT_OK && problem.length_most > 0 &&
        (plain.n_batches == 0 || least_s < plain.inf_s))
        status = make_by(p, &problem, err, plan);
    if (status == FT_OK && p->how.one_at_a_time && !p->how.sequence && plan->n_batches > 0)
        status = in_sequence(p, &problem, err, plan);
    const bool drafted = plan->n_batches > 0;
    if (status == FT_OK && plain.n_batches > 0 && (!drafted || plain.inf_s <= plan->inf_s)) {
        const ft_batch_plan other = *plan;
        *plan = plain;
        plain = other;
    }
    ft_batch_plan_deinit(&plain);
    if (status != FT_OK)
        ft_batch_plan_deinit(plan);
    return status;
}

/* Seconds of a round of a batch, behind its first. */
static void round_of(const ft_batch_planner *p, ft_batch_facts *facts)
{
    const ft_stage_costs times = {.draft = p->known->cost[FT_STATION_DRAFT].us,
                                  .verify = p->known->cost[FT_STATION_VERIFY].us};
    ft_plan_time draft, verify;
    facts->tokens = ft_plan_tokens(ft_batch_known_acceptance(p->known), p->length);
    ft_stage_costs_times(&times, &p->typical, p->length, facts->tokens, &draft, &verify);
    facts->round_s[FT_STATION_DRAFT] = draft.second_s;
    facts->round_s[FT_STATION_VERIFY] = verify.second_s;
}

static ft_batch_facts facts_of(const ft_batch_planner *p, size_t n)
{
    ft_batch_facts facts = {.n = (uint32_t)n};
    round_of(p, &facts);
    return facts;
}

/* Keeps a plan as the present one. */
static void keep(ft_batch_planner *p, const ft_batch_left *left, size_t n,
                 const ft_batch_plan *plan, ft_batch_order *out)
{
    for (uint32_t i = 0; i < plan->n_batches; i++)
        p->size[i] = plan->batches[i].shape.n;
    for (size_t i = 0; i < n; i++)
        p->task[i] = left[plan->order[i]].task;
    p->length = plan->length;
    p->typical = plan->batches[0].shape;
    p->facts = facts_of(p, n);
    *out = (ft_batch_order){.length = plan->length,
                            .n = plan->n_batches,
                            .size = p->size,
                            .task = p->task,
                            .left_s = plan->inf_s};
}

ft_status ft_batch_planner_make(ft_batch_planner *p, const ft_batch_left *left, size_t n,
                                ft_error *err, ft_batch_plan *plan)
{
    ft_stage_costs times;
    *plan = (ft_batch_plan){0};
    if (!ft_batch_planner_knows(p))
        return ft_error_set(err, FT_PRECONDITION,
                            "batch: the costs of both stations are not known yet: a plan before "
                            "the first round needs --costs-draft FILE and --costs-verify FILE, of "
                            "fit verify-time");
    return make(p, problem_of(p, left, n, &times), err, plan);
}

/* Batches of 1, 2, 4, ... tasks, of as many tasks as may be under way. */
static void make_trial(ft_batch_planner *p, const ft_batch_left *left, size_t n,
                       ft_batch_order *out)
{
    uint32_t most = ft_min_u32(batch_most(p, n), TRIAL_TASKS);
    uint32_t rest = ft_min_u32((uint32_t)n, p->how.at_once), size = 1;
    *out = (ft_batch_order){.trial = true, .length = 1, .size = p->size, .task = p->task};
    for (uint32_t i = 0; i < rest; i++)
        p->task[i] = left[i].task;
    if (p->how.length_most == 0) {
        out->length = 0;
        size = most = rest;
    }
    for (; rest > 0; rest -= p->size[out->n++]) {
        p->size[out->n] = ft_min_u32(ft_min_u32(size, most), rest);
        size *= 2;
    }
}

ft_status ft_batch_planner_plan(ft_batch_planner *p, const ft_batch_left *left, size_t n,
                                ft_error *err, ft_batch_order *out)
{
    ft_batch_plan plan;
    *out = (ft_batch_order){0};
    if (!ft_batch_planner_knows(p)) {
        make_trial(p, left, n, out);
        return FT_OK;
    }
    ft_status status = ft_batch_planner_make(p, left, n, err, &plan);
    if (status == FT_OK)
        keep(p, left, n, &plan, out);
    ft_batch_plan_deinit(&plan);
    return status;
}

bool ft_batch_planner_changed(const ft_batch_planner *p, size_t n)
{
    const ft_batch_facts now = facts_of(p, n);
    return ft_batch_facts_differ(&p->facts, &now);
}

/* How long the batches as they are would take: *s. */
static ft_status as_is_s(const ft_batch_planner *p, const ft_batch_left *left, size_t n,
                         const ft_batch_order *as_is, ft_error *err, double *s)
{
    uint32_t *order = calloc(n, sizeof *order);
    const ft_plan_given given = {as_is->length, (uint32_t)as_is->n, as_is->size, order};
    ft_stage_costs times;
    ft_batch_plan plan = {0};
    ft_plan_problem problem = problem_of(p, left, n, &times);
    problem.flow = p->how.one_at_a_time ? FT_PLAN_SEQUENCE : FT_PLAN_ROLLING;
    for (uint32_t i = 0; order && i < n; i++)
        order[i] = i;
    ft_status status = order ? ft_batch_plan_given(&problem, &given, err, &plan) : no_memory(err);
    *s = plan.inf_s;
    ft_batch_plan_deinit(&plan);
    free(order);
    return status;
}

ft_status ft_batch_planner_replan(ft_batch_planner *p, const ft_batch_left *left, size_t n,
                                  const ft_batch_order *as_is, ft_error *err, ft_batch_order *out)
{
    ft_batch_plan plan = {0};
    double present_s = 0;
    *out = (ft_batch_order){0};
    ft_status status = as_is_s(p, left, n, as_is, err, &present_s);
    if (status == FT_OK)
        status = ft_batch_planner_make(p, left, n, err, &plan);
    if (status == FT_OK && ft_batch_worth_changing(present_s, plan.inf_s))
        keep(p, left, n, &plan, out);
    else if (status == FT_OK)
        p->facts = facts_of(p, n);
    ft_batch_plan_deinit(&plan);
    return status;
}
