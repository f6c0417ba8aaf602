/*
 * The target of a request: percent-decoding, the query, the path of the absolute form. Every byte
 * is the peer's: what is malformed is refused, what is decoded may hold any byte.
 */
#ifndef LEASED_NET_HTTP_TARGET_H
#define LEASED_NET_HTTP_TARGET_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <stdbool.h>

/* Appends the decoded text. `with_plus`: "+" is a space, as in queries. False: a percent sign
 * without two hexadecimal digits behind it; `out` is then as long as before. */
bool http_target_decode(struct bytes text, bool with_plus, struct buffer *out);

/* Cuts a target at the first "?"; without one the query is empty. */
void http_target_split(struct bytes target, struct bytes *out_path, struct bytes *out_query);

/* Adds every "name=value" of a query, decoded (http_fields.h). False: malformed. */
bool http_target_parse_query(struct bytes query, struct buffer *out_fields);

/* "http://host/path?query" (RFC 9112, 3.2.2): host and the rest, "/" if there is none. False: not
 * of this form. */
bool http_target_split_absolute(struct bytes target, struct bytes *out_authority,
                                struct bytes *out_rest);

#endif
