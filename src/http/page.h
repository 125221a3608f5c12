/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages for people, each one file with its style and its script. The build makes them from web/
 * (tools/embed-page). Internal to the room. Constant: any thread.
 */
#ifndef FT_HTTP_PAGE_H
#define FT_HTTP_PAGE_H

#include <stddef.h>

typedef struct ft_http_page {
    const char *html; /* [n] */
    size_t n;
    const char *csp; /* its Content-Security-Policy: that style and that script, and nothing else */
} ft_http_page;

extern const ft_http_page ft_http_page_chat;      /* web/chat.html */
extern const ft_http_page ft_http_page_dashboard; /* web/dashboard.html */

#endif
