// SPDX-License-Identifier: Apache-2.0
// A thread that loads one model. It owns *beside from the start to the join.
#include "cmd/draft_beside.h"

#include "base/thread.h"

static void *load(void *arg)
{
    ft_draft_beside *b = arg;
    b->status = ft_cmd_load_model(&b->model, &b->err, &b->draft, NULL);
    return NULL;
}

ft_status ft_draft_beside_start(ft_draft_beside *b, const ft_cmd_model *model, ft_error *err)
{
    *b = (ft_draft_beside){.model = *model};
    return ft_thread_start(load, b, err, &b->thread);
}

ft_status ft_draft_beside_join(ft_draft_beside *b, ft_error *err, ft_model **out)
{
    pthread_join(b->thread, NULL);
    *out = b->draft;
    return b->status == FT_OK ? FT_OK : ft_error_set(err, b->status, "%s", b->err.message);
}
