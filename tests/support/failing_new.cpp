// SPDX-License-Identifier: Apache-2.0
// The array and nothrow forms of new, and the sized ones of delete, call these.
#include "support/failing_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

static thread_local uint64_t until;
static thread_local bool thrown;
static std::atomic<int64_t> live;

void failing_new_at(uint64_t nth)
{
    thrown = false;
    until = nth;
}

bool failing_new_thrown(void)
{
    return thrown;
}

int64_t failing_new_live(void)
{
    return live;
}

static bool is_due()
{
    return until > 0 && --until == 0;
}

void *operator new(std::size_t n)
{
    void *p = is_due() ? nullptr : std::malloc(n ? n : 1);
    if (!p) {
        thrown = true;
        throw std::bad_alloc();
    }
    live++;
    return p;
}

void operator delete(void *p) noexcept
{
    live -= p != nullptr;
    std::free(p);
}

void operator delete(void *p, std::size_t) noexcept
{
    operator delete(p);
}
