/*
 * How many connections each client address has open, so that one host cannot take all that the
 * server allows. An address is a whole IPv4 address, the first 64 bits of an IPv6 address (what one
 * network gives to one host), or the user of a Unix socket.
 */
#ifndef LEASED_NET_CLIENT_COUNTS_H
#define LEASED_NET_CLIENT_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct client_counts;
struct client_count; /* of one address */

struct client_counts *client_counts_create(void);
/* Nothing is counted any more. NULL is allowed. */
void client_counts_destroy(struct client_counts *counts);

/* Counts one more connection of the address, for client_counts_remove(). NULL: it has `max`
 * already, or memory is out. `from` is what accept() gave for `socket`. */
struct client_count *client_counts_add(struct client_counts *counts, int socket,
                                       const struct sockaddr *from, size_t max);
/* NULL is allowed. */
void client_counts_remove(struct client_counts *counts, struct client_count *count);

/* Addresses that have connections. */
size_t client_counts_addresses(const struct client_counts *counts);

#endif
