// SPDX-License-Identifier: Apache-2.0
// The timeline's file. Events are copied into a buffer of fixed size. When it is half full or a
// second old, the writing thread takes it and gives the callers the other one.
//
// Invariants: the file is an array without its end after every write of whole lines; a write that
// fails is cut off, and nothing is written after it. Threads: `mutex` guards `filling` and the
// fields below it; it is the last lock that its holder takes. The file belongs to the writing
// thread from open to close.
#include "base/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/thread.h"

#define WAITING_MOST 4096       /* events in each of two buffers, of some 200 bytes */
#define BATCH_US     1000000    /* longest time that an event waits to be written */
#define NUMBERS      256        /* for ft_timeline_take */
#define LINE_MOST    1024       /* bytes of an event's line; ours have 300 at most */
#define FIRST        "{\"ts\":" /* what the line of an event with a time begins with */

typedef struct entry {
    ft_timeline_event event;
    char name[FT_TIMELINE_NAME]; /* not empty: of the event's track, and there is no event */
} entry;

typedef struct buffer {
    entry *at; /* [WAITING_MOST] */
    size_t n;
} buffer;

struct ft_timeline {
    char *path;
    uint64_t max_bytes;
    long pid;

    pthread_mutex_t mutex;
    pthread_cond_t wake;  /* the writing thread: the first event, half a buffer, or the end */
    pthread_cond_t empty; /* for whoever waits until all is written */
    /* guarded by mutex */
    buffer filling;
    bool stop, hurry, writing_now;
    bool over; /* the file is full or broken: events are dropped */
    uint64_t dropped;
    bool taken[NUMBERS];

    /* the writing thread's */
    pthread_t thread;
    buffer writing;
    int file;
    uint64_t bytes; /* of whole lines in the file */
};

/* ---- the file ---- */

/* FT_IO: all of it is cut off again. */
static ft_status write_text(ft_timeline *t, const char *text, size_t n)
{
    size_t done = 0;
    while (done < n) {
        const ssize_t wrote = write(t->file, text + done, n - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            break;
        done += (size_t)wrote;
    }
    const int why = errno;
    if (done == n) {
        t->bytes += n;
        return FT_OK;
    }
    if (ftruncate(t->file, (off_t)t->bytes) == 0)
        (void)lseek(t->file, (off_t)t->bytes, SEEK_SET);
    errno = why;
    return FT_IO;
}

static void append_args(const ft_timeline_event *e, ft_buf *out)
{
    ft_buf_printf(out, "\"args\":{");
    for (int i = 0; i < FT_TIMELINE_ARGS && e->arg[i].name; i++)
        ft_buf_printf(out, "%s\"%s\":%" PRId64, i ? "," : "", e->arg[i].name, e->arg[i].value);
    ft_buf_printf(out, "}}");
}

static void append_line(const ft_timeline *t, const entry *it, ft_buf *out)
{
    const ft_timeline_event *e = &it->event;
    ft_buf_printf(out, ",\n");
    if (it->name[0]) {
        ft_buf_printf(out,
                      "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%ld,\"tid\":%u,"
                      "\"args\":{\"name\":\"%s\"}}",
                      t->pid, e->track, it->name);
        return;
    }
    ft_buf_printf(out, FIRST "%" PRId64 ",", e->begin_us);
    if (e->end_us > e->begin_us)
        ft_buf_printf(out, "\"ph\":\"X\",\"dur\":%" PRId64 ",", e->end_us - e->begin_us);
    else
        ft_buf_printf(out, "\"ph\":\"i\",\"s\":\"t\",");
    ft_buf_printf(out, "\"pid\":%ld,\"tid\":%u,\"name\":\"%s\",", t->pid, e->track, e->name);
    append_args(e, out);
}

/* The file gets no more events. why: what a person is told. */
static void give_up(ft_timeline *t, const char *why)
{
    FT_LOGW("base", "timeline: events are dropped from now on file=%s reason=\"%s\"", t->path, why);
    pthread_mutex_lock(&t->mutex);
    t->over = true;
    pthread_mutex_unlock(&t->mutex);
}

static bool is_over(ft_timeline *t)
{
    pthread_mutex_lock(&t->mutex);
    const bool over = t->over;
    pthread_mutex_unlock(&t->mutex);
    return over;
}

/* Writes lines, whole ones; false: none of them is in the file. */
static bool write_lines(ft_timeline *t, const ft_buf *lines)
{
    if (is_over(t))
        return false;
    if (lines->failed) {
        give_up(t, "out of memory");
    } else if (t->bytes + lines->len > t->max_bytes) {
        give_up(t, "it is as large as it may be: --timeline-mb");
    } else if (write_text(t, lines->data, lines->len) != FT_OK) {
        give_up(t, strerror(errno));
    } else {
        return true;
    }
    return false;
}

static void write_buffer(ft_timeline *t)
{
    ft_buf lines = {0};
    for (size_t i = 0; i < t->writing.n; i++)
        append_line(t, &t->writing.at[i], &lines);
    const bool written = write_lines(t, &lines);
    ft_buf_deinit(&lines);
    if (written)
        return;
    pthread_mutex_lock(&t->mutex);
    t->dropped += t->writing.n;
    pthread_mutex_unlock(&t->mutex);
}

/* ---- the writing thread ---- */

/* Waits for events and takes them. False: the timeline is being closed, and all is written. Called
 * under the mutex. */
static bool take_batch(ft_timeline *t)
{
    t->writing_now = false;
    pthread_cond_broadcast(&t->empty);
    while (!t->stop && t->filling.n == 0)
        pthread_cond_wait(&t->wake, &t->mutex);
    const int64_t deadline_us = ft_deadline_us(BATCH_US);
    while (!t->stop && !t->hurry && t->filling.n < WAITING_MOST / 2 &&
           ft_cond_wait_until(&t->wake, &t->mutex, deadline_us)) {
    }
    const buffer empty = {.at = t->writing.at};
    t->writing = t->filling;
    t->filling = empty;
    t->hurry = false;
    t->writing_now = t->writing.n > 0;
    return t->writing_now;
}

static void *writer_main(void *arg)
{
    ft_timeline *t = arg;
    pthread_mutex_lock(&t->mutex);
    while (take_batch(t)) {
        pthread_mutex_unlock(&t->mutex);
        write_buffer(t);
        pthread_mutex_lock(&t->mutex);
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

void ft_timeline_flush(ft_timeline *t)
{
    pthread_mutex_lock(&t->mutex);
    while (t->filling.n > 0 || t->writing_now) {
        t->hurry = true;
        pthread_cond_signal(&t->wake);
        pthread_cond_wait(&t->empty, &t->mutex);
    }
    pthread_mutex_unlock(&t->mutex);
}

/* ---- for everybody ---- */

static ft_status begin_file(ft_timeline *t, const char *process, ft_error *err)
{
    ft_buf head = {0};
    t->file = open(t->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (t->file < 0)
        return ft_error_set(err, FT_IO, "timeline: %.300s cannot be written: %s", t->path,
                            strerror(errno));
    ft_buf_printf(&head,
                  "[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%ld,\"args\":{\"name\":"
                  "\"%s\"}}",
                  t->pid, process);
    ft_status status = head.failed ? ft_error_set(err, FT_NOMEM, "timeline: out of memory") : FT_OK;
    if (status == FT_OK && write_text(t, head.data, head.len) != FT_OK)
        status = ft_error_set(err, FT_IO, "timeline: %.300s cannot be written: %s", t->path,
                              strerror(errno));
    ft_buf_deinit(&head);
    return status;
}

static void free_timeline(ft_timeline *t)
{
    if (t->file >= 0)
        close(t->file);
    pthread_cond_destroy(&t->wake);
    pthread_cond_destroy(&t->empty);
    pthread_mutex_destroy(&t->mutex);
    free(t->filling.at);
    free(t->writing.at);
    free(t->path);
    free(t);
}

ft_status ft_timeline_open(const ft_timeline_opts *opts, ft_error *err, ft_timeline **out)
{
    ft_timeline *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return ft_error_set(err, FT_NOMEM, "timeline: out of memory");
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->wake, NULL);
    pthread_cond_init(&t->empty, NULL);
    t->file = -1;
    t->pid = (long)getpid();
    t->max_bytes = opts->max_bytes ? opts->max_bytes : FT_TIMELINE_DEFAULT_BYTES;
    t->path = strdup(opts->path);
    t->filling.at = calloc(WAITING_MOST, sizeof *t->filling.at);
    t->writing.at = calloc(WAITING_MOST, sizeof *t->writing.at);
    ft_status status = t->path && t->filling.at && t->writing.at
                           ? begin_file(t, opts->process, err)
                           : ft_error_set(err, FT_NOMEM, "timeline: out of memory");
    if (status == FT_OK)
        status = ft_thread_start(writer_main, t, err, &t->thread);
    if (status != FT_OK)
        free_timeline(t);
    else
        *out = t;
    return status;
}

void ft_timeline_close(ft_timeline *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->mutex);
    t->stop = true;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->mutex);
    pthread_join(t->thread, NULL);
    if (write_text(t, "\n]\n", 3) != FT_OK && !t->over)
        FT_LOGW("base", "timeline: the file has no end file=%s reason=\"%s\"", t->path,
                strerror(errno));
    if (t->dropped > 0)
        FT_LOGI("base", "timeline: file=%s dropped=%" PRIu64, t->path, t->dropped);
    free_timeline(t);
}

static void put(ft_timeline *t, const entry *it)
{
    bool first_drop = false;
    pthread_mutex_lock(&t->mutex);
    buffer *b = &t->filling;
    if (t->over || b->n == WAITING_MOST) {
        first_drop = !t->over && t->dropped == 0;
        t->dropped++;
    } else {
        b->at[b->n++] = *it;
        if (b->n == 1 || b->n == WAITING_MOST / 2)
            pthread_cond_signal(&t->wake);
    }
    pthread_mutex_unlock(&t->mutex);
    if (first_drop)
        FT_LOGW("base",
                "timeline: events are dropped file=%s reason=\"the disk is slower than they "
                "come\"",
                t->path);
}

void ft_timeline_add(ft_timeline *t, const ft_timeline_event *event)
{
    if (t)
        put(t, &(entry){.event = *event});
}

void ft_timeline_name(ft_timeline *t, uint32_t track, const char *name)
{
    entry it = {.event.track = track};
    if (!t)
        return;
    snprintf(it.name, sizeof it.name, "%s", name);
    put(t, &it);
}

uint32_t ft_timeline_take(ft_timeline *t)
{
    uint32_t i = 0;
    pthread_mutex_lock(&t->mutex);
    while (i < NUMBERS - 1 && t->taken[i])
        i++;
    t->taken[i] = true;
    pthread_mutex_unlock(&t->mutex);
    return i;
}

void ft_timeline_give(ft_timeline *t, uint32_t number)
{
    pthread_mutex_lock(&t->mutex);
    t->taken[number] = false;
    pthread_mutex_unlock(&t->mutex);
}

uint64_t ft_timeline_dropped(ft_timeline *t)
{
    pthread_mutex_lock(&t->mutex);
    const uint64_t dropped = t->dropped;
    pthread_mutex_unlock(&t->mutex);
    return dropped;
}

/* ---- another timeline's events ---- */

/* Whether the line is an event of a timeline that belongs there; *n: its bytes without what
 * separates it from the next one. */
static bool belongs(const char *line, size_t *n, int64_t from_us, int64_t until_us)
{
    const size_t first = sizeof FIRST - 1;
    char *end;
    while (*n > 0 && (line[*n - 1] == '\n' || line[*n - 1] == ','))
        --*n;
    if (*n < 2 || *n >= LINE_MOST - 2 || line[0] != '{' || line[*n - 1] != '}')
        return false;
    if (strncmp(line, FIRST, first) != 0)
        return strncmp(line, "{\"ph\":\"M\",", 10) == 0;
    const long long ts = strtoll(line + first, &end, 10);
    return *end == ',' && ts >= from_us && ts <= until_us;
}

ft_status ft_timeline_include(ft_timeline *t, const char *path, int64_t from_us, int64_t until_us,
                              ft_error *err)
{
    char line[LINE_MOST];
    FILE *in = fopen(path, "r");
    if (!in)
        return ft_error_set(err, FT_IO, "timeline: %.300s: %s", path, strerror(errno));
    ft_timeline_flush(t); /* and nobody adds meanwhile: the file is this thread's now */
    while (fgets(line, sizeof line, in)) {
        size_t n = strlen(line);
        ft_buf out = {0};
        if (!belongs(line, &n, from_us, until_us))
            continue;
        ft_buf_printf(&out, ",\n%.*s", (int)n, line);
        const bool written = write_lines(t, &out);
        ft_buf_deinit(&out);
        if (!written)
            break;
    }
    fclose(in);
    return FT_OK;
}
