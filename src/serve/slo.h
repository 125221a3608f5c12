/* SPDX-License-Identifier: Apache-2.0
 *
 * Promises of token speeds to sessions, and each tenant's recent share of the server. Called on the
 * engine thread.
 */
#ifndef FT_SERVE_SLO_H
#define FT_SERVE_SLO_H

#include "serve/state.h"

/* Whether this speed can be promised to a text with a prompt of n_prompt tokens. FT_INVALID: it is
 * above the fastest class; FT_EXHAUSTED: the server is too busy for it now. */
FT_WARN_UNUSED ft_status ft_slo_admit(const ft_verifier *v, float tokens_per_s, uint32_t n_prompt,
                                      int64_t now_us, ft_error *err);
/* The speed of the slowest class that is at least as fast as tokens_per_s; 0: no class is. */
float ft_slo_speed(const ft_verifier *v, float tokens_per_s);
/* Puts an admitted session, whose Open came at asked_us, into its class. */
void ft_slo_init(ft_sess *s, float tokens_per_s, int64_t asked_us);
/* Adds the session to the tenant with this credential. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_slo_join(ft_sess *s, const char *credential, ft_error *err);
/* How many tenants have sessions, counting the one with this credential in any case. */
uint32_t ft_slo_tenants(const ft_verifier *v, const char *credential);
/* The credential of the session's tenant. Borrowed until ft_slo_leave. */
const char *ft_slo_credential(const ft_sess *s);
/* When a turn of the session's tenant last began, or when the tenant came (sched/evict.h). */
int64_t ft_slo_tenant_us(const ft_sess *s);
/* A turn of the session's tenant begins. */
void ft_slo_turn(ft_sess *s, int64_t now_us);
/* Removes the session from its tenant. */
void ft_slo_leave(ft_sess *s);
/* Sets when the next verdict is due. Called when a draft came at at_us, or when the next pass of a
 * run can begin at at_us. */
void ft_slo_due(ft_sess *s, uint32_t draft_us, uint32_t rtt_us, int64_t at_us);
/* Tokens that the session's next verification is expected to bring, > 0. */
double ft_slo_gain(const ft_sess *s);
/* Sets the fields of *work that concern the promise and the tenant. */
void ft_slo_describe(const ft_sess *s, ft_work *work);
/* Called when a verdict is given. At this time s->round must still be the round that the verdict
 * answers, with its tree. */
void ft_slo_answered(ft_sess *s, const ft_msg_verdict *verdict, int64_t now_us);
/* Called after a pass was computed. Counts the rows of each tenant in it. */
void ft_slo_served(ft_verifier *v);

#endif
