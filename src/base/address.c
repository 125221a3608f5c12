// SPDX-License-Identifier: Apache-2.0
// IP addresses as 16 bytes each, so that IPv4 and IPv6 need one comparison. Stateless. Text comes
// from clients and proxies: what is no address is refused, never guessed.
#include "base/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define V4_BITS 96 /* of the prefix ::ffff:0:0 */

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

static bool is_v4(const ft_address *address)
{
    return memcmp(address->byte, v4_prefix, sizeof v4_prefix) == 0;
}

static void set_v4(const void *four, ft_address *out)
{
    memcpy(out->byte, v4_prefix, sizeof v4_prefix);
    memcpy(out->byte + sizeof v4_prefix, four, 4);
}

/* An address without brackets and port. */
static bool parse_bare(const char *text, ft_address *out)
{
    uint8_t four[4];
    if (inet_pton(AF_INET, text, four) != 1)
        return inet_pton(AF_INET6, text, out->byte) == 1;
    set_v4(four, out);
    return true;
}

bool ft_address_parse(const char *text, size_t n, ft_address *out)
{
    char copy[64];
    if (n == 0 || n >= sizeof copy || memchr(text, 0, n))
        return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    char *bare = copy, *port;
    if (copy[0] == '[') {
        bare = copy + 1;
        port = strchr(bare, ']');
        if (!port || (port[1] && port[1] != ':'))
            return false;
        *port = 0;
    } else {
        port = strchr(copy, ':');
        if (port && !strchr(port + 1, ':')) /* two colons: an IPv6 address without a port */
            *port = 0;
    }
    return parse_bare(bare, out);
}

bool ft_address_of(const struct sockaddr *from, ft_address *out)
{
    if (from->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, from, sizeof in);
        set_v4(&in.sin_addr, out);
        return true;
    }
    if (from->sa_family != AF_INET6)
        return false;
    struct sockaddr_in6 in6;
    memcpy(&in6, from, sizeof in6);
    memcpy(out->byte, &in6.sin6_addr, sizeof out->byte);
    return true;
}

void ft_address_network(const ft_address *address, char out[FT_CLIENT_ADDRESS_SIZE])
{
    enum { COUNTED = 8 }; /* bytes of an IPv6 address */
    ft_address network = {0};
    if (is_v4(address)) {
        inet_ntop(AF_INET, address->byte + sizeof v4_prefix, out, FT_CLIENT_ADDRESS_SIZE);
        return;
    }
    memcpy(network.byte, address->byte, COUNTED);
    inet_ntop(AF_INET6, network.byte, out, FT_CLIENT_ADDRESS_SIZE - 4);
    strcat(out, "/64");
}

/* One item of a list, "10.0.0.0/8". */
static bool parse_network(const char *item, size_t n, ft_address *base, unsigned *bits)
{
    const char *slash = memchr(item, '/', n);
    const size_t n_address = slash ? (size_t)(slash - item) : n;
    if (!ft_address_parse(item, n_address, base))
        return false;
    const unsigned most = is_v4(base) ? 32 : 128;
    unsigned given = most;
    if (slash) {
        const size_t digits = strspn(slash + 1, "0123456789");
        if (digits == 0 || digits > 3 || digits != n - n_address - 1)
            return false;
        given = (unsigned)strtoul(slash + 1, NULL, 10);
    }
    *bits = given + (is_v4(base) ? V4_BITS : 0);
    return given <= most;
}

ft_status ft_networks_parse(const char *flag, const char *list, ft_error *err, ft_networks *out)
{
    for (const char *at = list;; at++) {
        const size_t n = strcspn(at, ",");
        if (out->n == FT_NETWORKS_MAX)
            return ft_error_set(err, FT_INVALID, "%s: more than %d networks", flag,
                                FT_NETWORKS_MAX);
        if (!parse_network(at, n, &out->network[out->n].base, &out->network[out->n].bits))
            return ft_error_set(err, FT_INVALID,
                                "%s: '%.*s' is no network: write, for example, 10.0.0.0/8 or "
                                "2001:db8::/32",
                                flag, n < 100 ? (int)n : 100, at);
        out->n++;
        at += n;
        if (!*at)
            return FT_OK;
    }
}

static bool holds(const ft_address *base, unsigned bits, const ft_address *address)
{
    const unsigned whole = bits / 8, rest = bits % 8;
    const uint8_t mask = (uint8_t)(0xff00u >> rest);
    return memcmp(base->byte, address->byte, whole) == 0 &&
           (rest == 0 || ((base->byte[whole] ^ address->byte[whole]) & mask) == 0);
}

bool ft_networks_hold(const ft_networks *networks, const ft_address *address)
{
    for (size_t i = 0; i < networks->n; i++)
        if (holds(&networks->network[i].base, networks->network[i].bits, address))
            return true;
    return false;
}

ft_address ft_networks_client(const ft_networks *proxies, const ft_address *peer,
                              const char *forwarded, size_t n)
{
    ft_address client;
    if (n == 0 || !ft_networks_hold(proxies, peer))
        return *peer;
    while (n > 0 && (forwarded[n - 1] == ' ' || forwarded[n - 1] == '\t'))
        n--;
    size_t from = n;
    while (from > 0 && !strchr(", \t", forwarded[from - 1]))
        from--;
    return ft_address_parse(forwarded + from, n - from, &client) ? client : *peer;
}

ft_client_id ft_networks_stranger(const ft_networks *proxies, const ft_address *peer)
{
    ft_client_id client = {0};
    if (!proxies || !ft_networks_hold(proxies, peer))
        ft_address_network(peer, client.address);
    return client;
}
