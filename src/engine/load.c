// SPDX-License-Identifier: Apache-2.0
// Loads a model onto devices that are given by name. The only state is ggml's registry.
#include "engine/load.h"

#include "engine/products.h"

ft_status ft_devices_open(const ft_device_opts *opts, ft_error *err, ft_devices *out)
{
    ft_status status = opts->rpc ? ft_devices_add_rpc(opts->rpc, err) : FT_OK;
    *out = (ft_devices){0};
    if (status == FT_OK && opts->n_gpu_layers != 0)
        status = ft_devices_find(opts->names, err, out);
    return status;
}

ft_status ft_model_load_on(const ft_device_opts *where, const ft_model_opts *opts, ft_error *err,
                           ft_model **out)
{
    ft_devices devices;
    ft_model_opts placed = *opts;
    *out = NULL;
    ft_products products;
    ft_status status = ft_products_parse(where->kernels, err, &products);
    if (status == FT_OK)
        status = ft_devices_open(where, err, &devices);
    if (status != FT_OK)
        return status;
    ft_products_apply(products, &placed);
    placed.devices = &devices;
    placed.n_gpu_layers = (int)where->n_gpu_layers;
    return ft_model_load(&placed, err, out);
}
