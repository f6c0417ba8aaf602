/*
 * Where a door listens of its own: "host:port", "tls://host:port" with the certificate of
 * --cert-file, or a Unix socket ("unix:///path", "unixs:///path"). There is no http:// in it,
 * because the protocol is the door's.
 */
#ifndef LEASED_SERVER_LISTEN_ADDRESS_H
#define LEASED_SERVER_LISTEN_ADDRESS_H

#include "server/url.h"

/* Reads one or more addresses with commas between them; URL_HTTPS stands for TLS. The texts are in
 * the arena. STATUS_INVALID with the reason in `out_error`. */
enum status listen_address_list_parse(const char *text, struct arena *arena,
                                      struct url_list *out_list, char *out_error,
                                      size_t error_size);

#endif
