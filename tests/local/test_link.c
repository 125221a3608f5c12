// SPDX-License-Identifier: Apache-2.0
// The link to a verifier in the same process: it opens, drafts and closes as a stream does; what
// comes and how it ends is told by recv alone; a link that goes without Close leaves its session to
// be resumed; a key's name gives the key's limits.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "local/link.h"
#include "support/gate.h"
#include "support/local_client.h"
#include "support/target.h"

enum { WAIT_US = 30000000, N_PROMPT = 4 };

static const int32_t prompt[N_PROMPT] = {5, 6, 7, 8};

static ft_link *open_link(ft_verifier *v)
{
    const ft_link_source source = ft_local_link_source(v);
    ft_error err = {0};
    ft_link *link = NULL;
    assert_int_equal(source.open(source.ctx, &err, &link), FT_OK);
    return link;
}

static ft_status try_open(ft_link *link, const ft_msg_open *open, ft_error *err)
{
    const ft_client_msg msg = {.kind = FT_CLIENT_OPEN, .open = *open};
    return link->vt->send(link, &msg, err);
}

static ft_msg_open open_msg(void)
{
    return (ft_msg_open){.protocol = FT_PROTOCOL,
                         .vocab_fingerprint = ft_vocab_fingerprint(target.vocab),
                         .prompt = prompt,
                         .n_prompt = N_PROMPT};
}

static void must_send(ft_link *link, const ft_client_msg *msg)
{
    ft_error err = {0};
    if (link->vt->send(link, msg, &err) != FT_OK)
        fail_msg("%s", err.message);
}

static void must_open(ft_link *link)
{
    const ft_msg_open open = open_msg();
    ft_error err = {0};
    if (try_open(link, &open, &err) != FT_OK)
        fail_msg("%s", err.message);
}

static ft_server_msg *must_recv(ft_link *link, ft_server_kind kind)
{
    ft_error err = {0};
    ft_server_msg *msg = NULL;
    if (link->vt->recv(link, WAIT_US, &err, &msg) != FT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(msg->kind, kind);
    return msg;
}

static ft_status recv_end(ft_link *link, int64_t timeout_us)
{
    ft_error err = {0};
    ft_server_msg *msg = NULL;
    ft_status status = link->vt->recv(link, timeout_us, &err, &msg);
    assert_null(msg);
    return status;
}

static void send_run(ft_link *link, uint32_t round, uint32_t base, uint32_t run)
{
    ft_client_msg *msg = calloc(1, sizeof *msg);
    assert_non_null(msg);
    msg->kind = FT_CLIENT_DRAFT;
    msg->draft.round = round;
    msg->draft.base = base;
    msg->draft.run = run;
    must_send(link, msg);
    free(msg);
}

/* Reads a run's verdicts; returns its tokens. */
static uint32_t read_run(ft_link *link)
{
    uint32_t tokens = 0;
    bool more = true;
    while (more) {
        ft_server_msg *msg = must_recv(link, FT_SERVER_VERDICT);
        tokens += msg->verdict.n_next;
        more = msg->verdict.more;
        ft_server_msg_free(msg);
    }
    return tokens;
}

static void test_one_session(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    ft_link *link = open_link(v);
    const ft_client_msg end = {.kind = FT_CLIENT_CLOSE};
    const ft_msg_open open = open_msg();
    uint64_t sent = 1, received = 1;
    ft_error err = {0};
    assert_int_equal(recv_end(link, 0), FT_TIMEOUT);
    must_open(link);
    assert_int_equal(try_open(link, &open, &err), FT_INVALID);
    ft_server_msg_free(must_recv(link, FT_SERVER_OPENED));
    send_run(link, 1, N_PROMPT, 3);
    assert_int_equal(read_run(link), 3);
    assert_int_equal(recv_end(link, 0), FT_TIMEOUT);
    link->vt->bytes(link, &sent, &received);
    assert_true(sent == 0 && received == 0);
    must_send(link, &end);
    assert_int_equal(recv_end(link, WAIT_US), FT_CANCELLED); /* its own end */
    send_run(link, 2, N_PROMPT + 3, 3);                      /* to nobody */
    assert_int_equal(recv_end(link, WAIT_US), FT_CANCELLED);
    link->vt->destroy(link);
    test_verifier_expect_empty(v);
    ft_verifier_destroy(v);
}

static void test_refusal(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.max_sessions = 1});
    ft_link *first = open_link(v), *second = open_link(v);
    must_open(first);
    ft_server_msg_free(must_recv(first, FT_SERVER_OPENED));
    must_open(second);
    assert_int_equal(recv_end(second, WAIT_US), FT_EXHAUSTED);
    assert_true(second->vt->retry_after_ms(second) > 0);
    assert_int_equal(first->vt->retry_after_ms(first), 0);
    first->vt->destroy(first);
    second->vt->destroy(second);
    ft_verifier_destroy(v);
}

static void test_cancel(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){0});
    ft_link *link = open_link(v);
    must_open(link);
    link->vt->cancel(link);
    assert_int_equal(recv_end(link, WAIT_US), FT_CANCELLED);
    link->vt->destroy(link);
    ft_verifier_destroy(v);
}

/* Gone without Close is a lost stream. */
static void test_resume(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.session_ttl_s = 60});
    ft_link *link = open_link(v);
    ft_msg_open resume = open_msg();
    ft_error err = {0};
    must_open(link);
    ft_server_msg *opened = must_recv(link, FT_SERVER_OPENED);
    resume.resume = true;
    resume.session = opened->opened.session;
    resume.secret = opened->opened.secret;
    resume.prompt = NULL;
    resume.n_prompt = 0;
    resume.base = N_PROMPT;
    ft_server_msg_free(opened);
    link->vt->destroy(link);
    link = open_link(v);
    assert_int_equal(try_open(link, &resume, &err), FT_OK);
    opened = must_recv(link, FT_SERVER_OPENED);
    assert_int_equal(opened->opened.length, N_PROMPT);
    assert_int_equal(opened->opened.last_round, 0);
    ft_server_msg_free(opened);
    link->vt->destroy(link);
    ft_verifier_destroy(v);
}

static void test_tenant(void **state)
{
    static const char text[] =
        "{\"keys\": [{\"token\": \"0123456789abcdef\", \"name\": \"team-a\", \"sessions\": 1}]}";
    ft_error err = {0};
    ft_keys *keys = NULL;
    ft_keyring *ring = NULL;
    assert_int_equal(ft_keys_read(text, strlen(text), &err, &keys), FT_OK);
    assert_int_equal(ft_keyring_create(keys, &err, &ring), FT_OK);
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.keys = ring});
    ft_link *unknown = open_link(v), *a = open_link(v), *b = open_link(v);
    const ft_msg_open open = open_msg();
    unknown->vt->use_client(unknown, &(ft_client_id){.tenant = "team-b"});
    assert_int_equal(try_open(unknown, &open, &err), FT_UNAUTHENTICATED);
    assert_non_null(strstr(err.message, "team-b"));
    a->vt->use_client(a, &(ft_client_id){.tenant = "team-a"});
    b->vt->use_client(b, &(ft_client_id){.tenant = "team-a"});
    must_open(a);
    ft_server_msg_free(must_recv(a, FT_SERVER_OPENED));
    must_open(b);
    assert_int_equal(recv_end(b, WAIT_US), FT_EXHAUSTED);
    assert_int_equal(local_count_key(v, "team-a").sessions, 1);
    unknown->vt->destroy(unknown);
    a->vt->destroy(a);
    b->vt->destroy(b);
    ft_verifier_destroy(v);
    ft_keyring_destroy(ring);
}

static void test_info(void **state)
{
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.max_tree = 7});
    const ft_link_source source = ft_local_link_source(v);
    ft_error err = {0};
    ft_msg_info info;
    assert_int_equal(source.info(source.ctx, &err, &info), FT_OK);
    assert_int_equal(info.limits.max_tree, 7);
    ft_verifier_destroy(v);
}

/* Who asks for Info over the link learns that the engine hangs: `serve --http-port` tells it in
 * /health. */
static void test_info_of_a_hanging_engine(void **state)
{
    _Atomic int64_t now_us = 1000000;
    ft_verifier *v = test_verifier_start((ft_verifier_opts){.clock = test_shared_clock(&now_us)});
    const ft_link_source source = ft_local_link_source(v);
    ft_error err = {0};
    ft_msg_info info;
    test_gate gate;
    test_gate_shut(&gate, v);
    now_us += 31000000;
    assert_int_equal(source.info(source.ctx, &err, &info), FT_UNAVAILABLE);
    assert_non_null(strstr(err.message, "hangs"));
    test_gate_open(&gate);
    ft_verifier_tick(v);
    assert_int_equal(source.info(source.ctx, &err, &info), FT_OK);
    ft_verifier_destroy(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_session),
        cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_tenant),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_info_of_a_hanging_engine),
    };
    return cmocka_run_group_tests(tests, test_target_setup, test_target_teardown);
}
