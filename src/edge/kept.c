// SPDX-License-Identifier: Apache-2.0
// {"version": 3, "of": "HASH", "exact-0": [...], "ratio-1": [...]}: the numbers of a kind of rule
// and of temperatures up to so much are those of the controller, of the depth, of the calibration
// and of the predictor's comparison (base/kept_file.h). Called by the thread that makes or destroys
// the edge; no other one has it then.
#include "edge/kept.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "base/kept_file.h"
#include "base/log.h"
#include "base/num.h"
#include "base/secret.h"
#include "spec/control_kept.h"

#define VERSION 3
#define KIND    "pair"
#define DIGITS  9 /* of a number */

enum {
    CALIBRATION = FT_CONTROL_KEPT + FT_DEPTH_KEPT,
    MEASURED = CALIBRATION + 4,
    NUMBERS = MEASURED + FT_MEASURED_KEPT
};

static const char *const list_name[FT_RULE_KINDS][FT_WARMTHS] = {
    [FT_RULE_KIND_EXACT] = {"exact-0", "exact-0.5", "exact-1", "exact-more"},
    [FT_RULE_KIND_RATIO] = {"ratio-0", "ratio-0.5", "ratio-1", "ratio-more"}};

static const char *name_of(int list)
{
    return list_name[list / FT_WARMTHS][list % FT_WARMTHS];
}

/* ---- a list's numbers ---- */

static bool numbers_of(const ft_edge_learnt *learnt, double out[NUMBERS])
{
    const ft_steer_learnt *at = &learnt->at[FT_PLACE_SERVER];
    const ft_calibration *c = &learnt->calibration;
    if (!ft_control_keep(&at->control, out))
        return false;
    ft_depth_keep(&at->depth, out + FT_CONTROL_KEPT);
    out[CALIBRATION] = (double)c->sharpness;
    out[CALIBRATION + 1] = (double)c->rest;
    out[CALIBRATION + 2] = (double)c->weight;
    out[CALIBRATION + 3] = (double)c->rest_weight;
    ft_measured_keep(&at->predictor, out + MEASURED);
    return true;
}

static bool is_legal(const ft_calibration *c)
{
    return c->sharpness >= 0 && c->sharpness < 1e3f && fabsf(c->rest) < 1e3f && c->weight >= 0 &&
           c->weight < 1e9f && c->rest_weight >= 0 && c->rest_weight < 1e9f;
}

static bool take_up(ft_edge_learnt *learnt, const double in[NUMBERS])
{
    ft_edge_learnt next = *learnt;
    ft_steer_learnt *at = &next.at[FT_PLACE_SERVER];
    const double *c = in + CALIBRATION;
    next.calibration = (ft_calibration){(float)c[0], (float)c[1], (float)c[2], (float)c[3]};
    if (!is_legal(&next.calibration) || !ft_control_take_up(&at->control, in) ||
        !ft_depth_take_up(&at->depth, in + FT_CONTROL_KEPT) ||
        !ft_measured_take_up(&at->predictor, in + MEASURED))
        return false;
    *learnt = next;
    return true;
}

/* ---- the text ---- */

static bool add_list(json_t *file, const char *name, const double numbers[NUMBERS])
{
    json_t *list = json_array();
    bool ok = json_object_set_new(file, name, list) == 0;
    for (int i = 0; i < NUMBERS && ok; i++)
        ok = json_array_append_new(list, json_real(numbers[i])) == 0;
    return ok;
}

static int append(const char *bytes, size_t n, void *out)
{
    return ft_buf_append(out, bytes, n) == FT_OK ? 0 : -1;
}

ft_status ft_edge_kept_write(const ft_edge_kept *kept, ft_buf *out)
{
    double numbers[NUMBERS];
    char of[17];
    snprintf(of, sizeof of, "%016llx", (unsigned long long)kept->of);
    json_t *file = json_pack("{s:i, s:s}", "version", VERSION, "of", of);
    bool ok = file != NULL;
    for (int i = 0; i < FT_EDGE_KEPT_LISTS && ok; i++)
        if (kept->known[i] && numbers_of(&kept->learnt[i], numbers))
            ok = add_list(file, name_of(i), numbers);
    ok = ok && json_dump_callback(file, append, out, JSON_REAL_PRECISION(DIGITS)) == 0;
    json_decref(file);
    return ok ? FT_OK : FT_NOMEM;
}

static bool read_list(const json_t *list, ft_edge_learnt *learnt)
{
    double numbers[NUMBERS];
    if (json_array_size(list) != NUMBERS)
        return false;
    for (size_t i = 0; i < NUMBERS; i++) {
        const json_t *number = json_array_get(list, i);
        if (!json_is_number(number))
            return false;
        numbers[i] = json_number_value(number);
    }
    return take_up(learnt, numbers);
}

static ft_status read_file(const json_t *file, const ft_edge_kept *kept, ft_error *err)
{
    const char *of = json_string_value(json_object_get(file, "of"));
    ft_edge_learnt next[FT_EDGE_KEPT_LISTS];
    bool known[FT_EDGE_KEPT_LISTS] = {false};
    char own[17];
    snprintf(own, sizeof own, "%016llx", (unsigned long long)kept->of);
    const ft_status status = ft_kept_file_check_version(file, VERSION, err);
    if (status != FT_OK)
        return status;
    if (!of)
        return ft_error_set(err, FT_INVALID, "it does not say what it is about");
    if (strcmp(of, own) != 0)
        return ft_error_set(err, FT_NOT_FOUND, "about other models or servers");
    for (int i = 0; i < FT_EDGE_KEPT_LISTS; i++) {
        const json_t *list = json_object_get(file, name_of(i));
        next[i] = kept->learnt[i];
        known[i] = list != NULL;
        if (list && !read_list(list, &next[i]))
            return ft_error_set(err, FT_INVALID, "wrong numbers of %s", name_of(i));
    }
    for (int i = 0; i < FT_EDGE_KEPT_LISTS; i++) {
        kept->learnt[i] = next[i];
        kept->known[i] = known[i];
    }
    return FT_OK;
}

ft_status ft_edge_kept_read(const char *text, size_t n, const ft_edge_kept *kept, ft_error *err)
{
    json_t *file = NULL;
    ft_status status = ft_json_parse(text, n, err, &file);
    if (status == FT_OK)
        status = read_file(file, kept, err);
    json_decref(file);
    return status;
}

/* ---- the file ---- */

/* What decides how long things take, and what is accepted. */
static uint64_t subject(const ft_edge *edge)
{
    const uint64_t models[] = {edge->drafts.fingerprint, edge->info.target,
                               (uint64_t)edge->how.draft_by};
    uint64_t hash = ft_fnv64(FT_FNV64_INIT, models, sizeof models);
    const ft_predictor *p = edge->how.draft.predictor;
    if (p) { /* another one of the same draft brings something else */
        hash = ft_fnv64(hash, p->mean, sizeof p->mean);
        hash = ft_fnv64(hash, p->scale, sizeof p->scale);
    }
    hash = ft_fnv64(hash, edge->info.kernels, strlen(edge->info.kernels));
    return ft_fnv64(hash, edge->how.kept.of, strlen(edge->how.kept.of));
}

/* Whether there is a place to keep it. Which target the servers have is not known to an edge that
 * began with its fallback target. */
static bool keeps(const ft_edge *edge)
{
    return edge->how.kept.folder && !ft_servers_is_fallback(&edge->servers, edge->met);
}

void ft_edge_kept_load(ft_edge *edge)
{
    ft_error err = {0};
    char *text = NULL;
    size_t n = 0;
    if (!keeps(edge))
        return;
    const ft_edge_kept kept = {subject(edge), edge->learnt[0], edge->begun[0]};
    ft_status status = ft_kept_file_read(&edge->how.kept, KIND, kept.of, &err, &text, &n);
    if (status == FT_OK)
        status = ft_edge_kept_read(text, n, &kept, &err);
    if (status == FT_OK)
        FT_LOGI("edge", "begins with what an earlier process learnt folder=%s",
                edge->how.kept.folder);
    else if (status != FT_NOT_FOUND)
        FT_LOGW("edge", "what an earlier process learnt is ignored folder=%s why=\"%s\"",
                edge->how.kept.folder, err.message);
    free(text);
}

void ft_edge_kept_save(ft_edge *edge)
{
    ft_error err = {0};
    ft_buf text = {0};
    if (!keeps(edge))
        return;
    const ft_edge_kept kept = {subject(edge), edge->learnt[0], edge->begun[0]};
    ft_status status = ft_edge_kept_write(&kept, &text);
    if (status == FT_OK)
        status = ft_kept_file_write(&edge->how.kept, KIND, kept.of, text.data, text.len, &err);
    if (status != FT_OK)
        FT_LOGW("edge", "what was learnt is not kept why=\"%s\"", err.message);
    ft_buf_deinit(&text);
}
