/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled constraints of a model: compiled by workers, kept while they are used. A tenant
 * never gets another one's, since the time that a compilation takes would tell what others asked
 * for; and has one worker at most, so that it delays only itself.
 *
 * Any thread may call. One lock, held for look-ups only; `done` is called without it.
 */
#ifndef FT_CONSTRAIN_GRAMMARS_H
#define FT_CONSTRAIN_GRAMMARS_H

#include "constrain/constraint.h"

/* Kept at once, and different ones that texts can have at once. A tenant has a quarter. With half,
 * a server with 256 applications compiles again and again. */
#define FT_GRAMMARS_MAX 256
/* Their memory; a usual schema takes 0.1 to 2 MB. */
#define FT_GRAMMARS_MAX_BYTES ((size_t)256 << 20)
/* How long a text waits for its constraint; and one that was begun elsewhere, or by a server that
 * was started again: it must not end for that. */
#define FT_GRAMMARS_WAIT_US       2000000
#define FT_GRAMMARS_BEGUN_WAIT_US 30000000

typedef struct ft_grammars ft_grammars;

typedef struct ft_grammars_opts {
    ft_constrain_tokens tokens; /* read during create */
    void (*done)(void *ctx);    /* on a worker: a compilation has ended. NULL: nobody waits */
    void *ctx;
} ft_grammars_opts;

/* Errors as ft_constrain_vocab_create. */
FT_WARN_UNUSED ft_status ft_grammars_create(const ft_grammars_opts *opts, ft_error *err,
                                            ft_grammars **out);
/* Stops the compilations that run. NULL is legal. */
void ft_grammars_destroy(ft_grammars *grammars);

/* Reads nothing of the constraint: workers do, as large ones take 10 ms, and who asks may be the
 * engine's thread. *out: a reference; or NULL with FT_OK: it is being compiled, ask again after
 * `done`. tenant: whose it is, copied; NULL: nobody's. Errors as ft_grammar_compile; also
 * FT_EXHAUSTED: the tenant waits for many already, or what is used and compiled takes all places
 * or memory. */
FT_WARN_UNUSED ft_status ft_grammars_get(ft_grammars *grammars, const ft_constraint *c,
                                         const char *tenant, ft_error *err, ft_grammar **out);
/* The same, and waits for a compilation, at most wait_us. */
FT_WARN_UNUSED ft_status ft_grammars_wait(ft_grammars *grammars, const ft_constraint *c,
                                          const char *tenant, int64_t wait_us, ft_error *err,
                                          ft_grammar **out);

#endif
