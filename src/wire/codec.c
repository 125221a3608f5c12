// SPDX-License-Identifier: Apache-2.0
// The scan of the outermost message, the memory budget for unpacking, packing, and the checks of
// single fields. Pure functions. Knows no message.
#include "wire/codec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static void *budget_alloc(void *ctx, size_t size)
{
    ft_codec_memory *memory = ctx;
    if (size > memory->left_bytes)
        return NULL;
    memory->left_bytes -= size;
    return malloc(size);
}

static void budget_free(void *ctx, void *pointer)
{
    free(pointer);
}

void ft_codec_memory_init(ft_codec_memory *memory, size_t budget_bytes)
{
    memory->allocator.alloc = budget_alloc;
    memory->allocator.free = budget_free;
    memory->allocator.allocator_data = memory;
    memory->left_bytes = budget_bytes;
}

/* Reads a varint of at most ten bytes; 0 bytes: malformed. */
static size_t read_varint(const uint8_t *data, size_t n, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n && i < 10; i++) {
        value |= (uint64_t)(data[i] & 0x7f) << (7 * i);
        if (!(data[i] & 0x80)) {
            *out = value;
            return i + 1;
        }
    }
    return 0;
}

ft_status ft_codec_scan(const uint8_t *data, size_t n, uint32_t max_kind, const char *name,
                        ft_error *err)
{
    enum { WIRE_TYPE_BYTES = 2 };
    uint64_t tag = 0, length = 0;
    if (n == 0)
        return ft_error_set(err, FT_INVALID, "%s: empty message", name);
    size_t tag_len = read_varint(data, n, &tag);
    if (!tag_len)
        return ft_error_set(err, FT_INVALID, "%s: not a protobuf message", name);
    if (tag >> 3 < 1 || tag >> 3 > max_kind)
        return ft_error_set(err, FT_INVALID, "%s: unknown kind %llu: is the other side newer?",
                            name, (unsigned long long)(tag >> 3));
    size_t length_len = read_varint(data + tag_len, n - tag_len, &length);
    if ((tag & 7) != WIRE_TYPE_BYTES || !length_len)
        return ft_error_set(err, FT_INVALID, "%s: kind %llu is not a message", name,
                            (unsigned long long)(tag >> 3));
    if (length != n - tag_len - length_len)
        return ft_error_set(err, FT_INVALID,
                            "%s: kind %llu should be %llu bytes, the message holds %zu: cut or "
                            "more than one kind",
                            name, (unsigned long long)(tag >> 3), (unsigned long long)length,
                            n - tag_len - length_len);
    return FT_OK;
}

ft_status ft_codec_pack(const ProtobufCMessage *message, ft_error *err, uint8_t **data, size_t *n)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(size ? size : 1);
    if (!bytes)
        return ft_error_set(err, FT_NOMEM, "no memory for a message of %zu bytes", size);
    *n = protobuf_c_message_pack(message, bytes);
    *data = bytes;
    return FT_OK;
}

void ft_codec_refuse(ft_codec *codec, ft_status code, const char *fmt, ...)
{
    va_list args;
    if (codec->status != FT_OK)
        return;
    va_start(args, fmt);
    codec->status = ft_error_setv(codec->err, code, fmt, args);
    va_end(args);
}

void ft_codec_string(ft_codec *codec, char *ours, size_t size, char **theirs, const char *field)
{
    size_t n = codec->writing ? 0 : strlen(*theirs);
    if (codec->writing)
        *theirs = ours;
    else if (n >= size)
        ft_codec_refuse(codec, FT_INVALID, "%s: %zu bytes, at most %zu", field, n, size - 1);
    else if (!ft_utf8_valid(*theirs, n))
        ft_codec_refuse(codec, FT_INVALID, "%s: not UTF-8", field);
    else
        memcpy(ours, *theirs, n + 1);
}

void ft_codec_id(ft_codec *codec, ft_session_id *ours, ProtobufCBinaryData *theirs,
                 const char *field)
{
    if (codec->writing)
        *theirs = (ProtobufCBinaryData){.len = FT_SESSION_ID_LEN, .data = ours->bytes};
    else if (theirs->len != FT_SESSION_ID_LEN)
        ft_codec_refuse(codec, FT_INVALID, "%s: %zu bytes, must be %d", field, theirs->len,
                        FT_SESSION_ID_LEN);
    else
        memcpy(ours->bytes, theirs->data, FT_SESSION_ID_LEN);
}

void ft_codec_number(ft_codec *codec, float *ours, float *theirs, float max, const char *field)
{
    FT_CODEC_MOVE(codec, *ours, *theirs);
    if (!codec->writing && (!isfinite(*ours) || *ours < 0 || *ours > max))
        ft_codec_refuse(codec, FT_INVALID, "%s: %g, must be within [0, %g]", field, (double)*ours,
                        (double)max);
}
