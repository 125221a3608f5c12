// SPDX-License-Identifier: Apache-2.0
// Parsing and printing of flag tables. No state; the options belong to the caller.
#include "base/flags.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Counts *i down over the flags of a group whose struct lies at `base`. */
static const ft_flag *nth(const ft_flag_group *flags, size_t base, size_t *i, size_t *at)
{
    const ft_flag *found = NULL;
    for (size_t k = 0; k < flags->n && !found; k++) {
        const ft_flag *flag = &flags->flags[k];
        *at = base + flag->at;
        if (flag->kind == FT_FLAG_GROUP)
            found = nth(flag->group, *at, i, at);
        else if ((*i)-- == 0)
            found = flag;
    }
    return found;
}

const ft_flag *ft_flags_nth(const ft_flag_group *flags, size_t i, size_t *at)
{
    return nth(flags, 0, &i, at);
}

/* Does arg name this flag? *value is what follows '=', or NULL; *negated for --no-NAME. */
static bool matches(const ft_flag *flag, const char *arg, const char **value, bool *negated)
{
    size_t n = strlen(flag->name);
    *value = NULL;
    *negated = false;
    if (flag->alias && strcmp(arg, flag->alias) == 0)
        return true;
    if (strncmp(arg, flag->name, n) == 0 && (arg[n] == 0 || arg[n] == '=')) {
        *value = arg[n] ? arg + n + 1 : NULL;
        return true;
    }
    if (flag->kind == FT_FLAG_BOOL && strncmp(arg, "--no-", 5) == 0 &&
        strcmp(arg + 5, flag->name + 2) == 0) {
        *negated = true;
        return true;
    }
    return false;
}

static ft_status check_range(const ft_flag *flag, double x, ft_error *err)
{
    if ((flag->min != 0 || flag->max != 0) && !(x >= flag->min && x <= flag->max))
        return ft_error_set(err, FT_INVALID, "%s: %.15g is outside %.15g to %.15g", flag->name, x,
                            flag->min, flag->max);
    return FT_OK;
}

static ft_status store(const ft_flag *flag, void *dest, const char *value, ft_error *err)
{
    char *end = NULL;
    errno = 0;
    switch (flag->kind) {
    case FT_FLAG_INT: {
        long long x = strtoll(value, &end, 10);
        if (end == value || *end || errno)
            return ft_error_set(err, FT_INVALID, "%s: '%s' is not a whole number", flag->name,
                                value);
        *(int64_t *)dest = x;
        return check_range(flag, (double)x, err);
    }
    case FT_FLAG_FLOAT: {
        double x = strtod(value, &end);
        if (end == value || *end || errno || !isfinite(x))
            return ft_error_set(err, FT_INVALID, "%s: '%s' is not a number", flag->name, value);
        *(double *)dest = x;
        return check_range(flag, x, err);
    }
    case FT_FLAG_STRING:
        *(const char **)dest = value;
        return FT_OK;
    case FT_FLAG_LIST: {
        ft_flag_list *list = dest;
        if (list->n == FT_FLAG_LIST_MAX)
            return ft_error_set(err, FT_INVALID, "%s: given more than %d times", flag->name,
                                FT_FLAG_LIST_MAX);
        list->item[list->n++] = value;
        return FT_OK;
    }
    default: /* a flag without a value */
        return FT_OK;
    }
}

/* The flag argv[*i], and its value, which may be the next argument. */
static ft_status parse_flag(const ft_flag_group *flags, char *opts, char **argv, int *i,
                            ft_error *err)
{
    const char *arg = argv[*i], *value = NULL;
    const ft_flag *flag;
    size_t at;
    bool negated = false;
    for (size_t k = 0; (flag = ft_flags_nth(flags, k, &at)); k++)
        if (matches(flag, arg, &value, &negated))
            break;
    if (!flag)
        return ft_error_set(err, FT_INVALID, "unknown flag %s: --help lists the flags", arg);
    if (flag->kind == FT_FLAG_BOOL && value)
        return ft_error_set(err, FT_INVALID, "%s takes no value", flag->name);
    if (flag->kind != FT_FLAG_BOOL && !value && !(value = argv[++*i]))
        return ft_error_set(err, FT_INVALID, "%s needs a value: %s", flag->name,
                            flag->value ? flag->value : "VALUE");
    if (flag->kind == FT_FLAG_BOOL)
        *(bool *)(opts + at) = !negated;
    return store(flag, opts + at, value, err);
}

ft_status ft_flags_parse(const ft_flag_group *flags, void *opts, int argc, char **argv,
                         ft_error *err, int *n_words)
{
    int words = 0;
    bool only_words = false;
    ft_status status = FT_OK;
    for (int i = 1; i < argc && status == FT_OK; i++) {
        const char *arg = argv[i];
        if (only_words || arg[0] != '-' || arg[1] == 0)
            argv[++words] = argv[i];
        else if (strcmp(arg, "--") == 0)
            only_words = true;
        else
            status = parse_flag(flags, opts, argv, &i, err);
    }
    if (status == FT_OK)
        *n_words = words;
    return status;
}

bool ft_flags_want_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static void print_default(FILE *out, const ft_flag *flag, const void *value)
{
    switch (flag->kind) {
    case FT_FLAG_BOOL:
        if (*(const bool *)value)
            fprintf(out, " (on; --no-%s)", flag->name + 2);
        break;
    case FT_FLAG_INT:
        fprintf(out, " (%lld)", (long long)*(const int64_t *)value);
        break;
    case FT_FLAG_FLOAT:
        fprintf(out, " (%g)", *(const double *)value);
        break;
    case FT_FLAG_STRING:
        if (*(const char *const *)value)
            fprintf(out, " (%s)", *(const char *const *)value);
        break;
    case FT_FLAG_LIST:
        fprintf(out, " (may be repeated)");
        break;
    default:
        break;
    }
}

void ft_flags_help(FILE *out, const ft_flag_group *flags, const void *defaults)
{
    const ft_flag *flag;
    size_t at;
    for (size_t i = 0; (flag = ft_flags_nth(flags, i, &at)); i++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s%s%s", flag->alias ? flag->alias : "",
                 flag->alias ? ", " : "", flag->name, flag->value ? " " : "",
                 flag->value ? flag->value : "");
        fprintf(out, "  %-30s %s", left, flag->help);
        print_default(out, flag, (const char *)defaults + at);
        fputc('\n', out);
    }
}
