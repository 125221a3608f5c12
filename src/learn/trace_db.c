// SPDX-License-Identifier: Apache-2.0
// The trace store's file. A file is a trace store if SQLite's application_id and user_version say
// so and its schema is exactly the one below. Any other file is refused before it is touched,
// because reading through a strange schema can do anything.
//
// Write-ahead log, synchronous=NORMAL: a commit does not wait for the disk, a killed process loses
// no commit, a power failure loses at most the last ones. Freed pages stay in the file for later
// rounds (auto_vacuum=INCREMENTAL); they are returned only if the file is larger than allowed.
//
// Stateless; a connection belongs to one thread at a time. trace.c and trace_read.c know what rows
// mean.
#include "learn/trace_db.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "learn/features.h"

#define OPEN_MS   1000 /* waits for other processes' transactions, which take milliseconds */
#define WRITE_MS  5000 /* the same after the start, when only the store's own thread waits */
#define PAUSE_MS  10   /* between attempts where SQLite does not wait by itself */
#define LOG_PAGES 1000 /* SQLite's own default; less where the file is small */
#define LOG_SHARE 8    /* of the file, that the log may take */

/* Node rows lie in order of (round, idx), so that the oldest ones are whole pages. */
#define SCHEMA                                                                                   \
    "CREATE TABLE session (id INTEGER PRIMARY KEY, start_us INTEGER NOT NULL, "                  \
    "draft INTEGER NOT NULL, target INTEGER NOT NULL, vocab INTEGER NOT NULL, "                  \
    "temperature REAL NOT NULL, top_k INTEGER NOT NULL, top_p REAL NOT NULL, "                   \
    "min_p REAL NOT NULL, rule INTEGER NOT NULL) STRICT;"                                        \
    "CREATE TABLE round (id INTEGER PRIMARY KEY, session INTEGER NOT NULL, "                     \
    "number INTEGER NOT NULL, length INTEGER NOT NULL, depth INTEGER NOT NULL, "                 \
    "drafted INTEGER NOT NULL, accepted INTEGER NOT NULL, next INTEGER, draft_us INTEGER, "      \
    "rtt_us INTEGER, queue_us INTEGER, verify_us INTEGER) STRICT;"                               \
    "CREATE INDEX round_session ON round (session);"                                             \
    "CREATE TABLE node (round INTEGER NOT NULL, idx INTEGER NOT NULL, parent INTEGER NOT NULL, " \
    "token INTEGER NOT NULL, depth INTEGER NOT NULL, outcome INTEGER, confidence REAL, "         \
    "entropy REAL, margin REAL, deviation REAL, position REAL, PRIMARY KEY (round, idx)) "       \
    "STRICT, WITHOUT ROWID;"
/* Whether the file has exactly these, in any order; each statement is kept as it was written. */
static const char is_ours_sql[] =
    "SELECT count(*) = 4 AND sum(instr(';" SCHEMA "', ';' || sql || ';') > 0) = 4 "
    "FROM sqlite_schema";
static const char is_empty_sql[] = "SELECT application_id = 0 AND NOT EXISTS "
                                   "(SELECT 1 FROM sqlite_schema) FROM pragma_application_id";
_Static_assert(FT_FEATURES == 5, "other features are another FT_TRACE_SCHEMA");

/* ---- small things ---- */

static const char *name_of(sqlite3 *db)
{
    const char *path = db ? sqlite3_db_filename(db, "main") : NULL;
    return path ? path : "the file";
}

ft_status ft_trace_db_fail(sqlite3 *db, ft_error *err)
{
    const char *path = name_of(db);
    switch (db ? sqlite3_errcode(db) & 0xff : SQLITE_NOMEM) {
    case SQLITE_NOTADB:
        return ft_error_set(err, FT_CORRUPT,
                            "trace: %.200s is not a trace store: pass another file name", path);
    case SQLITE_CORRUPT:
        return ft_error_set(err, FT_CORRUPT, "trace: %.200s is damaged: pass another file name",
                            path);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ft_error_set(err, FT_UNAVAILABLE, "trace: %.200s is locked by another process",
                            path);
    case SQLITE_FULL:
        return ft_error_set(err, FT_EXHAUSTED, "trace: %.200s is full", path);
    case SQLITE_NOMEM:
        return ft_error_set(err, FT_NOMEM, "trace: out of memory");
    default:
        return ft_error_set(err, FT_IO, "trace: %.200s: %.120s", path, sqlite3_errmsg(db));
    }
}

int ft_trace_db_run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

int ft_trace_db_number(sqlite3 *db, const char *sql, int64_t *out)
{
    sqlite3_stmt *stmt = NULL;
    *out = 0;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *out = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int pragma(sqlite3 *db, const char *name, int64_t value)
{
    char sql[96];
    snprintf(sql, sizeof sql, "PRAGMA %s=%lld", name, (long long)value);
    return ft_trace_db_run(db, sql);
}

/* ---- is it ours ---- */

static ft_status check_versions(sqlite3 *db, ft_error *err)
{
    int64_t application = 0, version = 0;
    if (ft_trace_db_number(db, "PRAGMA application_id", &application) != SQLITE_OK ||
        ft_trace_db_number(db, "PRAGMA user_version", &version) != SQLITE_OK)
        return ft_trace_db_fail(db, err);
    if (application != FT_TRACE_APPLICATION)
        return ft_error_set(err, FT_PRECONDITION,
                            "trace: %.200s is a database, but not a trace store: pass another file "
                            "name",
                            name_of(db));
    if (version != FT_TRACE_SCHEMA)
        return ft_error_set(err, FT_PRECONDITION,
                            "trace: %.200s is of format %lld, this program's is %d: pass another "
                            "file name",
                            name_of(db), (long long)version, FT_TRACE_SCHEMA);
    return FT_OK;
}

static ft_status check_schema(sqlite3 *db, ft_error *err)
{
    int64_t same = 0;
    ft_status status = check_versions(db, err);
    if (status != FT_OK)
        return status;
    if (ft_trace_db_number(db, is_ours_sql, &same) != SQLITE_OK)
        return ft_trace_db_fail(db, err);
    return same ? FT_OK
                : ft_error_set(err, FT_CORRUPT,
                               "trace: %.200s has other tables than a trace store: pass another "
                               "file name",
                               name_of(db));
}

/* ---- opening ---- */

static ft_status open_db(const char *name, int flags, ft_error *err, sqlite3 **out)
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(name, &db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    *out = NULL;
    if (rc == SQLITE_OK) {
        sqlite3_busy_timeout(db, OPEN_MS);
        sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        rc = pragma(db, "cell_size_check", 1);
    }
    if (rc != SQLITE_OK) {
        ft_status status = ft_error_set(err, rc == SQLITE_NOMEM ? FT_NOMEM : FT_IO,
                                        "trace: %.200s: %.120s", name, sqlite3_errstr(rc));
        sqlite3_close(db);
        return status;
    }
    *out = db;
    return FT_OK;
}

/* For a file in a folder without write permission: reads the file as it is, without the log. */
static ft_status open_as_it_lies(const char *path, ft_error *err, sqlite3 **out)
{
    ft_buf uri = {0};
    ft_status status = ft_buf_puts(&uri, "file:");
    for (const char *c = path; *c; c++)
        status = strchr("%?#", *c) ? ft_buf_printf(&uri, "%%%02x", (unsigned char)*c)
                                   : ft_buf_append(&uri, c, 1);
    status = ft_buf_puts(&uri, "?immutable=1");
    *out = NULL;
    if (uri.failed)
        status = ft_error_set(err, status, "trace: out of memory");
    else
        status = open_db(uri.data, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, err, out);
    ft_buf_deinit(&uri);
    return status;
}

ft_status ft_trace_db_read(const char *path, ft_error *err, sqlite3 **out)
{
    int64_t version;
    *out = NULL;
    if (access(path, R_OK) != 0)
        return ft_error_set(err, errno == ENOENT ? FT_NOT_FOUND : FT_IO, "trace: %.200s: %s", path,
                            strerror(errno));
    /* It opens the file for writing only to recover the log of a process that was killed. */
    ft_status status = open_db(path, SQLITE_OPEN_READWRITE, err, out);
    if (status == FT_OK && ft_trace_db_number(*out, "PRAGMA user_version", &version) != SQLITE_OK) {
        int rc = sqlite3_errcode(*out) & 0xff;
        status = ft_trace_db_fail(*out, err);
        if (rc == SQLITE_CANTOPEN || rc == SQLITE_READONLY) {
            sqlite3_close(*out);
            status = open_as_it_lies(path, err, out);
        }
    }
    if (status == FT_OK)
        status = check_schema(*out, err);
    if (status == FT_OK && pragma(*out, "query_only", 1) != SQLITE_OK)
        status = ft_trace_db_fail(*out, err);
    if (status != FT_OK) {
        sqlite3_close(*out);
        *out = NULL;
    }
    return status;
}

/* ---- opening to write ---- */

/* Creates the file, so that only its owner can read it; SQLite gives its log the same mode. */
static ft_status create_file(const char *path, ft_error *err)
{
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    else if (errno != EEXIST)
        return ft_error_set(err, FT_IO, "trace: %.200s cannot be created: %s", path,
                            strerror(errno));
    return FT_OK;
}

/* Makes the tables, unless there are some. Another process may be about to do the same. */
static int create_tables(sqlite3 *db)
{
    int64_t empty = 0;
    int rc = ft_trace_db_number(db, is_empty_sql, &empty);
    if (rc != SQLITE_OK || !empty)
        return rc;
    rc = ft_trace_db_run(
        db, "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL; BEGIN IMMEDIATE");
    if (rc == SQLITE_OK)
        rc = ft_trace_db_number(db, is_empty_sql, &empty);
    if (rc == SQLITE_OK && empty)
        rc = ft_trace_db_run(db, SCHEMA);
    if (rc == SQLITE_OK && empty)
        rc = pragma(db, "application_id", FT_TRACE_APPLICATION);
    if (rc == SQLITE_OK && empty)
        rc = pragma(db, "user_version", FT_TRACE_SCHEMA);
    return rc == SQLITE_OK ? ft_trace_db_run(db, "COMMIT") : rc;
}

static bool has_log(sqlite3 *db)
{
    sqlite3_stmt *stmt = NULL;
    bool wal = sqlite3_prepare_v2(db, "PRAGMA journal_mode=WAL", -1, &stmt, NULL) == SQLITE_OK &&
               sqlite3_step(stmt) == SQLITE_ROW &&
               strcmp((const char *)sqlite3_column_text(stmt, 0), "wal") == 0;
    sqlite3_finalize(stmt);
    return wal;
}

/* Sets how the connection writes, and how much at most. */
static ft_status settle(sqlite3 *db, uint64_t max_bytes, ft_error *err, int64_t *pages)
{
    int64_t page_bytes = 0;
    if (!has_log(db))
        return ft_error_set(err, FT_IO,
                            "trace: %.200s cannot have a write-ahead log in its folder: pass a "
                            "file on a local disk",
                            name_of(db));
    int rc = ft_trace_db_number(db, "PRAGMA page_size", &page_bytes);
    page_bytes = page_bytes > 0 ? page_bytes : 4096;
    *pages = (int64_t)(max_bytes / (uint64_t)page_bytes);
    int64_t log = *pages / LOG_SHARE < LOG_PAGES ? *pages / LOG_SHARE + 1 : LOG_PAGES;
    if (rc == SQLITE_OK)
        rc = pragma(db, "synchronous", 1);
    if (rc == SQLITE_OK)
        rc = pragma(db, "wal_autocheckpoint", log);
    if (rc == SQLITE_OK)
        rc = pragma(db, "journal_size_limit", log * page_bytes);
    if (rc == SQLITE_OK)
        rc = pragma(db, "max_page_count", *pages);
    return rc == SQLITE_OK ? FT_OK : ft_trace_db_fail(db, err);
}

/* Two processes that create the same file at once block each other for a moment. */
static ft_status try_write(sqlite3 *db, ft_error *err)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};
    const int64_t until = ft_monotonic_us() + OPEN_MS * 1000;
    int rc = create_tables(db);
    while (rc == SQLITE_BUSY && ft_monotonic_us() < until) {
        nanosleep(&pause, NULL);
        rc = sqlite3_get_autocommit(db) ? SQLITE_OK : ft_trace_db_run(db, "ROLLBACK");
        rc = rc == SQLITE_OK ? create_tables(db) : rc;
    }
    return rc == SQLITE_OK ? check_schema(db, err) : ft_trace_db_fail(db, err);
}

ft_status ft_trace_db_write(const char *path, uint64_t max_bytes, ft_error *err, sqlite3 **out,
                            int64_t *pages)
{
    *out = NULL;
    ft_status status = create_file(path, err);
    if (status == FT_OK)
        status = open_db(path, SQLITE_OPEN_READWRITE, err, out);
    if (status == FT_OK && sqlite3_db_readonly(*out, "main"))
        status = ft_error_set(err, FT_IO, "trace: %.200s cannot be written", path);
    if (status == FT_OK)
        status = try_write(*out, err);
    if (status == FT_OK)
        status = settle(*out, max_bytes, err, pages);
    if (status == FT_OK)
        sqlite3_busy_timeout(*out, WRITE_MS);
    if (status != FT_OK) {
        sqlite3_close(*out);
        *out = NULL;
    }
    return status;
}
