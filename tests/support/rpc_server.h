/* SPDX-License-Identifier: Apache-2.0
 * RPC servers of ggml on loopback, each a child process that lends its CPU: devices that are not
 * the host's, on any machine. */
#ifndef FT_TESTS_RPC_SERVER_H
#define FT_TESTS_RPC_SERVER_H

#include <stdbool.h>

#define RPC_SERVERS 2

/* Starts them; before the program has threads, for it forks. Returns their endpoints as
 * ft_devices_add_rpc takes them, which then knows them as RPC0 and RPC1; NULL: this ggml has no
 * RPC. They end with the program. */
const char *rpc_servers_start(void);

#endif
