/*
 * One connection to one endpoint: resolves, connects, encrypts, and carries the bytes of HTTP/2. It
 * never waits; whoever has its epoll descriptor calls it when something is ready.
 */
#ifndef LEASED_LEASE_LIB_SOCKET_H
#define LEASED_LEASE_LIB_SOCKET_H

#include "base/endpoint_text.h"
#include "lease/lib_http2.h"
#include "tls/tls_context.h"

struct lib_socket;

enum lib_socket_state {
    LIB_SOCKET_MAKING, /* resolves, connects or agrees on TLS */
    LIB_SOCKET_OPEN,
    LIB_SOCKET_FAILED /* lib_socket_reason() says why; to be destroyed */
};

/* `tls` NULL: plain text. The endpoint and `tls` outlive the socket. Its descriptors are added to
 * the epoll with data.ptr `tag`. Gives a socket always, perhaps one that failed already. */
struct lib_socket *lib_socket_create(const struct endpoint *endpoint, struct tls_context *tls,
                                     int epoll_fd, void *tag);
/* Accepts NULL. */
void lib_socket_destroy(struct lib_socket *sock);

enum lib_socket_state lib_socket_state(const struct lib_socket *sock);
/* A sentence. */
const char *lib_socket_reason(const struct lib_socket *sock);
struct lib_http2 *lib_socket_http2(struct lib_socket *sock);

/* Lent: one thread waits for what comes, and the epoll does not tell of it. A socket that is open
 * can be lent; lib_socket_fd() is what to wait for. A new socket is not lent. */
void lib_socket_lend(struct lib_socket *sock, bool is_lent);
bool lib_socket_is_lent(const struct lib_socket *sock);
int lib_socket_fd(const struct lib_socket *sock);

/* Something is ready: takes a step. Calls may have ended. True: there may be more. */
bool lib_socket_read(struct lib_socket *sock);
/* Sends what there is to send, as far as the kernel takes it. */
void lib_socket_write(struct lib_socket *sock);
/* Gives up, for this reason. */
void lib_socket_fail(struct lib_socket *sock, const char *reason);

#endif
