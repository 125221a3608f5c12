/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the passes of a warm-up took, in a small file: a process that starts within a day does
 * not measure them again. Texts do not depend on it. */
#ifndef FT_ENGINE_WARM_KEPT_H
#define FT_ENGINE_WARM_KEPT_H

#include "base/buf.h"
#include "base/kept_file.h"
#include "engine/engine.h"

#define FT_WARM_KEPT_S 86400

/* Appends the file's text. subject: what the times are about; at_s: the time of day, s since the
 * epoch. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_warm_kept_write(uint64_t subject, int64_t at_s, const ft_warm *warm,
                                            ft_buf *out);
/* Sets *warm to the times of such a text. FT_NOT_FOUND: it is about something else, too old, or of
 * an older version. FT_INVALID says what is wrong. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_warm_kept_read(const char *text, size_t n, uint64_t subject,
                                           int64_t now_s, ft_error *err, ft_warm *warm);

/* The same with the file. place may be NULL. False: there is nothing to begin with. */
bool ft_warm_kept_load(const ft_kept_place *place, uint64_t subject, ft_warm *warm);
void ft_warm_kept_save(const ft_kept_place *place, uint64_t subject, const ft_warm *warm);

#endif
