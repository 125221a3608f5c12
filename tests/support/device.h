/* SPDX-License-Identifier: Apache-2.0
 *
 * The device of ggml on which tests compute, if they are to compute on one.
 */
#ifndef FT_TESTS_DEVICE_H
#define FT_TESTS_DEVICE_H

/* What FT_TEST_DEVICE names, such as "CUDA0"; NULL: none, and tests use RPC servers. "RPC0": an RPC
 * server on loopback, which shows without a GPU what a device does (support/load_on_device.c). */
const char *test_device(void);
/* How long a test waits where others wait `usual` seconds: test_device() may compile its shaders
 * meanwhile, which takes Mesa's software device minutes. */
int test_patience_s(int usual);

#endif
