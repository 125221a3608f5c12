/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes one allocation of a test program fail: malloc and its kin stand here before those of the C
 * library. Only calls from some modules count, because gRPC and ggml end the process if one of
 * theirs fails. Included by the one file of a test program that asks; not where the sanitizers need
 * the names themselves, nor without glibc (FAILS_ALLOCS is 0 then). */
#ifndef FT_TEST_FAIL_ALLOCS_H
#define FT_TEST_FAIL_ALLOCS_H

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FAILS_ALLOCS 1
#else
#define FAILS_ALLOCS 0
#endif

enum { FAIL_ALLOCS_PARTS = 32 };

static struct {
    const char *const *modules; /* NULL at the end */
    struct {
        uintptr_t begin, end;
    } part[FAIL_ALLOCS_PARTS]; /* [n], code of the modules; set before the first arm */
    size_t n;
    atomic_long left; /* until the one that fails; 0: none will */
    _Atomic(void *) where;
} fail_allocs;

/* Allocations of this thread never fail, and do not count. */
static _Thread_local bool fail_allocs_not_here;

static int fail_allocs_add(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    bool wanted = false;
    for (const char *const *m = fail_allocs.modules; *m; m++) /* "": the program itself */
        wanted |= **m ? strstr(info->dlpi_name, *m) != NULL : !*info->dlpi_name;
    for (int i = 0; i < info->dlpi_phnum && wanted; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || fail_allocs.n == FAIL_ALLOCS_PARTS)
            continue;
        fail_allocs.part[fail_allocs.n].begin = info->dlpi_addr + p->p_vaddr;
        fail_allocs.part[fail_allocs.n++].end = info->dlpi_addr + p->p_vaddr + p->p_memsz;
    }
    return 0;
}

/* Calls from these modules count: parts of their files' names, "" the program itself; NULL at the
 * end. */
static inline void fail_allocs_init(const char *const *modules)
{
    fail_allocs.modules = modules;
    fail_allocs.n = 0;
    dl_iterate_phdr(fail_allocs_add, NULL);
}

/* From now on the n-th allocation fails, and no other. */
static inline void fail_allocs_arm(long n)
{
    atomic_store(&fail_allocs.where, NULL);
    atomic_store(&fail_allocs.left, n);
}

/* None fails any more. Where the one was that failed; NULL: there were fewer. */
static inline void *fail_allocs_disarm(void)
{
    atomic_store(&fail_allocs.left, 0);
    return atomic_load(&fail_allocs.where);
}

#if FAILS_ALLOCS
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static bool fail_allocs_now(void *caller)
{
    if (atomic_load(&fail_allocs.left) == 0 || fail_allocs_not_here)
        return false;
    bool counts = false;
    for (size_t i = 0; i < fail_allocs.n && !counts; i++)
        counts = (uintptr_t)caller >= fail_allocs.part[i].begin &&
                 (uintptr_t)caller < fail_allocs.part[i].end;
    long left = counts ? atomic_load(&fail_allocs.left) : 0;
    while (left > 0 && !atomic_compare_exchange_weak(&fail_allocs.left, &left, left - 1)) {
    }
    if (left != 1)
        return false;
    atomic_store(&fail_allocs.where, caller);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t n)
{
    return fail_allocs_now(__builtin_return_address(0)) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return fail_allocs_now(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return fail_allocs_now(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n);
}

/* The C library's own would call malloc from there. */
static char *fail_allocs_copy(const char *text, size_t n, void *caller)
{
    char *copy = fail_allocs_now(caller) ? NULL : __libc_malloc(n + 1);
    if (copy)
        memcpy(copy, text, n);
    if (copy)
        copy[n] = 0;
    return copy;
}

char *strdup(const char *text)
{
    return fail_allocs_copy(text, strlen(text), __builtin_return_address(0));
}

char *strndup(const char *text, size_t n)
{
    return fail_allocs_copy(text, strnlen(text, n), __builtin_return_address(0));
}
#endif

#endif
