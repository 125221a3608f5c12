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
    ft_servers_init(&w->servers, &source, NULL, 0, NULL);
    ft_stream_init(&w->stream, &(ft_stream_opts){.servers = &w->servers,
                                                 .clock = {look_us, &w->now_us},
                                                 .met = 1, /* none: Opened tells the limits */
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

/* The pause after a text in its middle, or before it began, was lost with this code. */
static int64_t pause_after(bool begun, ft_status code, uint32_t retry_after_ms)
{
    world w = {.now_us = 1000};
    ft_error err = {0};
    ft_stream_loss loss;
    begin(&w, 10000000);
    w.f.refuse_opens = !begun;
    w.f.refuse_code = code;
    assert_int_equal(try_open(&w, &err), begun ? FT_OK : code);
    assert_int_equal(lose(&w, code, retry_after_ms, &loss), FT_OK);
    assert_int_equal(loss.retry_after_ms, retry_after_ms);
    assert_int_equal(try_open(&w, &err), FT_OK);
    assert_int_equal(w.f.resumes, begun);
    end(&w);
    return loss.pause_us;
}

static void test_a_server_says_when(void **state)
{
    static const ft_status codes[] = {FT_UNAVAILABLE, FT_EXHAUSTED};
    (void)state;
    for (int begun = 0; begun < 2; begun++)
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pause_after(begun, codes[i], 3000), 3000000);
            assert_in_range(pause_after(begun, codes[i], 0), 1, PAUSE_MOST_US);
        }
}

/* A server asks for more time than the text has left: the text tries once more when its time is
 * over. */
static void test_the_last_try(void **state)
{
    ft_error err = {0};
    ft_stream_loss loss;
    (void)state;
    for (int back = 0; back < 2; back++) {
        world w = {.now_us = 1000, .f.refuse_code = FT_UNAVAILABLE};
        begin(&w, 10000000);
        assert_int_equal(try_open(&w, &err), FT_OK);
        const int64_t began_us = w.now_us;
        assert_int_equal(lose(&w, FT_UNAVAILABLE, 60000, &loss), FT_OK);
        assert_int_equal(w.now_us - began_us, 10000000);
        w.f.refuse_opens = !back;
        assert_int_equal(try_open(&w, &err), back ? FT_OK : FT_UNAVAILABLE);
        if (!back)
            assert_int_equal(lose(&w, FT_UNAVAILABLE, 60000, &loss), FT_UNAVAILABLE);
        end(&w);
    }
    /* Nobody waits for the end of a text that has not begun: its client is told when to come. */
    world w = {.now_us = 1000, .f.refuse_code = FT_EXHAUSTED, .f.refuse_opens = 1};
    begin(&w, 10000000);
    assert_int_equal(try_open(&w, &err), FT_EXHAUSTED);
    assert_int_equal(lose(&w, FT_EXHAUSTED, 60000, &loss), FT_EXHAUSTED);
    assert_int_equal(loss.retry_after_ms, 60000);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_pauses),
        cmocka_unit_test(test_a_server_says_when),
        cmocka_unit_test(test_the_last_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
