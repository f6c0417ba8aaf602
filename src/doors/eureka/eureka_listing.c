/* Lists of instances: made by a worker from a view of the state, in parts, as fast as the client
 * takes them. So no list holds the loop up, however many instances there are, and an answer of any
 * size holds no more memory than a part of it and a few words an instance. */
#include "core/state_machine.h"
#include "doors/eureka/eureka_collection.h"
#include "doors/eureka/eureka_gzip.h"
#include "doors/eureka/eureka_internal.h"
#include "doors/eureka/eureka_text.h"
#include "registry/registry_keys.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Parts are about this large before they are compressed. */
enum { PART_SIZE = 256 * 1024 };

struct listing {
    struct eureka_door *door;
    struct http_exchange *exchange; /* NULL: the client is gone */
    struct service_read read;       /* what is listed is at least as new as the request */
    bool is_reading;
    struct service_scan scan;
    struct arena names; /* of the query */
    struct eureka_query query;
    enum eureka_format format;
    bool is_compressed; /* as the client asked; without memory for it: plain */
    /* The worker's. */
    bool is_collected;
    struct eureka_collection collection;
    size_t position; /* of the next item */
    struct eureka_writer writer;
    struct buffer text;
    struct eureka_gzip gzip;
    struct buffer part;
    struct arena arena; /* of one instance */
    bool is_written;
    /* The loop's. */
    bool is_started;
};

static struct listing *listing_of(struct service_scan *scan) {
    return list_entry(scan, struct listing, scan);
}

/* --- The worker. --- */

static struct bytes application_name(struct listing *listing, const struct eureka_item *item) {
    uint8_t *name = arena_alloc(&listing->arena, item->service.size);
    eureka_text_upper(name, item->service);
    return bytes_of(name, item->service.size);
}

static void open_document(struct listing *listing) {
    int64_t version = 1;
    if (listing->query.list == EUREKA_LIST_DELTA) {
        version = key_view_revision(snapshot_view_keys(listing->scan.view));
    } else if (listing->query.list != EUREKA_LIST_ALL) {
        version = -1;
    }
    if (listing->query.list == EUREKA_LIST_APPLICATION) {
        eureka_document_open_only(
            &listing->writer,
            application_name(listing, eureka_collection_at(&listing->collection, 0)));
    } else {
        eureka_document_open(&listing->writer, version, &listing->collection.counts);
    }
}

static void close_document(struct listing *listing) {
    if (listing->query.list == EUREKA_LIST_APPLICATION) {
        eureka_document_close_only(&listing->writer);
    } else {
        eureka_document_close(&listing->writer);
    }
}

/* An item, with the name of its application before the first of them and its end behind the last.
 */
static void write_item(struct listing *listing, size_t index) {
    const struct eureka_collection *all = &listing->collection;
    const struct eureka_item *item = eureka_collection_at(all, index);
    bool has_names = listing->query.list != EUREKA_LIST_APPLICATION;
    struct eureka_instance instance;
    if (has_names &&
        (index == 0 || !eureka_item_is_beside(eureka_collection_at(all, index - 1), item))) {
        eureka_document_open_application(&listing->writer, application_name(listing, item));
    }
    if (eureka_item_show(item, &listing->arena, &instance)) {
        eureka_document_add(&listing->writer, &instance);
    }
    if (has_names && (index + 1 == all->n_items ||
                      !eureka_item_is_beside(eureka_collection_at(all, index + 1), item))) {
        eureka_document_close_application(&listing->writer);
    }
    arena_reset(&listing->arena);
}

static bool is_empty(const struct listing *listing) {
    return listing->collection.n_items == 0 && listing->query.list != EUREKA_LIST_ALL &&
           listing->query.list != EUREKA_LIST_DELTA;
}

static void run(struct service_scan *scan) {
    struct listing *listing = listing_of(scan);
    listing->text.size = 0;
    listing->part.size = 0;
    if (!listing->is_collected) {
        listing->is_collected = true;
        eureka_collection_fill(&listing->collection, snapshot_view_keys(scan->view),
                               &listing->query);
        if (is_empty(listing)) {
            return;
        }
        open_document(listing);
        /* Only now: lists that wait for a view hold none of zlib's 256 KiB. */
        if (listing->is_compressed) {
            (void)eureka_gzip_init(&listing->gzip);
        }
    }
    while (listing->text.size < PART_SIZE && listing->position < listing->collection.n_items) {
        write_item(listing, listing->position++);
    }
    listing->is_written = listing->position == listing->collection.n_items;
    if (listing->is_written) {
        close_document(listing);
    }
    if (listing->gzip.is_open) {
        eureka_gzip_append(&listing->gzip, &listing->part,
                           bytes_of(listing->text.data, listing->text.size), listing->is_written);
    }
}

/* --- The loop. --- */

static void destroy(struct listing *listing) {
    eureka_collection_clear(&listing->collection);
    eureka_gzip_clear(&listing->gzip);
    buffer_clear(&listing->text);
    buffer_clear(&listing->part);
    arena_clear(&listing->arena);
    arena_clear(&listing->names);
    free(listing);
}

/* Gives the view back; the exchange was answered, or is gone. */
static void end(struct listing *listing) {
    if (listing->exchange != NULL) {
        http_set_data(listing->exchange, NULL);
        listing->exchange = NULL;
    }
    if (service_scan_end(&listing->scan)) {
        destroy(listing);
    }
}

static size_t fields_of(const struct listing *listing, struct http_field out_fields[3]) {
    size_t n = 0;
    out_fields[n++] =
        (struct http_field){.name = bytes_from_text("content-type"),
                            .value = bytes_from_text(eureka_http_type(listing->format)),
                            .is_constant = true};
    out_fields[n++] = HTTP_FIELD("vary", "accept, accept-encoding");
    if (listing->gzip.is_open) {
        out_fields[n++] = HTTP_FIELD("content-encoding", "gzip");
    }
    return n;
}

static void send_part(struct listing *listing) {
    const struct buffer *buffer = listing->gzip.is_open ? &listing->part : &listing->text;
    struct bytes part = bytes_of(buffer->data, buffer->size);
    struct http_field fields[3];
    size_t n_fields = fields_of(listing, fields);
    if (!listing->is_started && listing->is_written) {
        http_reply_fields(listing->exchange, 200, fields, n_fields, part);
        return;
    }
    if (!listing->is_started) {
        listing->is_started = true;
        http_start(listing->exchange, 200, fields, n_fields);
    }
    http_send(listing->exchange, part);
    if (listing->is_written) {
        http_finish(listing->exchange);
    }
}

static void ran(struct service_scan *scan) {
    struct listing *listing = listing_of(scan);
    if (listing->exchange == NULL) {
        end(listing);
        return;
    }
    if (is_empty(listing)) {
        eureka_http_error(listing->exchange, 404, "nothing is registered under this name");
        end(listing);
        return;
    }
    if (!listing->is_started && !listing->is_written && !http_has_room(listing->exchange)) {
        eureka_http_status(listing->exchange, STATUS_TOO_MANY_REQUESTS);
        end(listing);
        return;
    }
    send_part(listing);
    if (listing->is_written) {
        end(listing);
    } else if (http_is_writable(listing->exchange)) {
        service_scan_continue(scan);
    }
}

static void revoked(struct service_scan *scan, enum status status) {
    struct listing *listing = listing_of(scan);
    if (listing->exchange != NULL && listing->is_started) {
        http_abort(listing->exchange);
    } else if (listing->exchange != NULL) {
        eureka_http_status(listing->exchange, status);
    }
    end(listing);
}

void eureka_listing_writable(struct http_exchange *exchange) {
    struct listing *listing = http_data(exchange);
    if (listing != NULL && listing->is_started && listing->scan.private.state == SCAN_IDLE) {
        service_scan_continue(&listing->scan);
    }
}

void eureka_listing_closed(struct http_exchange *exchange) {
    struct listing *listing = http_data(exchange);
    if (listing == NULL) {
        return;
    }
    listing->exchange = NULL;
    if (!listing->is_reading) {
        end(listing);
    }
}

static struct listing *create(struct http_exchange *exchange, enum eureka_list list) {
    struct listing *listing = calloc(1, sizeof *listing);
    if (listing == NULL) {
        eureka_http_status(exchange, STATUS_NO_MEMORY);
        return NULL;
    }
    listing->door = http_context(exchange);
    listing->exchange = exchange;
    listing->query.list = list;
    listing->format = eureka_http_format(exchange);
    listing->scan = (struct service_scan){.run = run, .ran = ran, .revoked = revoked};
    arena_init(&listing->names);
    arena_init(&listing->arena);
    buffer_init(&listing->text);
    buffer_init(&listing->part);
    eureka_collection_init(&listing->collection);
    eureka_writer_init(&listing->writer, &listing->text, listing->format);
    listing->is_compressed = eureka_http_accepts_gzip(exchange);
    return listing;
}

static void fail(struct listing *listing, enum status status) {
    http_set_data(listing->exchange, NULL);
    eureka_http_status(listing->exchange, status);
    destroy(listing);
}

/* A scan alone would show what this member has applied, which may be old. */
static void begin_scan(struct listing *listing) {
    enum status status =
        service_scan_start(listing->door->service, http_caller(listing->exchange), &listing->scan,
                           listing->query.ranges, listing->query.n_ranges);
    if (status != STATUS_PENDING) {
        fail(listing, status);
    }
}

static void read_ready(struct service_read *read, enum status status) {
    struct listing *listing = list_entry(read, struct listing, read);
    listing->is_reading = false;
    if (listing->exchange == NULL) {
        destroy(listing);
    } else if (status != STATUS_OK) {
        fail(listing, status);
    } else {
        begin_scan(listing);
    }
}

static void start(struct listing *listing) {
    http_set_data(listing->exchange, listing);
    listing->read = (struct service_read){.ready = read_ready};
    listing->is_reading = true;
    enum status status =
        service_read(listing->door->service, http_caller(listing->exchange), &listing->read,
                     listing->query.ranges, listing->query.n_ranges);
    if (status != STATUS_PENDING) {
        read_ready(&listing->read, status);
    }
}

/* --- The routes. --- */

static void read_all(struct listing *listing) {
    listing->query.ranges[0] = registry_prefix_range(&listing->names, bytes_of("", 0));
    listing->query.n_ranges = 1;
}

void eureka_on_all(struct http_exchange *exchange) {
    struct listing *listing = create(exchange, EUREKA_LIST_ALL);
    if (listing != NULL) {
        eureka_door_note(listing->door);
        listing->door->counters[EUREKA_COUNT_LIST]++;
        read_all(listing);
        start(listing);
    }
}

void eureka_on_delta(struct http_exchange *exchange) {
    struct listing *listing = create(exchange, EUREKA_LIST_DELTA);
    if (listing != NULL) {
        eureka_door_note(listing->door);
        listing->door->counters[EUREKA_COUNT_DELTA]++;
        listing->query.since_revision =
            eureka_moments_since(&listing->door->moments, service_now_ms(listing->door->service));
        read_all(listing);
        start(listing);
    }
}

static void on_vip(struct http_exchange *exchange, enum eureka_list list) {
    struct listing *listing = create(exchange, list);
    if (listing != NULL) {
        struct bytes vip = eureka_http_parameter(exchange, "vip");
        listing->query.vip = bytes_of(arena_copy(&listing->names, vip.data, vip.size), vip.size);
        listing->door->counters[EUREKA_COUNT_LIST]++;
        read_all(listing);
        start(listing);
    }
}

void eureka_on_vip(struct http_exchange *exchange) {
    on_vip(exchange, EUREKA_LIST_VIP);
}

void eureka_on_secure_vip(struct http_exchange *exchange) {
    on_vip(exchange, EUREKA_LIST_SECURE_VIP);
}

/* The service in lower case, and those of other spellings that are there: a right to them is needed
 * only then. */
static void name_services(struct listing *listing, struct bytes asked) {
    const struct key_store *keys = eureka_door_keys(listing->door);
    uint8_t *lower = arena_alloc(&listing->names, asked.size);
    uint8_t *upper = arena_alloc(&listing->names, asked.size);
    eureka_text_lower(lower, asked);
    eureka_text_upper(upper, asked);
    const struct bytes names[EUREKA_NAMES_MAX] = {bytes_of(lower, asked.size), asked,
                                                  bytes_of(upper, asked.size)};
    for (size_t i = 0; i < EUREKA_NAMES_MAX; i++) {
        struct registry_service ignored;
        bool is_again = (i > 0 && bytes_equal(names[i], names[0])) ||
                        (i > 1 && bytes_equal(names[i], names[1]));
        if (i == 0 ||
            (!is_again && registry_view_service(keys, &listing->names, names[i], &ignored))) {
            listing->query.ranges[listing->query.n_ranges++] =
                registry_service_range(&listing->names, names[i]);
        }
    }
}

void eureka_on_application(struct http_exchange *exchange) {
    struct listing *listing = create(exchange, EUREKA_LIST_APPLICATION);
    if (listing != NULL) {
        struct bytes app = eureka_http_parameter(exchange, "app");
        listing->door->counters[EUREKA_COUNT_LIST]++;
        name_services(listing, bytes_of(arena_copy(&listing->names, app.data, app.size), app.size));
        start(listing);
    }
}
