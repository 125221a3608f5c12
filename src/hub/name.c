// SPDX-License-Identifier: Apache-2.0
// Names of models. They become parts of paths and of URLs, so each part is checked here. Stateless.
#include "hub/name.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define HF_PART_MAX 96 /* the hub's own limit on ORG/REPO */
#define ALNUM       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

bool ft_hub_path_is_gguf(const char *path)
{
    const size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".gguf") == 0;
}

bool ft_hub_path_is_below(const char *path)
{
    if (!ft_utf8_valid(path, strlen(path)))
        return false;
    for (const char *c = path; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127 || *c == '\\')
            return false;
    for (;;) {
        const size_t n = strcspn(path, "/");
        if (n == 0 || (n <= 2 && strncmp(path, "..", n) == 0))
            return false;
        if (!path[n])
            return true;
        path += n + 1;
    }
}

/* A part of a name: of these characters, beginning with a letter or digit or '_'. */
static bool is_part(const char *text, size_t n, const char *allowed)
{
    return n > 0 && n <= HF_PART_MAX && strchr("-.:", text[0]) == NULL &&
           strspn(text, allowed) >= n;
}

/* The hub's rule, which also keeps "--", the separator in its cache, out of names. */
static bool is_hf_part(const char *text, size_t n)
{
    if (!is_part(text, n, ALNUM "-_.") || strchr("-.", text[n - 1]))
        return false;
    for (size_t i = 0; i + 1 < n; i++)
        if (strncmp(text + i, "--", 2) == 0 || strncmp(text + i, "..", 2) == 0)
            return false;
    return true;
}

static ft_status parse_hf(const char *text, ft_error *err, ft_hub_name *out)
{
    const char *name = text + strlen("hf:");
    const size_t n = strcspn(name, ":"), org = strcspn(name, "/");
    const char *pick = name[n] ? name + n + 1 : "";
    if (org >= n || !is_hf_part(name, org) || !is_hf_part(name + org + 1, n - org - 1))
        return ft_error_set(err, FT_INVALID,
                            "%.200s: a name on the hub is hf:ORG/REPO, "
                            "hf:ORG/REPO:QUANT or hf:ORG/REPO:FILE",
                            text);
    if (name[n] && !ft_hub_path_is_below(pick))
        return ft_error_set(err, FT_INVALID,
                            "%.200s: behind the repository comes a quant such as Q4_K_M, or the "
                            "path of a file in the repository, without '..'",
                            text);
    if (strlen(pick) >= sizeof out->pick)
        return ft_error_set(err, FT_INVALID, "%.200s: the name is too long", text);
    snprintf(out->repo, sizeof out->repo, "%.*s", (int)n, name);
    snprintf(out->pick, sizeof out->pick, "%s", pick);
    return FT_OK;
}

/* What a name leaves out: Ollama's own defaults. */
static ft_status parse_ollama(const char *text, ft_error *err, ft_hub_name *out)
{
    const char *name = text + strlen("ollama:"), *tag = strrchr(name, ':');
    size_t n = 0;
    if (!tag || strchr(tag, '/'))
        tag = name + strlen(name);
    bool good = tag[0] == 0 || is_part(tag + 1, strlen(tag + 1), ALNUM "-_.");
    for (const char *at = name; good && at <= tag; n++) {
        const char *slash = memchr(at, '/', (size_t)(tag - at));
        const size_t length = (size_t)((slash ? slash : tag) - at);
        good = n < 3 && is_part(at, length, ALNUM "-_.:");
        at += length + 1;
    }
    if (!good)
        return ft_error_set(err, FT_INVALID,
                            "%.200s: an Ollama model is ollama:NAME or "
                            "ollama:NAME:TAG, as `ollama list` shows it",
                            text);
    static const char *const missing[] = {"registry.ollama.ai/library/", "registry.ollama.ai/", ""};
    snprintf(out->repo, sizeof out->repo, "%s%.*s", missing[n - 1], (int)(tag - name), name);
    snprintf(out->pick, sizeof out->pick, "%s", tag[0] ? tag + 1 : "latest");
    return FT_OK;
}

ft_status ft_hub_name_parse(const char *text, ft_error *err, ft_hub_name *out)
{
    *out = (ft_hub_name){.kind = FT_HUB_PATH};
    if (strncmp(text, "hf:", 3) == 0) {
        out->kind = FT_HUB_HF;
        return parse_hf(text, err, out);
    }
    if (strncmp(text, "ollama:", 7) == 0) {
        out->kind = FT_HUB_OLLAMA;
        return parse_ollama(text, err, out);
    }
    return FT_OK;
}
