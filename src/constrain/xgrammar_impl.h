/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two C++ files of the room share: XGrammar's headers, a compiled grammar, and how its
 * work is counted (tools/setup.sh), so that no grammar keeps a thread: the same count on every
 * machine, so a text does not depend on how fast one is. */
#ifndef FT_CONSTRAIN_XGRAMMAR_IMPL_H
#define FT_CONSTRAIN_XGRAMMAR_IMPL_H

#include <xgrammar/xgrammar.h>

#ifndef XGRAMMAR_COUNTS_STATES
#error "this XGrammar does not count its work: build it by tools/setup.sh, and configure anew"
#endif

#include <atomic>
#include <cstdint>

#define TOO_MUCH_WORK "it takes too much work: make it smaller, or less ambiguous"

/* What is left to the call that runs on this thread. Beyond it std::length_error is thrown. */
extern thread_local uint64_t ft_xgrammar_work;

struct ft_grammar {
    xgrammar::CompiledGrammar compiled;
    int32_t end;
    std::atomic<int> refs;
};

#endif
