/*
 * Writes a message in either form: protocol buffers, or JSON as proto3 maps it. A resource is
 * described once, with the numbers and the names of its fields. Fields with the default value are
 * left out.
 *
 *     size_t cluster = xds_begin(writer, 1, "cluster");
 *     xds_put_text(writer, 1, "name", name);
 *     xds_end(writer, cluster);
 *
 * Inside of an array (between xds_array() and xds_array_end()) elements have no name: NULL. Pure.
 */
#ifndef LEASED_DOORS_XDS_XDS_WRITER_H
#define LEASED_DOORS_XDS_XDS_WRITER_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xds_writer {
    struct buffer *out;
    bool is_json;
    bool wants_comma; /* of JSON: something is before it in the same object or array */
};

/* A message; what is written until its end belongs to it. Never left out. Ends come in the reverse
 * order. */
size_t xds_begin(struct xds_writer *writer, uint32_t field, const char *name);
void xds_end(struct xds_writer *writer, size_t mark);

/* The elements of a repeated field; protocol buffers have nothing around them. */
void xds_array(struct xds_writer *writer, const char *name);
void xds_array_end(struct xds_writer *writer);

/* An Any with a message of this type in it; of JSON an object that names its type. */
struct xds_any {
    size_t outer;
    size_t value;
};
struct xds_any xds_any(struct xds_writer *writer, uint32_t field, const char *name,
                       const char *type_url);
void xds_any_end(struct xds_writer *writer, const struct xds_any *any);

/* A map from texts to messages; its entries. */
void xds_map(struct xds_writer *writer, const char *name);
void xds_map_end(struct xds_writer *writer);
struct xds_any xds_entry(struct xds_writer *writer, uint32_t field, struct bytes key);
void xds_entry_end(struct xds_writer *writer, const struct xds_any *entry);

void xds_put_text(struct xds_writer *writer, uint32_t field, const char *name, struct bytes text);
/* One of an array: written even when empty. */
void xds_put_element(struct xds_writer *writer, uint32_t field, struct bytes text);
void xds_put_number(struct xds_writer *writer, uint32_t field, const char *name, uint64_t number);
/* An enum; `text` is its name. */
void xds_put_enum(struct xds_writer *writer, uint32_t field, const char *name, uint64_t number,
                  const char *text);
/* A UInt32Value: a message of its own, so 0 is written too. */
void xds_put_wrapped(struct xds_writer *writer, uint32_t field, const char *name, uint32_t number);
/* A Duration. */
void xds_put_seconds(struct xds_writer *writer, uint32_t field, const char *name, uint32_t seconds);
/* An entry of a Struct: a text, or true. */
void xds_put_struct_text(struct xds_writer *writer, struct bytes key, struct bytes text);
void xds_put_struct_true(struct xds_writer *writer, struct bytes key);

#endif
