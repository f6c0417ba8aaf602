/*
 * Writes answers in JSON or XML, whichever the client asked for, through one set of calls. It
 * appends to a buffer that may be emptied between calls, so an answer of any size can be written in
 * parts.
 */
#ifndef LEASED_DOORS_EUREKA_EUREKA_WRITER_H
#define LEASED_DOORS_EUREKA_EUREKA_WRITER_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

enum eureka_format { EUREKA_XML, EUREKA_JSON };

struct eureka_writer {
    struct buffer *out;
    enum eureka_format format;
    bool needs_comma; /* of JSON: something came before in this object or array */
};

void eureka_writer_init(struct eureka_writer *writer, struct buffer *out,
                        enum eureka_format format);

/* The document as a whole: one object under a name. */
void eureka_writer_open_document(struct eureka_writer *writer, const char *name);
void eureka_writer_close_document(struct eureka_writer *writer, const char *name);

void eureka_writer_open(struct eureka_writer *writer, const char *name);
/* The same with a class of Java's. */
void eureka_writer_open_class(struct eureka_writer *writer, const char *name, const char *class);
void eureka_writer_close(struct eureka_writer *writer, const char *name);
/* Objects of one name: XML has no brackets around them. */
void eureka_writer_open_array(struct eureka_writer *writer, const char *name);
void eureka_writer_open_element(struct eureka_writer *writer, const char *name);
void eureka_writer_close_element(struct eureka_writer *writer, const char *name);
void eureka_writer_close_array(struct eureka_writer *writer);

void eureka_writer_text(struct eureka_writer *writer, const char *name, struct bytes text);
void eureka_writer_number(struct eureka_writer *writer, const char *name, int64_t number);
/* A number as text, as Eureka writes timestamps. */
void eureka_writer_number_text(struct eureka_writer *writer, const char *name, int64_t number);
void eureka_writer_port(struct eureka_writer *writer, const char *name, uint16_t port,
                        bool is_enabled);
/* Of metadata: any name. */
void eureka_writer_pair(struct eureka_writer *writer, struct bytes name, struct bytes value);

#endif
