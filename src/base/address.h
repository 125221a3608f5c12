/* SPDX-License-Identifier: Apache-2.0
 *
 * IP addresses of clients, networks in CIDR notation, and what a trusted proxy says about the
 * address behind it. Pure functions; any thread.
 */
#ifndef FT_BASE_ADDRESS_H
#define FT_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/quota.h"
#include "base/status.h"

/* An IPv6 address in network order. An IPv4 address is the IPv6 address ::ffff:a.b.c.d. */
typedef struct ft_address {
    uint8_t byte[16];
} ft_address;

/* Reads n bytes: "1.2.3.4", "1.2.3.4:80", "2001:db8::1", "[2001:db8::1]" or "[2001:db8::1]:80".
 * The port is left out. False: it is none of these. */
bool ft_address_parse(const char *text, size_t n, ft_address *out);
/* False: the socket's address is of another family. */
bool ft_address_of(const struct sockaddr *from, ft_address *out);
/* Writes the address by which clients are counted: an IPv4 address, or the first 64 bits of an IPv6
 * address ("2001:db8::/64"), because one customer of a provider has all addresses below them. */
void ft_address_network(const ft_address *address, char out[FT_CLIENT_ADDRESS_SIZE]);

#define FT_NETWORKS_MAX 32

typedef struct ft_networks {
    size_t n;
    struct {
        ft_address base;
        unsigned bits; /* of base that count, 0 to 128 */
    } network[FT_NETWORKS_MAX];
} ft_networks;

/* Appends the networks of a comma list: "10.0.0.0/8,2001:db8::/32,127.0.0.1". An address alone is a
 * network of one. flag: for the message. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_networks_parse(const char *flag, const char *list, ft_error *err,
                                           ft_networks *out);
bool ft_networks_hold(const ft_networks *networks, const ft_address *address);
/* The client's address: `peer`, unless that is one of the proxies and the last entry of the n
 * bytes of x-forwarded-for, which the proxy has added, is an address; then that entry. */
ft_address ft_networks_client(const ft_networks *proxies, const ft_address *peer,
                              const char *forwarded, size_t n);
/* The client that a connection from `peer` counts for before it has sent a request: its network.
 * One of the proxies (NULL: there are none) has the address "", which has no share, because many
 * clients come from it. */
ft_client_id ft_networks_stranger(const ft_networks *proxies, const ft_address *peer);

#endif
