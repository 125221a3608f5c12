// SPDX-License-Identifier: Apache-2.0
// bench/load_link: messages are never early, keep their order and are all there; they take the time
// of a line's rate; what passes is counted. The inner link is the test's own and takes no time.
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/bench.h"
#include "bench/load_link.h"

#define DELAY_US 3000
#define DRAFT_B  100 /* bytes that the inner link says a draft has */

/* The far side: keeps what arrives, and answers with what it is given. */
typedef struct far_side {
    ft_link link;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct {
        ft_client_kind kind;
        uint32_t round;
        int32_t prompt_end;
        uint8_t evidence_end;
        int64_t at_us;
    } got[16];
    size_t n_got;
    ft_server_msg *answer[16];
    int64_t answered_us[16];
    size_t n_answers, n_taken;
    uint64_t bytes, prefix;
    bool over, began;
} far_side;

static far_side far;

static ft_status far_send(ft_link *link, const ft_client_msg *msg, ft_error *err)
{
    pthread_mutex_lock(&far.lock);
    far.got[far.n_got].kind = msg->kind;
    far.got[far.n_got].at_us = ft_bench_now_us();
    if (msg->kind == FT_CLIENT_DRAFT)
        far.got[far.n_got].round = msg->draft.round;
    if (msg->kind == FT_CLIENT_DRAFT && msg->draft.n_evidence)
        far.got[far.n_got].evidence_end = msg->draft.evidence[msg->draft.n_evidence - 1];
    else if (msg->kind == FT_CLIENT_OPEN)
        far.got[far.n_got].prompt_end = msg->open.prompt[msg->open.n_prompt - 1];
    far.n_got++;
    far.bytes += DRAFT_B;
    far.over = far.over || msg->kind == FT_CLIENT_CLOSE;
    pthread_cond_broadcast(&far.changed);
    pthread_mutex_unlock(&far.lock);
    return FT_OK;
}

static ft_status far_recv(ft_link *link, int64_t timeout_us, ft_error *err, ft_server_msg **out)
{
    pthread_mutex_lock(&far.lock);
    far.began = true;
    while (far.n_taken == far.n_answers && !far.over)
        pthread_cond_wait(&far.changed, &far.lock);
    *out = far.n_taken < far.n_answers ? far.answer[far.n_taken++] : NULL;
    pthread_mutex_unlock(&far.lock);
    return *out ? FT_OK : ft_error_set(err, FT_UNAVAILABLE, "the far side is gone");
}

static uint32_t far_retry(ft_link *link)
{
    return 7;
}

static void far_bytes(ft_link *link, uint64_t *sent, uint64_t *received)
{
    pthread_mutex_lock(&far.lock);
    *sent = far.bytes;
    *received = 0;
    pthread_mutex_unlock(&far.lock);
}

static void far_end(ft_link *link)
{
    pthread_mutex_lock(&far.lock);
    far.over = true;
    pthread_cond_broadcast(&far.changed);
    pthread_mutex_unlock(&far.lock);
}

/* As a stream over gRPC: once it has begun, it is too late. */
static void far_use_prefix(ft_link *link, uint64_t prefix)
{
    pthread_mutex_lock(&far.lock);
    far.prefix = far.began ? 0 : prefix;
    pthread_mutex_unlock(&far.lock);
}

static const ft_link_vtable far_vtable = {.send = far_send,
                                          .use_prefix = far_use_prefix,
                                          .recv = far_recv,
                                          .retry_after_ms = far_retry,
                                          .bytes = far_bytes,
                                          .cancel = far_end,
                                          .destroy = far_end};

static ft_status far_open(void *ctx, ft_error *err, ft_link **out)
{
    *out = &far.link;
    return FT_OK;
}

static ft_status far_health(void *ctx, ft_error *err)
{
    return FT_TIMEOUT;
}

static ft_status far_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    *out = (ft_msg_info){.protocol = 42};
    return FT_OK;
}

static void answer(uint32_t round, bool early_taken)
{
    ft_server_msg *msg = calloc(1, sizeof *msg);
    assert_non_null(msg);
    msg->kind = FT_SERVER_VERDICT;
    msg->waited_us = INT64_MAX; /* at the far side */
    msg->verdict.round = round;
    msg->verdict.n_next = 1;
    msg->verdict.early_taken = early_taken;
    pthread_mutex_lock(&far.lock);
    far.answered_us[far.n_answers] = ft_bench_now_us();
    far.answer[far.n_answers++] = msg;
    pthread_cond_broadcast(&far.changed);
    pthread_mutex_unlock(&far.lock);
}

static const ft_line_rate unlimited;

static ft_link *open_line(ft_bench_load_path *path, int64_t delay_us, const ft_line_rate *up,
                          const ft_line_rate *down)
{
    ft_link *link = NULL;
    memset(&far, 0, sizeof far);
    far.link.vt = &far_vtable;
    pthread_mutex_init(&far.lock, NULL);
    pthread_cond_init(&far.changed, NULL);
    ft_bench_load_path_init(path, (ft_link_source){.open = far_open, .info = far_info});
    path->delay_us = delay_us;
    ft_bench_load_path_limit(path, up, down);
    ft_link_source source = ft_bench_load_path_source(path);
    assert_int_equal(source.open(source.ctx, NULL, &link), FT_OK);
    return link;
}

static ft_link *open_path(ft_bench_load_path *path, int64_t delay_us)
{
    return open_line(path, delay_us, &unlimited, &unlimited);
}

static void send_draft(ft_link *link, uint32_t round, uint32_t n_under)
{
    ft_client_msg *msg = calloc(1, sizeof *msg);
    assert_non_null(msg);
    msg->kind = FT_CLIENT_DRAFT;
    msg->draft.round = round;
    msg->draft.n_under = n_under;
    assert_int_equal(link->vt->send(link, msg, NULL), FT_OK);
    free(msg);
}

static uint32_t receive_round(ft_link *link)
{
    ft_server_msg *msg = NULL;
    assert_int_equal(link->vt->recv(link, -1, NULL, &msg), FT_OK);
    assert_int_equal(msg->kind, FT_SERVER_VERDICT);
    uint32_t round = msg->verdict.round;
    ft_server_msg_free(msg);
    return round;
}

static void close_path(ft_bench_load_path *path, ft_link *link)
{
    static const ft_client_msg end = {.kind = FT_CLIENT_CLOSE};
    assert_int_equal(link->vt->send(link, &end, NULL), FT_OK);
    link->vt->destroy(link);
    ft_bench_load_path_deinit(path);
}

/* The prefix reaches the inner link before its stream begins, with a delay and without; and so does
 * the question whether the server is alive, where the inner source has an answer. */
static void test_prefix(void **state)
{
    for (int i = 0; i < 20; i++) { /* a thread that began too early would be early in some */
        ft_bench_load_path path;
        ft_link *link = open_path(&path, i % 2 ? 1000 : 0);
        sched_yield();
        link->vt->use_prefix(link, 77);
        send_draft(link, 1, 0);
        answer(1, false);
        assert_int_equal(receive_round(link), 1);
        assert_true(far.prefix == 77);
        assert_null(ft_bench_load_path_source(&path).health);
        close_path(&path, link);
    }
    ft_bench_load_path path;
    ft_bench_load_path_init(&path, (ft_link_source){.health = far_health, .name = "far"});
    const ft_link_source source = ft_bench_load_path_source(&path);
    assert_int_equal(source.health(source.ctx, NULL), FT_TIMEOUT);
    assert_string_equal(source.name, "far");
    ft_bench_load_path_deinit(&path);
}

/* Up: each message is held for the delay, in order; the prompt is the link's own copy. */
static void test_up(void **state)
{
    ft_bench_load_path path;
    ft_link *link = open_path(&path, DELAY_US);
    int32_t prompt[3] = {5, 6, 7};
    int64_t sent_us[4];
    const ft_client_msg open = {.kind = FT_CLIENT_OPEN, .open = {.prompt = prompt, .n_prompt = 3}};
    sent_us[0] = ft_bench_now_us();
    assert_int_equal(link->vt->send(link, &open, NULL), FT_OK);
    prompt[2] = -1;
    for (uint32_t i = 1; i < 4; i++) {
        sent_us[i] = ft_bench_now_us();
        send_draft(link, i, 0);
    }
    close_path(&path, link); /* what was sent before still arrives */
    assert_int_equal(far.n_got, 5);
    assert_int_equal(far.got[0].kind, FT_CLIENT_OPEN);
    assert_int_equal(far.got[0].prompt_end, 7);
    assert_int_equal(far.got[4].kind, FT_CLIENT_CLOSE);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(far.got[i].at_us >= sent_us[i] + DELAY_US);
        assert_int_equal(far.got[i].round, i);
    }
}

/* Down: the same. The delay runs from the far side's answer, not from the question for it. From its
 * end on a message waits for its reader. */
static void test_down(void **state)
{
    ft_bench_load_path path;
    ft_link *link = open_path(&path, DELAY_US);
    for (uint32_t i = 0; i < 3; i++)
        answer(i, false);
    for (uint32_t i = 0; i < 3; i++) {
        ft_server_msg *msg = NULL;
        assert_int_equal(link->vt->recv(link, -1, NULL, &msg), FT_OK);
        assert_int_equal(msg->verdict.round, i);
        const int64_t since_us = ft_bench_now_us() - far.answered_us[i] - DELAY_US;
        assert_true(msg->waited_us >= 0 && msg->waited_us <= since_us);
        ft_server_msg_free(msg);
    }
    ft_server_msg *none = NULL;
    ft_error err = {0};
    assert_int_equal(link->vt->recv(link, 0, &err, &none), FT_TIMEOUT);
    assert_null(none);
    far_end(link); /* the stream's end comes behind the last message, with its reason */
    assert_int_equal(link->vt->recv(link, -1, &err, &none), FT_UNAVAILABLE);
    assert_non_null(strstr(err.message, "gone"));
    close_path(&path, link);
}

static uint64_t bytes_of(const ft_client_msg *msg)
{
    uint8_t *bytes = NULL;
    size_t n = 0;
    assert_int_equal(ft_client_msg_encode(msg, NULL, &bytes, &n), FT_OK);
    free(bytes);
    return ft_wire_message_bytes(n);
}

/* Evidence is the link's own copy; each message also takes the time of its bytes, behind those sent
 * before; they are counted as they are sent. */
static void test_up_rate(void **state)
{
    enum { N = 4, EVIDENCE_B = 1000 };
    const ft_line_rate rate = {.bits_per_s = {2e6}};
    uint8_t evidence[EVIDENCE_B];
    ft_bench_load_path path;
    ft_link *link = open_line(&path, DELAY_US, &rate, &unlimited);
    ft_client_msg *msg = calloc(1, sizeof *msg);
    assert_non_null(msg);
    *msg = (ft_client_msg){.kind = FT_CLIENT_DRAFT,
                           .draft = {.n = 1, .parent = {-1}, .n_evidence = EVIDENCE_B}};
    msg->draft.evidence = evidence;
    const uint64_t one = bytes_of(msg);
    assert_true(one > EVIDENCE_B);
    const int64_t began_us = ft_bench_now_us();
    for (uint32_t i = 0; i < N; i++) {
        uint64_t sent, received;
        memset(evidence, (int)i, sizeof evidence);
        assert_int_equal(link->vt->send(link, msg, NULL), FT_OK);
        link->vt->bytes(link, &sent, &received);
        assert_int_equal(sent, (i + 1) * one);
        /* At most it waited for all that was sent before. */
        const ft_bench_load_sent last = ft_bench_load_path_last(&path);
        assert_int_equal(last.bytes, one);
        assert_true(last.us >= (int64_t)(one * 8 / 2) &&
                    last.us <= (int64_t)((i + 1) * one * 8 / 2));
    }
    memset(evidence, 0xff, sizeof evidence);
    free(msg);
    close_path(&path, link);
    assert_int_equal(far.n_got, N + 1);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(far.got[i].evidence_end, i);
        assert_true(far.got[i].at_us >= began_us + (int64_t)((i + 1) * one * 8 / 2) + DELAY_US);
    }
}

/* Without a delay, too. */
static void test_down_rate(void **state)
{
    const ft_line_rate rate = {.bits_per_s = {1e5}};
    ft_bench_load_path path;
    ft_link *link = open_line(&path, 0, &unlimited, &rate);
    const ft_server_msg verdict = {.kind = FT_SERVER_VERDICT, .verdict = {.n_next = 1}};
    uint8_t *bytes = NULL;
    size_t n = 0;
    assert_int_equal(ft_server_msg_encode(&verdict, NULL, &bytes, &n), FT_OK);
    free(bytes);
    for (uint32_t i = 0; i < 5; i++)
        answer(i, false);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(receive_round(link), i);
        assert_true(ft_bench_now_us() - far.answered_us[0] >=
                    (int64_t)((i + 1) * ft_wire_message_bytes(n) * 80));
    }
    close_path(&path, link);
}

/* An early draft counts where it was taken, its bytes always; a verdict has those of its code. */
static void check_traffic(int64_t delay_us)
{
    ft_bench_load_path path;
    ft_link *link = open_path(&path, delay_us);
    uint64_t sent, received;
    send_draft(link, 1, 0);
    send_draft(link, 2, 1); /* early, and taken */
    send_draft(link, 3, 1); /* early, and not */
    answer(1, true);
    answer(2, false);
    assert_int_equal(receive_round(link), 1);
    assert_int_equal(receive_round(link), 2);
    assert_int_equal(link->vt->retry_after_ms(link), 7);
    link->vt->bytes(link, &sent, &received);
    assert_true(sent <= 3 * DRAFT_B);
    static const ft_client_msg end = {.kind = FT_CLIENT_CLOSE};
    assert_int_equal(link->vt->send(link, &end, NULL), FT_OK);
    link->vt->destroy(link);
    ft_bench_load_path_wait(&path); /* all is through once the link is gone */
    ft_bench_load_traffic traffic = ft_bench_load_path_traffic(&path);
    ft_bench_load_path_deinit(&path);
    assert_int_equal(traffic.drafts, 2);
    assert_int_equal(traffic.draft_bytes, 3 * DRAFT_B);
    assert_int_equal(traffic.verdicts, 2);
    assert_true(traffic.verdict_bytes > 0);
}

static void test_traffic(void **state)
{
    check_traffic(DELAY_US);
    check_traffic(0);
}

static void test_info(void **state)
{
    ft_bench_load_path path;
    ft_link *link = open_path(&path, 0);
    ft_link_source source = ft_bench_load_path_source(&path);
    ft_msg_info info;
    assert_int_equal(source.info(source.ctx, NULL, &info), FT_OK);
    assert_int_equal(info.protocol, 42);
    close_path(&path, link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix),    cmocka_unit_test(test_up),
        cmocka_unit_test(test_down),      cmocka_unit_test(test_up_rate),
        cmocka_unit_test(test_down_rate), cmocka_unit_test(test_traffic),
        cmocka_unit_test(test_info),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
