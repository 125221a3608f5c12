/* SPDX-License-Identifier: Apache-2.0
 *
 * How often a test does the same on other inputs. AddressSanitizer makes code several times as
 * slow, and looks for what goes wrong in any run of it. So with it a test repeats less. No state.
 */
#ifndef FT_TEST_SANITIZED_H
#define FT_TEST_SANITIZED_H

#ifdef __SANITIZE_ADDRESS__
#define FT_TIMES(usual, sanitized) (sanitized)
#else
#define FT_TIMES(usual, sanitized) (usual)
#endif

#endif
