/*
 * Numbered tickets, as at the counter of a bakery: "TAKE bakery" over lines of text and POST
 * /tickets/bakery over HTTP answer {"number":1,"token":7,"lease":"694d71ddacfda227"}.
 * docs/doors/README.md explains it.
 */
#include "sample_door.h"

#include "net/http.h"
#include "net/raw_protocol.h"
#include "sample_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE_MAX = 5 + SAMPLE_QUEUE_SIZE_MAX, TEXT_SIZE_MAX = 128 };

/* --- A request, from either wire. --- */

/* Belongs to the service until done(); a client that goes away only takes itself out of it. */
struct ticket_request {
    struct service_request request;
    struct raw_connection *connection; /* NULL: gone, or HTTP */
    struct http_exchange *exchange;    /* NULL: gone, or a line */
};

static void done(struct service_request *request, const struct outcome *outcome) {
    struct ticket_request *ticket = (struct ticket_request *)request;
    char text[TEXT_SIZE_MAX];
    if (outcome->status == STATUS_OK) {
        struct reader reader;
        reader_init(&reader, outcome->rule.answer);
        int64_t number = reader_get_zigzag(&reader);
        int64_t token = reader_get_zigzag(&reader);
        snprintf(text, sizeof text,
                 "{\"number\":%" PRId64 ",\"token\":%" PRId64 ",\"lease\":\"%016" PRIx64 "\"}\n",
                 number, token, (uint64_t)reader_get_zigzag(&reader));
    } else {
        snprintf(text, sizeof text, "{\"error\":\"%s\"}\n", status_text(outcome->status));
    }
    if (ticket->connection != NULL) {
        raw_connection_set_data(ticket->connection, NULL);
        raw_connection_send(ticket->connection, bytes_from_text(text));
        raw_connection_end_request(ticket->connection);
        raw_connection_resume(ticket->connection);
    } else if (ticket->exchange != NULL) {
        unsigned status = outcome->status == STATUS_OK ? 201 : 503;
        http_set_data(ticket->exchange, NULL);
        http_reply(ticket->exchange, status, "application/json", bytes_from_text(text));
    }
    free(ticket);
}

static void take(const struct door_environment *door, const struct caller *caller,
                 struct bytes queue, struct ticket_request *ticket) {
    struct buffer request;
    buffer_init(&request);
    buffer_put_varint(&request, (uint64_t)door->values[0].duration_ms);
    buffer_put_bytes(&request, queue);
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = SAMPLE_RULE_TAKE, .request = bytes_of(request.data, request.size)}};
    ticket->request.done = done;
    service_submit(door->service, caller, &ticket->request, &command);
    buffer_clear(&request);
}

/* --- Lines. --- */

static enum sniff_result sniff(struct bytes first) {
    return sniff_prefix(first, "TAKE ");
}

static size_t on_bytes(struct raw_connection *connection, struct bytes bytes) {
    const uint8_t *end = memchr(bytes.data, '\n', bytes.size);
    if (end == NULL) {
        return 0; /* they come again when there is more */
    }
    struct bytes line = bytes_of(bytes.data, (size_t)(end - bytes.data));
    struct ticket_request *ticket = calloc(1, sizeof *ticket);
    if (ticket == NULL || sniff(line) != SNIFF_YES || line.size > LINE_SIZE_MAX) {
        free(ticket);
        raw_connection_refuse(connection, "not a request for a ticket");
        return 0;
    }
    ticket->connection = connection;
    raw_connection_set_data(connection, ticket);
    raw_connection_begin_request(connection);
    raw_connection_pause(
        connection); /* until done(), so that answers keep the order of the lines */
    take(raw_connection_context(connection), raw_connection_caller(connection),
         bytes_of(line.data + 5, line.size - 5), ticket);
    return line.size + 1;
}

static void on_close(struct raw_connection *connection) {
    struct ticket_request *ticket = raw_connection_data(connection);
    if (ticket != NULL) {
        ticket->connection = NULL;
    }
}

static const struct raw_protocol lines = {.name = "sample",
                                          .sniff = sniff,
                                          .partial_max = LINE_SIZE_MAX,
                                          .idle_limit_ms = RAW_NO_IDLE_LIMIT,
                                          .on_bytes = on_bytes,
                                          .on_close = on_close};

/* --- HTTP. --- */

static void on_post(struct http_exchange *exchange) {
    struct bytes queue = {0};
    struct ticket_request *ticket = calloc(1, sizeof *ticket);
    if (ticket == NULL || !http_parameter(exchange, "queue", &queue)) {
        abort();
    }
    ticket->exchange = exchange;
    http_set_data(exchange, ticket);
    take(http_context(exchange), http_caller(exchange), queue, ticket);
}

static void on_http_close(struct http_exchange *exchange) {
    struct ticket_request *ticket = http_data(exchange);
    if (ticket != NULL) {
        ticket->exchange = NULL;
    }
}

static const struct http_route route = {.method = "POST",
                                        .pattern = "/tickets/{queue}",
                                        .on_request = on_post,
                                        .on_close = on_http_close};

/* --- The table. --- */

static void serve(void *door, struct net_scope *scope) {
    net_scope_add_raw(scope, &lines, door);
    net_scope_add_routes(scope, &route, 1, door);
}

static const struct door_flag flag = {.name = "sample-ttl",
                                      .kind = DOOR_FLAG_DURATION,
                                      .fallback = "10s",
                                      .help = "How long a ticket lasts."};
static const struct door_request requests[] = {
    {"TAKE", DOOR_RIGHT_WRITE}, {"POST /tickets/{queue}", DOOR_RIGHT_WRITE}, {NULL, 0}};
static const struct rule *const rules[] = {&sample_rule_take};

const struct door sample_door = {.name = "sample",
                                 .title = "sample protocol",
                                 .default_port = 7777,
                                 .flags = &flag,
                                 .n_flags = 1,
                                 .requests = requests,
                                 .rules = rules,
                                 .n_rules = 1,
                                 .serve = serve};
