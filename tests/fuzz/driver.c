// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer: the empty input, every file of the folder argv[1], then a
// fixed number (argv[2], 10,000 by default) of mutations of them, the same ones on every run. A
// crash or a sanitizer report ends the program, so the last line is only printed when there was
// none. Inputs lie in buffers of their exact size so that reading past the end is seen.
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MAX_SEEDS = 256, MAX_SEED_BYTES = 1 << 20, MAX_GROWTH = 64 };

typedef struct input {
    uint8_t *data;
    size_t n;
} input;

static void run(const uint8_t *data, size_t n)
{
    uint8_t *exact = malloc(n ? n : 1);
    if (!exact)
        abort();
    if (n)
        memcpy(exact, data, n);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The file's bytes, {NULL, 0} if it is none that can be read. */
static input read_file(const char *path)
{
    input in = {0};
    FILE *file = fopen(path, "rb");
    in.data = malloc(MAX_SEED_BYTES);
    if (file && in.data)
        in.n = fread(in.data, 1, MAX_SEED_BYTES, file);
    if (in.n == 0) {
        free(in.data);
        in.data = NULL;
    }
    if (file)
        fclose(file);
    return in;
}

/* Reads the folder's files in the order of their names. A missing folder has none. */
static size_t read_seeds(const char *folder, input seeds[MAX_SEEDS])
{
    char *paths[MAX_SEEDS];
    size_t n_paths = 0, n = 0;
    DIR *dir = folder ? opendir(folder) : NULL;
    for (struct dirent *entry; dir && n_paths < MAX_SEEDS && (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        size_t size = strlen(folder) + strlen(entry->d_name) + 2;
        paths[n_paths] = malloc(size);
        if (paths[n_paths])
            snprintf(paths[n_paths++], size, "%s/%s", folder, entry->d_name);
    }
    if (dir)
        closedir(dir);
    qsort(paths, n_paths, sizeof *paths, by_name);
    for (size_t i = 0; i < n_paths; i++) {
        seeds[n] = read_file(paths[i]);
        n += seeds[n].data != NULL;
        free(paths[i]);
    }
    return n;
}

/* Numbers that parsers get wrong. */
static uint64_t odd_number(ft_rng *rng)
{
    static const uint64_t odd[] = {0,          1,          0x7f,       0x80,
                                   0xff,       0x7fff,     0xffff,     0x7fffffff,
                                   0x80000000, 0xffffffff, INT64_MAX,  1ull << 63,
                                   UINT64_MAX, 1ull << 32, 1ull << 40, UINT64_MAX - 7};
    return odd[ft_rng_below(rng, sizeof odd / sizeof odd[0])];
}

/* One change in place; data has room for MAX_GROWTH more bytes. Returns the new length. */
static size_t mutate(ft_rng *rng, uint8_t *data, size_t n, const input *other)
{
    size_t at = n ? ft_rng_below(rng, (uint32_t)n) : 0;
    uint64_t number = odd_number(rng);
    size_t width = (size_t)1 << ft_rng_below(rng, 4);
    switch (ft_rng_below(rng, 7)) {
    case 0: /* a bit */
        if (n)
            data[at] ^= (uint8_t)(1u << ft_rng_below(rng, 8));
        return n;
    case 1: /* a byte */
        if (n)
            data[at] = (uint8_t)ft_rng_u32(rng);
        return n;
    case 2: /* cut */
        return at;
    case 3: /* an odd number over what is there */
        width = width < n - at ? width : n - at;
        memcpy(data + at, &number, width);
        return n;
    case 4: /* an odd number between */
        memmove(data + at + width, data + at, n - at);
        memcpy(data + at, &number, width);
        return n + width;
    case 5: /* bytes out */
        width = width < n - at ? width : n - at;
        memmove(data + at, data + at + width, n - at - width);
        return n - width;
    default: /* a piece of another seed over what is there */
        if (other->n && n) {
            size_t from = ft_rng_below(rng, (uint32_t)other->n);
            size_t most = other->n - from < n - at ? other->n - from : n - at;
            memcpy(data + at, other->data + from, 1 + ft_rng_below(rng, (uint32_t)most));
        }
        return n;
    }
}

static void run_mutations(const input *seeds, size_t n_seeds, long n_runs)
{
    static const input nothing = {0};
    static uint8_t work[MAX_SEED_BYTES + MAX_GROWTH];
    ft_rng rng;
    ft_rng_init(&rng, 1);
    for (long i = 0; i < n_runs; i++) {
        const input *seed = n_seeds ? &seeds[ft_rng_below(&rng, (uint32_t)n_seeds)] : &nothing;
        const input *other = n_seeds ? &seeds[ft_rng_below(&rng, (uint32_t)n_seeds)] : &nothing;
        size_t n = seed->n;
        if (n)
            memcpy(work, seed->data, n);
        for (uint32_t changes = 1 + ft_rng_below(&rng, 4); changes > 0; changes--)
            n = mutate(&rng, work, n, other); /* grows by at most 8 bytes a change */
        run(work, n);
    }
}

int main(int argc, char **argv)
{
    static input seeds[MAX_SEEDS];
    long n_runs = argc > 2 ? atol(argv[2]) : 10000;
    size_t n_seeds = read_seeds(argc > 1 ? argv[1] : NULL, seeds);
    run(NULL, 0);
    for (size_t i = 0; i < n_seeds; i++)
        run(seeds[i].data, seeds[i].n);
    run_mutations(seeds, n_seeds, n_runs);
    printf("%ld inputs, 0 crashes\n", 1 + (long)n_seeds + n_runs);
    for (size_t i = 0; i < n_seeds; i++)
        free(seeds[i].data);
    return 0;
}
