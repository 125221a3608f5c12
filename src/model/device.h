/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices besides the CPU: those that ggml finds on this machine, those that ggml's RPC servers
 * lend from other machines, and which layers of a model go to which device. The registry belongs to
 * the process: one thread adds servers, before models are loaded. Any thread may call the rest.
 */
#ifndef FT_MODEL_DEVICE_H
#define FT_MODEL_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "ggml-backend.h"

#define FT_DEVICES_MAX 12 /* most devices of one model; ggml's scheduler takes 16 with the CPU */

/* Devices for layers, in this order. n is 0: everything stays on the CPU. */
typedef struct ft_devices {
    ggml_backend_dev_t dev[FT_DEVICES_MAX];
    size_t n;
} ft_devices;

/* Finds devices. names: such as "CUDA0,RPC1"; NULL: every GPU and RPC device (integrated GPUs only
 * if there is no other); "none" or "CPU": none. FT_INVALID names the unknown device and the known
 * ones. */
FT_WARN_UNUSED ft_status ft_devices_find(const char *names, ft_error *err, ft_devices *out);

typedef struct ft_device_info {
    const char *name, *description; /* borrowed from ggml */
    bool gpu;                       /* layers can be placed on it */
    size_t free_bytes, total_bytes;
} ft_device_info;

/* Writes the first `max` devices that ggml knows, the CPU among them. Returns how many there
 * are. */
size_t ft_devices_list(ft_device_info *out, size_t max);

/* Decides where layers go: place[i] is 0 for the CPU, else 1 + the number of a device;
 * place[n_layer] is the place of the output head. The last n_offload of n_layer layers (negative:
 * all) go to the devices, in proportion to their free memory. The output head goes there, too, if
 * n_offload is negative or more than n_layer. */
void ft_devices_split(const ft_devices *devices, uint32_t n_layer, int n_offload, uint8_t *place);

/* Whether the device can look up rows of a matrix of this type and width. */
bool ft_device_has_rows(ggml_backend_dev_t dev, enum ggml_type type, int64_t width);

/* Adds RPC servers. endpoints: "HOST:PORT[,HOST:PORT]". Their devices are named RPC0, RPC1 and so
 * on. FT_UNSUPPORTED: ggml was built without RPC. FT_UNAVAILABLE: no server answers there. (If a
 * server disappears later, ggml ends the process; the log says which one: model/peers.h.) */
FT_WARN_UNUSED ft_status ft_devices_add_rpc(const char *endpoints, ft_error *err);

/* Lends this machine's devices (names as in ft_devices_find; the CPU if that finds none) to one
 * client at a time at HOST:PORT. n_threads: of the CPU; 0: all cores. There is no authentication:
 * whoever can connect can read and write this process's memory, so use it only in trusted networks.
 * Returns only when it cannot serve: FT_UNSUPPORTED, FT_INVALID, FT_IO. */
FT_WARN_UNUSED ft_status ft_devices_lend(const char *endpoint, const char *names, int n_threads,
                                         ft_error *err);

#endif
