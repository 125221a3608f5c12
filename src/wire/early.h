/* SPDX-License-Identifier: Apache-2.0
 *
 * Early drafts: nodes that extend the tree under verification. The verdict has a path and a token
 * behind it. If the early draft has this token as a child of the path's last node, the nodes below
 * it are the next round's tree. Edge and server cut out this tree by the same function. Pure
 * functions; any thread.
 */
#ifndef FT_WIRE_EARLY_H
#define FT_WIRE_EARLY_H

#include "wire/messages.h"

/* FT_INVALID: the draft does not extend a tree of n_nodes nodes. It has no nodes, `under` does not
 * have one entry for each node with parent -1, an entry is outside the tree, or two siblings are
 * equal. Parents must have been checked. */
FT_WARN_UNUSED ft_status ft_early_check(const ft_msg_draft *early, uint32_t n_nodes, ft_error *err);

/* Cuts the next round's tree out of a checked early draft: the nodes below `token`, a child of
 * `node` of the extended tree. Writes them in their order into n, token and parent of *out, and
 * no other field. out->n is 0 if there are none. *out may be the early draft itself. */
void ft_early_behind(const ft_msg_draft *early, uint32_t node, int32_t token, ft_msg_draft *out);

#endif
