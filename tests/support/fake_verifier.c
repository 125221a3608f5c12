// SPDX-License-Identifier: Apache-2.0
// The verifier that fails on demand, its links, and drafts for it. What must never come to a server
// ends the test.
#include "support/fake_verifier.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

typedef struct fake_link {
    ft_link link;
    fake *f;
    ft_server_msg *queue[256];
    size_t n, at;
    ft_status over; /* FT_OK: alive */
    bool silent;
    bool asked; /* a draft was sent over it */
} fake_link;

int32_t fake_token(uint32_t length, int32_t last)
{
    return FAKE_FIRST_BYTE + 'a' + (int32_t)((length * 7 + (uint32_t)last * 3) % 26);
}

static ft_server_msg *push(fake_link *l, ft_server_kind kind)
{
    ft_server_msg *msg = calloc(1, sizeof *msg);
    assert_non_null(msg);
    msg->kind = kind;
    if (l->at == l->n)
        l->at = l->n = 0;
    assert_true(l->n < 256);
    l->queue[l->n++] = msg;
    return msg;
}

static ft_msg_limits limits_of(const fake *f)
{
    return (ft_msg_limits){.max_tree = f->max_tree ? f->max_tree : 8, .max_context = 256};
}

static void open_session(fake_link *l, const ft_msg_open *open)
{
    fake *f = l->f;
    assert_int_equal(open->protocol, FT_PROTOCOL);
    memcpy(f->open_model, open->model, sizeof f->open_model);
    f->resumes += open->resume;
    f->opens += !open->resume;
    assert_true(open->has_nonce);
    f->nonces += memcmp(&f->nonce, &open->nonce, sizeof f->nonce) != 0;
    f->nonce = open->nonce;
    if (open->vocab_fingerprint != f->fingerprint ||
        (f->target && open->target && open->target != f->target)) {
        l->over = FT_PRECONDITION;
        return;
    }
    uint32_t *mute = open->resume ? &f->mute_resumes : &f->mute_opens;
    if (*mute > 0) {
        (*mute)--;
        l->silent = true;
        return;
    }
    uint32_t *refuse = open->resume && f->refuse_resumes ? &f->refuse_resumes : &f->refuse_opens;
    if (*refuse > 0 || (!open->resume && f->opens == f->refuse_nth)) {
        *refuse -= *refuse > 0;
        l->over = f->refuse_code;
        return;
    }
    if (open->resume &&
        (!f->alive || open->session.bytes[0] != 42 || open->secret.bytes[0] != 43)) {
        l->over = FT_NOT_FOUND;
        return;
    }
    if (open->resume && open->base != f->length && !f->whole) { /* as a run leaves it behind */
        f->alive = false;
        l->over = FT_PRECONDITION;
        return;
    }
    if (!open->resume) {
        assert_true(open->n_prompt > 0);
        f->alive = true;
        f->length = open->n_prompt;
        f->last = open->prompt[open->n_prompt - 1];
        f->last_round = f->generated = 0;
        f->ended = false;
        f->max_tokens = open->max_tokens;
    }
    ft_msg_opened *opened = &push(l, FT_SERVER_OPENED)->opened;
    opened->session.bytes[0] = 42;
    opened->secret.bytes[0] = 43;
    opened->length = f->length;
    opened->last_round = f->last_round;
    opened->limits = limits_of(f);
    opened->target = f->target;
    strcpy(opened->model, "fake");
}

/* One more token; false: the text has ended with it. */
static bool grow(fake *f)
{
    bool eos = f->end_at && f->length + 1 >= f->end_at;
    f->last = eos ? FAKE_EOS : fake_token(f->length, f->last);
    f->length++;
    f->generated++;
    f->recorded.length = f->length;
    if (eos)
        f->recorded.finish = FT_FINISH_STOP;
    else if (f->max_tokens && f->generated == f->max_tokens)
        f->recorded.finish = FT_FINISH_LENGTH;
    f->ended = f->recorded.finish != FT_FINISH_NONE;
    return !f->ended;
}

/* Makes the next verdict of the round: all of a tree's, one token of a run. */
static void verify(fake *f, const ft_msg_draft *draft, uint32_t run_left)
{
    int32_t at = -1;
    ft_msg_verdict *v = &f->recorded;
    *v = (ft_msg_verdict){.round = draft->round};
    f->last_round = draft->round;
    f->whole = true;
    bool on = grow(f);
    for (uint32_t i = 0; i < draft->n; i++)
        if (draft->parent[i] == at && draft->token[i] == f->last && on) {
            v->path[v->n_path++] = (uint32_t)(at = (int32_t)i);
            on = grow(f);
        } else if (draft->parent[i] == at && draft->token[i] == f->last) {
            v->path[v->n_path++] = i;
            return; /* ended inside the path */
        }
    v->next[v->n_next++] = f->last;
    v->more = run_left > 1 && on;
    f->whole = !v->more && run_left == (draft->run ? draft->run : 1);
}

/* false: the stream says nothing more. */
static bool answer(fake_link *l, const ft_msg_draft *draft, uint32_t run_left, fake_fault now)
{
    fake *f = l->f;
    const bool ends = now == FAKE_RESTART || now == FAKE_OTHER || now == FAKE_GONE;
    if (now != FAKE_CUT && !ends && now != FAKE_SILENT && now != FAKE_TAKEN && now != FAKE_FAIL &&
        now != FAKE_STRANGE && now != FAKE_FULL)
        verify(f, draft, run_left);
    if (ends)
        f->alive = false;
    if (now == FAKE_OTHER)
        f->target = f->other;
    if (now == FAKE_GONE)
        f->refuse_opens = UINT32_MAX;
    if (now == FAKE_CUT || now == FAKE_CUT_ANSWERED || ends)
        l->over = FT_UNAVAILABLE;
    else if (now == FAKE_FAIL)
        l->over = FT_INTERNAL, f->alive = false;
    else if (now == FAKE_STRANGE)
        l->over = FT_PRECONDITION, f->alive = false;
    else if (now == FAKE_FULL)
        l->over = FT_EXHAUSTED;
    else if (now == FAKE_TAKEN)
        l->over = FT_ABORTED;
    else if (now == FAKE_CANCEL)
        l->over = FT_CANCELLED;
    else if (now == FAKE_SILENT)
        l->silent = true;
    if (l->over != FT_OK || l->silent)
        return false;
    if (now == FAKE_STALE) {
        ft_msg_verdict *old = &push(l, FT_SERVER_VERDICT)->verdict;
        *old = f->recorded;
        old->round--;
    }
    ft_msg_verdict *v = &push(l, FT_SERVER_VERDICT)->verdict;
    *v = f->recorded;
    if (now == FAKE_AHEAD)
        v->round++;
    else if (now == FAKE_LONG)
        v->length++;
    else if (now == FAKE_FOREIGN)
        v->next[0] = 1 << 20;
    else if (now == FAKE_OFF_PATH)
        v->n_path = 1, v->path[0] = 7;
    else if (now == FAKE_EARLY)
        v->more = false;
    else if (now == FAKE_ENDLESS)
        v->more = true;
    else if (now == FAKE_SURPLUS)
        v->n_next += draft->n + draft->run + 1, v->length += draft->n + draft->run + 1;
    return true;
}

static void take_draft(fake_link *l, const ft_msg_draft *draft)
{
    fake *f = l->f;
    uint32_t run = draft->run ? draft->run : 1;
    assert_true(draft->n == 0 || draft->run == 0);
    assert_true(draft->n <= limits_of(f).max_tree);
    if (f->ended && draft->n == 0 && draft->round == f->last_round + 1)
        return; /* sent ahead of the end */
    if (f->last_round > 0 && draft->round == f->last_round && f->whole) {
        push(l, FT_SERVER_VERDICT)->verdict = f->recorded;
        return;
    }
    assert_int_equal(draft->round, f->last_round + 1);
    assert_int_equal(draft->base, f->length);
    if (l->at < l->n && l->queue[l->n - 1]->kind == FT_SERVER_VERDICT) {
        assert_int_equal(draft->n, 0);
        f->runs_ahead++;
    }
    for (uint32_t left = draft->n ? 1 : run; left > 0; left--) {
        f->verdicts++;
        bool hit = f->verdicts == f->fault_at || (f->again && f->verdicts > f->fault_at);
        if (!answer(l, draft, left, hit ? f->fault : FAKE_NONE) || f->ended)
            return;
    }
}

static ft_status fake_send(ft_link *link, const ft_client_msg *msg, ft_error *err)
{
    fake_link *l = (fake_link *)link;
    fake *f = l->f;
    if (l->over != FT_OK || (l->silent && msg->kind == FT_CLIENT_DRAFT))
        return FT_OK; /* errors show in recv */
    if (msg->kind == FT_CLIENT_OPEN) {
        open_session(l, &msg->open);
    } else if (msg->kind == FT_CLIENT_DRAFT) {
        l->asked = true;
        take_draft(l, &msg->draft);
    } else {
        f->closes += msg->kind == FT_CLIENT_CLOSE;
        f->cancels += msg->kind == FT_CLIENT_CANCEL;
        f->alive = false;
        l->over = FT_CANCELLED;
    }
    return FT_OK;
}

static ft_status fake_recv(ft_link *link, int64_t timeout_us, ft_error *err, ft_server_msg **out)
{
    fake_link *l = (fake_link *)link;
    *out = NULL;
    if (l->at < l->n) {
        *out = l->queue[l->at++];
        return FT_OK;
    }
    if (l->over == FT_OK && (l->silent || (timeout_us == 0 && !l->asked)))
        return ft_error_set(err, FT_TIMEOUT, "nothing yet");
    assert_int_not_equal(l->over, FT_OK); /* nothing is awaited that does not come */
    return ft_error_set(err, l->over, "fake: %s", ft_status_text(l->over));
}

static uint32_t fake_retry(ft_link *link)
{
    return ((fake_link *)link)->f->retry_after_ms;
}

static void fake_bytes(ft_link *link, uint64_t *sent, uint64_t *received)
{
    *sent = 10;
    *received = 20;
}

static void fake_cancel(ft_link *link)
{
    ((fake_link *)link)->over = FT_CANCELLED;
}

static void fake_use_prefix(ft_link *link, uint64_t prefix)
{
    ((fake_link *)link)->f->prefix = prefix;
}

static void fake_destroy(ft_link *link)
{
    fake_link *l = (fake_link *)link;
    while (l->at < l->n)
        free(l->queue[l->at++]);
    free(l);
}

static const ft_link_vtable fake_vtable = {.send = fake_send,
                                           .recv = fake_recv,
                                           .retry_after_ms = fake_retry,
                                           .bytes = fake_bytes,
                                           .cancel = fake_cancel,
                                           .destroy = fake_destroy,
                                           .use_prefix = fake_use_prefix};

static ft_status fake_open(void *ctx, ft_error *err, ft_link **out)
{
    fake_link *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->link.vt = &fake_vtable;
    l->f = ctx;
    *out = &l->link;
    return FT_OK;
}

static ft_status fake_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    const fake *f = ctx;
    *out = (ft_msg_info){.protocol = FT_PROTOCOL, .vocab_fingerprint = f->fingerprint};
    out->limits = limits_of(f);
    if (f->absent)
        return ft_error_set(err, FT_UNAVAILABLE, "not there");
    return f->refuse_code == FT_IO ? ft_error_set(err, FT_IO, "no info") : FT_OK;
}

static ft_status fake_health(void *ctx, ft_error *err)
{
    const fake *f = ctx;
    return f->health == FT_OK ? FT_OK : ft_error_set(err, f->health, "not well");
}

ft_link_source fake_source(fake *f)
{
    return (ft_link_source){.ctx = f,
                            .open = fake_open,
                            .info = fake_info,
                            .health = f->tells_health ? fake_health : NULL,
                            .name = f->name};
}

/* ---- drafts: the text's own tokens, but for every third, and besides each a wrong one ---- */

static void candidates(uint32_t length, int32_t last, ft_draft_children *out)
{
    int32_t right = fake_token(length, last);
    out->n = 0;
    if (length % 3)
        out->at[out->n++] = (ft_draft_child){.token = right, .logp = -0.1f};
    out->at[out->n++] = (ft_draft_child){.token = FAKE_FIRST_BYTE + 'A', .logp = -3};
}

static ft_status source_forward(ft_draft_request *requests, size_t n, ft_error *err)
{
    for (size_t r = 0; r < n; r++) {
        ft_draft_request *q = &requests[r];
        ft_draft_source *s = q->source;
        q->status = FT_OK;
        if (q->parents) {
            for (uint32_t i = 0; i < q->n; i++)
                candidates(s->n_past + q->depths[i] + 1, q->tokens[i], &q->children[i]);
            s->n_pending += q->n;
        } else {
            s->n_past += q->n;
            if (q->children)
                candidates(s->n_past, q->tokens[q->n - 1], q->children);
        }
    }
    return FT_OK;
}

static ft_status source_commit(ft_draft_source *s, const uint32_t *path, uint32_t n_path,
                               const uint32_t *keep, uint32_t n_keep, ft_error *err)
{
    s->n_past += n_path;
    s->n_pending = n_keep;
    return FT_OK;
}

static void source_truncate(ft_draft_source *s, uint32_t n_past)
{
    s->n_past = n_past;
    s->n_pending = 0;
}

static uint32_t source_room(const ft_draft_source *s)
{
    return 4096 - s->n_past - s->n_pending;
}

static void source_destroy(ft_draft_source *s)
{
    free(s);
}

static const ft_draft_source_ops source_ops = {.destroy = source_destroy,
                                               .forward = source_forward,
                                               .commit = source_commit,
                                               .truncate = source_truncate,
                                               .room_tok = source_room};

static ft_status make_source(void *ctx, const ft_rule *rule, const ft_sampling *sampling,
                             ft_error *err, ft_draft_source **out)
{
    ft_draft_source *s = calloc(1, sizeof *s);
    assert_non_null(s);
    *s = (ft_draft_source){.ops = &source_ops,
                           .group = ctx,
                           .n_ctx = 256,
                           .max_text = 64,
                           .max_leaves = 64,
                           .total_tok = 4096};
    *out = s;
    return FT_OK;
}

ft_draft_source_factory fake_drafts(void)
{
    return (ft_draft_source_factory){.create = make_source, .n_ctx = 256};
}

/* ---- a text ---- */

static const int32_t prompt[] = {FAKE_FIRST_BYTE + 'x', FAKE_FIRST_BYTE + 'y'};

ft_status fake_generate(ft_edge *edge, const ft_gen_sink *sink, uint32_t max_tokens, ft_error *err,
                        ft_gen_stats *stats)
{
    const ft_gen_request request = {.prompt = prompt,
                                    .n_prompt = 2,
                                    .sampling = ft_sampling_default(),
                                    .max_tokens = max_tokens};
    return ft_edge_generate(edge, &request, sink, err, stats);
}

void fake_check_text(const char *text, size_t n, uint32_t n_tokens)
{
    int32_t last = prompt[1];
    assert_int_equal(n, n_tokens);
    for (uint32_t i = 0; i < n_tokens; i++) {
        last = fake_token(2 + i, last);
        assert_int_equal(text[i], last - FAKE_FIRST_BYTE);
    }
}
