// SPDX-License-Identifier: Apache-2.0
// A part's extents, by offset, are covered with whole pages. Covers that touch or overlap become
// one stretch of the file; a stretch is cut into pieces. Stateless; any thread.
#include "model/stream_layout.h"

#include <stdlib.h>
#include <string.h>

static uint64_t page_down(uint64_t offset)
{
    return offset / FT_WEIGHT_PAGE * FT_WEIGHT_PAGE;
}

static int by_offset(const void *a, const void *b)
{
    const ft_weight_range *x = a, *y = b;
    return (x->extent.offset > y->extent.offset) - (x->extent.offset < y->extent.offset);
}

/* Copies the extents, sorted; checks them. */
static ft_status set_ranges(const ft_weight_part *part, ft_error *err, ft_weight_part_layout *to)
{
    memcpy(to->name, part->name, sizeof to->name);
    to->name[sizeof to->name - 1] = '\0';
    for (size_t i = 0; i < part->n_extents; i++) {
        const ft_weight_extent *e = &part->extents[i];
        if (e->bytes == 0 || e->bytes > SIZE_MAX / 4 || e->offset > INT64_MAX / 2)
            return ft_error_set(err, FT_INVALID, "weight stream: %s: bad extent %zu", to->name, i);
        to->ranges[i] = (ft_weight_range){.extent = *e, .order = i};
        to->unhashed |= !e->hashed;
    }
    to->n_ranges = part->n_extents;
    qsort(to->ranges, to->n_ranges, sizeof *to->ranges, by_offset);
    for (size_t i = 1; i < to->n_ranges; i++) {
        const ft_weight_extent *before = &to->ranges[i - 1].extent;
        if (before->offset + before->bytes > to->ranges[i].extent.offset)
            return ft_error_set(err, FT_INVALID, "weight stream: %s: extents overlap", to->name);
    }
    return FT_OK;
}

/* Gives the ranges their places, and counts the pieces; writes them if `pieces` is not NULL. */
static void cut(ft_weight_part_layout *part, ft_weight_piece *pieces)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < part->n_ranges;) {
        const uint64_t begin = page_down(part->ranges[i].extent.offset);
        uint64_t need = begin, end = begin;
        const size_t base = at;
        for (; i < part->n_ranges; i++) {
            ft_weight_range *range = &part->ranges[i];
            if (page_down(range->extent.offset) > end)
                break;
            range->at = base + (size_t)(range->extent.offset - begin);
            need = range->extent.offset + range->extent.bytes;
            end = page_down(need + FT_WEIGHT_PAGE - 1);
        }
        for (uint64_t offset = begin; offset < end; offset += FT_WEIGHT_PIECE, n++) {
            const uint64_t left = end - offset;
            const size_t bytes = left < FT_WEIGHT_PIECE ? (size_t)left : FT_WEIGHT_PIECE;
            if (pieces)
                pieces[n] = (ft_weight_piece){
                    .offset = offset,
                    .at = at,
                    .bytes = bytes,
                    .need = need - offset < bytes ? (size_t)(need - offset) : bytes};
            at += bytes;
        }
    }
    part->pieces = pieces;
    part->n_pieces = n;
    part->bytes = at;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static ft_status set_parts(const ft_weight_part *parts, ft_error *err, ft_weight_layout *layout)
{
    size_t n_ranges = 0;
    for (size_t i = 0; i < layout->n_parts; i++) {
        ft_weight_part_layout *part = &layout->parts[i];
        part->ranges = layout->ranges + n_ranges;
        n_ranges += parts[i].n_extents;
        const ft_status st = set_ranges(&parts[i], err, part);
        if (st != FT_OK)
            return st;
        const ft_weight_extent *last = &part->ranges[part->n_ranges - 1].extent;
        layout->end =
            last->offset + last->bytes > layout->end ? last->offset + last->bytes : layout->end;
        cut(part, NULL);
        layout->n_pieces += part->n_pieces;
        layout->most_bytes = max_size(layout->most_bytes, part->bytes);
        layout->most_pieces = max_size(layout->most_pieces, part->n_pieces);
        layout->most_ranges = max_size(layout->most_ranges, part->n_ranges);
    }
    layout->pieces = calloc(layout->n_pieces, sizeof *layout->pieces);
    if (!layout->pieces)
        return ft_error_set(err, FT_NOMEM, "weight stream: out of memory");
    ft_weight_piece *pieces = layout->pieces;
    for (size_t i = 0; i < layout->n_parts; i++) {
        cut(&layout->parts[i], pieces);
        pieces += layout->parts[i].n_pieces;
    }
    return FT_OK;
}

ft_status ft_weight_layout_init(const ft_weight_part *parts, size_t n_parts, ft_error *err,
                                ft_weight_layout *out)
{
    *out = (ft_weight_layout){.n_parts = n_parts};
    for (size_t i = 0; i < n_parts; i++) {
        if (parts[i].n_extents == 0)
            return ft_error_set(err, FT_INVALID, "weight stream: part %zu is empty", i);
        out->n_ranges += parts[i].n_extents;
    }
    if (n_parts == 0)
        return ft_error_set(err, FT_INVALID, "weight stream: no parts");
    out->parts = calloc(n_parts, sizeof *out->parts);
    out->ranges = calloc(out->n_ranges, sizeof *out->ranges);
    const ft_status st = out->parts && out->ranges
                             ? set_parts(parts, err, out)
                             : ft_error_set(err, FT_NOMEM, "weight stream: out of memory");
    if (st != FT_OK)
        ft_weight_layout_deinit(out);
    return st;
}

void ft_weight_layout_deinit(ft_weight_layout *layout)
{
    free(layout->parts);
    free(layout->ranges);
    free(layout->pieces);
    *layout = (ft_weight_layout){0};
}

size_t ft_weight_layout_bytes(const ft_weight_layout *layout)
{
    return layout->n_parts * sizeof *layout->parts + layout->n_ranges * sizeof *layout->ranges +
           layout->n_pieces * sizeof *layout->pieces;
}
