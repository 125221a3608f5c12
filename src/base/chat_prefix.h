/* SPDX-License-Identifier: Apache-2.0
 *
 * The header foretoken-prefix, by which proxies bring the turns of a chat to one server: the number
 * it is made of, and a look at what a client sent. Any thread.
 */
#ifndef FT_BASE_CHAT_PREFIX_H
#define FT_BASE_CHAT_PREFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/chat.h"

/* Its name and its hexadecimal digits. */
#define FT_CHAT_PREFIX_HEADER "foretoken-prefix"
#define FT_CHAT_PREFIX_DIGITS 16

/* A hash of the messages [n] to the end of the first user message, so it is the same in all turns
 * of a chat. 0: there is no user message. */
uint64_t ft_chat_prefix_of(const ft_chat_message *messages, size_t n);

/* Whether value[n], from outside, is what the header should be. If not, the log of `room` says
 * so: proxies read it and nobody else, so the call goes on, but its client should know. */
bool ft_chat_prefix_check(const char *room, const char *value, size_t n);

#endif
