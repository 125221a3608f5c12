// SPDX-License-Identifier: Apache-2.0
// The reading side of the trace store. A file may be damaged or made by somebody else, so values
// are checked as they are read: SQLite detects broken pages, not wrong numbers in them. Stateless;
// any thread.
#include <math.h>
#include <sqlite3.h>
#include <string.h>

#include "base/num.h"
#include "learn/trace.h"
#include "learn/trace_db.h"

#define ROUND_MOST_US \
    1000000000000 /* longer than any round: sums stay far from the largest number */

static ft_status strange(sqlite3 *db, const char *what, int64_t round, ft_error *err)
{
    return ft_error_set(err, FT_CORRUPT, "trace: %.200s is damaged: %s of round %lld",
                        sqlite3_db_filename(db, "main"), what, (long long)round);
}

/* ---- samples ---- */

/* CROSS JOIN keeps SQLite to this order of the loops: nodes as they lie in the file. */
static const char samples_sql[] =
    "SELECT session.id, round.id, session.draft, session.target, idx, parent, node.depth, "
    "outcome, confidence, entropy, margin, deviation, position "
    "FROM node CROSS JOIN round ON round.id = node.round "
    "CROSS JOIN session ON session.id = round.session "
    "WHERE outcome IS NOT NULL AND confidence IS NOT NULL ORDER BY node.round, node.idx";
#define FIRST_FEATURE 8

static bool take_sample(sqlite3_stmt *row, ft_trace_sample *out)
{
    const int64_t index = sqlite3_column_int64(row, 4), parent = sqlite3_column_int64(row, 5);
    const int64_t depth = sqlite3_column_int64(row, 6), outcome = sqlite3_column_int64(row, 7);
    bool good = index >= 0 && index < FT_TRACE_NODES && parent >= -1 && parent < index &&
                depth >= 0 && depth <= index && outcome >= 0 && outcome <= 1;
    *out = (ft_trace_sample){.session = sqlite3_column_int64(row, 0),
                             .round = sqlite3_column_int64(row, 1),
                             .draft = (uint64_t)sqlite3_column_int64(row, 2),
                             .target = (uint64_t)sqlite3_column_int64(row, 3),
                             .index = (uint32_t)index,
                             .parent = (int32_t)parent,
                             .depth = (uint16_t)depth,
                             .accepted = outcome == 1};
    for (int f = 0; f < FT_FEATURES; f++) {
        const int type = sqlite3_column_type(row, FIRST_FEATURE + f);
        out->feature[f] = (float)sqlite3_column_double(row, FIRST_FEATURE + f);
        good =
            good && (type == SQLITE_FLOAT || type == SQLITE_INTEGER) && isfinite(out->feature[f]);
    }
    return good;
}

static ft_status each_sample(sqlite3 *db, ft_trace_each_fn each, void *ctx, ft_error *err)
{
    sqlite3_stmt *row = NULL;
    ft_status status = FT_OK;
    bool more = true;
    int rc = sqlite3_prepare_v2(db, samples_sql, -1, &row, NULL);
    if (rc == SQLITE_OK)
        rc = SQLITE_ROW;
    while (status == FT_OK && more && rc == SQLITE_ROW && (rc = sqlite3_step(row)) == SQLITE_ROW) {
        ft_trace_sample sample;
        if (take_sample(row, &sample))
            more = each(ctx, &sample);
        else
            status = strange(db, "a node", sample.round, err);
    }
    if (status == FT_OK && rc != SQLITE_ROW && rc != SQLITE_DONE)
        status = ft_trace_db_fail(db, err);
    sqlite3_finalize(row);
    return status;
}

ft_status ft_trace_each_node(const char *path, ft_trace_each_fn each, void *ctx, ft_error *err)
{
    sqlite3 *db = NULL;
    ft_status status = ft_trace_db_read(path, err, &db);
    if (status == FT_OK)
        status = each_sample(db, each, ctx, err);
    sqlite3_close(db);
    return status;
}

/* ---- rounds ---- */

static const char rounds_sql[] =
    "SELECT id, session, drafted, accepted, next IS NOT NULL, draft_us, rtt_us, queue_us, "
    "verify_us FROM round ORDER BY session, id";
#define FIRST_TIME 5

static bool take_round(sqlite3_stmt *row, ft_trace_drafted *out)
{
    const int64_t drafted = sqlite3_column_int64(row, 2), accepted = sqlite3_column_int64(row, 3);
    int64_t us[4];
    bool good = drafted > 0 && drafted <= FT_TRACE_NODES && accepted >= 0 && accepted <= drafted;
    for (int i = 0; i < 4; i++) {
        const bool known = sqlite3_column_type(row, FIRST_TIME + i) != SQLITE_NULL;
        us[i] = known ? sqlite3_column_int64(row, FIRST_TIME + i) : -1;
        good = good && us[i] >= -1 && us[i] <= ROUND_MOST_US;
    }
    *out = (ft_trace_drafted){.session = sqlite3_column_int64(row, 1),
                              .drafted = (uint32_t)drafted,
                              .accepted = (uint32_t)accepted,
                              .tokens = (uint32_t)(accepted + sqlite3_column_int(row, 4)),
                              .draft_us = us[0],
                              .rtt_us = us[1],
                              .queue_us = us[2],
                              .verify_us = us[3]};
    return good;
}

static ft_status each_round(sqlite3 *db, ft_trace_each_round_fn each, void *ctx, ft_error *err)
{
    sqlite3_stmt *row = NULL;
    ft_status status = FT_OK;
    bool more = true;
    int rc = sqlite3_prepare_v2(db, rounds_sql, -1, &row, NULL);
    if (rc == SQLITE_OK)
        rc = SQLITE_ROW;
    while (status == FT_OK && more && rc == SQLITE_ROW && (rc = sqlite3_step(row)) == SQLITE_ROW) {
        ft_trace_drafted round;
        if (take_round(row, &round))
            more = each(ctx, &round);
        else
            status = strange(db, "numbers", sqlite3_column_int64(row, 0), err);
    }
    if (status == FT_OK && rc != SQLITE_ROW && rc != SQLITE_DONE)
        status = ft_trace_db_fail(db, err);
    sqlite3_finalize(row);
    return status;
}

ft_status ft_trace_each_round(const char *path, ft_trace_each_round_fn each, void *ctx,
                              ft_error *err)
{
    sqlite3 *db = NULL;
    ft_status status = ft_trace_db_read(path, err, &db);
    if (status == FT_OK)
        status = each_round(db, each, ctx, err);
    sqlite3_close(db);
    return status;
}

/* ---- the summary ---- */

static bool add_waste(void *ctx, const ft_trace_drafted *round)
{
    ft_waste *sum = ctx;
    if (round->draft_us < 0)
        return true;
    const ft_waste w = ft_waste_of(round->drafted, round->accepted, (uint64_t)round->draft_us);
    sum->tokens += w.tokens;
    sum->useful_us += w.useful_us;
    sum->wasted_us += w.wasted_us;
    return true;
}

/* SQLite checks the file's structure; then every round must have all its nodes and its session. */
static ft_status check_whole(sqlite3 *db, ft_error *err)
{
    sqlite3_stmt *row = NULL;
    int64_t torn = 0;
    int rc = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &row, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(row);
    const char *said = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(row, 0) : NULL;
    ft_status status = FT_OK;
    if (rc != SQLITE_ROW)
        status = ft_trace_db_fail(db, err);
    else if (!said || strcmp(said, "ok") != 0)
        status = ft_error_set(err, FT_CORRUPT, "trace: %.150s is damaged: %.100s",
                              sqlite3_db_filename(db, "main"), said ? said : "");
    sqlite3_finalize(row);
    if (status != FT_OK)
        return status;
    rc = ft_trace_db_number(db,
                            "SELECT id FROM round WHERE drafted <> (SELECT count(*) FROM node "
                            "WHERE node.round = round.id) OR NOT EXISTS (SELECT 1 FROM session "
                            "WHERE session.id = round.session) LIMIT 1",
                            &torn);
    if (rc != SQLITE_OK)
        return ft_trace_db_fail(db, err);
    return torn == 0 ? FT_OK : strange(db, "parts", torn, err);
}

static ft_status count(sqlite3 *db, ft_error *err, ft_trace_summary *out)
{
    const struct {
        const char *sql;
        void *to; /* 64 bits */
    } numbers[] = {
        {"SELECT page_size * page_count FROM pragma_page_size, pragma_page_count", &out->bytes},
        {"SELECT count(*) FROM session", &out->sessions},
        {"SELECT count(*) FROM round", &out->rounds},
        {"SELECT count(*) FROM (SELECT DISTINCT draft, target FROM session)", &out->pairs},
        {"SELECT min(start_us) FROM session", &out->first_us},
        {"SELECT max(start_us) FROM session", &out->last_us},
        {"SELECT count(*) FROM node WHERE outcome IS NOT NULL AND confidence IS NOT NULL",
         &out->samples},
    };
    for (size_t i = 0; i < FT_COUNT(numbers); i++)
        if (ft_trace_db_number(db, numbers[i].sql, numbers[i].to) != SQLITE_OK)
            return ft_trace_db_fail(db, err);
    return FT_OK;
}

static ft_status count_depths(sqlite3 *db, ft_error *err, ft_trace_summary *out)
{
    sqlite3_stmt *row = NULL;
    int rc = sqlite3_prepare_v2(db,
                                "SELECT depth, count(*), count(outcome), "
                                "count(*) FILTER (WHERE outcome = 1) FROM node GROUP BY depth "
                                "ORDER BY depth",
                                -1, &row, NULL);
    ft_status status = FT_OK;
    while (rc == SQLITE_OK && (rc = sqlite3_step(row)) == SQLITE_ROW) {
        const int64_t depth = sqlite3_column_int64(row, 0);
        rc = SQLITE_OK;
        if (depth < 0 || depth >= FT_TRACE_NODES) {
            status =
                ft_error_set(err, FT_CORRUPT, "trace: %.200s is damaged: a node's depth is %lld",
                             sqlite3_db_filename(db, "main"), (long long)depth);
            rc = SQLITE_DONE;
            break;
        }
        out->n_depths = (uint32_t)depth + 1;
        out->depth[depth].nodes = (uint64_t)sqlite3_column_int64(row, 1);
        out->depth[depth].judged = (uint64_t)sqlite3_column_int64(row, 2);
        out->depth[depth].accepted = (uint64_t)sqlite3_column_int64(row, 3);
        out->nodes += out->depth[depth].nodes;
        out->judged += out->depth[depth].judged;
        out->accepted += out->depth[depth].accepted;
    }
    if (rc != SQLITE_DONE)
        status = ft_trace_db_fail(db, err);
    sqlite3_finalize(row);
    return status;
}

ft_status ft_trace_summarize(const char *path, ft_error *err, ft_trace_summary *out)
{
    sqlite3 *db = NULL;
    *out = (ft_trace_summary){0};
    ft_status status = ft_trace_db_read(path, err, &db);
    /* one transaction, so that all numbers are of one moment while others write */
    if (status == FT_OK && ft_trace_db_run(db, "BEGIN") != SQLITE_OK)
        status = ft_trace_db_fail(db, err);
    if (status == FT_OK)
        status = check_whole(db, err);
    if (status == FT_OK)
        status = count(db, err, out);
    if (status == FT_OK)
        status = count_depths(db, err, out);
    if (status == FT_OK)
        status = each_round(db, add_waste, &out->waste, err);
    sqlite3_close(db);
    return status;
}
