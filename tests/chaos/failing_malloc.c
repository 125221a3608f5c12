// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program of ours, makes one allocation fail: that of our own code, of jansson or
// of protobuf-c which comes as the n-th from now on. gRPC and ggml end the process when theirs
// fail, so theirs never do. The test writes n into the file that CHAOS_MALLOC names, which both
// sides map. The calls that led to the failure go to standard error: addr2line turns them into
// lines. Any thread; glibc only, whose own allocator does the work.
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CALLER __builtin_return_address(0)

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

typedef struct control {
    _Atomic int64_t left;   /* 1: the next one fails; 0 and below: none does */
    _Atomic int64_t failed; /* so far */
} control;

typedef struct code {
    uintptr_t from, to;
} code;

enum { CODE_MAX = 16, CALLS_MAX = 12 };

static control none, *shared = &none;
static code ours[CODE_MAX];
static size_t n_ours;

static int note_code(struct dl_phdr_info *object, size_t size, void *ctx)
{
    const char *name = object->dlpi_name;
    if (*name && !strstr(name, "libjansson") && !strstr(name, "libprotobuf-c"))
        return 0;
    for (int i = 0; i < object->dlpi_phnum && n_ours < CODE_MAX; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t from = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X))
            ours[n_ours++] = (code){from, from + part->p_memsz};
    }
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CHAOS_MALLOC");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *map =
        fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    dl_iterate_phdr(note_code, NULL);
    void *calls[CALLS_MAX];
    backtrace(calls, CALLS_MAX); /* the first time it allocates */
    if (map != MAP_FAILED)
        shared = map;
}

static bool fails(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    bool counts = false;
    if (atomic_load_explicit(&shared->left, memory_order_relaxed) <= 0)
        return false;
    for (size_t i = 0; i < n_ours && !counts; i++)
        counts = at >= ours[i].from && at < ours[i].to;
    if (!counts || atomic_fetch_sub(&shared->left, 1) != 1)
        return false;
    void *calls[CALLS_MAX];
    atomic_fetch_add(&shared->failed, 1);
    backtrace_symbols_fd(calls, backtrace(calls, CALLS_MAX), STDERR_FILENO);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return fails(CALLER) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return fails(CALLER) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return fails(CALLER) ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails(CALLER) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *block = fails(CALLER) ? NULL : __libc_memalign(alignment, size);
    if (!block)
        return ENOMEM;
    *out = block;
    return 0;
}

/* libc's own would allocate in its name, not in the caller's. */
char *strndup(const char *text, size_t most)
{
    size_t n = strnlen(text, most);
    char *copy = fails(CALLER) ? NULL : __libc_malloc(n + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

char *strdup(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = fails(CALLER) ? NULL : __libc_malloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}
