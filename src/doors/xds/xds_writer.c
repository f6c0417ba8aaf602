#include "doors/xds/xds_writer.h"

#include "base/pb_append.h"
#include "net/grpc_json_text.h"

#include <inttypes.h>
#include <stdio.h>

static void put_raw(struct xds_writer *writer, const char *text) {
    buffer_append(writer->out, text, strlen(text));
}

/* Of JSON: what is before a value. Names are constant and need no escapes. */
static void put_name(struct xds_writer *writer, const char *name) {
    if (writer->wants_comma) {
        put_raw(writer, ",");
    }
    writer->wants_comma = true;
    if (name != NULL) {
        put_raw(writer, "\"");
        put_raw(writer, name);
        put_raw(writer, "\":");
    }
}

static void put_key(struct xds_writer *writer, struct bytes key) {
    put_name(writer, NULL);
    grpc_json_write_text(writer->out, key);
    put_raw(writer, ":");
}

static void open_json(struct xds_writer *writer, const char *bracket) {
    put_raw(writer, bracket);
    writer->wants_comma = false;
}

static void close_json(struct xds_writer *writer, const char *bracket) {
    put_raw(writer, bracket);
    writer->wants_comma = true;
}

size_t xds_begin(struct xds_writer *writer, uint32_t field, const char *name) {
    if (!writer->is_json) {
        return pb_append_begin(writer->out, field);
    }
    put_name(writer, name);
    open_json(writer, "{");
    return 0;
}

void xds_end(struct xds_writer *writer, size_t mark) {
    if (writer->is_json) {
        close_json(writer, "}");
    } else {
        pb_append_end(writer->out, mark);
    }
}

void xds_array(struct xds_writer *writer, const char *name) {
    if (writer->is_json) {
        put_name(writer, name);
        open_json(writer, "[");
    }
}

void xds_array_end(struct xds_writer *writer) {
    if (writer->is_json) {
        close_json(writer, "]");
    }
}

struct xds_any xds_any(struct xds_writer *writer, uint32_t field, const char *name,
                       const char *type_url) {
    struct xds_any any = {0};
    any.outer = xds_begin(writer, field, name);
    if (writer->is_json) {
        xds_put_text(writer, 0, "@type", bytes_from_text(type_url));
    } else {
        pb_append_bytes(writer->out, 1, bytes_from_text(type_url));
        any.value = pb_append_begin(writer->out, 2);
    }
    return any;
}

void xds_any_end(struct xds_writer *writer, const struct xds_any *any) {
    if (!writer->is_json) {
        pb_append_end(writer->out, any->value);
    }
    xds_end(writer, any->outer);
}

void xds_map(struct xds_writer *writer, const char *name) {
    if (writer->is_json) {
        put_name(writer, name);
        open_json(writer, "{");
    }
}

void xds_map_end(struct xds_writer *writer) {
    if (writer->is_json) {
        close_json(writer, "}");
    }
}

struct xds_any xds_entry(struct xds_writer *writer, uint32_t field, struct bytes key) {
    struct xds_any entry = {0};
    if (writer->is_json) {
        put_key(writer, key);
        open_json(writer, "{");
    } else {
        entry.outer = pb_append_begin(writer->out, field);
        pb_append_bytes(writer->out, 1, key);
        entry.value = pb_append_begin(writer->out, 2);
    }
    return entry;
}

void xds_entry_end(struct xds_writer *writer, const struct xds_any *entry) {
    if (writer->is_json) {
        close_json(writer, "}");
    } else {
        pb_append_end(writer->out, entry->value);
        pb_append_end(writer->out, entry->outer);
    }
}

void xds_put_element(struct xds_writer *writer, uint32_t field, struct bytes text) {
    if (writer->is_json) {
        put_name(writer, NULL);
        grpc_json_write_text(writer->out, text);
    } else {
        pb_append_element(writer->out, field, text);
    }
}

void xds_put_text(struct xds_writer *writer, uint32_t field, const char *name, struct bytes text) {
    if (text.size == 0) {
        return;
    }
    if (writer->is_json) {
        put_name(writer, name);
        grpc_json_write_text(writer->out, text);
    } else {
        pb_append_bytes(writer->out, field, text);
    }
}

static void put_json_number(struct xds_writer *writer, const char *name, uint64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    put_name(writer, name);
    put_raw(writer, text);
}

void xds_put_number(struct xds_writer *writer, uint32_t field, const char *name, uint64_t number) {
    if (number == 0) {
        return;
    }
    if (writer->is_json) {
        put_json_number(writer, name, number);
    } else {
        pb_append_uint64(writer->out, field, number);
    }
}

void xds_put_enum(struct xds_writer *writer, uint32_t field, const char *name, uint64_t number,
                  const char *text) {
    if (writer->is_json) {
        xds_put_text(writer, field, name, bytes_from_text(text));
    } else {
        pb_append_uint64(writer->out, field, number);
    }
}

void xds_put_wrapped(struct xds_writer *writer, uint32_t field, const char *name, uint32_t number) {
    if (writer->is_json) {
        put_json_number(writer, name, number);
        return;
    }
    size_t mark = pb_append_begin(writer->out, field);
    pb_append_uint64(writer->out, 1, number);
    pb_append_end(writer->out, mark);
}

void xds_put_seconds(struct xds_writer *writer, uint32_t field, const char *name,
                     uint32_t seconds) {
    if (writer->is_json) {
        char text[24];
        snprintf(text, sizeof text, "\"%" PRIu32 "s\"", seconds);
        put_name(writer, name);
        put_raw(writer, text);
        return;
    }
    size_t mark = pb_append_begin(writer->out, field);
    pb_append_uint64(writer->out, 1, seconds);
    pb_append_end(writer->out, mark);
}

/* Of protocol buffers: an entry of the map `fields`, whose value is a Value. */
static void put_value(struct xds_writer *writer, struct bytes key, struct bytes text) {
    size_t entry = pb_append_begin(writer->out, 1);
    pb_append_bytes(writer->out, 1, key);
    size_t value = pb_append_begin(writer->out, 2);
    if (text.data != NULL) {
        pb_append_element(writer->out, 3, text);
    } else {
        pb_append_bool(writer->out, 4, true);
    }
    pb_append_end(writer->out, value);
    pb_append_end(writer->out, entry);
}

void xds_put_struct_text(struct xds_writer *writer, struct bytes key, struct bytes text) {
    if (writer->is_json) {
        put_key(writer, key);
        grpc_json_write_text(writer->out, text);
    } else {
        put_value(writer, key, text.data != NULL ? text : bytes_from_text(""));
    }
}

void xds_put_struct_true(struct xds_writer *writer, struct bytes key) {
    if (writer->is_json) {
        put_key(writer, key);
        put_raw(writer, "true");
    } else {
        put_value(writer, key, (struct bytes){0});
    }
}
