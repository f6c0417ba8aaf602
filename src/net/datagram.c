#include "net/datagram.h"

#include "net/datagram_rate.h"
#include "net/net_server.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Others are served between two iterations; the kernel keeps what waits. */
enum { DATAGRAMS_PER_ITERATION_MAX = 256, CONTROL_SIZE = 256 };
#define ITERATION_NS_MAX (UINT64_C(5) * 1000 * 1000)

struct datagram_socket {
    struct list in_server;
    uv_poll_t readable;
    int fd;
    const struct datagram_handler *handler;
    void *context;
    struct net_stats *stats;
    struct datagram_rate *rate;
    uint8_t *buffer; /* one byte more than allowed, so that too much shows */
    void (*on_closed)(void *data);
    void *on_closed_data;
};

union control {
    struct cmsghdr header; /* for its alignment */
    uint8_t bytes[CONTROL_SIZE];
};

/* --- receiving ----------------------------------------------------------------------------- */

/* Which of our addresses was meant. False: the kernel did not say. */
static bool find_destination(struct msghdr *message, struct datagram_source *out_source) {
    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at != NULL; at = CMSG_NXTHDR(message, at)) {
        if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_PKTINFO) {
            memcpy(&out_source->to.ipv4, CMSG_DATA(at), sizeof out_source->to.ipv4);
            return true;
        }
        if (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_PKTINFO) {
            memcpy(&out_source->to.ipv6, CMSG_DATA(at), sizeof out_source->to.ipv6);
            return true;
        }
    }
    return false;
}

/* False: nothing waits. */
static bool receive_one(struct datagram_socket *socket) {
    struct datagram_source source;
    union control control;
    memset(&source, 0, sizeof source);
    struct iovec part = {.iov_base = socket->buffer, .iov_len = socket->handler->size_max + 1};
    struct msghdr message = {.msg_name = &source.from,
                             .msg_namelen = sizeof source.from,
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t size = recvmsg(socket->fd, &message, MSG_DONTWAIT);
    if (size < 0) {
        /* An answer of ours may have met a closed port: that error says nothing of what waits. */
        return errno == ECONNREFUSED || errno == EINTR;
    }
    socket->stats->datagrams_received++;
    socket->stats->bytes_received += (uint64_t)size;
    bool is_allowed =
        (size_t)size <= socket->handler->size_max && (message.msg_flags & MSG_TRUNC) == 0 &&
        find_destination(&message, &source) &&
        datagram_rate_allow(socket->rate, &source.from.any, uv_now(socket->readable.loop));
    if (is_allowed) {
        socket->handler->on_datagram(socket->context, socket, &source,
                                     bytes_of(socket->buffer, (size_t)size));
    } else {
        socket->stats->datagrams_dropped++;
    }
    return true;
}

static void on_readable(uv_poll_t *handle, int status, int events) {
    struct datagram_socket *socket = handle->data;
    (void)status;
    (void)events;
    uint64_t end_ns = uv_hrtime() + ITERATION_NS_MAX;
    for (unsigned i = 0; i < DATAGRAMS_PER_ITERATION_MAX; i++) {
        if (!receive_one(socket) || uv_hrtime() >= end_ns) {
            return;
        }
    }
}

/* --- sending ------------------------------------------------------------------------------- */

bool datagram_send(struct datagram_socket *socket, const struct datagram_source *source,
                   struct bytes bytes) {
    bool is_ipv6 = source->from.any.sa_family == AF_INET6;
    struct datagram_source to = *source;
    union control control;
    memset(&control, 0, sizeof control);
    /* The kernel chooses the interface; the address is the one that was asked. */
    to.to.ipv4.ipi_ifindex = is_ipv6 ? to.to.ipv4.ipi_ifindex : 0;
    size_t info_size = is_ipv6 ? sizeof to.to.ipv6 : sizeof to.to.ipv4;
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes.data, .iov_len = bytes.size};
    struct msghdr message = {.msg_name = &to.from,
                             .msg_namelen = is_ipv6 ? sizeof to.from.ipv6 : sizeof to.from.ipv4,
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(info_size)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP;
    header->cmsg_type = is_ipv6 ? IPV6_PKTINFO : IP_PKTINFO;
    header->cmsg_len = CMSG_LEN(info_size);
    memcpy(CMSG_DATA(header), &to.to, info_size);
    ssize_t sent = -1;
    if (socket->fd >= 0 && bytes.size <= DATAGRAM_SIZE_MAX) {
        sent = sendmsg(socket->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (sent < 0) {
        socket->stats->datagrams_dropped++;
        return false;
    }
    socket->stats->bytes_sent += (uint64_t)sent;
    return true;
}

/* --- life ---------------------------------------------------------------------------------- */

/* -1: with errno. */
static int bind_socket(const struct addrinfo *address, uint16_t port) {
    int fd = socket(address->ai_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    struct sockaddr_storage storage = {0};
    memcpy(&storage, address->ai_addr, address->ai_addrlen);
    int on = 1;
    int result = 0;
    if (address->ai_family == AF_INET6) {
        struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)&storage;
        ipv6->sin6_port = htons(port);
        /* "::" means every address of both kinds; any other address means itself. */
        int v6_only = IN6_IS_ADDR_UNSPECIFIED(&ipv6->sin6_addr) ? 0 : 1;
        result = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only) |
                 setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
    } else {
        ((struct sockaddr_in *)&storage)->sin_port = htons(port);
        result = setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    }
    if (result != 0 || bind(fd, (struct sockaddr *)&storage, address->ai_addrlen) != 0) {
        int error_number = errno;
        close(fd);
        errno = error_number;
        return -1;
    }
    return fd;
}

static void destroy(struct datagram_socket *socket) {
    datagram_rate_destroy(socket->rate);
    free(socket->buffer);
    free(socket);
}

enum status datagram_socket_create(uv_loop_t *loop, struct net_stats *stats,
                                   const struct addrinfo *address, uint16_t port,
                                   const struct datagram_handler *handler, void *context,
                                   struct datagram_socket **out_socket, int *out_error_number) {
    assert(handler->size_max > 0);
    assert(handler->size_max <= DATAGRAM_SIZE_MAX);
    int fd = bind_socket(address, port);
    if (fd < 0) {
        *out_error_number = errno;
        return STATUS_IO;
    }
    struct datagram_socket *socket = calloc(1, sizeof *socket);
    uint8_t *buffer = malloc(handler->size_max + 1);
    if (socket == NULL || buffer == NULL) {
        abort();
    }
    *socket = (struct datagram_socket){
        .fd = fd, .handler = handler, .context = context, .stats = stats, .buffer = buffer};
    socket->rate =
        datagram_rate_create(handler->rate_max != 0 ? handler->rate_max : DATAGRAM_RATE_DEFAULT);
    list_init(&socket->in_server);
    int result = uv_poll_init(loop, &socket->readable, fd);
    if (result != 0) {
        close(fd);
        destroy(socket);
        *out_error_number = -result;
        return STATUS_IO;
    }
    socket->readable.data = socket;
    uv_poll_start(&socket->readable, UV_READABLE, on_readable);
    *out_socket = socket;
    return STATUS_OK;
}

uint16_t datagram_socket_port(const struct datagram_socket *socket) {
    struct sockaddr_storage storage = {0};
    socklen_t size = sizeof storage;
    if (getsockname(socket->fd, (struct sockaddr *)&storage, &size) != 0) {
        return 0;
    }
    return ntohs(storage.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&storage)->sin6_port
                                               : ((struct sockaddr_in *)&storage)->sin_port);
}

struct list *datagram_socket_node(struct datagram_socket *socket) {
    return &socket->in_server;
}

struct datagram_socket *datagram_socket_of_node(struct list *node) {
    return list_entry(node, struct datagram_socket, in_server);
}

static void on_handle_closed(uv_handle_t *handle) {
    struct datagram_socket *socket = handle->data;
    void (*on_closed)(void *) = socket->on_closed;
    void *data = socket->on_closed_data;
    destroy(socket);
    on_closed(data);
}

void datagram_socket_close(struct datagram_socket *socket, void (*on_closed)(void *data),
                           void *data) {
    list_remove(&socket->in_server);
    socket->on_closed = on_closed;
    socket->on_closed_data = data;
    uv_close((uv_handle_t *)&socket->readable, on_handle_closed);
    close(socket->fd);
    socket->fd = -1;
}
