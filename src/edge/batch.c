// SPDX-License-Identifier: Apache-2.0
// Carries out plans. Each task is a text (batch_text.h); this file takes them in common steps: the
// verdicts of a batch, its next drafts, their sending. A batch's drafts leave before the next
// batch's verdicts are waited for, so edge and server work at the same time.
//
// Departs from Zhu et al.: not all batches of a plan are under way at once if their texts have no
// room; a batch begins when there is room for it. Texts are not padded, and leave a batch when they
// are done. Texts under way may get another batch and another length at any moment between two
// steps: what is outstanding is heard in the new batch.
//
// The calling thread owns all of it. Decides neither which tasks make a batch nor how long drafts
// are (batch_planner.h).
#include "edge/batch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/num.h"
#include "base/rng.h"
#include "edge/batch_text.h"
#include "edge/exchange.h"
#include "edge/rounds.h"

/* Rounds of a batch between two records of its tokens. Half as many would write a record of each
 * task twice as often; twice as many would repeat up to twice as much work after a kill. */
#define KEEP_ROUNDS 8
#define POLL_NS     20000000 /* until a task is released */
/* Planning anew stops the edge. So between two plans there is so many times what the last one took:
 * planning takes a twentieth of the time at most. */
#define PLAN_SPACING 20

/* A batch of the present plan: tasks order[first], ... order[first + n - 1]. */
typedef struct group {
    uint32_t first, n, n_rounds;
} group;

typedef struct runner {
    ft_batch_work work;
    ft_batch_text *texts; /* [tasks], by task */
    bool *planned;        /* [tasks] */
    ft_batch_left *left;  /* [tasks] scratch */
    bool trial, made;     /* the present plan is a trial; there has been one that is not */
    uint32_t length;
    uint32_t *order; /* [tasks] of the present plan */
    uint32_t *sizes; /* [tasks] scratch */
    group *groups;   /* [tasks] its batches that are not done */
    size_t n_groups;
    int64_t plan_end_us, plan_took_us; /* of the last planning */
    /* Number of the last joint drafts. Begins anywhere, as other edges have some, too. */
    uint32_t joint;
} runner;

static ft_status no_memory(ft_error *err)
{
    return ft_error_set(err, FT_NOMEM, "batch: out of memory");
}

static ft_status cancelled(ft_error *err)
{
    return ft_error_set(err, FT_CANCELLED, "batch: interrupted: go on with it by --resume");
}

static ft_batch_text *text_of(const runner *r, const group *g, uint32_t i)
{
    return &r->texts[r->order[g->first + i]];
}

static uint32_t count_in(const runner *r, const group *g, ft_batch_text_state state)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n; i++)
        n += text_of(r, g, i)->state == state;
    return n;
}

/* ---- a batch ---- */

/* Whether texts that need so much room may be opened beside those that are open. */
static bool has_room(const runner *r, uint32_t n, uint64_t room_tok)
{
    const ft_batch_planner_opts *how = &r->work.how->planner->how;
    const uint64_t kv = r->length > 0 || r->trial ? how->kv_tok[FT_STATION_DRAFT] : 0;
    return r->work.n_open + n <= how->at_once &&
           (kv == 0 || r->work.n_open == 0 || r->work.room_tok + room_tok <= kv);
}

/* Opens texts of the batch, if there is room for all that wait; if some are under way already,
 * those that have room. */
static ft_status begin(runner *r, const group *g, ft_error *err)
{
    const bool begun = count_in(r, g, FT_BATCH_TEXT_OPEN) > 0;
    uint64_t room_tok = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n; i++)
        if (text_of(r, g, i)->state == FT_BATCH_TEXT_WAITING) {
            room_tok += ft_batch_work_room_tok(&r->work, text_of(r, g, i)->task);
            n++;
        }
    if (n == 0 || (!begun && !has_room(r, n, room_tok)))
        return FT_OK;
    for (uint32_t i = 0; i < g->n; i++) {
        ft_batch_text *t = text_of(r, g, i);
        if (t->state != FT_BATCH_TEXT_WAITING ||
            !has_room(r, 1, ft_batch_work_room_tok(&r->work, t->task)))
            continue;
        const ft_status status = ft_batch_text_open(t, err);
        if (status != FT_OK)
            return status;
    }
    return FT_OK;
}

static ft_status keep(runner *r, const group *g, ft_error *err)
{
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < g->n; i++) {
        const ft_batch_text *t = text_of(r, g, i);
        r->work.answers->clock_s = ft_batch_work_clock_s(&r->work);
        if (t->state != FT_BATCH_TEXT_OPEN)
            continue;
        const ft_status kept = ft_journal_keep(r->work.how->journal, t->task, err);
        status = status == FT_OK ? kept : status;
    }
    return status;
}

static bool has_round(const ft_batch_text *t)
{
    return t->state == FT_BATCH_TEXT_OPEN && t->gen->state != FT_GEN_READY;
}

/* A text had to be opened again: so have all others, as far as they have a round out. */
static ft_status mend(runner *r, ft_error *err)
{
    ft_status status = FT_OK;
    for (size_t i = 0; i < r->work.how->tasks->n && status == FT_OK; i++)
        if (has_round(&r->texts[i]))
            status = ft_gen_mend(r->texts[i].gen, err);
    return status;
}

/* Waits for a verdict of each text that has a round. */
static ft_status hear(runner *r, const group *g, ft_error *err)
{
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < g->n && status == FT_OK; i++) {
        ft_batch_text *t = text_of(r, g, i);
        const uint64_t reconnects = t->stats.reconnects;
        if (!has_round(t))
            continue;
        status = ft_batch_text_hear(t, err);
        if (status == FT_OK && t->stats.reconnects > reconnects)
            status = mend(r, err);
    }
    return status;
}

/* Drafts of n texts took so long. */
static void saw_drafts(runner *r, ft_gen *const *gens, size_t n, int64_t us)
{
    ft_pass pass = {0};
    uint32_t forwards = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t drafted = gens[i]->out.msg.draft.n;
        if (drafted > 0) /* in the middle of its draft */
            pass = ft_pass_plus(pass, (uint32_t)gens[i]->text.n - 1 + drafted / 2, 1, 1);
        forwards = ft_max_u32(forwards, drafted);
    }
    if (forwards > 0)
        ft_batch_known_saw_pass(r->work.known, FT_STATION_DRAFT, &pass, (double)us / forwards);
}

/* Drafts for so many texts at once, and sends the drafts together. Texts that are not drafted for
 * need no common pass: the server decodes them in all its passes. */
static ft_status send_drafts(runner *r, ft_gen *const *gens, uint32_t n, uint32_t length,
                             ft_error *err)
{
    const int64_t from_us = ft_batch_work_now_us(&r->work);
    ft_status status = FT_OK;
    ft_gens_prepare(gens, n);
    r->work.stats->draft_s += (double)(ft_batch_work_now_us(&r->work) - from_us) / 1e6;
    r->joint++;
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        gens[i]->out.msg.draft.together = length > 0 ? n : 0;
        gens[i]->out.msg.draft.batch = r->joint;
        status = ft_gen_send(gens[i], err);
    }
    saw_drafts(r, gens, n, ft_batch_work_now_us(&r->work) - from_us);
    return status;
}

/* The draft model reads the text, if it has not and there are drafts. */
static void read_text(runner *r, ft_batch_text *t, uint32_t length)
{
    const int64_t from_us = ft_batch_work_now_us(&r->work);
    ft_batch_text_set_length(t, length);
    if (length > 0 && !t->started)
        ft_batch_text_read(t);
    r->work.stats->draft_s += (double)(ft_batch_work_now_us(&r->work) - from_us) / 1e6;
}

/* Drafts for all texts that have no round. */
static ft_status draft(runner *r, const group *g, ft_error *err)
{
    ft_gen *ready[FT_BATCH_TASKS_MAX];
    ft_status status = FT_OK;
    const uint32_t length =
        r->trial ? ft_batch_trial_length(&r->work.how->planner->how, g->n_rounds) : r->length;
    uint32_t n = 0, sent = 0;
    for (uint32_t i = 0; i < g->n && status == FT_OK; i++) {
        ft_batch_text *t = text_of(r, g, i);
        if (t->state != FT_BATCH_TEXT_OPEN || t->gen->state != FT_GEN_READY)
            continue;
        read_text(r, t, length);
        ready[n++] = t->gen;
        if (n < FT_BATCH_TASKS_MAX)
            continue;
        status = send_drafts(r, ready, n, length, err);
        sent += n;
        n = 0;
    }
    if (status == FT_OK && n > 0)
        status = send_drafts(r, ready, n, length, err);
    r->work.stats->rounds += length > 0 && sent + n > 0;
    return status;
}

/* One step of the batch: its verdicts, its drafts. */
static ft_status step(runner *r, group *g, ft_error *err)
{
    const int64_t from_us = ft_batch_work_now_us(&r->work);
    ft_status status = hear(r, g, err);
    r->work.stats->wait_s += (double)(ft_batch_work_now_us(&r->work) - from_us) / 1e6;
    if (count_in(r, g, FT_BATCH_TEXT_OPEN) == 0)
        return status;
    if (status == FT_OK && g->n_rounds > 0 && g->n_rounds % KEEP_ROUNDS == 0)
        status = keep(r, g, err);
    if (status == FT_OK)
        status = draft(r, g, err);
    g->n_rounds++;
    return status;
}

/* ---- which batches ---- */

static void add_left(runner *r, uint32_t task, size_t *n)
{
    const ft_batch_text *t = &r->texts[task];
    r->left[(*n)++] = (ft_batch_left){.task = task,
                                      .tokens = (uint32_t)r->work.answers->answer[task].ids.n,
                                      .open = t->state == FT_BATCH_TEXT_OPEN};
}

/* Tasks that are not done: those of the present batches first, then those that have been released
 * and are in no plan; *n_new of them. Fills r->sizes with what is left of the present batches. */
static size_t list_left(runner *r, size_t *n_new)
{
    const ft_tasks *tasks = r->work.how->tasks;
    const double now_s = ft_batch_work_clock_s(&r->work);
    size_t n = 0;
    for (size_t k = 0; k < r->n_groups; k++) {
        const size_t before = n;
        for (uint32_t i = 0; i < r->groups[k].n; i++)
            if (text_of(r, &r->groups[k], i)->state != FT_BATCH_TEXT_DONE)
                add_left(r, text_of(r, &r->groups[k], i)->task, &n);
        r->sizes[k] = (uint32_t)(n - before);
    }
    *n_new = n;
    for (uint32_t i = 0; i < tasks->n; i++)
        if (!r->planned[i] && !r->work.answers->answer[i].done && tasks->task[i].release_s <= now_s)
            add_left(r, i, &n);
    *n_new = n - *n_new;
    return n;
}

/* The tasks get these batches. */
static void take_plan(runner *r, const ft_batch_order *plan)
{
    size_t at = 0;
    for (uint32_t i = 0; i < r->work.how->tasks->n; i++)
        if (r->texts[i].state == FT_BATCH_TEXT_WAITING)
            r->planned[i] = false;
    for (size_t k = 0; k < plan->n; k++) {
        r->groups[k] = (group){.first = (uint32_t)at, .n = plan->size[k]};
        for (uint32_t i = 0; i < plan->size[k]; i++, at++) {
            r->order[at] = plan->task[at];
            r->planned[plan->task[at]] = true;
        }
    }
    r->n_groups = plan->n;
    r->length = plan->length;
    r->work.stats->n_anew += r->made;
    if (!plan->trial && !r->made) {
        r->work.stats->planned_s = ft_batch_work_clock_s(&r->work) + plan->left_s;
        r->made = true;
    }
    r->trial = plan->trial;
}

/* Whether the trial has shown what it can: a pass counts a turn after its last verdict. */
static bool trial_over(const runner *r)
{
    for (size_t k = 0; k < r->n_groups; k++)
        if (count_in(r, &r->groups[k], FT_BATCH_TEXT_OPEN) > 0 &&
            r->groups[k].n_rounds <= FT_BATCH_TRIAL_ROUNDS + 1)
            return false;
    return true;
}

/* n tasks are left, n_new of them in no plan. */
static ft_status plan_left(runner *r, size_t n, size_t n_new, ft_error *err)
{
    ft_batch_planner *planner = r->work.how->planner;
    const ft_batch_order as_is = {.length = r->length, .n = r->n_groups, .size = r->sizes};
    const int64_t from_us = ft_batch_work_now_us(&r->work);
    ft_batch_order plan;
    ft_status status;
    if (n_new == 0 && r->made && r->n_groups > 0)
        status = ft_batch_planner_replan(planner, r->left, n, &as_is, err, &plan);
    else
        status = ft_batch_planner_plan(planner, r->left, n, err, &plan);
    r->plan_end_us = ft_batch_work_now_us(&r->work);
    r->plan_took_us = r->plan_end_us - from_us;
    if (status == FT_OK && plan.n > 0)
        take_plan(r, &plan);
    return status;
}

/* Plans where there is reason to. */
static ft_status plan(runner *r, ft_error *err)
{
    ft_batch_planner *planner = r->work.how->planner;
    const int64_t since_us = ft_batch_work_now_us(&r->work) - r->plan_end_us;
    size_t n_new;
    if (r->trial && !trial_over(r))
        return FT_OK;
    if (r->n_groups > 0 && !r->trial && since_us < PLAN_SPACING * r->plan_took_us)
        return FT_OK;
    const size_t n = list_left(r, &n_new);
    if (r->trial) {
        r->work.known->costs_known[FT_STATION_VERIFY] = true;
        r->work.known->costs_known[FT_STATION_DRAFT] |= planner->how.length_most > 0;
    }
    if (n == 0)
        return FT_OK;
    if (r->n_groups == 0 || r->trial || (n_new > 0 && r->work.n_open < planner->how.at_once) ||
        ft_batch_planner_changed(planner, n))
        return plan_left(r, n, n_new, err);
    return FT_OK;
}

/* What the server's passes of the last turn show. */
static void end_turn(runner *r)
{
    ft_batch_pass pass;
    size_t n = 0;
    while (ft_batch_passes_take(&r->work.passes, &pass))
        if (!pass.mixed)
            ft_batch_known_saw_pass(r->work.known, FT_STATION_VERIFY, &pass.pass, (double)pass.us);
    for (size_t k = 0; k < r->n_groups; k++)
        if (count_in(r, &r->groups[k], FT_BATCH_TEXT_DONE) < r->groups[k].n)
            r->groups[n++] = r->groups[k];
    r->n_groups = n;
}

/* A step of each batch. */
static ft_status turn(runner *r, ft_error *err)
{
    const size_t n = r->work.how->planner->how.one_at_a_time ? r->n_groups > 0 : r->n_groups;
    ft_status status = FT_OK;
    for (size_t k = 0; k < n && status == FT_OK; k++)
        status = begin(r, &r->groups[k], err);
    for (size_t k = 0; k < n && status == FT_OK; k++)
        status = step(r, &r->groups[k], err);
    end_turn(r);
    return status;
}

static ft_status work(runner *r, ft_error *err)
{
    static const struct timespec poll = {.tv_nsec = POLL_NS};
    const ft_batch_opts *how = r->work.how;
    while (r->work.answers->n_done < r->work.answers->n) {
        if (how->cancelled(how->ctx))
            return cancelled(err);
        ft_status status = plan(r, err);
        if (status == FT_OK && r->n_groups == 0)
            nanosleep(&poll, NULL); /* all others are released later */
        if (status == FT_OK)
            status = turn(r, err);
        if (status == FT_CANCELLED)
            return cancelled(err);
        if (status != FT_OK)
            return status;
    }
    return FT_OK;
}

/* ---- a run ---- */

/* Keeps what has come, whatever has happened. */
static ft_status close_all(runner *r, ft_status status, ft_error *err)
{
    ft_error why = {0};
    for (size_t k = 0; k < r->n_groups; k++) {
        const ft_status kept = keep(r, &r->groups[k], &why);
        if (kept != FT_OK && status == FT_OK)
            status = ft_error_set(err, kept, "%s", why.message);
    }
    for (size_t i = 0; r->texts && i < r->work.how->tasks->n; i++)
        ft_batch_text_close(&r->texts[i], status);
    return status;
}

static ft_status allocate(runner *r, ft_error *err)
{
    const size_t n = r->work.how->tasks->n;
    r->texts = calloc(n, sizeof *r->texts);
    r->planned = calloc(n, sizeof *r->planned);
    r->left = calloc(n, sizeof *r->left);
    r->order = calloc(n, sizeof *r->order);
    r->sizes = calloc(n, sizeof *r->sizes);
    r->groups = calloc(n, sizeof *r->groups);
    if (!r->texts || !r->planned || !r->left || !r->order || !r->sizes || !r->groups)
        return no_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        r->texts[i] = (ft_batch_text){.work = &r->work, .task = i};
        if (r->work.answers->answer[i].done)
            r->texts[i].state = FT_BATCH_TEXT_DONE;
    }
    return FT_OK;
}

ft_status ft_batch_run(const ft_batch_opts *opts, ft_error *err, ft_batch_stats *stats)
{
    runner r = {.work = {.how = opts,
                         .answers = ft_journal_answers(opts->journal),
                         .stats = stats,
                         .known = opts->planner->known}};
    *stats = (ft_batch_stats){0};
    r.work.began_us = ft_batch_work_now_us(&r.work);
    r.work.began_s = r.work.answers->clock_s;
    ft_status status = allocate(&r, err);
    if (status == FT_OK && ft_random_bytes(&r.joint, sizeof r.joint) != FT_OK)
        status = ft_error_set(err, FT_IO, "batch: the operating system gave no random bytes");
    if (status == FT_OK)
        status = work(&r, err);
    status = close_all(&r, status, err);
    free(r.texts);
    free(r.planned);
    free(r.left);
    free(r.order);
    free(r.sizes);
    free(r.groups);
    return status;
}
