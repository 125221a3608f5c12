// SPDX-License-Identifier: Apache-2.0
// Places weights that the CPU multiplies with. Our own layout comes first, for the weights that the
// engine chooses. For the others, the CPU backend is asked which of its buffer types can multiply
// with a weight: first its extra ("repacked") types, because batches run 2 to 3 times faster with
// them, then plain memory. It knows no other device: model.c decides which layers go to GPUs and
// RPC servers (ft_devices_split), and their weights never come here. No state except ggml's own
// registry; any thread.
#include "model/placement.h"

#include <string.h>

#include "model/pack.h"

/* ggml's AMX products end the process on some shapes (llama.cpp issue 20824). */
static bool may_use(ggml_backend_buffer_type_t type)
{
    return strcmp(ggml_backend_buft_name(type), "AMX") != 0;
}

ft_status ft_placer_init(ft_placer *placer, unsigned flags, ft_pack_choice *choose, ft_error *err)
{
    *placer = (ft_placer){.dev = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU),
                          .choose = choose};
    if (!placer->dev)
        return ft_error_set(err, FT_INTERNAL, "ggml was built without its CPU backend");
    ggml_backend_dev_get_extra_bufts_t get_extra = NULL;
    placer->pack = flags == 0;
    if (placer->pack)
        placer->type[placer->n++] = ggml_backend_dev_buffer_type(placer->dev);
    if (!(flags & FT_PLACE_NO_REPACK))
        get_extra = (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(
            ggml_backend_dev_backend_reg(placer->dev), "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t *extra = get_extra ? get_extra(placer->dev) : NULL;
    for (; extra && *extra && placer->n < FT_PLACE_MAX - 1; extra++)
        if (may_use(*extra))
            placer->type[placer->n++] = *extra;
    placer->type[placer->n++] = ggml_backend_dev_buffer_type(placer->dev);
    return FT_OK;
}

/* Whether the device can multiply with w in this buffer type. It is asked with an empty buffer. */
static bool can_multiply(const ft_placer *placer, struct ggml_tensor *w,
                         struct ggml_tensor *product, ggml_backend_buffer_type_t type)
{
    w->buffer = ggml_backend_buft_alloc_buffer(type, 0);
    if (!w->buffer)
        return false;
    bool can = ggml_backend_dev_supports_op(placer->dev, product);
    ggml_backend_buffer_free(w->buffer);
    w->buffer = NULL;
    return can;
}

/* The best of ggml's places for a matrix. */
static size_t place_by_ggml(const ft_placer *placer, enum ggml_type type, int64_t n_in,
                            int64_t n_out)
{
    struct ggml_init_params params = {.mem_size = 4 * ggml_tensor_overhead(), .no_alloc = true};
    size_t at = placer->pack ? 1 : 0;
    struct ggml_context *ctx = at + 1 < placer->n ? ggml_init(params) : NULL;
    if (!ctx)
        return ft_place_plain(placer);
    struct ggml_tensor *w = ggml_new_tensor_2d(ctx, type, n_in, n_out);
    struct ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n_in, 64);
    struct ggml_tensor *product = ggml_mul_mat(ctx, w, x);
    while (at + 1 < placer->n && !can_multiply(placer, w, product, placer->type[at]))
        at++;
    ggml_free(ctx);
    return at;
}

size_t ft_place_matrix(const ft_placer *placer, enum ggml_type type, int64_t n_in, int64_t n_out)
{
    bool pack = placer->pack && ft_pack_fits(type, n_in, n_out) &&
                (!placer->choose || placer->choose(type, n_in, n_out));
    return pack ? 0 : place_by_ggml(placer, type, n_in, n_out);
}

bool ft_place_is_packed(const ft_placer *placer, size_t place)
{
    return placer->pack && place == 0;
}

size_t ft_place_plain(const ft_placer *placer)
{
    return placer->n - 1;
}
