// SPDX-License-Identifier: Apache-2.0
// Devices of other machines, through ggml's RPC backend. Its entry points are looked up by name, so
// a ggml without it is an error only when RPC is asked for. ggml ends the process if a server does
// not answer, so the connection is tried here first. The only state is ggml's registry.
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cpu.h"
#include "model/device.h"
#include "model/peers.h"

#define CONNECT_MS   3000
#define ENDPOINT_MAX FT_PEER_NAME_SIZE

/* ggml's functions, by their names in its registry. */
typedef ggml_backend_reg_t (*add_server_fn)(const char *endpoint);
typedef void (*start_server_fn)(const char *endpoint, const char *cache_dir, size_t n_threads,
                                size_t n_devices, ggml_backend_dev_t *devices);

/* Sets *out, a pointer to a function, to ggml's function of this name. */
static ft_status entry_point(const char *name, void *out, ft_error *err)
{
    ggml_backend_reg_t reg = ggml_backend_reg_by_name("RPC");
    void *found = reg ? ggml_backend_reg_get_proc_address(reg, name) : NULL;
    memcpy(out, &found, sizeof found); /* C has no cast from data to function pointers */
    return found ? FT_OK
                 : ft_error_set(err, FT_UNSUPPORTED,
                                "this ggml has no RPC backend: build it with -DGGML_RPC=ON "
                                "(tools/setup.sh does)");
}

static ft_status parse(const char *endpoint, size_t n, char host[ENDPOINT_MAX], ft_error *err,
                       const char **port)
{
    if (n < ENDPOINT_MAX) {
        memcpy(host, endpoint, n);
        host[n] = 0;
        char *colon = strrchr(host, ':');
        char *end = NULL;
        long number = colon ? strtol(colon + 1, &end, 10) : 0;
        if (colon && colon != host && end && *end == 0 && number > 0 && number <= 65535) {
            *colon = 0;
            *port = colon + 1;
            return FT_OK;
        }
    }
    return ft_error_set(err, FT_INVALID, "rpc: '%.*s' is not HOST:PORT", (int)(n < 200 ? n : 200),
                        endpoint);
}

static bool connects(const struct addrinfo *address)
{
    int error = 1;
    socklen_t size = sizeof error;
    int fd = socket(address->ai_family, address->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                    address->ai_protocol);
    if (fd < 0)
        return false;
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    (void)connect(fd, address->ai_addr, address->ai_addrlen); /* poll reports the result */
    bool ok = poll(&wait, 1, CONNECT_MS) == 1 &&
              getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
    close(fd);
    return ok;
}

static ft_status try_endpoint(const char *endpoint, size_t n, ft_error *err)
{
    char host[ENDPOINT_MAX];
    const char *port = NULL;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    ft_status status = parse(endpoint, n, host, err, &port);
    if (status != FT_OK)
        return status;
    bool ok = false;
    if (getaddrinfo(host, port, &hints, &found) == 0)
        for (struct addrinfo *a = found; a && !ok; a = a->ai_next)
            ok = connects(a);
    if (ok) {
        char name[ENDPOINT_MAX];
        snprintf(name, sizeof name, "%.*s", (int)n, endpoint);
        ft_peers_add(name, found);
    }
    if (found)
        freeaddrinfo(found);
    return ok ? FT_OK
              : ft_error_set(err, FT_UNAVAILABLE,
                             "rpc: no server answers at %s:%s: start foretoken rpc-server there",
                             host, port);
}

static bool is_registered(ggml_backend_reg_t reg)
{
    for (size_t i = 0; i < ggml_backend_reg_count(); i++)
        if (ggml_backend_reg_get(i) == reg)
            return true;
    return false;
}

static ft_status add_one(add_server_fn add_server, const char *endpoint, size_t n, ft_error *err)
{
    char name[ENDPOINT_MAX];
    ft_status status = try_endpoint(endpoint, n, err);
    if (status != FT_OK)
        return status;
    snprintf(name, sizeof name, "%.*s", (int)n, endpoint);
    ggml_backend_reg_t reg = add_server(name);
    if (!reg)
        return ft_error_set(err, FT_UNAVAILABLE, "rpc: the server at %s lends no device", name);
    if (!is_registered(reg))
        ggml_backend_register(reg);
    return FT_OK;
}

ft_status ft_devices_add_rpc(const char *endpoints, ft_error *err)
{
    (void)ft_devices_list(NULL, 0); /* loads the backends */
    ft_aborts_tame();
    add_server_fn add_server;
    ft_status status = entry_point("ggml_backend_rpc_add_server", &add_server, err);
    while (status == FT_OK) {
        size_t n = strcspn(endpoints, ",");
        status = add_one(add_server, endpoints, n, err);
        if (!endpoints[n])
            break;
        endpoints += n + 1;
    }
    return status;
}

ft_status ft_devices_lend(const char *endpoint, const char *names, int n_threads, ft_error *err)
{
    char host[ENDPOINT_MAX];
    const char *port;
    ft_devices devices;
    start_server_fn start_server;
    ft_status status = parse(endpoint, strlen(endpoint), host, err, &port);
    if (status == FT_OK)
        status = ft_devices_find(names, err, &devices);
    if (status == FT_OK)
        status = entry_point("ggml_backend_rpc_start_server", &start_server, err);
    if (status != FT_OK)
        return status;
    if (devices.n == 0)
        devices.dev[devices.n++] = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (!devices.dev[0])
        return ft_error_set(err, FT_UNSUPPORTED, "rpc: there is no device to lend");
    if ((status = ft_peers_watch_clients(err)) != FT_OK)
        return status;
    start_server(endpoint, NULL, (size_t)ft_cpu_threads(n_threads), devices.n, devices.dev);
    return ft_error_set(err, FT_IO, "rpc: cannot listen on %s", endpoint);
}
