// SPDX-License-Identifier: Apache-2.0
// Prints a completion script. The code that completes is the same for every table of commands; the
// tables are data in it. No state. Names of commands have one word or two.
#include "cmd/completion.h"

#include <string.h>

typedef enum flag_set { ALL, WITH_VALUE, WITH_FILE } flag_set;

static void print_flags(FILE *out, const ft_command *command, flag_set set)
{
    const ft_flag *flag;
    size_t at;
    for (size_t i = 0; (flag = ft_flags_nth(&command->flags, i, &at)); i++) {
        const bool is_switch = flag->kind == FT_FLAG_SWITCH;
        const bool is_bool = flag->kind == FT_FLAG_BOOL || is_switch;
        if ((set == WITH_VALUE && is_bool) ||
            (set == WITH_FILE &&
             (is_bool || !flag->value || (strcmp(flag->value, "FILE") != 0 && !flag->model))))
            continue;
        fprintf(out, "%s%s%s ", flag->name, flag->alias ? " " : "", flag->alias ? flag->alias : "");
        if (is_switch || (is_bool && *((const bool *)command->defaults + at)))
            fprintf(out, "--no-%s ", flag->name + 2);
    }
}

static const char begin[] =
    "_foretoken() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local there= flags= values= files= first= second= IFS=$' \\n'\n"
    "    while read -r first second; do\n"
    "        if ((COMP_CWORD == 1)); then\n"
    "            [[ \" $there\" == *\" $first \"* ]] || there+=\"$first \"\n"
    "        elif ((COMP_CWORD == 2)) && [[ $second && $first == \"${COMP_WORDS[1]}\" ]]; then\n"
    "            there+=\"$second \"\n"
    "        fi\n"
    "    done <<'END'\n";

static const char end[] =
    "    esac\n"
    "    if [[ $there ]]; then\n"
    "        COMPREPLY=($(compgen -W \"$there\" -- \"$cur\"))\n"
    "    elif [[ \" $files\" != *\" $prev \"* && \" $values\" == *\" $prev \"* ]]; then\n"
    "        COMPREPLY=()\n"
    "    elif [[ \" $files\" != *\" $prev \"* && $cur == -* ]]; then\n"
    "        COMPREPLY=($(compgen -W \"--help $flags\" -- \"$cur\"))\n"
    "    else\n"
    "        IFS=$'\\n'\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
    "    fi\n"
    "}\n"
    "complete -F _foretoken foretoken\n";

int ft_completion_print(FILE *out, const ft_command *const *commands, size_t n)
{
    static const char *const variable[] = {"flags='", "'\n        values='", "'\n        files='"};
    fputs(begin, out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s\n", commands[i]->name);
    fputs("END\n    case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n", out);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "    '%s%s)\n        ", commands[i]->name,
                strchr(commands[i]->name, ' ') ? "'" : " '*");
        for (flag_set set = ALL; set <= WITH_FILE; set++) {
            fputs(variable[set], out);
            print_flags(out, commands[i], set);
        }
        fputs("' ;;\n", out);
    }
    fputs(end, out);
    return fflush(out) != 0 || ferror(out);
}
