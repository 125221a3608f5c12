/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two halves of the codec share; private to this room. Bytes from outside pass
 * ft_codec_scan, then protobuf-c unpacks them under a memory budget, then each field is checked.
 * Pure functions; any thread.
 */
#ifndef FT_WIRE_CODEC_H
#define FT_WIRE_CODEC_H

#include <protobuf-c/protobuf-c.h>

#include "wire/messages.h"

/* An allocator for protobuf-c that refuses once its budget is spent: small messages of many fields
 * would otherwise unpack into twenty times their size. The struct must not move while in use. */
typedef struct ft_codec_memory {
    ProtobufCAllocator allocator;
    size_t left_bytes;
} ft_codec_memory;

/* budget_bytes: for all allocations of unpacking; freed bytes are not given back to the budget. */
void ft_codec_memory_init(ft_codec_memory *memory, size_t budget_bytes);

/* The outermost message must hold exactly one field, whose number is within [1, max_kind] and which
 * is a message: so the union is set once and nothing is merged. name is for the error message. */
FT_WARN_UNUSED ft_status ft_codec_scan(const uint8_t *data, size_t n, uint32_t max_kind,
                                       const char *name, ft_error *err);

/* Serializes into malloc'ed bytes. */
FT_WARN_UNUSED ft_status ft_codec_pack(const ProtobufCMessage *message, ft_error *err,
                                       uint8_t **data, size_t *n);

/* Copies valid UTF-8 that fits into out[size]. */
FT_WARN_UNUSED ft_status ft_codec_string(const char *text, const char *field, char *out,
                                         size_t size, ft_error *err);

/* Copies exactly FT_SESSION_ID_LEN bytes. */
FT_WARN_UNUSED ft_status ft_codec_id(const ProtobufCBinaryData *bytes, const char *field,
                                     ft_session_id *out, ft_error *err);

/* FT_INVALID unless value is finite and within [min, max]. */
FT_WARN_UNUSED ft_status ft_codec_range(float value, float min, float max, const char *field,
                                        ft_error *err);

#endif
