/* SPDX-License-Identifier: Apache-2.0
 *
 * What codec_client.c and codec_server.c share; private to this room. Bytes from outside pass
 * ft_codec_scan, then protobuf-c unpacks them within a memory budget, then each field is checked.
 * Pure functions; any thread.
 */
#ifndef FT_WIRE_CODEC_H
#define FT_WIRE_CODEC_H

#include <protobuf-c/protobuf-c.h>

#include "wire/messages.h"

/* An allocator for protobuf-c with a budget. Without it a message of many small fields would unpack
 * into twenty times its size. The struct must not move while it is in use. */
typedef struct ft_codec_memory {
    ProtobufCAllocator allocator;
    size_t left_bytes;
} ft_codec_memory;

/* budget_bytes: of all allocations together; what is freed does not return to it. */
void ft_codec_memory_init(ft_codec_memory *memory, size_t budget_bytes);

/* Checks that the outermost message has exactly one field, which is a message and has a number of 1
 * to max_kind. So protobuf-c sets the union once and merges nothing. name: for messages. */
FT_WARN_UNUSED ft_status ft_codec_scan(const uint8_t *data, size_t n, uint32_t max_kind,
                                       const char *name, ft_error *err);

/* Serializes into malloc'ed bytes. */
FT_WARN_UNUSED ft_status ft_codec_pack(const ProtobufCMessage *message, ft_error *err,
                                       uint8_t **data, size_t *n);

/* The checks of one message. All are made; the first one that fails sets status and *err. */
typedef struct ft_codec_check {
    ft_status status;
    ft_error *err;
} ft_codec_check;

/* A check has failed. */
void ft_codec_refuse(ft_codec_check *check, ft_status code, const char *fmt, ...) FT_PRINTF(3, 4);
/* Copies valid UTF-8 that fits into out[size]. */
void ft_codec_string(ft_codec_check *check, const char *text, const char *field, char *out,
                     size_t size);
/* Copies exactly FT_SESSION_ID_LEN bytes. */
void ft_codec_id(ft_codec_check *check, const ProtobufCBinaryData *bytes, const char *field,
                 ft_session_id *out);
/* Returns value, which must be finite and within [0, max]. */
float ft_codec_number(ft_codec_check *check, float value, float max, const char *field);

#endif
