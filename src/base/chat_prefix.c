// SPDX-License-Identifier: Apache-2.0
// The header foretoken-prefix: hash of a chat's beginning, check of a value. It has no state.
#include "base/chat_prefix.h"

#include <string.h>

#include "base/log.h"
#include "base/secret.h"
#include "base/text.h"

#define SHOWN_BYTES 32 /* of a wrong value; twice its length shows what is wrong with it */

uint64_t ft_chat_prefix_of(const ft_chat_message *messages, size_t n)
{
    uint64_t hash = FT_FNV64_INIT;
    for (size_t i = 0; i < n; i++) {
        const ft_chat_message *m = &messages[i];
        const char *content = m->content ? m->content : "";
        hash = ft_fnv64(hash, m->role, strlen(m->role) + 1);
        hash = ft_fnv64(hash, content, strlen(content) + 1);
        if (strcmp(m->role, "user") == 0)
            return hash;
    }
    return 0;
}

bool ft_chat_prefix_check(const char *room, const char *value, size_t n)
{
    char text[SHOWN_BYTES + 1];
    const size_t shown = n < SHOWN_BYTES ? n : SHOWN_BYTES;
    memcpy(text, value, shown);
    text[shown] = 0;
    if (n == FT_CHAT_PREFIX_DIGITS && ft_hex_is(text, FT_CHAT_PREFIX_DIGITS))
        return true;
    ft_utf8_line(text);
    for (char *at = text; *at; at++)
        if (*at == '"' || *at == '\\')
            *at = '?'; /* it would end the value in the log's line */
    FT_LOGI(room, FT_CHAT_PREFIX_HEADER " ignored value=\"%s\" reason=\"not %d digits of 0-9a-f\"",
            text, FT_CHAT_PREFIX_DIGITS);
    return false;
}
