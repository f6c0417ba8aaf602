#include "doors/eureka/eureka_writer.h"

#include "doors/eureka/eureka_text.h"

#include <inttypes.h>
#include <stdio.h>

static void put(struct eureka_writer *writer, const char *text) {
    buffer_append(writer->out, text, strlen(text));
}

static void comma(struct eureka_writer *writer) {
    if (writer->needs_comma) {
        put(writer, ",");
    }
    writer->needs_comma = true;
}

/* "name": */
static void member(struct eureka_writer *writer, const char *name) {
    comma(writer);
    eureka_text_json(writer->out, bytes_from_text(name));
    put(writer, ":");
}

static void start_tag(struct eureka_writer *writer, const char *name) {
    put(writer, "<");
    put(writer, name);
    put(writer, ">");
}

static void end_tag(struct eureka_writer *writer, const char *name) {
    put(writer, "</");
    put(writer, name);
    put(writer, ">");
}

void eureka_writer_init(struct eureka_writer *writer, struct buffer *out,
                        enum eureka_format format) {
    *writer = (struct eureka_writer){.out = out, .format = format};
}

/* --- Objects and arrays. --- */

void eureka_writer_open_document(struct eureka_writer *writer, const char *name) {
    if (writer->format == EUREKA_JSON) {
        put(writer, "{");
    }
    eureka_writer_open(writer, name);
}

void eureka_writer_close_document(struct eureka_writer *writer, const char *name) {
    eureka_writer_close(writer, name);
    if (writer->format == EUREKA_JSON) {
        put(writer, "}");
    }
}

void eureka_writer_open(struct eureka_writer *writer, const char *name) {
    if (writer->format == EUREKA_XML) {
        start_tag(writer, name);
        return;
    }
    member(writer, name);
    put(writer, "{");
    writer->needs_comma = false;
}

void eureka_writer_open_class(struct eureka_writer *writer, const char *name, const char *class) {
    if (writer->format == EUREKA_XML) {
        put(writer, "<");
        put(writer, name);
        put(writer, " class=\"");
        put(writer, class);
        put(writer, "\">");
        return;
    }
    eureka_writer_open(writer, name);
    eureka_writer_text(writer, "@class", bytes_from_text(class));
}

void eureka_writer_close(struct eureka_writer *writer, const char *name) {
    if (writer->format == EUREKA_XML) {
        end_tag(writer, name);
        return;
    }
    put(writer, "}");
    writer->needs_comma = true;
}

void eureka_writer_open_array(struct eureka_writer *writer, const char *name) {
    if (writer->format == EUREKA_JSON) {
        member(writer, name);
        put(writer, "[");
        writer->needs_comma = false;
    }
}

void eureka_writer_open_element(struct eureka_writer *writer, const char *name) {
    if (writer->format == EUREKA_XML) {
        start_tag(writer, name);
        return;
    }
    comma(writer);
    put(writer, "{");
    writer->needs_comma = false;
}

void eureka_writer_close_element(struct eureka_writer *writer, const char *name) {
    eureka_writer_close(writer, name);
}

void eureka_writer_close_array(struct eureka_writer *writer) {
    if (writer->format == EUREKA_JSON) {
        put(writer, "]");
        writer->needs_comma = true;
    }
}

/* --- Values. --- */

void eureka_writer_text(struct eureka_writer *writer, const char *name, struct bytes text) {
    if (writer->format == EUREKA_JSON) {
        member(writer, name);
        eureka_text_json(writer->out, text);
        return;
    }
    start_tag(writer, name);
    eureka_text_xml(writer->out, text);
    end_tag(writer, name);
}

void eureka_writer_number_text(struct eureka_writer *writer, const char *name, int64_t number) {
    char digits[32];
    snprintf(digits, sizeof digits, "%" PRId64, number);
    eureka_writer_text(writer, name, bytes_from_text(digits));
}

void eureka_writer_number(struct eureka_writer *writer, const char *name, int64_t number) {
    char digits[32];
    if (writer->format == EUREKA_XML) {
        eureka_writer_number_text(writer, name, number);
        return;
    }
    snprintf(digits, sizeof digits, "%" PRId64, number);
    member(writer, name);
    put(writer, digits);
}

void eureka_writer_port(struct eureka_writer *writer, const char *name, uint16_t port,
                        bool is_enabled) {
    char text[64];
    const char *enabled = is_enabled ? "true" : "false";
    if (writer->format == EUREKA_JSON) {
        snprintf(text, sizeof text, "{\"$\":%u,\"@enabled\":\"%s\"}", port, enabled);
        member(writer, name);
        put(writer, text);
        return;
    }
    snprintf(text, sizeof text, " enabled=\"%s\">%u", enabled, port);
    put(writer, "<");
    put(writer, name);
    put(writer, text);
    end_tag(writer, name);
}

void eureka_writer_pair(struct eureka_writer *writer, struct bytes name, struct bytes value) {
    if (writer->format == EUREKA_JSON) {
        comma(writer);
        eureka_text_json(writer->out, name);
        put(writer, ":");
        eureka_text_json(writer->out, value);
        return;
    }
    if (name.size == 0) {
        return;
    }
    put(writer, "<");
    eureka_text_encode_name(writer->out, name);
    put(writer, ">");
    eureka_text_xml(writer->out, value);
    put(writer, "</");
    eureka_text_encode_name(writer->out, name);
    put(writer, ">");
}
