// SPDX-License-Identifier: Apache-2.0
// Carries out plans. Each task is a generation (generation.h); this file takes them in common
// steps: the verdicts of a batch, its next drafts, their sending. A batch's drafts leave before the
// next batch's verdicts are waited for, so edge and server work at the same time.
//
// Departs from Zhu et al.: not all batches of a plan are under way at once, because their texts
// must have room in memory; a batch that has ended makes room for the next one. Texts are not
// padded.
//
// The calling thread owns all of it. Decides neither which tasks make a batch nor how long drafts
// are (the planner does).
#include "edge/batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "base/text.h"
#include "edge/exchange.h"
#include "edge/rounds.h"

/* Rounds of a batch between two records of its tokens. Half as many would write a record of each
 * task twice as often; twice as many would repeat up to twice as much work after a kill. */
#define KEEP_ROUNDS 8
#define POLL_NS     20000000 /* until a task is released */

typedef struct runner runner;

/* The answer of a task, under way. */
typedef struct text {
    runner *run;
    uint32_t task;
    ft_gen *gen;      /* NULL: it has ended */
    ft_tokens prompt; /* the task's, and what an earlier process has got */
    ft_gen_request request;
    ft_gen_sink sink;
    ft_gen_stats stats;
} text;

typedef struct group {
    uint32_t n, n_left, n_rounds;
    uint64_t room_tok; /* of all its tasks (ft_task_room_tok) */
    text text[];       /* [n]; they do not move */
} group;

struct runner {
    const ft_batch_opts *how;
    ft_task_answers *answers;
    ft_batch_stats *stats;
    int64_t began_us;
    double began_s;      /* the batch's clock then */
    bool *planned;       /* [tasks] */
    uint32_t *released;  /* [tasks] scratch */
    ft_batch_order plan; /* the last one */
    size_t next;         /* of its batches, the first that has not begun */
    const uint32_t *at;  /* its tasks */
    group **groups;      /* [at_once] batches under way */
    size_t n_groups;
    uint32_t n_texts;  /* in them */
    uint64_t room_tok; /* of them */
    /* Number of the last joint drafts. Begins anywhere, as other edges have some, too. */
    uint32_t joint;
    bool no_memory; /* a sink could not keep a token */
};

static int64_t now_us(const runner *r)
{
    return ft_clock_now_us(&r->how->clock);
}

static double clock_s(const runner *r)
{
    return r->began_s + (double)(now_us(r) - r->began_us) / 1e6;
}

static ft_task_answer *answer_of(const text *t)
{
    return &t->run->answers->answer[t->task];
}

static const ft_task *task_of(const text *t)
{
    return &t->run->how->tasks->task[t->task];
}

static ft_status no_memory(ft_error *err)
{
    return ft_error_set(err, FT_NOMEM, "batch: out of memory");
}

static ft_status cancelled(ft_error *err)
{
    return ft_error_set(err, FT_CANCELLED, "batch: interrupted: go on with it by --resume");
}

/* What concerns one task names it; a lost server concerns all. */
static ft_status blame(const ft_task *task, ft_status status, ft_error *err)
{
    if (status == FT_OK || status == FT_CANCELLED || status == FT_UNAVAILABLE ||
        status == FT_TIMEOUT)
        return status;
    return ft_error_set(err, status, "task %s, line %u: %s", task->id, task->line, err->message);
}

/* ---- a text ---- */

static bool on_text(void *ctx, const char *bytes, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    text *t = ctx;
    ft_task_answer *answer = answer_of(t);
    (void)bytes, (void)n;
    if (answer->ids.n == 0 && n_tokens > 0)
        answer->ttft_s = clock_s(t->run) - task_of(t)->release_s;
    for (size_t i = 0; i < n_tokens && !t->run->no_memory; i++)
        t->run->no_memory = ft_tokens_append(&answer->ids, &tokens[i].id, 1) != FT_OK;
    return true;
}

static bool is_cancelled(void *ctx)
{
    const ft_batch_opts *how = ((text *)ctx)->run->how;
    return how->cancelled(how->ctx);
}

/* The answer as a person reads it. FT_NOMEM. */
static ft_status spell(const text *t, char **out)
{
    const ft_tokens *ids = &answer_of(t)->ids;
    ft_text_stream stream;
    ft_buf piece = {0}, all = {0};
    ft_status status = FT_OK;
    ft_text_stream_init(&stream, NULL, 0);
    for (size_t i = 0; i < ids->n && status == FT_OK; i++) {
        ft_buf_clear(&piece);
        status = ft_vocab_piece(t->run->how->vocab, ids->id[i], false, &piece);
        if (status == FT_OK)
            status = ft_text_stream_push(&stream, piece.data, piece.len, &all);
    }
    if (status == FT_OK)
        status = ft_text_stream_finish(&stream, &all);
    *out = status == FT_OK ? strdup(ft_buf_str(&all)) : NULL;
    ft_text_stream_deinit(&stream);
    ft_buf_deinit(&piece);
    ft_buf_deinit(&all);
    return *out ? FT_OK : FT_NOMEM;
}

/* The answer is complete. */
static ft_status finish(text *t, ft_finish how, ft_error *err)
{
    runner *r = t->run;
    ft_task_answer *answer = answer_of(t);
    if (spell(t, &answer->text) != FT_OK)
        return no_memory(err);
    r->answers->clock_s = clock_s(r);
    answer->finish = how;
    answer->tokens = (uint32_t)answer->ids.n;
    answer->total_s = r->answers->clock_s - task_of(t)->release_s;
    if (answer->ids.n == 0)
        answer->ttft_s = answer->total_s;
    ft_status status = ft_journal_done(r->how->journal, t->task, err);
    if (status == FT_OK)
        ft_progress_report(&r->how->progress, r->answers->n_done, r->answers->n);
    return status;
}

static void close_text(text *t, ft_status status)
{
    ft_batch_stats *s = t->run->stats;
    if (t->gen) {
        ft_gen_end(t->gen, status);
        s->drafted += t->stats.drafted;
        s->accepted += t->stats.accepted;
        s->tokens += t->stats.tokens;
    }
    ft_gen_destroy(t->gen);
    ft_tokens_deinit(&t->prompt);
    t->gen = NULL;
}

/* Whether an earlier process has got all tokens of the answer and did not come to say so. */
static bool is_whole(const text *t)
{
    const uint32_t context = ft_edge_server_info(t->run->how->edge)->limits.max_context;
    const uint32_t most = task_of(t)->max_tokens;
    return (most > 0 && answer_of(t)->ids.n >= most) || (context > 0 && t->prompt.n >= context);
}

/* Opens the text with what is known of the answer. */
static ft_status open_text(text *t, uint32_t length, ft_error *err)
{
    const ft_batch_opts *how = t->run->how;
    const ft_task *task = task_of(t);
    const ft_tokens *ids = &answer_of(t)->ids;
    if (ft_tokens_append(&t->prompt, task->tokens.id, task->tokens.n) != FT_OK ||
        ft_tokens_append(&t->prompt, ids->id, ids->n) != FT_OK)
        return no_memory(err);
    if (is_whole(t))
        return finish(t, FT_FINISH_LENGTH, err);
    t->request = (ft_gen_request){.prompt = t->prompt.id,
                                  .n_prompt = (uint32_t)t->prompt.n,
                                  .sampling = how->sampling,
                                  .no_speculation = length == 0};
    t->request.sampling.seed = task->seed;
    if (task->max_tokens > 0)
        t->request.max_tokens = task->max_tokens - (uint32_t)ids->n;
    t->sink = (ft_gen_sink){.ctx = t, .on_text = on_text, .cancelled = is_cancelled};
    ft_status status = ft_gen_create(how->edge, &t->request, &t->sink, &t->stats, err, &t->gen);
    if (status != FT_OK)
        return status;
    t->gen->steer.how.draft = ft_draft_params_chain(length);
    return ft_gen_open(t->gen, err);
}

/* ---- a batch ---- */

static ft_status keep(group *g, ft_error *err)
{
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < g->n; i++) {
        text *t = &g->text[i];
        t->run->answers->clock_s = clock_s(t->run);
        if (!t->gen)
            continue;
        ft_status kept = ft_journal_keep(t->run->how->journal, t->task, err);
        status = status == FT_OK ? kept : status;
    }
    return status;
}

static uint64_t room_of(const runner *r, const uint32_t *task, uint32_t n)
{
    const uint32_t context = ft_edge_server_info(r->how->edge)->limits.max_context;
    uint64_t room = 0;
    for (uint32_t i = 0; i < n; i++)
        room += ft_task_room_tok(&r->how->tasks->task[task[i]], context);
    return room;
}

/* Opens all texts, so that the server reads their prompts while the draft model does. */
static ft_status begin_batch(runner *r, const uint32_t *task, uint32_t n, ft_error *err)
{
    group *g = calloc(1, sizeof *g + n * sizeof *g->text);
    ft_status status = FT_OK;
    if (!g)
        return no_memory(err);
    g->n = n;
    g->room_tok = room_of(r, task, n);
    r->room_tok += g->room_tok;
    r->groups[r->n_groups++] = g;
    for (uint32_t i = 0; i < n; i++)
        g->text[i] = (text){.run = r, .task = task[i]};
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        status = open_text(&g->text[i], r->plan.length, err);
        status = blame(task_of(&g->text[i]), status, err);
        g->n_left += g->text[i].gen != NULL;
    }
    r->n_texts += g->n_left;
    const int64_t from_us = now_us(r);
    for (uint32_t i = 0; i < n && status == FT_OK && r->plan.length > 0; i++)
        if (g->text[i].gen)
            ft_drafting_start(&g->text[i].gen->drafting);
    r->stats->draft_s += (double)(now_us(r) - from_us) / 1e6;
    return status;
}

static void end_batch(runner *r, size_t at, ft_status status)
{
    group *g = r->groups[at];
    for (uint32_t i = 0; i < g->n; i++)
        close_text(&g->text[i], status);
    r->n_texts -= g->n_left;
    r->room_tok -= g->room_tok;
    free(g);
    r->n_groups--;
    memmove(&r->groups[at], &r->groups[at + 1], (r->n_groups - at) * sizeof *r->groups);
}

static ft_status hear_text(text *t, ft_error *err)
{
    ft_batch_stats *s = t->run->stats;
    const bool joint = t->gen->out.msg.draft.together > 0;
    ft_status status = ft_gen_answer(t->gen, err);
    if (status == FT_OK && t->run->no_memory)
        return no_memory(err);
    if (status != FT_OK)
        return blame(task_of(t), status, err);
    if (joint && t->gen->out.together > 0) {
        s->joint++;
        s->passes += 1.0 / t->gen->out.together;
        s->verify_s += 1e-6 * t->gen->out.verify_us / t->gen->out.together;
    }
    if (t->stats.finish == FT_FINISH_NONE)
        return FT_OK;
    status = finish(t, t->stats.finish, err);
    if (status == FT_OK)
        close_text(t, FT_OK);
    return status;
}

/* Waits for a verdict of each text that has a round. */
static ft_status hear(group *g, ft_error *err)
{
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < g->n && status == FT_OK; i++) {
        text *t = &g->text[i];
        if (!t->gen || t->gen->state == FT_GEN_READY)
            continue;
        status = hear_text(t, err);
        g->n_left -= !t->gen;
        t->run->n_texts -= !t->gen;
    }
    return status;
}

/* Drafts for all texts that have no round, and sends the drafts together. */
static ft_status draft(runner *r, const group *g, ft_error *err)
{
    ft_gen *ready[FT_BATCH_TASKS_MAX];
    ft_status status = FT_OK;
    uint32_t n = 0;
    const int64_t from_us = now_us(r);
    for (uint32_t i = 0; i < g->n; i++)
        if (g->text[i].gen && g->text[i].gen->state == FT_GEN_READY)
            ready[n++] = g->text[i].gen;
    if (n == 0)
        return FT_OK;
    ft_gens_prepare(ready, n);
    r->stats->draft_s += (double)(now_us(r) - from_us) / 1e6;
    r->stats->rounds++;
    r->joint++;
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        ready[i]->out.msg.draft.together = n;
        ready[i]->out.msg.draft.batch = r->joint;
        status = ft_gen_send(ready[i], err);
    }
    return status;
}

/* One step of the batch: its verdicts, its drafts. */
static ft_status step(runner *r, group *g, ft_error *err)
{
    const int64_t from_us = now_us(r);
    ft_status status = hear(g, err);
    r->stats->wait_s += (double)(now_us(r) - from_us) / 1e6;
    if (status == FT_OK && ++g->n_rounds % KEEP_ROUNDS == 0)
        status = keep(g, err);
    return status == FT_OK ? draft(r, g, err) : status;
}

/* ---- which batches ---- */

/* Plans the released tasks that are in no plan. */
static ft_status plan(runner *r, ft_error *err)
{
    const ft_tasks *tasks = r->how->tasks;
    const double now_s = clock_s(r);
    size_t n = 0, planned = 0;
    for (uint32_t i = 0; i < tasks->n; i++)
        if (!r->planned[i] && !r->answers->answer[i].done && tasks->task[i].release_s <= now_s)
            r->released[n++] = i;
    r->next = 0;
    r->plan = (ft_batch_order){0};
    if (n == 0)
        return FT_OK;
    ft_status status = r->how->planner.plan(r->how->planner.ctx, r->released, n, err, &r->plan);
    if (status != FT_OK)
        return status;
    for (size_t i = 0; i < r->plan.n; i++)
        planned += r->plan.size[i];
    assert(planned == n);
    for (size_t i = 0; i < planned; i++)
        r->planned[r->plan.task[i]] = true;
    r->at = r->plan.task;
    return FT_OK;
}

/* Begins batches while there is room for their texts. */
static ft_status begin_batches(runner *r, ft_error *err)
{
    ft_status status = FT_OK;
    while (status == FT_OK && r->n_texts < r->how->at_once && r->n_groups < r->how->at_once) {
        if (r->next == r->plan.n)
            status = plan(r, err);
        if (status != FT_OK || r->next == r->plan.n)
            return status;
        const uint32_t n = r->plan.size[r->next];
        if (n > r->how->at_once || n > FT_BATCH_TASKS_MAX)
            return ft_error_set(err, FT_INVALID,
                                "batch: a batch of %u tasks: %u may be under way at once", n,
                                r->how->at_once);
        const bool full = r->how->kv_tok > 0 && r->room_tok + room_of(r, r->at, n) > r->how->kv_tok;
        if (r->n_texts + n > r->how->at_once || (full && r->n_groups > 0))
            return FT_OK;
        status = begin_batch(r, r->at, n, err);
        r->at += n;
        r->next++;
    }
    return status;
}

static ft_status work(runner *r, ft_error *err)
{
    static const struct timespec poll = {.tv_nsec = POLL_NS};
    while (r->answers->n_done < r->answers->n) {
        if (r->how->cancelled(r->how->ctx))
            return cancelled(err);
        ft_status status = begin_batches(r, err);
        if (status == FT_OK && r->n_groups == 0)
            nanosleep(&poll, NULL); /* all others are released later */
        for (size_t i = 0; i < r->n_groups && status == FT_OK;) {
            status = step(r, r->groups[i], err);
            if (status == FT_OK && r->groups[i]->n_left == 0)
                end_batch(r, i, FT_OK);
            else
                i++;
        }
        if (status == FT_CANCELLED)
            return cancelled(err);
        if (status != FT_OK)
            return status;
    }
    return FT_OK;
}

/* Keeps what has come, whatever has happened. */
static ft_status close_all(runner *r, ft_status status, ft_error *err)
{
    ft_error why = {0};
    while (r->n_groups > 0) {
        const ft_status kept = keep(r->groups[0], &why);
        if (kept != FT_OK && status == FT_OK)
            status = ft_error_set(err, kept, "%s", why.message);
        end_batch(r, 0, status);
    }
    return status;
}

ft_status ft_batch_run(const ft_batch_opts *opts, ft_error *err, ft_batch_stats *stats)
{
    runner r = {.how = opts, .answers = ft_journal_answers(opts->journal), .stats = stats};
    ft_status status = FT_OK;
    *stats = (ft_batch_stats){0};
    r.began_us = now_us(&r);
    r.began_s = r.answers->clock_s;
    r.planned = calloc(opts->tasks->n, sizeof *r.planned);
    r.released = calloc(opts->tasks->n, sizeof *r.released);
    r.groups = calloc(opts->at_once, sizeof *r.groups);
    if (!r.planned || !r.released || !r.groups)
        status = no_memory(err);
    if (status == FT_OK && ft_random_bytes(&r.joint, sizeof r.joint) != FT_OK)
        status = ft_error_set(err, FT_IO, "batch: the operating system gave no random bytes");
    if (status == FT_OK)
        status = work(&r, err);
    status = close_all(&r, status, err);
    free(r.planned);
    free(r.released);
    free(r.groups);
    return status;
}
