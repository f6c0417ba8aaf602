/* What the kinds of transports share: the stream of libuv below each of them. */
#ifndef LEASED_NET_TRANSPORT_INTERNAL_H
#define LEASED_NET_TRANSPORT_INTERNAL_H

#include "net/transport.h"

bool transport_stream_open_tcp(struct transport *transport, int socket);
bool transport_stream_open_unix(struct transport *transport, int socket);
/* To the socket, as it is. */
enum transport_result transport_stream_write(struct transport *transport, struct bytes wire);
void transport_stream_end_output(struct transport *transport);
void transport_stream_close(struct transport *transport);

/* True: the handshake must wait for the next iteration of the loop. */
bool transport_tls_must_wait(const struct transport *transport);
/* The handshake succeeded, failed, or is given up; harmless when there is none. */
void transport_tls_end_handshake(struct transport *transport);

#endif
