// SPDX-License-Identifier: Apache-2.0
// From the flags of devices to devices. No state but ggml's registry.
#include "cmd/device_flags.h"

#include "engine/gemm_choice.h"

ft_status ft_devices_from_flags(const ft_device_flags *flags, ft_error *err, ft_devices *out)
{
    ft_status status = flags->rpc ? ft_devices_add_rpc(flags->rpc, err) : FT_OK;
    *out = (ft_devices){0};
    if (status == FT_OK && flags->n_gpu_layers != 0)
        status = ft_devices_find(flags->names, err, out);
    return status;
}

ft_status ft_model_load_on(const ft_device_flags *flags, const ft_model_opts *opts, ft_error *err,
                           ft_model **out)
{
    ft_devices devices;
    ft_model_opts placed = *opts;
    *out = NULL;
    ft_status status = ft_devices_from_flags(flags, err, &devices);
    if (status != FT_OK)
        return status;
    placed.choose = ft_gemm_choose;
    placed.devices = &devices;
    placed.n_gpu_layers = (int)flags->n_gpu_layers;
    return ft_model_load(&placed, err, out);
}
