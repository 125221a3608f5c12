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

/* A message on its way from a struct of protobuf-c into ours (reading), or the other way (writing).
 * One list of fields serves both ways. The first check that fails sets status and *err; later
 * fields are still moved, and nobody uses them. */
typedef struct ft_codec {
    bool writing;
    ft_status status;
    ft_error *err;
} ft_codec;

/* A field that any value may have. */
#define FT_CODEC_MOVE(codec, ours, theirs) \
    do {                                   \
        if ((codec)->writing)              \
            (theirs) = (ours);             \
        else                               \
            (ours) = (theirs);             \
    } while (0)

/* When read: valid UTF-8 that fits into ours[size]. When written, theirs borrows ours. */
void ft_codec_string(ft_codec *codec, char *ours, size_t size, char **theirs, const char *field);
/* When read: exactly FT_SESSION_ID_LEN bytes. When written, theirs borrows ours. */
void ft_codec_id(ft_codec *codec, ft_session_id *ours, ProtobufCBinaryData *theirs,
                 const char *field);
/* When read: finite and within [0, max]. */
void ft_codec_number(ft_codec *codec, float *ours, float *theirs, float max, const char *field);
/* A check has failed. */
void ft_codec_refuse(ft_codec *codec, ft_status code, const char *fmt, ...) FT_PRINTF(3, 4);

#endif
