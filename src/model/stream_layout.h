/* SPDX-License-Identifier: Apache-2.0
 *
 * How the parts of a weight stream are read: which aligned pieces of the file, to where, and where
 * the extents are then. For the model room only. Immutable when it has been made; any thread. */
#ifndef FT_MODEL_STREAM_LAYOUT_H
#define FT_MODEL_STREAM_LAYOUT_H

#include "model/stream.h"

/* What offsets, lengths and addresses of O_DIRECT reads are multiples of. Disks want 512 bytes or
 * 4 KiB. */
#define FT_WEIGHT_PAGE ((size_t)4096)

/* Bytes of a read at most. Larger pieces come in later as a whole, so that checksums lag; smaller
 * ones need more of them under way for the same rate. */
#define FT_WEIGHT_PIECE ((size_t)512 << 10)

static inline size_t ft_weight_page_up(size_t n)
{
    return (n + FT_WEIGHT_PAGE - 1) / FT_WEIGHT_PAGE * FT_WEIGHT_PAGE;
}

/* One read. Pieces of a part lie one behind the other in the buffer. */
typedef struct ft_weight_piece {
    uint64_t offset;
    size_t at; /* in the part's buffer */
    size_t bytes;
    size_t need; /* of them, up to the last byte of an extent: the file may end behind it */
} ft_weight_piece;

/* An extent and its place. */
typedef struct ft_weight_range {
    ft_weight_extent extent;
    size_t at;    /* in the part's buffer */
    size_t order; /* which of the part's extents it is */
} ft_weight_range;

typedef struct ft_weight_part_layout {
    char name[sizeof((ft_weight_part *)NULL)->name];
    ft_weight_range *ranges; /* [n_ranges], by offset */
    size_t n_ranges;
    ft_weight_piece *pieces; /* [n_pieces], by offset */
    size_t n_pieces;
    size_t bytes;  /* of the buffer */
    bool unhashed; /* an extent has no checksum */
} ft_weight_part_layout;

typedef struct ft_weight_layout {
    ft_weight_part_layout *parts; /* [n_parts] */
    size_t n_parts;
    ft_weight_range *ranges; /* of all parts */
    ft_weight_piece *pieces;
    size_t n_ranges, n_pieces;
    size_t most_bytes, most_pieces, most_ranges; /* of a part */
    uint64_t end;                                /* of the last extent in the file */
} ft_weight_layout;

/* FT_INVALID: a part is not as ft_weight_part says; FT_NOMEM. The caller deinits *out, which is
 * all-zero on failure. */
FT_WARN_UNUSED ft_status ft_weight_layout_init(const ft_weight_part *parts, size_t n_parts,
                                               ft_error *err, ft_weight_layout *out);
void ft_weight_layout_deinit(ft_weight_layout *layout);
/* Bytes of memory of a layout. */
size_t ft_weight_layout_bytes(const ft_weight_layout *layout);

#endif
