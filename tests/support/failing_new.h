/* SPDX-License-Identifier: Apache-2.0
 *
 * C++ allocations that fail. A test that lists it (tests/CMakeLists.txt, failing_new) has this
 * `operator new` in itself and in the libraries that it loads.
 */
#ifndef FT_TEST_FAILING_NEW_H
#define FT_TEST_FAILING_NEW_H

#ifdef __cplusplus
extern "C" {
#endif

#include <stdbool.h>
#include <stdint.h>

/* The calling thread's n-th allocation from now on throws std::bad_alloc, and the ones after it do
 * not; 0: none does. */
void failing_new_at(uint64_t nth);
/* Whether it has thrown since. */
bool failing_new_thrown(void);
/* Allocations that nothing has deleted yet. */
int64_t failing_new_live(void);

#ifdef __cplusplus
}
#endif
#endif
