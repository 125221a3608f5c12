// SPDX-License-Identifier: Apache-2.0
// Offer: its messages, and a file that goes over a real connection in chunks.
#include "fixture.h"

#define HASH  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

enum { FILE_BYTES = 21 * FT_OFFER_CHUNK + 5 }; /* more than the client asks for at a time */

typedef enum trick { HONEST, SHORT_CHUNK, OTHER_OFFSET, OTHER_FILE, REFUSED } trick;

typedef struct world {
    ft_wire_server *server;
    ft_wire_client *client;
    uint8_t *file, *got; /* [FILE_BYTES] */
    size_t n_got, at;    /* got: bytes from `at` on */
    _Atomic trick trick; /* of replies with bytes; the server's threads read it */
    size_t n_take;       /* the sink fails behind so many bytes; 0: never */
} world;

static ft_status on_offer(void *ctx, const ft_offer_request *request, ft_error *err,
                          ft_offer_reply *out)
{
    const world *w = ctx;
    const size_t left = FILE_BYTES - request->offset;
    assert_true(request->most <= FT_OFFER_CHUNK && request->offset <= FILE_BYTES);
    out->offer = (ft_offer){.sha256 = HASH, .bytes = FILE_BYTES};
    out->offset = request->offset;
    out->n = request->most < left ? request->most : left;
    memcpy(out->data, w->file + request->offset, out->n);
    if (request->offset == 0)
        return FT_OK; /* later chunks have the faults */
    if (w->trick == SHORT_CHUNK)
        out->n--;
    if (w->trick == OTHER_OFFSET)
        out->offset--;
    if (w->trick == OTHER_FILE)
        memcpy(out->offer.sha256, OTHER, sizeof OTHER);
    return w->trick == REFUSED ? ft_error_set(err, FT_UNAVAILABLE, "gone") : FT_OK;
}

static ft_status on_info(void *ctx, ft_error *err, ft_msg_info *out)
{
    return FT_OK;
}

static void on_message(void *ctx, ft_stream *stream, ft_client_msg *take_msg)
{
    fail();
}

static void on_end(void *ctx, ft_stream *stream, bool done)
{
    fail();
}

static int start(void **state, bool offers)
{
    char address[32];
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->file = malloc(FILE_BYTES);
    w->got = malloc(FILE_BYTES);
    assert_true(w->file && w->got);
    for (size_t i = 0; i < FILE_BYTES; i++)
        w->file[i] = (uint8_t)(i * 2654435761u >> 13);
    const ft_wire_server_opts server = {.host = "127.0.0.1",
                                        .handler = {.ctx = w,
                                                    .on_message = on_message,
                                                    .on_end = on_end,
                                                    .info = on_info,
                                                    .offer = offers ? on_offer : NULL}};
    assert_int_equal(ft_wire_server_create(&server, NULL, &w->server), FT_OK);
    snprintf(address, sizeof address, "127.0.0.1:%d", ft_wire_server_port(w->server));
    const ft_wire_client_opts client = {.address = address};
    assert_int_equal(ft_wire_client_create(&client, NULL, &w->client), FT_OK);
    *state = w;
    return 0;
}

static int start_offering(void **state)
{
    return start(state, true);
}

static int start_bare(void **state)
{
    return start(state, false);
}

static int stop(void **state)
{
    world *w = *state;
    ft_wire_client_destroy(w->client);
    ft_wire_server_destroy(w->server);
    free(w->file);
    free(w->got);
    free(w);
    return 0;
}

static ft_status take(void *ctx, const void *data, size_t n, ft_error *err)
{
    world *w = ctx;
    assert_true(n <= FILE_BYTES - w->at - w->n_got);
    memcpy(w->got + w->n_got, data, n);
    w->n_got += n;
    return w->n_take && w->n_got >= w->n_take ? ft_error_set(err, FT_IO, "full") : FT_OK;
}

static ft_status fetch(world *w, size_t from, ft_error *err)
{
    const ft_offer offer = {.sha256 = HASH, .bytes = FILE_BYTES};
    const ft_offer_sink sink = {take, w};
    w->at = from;
    w->n_got = 0;
    return ft_wire_client_fetch(w->client, &offer, from, &sink, err);
}

static void test_whole_and_rest(void **state)
{
    static const size_t from[] = {0, 1, FT_OFFER_CHUNK, FILE_BYTES - 1, FILE_BYTES};
    world *w = *state;
    ft_offer offer;
    assert_int_equal(ft_wire_client_offer(w->client, LIMIT_US, NULL, &offer), FT_OK);
    assert_string_equal(offer.sha256, HASH);
    assert_int_equal(offer.bytes, FILE_BYTES);
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        assert_int_equal(fetch(w, from[i], NULL), FT_OK);
        assert_int_equal(w->n_got, FILE_BYTES - from[i]);
        assert_memory_equal(w->got, w->file + from[i], w->n_got);
    }
}

static void test_faults(void **state)
{
    static const ft_status want[] = {[SHORT_CHUNK] = FT_INVALID,
                                     [OTHER_OFFSET] = FT_INVALID,
                                     [OTHER_FILE] = FT_ABORTED,
                                     [REFUSED] = FT_UNAVAILABLE};
    world *w = *state;
    for (w->trick = SHORT_CHUNK; w->trick <= REFUSED; w->trick++) {
        ft_error err = {0};
        assert_int_equal(fetch(w, 0, &err), want[w->trick]);
        assert_int_equal(w->n_got, FT_OFFER_CHUNK); /* what came before is the sink's */
        assert_true(err.message[0]);
    }
    w->trick = HONEST;
    w->n_take = 1;
    assert_int_equal(fetch(w, 0, NULL), FT_IO);
    w->n_take = 0;
    assert_int_equal(fetch(w, 0, NULL), FT_OK);
}

static void test_none(void **state)
{
    const world *w = *state;
    ft_offer offer;
    ft_error err = {0};
    assert_int_equal(ft_wire_client_offer(w->client, LIMIT_US, &err, &offer), FT_PRECONDITION);
    assert_non_null(strstr(err.message, "offers no draft model"));
}

/* A client that asks and asks, and reads nothing, is cut. */
static void test_unread(void **state)
{
    const world *w = *state;
    const ft_offer_request request = {.most = FT_OFFER_CHUNK};
    ft_call *call;
    ft_status status = FT_OK;
    assert_int_equal(ft_call_start(w->client, "/foretoken.v1.Verifier/Offer", NULL, &call), FT_OK);
    for (int i = 0; i < 1000; i++) {
        uint8_t *data;
        size_t n;
        assert_int_equal(ft_offer_request_encode(&request, NULL, &data, &n), FT_OK);
        assert_int_equal(ft_call_send_bytes(call, data, n, false, NULL), FT_OK);
    }
    int n_read = 0;
    while (status == FT_OK) {
        uint8_t *data;
        size_t n;
        status = ft_call_recv_bytes(call, LIMIT_US, NULL, &data, &n);
        n_read += status == FT_OK;
        free(data);
    }
    assert_int_equal(status, FT_EXHAUSTED);
    assert_true(n_read < 1000);
    ft_call_destroy(call);
}

static void test_messages(void **state)
{
    static ft_offer_reply reply, again;
    const ft_offer_request request = {.offset = UINT64_MAX, .most = UINT32_MAX};
    ft_offer_request same;
    uint8_t *data;
    size_t n;
    assert_int_equal(ft_offer_request_encode(&request, NULL, &data, &n), FT_OK);
    assert_int_equal(ft_offer_request_decode(data, n, NULL, &same), FT_OK);
    assert_true(same.offset == request.offset && same.most == request.most);
    assert_int_equal(ft_offer_request_decode(data, n - 1, NULL, &same), FT_INVALID);
    free(data);
    const struct {
        const char *sha256;
        uint64_t bytes, offset;
        size_t n;
        ft_status status;
    } replies[] = {
        {HASH, 10, 3, 7, FT_OK},
        {HASH, FT_OFFER_CHUNK, 0, FT_OFFER_CHUNK, FT_OK},
        {HASH, 10, 10, 0, FT_OK},
        {HASH, 10, 3, 8, FT_INVALID},
        {HASH, 10, 11, 0, FT_INVALID},
        {HASH, 0, 0, 0, FT_INVALID},
        {HASH, UINT64_MAX, UINT64_MAX, 0, FT_INVALID},
        {"../../etc", 10, 0, 1, FT_INVALID},
        {"", 10, 0, 1, FT_INVALID},
    };
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        reply = (ft_offer_reply){
            .offer.bytes = replies[i].bytes, .offset = replies[i].offset, .n = replies[i].n};
        snprintf(reply.offer.sha256, sizeof reply.offer.sha256, "%s", replies[i].sha256);
        assert_int_equal(ft_offer_reply_encode(&reply, NULL, &data, &n), FT_OK);
        assert_int_equal(ft_offer_reply_decode(data, n, NULL, &again), replies[i].status);
        if (replies[i].status == FT_OK) {
            assert_string_equal(again.offer.sha256, replies[i].sha256);
            assert_int_equal(again.n, replies[i].n);
        }
        free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole_and_rest, start_offering, stop),
        cmocka_unit_test_setup_teardown(test_faults, start_offering, stop),
        cmocka_unit_test_setup_teardown(test_none, start_bare, stop),
        cmocka_unit_test_setup_teardown(test_unread, start_offering, stop),
        cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
