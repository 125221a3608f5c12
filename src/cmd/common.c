// SPDX-License-Identifier: Apache-2.0
// What the subcommands share: usage, errors, JSON output, signals, logs of libraries. The only
// state is the signal flag and two pipes.
#include "cmd/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/plot.h"
#include "cmd/models.h"
#include "llama.h"

#define HELP_COLUMNS 90

static volatile sig_atomic_t stopped;
static int stop_pipe[2] = {-1, -1}, hangup_pipe[2] = {-1, -1};

/* Prints the words of a text in lines of at most HELP_COLUMNS. */
static void print_paragraph(const char *text)
{
    size_t column = 0;
    while (*(text += strspn(text, " \n"))) {
        const size_t n = strcspn(text, " \n");
        const bool fits = column + 1 + n <= HELP_COLUMNS;
        printf("%s%.*s", column == 0 ? "" : fits ? " " : "\n", (int)n, text);
        column = column > 0 && fits ? column + 1 + n : n;
        text += n;
    }
    printf("\n\n");
}

void ft_cmd_help(const ft_command *command)
{
    printf("usage: foretoken %s%s%s\n\n", command->name, command->usage[0] ? " " : "",
           command->usage);
    print_paragraph(command->about);
    ft_flags_help(stdout, &command->flags, command->defaults);
}

/* A plot that cannot be drawn is refused now, not when everything has been computed. */
static ft_status check_plots(const ft_command *command, const void *options, ft_error *err)
{
    const ft_flag *flag;
    size_t at;
    ft_status status = FT_OK;
    for (size_t i = 0; status == FT_OK && (flag = ft_flags_nth(&command->flags, i, &at)); i++) {
        const char *path =
            flag->plot ? *(const char *const *)(const void *)((const char *)options + at) : NULL;
        if (path)
            status = ft_plot_check(command->name, path, err);
    }
    return status;
}

/* Models that are named may have to be fetched first. */
static int run(const ft_command *command, void *options, int n_words, char **words)
{
    ft_error err = {0};
    ft_found_models found = {0};
    const ft_status status = ft_models_find(command, options, n_words, words, &err, &found);
    const int code = status == FT_OK ? command->run(options, n_words, words) : ft_cmd_fail(&err);
    ft_found_models_deinit(&found);
    return code;
}

int ft_cmd_main(const ft_command *command, int argc, char **argv)
{
    ft_error err = {0};
    int n_words = 0, code = 2;
    if (ft_flags_want_help(argc, argv)) {
        ft_cmd_help(command);
        return 0;
    }
    void *options = malloc(command->size + 1);
    if (!options)
        return ft_cmd_fail(&(ft_error){.code = FT_NOMEM});
    memcpy(options, command->defaults, command->size);
    if (ft_flags_parse(&command->flags, options, argc, argv, &err, &n_words) == FT_OK &&
        n_words > command->max_words)
        ft_error_set(&err, FT_INVALID, "unexpected word '%s': --help shows the usage",
                     argv[command->max_words + 1]);
    else if (err.code == FT_OK && n_words < command->min_words)
        ft_error_set(&err, FT_INVALID, "words are missing: foretoken %s %s", command->name,
                     command->usage);
    if (err.code != FT_OK)
        fprintf(stderr, "foretoken %s: %s\n", command->name, err.message);
    else if (check_plots(command, options, &err) != FT_OK)
        ft_cmd_fail(&err);
    else
        code = run(command, options, n_words, argv + 1);
    free(options);
    return code;
}

json_int_t ft_cmd_file_bytes(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (json_int_t)info.st_size : -1;
}

int ft_cmd_fail(const ft_error *err)
{
    fprintf(stderr, "foretoken: %s\n", err->message[0] ? err->message : ft_status_text(err->code));
    return 1;
}

int ft_cmd_print_json(json_t *object)
{
    int failed = json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    putchar('\n');
    return fflush(stdout) != 0 || failed;
}

ft_status ft_cmd_write_json(const char *who, const char *path, const json_t *object, size_t how,
                            ft_error *err)
{
    if (json_dump_file(object, path, how) == 0)
        return FT_OK;
    return ft_error_set(err, FT_IO, "%s: %s cannot be written: %s", who, path, strerror(errno));
}

int ft_cmd_report(ft_status status, const ft_error *err, json_t *report, bool json,
                  void (*print)(const json_t *report))
{
    if (status == FT_OK && json)
        return ft_cmd_print_json(report);
    if (status == FT_OK && print)
        print(report);
    json_decref(report);
    return status == FT_OK ? 0 : ft_cmd_fail(err);
}

static void on_signal(int sig)
{
    if (stopped)
        _exit(128 + sig);
    stopped = sig;
    ssize_t n = write(stop_pipe[1], "x", 1);
    (void)n; /* the flag is set; the pipe only wakes a waiter */
}

void ft_cmd_catch_signals(void)
{
    struct sigaction sa = {.sa_handler = on_signal};
    if (stop_pipe[0] < 0 && pipe(stop_pipe) != 0)
        return; /* signals keep their default: the process ends at once */
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of write, like a full disk */
}

static void on_hangup(int sig)
{
    (void)sig;
    ssize_t n = write(hangup_pipe[1], "x", 1);
    (void)n; /* a full pipe wakes as well */
}

void ft_cmd_catch_hangup(void)
{
    struct sigaction sa = {.sa_handler = on_hangup};
    if (hangup_pipe[0] < 0 && pipe2(hangup_pipe, O_NONBLOCK | O_CLOEXEC) != 0)
        return;
    sigemptyset(&sa.sa_mask);
    sigaction(SIGHUP, &sa, NULL);
}

bool ft_cmd_stopped(void)
{
    return stopped != 0;
}

void ft_cmd_clear_stopped(void)
{
    struct pollfd fd = {.fd = stop_pipe[0], .events = POLLIN};
    char byte;
    if (stopped == SIGTERM)
        return;
    while (poll(&fd, 1, 0) > 0 && read(stop_pipe[0], &byte, 1) == 1) {
    }
    stopped = 0;
}

/* Blocks until fd can be read (true), or until a signal or the end of the time (false). fd -1: it
 * never can. */
static bool wait_readable(int fd, int timeout_ms)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = stop_pipe[0], .events = POLLIN}};
    int n = 1;
    while (!stopped && !fds[0].revents && (n > 0 || (n < 0 && errno == EINTR)))
        n = poll(fds, 2, timeout_ms);
    return !stopped && fds[0].revents;
}

bool ft_cmd_wait_input(int fd)
{
    return wait_readable(fd, -1);
}

bool ft_cmd_wait_hangup(int timeout_ms)
{
    char bytes[64];
    return wait_readable(hangup_pipe[0], timeout_ms) &&
           read(hangup_pipe[0], bytes, sizeof bytes) > 0;
}

static void library_log(enum ggml_log_level level, const char *text, void *ctx)
{
    char line[512];
    (void)ctx;
    snprintf(line, sizeof line, "%s", text);
    line[strcspn(line, "\n")] = 0;
    if (line[0] && strcmp(line, ".") != 0)
        ft_log(level == GGML_LOG_LEVEL_ERROR ? FT_LOG_WARN : FT_LOG_DEBUG, "ggml", "%s", line);
}

void ft_cmd_quiet_libraries(void)
{
    llama_log_set(library_log, NULL);
    ggml_log_set(library_log, NULL);
}
