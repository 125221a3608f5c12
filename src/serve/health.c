// SPDX-License-Identifier: Apache-2.0
// Whether the engine works. It fails if a pass fails and the self-test right after it, too: the
// cause is then a device or the machine's memory, and not a session. It hangs if the engine thread
// has not come back to its inbox for too long.
//
// The engine thread owns the state, and publishes it under the inbox's lock. This file does not
// decide what happens to a session that makes a pass fail (pass.c does).
#include "serve/health.h"

#include "base/log.h"
#include "serve/lifecycle.h"
#include "serve/verifier.h"

#define TEST_EVERY_US 1000000
/* The engine hangs if it works so much longer than ever before and than its pass should take, and
 * at least so long. Half of either takes servers out of service for one long pass; twice of either
 * delays the news. */
#define HANG_TIMES 20
#define HANG_US    30000000

/* Computes a token and its logits on a sequence of its own. */
static ft_status self_test(ft_verifier *v, ft_error *err)
{
    const int32_t token = 0;
    const uint64_t want = 1;
    const uint32_t row = 0;
    ft_seq *seq;
    ft_status status = ft_seq_create(v->engine, err, &seq);
    if (status != FT_OK)
        return status;
    ft_segment segment = {.seq = seq, .n = 1, .tokens = &token, .want = &want};
    status = ft_engine_forward_rows(v->engine, &segment, 1, err);
    if (status == FT_OK)
        status = ft_engine_head(v->engine, &row, 1, err);
    ft_seq_destroy(seq);
    return status == FT_EXHAUSTED ? FT_OK : status; /* a full pool is no failure of the engine */
}

static void publish(ft_verifier *v, const ft_error *failure)
{
    pthread_mutex_lock(&v->inbox.lock);
    v->published.failure = *failure;
    pthread_mutex_unlock(&v->inbox.lock);
}

bool ft_health_test(ft_verifier *v, const ft_error *why)
{
    ft_error err = {0}, failure;
    if (self_test(v, &err) == FT_OK)
        return true;
    const int64_t now_us = ft_clock_now_us(&v->opts.clock);
    FT_LOGE("serve", "the engine fails: %s", err.message);
    ft_error_set(&failure, FT_UNAVAILABLE, "serve: the engine fails: %.250s: try again later",
                 why->message);
    v->failing = true;
    v->test_us = now_us + TEST_EVERY_US;
    publish(v, &failure);
    for (ft_sess *s = v->sessions.first; s; s = s->next)
        if (s->handle && s->text.finish == FT_FINISH_NONE)
            ft_sess_cut(s, failure.message, now_us);
    return false;
}

bool ft_health_works(ft_verifier *v, int64_t *look_us)
{
    ft_error err = {0};
    const int64_t now_us = ft_clock_now_us(&v->opts.clock);
    if (!v->failing)
        return true;
    if (now_us >= v->test_us) {
        v->failing = self_test(v, &err) != FT_OK;
        v->test_us = now_us + TEST_EVERY_US;
    }
    if (!v->failing) {
        FT_LOGI("serve", "the engine works again");
        publish(v, &(ft_error){.code = FT_OK});
    }
    *look_us = v->test_us - now_us;
    return !v->failing;
}

ft_status ft_verifier_health(ft_verifier *verifier, ft_error *err)
{
    ft_inbox_reader reader;
    const int64_t now_us = ft_clock_now_us(&verifier->opts.clock);
    pthread_mutex_lock(&verifier->inbox.lock);
    const ft_error failure = verifier->published.failure;
    reader = verifier->inbox.engine;
    pthread_mutex_unlock(&verifier->inbox.lock);
    const int64_t us = reader.busy.known ? now_us - reader.busy.us : 0;
    const int64_t usual_us =
        reader.expected_us > reader.longest_us ? reader.expected_us : reader.longest_us;
    if (us > HANG_US && us / HANG_TIMES > usual_us)
        return ft_error_set(
            err, FT_UNAVAILABLE,
            "serve: the engine hangs: its pass takes %lld s so far, and %.1f s were "
            "to be expected",
            (long long)(us / 1000000), (double)usual_us / 1e6);
    if (failure.code != FT_OK)
        return ft_error_set(err, failure.code, "%s", failure.message);
    return FT_OK;
}
