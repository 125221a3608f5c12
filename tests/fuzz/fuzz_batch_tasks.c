// SPDX-License-Identifier: Apache-2.0
// A file of tasks. Whatever is taken is within its limits, and no id comes twice.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "edge/batch_tasks.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_tasks tasks;
    ft_error err = {0};
    if (ft_tasks_read((const char *)data, n, 1, &err, &tasks) != FT_OK) {
        require(err.message[0] != 0 && tasks.n == 0);
        return 0;
    }
    require(tasks.n >= 1 && tasks.n <= FT_TASKS_MAX);
    for (size_t i = 0; i < tasks.n; i++) {
        const ft_task *t = &tasks.task[i];
        require(t->id[0] && strlen(t->id) <= FT_TASK_ID_MAX);
        require(!t->prompt != !t->messages && (!t->prompt || t->prompt[0]));
        require(!t->messages || (t->n_messages >= 1 && t->n_messages <= FT_TASK_MESSAGES_MAX));
        for (size_t k = 0; k < t->n_messages; k++)
            require(t->messages[k].role[0] && t->messages[k].content);
        require(isfinite(t->release_s) && t->release_s >= 0);
        for (size_t k = 0; k < i && i < 64; k++)
            require(strcmp(tasks.task[k].id, t->id) != 0 && tasks.task[k].line < t->line);
    }
    ft_tasks_deinit(&tasks);
    return 0;
}
