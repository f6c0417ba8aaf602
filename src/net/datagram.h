/*
 * UDP: a socket whose handler gets each datagram and may answer it, at once or later. Everything is
 * bounded: the size of a datagram, the datagrams of one iteration of the loop, and what one network
 * may send in a second, because source addresses can be forged and answers would hit the victim.
 * Nothing is queued here: an answer that the kernel has no room for is dropped, as the network may
 * drop any.
 */
#ifndef LEASED_NET_DATAGRAM_H
#define LEASED_NET_DATAGRAM_H

#include "base/bytes.h"
#include "base/list.h"
#include "base/status.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

enum {
    DATAGRAM_SIZE_MAX = 65507, /* of UDP over IPv4 */
    DATAGRAM_RATE_DEFAULT = 1000
};

struct addrinfo;
struct datagram_socket;
struct net_stats;

/* The sender of a datagram, and the address of ours that it was sent to: an answer leaves from
 * there. May be copied and kept. */
struct datagram_source {
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } from;
    union {
        struct in_pktinfo ipv4;
        struct in6_pktinfo ipv6;
    } to;
};

/* Constant, and outlives the server. */
struct datagram_handler {
    const char *name;
    size_t size_max; /* larger ones are dropped, at most DATAGRAM_SIZE_MAX */
    /* Datagrams a second from one network (IPv4: 24 bits, IPv6: 56), further ones are dropped;
     * 0: DATAGRAM_RATE_DEFAULT. */
    uint32_t rate_max;
    void (*on_datagram)(void *context, struct datagram_socket *socket,
                        const struct datagram_source *source, struct bytes bytes);
};

/* False: it was dropped, because it is too large or the kernel has no room. */
bool datagram_send(struct datagram_socket *socket, const struct datagram_source *source,
                   struct bytes bytes);

/* --- for net_server.c --- */

/* Binds one address. `port` 0: any. STATUS_IO: `out_error_number` is the errno. */
enum status datagram_socket_create(uv_loop_t *loop, struct net_stats *stats,
                                   const struct addrinfo *address, uint16_t port,
                                   const struct datagram_handler *handler, void *context,
                                   struct datagram_socket **out_socket, int *out_error_number);
uint16_t datagram_socket_port(const struct datagram_socket *socket);
struct list *datagram_socket_node(struct datagram_socket *socket);
struct datagram_socket *datagram_socket_of_node(struct list *node);
/* The socket is freed and `on_closed` called when its handle is closed. */
void datagram_socket_close(struct datagram_socket *socket, void (*on_closed)(void *data),
                           void *data);

#endif
