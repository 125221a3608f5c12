// SPDX-License-Identifier: Apache-2.0
// A journal of a batch. Whatever is taken is within its limits and, written again, reads the same.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "edge/batch_answers.h"

#define TASKS 4

static const ft_task_set set = {.tasks = 11, .settings = 22}; /* as the seeds have them */

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check(const ft_task_answers *a)
{
    size_t n_done = 0;
    for (size_t i = 0; i < TASKS; i++) {
        const ft_task_answer *answer = &a->answer[i];
        n_done += answer->done;
        require(answer->done == (answer->text != NULL));
        require(!answer->done || answer->ids.n == 0);
        require(!answer->done || answer->finish != FT_FINISH_NONE);
        require(answer->ttft_s >= 0 && answer->total_s >= 0);
        for (size_t k = 0; k < answer->ids.n; k++)
            require(answer->ids.id[k] >= 0);
    }
    require(n_done == a->n_done);
}

static void write_again(const ft_task_answers *a)
{
    ft_task_answers again;
    ft_buf text = {0};
    ft_error err = {0};
    size_t whole;
    require(ft_task_write_header(a, &set, &text) == FT_OK);
    for (size_t i = 0; i < TASKS; i++)
        if (a->answer[i].done)
            require(ft_task_write_done(a, i, &text) == FT_OK);
        else if (a->answer[i].ids.n > 0)
            require(ft_task_write_ids(a, i, 0, &text) == FT_OK);
    require(ft_task_answers_init(&again, TASKS, &err) == FT_OK);
    require(ft_task_answers_read(&again, &set, text.data, text.len, &err, &whole) == FT_OK);
    require(whole == text.len && again.n_done == a->n_done);
    for (size_t i = 0; i < TASKS; i++) {
        const ft_task_answer *x = &a->answer[i], *y = &again.answer[i];
        require(x->done == y->done && x->ids.n == y->ids.n);
        require(x->ids.n == 0 || memcmp(x->ids.id, y->ids.id, x->ids.n * sizeof *x->ids.id) == 0);
        require(!x->done || (strcmp(x->text, y->text) == 0 && x->finish == y->finish));
    }
    ft_task_answers_deinit(&again);
    ft_buf_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_task_answers a;
    ft_error err = {0};
    size_t whole;
    require(ft_task_answers_init(&a, TASKS, &err) == FT_OK);
    if (ft_task_answers_read(&a, &set, (const char *)data, n, &err, &whole) != FT_OK) {
        require(err.message[0] != 0);
    } else {
        require(whole <= n && (whole == 0 || data[whole - 1] == '\n'));
        check(&a);
        write_again(&a);
    }
    ft_task_answers_deinit(&a);
    return 0;
}
