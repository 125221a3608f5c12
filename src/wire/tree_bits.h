/* SPDX-License-Identifier: Apache-2.0
 *
 * A Draft's tree as bits; private to this room. `tree` is one number, least significant byte first.
 * The nodes stand in it in order, from the lowest bit on. Node i takes these bits:
 *
 *   1 bit                 0: it has the same parent as the node before (node 0: the text's end);
 *                         1: its parent follows
 *   bits of the number i  only after a 1: its parent. 0 is the text's end, k is node k - 1
 *   token_bits            its token
 *
 * The rest of the last byte is 0. Siblings that stand together, as drafters make them, take the
 * bits of their parent once. Pure functions; any thread.
 */
#ifndef FT_WIRE_TREE_BITS_H
#define FT_WIRE_TREE_BITS_H

#include "wire/messages.h"

#define FT_TREE_BITS_TOKEN_MAX 31 /* bits of a token */
/* A node takes a bit, its parent and its token. */
#define FT_TREE_BITS_MAX_BYTES (FT_WIRE_TREE_MAX * (1 + 8 + FT_TREE_BITS_TOKEN_MAX) / 8)

/* Packs the tree of a draft whose nodes were checked. out: [FT_TREE_BITS_MAX_BYTES]. *token_bits:
 * the fewest bits that hold each token; 0 without nodes. Returns the number of bytes. */
size_t ft_tree_bits_write(const ft_msg_draft *draft, uint8_t *out, uint32_t *token_bits);

/* Reads draft->n nodes (at most FT_WIRE_TREE_MAX) into draft->token and draft->parent. token_bits
 * is 1 to FT_TREE_BITS_TOKEN_MAX, or anything without nodes. FT_INVALID: there are too few or too
 * many bytes, a parent points forward, or the rest of the last byte is not 0. */
FT_WARN_UNUSED ft_status ft_tree_bits_read(const uint8_t *data, size_t n_bytes, uint32_t token_bits,
                                           ft_msg_draft *draft, ft_error *err);

#endif
