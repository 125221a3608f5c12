// SPDX-License-Identifier: Apache-2.0
// Stands before ft_model_load in the tests that run on a device (tests/CMakeLists.txt): a model for
// which a test names no devices goes onto test_device(). If that is RPC0, servers on loopback are
// started at the first model, before the program has threads. State: whether they were.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "support/device.h"
#include "support/rpc_server.h"

ft_status __real_ft_model_load(const ft_model_opts *opts, ft_error *err, ft_model **out);
ft_status __wrap_ft_model_load(const ft_model_opts *opts, ft_error *err, ft_model **out);

static ft_status find_device(ft_error *err, ft_devices *out)
{
    static bool started;
    if (ft_devices_find(test_device(), NULL, out) == FT_OK)
        return FT_OK;
    if (!started && strcmp(test_device(), "RPC0") == 0) {
        const char *endpoints = rpc_servers_start();
        started = true;
        if (endpoints && ft_devices_add_rpc(endpoints, err) != FT_OK)
            return FT_UNAVAILABLE;
    }
    return ft_devices_find(test_device(), err, out);
}

ft_status __wrap_ft_model_load(const ft_model_opts *opts, ft_error *err, ft_model **out)
{
    ft_model_opts placed = *opts;
    ft_devices devices;
    if (!test_device() || opts->devices)
        return __real_ft_model_load(opts, err, out);
    *out = NULL;
    ft_status status = find_device(err, &devices);
    if (status != FT_OK)
        return status;
    placed.devices = &devices;
    placed.n_gpu_layers = -1;
    return __real_ft_model_load(&placed, err, out);
}
