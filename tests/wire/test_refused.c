// SPDX-License-Identifier: Apache-2.0
// gRPC refuses a batch: the stream ends, and what the batch held is freed at once. This program
// puts itself between the wire and gRPC, refuses a send and keeps account of message buffers.
#include "fixture.h"

#include <dlfcn.h>
#include <stdatomic.h>

enum { SLOTS = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static grpc_byte_buffer *live[SLOTS]; /* guarded by lock: made by the wire and not yet destroyed */
static atomic_int refuse_mine, refuse_others; /* sends of this thread; of others */
static pthread_t me;

static void *real(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    assert_non_null(found);
    return found;
}

static void swap(grpc_byte_buffer *from, grpc_byte_buffer *to)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SLOTS; i++)
        if (live[i] == from) {
            live[i] = to;
            break;
        }
    pthread_mutex_unlock(&lock);
}

static int count_live(void)
{
    int n = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SLOTS; i++)
        n += live[i] != NULL;
    pthread_mutex_unlock(&lock);
    return n;
}

grpc_byte_buffer *grpc_raw_byte_buffer_create(grpc_slice *slices, size_t n)
{
    grpc_byte_buffer *(*create)(grpc_slice *, size_t) = real("grpc_raw_byte_buffer_create");
    grpc_byte_buffer *buffer = create(slices, n);
    swap(NULL, buffer);
    return buffer;
}

void grpc_byte_buffer_destroy(grpc_byte_buffer *buffer)
{
    void (*destroy)(grpc_byte_buffer *) = real("grpc_byte_buffer_destroy");
    if (buffer)
        swap(buffer, NULL);
    destroy(buffer);
}

grpc_call_error grpc_call_start_batch(grpc_call *call, const grpc_op *ops, size_t n, void *tag,
                                      void *reserved)
{
    grpc_call_error (*start)(grpc_call *, const grpc_op *, size_t, void *, void *) =
        real("grpc_call_start_batch");
    atomic_int *refuse = pthread_equal(pthread_self(), me) ? &refuse_mine : &refuse_others;
    for (size_t i = 0; i < n; i++)
        if (ops[i].op == GRPC_OP_SEND_MESSAGE && atomic_load(refuse) > 0) {
            atomic_fetch_sub(refuse, 1);
            return GRPC_CALL_ERROR;
        }
    return start(call, ops, n, tag, reserved);
}

static void test_client(void **state)
{
    echo e;
    ft_wire_client *client = echo_open(&e);
    ft_call *call = open_call(client), *other = open_call(client);
    atomic_store(&refuse_mine, 1);
    send_open(call, 3);
    assert_int_equal(count_live(), 0);
    send_draft(call, 1, 2, 0); /* goes nowhere, and is kept until the end */
    expect_end(call, FT_UNAVAILABLE, "");
    ft_call_destroy(call);
    assert_int_equal(count_live(), 0);
    send_open(other, 4);
    expect_opened(other, 4);
    ft_call_destroy(other);
    echo_close(&e, client);
    assert_int_equal(e.messages, 1);
}

static void test_server(void **state)
{
    echo e;
    ft_wire_client *client = echo_open(&e);
    ft_call *call = open_call(client), *other = open_call(client);
    atomic_store(&refuse_others, 1);
    send_open(call, 3);
    expect_end(call, FT_UNAVAILABLE, "");
    ft_call_destroy(call);
    echo_wait(&e, &e.ended, 1);
    send_open(other, 4);
    expect_opened(other, 4);
    ft_call_destroy(other);
    echo_close(&e, client);
    assert_int_equal(count_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client),
        cmocka_unit_test(test_server),
    };
    me = pthread_self();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
