/* The file that holds the shared secret of a cluster's members. */
#ifndef LEASED_PEERS_PEER_SECRET_H
#define LEASED_PEERS_PEER_SECRET_H

#include "base/buffer.h"
#include "base/status.h"

#include <stddef.h>

enum { PEER_SECRET_SIZE_MIN = 16, PEER_SECRET_SIZE_MAX = 4096 };

/* Reads it, without the newlines at its end. STATUS_IO: it cannot be read. STATUS_INVALID: it is
 * too short or too long, or others may read it. out_error is a whole sentence; it never quotes the
 * secret. The buffer is the caller's to peer_secret_clear(). */
enum status peer_secret_load(const char *path, struct buffer *out_secret, char *out_error,
                             size_t error_size);
/* Overwrites it first. */
void peer_secret_clear(struct buffer *secret);

#endif
