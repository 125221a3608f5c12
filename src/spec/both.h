/* SPDX-License-Identifier: Apache-2.0
 *
 * Two sources of one text as one: a draft model, and lookups beside it (lookup.h). A node has the
 * children that either of them names, each with the higher of its two chances.
 */
#ifndef FT_SPEC_BOTH_H
#define FT_SPEC_BOTH_H

#include "spec/draft_source.h"

/* Takes both, which must be empty, also on failure. Neither may have evidence. The group is that of
 * `lookup`: models behind one group must share theirs, too.
 * FT_NOMEM leaves *out NULL. */
FT_WARN_UNUSED ft_status ft_both_source(ft_draft_source *model, ft_draft_source *lookup,
                                        ft_error *err, ft_draft_source **out);

/* Adds children whose chances were counted. These stand; what they leave is shared as the others
 * say. A token that both name has both shares. */
void ft_both_add(ft_draft_children *children, const ft_draft_children *found);

#endif
