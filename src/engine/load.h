/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a model onto the devices that a person asks for, with the products that are asked
 * for. Any thread; RPC servers are added to the process's registry (model/device.h). */
#ifndef FT_ENGINE_LOAD_H
#define FT_ENGINE_LOAD_H

#include "model/model.h"

/* Where layers go. */
typedef struct ft_device_opts {
    const char *names;    /* as in "CUDA0,RPC1"; NULL: all GPUs */
    const char *rpc;      /* "HOST:PORT,..."; NULL: no servers */
    int64_t n_gpu_layers; /* the last so many; more than there are, or -1: the head too */
    const char *kernels;  /* of the layers on the CPU, as ft_products_parse has it; NULL: auto */
} ft_device_opts;

#define FT_DEVICE_OPTS_INIT \
    {                       \
        .n_gpu_layers = -1  \
    }

/* Registers the RPC servers and finds the devices. FT_INVALID, FT_UNSUPPORTED, FT_UNAVAILABLE. */
FT_WARN_UNUSED ft_status ft_devices_open(const ft_device_opts *opts, ft_error *err,
                                         ft_devices *out);
/* The same, and loads the model there: `opts` but for its devices and what multiplies. */
FT_WARN_UNUSED ft_status ft_model_load_on(const ft_device_opts *where, const ft_model_opts *opts,
                                          ft_error *err, ft_model **out);

#endif
