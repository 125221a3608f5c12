// SPDX-License-Identifier: Apache-2.0
// Stands before ft_model_load in the tests that run on a device (tests/CMakeLists.txt): a model for
// which a test names no devices goes onto test_device(). Stateless.
#include "model/model.h"
#include "support/device.h"

ft_status __real_ft_model_load(const ft_model_opts *opts, ft_error *err, ft_model **out);
ft_status __wrap_ft_model_load(const ft_model_opts *opts, ft_error *err, ft_model **out);

ft_status __wrap_ft_model_load(const ft_model_opts *opts, ft_error *err, ft_model **out)
{
    ft_model_opts placed = *opts;
    ft_devices devices;
    if (!test_device() || opts->devices)
        return __real_ft_model_load(opts, err, out);
    *out = NULL;
    ft_status status = ft_devices_find(test_device(), err, &devices);
    if (status != FT_OK)
        return status;
    placed.devices = &devices;
    placed.n_gpu_layers = -1;
    return __real_ft_model_load(&placed, err, out);
}
