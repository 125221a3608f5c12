// SPDX-License-Identifier: Apache-2.0
// The journal's file. Each record is written by one call at the end of the file. What a failed call
// has written is cut off again, so the file always consists of whole lines, but for the last one of
// a process that was killed.
#include "edge/batch_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define MODE 0666 /* less what the umask takes */

struct ft_journal {
    char *out, *path, *temp; /* OUT, OUT.part, OUT.part.out */
    int fd;                  /* of the journal, locked; -1: none */
    off_t bytes;             /* of whole lines */
    size_t *kept;            /* [n] tokens of each answer that the journal has */
    ft_task_answers answers;
    ft_task_set set;
    ft_buf line;
};

static ft_status no_memory(ft_error *err)
{
    return ft_error_set(err, FT_NOMEM, "batch: out of memory");
}

/* ---- appending ---- */

static bool write_all(int fd, const char *data, size_t n)
{
    while (n > 0) {
        const ssize_t written = write(fd, data, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        data += written;
        n -= (size_t)written;
    }
    return true;
}

/* Appends j->line, which a writer has made. */
static ft_status append_line(ft_journal *j, ft_error *err)
{
    if (j->line.failed) {
        j->line.failed = false;
        return no_memory(err);
    }
    if (write_all(j->fd, j->line.data, j->line.len)) {
        j->bytes += (off_t)j->line.len;
        return FT_OK;
    }
    ft_error_set(err, FT_IO, "batch: cannot write %s: %m", j->path);
    if (ftruncate(j->fd, j->bytes) != 0 || lseek(j->fd, j->bytes, SEEK_SET) < 0)
        return ft_error_set(err, FT_IO, "batch: cannot write %s, nor cut off what was written: %m",
                            j->path);
    return FT_IO;
}

ft_status ft_journal_keep(ft_journal *j, size_t task, ft_error *err)
{
    const size_t n = j->answers.answer[task].ids.n;
    if (n == j->kept[task])
        return FT_OK;
    ft_buf_clear(&j->line);
    (void)ft_task_write_ids(&j->answers, task, j->kept[task], &j->line);
    ft_status status = append_line(j, err);
    if (status == FT_OK)
        j->kept[task] = n;
    return status;
}

ft_status ft_journal_done(ft_journal *j, size_t task, ft_error *err)
{
    ft_task_answer *answer = &j->answers.answer[task];
    ft_buf_clear(&j->line);
    (void)ft_task_write_done(&j->answers, task, &j->line);
    ft_status status = append_line(j, err);
    if (status != FT_OK)
        return status;
    answer->done = true;
    j->answers.n_done++;
    ft_tokens_deinit(&answer->ids);
    return FT_OK;
}

/* ---- opening ---- */

static ft_status make_paths(ft_journal *j, const char *out, ft_error *err)
{
    j->out = strdup(out);
    if (!j->out || asprintf(&j->path, "%s.part", out) < 0) {
        j->path = NULL;
        return no_memory(err);
    }
    if (asprintf(&j->temp, "%s.part.out", out) < 0) {
        j->temp = NULL;
        return no_memory(err);
    }
    return FT_OK;
}

/* Opens the journal's file and locks it. *there: it was there before. */
static ft_status take_file(ft_journal *j, bool *there, ft_error *err)
{
    struct stat ours, named;
    do {
        if (j->fd >= 0)
            (void)close(j->fd);
        j->fd = open(j->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, MODE);
        *there = j->fd < 0 && errno == EEXIST;
        if (*there)
            j->fd = open(j->path, O_RDWR | O_CLOEXEC);
        if (j->fd < 0 && *there && errno == ENOENT)
            continue; /* another process has just finished */
        if (j->fd < 0)
            return ft_error_set(err, FT_IO, "batch: cannot open %s: %m", j->path);
        if (flock(j->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            return ft_error_set(err, FT_UNAVAILABLE, "batch: another process works on %s", j->path);
        if (flock(j->fd, LOCK_EX | LOCK_NB) != 0)
            return ft_error_set(err, FT_IO, "batch: cannot lock %s: %m", j->path);
        /* Whoever had the lock before may have removed the file. */
    } while (j->fd < 0 || fstat(j->fd, &ours) != 0 || stat(j->path, &named) != 0 ||
             ours.st_ino != named.st_ino || ours.st_dev != named.st_dev);
    return FT_OK;
}

static ft_status check_names(const ft_journal *j, bool there, bool resume, ft_error *err)
{
    if (there && !resume)
        return ft_error_set(err, FT_PRECONDITION,
                            "batch: %s is there from a batch that has not ended: go on with it by "
                            "--resume, or remove it to begin anew",
                            j->path);
    if (!there && access(j->out, F_OK) == 0)
        return ft_error_set(err, FT_PRECONDITION,
                            "batch: %s exists: remove it, or name another file with -o", j->out);
    return FT_OK;
}

/* Reads what is there, and drops a torn line. */
static ft_status read_file(ft_journal *j, ft_error *err)
{
    struct stat st;
    char *text;
    size_t n, whole;
    ft_error why = {0};
    if (fstat(j->fd, &st) != 0)
        return ft_error_set(err, FT_IO, "batch: cannot read %s: %m", j->path);
    if ((uint64_t)st.st_size >= FT_JOURNAL_MAX_BYTES)
        return ft_error_set(err, FT_TOO_LARGE, "batch: %s has %lld bytes, at most %zu", j->path,
                            (long long)st.st_size, FT_JOURNAL_MAX_BYTES);
    ft_status status = ft_file_read(j->path, (size_t)st.st_size + 1, err, &text, &n);
    if (status != FT_OK)
        return status;
    status = ft_task_answers_read(&j->answers, &j->set, text, n, &why, &whole);
    free(text);
    if (status != FT_OK)
        return ft_error_set(err, status, "batch: %s: %s", j->path, why.message);
    for (size_t i = 0; i < j->answers.n; i++)
        j->kept[i] = j->answers.answer[i].ids.n;
    j->bytes = (off_t)whole;
    if (ftruncate(j->fd, j->bytes) != 0 || lseek(j->fd, j->bytes, SEEK_SET) < 0)
        return ft_error_set(err, FT_IO, "batch: cannot cut the torn end off %s: %m", j->path);
    return FT_OK;
}

static ft_status open_all(ft_journal *j, const ft_journal_opts *opts, ft_error *err)
{
    bool there;
    ft_status status = make_paths(j, opts->out, err);
    if (status == FT_OK)
        status = ft_task_answers_init(&j->answers, opts->n, err);
    j->kept = calloc(opts->n, sizeof *j->kept);
    if (status == FT_OK && !j->kept)
        status = no_memory(err);
    if (status == FT_OK)
        status = take_file(j, &there, err);
    if (status != FT_OK)
        return status;
    status = check_names(j, there, opts->resume, err);
    if (status != FT_OK && !there)
        (void)unlink(j->path); /* it was made just now */
    if (status == FT_OK && there)
        status = read_file(j, err);
    if (status != FT_OK || j->bytes > 0)
        return status;
    (void)ft_task_write_header(&j->answers, &j->set, &j->line);
    return append_line(j, err);
}

ft_status ft_journal_open(const ft_journal_opts *opts, ft_error *err, ft_journal **out)
{
    ft_journal *j = calloc(1, sizeof *j);
    *out = NULL;
    if (!j)
        return no_memory(err);
    j->fd = -1;
    j->set = opts->set;
    ft_status status = open_all(j, opts, err);
    if (status == FT_OK)
        *out = j;
    else
        ft_journal_close(j);
    return status;
}

void ft_journal_close(ft_journal *j)
{
    if (!j)
        return;
    if (j->fd >= 0)
        (void)close(j->fd);
    ft_task_answers_deinit(&j->answers);
    ft_buf_deinit(&j->line);
    free(j->kept);
    free(j->out);
    free(j->path);
    free(j->temp);
    free(j);
}

ft_task_answers *ft_journal_answers(ft_journal *j)
{
    return &j->answers;
}

/* ---- the end ---- */

static ft_status write_output(ft_journal *j, int fd, const char *const *id, ft_error *err)
{
    for (size_t i = 0; i < j->answers.n; i++) {
        ft_buf_clear(&j->line);
        if (ft_task_write_output(&j->answers.answer[i], id[i], &j->line) != FT_OK) {
            j->line.failed = false;
            return no_memory(err);
        }
        if (!write_all(fd, j->line.data, j->line.len))
            return ft_error_set(err, FT_IO, "batch: cannot write %s: %m", j->temp);
    }
    if (fsync(fd) != 0)
        return ft_error_set(err, FT_IO, "batch: cannot write %s: %m", j->temp);
    return FT_OK;
}

ft_status ft_journal_finish(ft_journal *j, const char *const *id, ft_error *err)
{
    const int fd = open(j->temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, MODE);
    if (fd < 0)
        return ft_error_set(err, FT_IO, "batch: cannot write %s: %m", j->temp);
    ft_status status = write_output(j, fd, id, err);
    if (close(fd) != 0 && status == FT_OK)
        status = ft_error_set(err, FT_IO, "batch: cannot write %s: %m", j->temp);
    if (status == FT_OK && rename(j->temp, j->out) != 0)
        status = ft_error_set(err, FT_IO, "batch: cannot rename %s: %m", j->temp);
    (void)unlink(status == FT_OK ? j->path : j->temp);
    return status;
}
