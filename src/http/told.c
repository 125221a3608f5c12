// SPDX-License-Identifier: Apache-2.0
// Writes what a verdict brought. A time that is not known is left out. No state.
#include "http/told.h"

#include "http/json.h"

#define F(value, name) name,
static const char *const origins[] = {FT_ORIGINS(F)};
static const char *const reasons[] = {FT_UNDRAFTED(F)};
#undef F

/* NULL: out of memory. */
static json_t *json_spans(const ft_told *told)
{
    json_t *list = json_array();
    int failed = 0;
    for (size_t i = 0; i < told->n_spans; i++)
        failed |= json_array_append_new(list, json_pack("[I,s]", (json_int_t)told->spans[i].bytes,
                                                        origins[told->spans[i].origin]));
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *json_rejected(const ft_told *told)
{
    json_t *list = json_array();
    int failed = 0;
    for (size_t i = 0; i < told->n_rejected; i++)
        failed |= json_array_append_new(
            list, ft_http_json_text(told->rejected[i].bytes, told->rejected[i].n));
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *ms(int64_t us)
{
    return us < 0 ? NULL : json_real((double)us / 1000);
}

ft_status ft_http_told_append(const ft_told *told, ft_buf *out)
{
    const char *kind = told->undrafted ? "run" : told->early ? "early" : "tree";
    json_t *root = json_pack("{s:o,s:I,s:o,s:s,s:s*,s:I,s:I,s:I,s:o}", "spans", json_spans(told),
                             "round", (json_int_t)told->round, "ms", ms(told->at_us), "kind", kind,
                             "reason", told->undrafted ? reasons[told->undrafted] : NULL, "drafted",
                             (json_int_t)told->drafted, "accepted", (json_int_t)told->accepted,
                             "tokens", (json_int_t)told->tokens, "rejected", json_rejected(told));
    json_t *rest =
        json_pack("{s:b,s:o*,s:o*,s:o*,s:o*,s:o*,s:I,s:I}", "fallback", told->fallback, "draft_ms",
                  ms(told->draft_us), "wait_ms", ms(told->wait_us), "rtt_ms", ms(told->rtt_us),
                  "queue_ms", ms(told->queue_us), "verify_ms", ms(told->verify_us), "bytes_sent",
                  (json_int_t)told->sent_bytes, "bytes_received", (json_int_t)told->received_bytes);
    if (json_object_update(root, rest) != 0) {
        json_decref(root);
        root = NULL;
    }
    json_decref(rest);
    return ft_http_json_append(root, out);
}

ft_status ft_http_away_append(ft_buf *out)
{
    return ft_buf_puts(out, "{\"state\":\"reconnecting\"}");
}
