/*
 * The grpc-message trailer: a text in which everything but printable ASCII, and the percent sign,
 * is percent-encoded (PROTOCOL-HTTP2.md, "Percent-Encoded").
 */
#ifndef LEASED_NET_GRPC_MESSAGE_H
#define LEASED_NET_GRPC_MESSAGE_H

#include <stddef.h>

/* Writes at most `size` bytes with a zero at the end and returns the length without it. A text
 * that does not fit is cut between characters. */
size_t grpc_message_encode(const char *text, char *out, size_t size);

#endif
