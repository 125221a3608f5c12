/* SPDX-License-Identifier: Apache-2.0
 *
 * A draft source for texts under a constraint: where the constraint leaves one token, or forces the
 * bytes that come next (keys, braces), it names the next token without a model (spelling.h).
 *
 * It stands before another source, or alone. With a draft model behind it, forced text costs no
 * forward of the model: that reads it together with the next token that it is asked about.
 */
#ifndef FT_SPEC_FORCED_H
#define FT_SPEC_FORCED_H

#include "spec/draft_source.h"
#include "spec/spelling.h"

typedef struct ft_forced_opts {
    const ft_vocab *vocab;       /* borrowed */
    const ft_sampling *sampling; /* with a matcher; borrowed, as the matcher */
    ft_spellings *seen;          /* of texts before, and to come; borrowed; NULL: none */
    uint64_t tenant;             /* whose these are */
    uint32_t n_ctx;              /* without another source: tokens of text that can be read */
} ft_forced_opts;

/* Takes `inner`, which must be empty and has no evidence, also on failure; NULL: it is alone.
 * Sources with the same `group` (any pointer that outlives them) can share a forward: their inner
 * ones must be able to. FT_NOMEM leaves *out NULL. */
FT_WARN_UNUSED ft_status ft_forced_source(ft_draft_source *inner, const ft_forced_opts *opts,
                                          const void *group, ft_error *err, ft_draft_source **out);

#endif
