// SPDX-License-Identifier: Apache-2.0
// Texts of a batch: opened, heard, ended; what verdicts show goes to what is known of the pair.
// The thread of ft_batch_run owns them.
#include "edge/batch_text.h"

#include <string.h>

#include "base/text.h"
#include "edge/exchange.h"
#include "edge/rounds.h"

/* The draft model reads a text in pieces of so many tokens (drafting.c). */
#define READ_TOK 128

static ft_task_answer *answer_of(const ft_batch_text *t)
{
    return &t->work->answers->answer[t->task];
}

static const ft_task *task_of(const ft_batch_text *t)
{
    return &t->work->how->tasks->task[t->task];
}

static ft_status no_memory(ft_error *err)
{
    return ft_error_set(err, FT_NOMEM, "batch: out of memory");
}

static uint32_t context_of(const ft_batch_work *w)
{
    return ft_edge_server_info(w->how->edge)->limits.max_context;
}

int64_t ft_batch_work_now_us(const ft_batch_work *w)
{
    return ft_clock_now_us(&w->how->clock);
}

double ft_batch_work_clock_s(const ft_batch_work *w)
{
    return w->began_s + (double)(ft_batch_work_now_us(w) - w->began_us) / 1e6;
}

uint64_t ft_batch_work_room_tok(const ft_batch_work *w, uint32_t task)
{
    return ft_task_room_tok(&w->how->tasks->task[task], context_of(w));
}

/* What concerns one task names it; a lost server concerns all. */
static ft_status blame(const ft_task *task, ft_status status, ft_error *err)
{
    if (status == FT_OK || status == FT_CANCELLED || status == FT_UNAVAILABLE ||
        status == FT_TIMEOUT)
        return status;
    return ft_error_set(err, status, "task %s, line %u: %s", task->id, task->line, err->message);
}

/* ---- the sink ---- */

static bool on_text(void *ctx, const char *bytes, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    ft_batch_text *t = ctx;
    ft_task_answer *answer = answer_of(t);
    (void)bytes, (void)n;
    if (answer->ids.n == 0 && n_tokens > 0)
        answer->ttft_s = ft_batch_work_clock_s(t->work) - task_of(t)->release_s;
    for (size_t i = 0; i < n_tokens && !t->work->no_memory; i++)
        t->work->no_memory = ft_tokens_append(&answer->ids, &tokens[i].id, 1) != FT_OK;
    return true;
}

static bool is_cancelled(void *ctx)
{
    const ft_batch_opts *how = ((ft_batch_text *)ctx)->work->how;
    return how->cancelled(how->ctx);
}

/* ---- the end ---- */

/* The answer as a person reads it. FT_NOMEM. */
static ft_status spell(const ft_batch_text *t, char **out)
{
    const ft_tokens *ids = &answer_of(t)->ids;
    ft_text_stream stream;
    ft_buf piece = {0}, all = {0};
    ft_status status = FT_OK;
    ft_text_stream_init(&stream, NULL, 0);
    for (size_t i = 0; i < ids->n && status == FT_OK; i++) {
        ft_buf_clear(&piece);
        status = ft_vocab_piece(t->work->how->vocab, ids->id[i], false, &piece);
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
static ft_status finish(ft_batch_text *t, ft_finish how, ft_error *err)
{
    ft_batch_work *w = t->work;
    ft_task_answer *answer = answer_of(t);
    if (spell(t, &answer->text) != FT_OK)
        return no_memory(err);
    w->answers->clock_s = ft_batch_work_clock_s(w);
    answer->finish = how;
    answer->tokens = (uint32_t)answer->ids.n;
    answer->total_s = w->answers->clock_s - task_of(t)->release_s;
    if (answer->ids.n == 0)
        answer->ttft_s = answer->total_s;
    ft_status status = ft_journal_done(w->how->journal, t->task, err);
    if (status == FT_OK)
        ft_progress_report(&w->how->progress, w->answers->n_done, w->answers->n);
    return status;
}

void ft_batch_text_close(ft_batch_text *t, ft_status status)
{
    ft_batch_work *w = t->work;
    if (t->state == FT_BATCH_TEXT_OPEN) {
        ft_gen_end(t->gen, status);
        w->stats->drafted += t->stats.drafted;
        w->stats->accepted += t->stats.accepted;
        w->stats->tokens += t->stats.tokens;
        w->n_open--;
        w->n_reading -= !t->heard;
        w->room_tok -= ft_batch_work_room_tok(w, t->task);
        ft_gen_destroy(t->gen);
        t->gen = NULL;
    }
    ft_tokens_deinit(&t->prompt);
    t->state = FT_BATCH_TEXT_DONE;
}

/* ---- the beginning ---- */

/* Whether an earlier process has got all tokens of the answer and did not come to say so. */
static bool is_whole(const ft_batch_text *t)
{
    const uint32_t context = context_of(t->work), most = task_of(t)->max_tokens;
    return (most > 0 && answer_of(t)->ids.n >= most) || (context > 0 && t->prompt.n >= context);
}

static ft_status open_text(ft_batch_text *t, ft_error *err)
{
    const ft_batch_opts *how = t->work->how;
    const ft_task *task = task_of(t);
    const ft_tokens *ids = &answer_of(t)->ids;
    if (ft_tokens_append(&t->prompt, task->tokens.id, task->tokens.n) != FT_OK ||
        ft_tokens_append(&t->prompt, ids->id, ids->n) != FT_OK)
        return no_memory(err);
    if (is_whole(t)) {
        const ft_status status = finish(t, FT_FINISH_LENGTH, err);
        ft_batch_text_close(t, status);
        return status;
    }
    t->request = (ft_gen_request){
        .prompt = t->prompt.id, .n_prompt = (uint32_t)t->prompt.n, .sampling = how->sampling};
    t->request.sampling.seed = task->seed;
    if (task->max_tokens > 0)
        t->request.max_tokens = task->max_tokens - (uint32_t)ids->n;
    t->sink = (ft_gen_sink){.ctx = t, .on_text = on_text, .cancelled = is_cancelled};
    ft_status status = ft_gen_create(how->edge, &t->request, &t->sink, &t->stats, err, &t->gen);
    if (status != FT_OK)
        return status;
    t->state = FT_BATCH_TEXT_OPEN;
    t->work->n_open++;
    t->work->n_reading++;
    t->work->room_tok += ft_batch_work_room_tok(t->work, t->task);
    return ft_gen_open(t->gen, err);
}

ft_status ft_batch_text_open(ft_batch_text *t, ft_error *err)
{
    return blame(task_of(t), open_text(t, err), err);
}

void ft_batch_text_set_length(ft_batch_text *t, uint32_t length)
{
    t->gen->steer.how.draft = ft_draft_params_chain(length);
}

/* A pass of the draft model over a piece of the text; the pieces are taken as alike. */
static void saw_reading(ft_batch_text *t, double us)
{
    const uint32_t n = (uint32_t)t->gen->text.n, pieces = (n + READ_TOK - 1) / READ_TOK;
    const ft_pass all = ft_pass_plus((ft_pass){0}, 0, n, 0);
    const ft_pass piece = {
        .rows = n / pieces, .ctx = all.ctx / pieces, .cached = (uint64_t)(n - n / pieces) / 2};
    ft_batch_known_saw_pass(t->work->known, FT_STATION_DRAFT, &piece, us / pieces);
    ft_batch_known_saw_reading(t->work->known, FT_STATION_DRAFT, n, us);
}

void ft_batch_text_read(ft_batch_text *t)
{
    const int64_t from_us = ft_batch_work_now_us(t->work);
    t->started = true;
    ft_drafting_start(&t->gen->drafting);
    if (t->gen->drafting.state == FT_DRAFTING_ON)
        saw_reading(t, (double)(ft_batch_work_now_us(t->work) - from_us));
}

/* ---- a verdict ---- */

/* rows: of the text in the verdict's pass, behind `past` tokens in the KV. tokens: that the verdict
 * brought; the walk to each took the logits of a row. */
static void saw_pass(const ft_batch_text *t, uint32_t past, uint32_t rows, uint32_t tokens)
{
    ft_batch_work *w = t->work;
    const ft_batch_pass verdict = {.us = t->gen->out.verify_us,
                                   .came_us = t->gen->timing.came_us,
                                   .pass = ft_pass_plus((ft_pass){0}, past, rows, tokens),
                                   .mixed = w->n_reading > 0};
    if (verdict.us > 0)
        ft_batch_passes_heard(&w->passes, &verdict);
    w->stats->verify_s = w->passes.sum_s;
}

/* before: the text's statistics before the verdict. */
static void saw_verdict(const ft_batch_text *t, const ft_gen_stats *before)
{
    ft_batch_known *known = t->work->known;
    const uint32_t drafted = (uint32_t)(t->stats.drafted - before->drafted);
    const uint32_t tokens = (uint32_t)(t->stats.tokens - before->tokens);
    if (drafted > 0)
        ft_batch_known_saw_chain(known, drafted, (uint32_t)(t->stats.accepted - before->accepted));
    if (drafted > 0 && t->gen->timing.rtt_sample.known)
        ft_batch_known_saw_trip(known, (double)t->gen->timing.rtt_sample.us * 1e-6);
    ft_batch_known_saw_text(known, tokens, t->stats.finish == FT_FINISH_STOP);
}

static void count_joint(const ft_batch_text *t)
{
    ft_batch_stats *s = t->work->stats;
    if (t->gen->out.together == 0)
        return;
    s->joint++;
    s->passes += 1.0 / t->gen->out.together;
}

static ft_status hear(ft_batch_text *t, ft_error *err)
{
    const ft_msg_draft *draft = &t->gen->out.msg.draft;
    const bool joint = draft->together > 0;
    const uint32_t past = (uint32_t)t->gen->text.n - 1, rows = 1 + draft->n;
    const ft_gen_stats before = t->stats;
    ft_status status = ft_gen_answer(t->gen, err);
    if (status == FT_OK && t->work->no_memory)
        return no_memory(err);
    if (status != FT_OK)
        return status;
    if (joint)
        count_joint(t);
    saw_pass(t, past, rows, (uint32_t)(t->stats.tokens - before.tokens));
    ft_batch_known_saw_reading(t->work->known, FT_STATION_VERIFY, t->gen->out.read_tok,
                               t->gen->out.read_us);
    saw_verdict(t, &before);
    t->work->n_reading -= !t->heard;
    t->heard = true;
    if (t->stats.finish == FT_FINISH_NONE)
        return FT_OK;
    status = finish(t, t->stats.finish, err);
    if (status == FT_OK)
        ft_batch_text_close(t, FT_OK);
    return status;
}

ft_status ft_batch_text_hear(ft_batch_text *t, ft_error *err)
{
    return blame(task_of(t), hear(t, err), err);
}
