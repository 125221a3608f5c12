// SPDX-License-Identifier: Apache-2.0
// What only packed files have: keys, checksums of the metadata, names. Stateless; any thread. It
// reads no weights: model_load.c does and checks their hashes. Where each tensor must lie follows
// from the plan of the weights (ft_plan_file_order).
#include "model/packed_file.h"

#include <inttypes.h>
#include <string.h>

#include "xxhash.h"

/* ---- the header's checksum ---- */

static void add(XXH3_state_t *state, const void *data, size_t n)
{
    (void)XXH3_64bits_update(state, data, n); /* fails for a NULL state only */
}

static void add_number(XXH3_state_t *state, uint64_t number)
{
    add(state, &number, sizeof number);
}

static void add_text(XXH3_state_t *state, const char *text)
{
    add(state, text, strlen(text) + 1); /* the NUL keeps neighbours apart */
}

static void add_array(XXH3_state_t *state, const struct gguf_context *gguf, int64_t key)
{
    const enum gguf_type type = gguf_get_arr_type(gguf, key);
    const size_t n = gguf_get_arr_n(gguf, key);
    add_number(state, type);
    add_number(state, n);
    if (type == GGUF_TYPE_STRING)
        for (size_t i = 0; i < n; i++)
            add_text(state, gguf_get_arr_str(gguf, key, i));
    else
        add(state, gguf_get_arr_data(gguf, key), n * ft_gguf_scalar_bytes(type));
}

static void add_key(XXH3_state_t *state, const struct gguf_context *gguf, int64_t key)
{
    const enum gguf_type type = gguf_get_kv_type(gguf, key);
    add_text(state, gguf_get_key(gguf, key));
    add_number(state, type);
    if (type == GGUF_TYPE_ARRAY)
        add_array(state, gguf, key);
    else if (type == GGUF_TYPE_STRING)
        add_text(state, gguf_get_val_str(gguf, key));
    else
        add(state, gguf_get_val_data(gguf, key), ft_gguf_scalar_bytes(type));
}

ft_status ft_keys_hash(const struct gguf_context *gguf, bool (*counts)(const char *key),
                       uint64_t *out)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return FT_NOMEM;
    (void)XXH3_64bits_reset(state);
    for (int64_t i = 0; i < gguf_get_n_kv(gguf); i++)
        if (counts(gguf_get_key(gguf, i)))
            add_key(state, gguf, i);
    *out = XXH3_64bits_digest(state);
    (void)XXH3_freeState(state);
    return FT_OK;
}

ft_status ft_packed_header(const struct gguf_context *gguf, uint64_t *out)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return FT_NOMEM;
    (void)XXH3_64bits_reset(state);
    add_number(state, gguf_get_version(gguf));
    for (int64_t i = 0; i < gguf_get_n_kv(gguf); i++)
        if (strcmp(gguf_get_key(gguf, i), FT_KEY_PACKED_HEADER) != 0)
            add_key(state, gguf, i);
    for (int64_t i = 0; i < gguf_get_n_tensors(gguf); i++) {
        add_text(state, gguf_get_tensor_name(gguf, i));
        add_number(state, gguf_get_tensor_type(gguf, i));
        add(state, gguf_get_tensor_ne(gguf, i), GGML_MAX_DIMS * sizeof(int64_t));
    }
    *out = XXH3_64bits_digest(state);
    (void)XXH3_freeState(state);
    return FT_OK;
}

/* ---- keys ---- */

/* The values of a key that must be an array of n 64-bit numbers; NULL after an error. */
static const uint64_t *numbers(ft_gguf *gguf, const char *key, size_t n)
{
    ft_gguf_arr array = ft_gguf_array(gguf, key, GGUF_TYPE_UINT64, true);
    if (array.id >= 0 && array.n != n)
        ft_gguf_refuse(gguf, FT_CORRUPT, "GGUF key '%s' has %zu numbers, not %zu", key, array.n, n);
    return gguf->st == FT_OK ? gguf_get_arr_data(gguf->ctx, array.id) : NULL;
}

static void check_header(ft_gguf *gguf)
{
    const int64_t id = gguf_find_key(gguf->ctx, FT_KEY_PACKED_HEADER);
    uint64_t header = 0;
    if (id < 0 || gguf_get_kv_type(gguf->ctx, id) != GGUF_TYPE_UINT64)
        ft_gguf_refuse(gguf, FT_CORRUPT, "GGUF key '%s' is not a 64-bit number",
                       FT_KEY_PACKED_HEADER);
    else if (ft_packed_header(gguf->ctx, &header) != FT_OK)
        ft_gguf_refuse(gguf, FT_NOMEM, "out of memory");
    else if (gguf_get_val_u64(gguf->ctx, id) != header)
        ft_gguf_refuse(gguf, FT_CORRUPT,
                       "its metadata is damaged: make the file anew with foretoken model pack");
}

/* The key is only in the files of a cache. */
static uint64_t read_of(ft_gguf *gguf)
{
    const int64_t id = gguf_find_key(gguf->ctx, FT_KEY_PACKED_OF);
    if (id < 0)
        return 0;
    if (gguf_get_kv_type(gguf->ctx, id) == GGUF_TYPE_UINT64)
        return gguf_get_val_u64(gguf->ctx, id);
    ft_gguf_refuse(gguf, FT_CORRUPT, "GGUF key '%s' is not a 64-bit number", FT_KEY_PACKED_OF);
    return 0;
}

ft_status ft_packed_read(ft_gguf *gguf, ft_packed *out)
{
    uint32_t version = 0;
    *out = (ft_packed){.is = gguf_find_key(gguf->ctx, FT_KEY_PACKED_VERSION) >= 0};
    if (!out->is)
        return gguf->st;
    ft_gguf_u32(gguf, FT_KEY_PACKED_VERSION, true, &version);
    if (version != FT_PACKED_VERSION)
        ft_gguf_refuse(gguf, FT_UNSUPPORTED,
                       "a packed file of version %" PRIu32 "; version %d can be read: make it anew "
                       "with foretoken model pack",
                       version, FT_PACKED_VERSION);
    const uint64_t *sums = numbers(gguf, FT_KEY_PACKED_SUMS, 2);
    out->hash = numbers(gguf, FT_KEY_PACKED_HASH, (size_t)gguf_get_n_tensors(gguf->ctx));
    out->of = read_of(gguf);
    if (sums)
        memcpy(out->sums, sums, sizeof out->sums);
    if (gguf->st == FT_OK)
        check_header(gguf);
    if (gguf_get_alignment(gguf->ctx) != FT_PACKED_ALIGNMENT)
        ft_gguf_refuse(gguf, FT_CORRUPT, "GGUF key 'general.alignment' of a packed file is not %d",
                       FT_PACKED_ALIGNMENT);
    return gguf->st;
}

ft_status ft_packed_refuse(ft_gguf *gguf)
{
    if (gguf_find_key(gguf->ctx, FT_KEY_PACKED_VERSION) >= 0)
        ft_gguf_refuse(gguf, FT_UNSUPPORTED,
                       "a packed file (foretoken model pack): pass the file that it was made from");
    return gguf->st;
}

bool ft_packed_name(const char *name)
{
    static const char suffix[] = ".packed";
    const size_t n = strlen(name), n_suffix = sizeof suffix - 1;
    return n > n_suffix && strcmp(name + n - n_suffix, suffix) == 0;
}
