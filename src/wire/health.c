// SPDX-License-Identifier: Apache-2.0
// grpc.health.v1.Health. Check answers once. Watch answers at once, and again when the answer
// changes. No token is needed: probes have none, and the answer tells nothing else. State: a
// stream's `watching` and the server's `unwell` and `draining`, guarded by the server's lock.
#include <stdlib.h>
#include <string.h>

#include "health.pb-c.h"
#include "wire/codec.h"
#include "wire/stream.h"

typedef Grpc__Health__V1__HealthCheckResponse reply_pb;

#define SERVING         GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

static void tell(ft_stream *stream, int status)
{
    reply_pb pb = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    pb.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)status;
    uint8_t *data = NULL;
    size_t n = 0;
    ft_error err;
    if (ft_codec_pack(&pb.base, &err, &data, &n) == FT_OK)
        ft_stream_send_bytes(stream, data, n);
    else
        ft_stream_finish(stream, err.code, err.message, 0);
}

void ft_health_tell(ft_stream *stream, bool serving)
{
    tell(stream, serving ? SERVING : NOT_SERVING);
}

/* 1: the server, or its service; 0: an unknown service; -1: malformed. */
static int know_service(const uint8_t *data, size_t n)
{
    enum { REQUEST_MAX_BYTES = 1024 };
    ft_codec_memory memory;
    if (n > REQUEST_MAX_BYTES)
        return -1;
    ft_codec_memory_init(&memory, 8 * REQUEST_MAX_BYTES);
    Grpc__Health__V1__HealthCheckRequest *pb =
        grpc__health__v1__health_check_request__unpack(&memory.allocator, n, data);
    if (!pb)
        return -1;
    int known = !*pb->service || !strcmp(pb->service, "foretoken.v1.Verifier");
    grpc__health__v1__health_check_request__free_unpacked(pb, &memory.allocator);
    return known;
}

void ft_health_on_request(ft_stream *stream, const uint8_t *data, size_t n)
{
    bool watch = stream->method == FT_METHOD_HEALTH_WATCH;
    int known = know_service(data, n);
    if (known < 0) {
        ft_stream_finish(stream, FT_INVALID, "not a HealthCheckRequest", 0);
        return;
    }
    if (!known && !watch) {
        ft_stream_finish(stream, FT_NOT_FOUND, "unknown service", 0);
        return;
    }
    /* under the server's lock, so that the watcher misses no change after this answer */
    pthread_mutex_lock(&stream->server->lock);
    if (!known)
        tell(stream, SERVICE_UNKNOWN);
    else
        ft_health_tell(stream, ft_wire_server_serves(stream->server));
    stream->watching = watch && known;
    pthread_mutex_unlock(&stream->server->lock);
    if (!watch)
        ft_stream_finish(stream, FT_OK, "", 0);
}
