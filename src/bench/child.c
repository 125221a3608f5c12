// SPDX-License-Identifier: Apache-2.0
// A child process: a pipe from its standard output, an unnamed file for its standard error. It is
// killed when this process is told to stop.
#include "bench/child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "bench/cgroup.h"

#define ARGS_MAX 64
#define POLL_MS  50

typedef struct child {
    const ft_bench_child_opts *o;
    ft_bench_cgroup group;
    char *argv[ARGS_MAX + 2];
    pid_t pid, parent;
    int ends[2]; /* of the pipe */
    FILE *errors;
    ft_buf said;
} child;

/* In the child: never returns. */
static void become(child *c)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != c->parent)
        _exit(126);
    if (c->o->limit_bytes && !ft_bench_cgroup_enter(&c->group))
        _exit(126);
    setpgid(0, 0); /* Ctrl-C is the parent's to handle */
    if (c->o->cache && setenv("XDG_CACHE_HOME", c->o->cache, 1) != 0)
        _exit(126);
    dup2(fileno(c->errors), STDERR_FILENO);
    dup2(c->ends[1], STDOUT_FILENO);
    if (c->o->args) {
        execv("/proc/self/exe", c->argv);
        _exit(127);
    }
    FILE *out = fdopen(STDOUT_FILENO, "w");
    const int code = out ? c->o->call(c->o->ctx, out) : 1;
    if (out)
        fflush(out);
    _exit(code);
}

static ft_status start(child *c, ft_error *err)
{
    size_t n = 0;
    c->argv[0] = (char *)"foretoken";
    while (c->o->args && c->o->args[n] && n < ARGS_MAX) {
        c->argv[n + 1] = (char *)c->o->args[n];
        n++;
    }
    c->errors = tmpfile();
    if (!c->errors || pipe(c->ends) != 0)
        return ft_error_set(err, FT_IO, "no pipe to a child: %s", strerror(errno));
    c->parent = getpid();
    fflush(NULL);
    c->pid = fork();
    if (c->pid == 0)
        become(c);
    close(c->ends[1]);
    if (c->pid < 0) {
        close(c->ends[0]);
        return ft_error_set(err, FT_EXHAUSTED, "cannot start a child: %s", strerror(errno));
    }
    return FT_OK;
}

/* Until the child closes its standard output. */
static ft_status read_all(child *c, ft_error *err)
{
    char chunk[4096];
    struct pollfd p = {.fd = c->ends[0], .events = POLLIN};
    for (;;) {
        if (c->o->stop && c->o->stop()) {
            kill(c->pid, SIGKILL);
            return ft_error_set(err, FT_CANCELLED, "stopped");
        }
        if (poll(&p, 1, POLL_MS) <= 0)
            continue;
        const ssize_t n = read(c->ends[0], chunk, sizeof chunk);
        if (n == 0)
            return FT_OK;
        if (n > 0 && ft_buf_append(&c->said, chunk, (size_t)n) != FT_OK)
            return ft_error_set(err, FT_NOMEM, "out of memory");
    }
}

/* The last line on its standard error. */
static ft_status why_failed(child *c, ft_error *err)
{
    char line[256], last[256] = "it did not say why";
    rewind(c->errors);
    while (fgets(line, sizeof line, c->errors)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0])
            memcpy(last, line, sizeof last);
    }
    const char *mine = "foretoken: ";
    return ft_error_set(err, FT_PRECONDITION, "%s",
                        strncmp(last, mine, strlen(mine)) == 0 ? last + strlen(mine) : last);
}

static ft_status finish(child *c, ft_error *err, ft_bench_child *out)
{
    int how = 0;
    json_error_t why;
    while (waitpid(c->pid, &how, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(how))
        return ft_error_set(err, FT_EXHAUSTED, "killed by signal %d%s", WTERMSIG(how),
                            WTERMSIG(how) == SIGKILL && c->o->limit_bytes
                                ? ": it needs more memory than its cgroup allows"
                                : "");
    if (WEXITSTATUS(how) != 0)
        return why_failed(c, err);
    out->json = json_loadb(ft_buf_str(&c->said), c->said.len, 0, &why);
    if (!out->json)
        return ft_error_set(err, FT_CORRUPT, "a child wrote no JSON: %s", why.text);
    if (c->o->limit_bytes)
        out->peak_bytes = ft_bench_cgroup_peak(&c->group);
    return FT_OK;
}

ft_status ft_bench_child_run(const ft_bench_child_opts *opts, ft_error *err, ft_bench_child *out)
{
    child c = {.o = opts};
    ft_error ignored;
    *out = (ft_bench_child){0};
    ft_status status = FT_OK;
    if (opts->limit_bytes)
        status = ft_bench_cgroup_make(opts->limit_bytes, err, &c.group);
    if (status == FT_OK)
        status = start(&c, err);
    if (c.pid > 0) {
        if (status == FT_OK)
            status = read_all(&c, err);
        close(c.ends[0]);
        const ft_status ended = finish(&c, status == FT_OK ? err : &ignored, out);
        status = status == FT_OK ? ended : status;
    }
    if (status != FT_OK) {
        json_decref(out->json);
        *out = (ft_bench_child){0};
    }
    if (c.errors)
        fclose(c.errors);
    ft_buf_deinit(&c.said);
    ft_bench_cgroup_remove(&c.group);
    return status;
}
