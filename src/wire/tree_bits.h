/* SPDX-License-Identifier: Apache-2.0
 *
 * A Draft's tree as bits; private to this room. `tree` is one number, least significant byte first,
 * and the nodes stand in it in order, each from the lowest free bit on:
 *
 *   1 bit                 0: a child of what the node before it is a child of (node 0: the text's
 *                         end) 1: its parent follows
 *   as many as hold i     [after a 1] the parent of node i: 0 the text's end, k node k - 1
 *   token_bits            its token
 *
 * What is left of the last byte is 0. So siblings that stand together, as they come out of a
 * drafter, pay for their parent once. Pure functions; any thread.
 */
#ifndef FT_WIRE_TREE_BITS_H
#define FT_WIRE_TREE_BITS_H

#include "wire/messages.h"

#define FT_TREE_BITS_TOKEN_MAX 31 /* bits of a token */
/* A node takes a bit, its parent and its token. */
#define FT_TREE_BITS_MAX_BYTES (FT_WIRE_TREE_MAX * (1 + 8 + FT_TREE_BITS_TOKEN_MAX) / 8)

/* Packs the tree of a draft whose nodes are legal. out: [FT_TREE_BITS_MAX_BYTES]. *token_bits: the
 * fewest that hold every token, 0 without nodes. Returns the bytes. */
size_t ft_tree_bits_write(const ft_msg_draft *draft, uint8_t *out, uint32_t *token_bits);

/* Reads draft->n nodes, no more than FT_WIRE_TREE_MAX, of tokens of token_bits, 1 to
 * FT_TREE_BITS_TOKEN_MAX (any without nodes), into draft->token and draft->parent. FT_INVALID:
 * n_bytes are too few or too many for them, a parent points forward, or bits are left that are not
 * 0. */
FT_WARN_UNUSED ft_status ft_tree_bits_read(const uint8_t *data, size_t n_bytes, uint32_t token_bits,
                                           ft_msg_draft *draft, ft_error *err);

#endif
