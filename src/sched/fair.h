/* SPDX-License-Identifier: Apache-2.0
 *
 * Each tenant's share of the server's recent service, so that tenants can be served equally
 * (ft_work.share). Pure; service is counted in rows.
 */
#ifndef FT_SCHED_FAIR_H
#define FT_SCHED_FAIR_H

/* The count of past rows, faded by one pass; the caller adds the rows of that pass. */
double ft_fair_faded(double rows);
/* The share of a tenant that had `rows` of all tenants' all_rows: 0 to 1, 0 if nobody had any. */
double ft_fair_share(double rows, double all_rows);

#endif
