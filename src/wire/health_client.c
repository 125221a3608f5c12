// SPDX-License-Identifier: Apache-2.0
// grpc.health.v1.Health, asked as a client: whether a server that is silent is alive. No state.
#include <stdlib.h>

#include "health.pb-c.h"
#include "wire/call.h"

#define SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING

ft_status ft_wire_client_health(ft_wire_client *client, int64_t timeout_us, ft_error *err)
{
    const ft_ask ask = {.method = FT_RPC_HEALTH, .timeout_us = timeout_us};
    uint8_t *data = NULL;
    size_t n = 0;
    ft_status status = ft_call_ask(client, &ask, err, &data, &n);
    if (status != FT_OK)
        return status;
    /* protobuf-c keeps unknown fields; a message has FT_SERVER_MSG_MAX_BYTES at most. */
    Grpc__Health__V1__HealthCheckResponse *pb =
        grpc__health__v1__health_check_response__unpack(NULL, n, data);
    free(data);
    if (!pb)
        return ft_error_set(err, FT_INVALID, "HealthCheckResponse: not a protobuf message");
    const bool serving = pb->status == SERVING;
    grpc__health__v1__health_check_response__free_unpacked(pb, NULL);
    return serving ? FT_OK
                   : ft_error_set(err, FT_UNAVAILABLE, "%s says that it is not serving",
                                  client->address);
}
