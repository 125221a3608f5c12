/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion of commands and flags in a shell, from the tables of commands. */
#ifndef FT_CMD_COMPLETION_H
#define FT_CMD_COMPLETION_H

#include <stdio.h>

#include "cmd/cmd.h"

/* Prints a script for bash, and for zsh after bashcompinit. It completes the names of commands[n],
 * their flags, and file names as values of flags whose value is a FILE. Returns 0, or 1 if it
 * cannot be written. */
int ft_completion_print(FILE *out, const ft_command *const *commands, size_t n);

#endif
