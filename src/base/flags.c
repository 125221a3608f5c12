// SPDX-License-Identifier: Apache-2.0
// Parsing and printing of flag tables. No state; the options belong to the caller.
#include "base/flags.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHOICES_TEXT 160 /* bytes of a list of choices */

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

static bool takes_value(const ft_flag *flag)
{
    return flag->kind != FT_FLAG_BOOL && flag->kind != FT_FLAG_SWITCH;
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
    if (!takes_value(flag) && strncmp(arg, "--no-", 5) == 0 &&
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

static ft_status store_integer(const ft_flag *flag, void *dest, const char *value, ft_error *err)
{
    char *end = NULL;
    errno = 0;
    const long long x = strtoll(value, &end, 10);
    if (end == value || *end || errno)
        return ft_error_set(err, FT_INVALID, "%s: '%s' is not a whole number", flag->name, value);
    ft_status status = check_range(flag, (double)x, err);
    if (status == FT_OK && flag->kind == FT_FLAG_INT)
        *(int64_t *)dest = x;
    else if (status == FT_OK && flag->kind == FT_FLAG_INT32)
        *(int32_t *)dest = (int32_t)x;
    else if (status == FT_OK)
        *(uint32_t *)dest = (uint32_t)x;
    return status;
}

static ft_status store_real(const ft_flag *flag, void *dest, const char *value, ft_error *err)
{
    char *end = NULL;
    errno = 0;
    const double x = strtod(value, &end);
    if (end == value || *end || errno || !isfinite(x))
        return ft_error_set(err, FT_INVALID, "%s: '%s' is not a number", flag->name, value);
    if (flag->kind == FT_FLAG_FLOAT)
        *(double *)dest = x;
    else
        *(float *)dest = (float)x;
    return check_range(flag, x, err);
}

/* "f16, bf16 or q8_0". */
static void list_choices(const ft_flag *flag, char *out, size_t size)
{
    size_t n = 0;
    for (const char *const *name = flag->choices; *name && n < size; name++) {
        const char *comma = name == flag->choices ? "" : name[1] ? ", " : " or ";
        n += (size_t)snprintf(out + n, size - n, "%s%s", comma, *name);
    }
}

static ft_status store_choice(const ft_flag *flag, void *dest, const char *value, ft_error *err)
{
    char names[CHOICES_TEXT];
    for (unsigned i = 0; flag->choices[i]; i++)
        if (strcmp(value, flag->choices[i]) == 0) {
            *(unsigned *)dest = i;
            return FT_OK;
        }
    list_choices(flag, names, sizeof names);
    return ft_error_set(err, FT_INVALID, "%s: '%s' is not %s", flag->name, value, names);
}

static ft_status store(const ft_flag *flag, void *dest, const char *value, ft_error *err)
{
    ft_flag_list *list = dest;
    switch (flag->kind) {
    case FT_FLAG_INT:
    case FT_FLAG_INT32:
    case FT_FLAG_UINT32:
        return store_integer(flag, dest, value, err);
    case FT_FLAG_FLOAT:
    case FT_FLAG_SINGLE:
        return store_real(flag, dest, value, err);
    case FT_FLAG_CHOICE:
        return store_choice(flag, dest, value, err);
    case FT_FLAG_STRING:
        *(const char **)dest = value;
        return FT_OK;
    case FT_FLAG_LIST:
        if (list->n == FT_FLAG_LIST_MAX)
            return ft_error_set(err, FT_INVALID, "%s: given more than %d times", flag->name,
                                FT_FLAG_LIST_MAX);
        list->item[list->n++] = value;
        return FT_OK;
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
    if (!takes_value(flag) && value)
        return ft_error_set(err, FT_INVALID, "%s takes no value", flag->name);
    if (takes_value(flag) && !value && !(value = argv[++*i]))
        return ft_error_set(err, FT_INVALID, "%s needs a value: %s", flag->name,
                            flag->value ? flag->value : "VALUE");
    if (flag->kind == FT_FLAG_BOOL)
        *(bool *)(opts + at) = !negated;
    if (flag->kind == FT_FLAG_SWITCH)
        *(ft_switch *)(void *)(opts + at) = negated ? FT_SWITCH_OFF : FT_SWITCH_ON;
    return store(flag, opts + at, value, err);
}

static ft_status check_required(const ft_flag_group *flags, const char *opts, ft_error *err)
{
    const ft_flag *flag;
    size_t at;
    for (size_t k = 0; (flag = ft_flags_nth(flags, k, &at)); k++)
        if (flag->required && !*(const char *const *)(const void *)(opts + at))
            return ft_error_set(err, FT_INVALID, "%s %s is missing: %s", flag->name, flag->value,
                                flag->help);
    return FT_OK;
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
        status = check_required(flags, opts, err);
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
    char names[CHOICES_TEXT];
    switch (flag->kind) {
    case FT_FLAG_BOOL:
        if (*(const bool *)value)
            fprintf(out, " (on; --no-%s)", flag->name + 2);
        break;
    case FT_FLAG_INT:
        fprintf(out, " (%lld)", (long long)*(const int64_t *)value);
        break;
    case FT_FLAG_INT32:
        fprintf(out, " (%d)", *(const int32_t *)value);
        break;
    case FT_FLAG_UINT32:
        fprintf(out, " (%u)", *(const uint32_t *)value);
        break;
    case FT_FLAG_FLOAT:
        fprintf(out, " (%g)", *(const double *)value);
        break;
    case FT_FLAG_SINGLE:
        fprintf(out, " (%g)", (double)*(const float *)value);
        break;
    case FT_FLAG_CHOICE:
        list_choices(flag, names, sizeof names);
        fprintf(out, ": %s (%s)", names, flag->choices[*(const unsigned *)value]);
        break;
    case FT_FLAG_STRING:
        if (*(const char *const *)value)
            fprintf(out, " (%s)", *(const char *const *)value);
        else if (flag->required)
            fprintf(out, " (required)");
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
