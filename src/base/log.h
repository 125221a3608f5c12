/* SPDX-License-Identifier: Apache-2.0
 *
 * Structured log lines on standard error: time, level, room, then a message of key=value pairs.
 * Lines never contain prompt or answer text. Any thread may log; a line is one write.
 */
#ifndef FT_BASE_LOG_H
#define FT_BASE_LOG_H

#include "base/status.h"

typedef enum ft_log_level { FT_LOG_DEBUG, FT_LOG_INFO, FT_LOG_WARN, FT_LOG_ERROR } ft_log_level;

/* Lines below the level are dropped; FT_LOG_INFO at start. */
void ft_log_set_level(ft_log_level level);

/* room: the folder of src/ that logs, such as "serve". fmt: as in "session=%s opened n=%u". */
void ft_log(ft_log_level level, const char *room, const char *fmt, ...) FT_PRINTF(3, 4);

#define FT_LOGD(room, ...) ft_log(FT_LOG_DEBUG, room, __VA_ARGS__)
#define FT_LOGI(room, ...) ft_log(FT_LOG_INFO, room, __VA_ARGS__)
#define FT_LOGW(room, ...) ft_log(FT_LOG_WARN, room, __VA_ARGS__)
#define FT_LOGE(room, ...) ft_log(FT_LOG_ERROR, room, __VA_ARGS__)

#endif
