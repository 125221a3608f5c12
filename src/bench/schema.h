/* SPDX-License-Identifier: Apache-2.0
 *
 * A JSON schema from a file, compiled: what texts of a bench must fit. Owned by one thread. */
#ifndef FT_BENCH_SCHEMA_H
#define FT_BENCH_SCHEMA_H

#include "constrain/grammars.h"
#include "edge/edge.h"
#include "model/vocab.h"

/* All-zero: there is none. */
typedef struct ft_bench_schema {
    char *text;
    ft_constraint constraint; /* its kind FT_CONSTRAINT_NONE: there is none */
    ft_grammars *grammars;
    ft_grammar *grammar;
} ft_bench_schema;

/* A busy server may take longer to compile it than texts wait (FT_ABORTED): so often it is asked
 * again. */
#define FT_BENCH_SCHEMA_TRIES 10

/* path: NULL: *out is all-zero. FT_UNSUPPORTED: this build has no XGrammar; errors of the file and
 * of the schema. *out owes a deinit, also on failure. */
FT_WARN_UNUSED ft_status ft_bench_schema_load(const char *path, const ft_vocab *vocab,
                                              ft_error *err, ft_bench_schema *out);
void ft_bench_schema_deinit(ft_bench_schema *schema);

/* Has a new edge compile what its texts must fit, so that no text is measured meanwhile. */
FT_WARN_UNUSED ft_status ft_bench_schema_warm(ft_edge *edge, const ft_constraint *constraint,
                                              ft_error *err);

#endif
