/* SPDX-License-Identifier: Apache-2.0
 *
 * How a kernel's functions become one piece of code. Each is inlined, so that types and numbers of
 * rows are constants in it, and its loops are unrolled. Under AddressSanitizer GCC takes minutes
 * for such a file. So where FT_KERNEL_CALLS is defined, functions are called and loops stay loops:
 * the same code, slower, compiled in seconds. Stateless.
 */
#ifndef FT_ENGINE_INLINED_H
#define FT_ENGINE_INLINED_H

#ifdef FT_KERNEL_CALLS
#define FT_INLINED static inline
#define FT_UNROLL(most)
#else
#define FT_INLINED      static inline __attribute__((always_inline))
#define FT_PRAGMA(text) _Pragma(#text)
#define FT_UNROLL(most) FT_PRAGMA(GCC unroll most)
#endif

#endif
