// SPDX-License-Identifier: Apache-2.0
// The noise and the draws that are written in draws.txt, which programs in other languages check,
// too (tests/tools/test_vllm.py makes it). A change that moves them breaks every session between an
// old edge and a new server.
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spec/sampling.h"

/* Logits that are the same in every language: multiples of 2^-20 in [-8, 8). With a salt that 5
 * divides some are not finite. */
static float logit_of(uint32_t token, uint32_t salt)
{
    uint32_t h = token * 2654435761u + salt * 2246822519u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    if (salt % 5 == 0 && token % 97 == 3)
        return INFINITY;
    if (salt % 5 == 0 && token % 97 == 5)
        return NAN;
    if (salt % 5 == 0 && token % 97 == 7)
        return -INFINITY;
    return (float)((int32_t)(h >> 8) - (1 << 23)) * 0x1p-20f;
}

static bool check_noise(const char *line)
{
    uint64_t seed;
    uint32_t position, want, got;
    int32_t token;
    if (sscanf(line, "noise %" SCNu64 " %" SCNu32 " %" SCNd32 " %" SCNx32, &seed, &position, &token,
               &want) != 4)
        return false;
    const float noise = ft_gumbel(seed, position, token);
    memcpy(&got, &noise, sizeof got);
    assert_int_equal(got, want);
    return true;
}

static bool check_draw(const char *line)
{
    uint32_t n_vocab, salt, position;
    int32_t want;
    ft_sampling s = ft_sampling_default();
    if (sscanf(line,
               "draw %" SCNu32 " %" SCNu32 " %f %" SCNd32 " %f %f %" SCNu64 " %" SCNu32 " %" SCNd32,
               &n_vocab, &salt, &s.temperature, &s.top_k, &s.top_p, &s.min_p, &s.seed, &position,
               &want) != 9)
        return false;
    ft_error err = {0};
    ft_sampler *sampler;
    float *logits = malloc(n_vocab * sizeof *logits);
    assert_non_null(logits);
    assert_int_equal(ft_sampling_check(&s, &err), FT_OK);
    assert_int_equal(ft_sampler_create(n_vocab, &err, &sampler), FT_OK);
    for (uint32_t t = 0; t < n_vocab; t++)
        logits[t] = logit_of(t, salt);
    assert_int_equal(ft_sampler_draw(sampler, &s, logits, position), want);
    ft_sampler_destroy(sampler);
    free(logits);
    return true;
}

static void test_draws_are_as_written(void **state)
{
    char path[4096], line[512];
    size_t noise = 0, draws = 0;
    snprintf(path, sizeof path, "%s/tests/spec/draws.txt", getenv("FT_SOURCE_DIR"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        const bool is_noise = check_noise(line);
        assert_true(is_noise || line[0] == '#' || check_draw(line));
        noise += is_noise;
        draws += line[0] == 'd';
    }
    fclose(file);
    assert_true(noise >= 100 && draws >= 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_draws_are_as_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
