/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace store's file: its schema, and connections that have checked it. For src/learn only. */
#ifndef FT_LEARN_TRACE_DB_H
#define FT_LEARN_TRACE_DB_H

#include <stdint.h>

#include "base/status.h"

typedef struct sqlite3 sqlite3;

#define FT_TRACE_APPLICATION 0x46545472 /* SQLite's application_id of a trace store: "FTTr" */
#define FT_TRACE_SCHEMA      1          /* and its user_version */

/* Opens a connection that writes at most max_bytes; *pages is that size in pages. Creates the file
 * and its tables if they do not exist. Used by one thread at a time; sqlite3_close ends it. Errors
 * as ft_trace_open. */
FT_WARN_UNUSED ft_status ft_trace_db_write(const char *path, uint64_t max_bytes, ft_error *err,
                                           sqlite3 **out, int64_t *pages);
/* Opens a connection that only reads. Errors as ft_trace_each_node. */
FT_WARN_UNUSED ft_status ft_trace_db_read(const char *path, ft_error *err, sqlite3 **out);

/* The connection's last failure, as a status and a message that names the file. */
ft_status ft_trace_db_fail(sqlite3 *db, ft_error *err);
/* Runs statements whose results are not needed. Returns SQLite's code. */
FT_WARN_UNUSED int ft_trace_db_run(sqlite3 *db, const char *sql);
/* Reads the first column of a query's first row as an integer; 0 if there is no row. Returns
 * SQLite's code, SQLITE_OK for a row. */
FT_WARN_UNUSED int ft_trace_db_number(sqlite3 *db, const char *sql, int64_t *out);

#endif
