// SPDX-License-Identifier: Apache-2.0
// How long a text's stream pauses after a loss, and when it gives up. The clock is ours: a pause
// takes exactly its time.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "edge/stream.h"
#include "support/fake_verifier.h"
#include "support/tiny_model.h"

#define PAUSE_MOST_US 250000

typedef struct world {
    fake f;
    ft_servers servers;
    ft_gen_stats stats;
    ft_stream stream;
    int64_t now_us;
} world;

static int64_t look_us(void *ctx)
{
    return *(const int64_t *)ctx;
}

static void begin(world *w, int64_t reconnect_us)
{
    const ft_link_source source = fake_source(&w->f);
    tiny_quiet();
    ft_servers_init(&w->servers, &source, NULL, 0);
    ft_stream_init(&w->stream, &(ft_stream_opts){.servers = &w->servers,
                                                 .clock = {look_us, &w->now_us},
                                                 .reconnect_us = reconnect_us,
                                                 .stats = &w->stats});
}

static void end(world *w)
{
    ft_stream_close(&w->stream, FT_CLIENT_CANCEL);
    ft_servers_deinit(&w->servers);
}

/* Opens or resumes; FT_OK: Opened came. */
static ft_status try_open(world *w, ft_error *err)
{
    const int32_t prompt[] = {FAKE_FIRST_BYTE + 'x', FAKE_FIRST_BYTE + 'y'};
    ft_msg_open open = {.protocol = FT_PROTOCOL, .prompt = prompt, .n_prompt = 2};
    ft_server_msg *msg = NULL;
    assert_int_equal(ft_stream_open(&w->stream, &open, err), FT_OK);
    ft_status status = ft_stream_recv(&w->stream, 0, err, &msg);
    if (status == FT_OK)
        status = ft_stream_opened(&w->stream, &msg->opened, 2, 0, err);
    ft_server_msg_free(msg);
    return status;
}

/* The stream is lost with this; the server may ask for a time. */
static ft_status lose(world *w, ft_status code, uint32_t retry_after_ms, ft_stream_loss *loss)
{
    ft_error err = {.code = code, .message = "lost"};
    w->f.retry_after_ms = retry_after_ms;
    const ft_status status = ft_stream_recover(&w->stream, code, &err, loss);
    if (status == FT_OK)
        w->now_us += loss->pause_us;
    return status;
}

/* A server that says nothing of a time is asked again after a quarter of a second at most, however
 * long it has been gone; until the time is over. */
static void test_short_pauses(void **state)
{
    enum { PATIENCE_US = 10000000 };
    world w = {.now_us = 1000, .f.refuse_code = FT_UNAVAILABLE};
    ft_error err = {0};
    ft_stream_loss loss;
    uint32_t tries = 0;
    (void)state;
    begin(&w, PATIENCE_US);
    assert_int_equal(try_open(&w, &err), FT_OK);
    const int64_t began_us = w.now_us;
    w.f.refuse_opens = UINT32_MAX;
    while (lose(&w, FT_UNAVAILABLE, 0, &loss) == FT_OK) {
        assert_in_range(loss.pause_us, 1, PAUSE_MOST_US);
        assert_int_equal(try_open(&w, &err), FT_UNAVAILABLE);
        tries++;
    }
    assert_in_range(w.now_us - began_us, PATIENCE_US - PAUSE_MOST_US, PATIENCE_US);
    assert_in_range(tries, PATIENCE_US / PAUSE_MOST_US, 60);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_short_pauses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
