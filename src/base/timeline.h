/* SPDX-License-Identifier: Apache-2.0
 *
 * A timeline: a file that says what was done when, for Perfetto (ui.perfetto.dev) and
 * chrome://tracing. The format is the Trace Event format's array, one event a line. Times are
 * microseconds of the monotonic clock, which all processes of a machine share. A process that is
 * killed leaves an array without its end, which both programs read.
 *
 * Adding an event never waits for the disk: events wait in memory of a fixed size for one thread
 * that writes them. An event is dropped if that memory is full, or the file is full or cannot be
 * written any more; the first time, the log has one warning. */
#ifndef FT_BASE_TIMELINE_H
#define FT_BASE_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* The track of what a process does once at a time, such as a server's passes. Numbers that are
 * taken have the tracks above it. */
#define FT_TIMELINE_MAIN          1
#define FT_TIMELINE_ARGS          6
#define FT_TIMELINE_NAME          48 /* bytes of a track's name */
#define FT_TIMELINE_DEFAULT_BYTES (64ull << 20)

typedef struct ft_timeline ft_timeline;

typedef struct ft_timeline_opts {
    const char *path;    /* made anew */
    const char *process; /* what viewers call this process; copied */
    uint64_t max_bytes;  /* of the file; 0: FT_TIMELINE_DEFAULT_BYTES */
} ft_timeline_opts;

typedef struct ft_timeline_arg {
    const char *name; /* a literal; NULL: there is none */
    int64_t value;
} ft_timeline_arg;

/* Something that took time on a track, or happened at one moment (end_us == begin_us). What is on
 * one track must not overlap, except one wholly within the other. */
typedef struct ft_timeline_event {
    const char *name; /* a literal */
    uint32_t track;
    int64_t begin_us, end_us;
    ft_timeline_arg arg[FT_TIMELINE_ARGS];
} ft_timeline_event;

/* FT_IO: the file cannot be written; the message names it. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_timeline_open(const ft_timeline_opts *opts, ft_error *err,
                                          ft_timeline **out);
/* Writes what waits, ends the array and frees the timeline. NULL is legal. */
void ft_timeline_close(ft_timeline *timeline);

/* Any thread. NULL: nothing is done. */
void ft_timeline_add(ft_timeline *timeline, const ft_timeline_event *event);
/* Names a track. The name must have no quotes, backslashes or control characters. Any thread; NULL:
 * nothing is done. */
void ft_timeline_name(ft_timeline *timeline, uint32_t track, const char *name);

/* Takes the lowest number that nobody has, so that what runs at the same time has tracks of its own
 * and others use them again. If too many are taken, several share the last. Any thread. */
uint32_t ft_timeline_take(ft_timeline *timeline);
void ft_timeline_give(ft_timeline *timeline, uint32_t number);

/* Appends another timeline's events between two times, after all that was added before. That file
 * must be closed or its process gone; lines that are no event of a timeline are left out. FT_IO: it
 * cannot be read. */
FT_WARN_UNUSED ft_status ft_timeline_include(ft_timeline *timeline, const char *path,
                                             int64_t from_us, int64_t until_us, ft_error *err);

/* Waits until every event added so far is written or dropped. Any thread. */
void ft_timeline_flush(ft_timeline *timeline);
/* Events that were dropped so far. Any thread. */
uint64_t ft_timeline_dropped(ft_timeline *timeline);

#endif
