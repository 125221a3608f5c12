// SPDX-License-Identifier: Apache-2.0
// Writing JSON. No state.
#include "http/json.h"

#include "base/text.h"

json_t *ft_http_json_text(const char *data, size_t n)
{
    if (ft_utf8_valid(data, n))
        return json_stringn_nocheck(n ? data : "", n);
    ft_buf repaired = {0};
    json_t *text = NULL;
    if (ft_utf8_repair(data, n, &repaired) == FT_OK)
        text = json_stringn_nocheck(ft_buf_str(&repaired), repaired.len);
    ft_buf_deinit(&repaired);
    return text;
}

static int append(const char *data, size_t n, void *ctx)
{
    return ft_buf_append(ctx, data, n) == FT_OK ? 0 : -1;
}

/* Takes root. */
static ft_status dump(json_t *root, size_t flag, ft_buf *out)
{
    size_t before = out->len;
    /* with 9 digits a float is read back unchanged */
    const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(9) | flag;
    int failed = !root || json_dump_callback(root, append, out, flags);
    failed |= out->failed; /* jansson 2.14 goes on if a key could not be appended */
    json_decref(root);
    if (!failed)
        return FT_OK;
    out->failed = true;
    out->len = before;
    if (out->data)
        out->data[before] = 0;
    return FT_NOMEM;
}

ft_status ft_http_json_append(json_t *root, ft_buf *out)
{
    return dump(root, JSON_ENCODE_ANY, out);
}

ft_status ft_http_json_embed(json_t *root, ft_buf *out)
{
    return dump(root, JSON_EMBED, out);
}
