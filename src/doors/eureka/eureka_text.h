/*
 * Texts as JSON and XML want them. What others registered may hold any bytes: what is not UTF-8,
 * and what XML has no place for, is shown as U+FFFD, so that one instance cannot make the list of
 * all of them unreadable.
 */
#ifndef LEASED_DOORS_EUREKA_EUREKA_TEXT_H
#define LEASED_DOORS_EUREKA_EUREKA_TEXT_H

#include "base/buffer.h"

/* With quotes around it. */
void eureka_text_json(struct buffer *out, struct bytes text);
/* For an element's content, and for an attribute in double quotes. */
void eureka_text_xml(struct buffer *out, struct bytes text);

/* Whether all of it can be shown in XML. */
bool eureka_text_fits_xml(struct bytes text);

/* Names of metadata as names of elements, as XStream writes them: "_" is "__", "$" is "_-", what a
 * name cannot have is "_." and four hexadecimal digits for each unit of UTF-16. */
void eureka_text_encode_name(struct buffer *out, struct bytes name);
/* The other way; what is no such escape stays as it is. */
void eureka_text_decode_name(struct buffer *out, struct bytes name);

/* ASCII alone: names of applications are compared without regard to case. `out` has room for
 * `text.size` bytes. */
void eureka_text_upper(uint8_t *out, struct bytes text);
void eureka_text_lower(uint8_t *out, struct bytes text);

#endif
