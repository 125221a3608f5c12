/* SPDX-License-Identifier: Apache-2.0
 *
 * Early drafts: nodes that extend a tree whose verdict is awaited. Whatever path that verdict takes and
 * whatever token it says behind it, the early draft may hold that token where the path ends; what hangs
 * below it is the next round's tree then, and both sides cut it out by the same rule. Pure functions; any
 * thread.
 */
#ifndef FT_WIRE_EARLY_H
#define FT_WIRE_EARLY_H

#include "wire/messages.h"

/* FT_INVALID: the draft is no extension of a tree of n_nodes nodes: no nodes, not one `under` for each of
 * those with parent -1, one outside the tree, or two equal siblings. Parents are checked before. */
FT_WARN_UNUSED ft_status ft_early_check(const ft_msg_draft *early, uint32_t n_nodes, ft_error *err);

/* What a checked early draft has behind `token` behind the extended tree's node: its nodes, in their order,
 * into n, token and parent of *out, whose other fields stay as they are. None: out->n is 0. */
void ft_early_behind(const ft_msg_draft *early, uint32_t node, int32_t token, ft_msg_draft *out);

#endif
