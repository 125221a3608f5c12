// SPDX-License-Identifier: Apache-2.0
// Walks along the answer and, beside it, along the prediction. Where they part, the index of the
// prediction's n-grams says where the answer goes on in it. No state.
#include "spec/prediction.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/num.h"
#include "spec/ngrams.h"

#define END (-1) /* no token */

/* Where the answer, whose last n tokens are last[n], stands in the prediction: behind the longest
 * match, where that is; 0: nowhere. */
static uint32_t find_place(const ft_ngrams *ngrams, const int32_t *last, uint32_t n,
                           uint32_t *length)
{
    ft_ngrams_match found[FT_NGRAMS_MOST];
    if (ft_ngrams_find(ngrams, last, n, found) == 0)
        return 0;
    *length = found[0].length;
    return found[0].at;
}

static void mark(const ft_ngrams *ngrams, const int32_t *answer, uint32_t n_answer, uint32_t n,
                 bool *marks)
{
    int32_t last[FT_NGRAMS_MATCH];
    uint32_t at = 0;
    bool along = true; /* the answer has come as far as token `at` of the prediction */
    for (uint32_t i = 0; i < n_answer; i++) {
        if (along && at < n && ft_ngrams_predicted(ngrams, at) == answer[i]) {
            marks[at++] = true;
            continue;
        }
        uint32_t n_last = ft_min_u32(i + 1, FT_NGRAMS_MATCH), length = 0;
        for (uint32_t k = 0; k < n_last; k++)
            last[k] = answer[i - k];
        at = find_place(ngrams, last, n_last, &length);
        along = at > 0;
        for (uint32_t k = 1; k <= length; k++)
            marks[at - k] = true;
    }
}

ft_status ft_prediction_came(const int32_t *prediction, uint32_t n, const int32_t *answer,
                             uint32_t n_answer, ft_error *err, uint32_t *came)
{
    ft_ngrams *ngrams = NULL;
    bool *marks = calloc((size_t)n + 1, sizeof *marks);
    int32_t *ended = malloc(((size_t)n + 1) * sizeof *ended);
    ft_status status = FT_OK;
    *came = 0;
    if (!marks || !ended) {
        status = ft_error_set(err, FT_NOMEM, "edge: out of memory");
    } else { /* something must stand behind the last n-gram, too */
        for (uint32_t i = 0; i < n; i++)
            ended[i] = prediction[i];
        ended[n] = END;
        status = ft_ngrams_create(ended, n + 1, err, &ngrams);
    }
    if (status == FT_OK)
        mark(ngrams, answer, n_answer, n, marks);
    for (uint32_t i = 0; i < n && status == FT_OK; i++)
        *came += marks[i];
    ft_ngrams_destroy(ngrams);
    free(ended);
    free(marks);
    return status;
}
