#include "net/grpc_gateway_call.h"

#include "net/grpc_bridge.h"
#include "net/grpc_gateway_error.h"
#include "net/grpc_json_reader.h"
#include "net/grpc_json_text.h"
#include "net/grpc_json_writer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* A unary answer that is larger is sent in pieces, without a length. */
    WHOLE_ANSWER_MAX = 64 * 1024,
    /* JSON of a message is larger than the message: base64, names, numbers in digits. */
    JSON_FACTOR = 2,
    JSON_EXTRA = 64 * 1024,
    /* Between two messages a stream keeps no more memory than this. */
    OUT_KEPT_MAX = 4 * 1024
};

struct grpc_gateway_call {
    struct http_exchange *exchange;
    struct grpc_bridge *bridge;
    const struct grpc_gateway_method *method;
    struct grpc_json_scanner scanner;
    struct buffer value;   /* what came of the value that is not whole yet */
    struct buffer message; /* made of the value */
    struct buffer held;    /* what came before there was a place for the call */
    struct grpc_json_writer writer;
    struct buffer out;
    bool is_stream;
    bool is_started;       /* status and headers are sent */
    bool is_bad_request;   /* the first value could not be read: not the stream's error */
    bool has_sent;         /* a message */
    bool is_input_ignored; /* what follows does not matter */
    bool is_held_last;     /* the body ends behind what is held */
};

/* --- the answer ---------------------------------------------------------------------------- */

static const struct http_field answer_fields[] = {
    HTTP_FIELD("content-type", "application/json"),
    HTTP_FIELD("grpc-metadata-content-type", "application/grpc"),
};
enum { N_ANSWER_FIELDS = sizeof answer_fields / sizeof answer_fields[0] };

static void append(struct buffer *out, const char *text) {
    buffer_append(out, text, strlen(text));
}

static void start(struct grpc_gateway_call *call, unsigned status, size_t n_fields) {
    if (!call->is_started) {
        call->is_started = true;
        http_start(call->exchange, status, answer_fields, n_fields);
    }
}

static void flush(struct grpc_gateway_call *call) {
    http_send(call->exchange, bytes_of(call->out.data, call->out.size));
    call->out.size = 0;
    if (call->out.capacity > OUT_KEPT_MAX) {
        buffer_clear(&call->out);
    }
}

static void on_message(struct http_exchange *exchange, size_t size) {
    struct grpc_gateway_call *call = http_data(exchange);
    if (call->is_stream) {
        start(call, 200, N_ANSWER_FIELDS);
        append(&call->out, "{\"result\":");
    }
    grpc_json_writer_init(&call->writer, call->method->output, size, &call->out);
}

static void on_piece(struct http_exchange *exchange, struct bytes piece, bool is_last) {
    struct grpc_gateway_call *call = http_data(exchange);
    bool is_good = grpc_json_writer_feed(&call->writer, piece, &call->out);
    assert(is_good);
    assert(!is_last || grpc_json_writer_is_done(&call->writer));
    if (is_last && call->is_stream) {
        append(&call->out, "}\n");
    }
    if (call->is_stream || call->is_started || call->out.size > WHOLE_ANSWER_MAX) {
        start(call, 200, N_ANSWER_FIELDS);
        flush(call);
    }
}

static void fail(struct grpc_gateway_call *call, enum grpc_code code, const char *text) {
    unsigned status = grpc_gateway_status(code);
    bool is_in_stream = call->is_stream && !call->is_bad_request;
    if (call->is_started && !is_in_stream) {
        http_abort(call->exchange); /* behind a part of an answer it would be taken for one */
        return;
    }
    if (is_in_stream) {
        start(call, status, 1);
        grpc_gateway_write_stream_error(&call->out, code, text);
        flush(call);
        http_finish(call->exchange);
        return;
    }
    call->out.size = 0;
    grpc_gateway_write_error(&call->out, code, text);
    http_reply_fields(call->exchange, status, answer_fields, 1,
                      bytes_of(call->out.data, call->out.size));
}

static void on_end(struct http_exchange *exchange, enum grpc_code code, const char *text) {
    struct grpc_gateway_call *call = http_data(exchange);
    if (code != GRPC_OK) {
        fail(call, code, text);
    } else if (call->is_stream || call->is_started) {
        start(call, 200, N_ANSWER_FIELDS);
        flush(call);
        http_finish(exchange);
    } else {
        http_reply_fields(exchange, 200, answer_fields, N_ANSWER_FIELDS,
                          bytes_of(call->out.data, call->out.size));
    }
}

/* --- the request --------------------------------------------------------------------------- */

static void end_input(struct grpc_gateway_call *call) {
    call->is_input_ignored = true;
    buffer_clear(&call->value);
    buffer_clear(&call->message);
    grpc_bridge_count_partial(call->bridge, 0);
    grpc_bridge_half_close(call->bridge);
}

/* As etcd's gateway does: an error in the first value is the answer, one in a later value of a
 * stream is the end of the requests. */
static void refuse(struct grpc_gateway_call *call, enum grpc_code code, const char *text) {
    bool is_later = call->has_sent;
    if (!is_later) {
        call->is_bad_request = true;
        bool is_unknown =
            grpc_bridge_kind(call->bridge) == GRPC_BIDIRECTIONAL && code == GRPC_INVALID_ARGUMENT;
        grpc_bridge_finish(call->bridge, is_unknown ? GRPC_UNKNOWN : code, text);
    }
    end_input(call);
}

static void send(struct grpc_gateway_call *call, struct bytes json) {
    char error[GRPC_JSON_ERROR_SIZE];
    grpc_bridge_begin(&call->message);
    if (json.size > 0 && !grpc_json_read(json, call->method->input, &call->message, error)) {
        refuse(call, GRPC_INVALID_ARGUMENT, error);
        return;
    }
    call->has_sent = true;
    grpc_bridge_send(call->bridge, &call->message);
    if (grpc_bridge_kind(call->bridge) != GRPC_BIDIRECTIONAL) {
        end_input(call);
    }
}

/* A whole value: kept bytes and those behind them. */
static void take_value(struct grpc_gateway_call *call, struct bytes rest) {
    call->scanner = (struct grpc_json_scanner){0};
    if (call->value.size == 0) {
        send(call, rest);
        return;
    }
    buffer_append(&call->value, rest.data, rest.size);
    struct buffer value = call->value;
    buffer_init(&call->value);
    grpc_bridge_count_partial(call->bridge, 0);
    send(call, bytes_of(value.data, value.size));
    buffer_clear(&value);
}

static size_t json_size_max(const struct grpc_gateway_call *call) {
    return JSON_FACTOR * grpc_bridge_message_max(call->bridge) + JSON_EXTRA;
}

static void keep(struct grpc_gateway_call *call, struct bytes bytes) {
    if (!call->scanner.has_begun) {
        return; /* white space */
    }
    if (call->value.size + bytes.size > json_size_max(call)) {
        refuse(call, GRPC_RESOURCE_EXHAUSTED, "the JSON of the request is too large");
        return;
    }
    buffer_append(&call->value, bytes.data, bytes.size);
    grpc_bridge_count_partial(call->bridge, call->value.size);
}

static void take_end(struct grpc_gateway_call *call) {
    if (call->value.size > 0) {
        take_value(call, bytes_of("", 0));
    } else if (!call->has_sent && grpc_bridge_kind(call->bridge) != GRPC_BIDIRECTIONAL) {
        send(call, bytes_of("", 0));
    }
    if (!call->is_input_ignored) {
        end_input(call);
    }
}

static void take_body(struct grpc_gateway_call *call, struct bytes bytes, bool is_last) {
    while (bytes.size > 0 && !call->is_input_ignored && grpc_bridge_is_open(call->bridge)) {
        struct bytes rest = bytes;
        bool is_whole = grpc_json_scanner_next(&call->scanner, &rest);
        struct bytes taken = bytes_of(bytes.data, bytes.size - rest.size);
        bytes = rest;
        if (is_whole) {
            take_value(call, taken);
        } else {
            keep(call, taken);
        }
    }
    if (is_last && !call->is_input_ignored && grpc_bridge_is_open(call->bridge)) {
        take_end(call);
    }
}

static void hold(struct grpc_gateway_call *call, struct bytes bytes, bool is_last) {
    if (call->is_input_ignored) {
        return;
    }
    if (call->held.size + bytes.size > json_size_max(call)) {
        refuse(call, GRPC_RESOURCE_EXHAUSTED, "too much was sent before there was a place for it");
        return;
    }
    buffer_append(&call->held, bytes.data, bytes.size);
    call->is_held_last = is_last;
    grpc_bridge_count_partial(call->bridge, call->held.size);
}

void grpc_gateway_call_on_body(struct http_exchange *exchange, struct bytes bytes, bool is_last) {
    struct grpc_gateway_call *call = http_data(exchange);
    if (grpc_bridge_is_waiting(call->bridge)) {
        hold(call, bytes, is_last);
    } else {
        take_body(call, bytes, is_last);
    }
}

static void on_admitted(struct http_exchange *exchange) {
    struct grpc_gateway_call *call = http_data(exchange);
    struct buffer held = call->held;
    buffer_init(&call->held);
    grpc_bridge_count_partial(call->bridge, 0);
    take_body(call, bytes_of(held.data, held.size), call->is_held_last);
    buffer_clear(&held);
}

/* --- methods ------------------------------------------------------------------------------- */

static bool is_named(const ProtobufCServiceDescriptor *service, struct bytes name) {
    return bytes_equal(bytes_from_text(service->name), name);
}

void grpc_gateway_method_find(struct grpc_gateway_method *method,
                              const ProtobufCServiceDescriptor *const *services,
                              size_t n_services) {
    const char *name = strrchr(method->path, '/');
    struct bytes service = bytes_of(method->path + 1, (size_t)(name - method->path) - 1);
    method->input = NULL;
    for (size_t i = 0; i < n_services; i++) {
        if (is_named(services[i], service)) {
            const ProtobufCMethodDescriptor *found =
                protobuf_c_service_descriptor_get_method_by_name(services[i], name + 1);
            assert(found != NULL);
            method->input = found->input;
            method->output = found->output;
        }
    }
    assert(method->input != NULL);
}

/* --- life ---------------------------------------------------------------------------------- */

static const struct grpc_bridge_events events = {
    .on_message = on_message, .on_piece = on_piece, .on_admitted = on_admitted, .on_end = on_end};

void grpc_gateway_call_open(struct http_exchange *exchange,
                            const struct grpc_gateway_method *method) {
    struct grpc_gateway_call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        http_abort(exchange);
        return;
    }
    call->exchange = exchange;
    call->method = method;
    call->bridge = grpc_bridge_create(exchange, method->path, &events);
    if (call->bridge == NULL) { /* a listener with the routes alone */
        free(call);
        http_reply(exchange, 404, "text/plain; charset=utf-8", bytes_from_text("Not Found\n"));
        return;
    }
    call->is_stream = grpc_bridge_kind(call->bridge) != GRPC_UNARY;
    http_set_data(exchange, call);
    grpc_bridge_open(call->bridge);
}

static bool is_word(struct bytes text, const char *word) {
    return bytes_equal(text, bytes_from_text(word));
}

/* Numbers may be texts, and the reader checks them; true and false may not. */
static void put_value(struct buffer *json, const ProtobufCFieldDescriptor *field,
                      struct bytes value) {
    if (field->type == PROTOBUF_C_TYPE_BOOL && (is_word(value, "true") || is_word(value, ""))) {
        append(json, "true");
    } else if (field->type == PROTOBUF_C_TYPE_BOOL && is_word(value, "false")) {
        append(json, "false");
    } else {
        grpc_json_write_text(json, value);
    }
}

static void put_url_fields(struct buffer *json, const struct http_exchange *exchange,
                           const ProtobufCMessageDescriptor *message) {
    bool is_first = true;
    append(json, "{");
    for (unsigned i = 0; i < message->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->fields[i];
        struct bytes value;
        if (field->label == PROTOBUF_C_LABEL_REPEATED || field->type == PROTOBUF_C_TYPE_MESSAGE ||
            (!http_parameter(exchange, field->name, &value) &&
             !http_query(exchange, field->name, &value))) {
            continue;
        }
        append(json, is_first ? "\"" : ",\"");
        append(json, field->name);
        append(json, "\":");
        put_value(json, field, value);
        is_first = false;
    }
    append(json, "}");
}

void grpc_gateway_call_open_by_url(struct http_exchange *exchange,
                                   const struct grpc_gateway_method *method) {
    grpc_gateway_call_open(exchange, method);
    if (http_data(exchange) == NULL) {
        return;
    }
    struct buffer json;
    buffer_init(&json);
    put_url_fields(&json, exchange, method->input);
    grpc_gateway_call_on_body(exchange, bytes_of(json.data, json.size), true);
    buffer_clear(&json);
}

void grpc_gateway_call_on_writable(struct http_exchange *exchange) {
    struct grpc_gateway_call *call = http_data(exchange);
    grpc_bridge_writable(call->bridge);
}

void grpc_gateway_call_on_input_end(struct http_exchange *exchange) {
    struct grpc_gateway_call *call = http_data(exchange);
    grpc_bridge_input_end(call->bridge);
}

void grpc_gateway_call_on_drain(struct http_exchange *exchange) {
    struct grpc_gateway_call *call = http_data(exchange);
    grpc_bridge_drain(call->bridge);
}

void grpc_gateway_call_on_close(struct http_exchange *exchange) {
    struct grpc_gateway_call *call = http_data(exchange);
    if (call == NULL) {
        return;
    }
    grpc_bridge_destroy(call->bridge);
    buffer_clear(&call->value);
    buffer_clear(&call->message);
    buffer_clear(&call->held);
    buffer_clear(&call->out);
    free(call);
}
