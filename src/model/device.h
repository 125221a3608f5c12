/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices besides the CPU that ggml knows on this machine, or that RPC servers of ggml lend from
 * others, and which layers of a model go to which of them. The registry is the process's: servers are
 * added by one thread, before models are loaded; the rest may be called from any thread.
 */
#ifndef FT_MODEL_DEVICE_H
#define FT_MODEL_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "ggml-backend.h"

#define FT_DEVICES_MAX 12 /* of one model; ggml's scheduler takes 16 with the CPU */

/* Devices to place layers on, in this order. n is 0: everything stays on the CPU. */
typedef struct ft_devices {
    ggml_backend_dev_t dev[FT_DEVICES_MAX];
    size_t n;
} ft_devices;

/* names: as in "CUDA0,RPC1". NULL: every GPU and RPC device, integrated GPUs only where there is no
 * other; "none" or "CPU": none. FT_INVALID names the one that is unknown and those that are known. */
FT_WARN_UNUSED ft_status ft_devices_find(const char *names, ft_error *err, ft_devices *out);

typedef struct ft_device_info {
    const char *name, *description; /* borrowed from ggml */
    bool gpu;                       /* layers can be placed on it */
    size_t free_bytes, total_bytes;
} ft_device_info;

/* The first `max` devices that ggml knows, the CPU among them; returns how many there are. */
size_t ft_devices_list(ft_device_info *out, size_t max);

/* Where the layers go: place[i] is 0 for the CPU, else 1 + the number of a device; place[n_layer] is
 * the output head's. Of n_layer layers the last n_offload (negative: all) go to the devices, in
 * proportion to their free memory; the head too if n_offload is negative or more than n_layer. */
void ft_devices_split(const ft_devices *devices, uint32_t n_layer, int n_offload, uint8_t *place);

/* Whether the device can look up rows of a matrix of that type and width. */
bool ft_device_has_rows(ggml_backend_dev_t dev, enum ggml_type type, int64_t width);

/* endpoints: "HOST:PORT[,HOST:PORT]". Their devices are then known as RPC0, RPC1 and so on.
 * FT_UNSUPPORTED: ggml was built without RPC. FT_UNAVAILABLE: nobody answers there. (A server that
 * goes away later ends the process: ggml does so.) */
FT_WARN_UNUSED ft_status ft_devices_add_rpc(const char *endpoints, ft_error *err);

/* Lends this machine's devices (names as in ft_devices_find; the CPU where that finds none) to one
 * client at a time at HOST:PORT; n_threads of the CPU, 0: all cores. There is no authentication, and
 * who can connect can read and write this process's memory: for trusted networks alone. Returns only
 * when it cannot serve: FT_UNSUPPORTED, FT_INVALID, FT_IO. */
FT_WARN_UNUSED ft_status ft_devices_lend(const char *endpoint, const char *names, int n_threads,
                                         ft_error *err);

#endif
