/* The stream of renewals: one carries those of all sessions of a client, and each is answered when
 * it is done. A renewal that can be answered at once, as nearly all can, costs no object, no log
 * entry and no wait. */
#include "base/pb_reader.h"
#include "base/pb_writer.h"
#include "doors/native/native_call.h"

#include <stdlib.h>

enum {
    /* Waiting for the service on one stream; the stream is ended above. */
    RENEWALS_PER_STREAM_MAX = 100 * 1000,
    /* More than that hardly fit into the processor's caches, beside all else. */
    LEASES_CACHED_MAX = 128 * 1024
};

struct renew_request {
    int64_t session_id;
    uint64_t sequence;
};

struct renew_stream {
    struct grpc_call *call;
    struct native_door *door;
    struct list renewals; /* that wait for the service */
    size_t n_renewals;
    bool is_half_closed;
    bool is_finished;
};

/* Belongs to the service while it waits. */
struct renewal {
    struct service_renewal service; /* must be first: a spare one is kept as such */
    struct renew_stream *stream;    /* NULL: the client went away */
    uint64_t sequence;
    struct list link;
};

static bool read_request(struct bytes message, struct renew_request *out) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    *out = (struct renew_request){0};
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            out->session_id = pb_reader_int64(&reader);
            break;
        case 2:
            out->sequence = pb_reader_uint64(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

static void finish(struct renew_stream *stream, const struct leased_v1_error *error) {
    if (stream->is_finished) {
        return;
    }
    stream->is_finished = true;
    if (error != NULL) {
        leased_v1_error_finish(stream->call, error);
    } else {
        grpc_call_finish(stream->call, GRPC_OK, NULL);
    }
}

static size_t header_size(const struct leased_v1_header *header) {
    return pb_uint64_size(1, header->cluster_id) + pb_uint64_size(2, header->member_id) +
           pb_int64_size(3, header->revision) + pb_uint64_size(4, header->term);
}

/* A session that has ended is answered with a TTL of 0: the others of the stream go on. */
static void answer(struct renew_stream *stream, struct renew_request request, enum status status,
                   int64_t ttl_ms) {
    if (stream->is_finished) {
        return;
    }
    if (status != STATUS_OK && status != STATUS_LEASE_NOT_FOUND) {
        finish(stream, native_error_of(status));
        return;
    }
    ttl_ms = status == STATUS_OK ? ttl_ms : 0;
    struct leased_v1_header header = leased_v1_header_now(&stream->door->api);
    size_t size = pb_message_size(1, header_size(&header)) + pb_int64_size(2, request.session_id) +
                  pb_uint64_size(3, request.sequence) + pb_int64_size(4, ttl_ms);
    struct pb_writer writer;
    pb_writer_init(&writer, grpc_call_reserve(stream->call, size), size);
    pb_write_message(&writer, 1, header_size(&header));
    pb_write_uint64(&writer, 1, header.cluster_id);
    pb_write_uint64(&writer, 2, header.member_id);
    pb_write_int64(&writer, 3, header.revision);
    pb_write_uint64(&writer, 4, header.term);
    pb_write_int64(&writer, 2, request.session_id);
    pb_write_uint64(&writer, 3, request.sequence);
    pb_write_int64(&writer, 4, ttl_ms);
    grpc_call_commit(stream->call, size);
}

static void finish_if_answered(struct renew_stream *stream) {
    if (stream->is_half_closed && stream->n_renewals == 0) {
        finish(stream, NULL);
    }
}

static void on_renewed(struct service_renewal *service_renewal, enum status status,
                       int64_t ttl_ms) {
    struct renewal *renewal = list_entry(service_renewal, struct renewal, service);
    struct renew_stream *stream = renewal->stream;
    if (stream != NULL) {
        list_remove(&renewal->link);
        stream->n_renewals--;
        answer(stream,
               (struct renew_request){.session_id = renewal->service.id,
                                      .sequence = renewal->sequence},
               status, ttl_ms);
        finish_if_answered(stream);
    }
    free(renewal);
}

static struct renewal *take_renewal(struct native_door *door) {
    struct renewal *renewal = NULL;
    if (door->spare_renewal != NULL) {
        renewal = list_entry(door->spare_renewal, struct renewal, service);
        door->spare_renewal = NULL;
    } else {
        renewal = malloc(sizeof *renewal);
    }
    return renewal;
}

static void renew(struct renew_stream *stream, struct renew_request request) {
    struct native_door *door = stream->door;
    if (stream->n_renewals >= RENEWALS_PER_STREAM_MAX) {
        finish(stream, native_error_of(STATUS_TOO_MANY_REQUESTS));
        return;
    }
    struct renewal *renewal = take_renewal(door);
    if (renewal == NULL) {
        finish(stream, native_error_of(STATUS_NO_MEMORY));
        return;
    }
    *renewal = (struct renewal){.stream = stream, .sequence = request.sequence};
    renewal->service.id = request.session_id;
    renewal->service.owner = KEY_SPACE_NATIVE;
    renewal->service.done = on_renewed;
    int64_t ttl_ms = 0;
    enum status status =
        service_renew(door->service, grpc_call_caller(stream->call), &renewal->service, &ttl_ms);
    door->stats.renewals++;
    if (status == STATUS_PENDING) {
        list_init(&renewal->link);
        list_append(&stream->renewals, &renewal->link);
        stream->n_renewals++;
        return;
    }
    door->spare_renewal = &renewal->service;
    answer(stream, request, status, ttl_ms);
}

static void on_open(struct grpc_call *call) {
    struct native_door *door = native_door_of(call);
    struct renew_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        leased_v1_error_finish(call, native_error_of(STATUS_NO_MEMORY));
        return;
    }
    stream->call = call;
    stream->door = door;
    list_init(&stream->renewals);
    grpc_call_set_data(call, stream);
    door->stats.renew_streams++;
}

static void on_message(struct grpc_call *call, struct bytes message) {
    struct renew_stream *stream = grpc_call_data(call);
    struct renew_request request;
    if (stream == NULL || stream->is_finished) {
        return;
    }
    if (!read_request(message, &request)) {
        finish(stream, &native_error_malformed);
        return;
    }
    renew(stream, request);
}

/* Where there are many leases, memory is asked for them before they are renewed. */
static bool prefetch(struct grpc_call *call, struct bytes message, bool is_near) {
    const struct lease_table *leases = native_leases(native_door_of(call));
    struct renew_request request;
    if (lease_table_count(leases) < LEASES_CACHED_MAX || !read_request(message, &request)) {
        return false;
    }
    lease_table_prefetch(leases, request.session_id, is_near);
    return true;
}

static void on_half_close(struct grpc_call *call) {
    struct renew_stream *stream = grpc_call_data(call);
    if (stream != NULL) {
        stream->is_half_closed = true;
        finish_if_answered(stream);
    }
}

static void on_close(struct grpc_call *call) {
    struct renew_stream *stream = grpc_call_data(call);
    if (stream == NULL) {
        return;
    }
    struct list *link;
    while ((link = list_pop_first(&stream->renewals)) != NULL) {
        list_entry(link, struct renewal, link)->stream = NULL;
    }
    stream->door->stats.renew_streams--;
    free(stream);
}

static const struct grpc_method methods[] = {
    {.path = "/leased.v1.Sessions/Renew",
     .is_prompt = true,
     .answers_refused = true,
     .kind = GRPC_BIDIRECTIONAL,
     .on_open = on_open,
     .on_message = on_message,
     .prefetch = prefetch,
     .on_half_close = on_half_close,
     .on_close = on_close},
};
const struct native_methods native_renew_methods = {methods, sizeof methods / sizeof methods[0]};
