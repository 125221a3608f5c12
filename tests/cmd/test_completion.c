// SPDX-License-Identifier: Apache-2.0
// `foretoken help`, --help, errors of usage and the scripts of `foretoken completion`, which come
// from the tables of commands and flags. bash runs a script as it does when somebody presses Tab.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char output[1 << 16];

/* Runs a script of bash, in which $FT_BINARY is the program; what it prints is in `output`.
 * Returns its exit status. */
static int bash(const char *script)
{
    char command[2048];
    snprintf(command, sizeof command, "bash --norc --noprofile -c '%s' 2>&1", script);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(output, 1, sizeof output - 1, pipe);
    output[n] = 0;
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* What completes the last of these words, each behind a blank: " serve edge ". */
static const char *complete(const char *words)
{
    char script[1024];
    snprintf(script, sizeof script,
             ". <(\"$FT_BINARY\" completion bash); COMP_WORDS=(%s); COMP_CWORD=$((${#COMP_WORDS[@]}"
             " - 1)); _foretoken; echo \" ${COMPREPLY[*]} \"",
             words);
    assert_int_equal(bash(script), 0);
    output[strcspn(output, "\n")] = 0;
    return output;
}

static void expect(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' lacks '%s'", text, part);
}

static void test_bash_takes_it(void **state)
{
    assert_int_equal(bash(". <(\"$FT_BINARY\" completion bash); complete -p foretoken"), 0);
    assert_string_equal(output, "complete -F _foretoken foretoken\n");
}

static void test_commands(void **state)
{
    assert_string_equal(complete("foretoken ser"), " serve ");
    assert_string_equal(complete("foretoken simulate \"\""), " wisp qsv edgellm zhu fleet ");
    assert_string_equal(complete("foretoken bench ver"), " verify ");
    assert_string_equal(complete("foretoken completion \"\""), " bash zsh ");
    assert_string_equal(complete("foretoken nosuch"), "  ");
    complete("foretoken \"\"");
    expect(output, " serve edge batch run ");
    expect(output, " bench ");
    assert_null(strstr(strstr(output, " bench ") + 1, " bench ")); /* once */
    complete("foretoken bench \"\"");
    expect(output, " verify ");
    expect(output, " exact ");
}

static void test_flags_of_a_command(void **state)
{
    assert_string_equal(complete("foretoken serve --port-f"), " --port-file ");
    assert_string_equal(complete("foretoken serve -m x --static-w"), " --static-wait-ms ");
    assert_string_equal(complete("foretoken bench verify --mem"), " --memory-gb ");
    assert_string_equal(complete("foretoken bench verify --row"), " --row-s ");
    assert_string_equal(complete("foretoken bench decode --mem"), "  ");
    assert_string_equal(complete("foretoken trace --port"), "  ");
    assert_string_equal(complete("foretoken info --h"), " --help ");
}

/* A flag that is on by default, or whose default depends on others, is offered with --no-, too. */
static void test_flags_that_are_on(void **state)
{
    assert_string_equal(complete("foretoken edge --no-pro"), " --no-proactive ");
    assert_string_equal(complete("foretoken run --no-pro"), " --no-proactive ");
    assert_string_equal(complete("foretoken run --no-jso"), "  ");
    assert_string_equal(complete("foretoken bench exact --no-lib"), " --no-libllama ");
}

/* Files complete a FILE and words; nothing completes other values, flags neither. */
static void test_values(void **state)
{
    char directory[] = "/tmp/ft-completion-XXXXXX", words[300];
    assert_non_null(mkdtemp(directory));
    snprintf(words, sizeof words, "touch \"%s/a model.gguf\"", directory);
    assert_int_equal(bash(words), 0);
    snprintf(words, sizeof words, "foretoken serve -m \"%s/a\"", directory);
    expect(complete(words), "/a model.gguf ");
    snprintf(words, sizeof words, "foretoken info \"%s/a\"", directory);
    expect(complete(words), "/a model.gguf ");
    snprintf(words, sizeof words, "foretoken serve --port \"%s/a\"", directory);
    assert_string_equal(complete(words), "  ");
    assert_string_equal(complete("foretoken serve --port --h"), "  ");
    snprintf(words, sizeof words, "rm -r \"%s\"", directory);
    assert_int_equal(bash(words), 0);
}

/* Every command of the list, in bash's script and in zsh's; each with a help text. */
static void test_every_command_is_there(void **state)
{
    assert_int_equal(
        bash("b=$(\"$FT_BINARY\" completion bash) z=$(\"$FT_BINARY\" completion zsh);"
             "\"$FT_BINARY\" help | sed -nE \"s/^  ([a-z-]+( [a-z-]+)?)  +.*/\\1/p\" |"
             "while read -r name; do for script in \"$b\" \"$z\"; do "
             "grep -Eq \"^    .$name( .[*]|.)\\)$\" <<<\"$script\" || echo $name; done;"
             "\"$FT_BINARY\" $name --help | cmp - <(\"$FT_BINARY\" help $name); echo -n .; done"),
        0);
    assert_true(strlen(output) >= 23);
    assert_int_equal(strspn(output, "."), strlen(output));
}

/* Where there is a zsh, its script completes the same. */
static void test_zsh_takes_it(void **state)
{
    if (bash("command -v zsh") != 0)
        skip();
    assert_int_equal(
        bash("zsh -fc \"autoload -U compinit; compinit -D; . <($FT_BINARY completion zsh);"
             "setopt ksharrays; COMP_WORDS=(foretoken bench ver); COMP_CWORD=2; _foretoken;"
             "echo \\$COMPREPLY\""),
        0);
    assert_string_equal(output, "verify\n");
}

static void test_help(void **state)
{
    assert_int_equal(bash("cmp <(\"$FT_BINARY\" help) <(\"$FT_BINARY\" --help)"), 0);
    assert_int_equal(bash("\"$FT_BINARY\" help nosuch"), 2);
    expect(output, "unknown command");
    assert_int_equal(bash("\"$FT_BINARY\""), 2);
    expect(output, "usage: foretoken COMMAND");
    assert_int_equal(bash("\"$FT_BINARY\" bench"), 2);
    expect(output, "unknown command");
    assert_int_equal(bash("\"$FT_BINARY\" completion bash word"), 2);
    expect(output, "unexpected word");
}

/* No line of a paragraph is longer than 90 columns, wherever the program broke it. */
static void test_paragraphs(void **state)
{
    assert_int_equal(bash("for c in serve edge run \"bench serving\" \"simulate wisp\"; do "
                          "\"$FT_BINARY\" $c --help | sed -n 3,/^$/p; done"),
                     0);
    expect(output, "Serves a target model");
    for (const char *line = output; *line; line += strcspn(line, "\n") + 1)
        assert_in_range(strcspn(line, "\n"), 0, 90);
}

static void test_usage(void **state)
{
    assert_int_equal(bash("\"$FT_BINARY\" trace"), 2);
    expect(output, "foretoken trace: words are missing: foretoken trace FILE");
    assert_int_equal(bash("\"$FT_BINARY\" run -p hello"), 2);
    expect(output, "foretoken run: --model MODEL is missing");
    assert_int_equal(bash("\"$FT_BINARY\" serve -m x --cache-type q9"), 2);
    expect(output, "is not f16, bf16 or q8_0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bash_takes_it),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_flags_of_a_command),
        cmocka_unit_test(test_flags_that_are_on),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_every_command_is_there),
        cmocka_unit_test(test_zsh_takes_it),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_paragraphs),
        cmocka_unit_test(test_usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
