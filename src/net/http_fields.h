/*
 * Names and values in one run of bytes: the headers of a request, its query, its parameters. A few
 * dozen at most, so a search reads them one by one.
 */
#ifndef LEASED_NET_HTTP_FIELDS_H
#define LEASED_NET_HTTP_FIELDS_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>

enum { HTTP_FIELD_PART_MAX = UINT16_MAX };

/* Neither part may be larger than HTTP_FIELD_PART_MAX. */
void http_fields_add(struct buffer *fields, struct bytes name, struct bytes value);

/* The next pair; `*position` starts at 0. False: there is no more. */
bool http_fields_next(const struct buffer *fields, size_t *position, struct bytes *out_name,
                      struct bytes *out_value);

/* The first value of this name. The view is valid until the fields change. */
bool http_fields_find(const struct buffer *fields, const char *name, struct bytes *out_value);

#endif
