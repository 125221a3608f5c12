// SPDX-License-Identifier: Apache-2.0
// What bench_main.h says. No state.
#include "cmd/bench_main.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cmd/gen_flags.h"

static const ft_flag bench_rows[] = {
    {"--model", "-m", FT_FLAG(ft_bench_flags, opts.path), "MODEL", "model (GGUF)", .required = true,
     .model = true},
    {"--threads", "-t", FT_FLAG(ft_bench_flags, opts.n_threads), "N",
     "threads of either side; 0: all cores", 0, 512},
    {"--rounds", NULL, FT_FLAG(ft_bench_flags, opts.rounds), "N",
     "timed rounds of either side in a row at most", 1, FT_BENCH_ROUNDS_MAX},
    {"--cache-type", NULL, FT_FLAG_ENUM(ft_bench_flags, opts.kv, ft_kv_choices), "TYPE",
     "type of this engine's K and V"},
    {"--row-s", NULL, FT_FLAG(ft_bench_flags, opts.row_s), "S",
     "seconds after which a row begins no further round", 0.01, 3600},
    FT_FLAG_INCLUDE(ft_bench_flags, device, ft_flags_device),
    {"--json", NULL, FT_FLAG(ft_bench_flags, json), NULL, "print one JSON object"},
};
const ft_flag_group ft_flags_bench = FT_FLAG_ROWS(bench_rows);

/* Names of the devices that hold layers. */
static json_t *devices_json(const ft_model *model)
{
    const ft_devices *devices = ft_model_devices(model);
    json_t *names = json_array();
    for (size_t i = 0; i < devices->n; i++)
        json_array_append_new(names, json_string(ggml_backend_dev_name(devices->dev[i])));
    return names;
}

double ft_bench_number(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

const char *ft_bench_text(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

const char *ft_bench_identical(const json_t *row)
{
    const json_t *identical = json_object_get(row, "identical");
    return json_is_true(identical) ? "the same" : json_is_false(identical) ? "DIFFERENT" : "";
}

void ft_bench_print_speeds(const json_t *row, const char *key)
{
    printf("%7.0f %16.1f %16.1f %8.3f %9.2f  %s\n", ft_bench_number(row, key),
           ft_bench_number(row, "foretoken_tok_s"), ft_bench_number(row, "libllama_tok_s"),
           ft_bench_number(row, "ratio"), ft_bench_number(row, "roofline"),
           ft_bench_text(row, "libllama"));
}

/* "plain, edge and edge+proactive". */
static void put_names(ft_buf *out, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ft_buf_puts(out, i == 0 ? "" : i + 1 < n ? ", " : " and ");
        ft_buf_puts(out, names[i]);
    }
}

ft_status ft_bench_names(const char *flag, const char *text, const char *const *names, size_t n,
                         ft_error *err, bool *out)
{
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ","), i = 0;
        while (i < n && (strlen(names[i]) != len || strncmp(names[i], at, len) != 0))
            i++;
        if (i == n) {
            ft_buf all = {0};
            put_names(&all, names, n);
            (void)ft_error_set(err, FT_INVALID, "%s: no '%.*s': there are %s", flag, (int)len, at,
                               ft_buf_str(&all));
            ft_buf_deinit(&all);
            return FT_INVALID;
        }
        out[i] = true;
        at += len;
        if (!*at)
            return FT_OK;
    }
}

typedef struct table {
    const ft_bench_cmd *cmd;
    size_t n;
} table;

static void print_row(void *ctx, const json_t *row)
{
    table *t = ctx;
    if (t->n++ == 0)
        printf("%s\n", t->cmd->header);
    t->cmd->print_row(row);
    fflush(stdout);
}

int ft_bench_main(const ft_bench_cmd *cmd, ft_bench_flags *flags, void *opts)
{
    ft_error err = {0};
    ft_model *model = NULL;
    json_t *report = NULL;
    table rows = {cmd, 0};
    const ft_model_opts model_opts = {.path = flags->opts.path};
    ft_status status = ft_model_load_on(&flags->device, &model_opts, &err, &model);
    if (status == FT_OK) {
        report = json_pack("{s:s, s:I, s:o, s:i, s:s}", "model", flags->opts.path, "n_gpu_layers",
                           (json_int_t)ft_model_n_gpu_layers(model), "devices", devices_json(model),
                           "threads", (int)ft_bench_threads(&flags->opts), "kv_type",
                           ft_kv_type_name(flags->opts.kv));
        flags->opts.on_row = flags->json ? NULL : print_row;
        flags->opts.ctx = &rows;
        status = report ? cmd->measure(opts, model, report, &err)
                        : ft_error_set(&err, FT_INVALID, "%s: %s is no UTF-8", cmd->name,
                                       flags->opts.path);
    }
    ft_model_destroy(model);
    return ft_cmd_report(status, &err, report, flags->json, cmd->print);
}
