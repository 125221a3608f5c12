// SPDX-License-Identifier: Apache-2.0
// The reader's thread of a weight stream. It repeats: choose what to read next, under the lock;
// start it; compute checksums of one piece that has come, while the disk works; take what has
// ended, and sleep until something has if there is nothing to compute. It alone starts reads and
// looks at their memory, so a slot's memory is nobody else's until it is READY. It never sleeps in
// the kernel with the lock held: a disk that does not answer must not keep the pass from noticing.
#include "model/stream_impl.h"

#include <errno.h>
#include <string.h>

static int64_t now_us(const ft_weight_stream *s)
{
    return ft_clock_now_us(&s->opts.clock);
}

/* --- what to read next; lock held --- */

/* DROPPED slots become FREE, and so does the staging area, once nothing is under way to them. */
static void retire(ft_weight_stream *s)
{
    for (size_t i = 0; i < s->opts.n_slots; i++) {
        ft_weight_slot *slot = &s->slots[i];
        if (slot->fill.n_flying > 0)
            continue;
        if (slot->state == FT_WEIGHT_DROPPED)
            slot->state = FT_WEIGHT_FREE;
        if (s->staged == slot && slot->state != FT_WEIGHT_READING)
            s->staged = NULL;
    }
}

static bool in_ring(const ft_weight_stream *s, uint64_t place)
{
    for (size_t i = 0; i < s->opts.n_slots; i++) {
        const ft_weight_slot *slot = &s->slots[i];
        if (slot->place == place && slot->state != FT_WEIGHT_FREE &&
            slot->state != FT_WEIGHT_DROPPED)
            return true;
    }
    return false;
}

/* Whether a part is to be read now, and which. */
static bool next_part(ft_weight_stream *s, size_t *part)
{
    ft_weight_order *order = &s->shared.order;
    while (in_ring(s, order->next))
        order->next++;
    const uint64_t ahead = order->next - order->base;
    if (s->opts.no_overlap && (!order->waiting || ahead + 1 != order->n_asked))
        return false;
    *part = (size_t)(ahead < order->n ? ahead : ahead - order->n);
    return ahead < order->n + s->layout.n_parts;
}

/* Gives a FREE slot the next part; NULL: none is FREE, or nothing is wanted. */
static ft_weight_slot *fill_next(ft_weight_stream *s)
{
    size_t part;
    if (s->staged || !next_part(s, &part))
        return NULL;
    for (size_t i = 0; i < s->opts.n_slots; i++) {
        ft_weight_slot *slot = &s->slots[i];
        ft_weight_fill *fill = &slot->fill;
        if (slot->state != FT_WEIGHT_FREE)
            continue;
        slot->state = FT_WEIGHT_READING;
        slot->place = s->shared.order.next++;
        slot->part = part;
        memset(fill->whole, 0, s->layout.parts[part].n_pieces * sizeof *fill->whole);
        *fill = (ft_weight_fill){
            .to = s->staging ? s->staging : slot->memory, .whole = fill->whole, .hash = fill->hash};
        ft_weight_hash_reset(fill->hash);
        if (s->staging)
            s->staged = slot;
        return slot;
    }
    return NULL;
}

/* The slot whose next piece comes next in the order of reading. */
static ft_weight_slot *slot_to_send(ft_weight_stream *s)
{
    ft_weight_slot *first = NULL;
    for (size_t i = 0; i < s->opts.n_slots; i++) {
        ft_weight_slot *slot = &s->slots[i];
        if (slot->state == FT_WEIGHT_READING &&
            slot->fill.n_sent < s->layout.parts[slot->part].n_pieces &&
            (!first || slot->place < first->place))
            first = slot;
    }
    return first ? first : fill_next(s);
}

static void add(ft_weight_fetch *fetch, ft_weight_op **list)
{
    fetch->busy = true;
    fetch->op.next = *list;
    *list = &fetch->op;
}

static void choose_row(ft_weight_stream *s, ft_weight_fetch *fetch, ft_weight_op **list)
{
    ft_weight_request *request = &s->shared.request;
    const uint64_t offset = request->offsets[request->n_sent];
    const uint64_t begin = offset / FT_WEIGHT_PAGE * FT_WEIGHT_PAGE;
    fetch->skip = (size_t)(offset - begin);
    fetch->need = fetch->skip + request->bytes;
    fetch->got = 0;
    fetch->request = request->number;
    fetch->row = request->n_sent++;
    fetch->op.to = fetch->page;
    fetch->op.offset = begin;
    fetch->op.bytes = ft_weight_page_up(fetch->need);
    add(fetch, list);
}

static void choose_piece(ft_weight_stream *s, ft_weight_fetch *fetch, ft_weight_slot *slot,
                         ft_weight_op **list)
{
    const ft_weight_piece *piece = &s->layout.parts[slot->part].pieces[slot->fill.n_sent];
    fetch->slot = slot;
    fetch->piece = slot->fill.n_sent++;
    slot->fill.n_flying++;
    fetch->need = piece->need;
    fetch->got = 0;
    fetch->op.to = slot->fill.to + piece->at;
    fetch->op.offset = piece->offset;
    fetch->op.bytes = piece->bytes;
    add(fetch, list);
}

/* A list in the order in which it is to be read. */
static ft_weight_op *reversed(ft_weight_op *list)
{
    ft_weight_op *out = NULL;
    while (list) {
        ft_weight_op *next = list->next;
        list->next = out;
        out = list;
        list = next;
    }
    return out;
}

/* As many reads as may be under way more: rows first, because the pass sleeps meanwhile. */
static ft_weight_op *choose(ft_weight_stream *s)
{
    ft_weight_op *list = NULL;
    ft_weight_request *request = &s->shared.request;
    size_t n = 0;
    for (size_t i = FT_WEIGHT_DEPTH; i < FT_WEIGHT_DEPTH + FT_WEIGHT_ROWS; i++) {
        if (!s->fetches[i].busy && request->open && request->n_sent < request->n) {
            choose_row(s, &s->fetches[i], &list);
            n++;
        }
    }
    for (size_t i = 0; i < FT_WEIGHT_DEPTH; i++) {
        ft_weight_slot *slot = s->fetches[i].busy ? NULL : slot_to_send(s);
        if (slot) {
            choose_piece(s, &s->fetches[i], slot, &list);
            n++;
        }
    }
    if (n > 0 && s->shared.n_flying == 0)
        s->shared.reading_since_us = now_us(s);
    s->shared.n_flying += n;
    return reversed(list);
}

/* --- what has come --- */

static void set_error(const ft_weight_stream *s, const char *name, int64_t got, ft_error *err)
{
    if (got < 0)
        ft_error_set(err, FT_IO, "%s: %s cannot be read: %s: check the disk", s->opts.path, name,
                     strerror((int)-got));
    else
        ft_error_set(err, FT_CORRUPT,
                     "%s: %s lies behind the end of the file, which has been cut while it was in "
                     "use: restore the file and start again",
                     s->opts.path, name);
}

/* Lock held. A slot that nobody wants any more cannot fail. */
static void fail(ft_weight_stream *s, ft_weight_slot *slot, const ft_error *err)
{
    if (slot->state != FT_WEIGHT_READING)
        return;
    slot->state = FT_WEIGHT_FAILED;
    slot->error = *err;
    pthread_cond_signal(&s->changed);
}

/* Whether the file has ended too early or the disk has failed. */
static bool is_lost(const ft_weight_fetch *fetch)
{
    return fetch->op.got <= 0 && fetch->op.got != -EAGAIN && fetch->op.got != -EINTR;
}

/* Lock held. True: the rest has to be read yet. */
static bool end_piece(ft_weight_stream *s, ft_weight_fetch *fetch)
{
    ft_weight_slot *slot = fetch->slot;
    const bool wanted = slot->state == FT_WEIGHT_READING && !s->shared.stop;
    if (fetch->got < fetch->need && wanted && !is_lost(fetch))
        return true;
    if (fetch->got >= fetch->need) {
        slot->fill.whole[fetch->piece] = true;
        s->shared.stats.read_bytes += fetch->got;
    } else {
        ft_error err;
        set_error(s, s->layout.parts[slot->part].name, fetch->op.got, &err);
        fail(s, slot, &err);
    }
    slot->fill.n_flying--;
    return false;
}

/* Lock held. True: the rest has to be read yet. */
static bool end_row(ft_weight_stream *s, ft_weight_fetch *fetch)
{
    ft_weight_request *request = &s->shared.request;
    const bool wanted = request->open && request->number == fetch->request;
    if (fetch->got < fetch->need && wanted && !is_lost(fetch))
        return true;
    if (!wanted)
        return false;
    if (fetch->got >= fetch->need) {
        memcpy(request->out + fetch->row * request->bytes, fetch->page + fetch->skip,
               request->bytes);
        s->shared.stats.read_bytes += fetch->got;
        request->n_done++;
    } else if (request->failed == FT_OK) {
        set_error(s, "a row", fetch->op.got, &request->error);
        request->failed = request->error.code;
    }
    if (request->n_done == request->n || request->failed != FT_OK)
        pthread_cond_signal(&s->changed);
    return false;
}

/* Takes the reads that have ended, and returns a list of those that have come in part. Lock held.
 */
static ft_weight_op *take(ft_weight_stream *s, ft_weight_op *list)
{
    ft_weight_op *again = NULL;
    for (ft_weight_op *next; list; list = next) {
        ft_weight_fetch *fetch = (ft_weight_fetch *)list;
        next = list->next;
        s->shared.n_ended++;
        if (list->got > 0) {
            fetch->got += (size_t)list->got;
            list->to += list->got;
            list->offset += (uint64_t)list->got;
            list->bytes -= (size_t)list->got;
        }
        if (fetch->slot ? end_piece(s, fetch) : end_row(s, fetch)) {
            add(fetch, &again);
            continue;
        }
        fetch->busy = false;
        if (--s->shared.n_flying == 0)
            s->shared.stats.reading_us += now_us(s) - s->shared.reading_since_us;
    }
    return again;
}

/* --- checksums; without the lock, which no other thread needs to touch a READING slot --- */

static bool hashes_match(ft_weight_fill *fill, const ft_weight_part_layout *part, size_t limit)
{
    for (; fill->range < part->n_ranges; fill->range++) {
        const ft_weight_range *range = &part->ranges[fill->range];
        if (range->at + fill->bytes >= limit)
            return true;
        const size_t end =
            range->at + range->extent.bytes < limit ? range->at + range->extent.bytes : limit;
        const size_t n = end - range->at - fill->bytes;
        if (range->extent.hashed)
            ft_weight_hash_update(fill->hash, fill->to + range->at + fill->bytes, n);
        fill->bytes += n;
        if (fill->bytes < range->extent.bytes)
            return true;
        if (range->extent.hashed && ft_weight_hash_value(fill->hash) != range->extent.hash)
            return false;
        ft_weight_hash_reset(fill->hash);
        fill->bytes = 0;
    }
    return true;
}

/* The part is in: shows where its extents are, or converts them. */
static void hand_over(ft_weight_stream *s, ft_weight_slot *slot)
{
    const ft_weight_part_layout *part = &s->layout.parts[slot->part];
    for (size_t i = 0; i < part->n_ranges; i++)
        slot->extents[part->ranges[i].order] = slot->fill.to + part->ranges[i].at;
    if (s->opts.convert)
        s->opts.convert(s->opts.convert_ctx, slot->part, slot->extents, slot->memory);
}

/* Computes checksums of the slot's next piece, which has come. Behind the last one the part is
 * READY, if all is well. */
static void digest_piece(ft_weight_stream *s, ft_weight_slot *slot)
{
    ft_weight_fill *fill = &slot->fill;
    const ft_weight_part_layout *part = &s->layout.parts[slot->part];
    const ft_weight_piece *piece = &part->pieces[fill->n_seen++];
    ft_error err = {0};
    if (!hashes_match(fill, part, piece->at + piece->bytes))
        ft_error_set(&err, FT_CORRUPT,
                     "%s: %s has a wrong checksum: the file is damaged: copy or make it again",
                     s->opts.path, part->name);
    else if (fill->n_seen < part->n_pieces)
        return;
    else if (part->unhashed && !ft_weight_file_unchanged(&s->file))
        ft_error_set(&err, FT_CORRUPT,
                     "%s: the file has been changed while it was in use: start again",
                     s->opts.path);
    else
        hand_over(s, slot);
    pthread_mutex_lock(&s->lock);
    if (err.code != FT_OK)
        fail(s, slot, &err);
    else if (slot->state == FT_WEIGHT_READING) {
        slot->state = FT_WEIGHT_READY;
        s->shared.stats.parts++;
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
}

/* Computes checksums of one piece, of the part that is wanted first. False: none has come. */
static bool digest(ft_weight_stream *s)
{
    ft_weight_slot *first = NULL;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->opts.n_slots; i++) {
        ft_weight_slot *slot = &s->slots[i];
        const ft_weight_fill *fill = &slot->fill;
        if (slot->state == FT_WEIGHT_READING &&
            fill->n_seen < s->layout.parts[slot->part].n_pieces && fill->whole[fill->n_seen] &&
            (!first || slot->place < first->place))
            first = slot;
    }
    pthread_mutex_unlock(&s->lock);
    if (first)
        digest_piece(s, first);
    return first != NULL;
}

void *ft_weight_reader_main(void *arg)
{
    ft_weight_stream *s = arg;
    ft_weight_op *list = NULL;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        retire(s);
        const bool stop = s->shared.stop, idle = s->shared.n_flying == 0;
        if (!stop)
            list = choose(s);
        pthread_mutex_unlock(&s->lock);
        if (stop && idle)
            return NULL;
        s->reads->start(s->reads, list);
        list = NULL;
        const bool more = !stop && digest(s);
        ft_weight_op *ended = s->reads->wait(s->reads, !more);
        for (const ft_weight_op *op = ended; op; op = op->next)
            if (op->got > 0)
                ft_weight_file_drop(&s->file, op->offset, (size_t)op->got);
        pthread_mutex_lock(&s->lock);
        list = take(s, ended);
        pthread_mutex_unlock(&s->lock);
        s->reads->start(s->reads, list);
        list = NULL;
    }
}
