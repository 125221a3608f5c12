/* SPDX-License-Identifier: Apache-2.0
 *
 * A draft source that is a sequence of a draft model's engine.
 */
#ifndef FT_SPEC_DRAFT_ENGINE_H
#define FT_SPEC_DRAFT_ENGINE_H

#include "engine/engine.h"
#include "spec/rule.h"

/* An empty text on `engine` (borrowed, outlives it), for drafters that draw by `rule` (borrowed)
 * and as `s` says (copied). The workspace, for that rule among others, is one that all sources of
 * the engine can share (borrowed); NULL: one of its own, some 32 bytes a token of the vocabulary.
 * All sources of one engine are one group. FT_INVALID (sampling), FT_NOMEM leave *out NULL. */
FT_WARN_UNUSED ft_status ft_draft_engine_source(ft_engine *engine, const ft_rule *rule,
                                                ft_rule_work *work, const ft_sampling *s,
                                                ft_error *err, ft_draft_source **out);

#endif
