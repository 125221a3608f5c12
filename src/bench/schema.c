// SPDX-License-Identifier: Apache-2.0
// schema.h. A worker compiles, since that needs a deep stack. State is the caller's.
#include "bench/schema.h"

#include <stdlib.h>

#include "base/file.h"
#include "spec/constrained.h"

#define WAIT_US 60000000 /* on a slow machine, too */

ft_status ft_bench_schema_load(const char *path, const ft_vocab *vocab, ft_error *err,
                               ft_bench_schema *out)
{
    const ft_grammars_opts opts = {.tokens = ft_constrained_tokens(vocab)};
    *out = (ft_bench_schema){0};
    if (!path)
        return FT_OK;
    size_t n = 0;
    ft_status status = ft_file_read(path, FT_CONSTRAINT_MAX_BYTES + 1, err, &out->text, &n);
    if (status != FT_OK)
        return status;
    out->constraint = (ft_constraint){FT_CONSTRAINT_JSON_SCHEMA, out->text, n};
    status = ft_grammars_create(&opts, err, &out->grammars);
    if (status == FT_OK)
        status =
            ft_grammars_wait(out->grammars, &out->constraint, NULL, WAIT_US, err, &out->grammar);
    return status != FT_OK || out->grammar
               ? status
               : ft_error_set(err, FT_TIMEOUT, "%s: it is not compiled within a minute", path);
}

void ft_bench_schema_deinit(ft_bench_schema *schema)
{
    ft_grammar_unref(schema->grammar);
    ft_grammars_destroy(schema->grammars);
    free(schema->text);
    *schema = (ft_bench_schema){0};
}

ft_status ft_bench_schema_warm(ft_edge *edge, const ft_constraint *constraint, ft_error *err)
{
    return ft_edge_compile(edge, constraint, NULL, WAIT_US, err);
}
