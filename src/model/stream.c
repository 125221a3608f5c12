// SPDX-License-Identifier: Apache-2.0
// A weight stream's memory and the pass's side of its ring. stream_impl.h has the states of a slot
// and says who moves them; here are the moves of the pass, each under the lock. The reader, which
// reads, is in stream_reader.c.
#include "model/stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/thread.h"
#include "model/stream_impl.h"

/* --- memory --- */

static bool mul_add(size_t a, size_t b, size_t *sum)
{
    size_t product;
    return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(*sum, product, sum);
}

static ft_status get_sizes(const ft_weight_stream_opts *opts, const ft_weight_layout *layout,
                           ft_error *err, ft_weight_sizes *out)
{
    const size_t n_rows = opts->row_bytes ? FT_WEIGHT_ROWS : 0;
    const size_t per_slot = sizeof(ft_weight_slot) + layout->most_pieces * sizeof(bool) +
                            layout->most_ranges * sizeof(void *) + ft_weight_hash_bytes();
    ft_weight_sizes z = {.raw = layout->most_bytes};
    if (opts->n_slots == 0 || (opts->convert && opts->slot_bytes == 0) ||
        opts->slot_bytes > SIZE_MAX / 2 || opts->row_bytes > SIZE_MAX / 2)
        return ft_error_set(err, FT_INVALID, "weight stream: a ring needs slots");
    z.slot = opts->convert ? ft_weight_page_up(opts->slot_bytes) : z.raw;
    /* a row may begin on the last byte of a page */
    z.cell = opts->row_bytes ? ft_weight_page_up(opts->row_bytes - 1) + FT_WEIGHT_PAGE : 0;
    z.mapped = opts->convert ? z.raw : 0;
    if (!mul_add(opts->n_slots, z.slot, &z.mapped) || !mul_add(n_rows, z.cell, &z.mapped))
        return ft_error_set(err, FT_NOMEM, "weight stream: out of memory");
    z.total = z.mapped;
    if (!mul_add(opts->n_slots, per_slot, &z.total) ||
        !mul_add(1, ft_weight_layout_bytes(layout), &z.total) ||
        !mul_add(FT_WEIGHT_DEPTH + FT_WEIGHT_ROWS, sizeof(ft_weight_fetch), &z.total) ||
        !mul_add(1, sizeof(ft_weight_stream) + FT_WEIGHT_QUEUE_BYTES, &z.total))
        return ft_error_set(err, FT_NOMEM, "weight stream: out of memory");
    *out = z;
    return FT_OK;
}

ft_status ft_weight_stream_need(const ft_weight_stream_opts *opts, ft_error *err, size_t *bytes)
{
    ft_weight_layout layout;
    ft_weight_sizes sizes = {0};
    ft_status st = ft_weight_layout_init(opts->parts, opts->n_parts, err, &layout);
    if (st != FT_OK)
        return st;
    st = get_sizes(opts, &layout, err, &sizes);
    if (st == FT_OK)
        *bytes = sizes.total;
    ft_weight_layout_deinit(&layout);
    return st;
}

/* The ring, the staging area and the rows' buffers, in this order. */
static ft_status map_memory(ft_weight_stream *s, ft_error *err)
{
    const ft_weight_sizes *z = &s->sizes;
    char *memory =
        mmap(NULL, z->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return ft_error_set(err, FT_NOMEM, "%s: no memory for %zu bytes of weights", s->opts.path,
                            z->mapped);
#ifdef MADV_HUGEPAGE
    madvise(memory, z->mapped, MADV_HUGEPAGE); /* fewer pieces a read; only a wish */
#endif
    s->memory = memory;
    for (size_t i = 0; i < s->opts.n_slots; i++)
        s->slots[i].memory = memory + i * z->slot;
    memory += s->opts.n_slots * z->slot;
    s->staging = s->opts.convert ? memory : NULL;
    memory += s->opts.convert ? z->raw : 0;
    for (size_t i = 0; i < FT_WEIGHT_ROWS; i++)
        s->fetches[FT_WEIGHT_DEPTH + i].page = memory + i * z->cell;
    return FT_OK;
}

static ft_status make_slots(ft_weight_stream *s, ft_error *err)
{
    const size_t n = s->opts.n_slots;
    bool ok = (s->slots = calloc(n, sizeof *s->slots)) != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        ft_weight_slot *slot = &s->slots[i];
        slot->extents = calloc(s->layout.most_ranges, sizeof *slot->extents);
        slot->fill.whole = calloc(s->layout.most_pieces, sizeof *slot->fill.whole);
        slot->fill.hash = ft_weight_hash_create();
        ok = slot->extents && slot->fill.whole && slot->fill.hash;
    }
    if (ok)
        ok = (s->fetches = calloc(FT_WEIGHT_DEPTH + FT_WEIGHT_ROWS, sizeof *s->fetches)) != NULL;
    if (!ok)
        return ft_error_set(err, FT_NOMEM, "%s: out of memory", s->opts.path);
    return map_memory(s, err);
}

static void free_memory(ft_weight_stream *s)
{
    for (size_t i = 0; s->slots && i < s->opts.n_slots; i++) {
        free(s->slots[i].extents);
        free(s->slots[i].fill.whole);
        ft_weight_hash_destroy(s->slots[i].fill.hash);
    }
    free(s->slots);
    free(s->fetches);
    if (s->memory)
        munmap(s->memory, s->sizes.mapped);
    ft_weight_layout_deinit(&s->layout);
    free((char *)s->opts.path);
    free(s);
}

/* --- create and destroy --- */

/* Everything but file, reads and thread. */
static ft_status make(const ft_weight_stream_opts *opts, ft_error *err, ft_weight_stream **out)
{
    ft_weight_stream *s = calloc(1, sizeof *s);
    ft_status st = FT_OK;
    *out = NULL;
    if (!s)
        return ft_error_set(err, FT_NOMEM, "%s: out of memory", opts->path);
    s->opts = *opts;
    s->opts.parts = NULL;
    s->opts.fd = -1;
    s->opts.path = strdup(opts->path);
    s->opts.stall_us = opts->stall_us ? opts->stall_us : FT_WEIGHT_STALL_US;
    if (!opts->clock.now_us)
        s->opts.clock = ft_clock_monotonic();
    if (!s->opts.path)
        st = ft_error_set(err, FT_NOMEM, "%s: out of memory", opts->path);
    if (st == FT_OK)
        st = ft_weight_layout_init(opts->parts, opts->n_parts, err, &s->layout);
    if (st == FT_OK)
        st = get_sizes(opts, &s->layout, err, &s->sizes);
    if (st == FT_OK)
        st = make_slots(s, err);
    if (st != FT_OK) {
        free_memory(s);
        return st;
    }
    *out = s;
    return FT_OK;
}

static ft_status start(ft_weight_stream *s, int fd, ft_error *err)
{
    ft_weight_reads_opts opts = {.most = FT_WEIGHT_DEPTH + FT_WEIGHT_ROWS,
                                 .n_threads = FT_WEIGHT_THREADS,
                                 .read = s->opts.read,
                                 .read_ctx = s->opts.read_ctx};
    ft_status st = ft_weight_file_open(fd, s->opts.path, err, &s->file);
    if (st != FT_OK)
        return st;
    if (s->layout.end > s->file.size)
        st = ft_error_set(err, FT_CORRUPT, "%s: the file is too short for its weights",
                          s->opts.path);
    if (st == FT_OK)
        st = ft_weight_file_reads(&s->file, s->opts.threads_only || s->opts.read, &opts, err,
                                  &s->reads);
    if (st == FT_OK) {
        s->shared.stats.uring = s->reads->uring;
        s->shared.stats.direct = s->file.direct;
        st = ft_thread_start(ft_weight_reader_main, s, err, &s->reader);
        if (st != FT_OK)
            s->reads->destroy(s->reads);
    }
    if (st != FT_OK)
        ft_weight_file_close(&s->file);
    return st;
}

ft_status ft_weight_stream_create(const ft_weight_stream_opts *opts, ft_error *err,
                                  ft_weight_stream **out)
{
    ft_weight_stream *s;
    *out = NULL;
    ft_status st = make(opts, err, &s);
    if (st != FT_OK)
        return st;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    st = start(s, opts->fd, err);
    if (st != FT_OK) {
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
        free_memory(s);
        return st;
    }
    *out = s;
    return FT_OK;
}

void ft_weight_stream_destroy(ft_weight_stream *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->shared.stop = true;
    s->reads->wake(s->reads);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->reader, NULL);
    s->reads->destroy(s->reads);
    ft_weight_file_close(&s->file);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free_memory(s);
}

/* --- the ring; lock held --- */

static bool is_kept(ft_weight_slot_state state)
{
    return state == FT_WEIGHT_READING || state == FT_WEIGHT_READY || state == FT_WEIGHT_HELD;
}

/* Nobody wants what is in the slot. */
static void drop(ft_weight_slot *slot)
{
    const bool quiet = slot->state == FT_WEIGHT_READY || slot->state == FT_WEIGHT_HELD ||
                       slot->state == FT_WEIGHT_FREE;
    slot->state = quiet ? FT_WEIGHT_FREE : FT_WEIGHT_DROPPED;
}

static ft_weight_slot *slot_at(const ft_weight_stream *s, uint64_t place)
{
    for (size_t i = 0; i < s->opts.n_slots; i++) {
        ft_weight_slot *slot = &s->slots[i];
        if (slot->place == place && slot->state != FT_WEIGHT_FREE &&
            slot->state != FT_WEIGHT_DROPPED)
            return slot;
    }
    return NULL;
}

/* In builds with checks: no place is in the ring twice, and what is in the ring is a part that the
 * order has there. */
static void check_ring(const ft_weight_stream *s)
{
#ifdef FT_DEBUG_CHECKS
    const ft_weight_order *order = &s->shared.order;
    for (size_t i = 0; i < s->opts.n_slots; i++) {
        const ft_weight_slot *slot = &s->slots[i];
        if (slot->state == FT_WEIGHT_FREE || slot->state == FT_WEIGHT_DROPPED)
            continue;
        const uint64_t ahead = slot->place - order->base;
        assert(slot_at(s, slot->place) == slot);
        assert(slot->part == (ahead < order->n ? ahead : ahead - order->n));
        assert(slot->state != FT_WEIGHT_HELD || ahead < order->n_asked);
    }
    assert(order->n_asked <= order->n && order->n <= s->layout.n_parts);
#endif
}

void ft_weight_stream_begin(ft_weight_stream *s, size_t n)
{
    ft_weight_order *order = &s->shared.order;
    assert(n <= s->layout.n_parts);
    pthread_mutex_lock(&s->lock);
    const uint64_t base = order->base + order->n + s->layout.n_parts; /* a place that is new */
    /* The ring is for the pass's first parts now: a later one must not take the room of those. */
    const size_t most = n < s->opts.n_slots ? n : s->opts.n_slots;
    for (size_t i = 0; i < s->opts.n_slots; i++) {
        ft_weight_slot *slot = &s->slots[i];
        if (!is_kept(slot->state) || slot->part >= most || slot_at(s, base + slot->part)) {
            drop(slot);
            continue;
        }
        slot->place = base + slot->part;
        if (slot->state == FT_WEIGHT_HELD)
            slot->state = FT_WEIGHT_READY;
    }
    *order = (ft_weight_order){.base = base, .next = base, .n = n};
    check_ring(s);
    s->reads->wake(s->reads);
    pthread_mutex_unlock(&s->lock);
}

/* Parts that the pass leaves out make room. */
static void leave_out(ft_weight_stream *s, size_t part)
{
    ft_weight_order *order = &s->shared.order;
    for (size_t i = 0; i < s->opts.n_slots; i++) {
        ft_weight_slot *slot = &s->slots[i];
        if (slot->state != FT_WEIGHT_HELD && slot->place < order->base + part)
            drop(slot);
    }
    if (order->next < order->base + part)
        order->next = order->base + part;
}

static bool all_held(const ft_weight_stream *s)
{
    for (size_t i = 0; i < s->opts.n_slots; i++)
        if (s->slots[i].state != FT_WEIGHT_HELD)
            return false;
    return true;
}

/* Sleeps until the part is READY. */
static ft_status wait_ready(ft_weight_stream *s, size_t part, ft_error *err, ft_weight_slot **out)
{
    int64_t idle_us = 0;
    uint64_t n_ended = s->shared.n_ended;
    for (;;) {
        ft_weight_slot *slot = slot_at(s, s->shared.order.base + part);
        if (slot && slot->state == FT_WEIGHT_READY) {
            *out = slot;
            return FT_OK;
        }
        if (slot && slot->state == FT_WEIGHT_FAILED)
            return ft_error_set(err, slot->error.code, "%s", slot->error.message);
        const ft_status st = ft_weight_sleep(s, &idle_us, &n_ended, err);
        if (st != FT_OK)
            return st;
    }
}

ft_status ft_weight_stream_wait(ft_weight_stream *s, size_t part, ft_error *err,
                                ft_weight_data *out)
{
    ft_weight_order *order = &s->shared.order;
    ft_weight_slot *slot = NULL;
    ft_status st = FT_OK;
    pthread_mutex_lock(&s->lock);
    if (part >= order->n || part < order->n_asked)
        st = ft_error_set(err, FT_PRECONDITION, "weight stream: part %zu is out of order", part);
    else if (all_held(s))
        st = ft_error_set(err, FT_PRECONDITION, "weight stream: every slot is held");
    if (st == FT_OK) {
        const bool skips = part > order->n_asked;
        if (skips)
            leave_out(s, part);
        order->n_asked = part + 1;
        order->waiting = true;
        if (skips || s->opts.no_overlap)
            s->reads->wake(s->reads);
        st = wait_ready(s, part, err, &slot);
        order->waiting = false;
    }
    if (st == FT_OK) {
        slot->state = FT_WEIGHT_HELD;
        if (order->next <= slot->place) /* the reader has not seen yet that it is in the ring */
            order->next = slot->place + 1;
        *out = s->opts.convert ? (ft_weight_data){.slot = slot->memory}
                               : (ft_weight_data){.extents = slot->extents};
    }
    check_ring(s);
    pthread_mutex_unlock(&s->lock);
    return st;
}

void ft_weight_stream_release(ft_weight_stream *s, size_t part)
{
    pthread_mutex_lock(&s->lock);
    ft_weight_slot *slot = slot_at(s, s->shared.order.base + part);
    if (slot && slot->state == FT_WEIGHT_HELD) {
        drop(slot);
        s->reads->wake(s->reads);
    }
    pthread_mutex_unlock(&s->lock);
}

ft_weight_stream_stats ft_weight_stream_get_stats(ft_weight_stream *s)
{
    pthread_mutex_lock(&s->lock);
    ft_weight_stream_stats stats = s->shared.stats;
    if (s->shared.n_flying > 0)
        stats.reading_us += ft_clock_now_us(&s->opts.clock) - s->shared.reading_since_us;
    pthread_mutex_unlock(&s->lock);
    return stats;
}

size_t ft_weight_stream_bytes(const ft_weight_stream *s)
{
    return s->sizes.total;
}
