/* SPDX-License-Identifier: Apache-2.0
 * Flags that say where a model's layers go. */
#ifndef FT_CMD_DEVICE_FLAGS_H
#define FT_CMD_DEVICE_FLAGS_H

#include "base/flags.h"
#include "model/model.h"

typedef struct ft_device_flags {
    const char *names; /* NULL: all GPUs */
    const char *rpc;   /* NULL: no servers */
    int64_t n_gpu_layers;
} ft_device_flags;

#define FT_DEVICE_FLAGS_INIT \
    {                        \
        .n_gpu_layers = -1   \
    }

/* Rows of an ft_flag table: of the one model, or of the target where there are two. */
#define FT_DEVICE_FLAGS(d)                                                                       \
    {"--n-gpu-layers",                                                                           \
     "-ngl",                                                                                     \
     FT_FLAG_INT,                                                                                \
     &(d).n_gpu_layers,                                                                          \
     "N",                                                                                        \
     "the last N layers on devices; more than there are, or -1: head too",                       \
     -1,                                                                                         \
     1e6},                                                                                       \
        {"--device",                                                                             \
         "-dev",                                                                                 \
         FT_FLAG_STRING,                                                                         \
         &(d).names,                                                                             \
         "NAMES",                                                                                \
         "devices as in CUDA0,RPC1; none: the CPU (all GPUs; info --devices lists)",             \
         0,                                                                                      \
         0},                                                                                     \
    {                                                                                            \
        "--rpc", NULL, FT_FLAG_STRING, &(d).rpc, "SERVERS",                                      \
            "rpc-servers HOST:PORT,...: devices RPC0, ... (unencrypted: trusted networks)", 0, 0 \
    }

/* The draft's, where there are two models. */
#define FT_DRAFT_DEVICE_FLAGS(d)                                                                 \
    {"--n-gpu-layers-draft", "-ngld", FT_FLAG_INT, &(d).n_gpu_layers, "N",                       \
     "-ngl of the draft",    -1,      1e6},                                                      \
    {                                                                                            \
        "--device-draft", "-devd", FT_FLAG_STRING, &(d).names, "NAMES", "--device of the draft", \
            0, 0                                                                                 \
    }

/* Registers the RPC servers and finds the devices. FT_INVALID, FT_UNSUPPORTED, FT_UNAVAILABLE. */
FT_WARN_UNUSED ft_status ft_devices_from_flags(const ft_device_flags *flags, ft_error *err,
                                               ft_devices *out);
/* The same, and loads the model there: `opts` but for its devices, and weights are packed where that
 * was measured to be faster. */
FT_WARN_UNUSED ft_status ft_model_load_on(const ft_device_flags *flags, const ft_model_opts *opts,
                                          ft_error *err, ft_model **out);

#endif
