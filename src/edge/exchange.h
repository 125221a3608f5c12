/* SPDX-License-Identifier: Apache-2.0
 *
 * One exchange with the verifier: the outstanding Draft goes out, a verdict comes back, over as
 * many streams as it takes. */
#ifndef FT_EDGE_EXCHANGE_H
#define FT_EDGE_EXCHANGE_H

#include "edge/generation.h"

/* Opens a stream and sends Open, without waiting. FT_OK also if the verifier cannot be reached now:
 * the first exchange tries again and reports. */
FT_WARN_UNUSED ft_status ft_gen_open(ft_gen *gen, ft_error *err);
/* Between two verdicts: if the text is at the fallback target and a server would take it, opens it
 * anew there. An outstanding Draft is sent again. Errors as ft_gen_open. */
FT_WARN_UNUSED ft_status ft_gen_go_back(ft_gen *gen, ft_error *err);
/* Before the first round is chosen: if Opened has come by now, its hints count. Does not wait:
 * otherwise the choice is by what other texts have learnt. Errors as ft_gen_open. */
FT_WARN_UNUSED ft_status ft_gen_look(ft_gen *gen, ft_error *err);
/* Sends the outstanding Draft, unless it was sent, and does not wait for a verdict. FT_OK also if
 * it could not be sent now: the exchange tries again. */
FT_WARN_UNUSED ft_status ft_gen_send(ft_gen *gen, ft_error *err);
/* A round is outstanding: if the stream is lost, opens it again, without waiting for an answer. So
 * a server reads the texts of many generations at once. Errors as ft_gen_open. */
FT_WARN_UNUSED ft_status ft_gen_mend(ft_gen *gen, ft_error *err);
/* Sends the outstanding Draft, unless it was sent, and waits for a verdict on it. If the stream is
 * lost, opens it again. The caller frees *out. FT_CANCELLED: by the sink. */
FT_WARN_UNUSED ft_status ft_gen_exchange(ft_gen *gen, ft_error *err, ft_server_msg **out);

#endif
