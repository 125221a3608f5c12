/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests ask of the API and the metrics of `serve` and `edge`. An answer that is not as it
 * should be ends the test.
 */
#ifndef FT_TEST_API_CLIENT_H
#define FT_TEST_API_CLIENT_H

/* The text that the API at `port` writes at this temperature: always behind the same prompt, with
 * the same seed. The caller frees. */
char *api_complete(int port, double temperature);
/* The value of foretoken's metric `name`, at a port with /metrics. */
long api_metric(int port, const char *name);

#endif
