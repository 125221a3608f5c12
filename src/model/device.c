// SPDX-License-Identifier: Apache-2.0
// Finds devices by name and divides layers among them. The only state is ggml's registry. It
// allocates and computes nothing on a device; remote.c handles servers of other machines.
#include "model/device.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* If ggml's backends are separate libraries, it has none until they are searched for. A ggml with
 * built-in backends must not search: it would load libraries from the current folder. */
static void load_backends(void)
{
    if (ggml_backend_dev_count() == 0)
        ggml_backend_load_all();
}

static bool is_gpu(ggml_backend_dev_t dev)
{
    enum ggml_backend_dev_type type = ggml_backend_dev_type(dev);
    return type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU;
}

size_t ft_devices_list(ft_device_info *out, size_t max)
{
    load_backends();
    size_t n = ggml_backend_dev_count();
    for (size_t i = 0; i < n && i < max; i++) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        out[i] = (ft_device_info){.name = ggml_backend_dev_name(dev),
                                  .description = ggml_backend_dev_description(dev),
                                  .gpu = is_gpu(dev)};
        ggml_backend_dev_memory(dev, &out[i].free_bytes, &out[i].total_bytes);
    }
    return n;
}

static ft_status add(ft_devices *devices, ggml_backend_dev_t dev, ft_error *err)
{
    if (devices->n == FT_DEVICES_MAX)
        return ft_error_set(err, FT_INVALID, "more than %d devices: name fewer with --device",
                            FT_DEVICES_MAX);
    devices->dev[devices->n++] = dev;
    return FT_OK;
}

static ft_status find_all(enum ggml_backend_dev_type type, ft_error *err, ft_devices *out)
{
    ft_status status = FT_OK;
    for (size_t i = 0; i < ggml_backend_dev_count() && status == FT_OK; i++)
        if (ggml_backend_dev_type(ggml_backend_dev_get(i)) == type)
            status = add(out, ggml_backend_dev_get(i), err);
    return status;
}

static ft_status unknown(const char *name, int length, ft_error *err)
{
    char known[256] = "none";
    size_t at = 4;
    for (size_t i = 0; i < ggml_backend_dev_count() && at < sizeof known; i++)
        if (is_gpu(ggml_backend_dev_get(i)))
            at += (size_t)snprintf(known + at, sizeof known - at, ", %s",
                                   ggml_backend_dev_name(ggml_backend_dev_get(i)));
    return ft_error_set(err, FT_INVALID, "no device '%.*s': pass one or several of %s", length,
                        name, known);
}

static ft_status find_one(const char *name, int length, ft_error *err, ft_devices *out)
{
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        const char *its = ggml_backend_dev_name(dev);
        if (strlen(its) != (size_t)length || strncasecmp(its, name, (size_t)length) != 0)
            continue;
        if (!is_gpu(dev))
            break;
        for (size_t j = 0; j < out->n; j++)
            if (out->dev[j] == dev)
                return ft_error_set(err, FT_INVALID, "device %s is named twice", its);
        return add(out, dev, err);
    }
    return unknown(name, length, err);
}

ft_status ft_devices_find(const char *names, ft_error *err, ft_devices *out)
{
    *out = (ft_devices){0};
    load_backends();
    if (!names) {
        ft_status status = find_all(GGML_BACKEND_DEVICE_TYPE_GPU, err, out);
        return status == FT_OK && out->n == 0 ? find_all(GGML_BACKEND_DEVICE_TYPE_IGPU, err, out)
                                              : status;
    }
    if (strcasecmp(names, "none") == 0 || strcasecmp(names, "cpu") == 0)
        return FT_OK;
    for (;;) {
        int length = (int)strcspn(names, ",");
        ft_status status = find_one(names, length, err, out);
        if (status != FT_OK || !names[length])
            return status;
        names += length + 1;
    }
}

void ft_devices_split(const ft_devices *devices, uint32_t n_layer, int n_offload, uint8_t *place)
{
    double share[FT_DEVICES_MAX] = {0}, total = 0;
    bool head = n_offload < 0 || (uint32_t)n_offload > n_layer;
    uint32_t n = head ? n_layer : (uint32_t)n_offload, first = n_layer - n, d = 0;
    memset(place, 0, n_layer + 1);
    if (devices->n == 0)
        return;
    for (size_t i = 0; i < devices->n; i++) {
        size_t free_bytes = 0, total_bytes = 0;
        ggml_backend_dev_memory(devices->dev[i], &free_bytes, &total_bytes);
        share[i] = free_bytes ? (double)free_bytes : 1; /* some devices do not report it */
        total += share[i];
    }
    double end = share[0];
    for (uint32_t i = 0; i < n; i++) {
        while (d + 1 < devices->n && ((double)i + 0.5) / n * total > end)
            end += share[++d];
        place[first + i] = (uint8_t)(d + 1);
    }
    if (head)
        place[n_layer] = (uint8_t)(d + 1);
}

bool ft_device_has_rows(ggml_backend_dev_t dev, enum ggml_type type, int64_t width)
{
    struct ggml_init_params params = {.mem_size = 4 * ggml_tensor_overhead(), .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    if (!ctx)
        return false;
    struct ggml_tensor *rows = ggml_get_rows(ctx, ggml_new_tensor_2d(ctx, type, width, 32),
                                             ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 4));
    bool can = ggml_backend_dev_supports_op(dev, rows);
    ggml_free(ctx);
    return can;
}
