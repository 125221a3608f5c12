// SPDX-License-Identifier: Apache-2.0
// Reads the data of FT_CONSTRAINT_CALL, which come from outside.
#include "constrain/calls.h"

#include <stdlib.h>

static ft_status read_form(json_t *v, size_t i, ft_error *err, ft_call_form *out)
{
    *out =
        (ft_call_form){json_string_value(json_object_get(v, "begin")),
                       json_string_value(json_object_get(v, "end")), json_object_get(v, "schema")};
    if (!out->begin || !out->end || !out->schema || json_object_size(v) != 3)
        return ft_error_set(err, FT_INVALID,
                            "constraint: call %zu: it must have a begin, a schema and an end", i);
    return FT_OK;
}

ft_status ft_call_forms_read(const ft_constraint *c, ft_error *err, ft_call_forms *out)
{
    json_error_t where;
    ft_status status = FT_OK;
    *out = (ft_call_forms){.root = json_loadb(c->data, c->n, JSON_REJECT_DUPLICATES, &where)};
    if (!out->root)
        return ft_error_set(err, FT_INVALID, "the calls are no JSON: %s at byte %d", where.text,
                            where.position);
    json_t *list = json_object_get(out->root, "calls"), *mark = json_object_get(out->root, "mark");
    out->n = json_array_size(list);
    out->mark = json_string_value(mark);
    out->many = json_is_true(json_object_get(out->root, "many"));
    if (out->n == 0)
        status =
            ft_error_set(err, FT_INVALID, "constraint: there is no list of calls, or it is empty");
    else if (mark && !(out->mark && *out->mark))
        status = ft_error_set(err, FT_INVALID, "constraint: the mark is no string, or empty");
    else if (!(out->form = calloc(out->n, sizeof *out->form)))
        status = ft_error_set(err, FT_NOMEM, "constraint: out of memory");
    for (size_t i = 0; status == FT_OK && i < out->n; i++)
        status = read_form(json_array_get(list, i), i, err, &out->form[i]);
    if (status != FT_OK)
        ft_call_forms_deinit(out);
    return status;
}

void ft_call_forms_deinit(ft_call_forms *forms)
{
    free(forms->form);
    json_decref(forms->root);
    *forms = (ft_call_forms){0};
}
