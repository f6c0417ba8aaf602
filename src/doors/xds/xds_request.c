#include "doors/xds/xds_request.h"

#include "base/pb_reader.h"
#include "doors/xds/xds_name.h"

/* Numbers of the fields, of both forms. */
struct fields {
    uint32_t version; /* 0: it has none */
    uint32_t node;
    uint32_t names;
    uint32_t unsubscribed;
    uint32_t known;
    uint32_t type_url;
    uint32_t nonce;
    uint32_t error;
};
static const struct fields whole_fields = {
    .version = 1, .node = 2, .names = 3, .type_url = 4, .nonce = 5, .error = 6};
static const struct fields delta_fields = {
    .node = 1, .type_url = 2, .names = 3, .unsubscribed = 4, .known = 5, .nonce = 6, .error = 7};

/* The texts of two fields of a message; the last of several counts. */
static bool read_two(struct bytes message, uint32_t first, struct bytes *out_first, uint32_t second,
                     struct bytes *out_second) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == first) {
            *out_first = pb_reader_bytes(&reader);
        } else if (reader.field == second) {
            *out_second = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

static bool read_node(struct bytes message, struct xds_node *out) {
    struct bytes locality = {0};
    struct bytes region = {0};
    out->is_given = true;
    return read_two(message, 1, &out->id, 4, &locality) &&
           read_two(locality, 1, &region, 2, &out->zone);
}

/* The code is a number: only the text is wanted. */
static bool read_error(struct bytes message, struct bytes *out) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 2) {
            *out = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

/* How often the fields with arrays are there, before memory is taken. */
static bool count(struct bytes message, const struct fields *fields, struct xds_request *out) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        out->n_names += reader.field == fields->names;
        out->n_unsubscribed += reader.field == fields->unsubscribed;
        out->n_known += reader.field == fields->known;
        pb_reader_skip(&reader);
    }
    return !reader.failed;
}

static bool read_known(struct bytes entry, struct xds_known *out) {
    *out = (struct xds_known){0};
    return read_two(entry, 1, &out->name, 2, &out->version);
}

/* True unless a message inside is malformed. */
static bool take_field(struct pb_reader *reader, const struct fields *fields,
                       struct xds_request *out) {
    struct bytes value = pb_reader_bytes(reader);
    if (reader->field == fields->node) {
        return read_node(value, &out->node);
    }
    if (reader->field == fields->error) {
        out->is_refusal = true;
        return read_error(value, &out->error);
    }
    if (reader->field == fields->known) {
        return read_known(value, &out->known[out->n_known++]);
    }
    if (reader->field == fields->names) {
        out->names[out->n_names++] = value;
    } else if (reader->field == fields->unsubscribed) {
        out->unsubscribed[out->n_unsubscribed++] = value;
    } else if (reader->field == fields->type_url) {
        out->type_url = value;
    } else if (reader->field == fields->nonce) {
        out->nonce = value;
    } else if (reader->field == fields->version) {
        out->version = value;
    }
    return true;
}

enum xds_request_result xds_request_read(struct bytes message, bool is_delta, struct arena *arena,
                                         struct xds_request *out_request) {
    const struct fields *fields = is_delta ? &delta_fields : &whole_fields;
    struct xds_request request = {0};
    if (!count(message, fields, &request)) {
        return XDS_REQUEST_MALFORMED;
    }
    if (request.n_names > XDS_NAMES_MAX || request.n_unsubscribed > XDS_KNOWN_MAX ||
        request.n_known > XDS_KNOWN_MAX) {
        return XDS_REQUEST_TOO_MANY_NAMES;
    }
    request.names = arena_calloc(arena, request.n_names, sizeof *request.names);
    request.unsubscribed =
        arena_calloc(arena, request.n_unsubscribed, sizeof *request.unsubscribed);
    request.known = arena_calloc(arena, request.n_known, sizeof *request.known);
    request.n_names = request.n_unsubscribed = request.n_known = 0;
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.wire_type != PB_BYTES) {
            pb_reader_skip(&reader);
        } else if (!take_field(&reader, fields, &request)) {
            return XDS_REQUEST_MALFORMED;
        }
    }
    if (reader.failed) {
        return XDS_REQUEST_MALFORMED;
    }
    *out_request = request;
    return XDS_REQUEST_OK;
}
