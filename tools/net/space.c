// SPDX-License-Identifier: Apache-2.0
// Namespaces by clone(2). The child is the first process of new network and PID namespaces: it
// brings loopback and the TUN device up, sends the device's descriptor over a socket pair, waits
// for a byte, then runs the command as its own child. When the command ends it ends, with the
// command's exit status, and the kernel kills whatever else runs there.
//
// Root makes these two namespaces alone; others need a user namespace that owns them.
//
// The child never returns to its caller. It touches nothing outside the new namespaces: no mount,
// no file but /dev/net/tun, its own user map and the command's standard input.
#include "net/space.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICE "netlab0"

enum {
    CONTROL = 3, /* the child's end of the socket pair */
    DEVICE_QUEUE =
        10000 /* packets that the device holds until they are read: no drop goes uncounted */
};

/* What the child says when the namespace is up: the descriptor comes with it if step is 0. */
typedef struct report {
    int step;  /* that failed, into steps[] */
    int error; /* errno */
} report;
static const char *const steps[] = {"", "opening /dev/net/tun", "making a TUN device",
                                    "giving the device its address", "bringing loopback up"};

static void fill_address(struct ifreq *ifr, struct in_addr address)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr = address};
    memcpy(&ifr->ifr_addr, &sin, sizeof sin);
}

static int bring_up(int sock, const char *device)
{
    struct ifreq ifr = {.ifr_flags = 0};
    snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", device);
    if (ioctl(sock, SIOCGIFFLAGS, &ifr) != 0)
        return -1;
    ifr.ifr_flags |= IFF_UP | IFF_RUNNING;
    return ioctl(sock, SIOCSIFFLAGS, &ifr);
}

static int give_address(int sock, struct in_addr address)
{
    struct ifreq ifr = {.ifr_name = DEVICE};
    struct in_addr mask = {.s_addr = htonl(0xffffff00)};
    fill_address(&ifr, address);
    if (ioctl(sock, SIOCSIFADDR, &ifr) != 0)
        return -1;
    fill_address(&ifr, mask);
    if (ioctl(sock, SIOCSIFNETMASK, &ifr) != 0)
        return -1;
    ifr.ifr_qlen = DEVICE_QUEUE;
    (void)ioctl(sock, SIOCSIFTXQLEN, &ifr); /* for the machine's root only; else it stays at 500 */
    return bring_up(sock, DEVICE);
}

/* The device's descriptor, or -1 with what failed. */
static int set_up(struct in_addr address, report *r)
{
    struct ifreq ifr = {.ifr_name = DEVICE};
    ifr.ifr_flags = IFF_TUN | IFF_NO_PI;
    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int tun = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (tun < 0)
        r->step = 1;
    else if (ioctl(tun, TUNSETIFF, &ifr) != 0)
        r->step = 2;
    else if (give_address(sock, address) != 0)
        r->step = 3;
    else if (bring_up(sock, "lo") != 0)
        r->step = 4;
    if (r->step)
        r->error = errno;
    if (sock >= 0)
        close(sock);
    return tun;
}

/* The report, and with it the descriptor if there is one. */
static bool send_report(int control, const report *r, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } room = {{0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)r, .iov_len = sizeof *r};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = room.bytes;
        message.msg_controllen = sizeof room.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    return sendmsg(control, &message, MSG_NOSIGNAL) == (ssize_t)sizeof *r;
}

/* The descriptor, -1 if the report came without. False if no report came. */
static bool take_report(int control, report *r, int *fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } room;
    struct iovec iov = {.iov_base = r, .iov_len = sizeof *r};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = room.bytes,
                             .msg_controllen = sizeof room.bytes};
    ssize_t n;
    *fd = -1;
    while ((n = recvmsg(control, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
    }
    struct cmsghdr *c = n == (ssize_t)sizeof *r ? CMSG_FIRSTHDR(&message) : NULL;
    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return n == (ssize_t)sizeof *r;
}

static pid_t run_command(const ft_space_opts *opts, const sigset_t *none)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    int null = opts->no_input ? open("/dev/null", O_RDONLY) : -1;
    if (null > 0)
        dup2(null, STDIN_FILENO);
    if (null > STDERR_FILENO)
        close(null);
    sigprocmask(SIG_SETMASK, none, NULL);
    execle("/bin/sh", "sh", "-c", opts->command, (char *)NULL, opts->env);
    _exit(127);
}

static void write_line(const char *path, const char *line)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : write(fd, line, strlen(line));
    (void)n; /* without the map set_up fails, and says so */
    if (fd >= 0)
        close(fd);
}

/* Without root: a user namespace in which the caller is who it was, and owns the network. */
static void map_user(uid_t uid, gid_t gid)
{
    char line[64];
    write_line("/proc/self/setgroups", "deny");
    snprintf(line, sizeof line, "%u %u 1", (unsigned)uid, (unsigned)uid);
    write_line("/proc/self/uid_map", line);
    snprintf(line, sizeof line, "%u %u 1", (unsigned)gid, (unsigned)gid);
    write_line("/proc/self/gid_map", line);
}

static int exit_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The first process of the namespaces. Signals wait in the mask: as first process it would else not
 * get them. */
static void live(const ft_space_opts *opts, int control)
{
    report r = {0};
    sigset_t set, none;
    char byte;
    prctl(PR_SET_PDEATHSIG,
          SIGKILL); /* no namespace outlives its maker; before the byte is awaited */
    sigemptyset(&none);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_SETMASK, &set, NULL);
    int tun = set_up(opts->address, &r);
    if (!send_report(control, &r, r.step ? -1 : tun) || r.step)
        _exit(125);
    close(tun);
    if (read(control, &byte, 1) != 1)
        _exit(125);
    close(control);
    pid_t command = run_command(opts, &none);
    if (command < 0)
        _exit(125);
    for (;;) {
        int sig = sigwaitinfo(&set, NULL), status = 0;
        pid_t ended;
        if (sig == SIGTERM)
            kill(-1, SIGTERM); /* all here but this */
        while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
            if (ended == command)
                _exit(exit_code(status));
    }
}

static ft_status explain(ft_error *err, const char *what, int error)
{
    bool denied = error == EPERM || error == EACCES;
    bool absent =
        error == ENOENT || error == ENODEV || error == ENXIO || error == EINVAL || error == ENOSYS;
    return ft_error_set(
        err, denied || absent ? FT_FORBIDDEN : FT_IO, "%s: %s%s", what, strerror(error),
        denied   ? ": netlab needs root, or a system that lets users make namespaces"
        : absent ? ": netlab needs a kernel with namespaces and TUN, and /dev/net/tun"
                 : "");
}

ft_status ft_space_create(const ft_space_opts *opts, ft_error *err, ft_space *out)
{
    int pair[2];
    report r = {0};
    *out = (ft_space){.tun = -1, .control = -1, .exit_code = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return explain(err, "making a socket pair", errno);
    /* Without a stack and shared memory it is a fork. */
    uid_t uid = geteuid();
    gid_t gid = getegid();
    int flags = CLONE_NEWNET | CLONE_NEWPID | (uid ? CLONE_NEWUSER : 0);
    long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        if (uid)
            map_user(uid, gid);
        dup2(pair[1], CONTROL);
        syscall(SYS_close_range, CONTROL + 1, ~0u, 0); /* other spaces' ends among them */
        live(opts, CONTROL);
    }
    int error = errno;
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return explain(err, "making a network namespace", error);
    }
    out->pid = (pid_t)pid;
    out->control = pair[0];
    if (take_report(pair[0], &r, &out->tun) && r.step == 0 && out->tun >= 0)
        return FT_OK;
    ft_space_destroy(out);
    if (r.step > 0 && r.step < (int)(sizeof steps / sizeof *steps))
        return explain(err, steps[r.step], r.error);
    return ft_error_set(err, FT_IO, "a namespace's first process ended early");
}

void ft_space_start(ft_space *space)
{
    space->started = true;
    if (send(space->control, "", 1, MSG_NOSIGNAL) != 1)
        return; /* it has ended: SIGCHLD says so */
    close(space->control);
    space->control = -1;
}

/* One of the kernel's tables of sockets: local address is the second field, state the fourth. */
static bool table_has(pid_t pid, const char *table, uint16_t port, bool listening)
{
    char path[64], line[256];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/net/%s", (int)pid, table);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        unsigned local = 0, state = 0;
        if (sscanf(line, " %*[^:]: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &local, &state) == 2)
            found = local == port && (!listening || state == 0x0a /* TCP_LISTEN */);
    }
    if (file)
        fclose(file);
    return found;
}

bool ft_space_listens(const ft_space *space, uint16_t port)
{
    return table_has(space->pid, "tcp", port, true) || table_has(space->pid, "tcp6", port, true) ||
           table_has(space->pid, "udp", port, false) || table_has(space->pid, "udp6", port, false);
}

void ft_space_stop(ft_space *space, bool now)
{
    if (space->pid > 0)
        kill(space->pid, now || !space->started ? SIGKILL : SIGTERM);
}

bool ft_space_reap(ft_space *space)
{
    int status = 0;
    if (space->pid <= 0 || waitpid(space->pid, &status, WNOHANG) != space->pid)
        return false;
    space->pid = 0;
    space->exit_code = exit_code(status);
    return true;
}

void ft_space_destroy(ft_space *space)
{
    if (space->pid > 0) {
        kill(space->pid, SIGKILL);
        while (waitpid(space->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    if (space->tun > 0)
        close(space->tun);
    if (space->control > 0)
        close(space->control);
    *space = (ft_space){.tun = -1, .control = -1, .exit_code = space->exit_code};
}
