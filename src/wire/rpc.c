// SPDX-License-Identifier: Apache-2.0
// What server and client share of gRPC's C core: start-up, the queue thread, messages. The only
// state is gRPC's own. gRPC's log lines go to our log at debug level, because every failure also
// comes back as a status.
#include "wire/rpc.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/support/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#else
#define __tsan_acquire(p) ((void)(p))
#define __tsan_release(p) ((void)(p))
#endif

static void log_line(gpr_log_func_args *args)
{
    FT_LOGD("wire", "grpc: %s", args->message);
}

static void set_up(void)
{
    /* the C library's resolver finds the same names as other programs (hosts, mDNS, containers) */
    setenv("GRPC_DNS_RESOLVER", "native", 0);
    gpr_set_log_function(log_line);
}

void ft_rpc_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up);
    grpc_init();
}

void ft_rpc_serve(grpc_completion_queue *cq)
{
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return;
        ft_rpc_tag *tag = event.tag;
        __tsan_acquire(tag);
        tag->done(tag->owner, event.success != 0);
    }
}

static void *serve_queue(void *cq)
{
    ft_rpc_serve(cq);
    return NULL;
}

ft_status ft_rpc_queue_start(ft_rpc_queue *queue, ft_error *err)
{
    ft_rpc_init();
    queue->cq = grpc_completion_queue_create_for_next(NULL);
    const ft_status status = ft_thread_start(serve_queue, queue->cq, err, &queue->thread);
    if (status == FT_OK)
        return FT_OK;
    grpc_completion_queue_shutdown(queue->cq);
    grpc_completion_queue_destroy(queue->cq);
    grpc_shutdown();
    return status;
}

void ft_rpc_queue_stop(ft_rpc_queue *queue)
{
    grpc_completion_queue_shutdown(queue->cq);
    pthread_join(queue->thread, NULL);
    grpc_completion_queue_destroy(queue->cq);
    grpc_shutdown();
}

void ft_rpc_hand_over(ft_rpc_tag *tag)
{
    __tsan_release(tag);
}

bool ft_rpc_start_batch(grpc_call *call, const grpc_op *ops, size_t n, ft_rpc_tag *tag,
                        int *outstanding)
{
    ft_rpc_hand_over(tag);
    grpc_call_error refused = grpc_call_start_batch(call, ops, n, tag, NULL);
    if (refused == GRPC_CALL_OK) {
        ++*outstanding;
        return true;
    }
    FT_LOGE("wire", "batch refused: %s", grpc_call_error_to_string(refused));
    grpc_call_cancel(call, NULL);
    return false;
}

grpc_byte_buffer *ft_rpc_wrap(uint8_t *data, size_t n)
{
    grpc_slice slice = grpc_slice_new(data, n, free);
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return buffer;
}

bool ft_rpc_unwrap(grpc_byte_buffer *buffer, grpc_slice *out)
{
    grpc_byte_buffer_reader reader;
    if (buffer->type != GRPC_BB_RAW || buffer->data.raw.compression != GRPC_COMPRESS_NONE ||
        !grpc_byte_buffer_reader_init(&reader, buffer))
        return false;
    *out = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    return true;
}

bool ft_rpc_push(ft_rpc_messages *messages, grpc_byte_buffer *take_buffer)
{
    ft_rpc_message *message = malloc(sizeof *message);
    if (!message) {
        grpc_byte_buffer_destroy(take_buffer);
        return false;
    }
    *message = (ft_rpc_message){.buffer = take_buffer,
                                .n_bytes = grpc_byte_buffer_length(take_buffer),
                                .pushed_us = ft_monotonic_us()};
    if (messages->last)
        messages->last->next = message;
    else
        messages->first = message;
    messages->last = message;
    messages->n++;
    messages->n_bytes += message->n_bytes;
    return true;
}

ft_rpc_message *ft_rpc_pop(ft_rpc_messages *messages)
{
    ft_rpc_message *message = messages->first;
    if (!message)
        return NULL;
    messages->first = message->next;
    if (!messages->first)
        messages->last = NULL;
    messages->n--;
    messages->n_bytes -= message->n_bytes;
    return message;
}

void ft_rpc_message_destroy(ft_rpc_message *message)
{
    if (message)
        grpc_byte_buffer_destroy(message->buffer);
    free(message);
}

void ft_rpc_messages_clear(ft_rpc_messages *messages)
{
    for (ft_rpc_message *message; (message = ft_rpc_pop(messages)) != NULL;)
        ft_rpc_message_destroy(message);
}

void ft_rpc_printable(grpc_slice text, char *out, size_t size)
{
    snprintf(out, size, "%.*s", (int)GRPC_SLICE_LENGTH(text),
             (const char *)GRPC_SLICE_START_PTR(text));
    ft_utf8_line(out);
}

grpc_arg ft_rpc_int(const char *key, int value)
{
    grpc_arg arg = {.type = GRPC_ARG_INTEGER, .key = (char *)key};
    arg.value.integer = value;
    return arg;
}
