/* The stream of renewals: a message carries the leases of many instances, and is answered once,
 * when all of them are renewed or known to have ended. A renewal that can be answered at once, as
 * nearly all can on the leader, costs no object, no log entry and no wait. */
#include "base/pb_append.h"
#include "doors/registry/registry_api_call.h"
#include "doors/registry/registry_api_request.h"

#include <stdlib.h>

enum {
    /* Waiting for the service on one stream; the stream is ended above. */
    RENEWALS_PER_STREAM_MAX = 200 * 1000
};

struct renew_stream {
    struct grpc_call *call; /* NULL: the client is gone */
    struct registry_api *door;
    size_t n_batches; /* that wait for the service */
    size_t n_renewals;
    bool is_half_closed;
    bool is_finished;
};

/* One message. Lives until the last of its renewals is answered. */
struct renew_batch {
    struct renew_stream *stream;
    uint64_t sequence;
    size_t n_waiting; /* renewals, and one while they are begun */
    uint32_t n_renewed;
    size_t n_ended;
    enum status status; /* of one that failed; STATUS_OK: none */
    size_t held;
    int64_t ended[]; /* room for all */
};

/* Belongs to the service while it waits. */
struct renewal {
    struct service_renewal service; /* must be first: a spare one is kept as such */
    struct renew_batch *batch;
};

static void finish(struct renew_stream *stream, const struct leased_v1_error *error) {
    if (stream->is_finished || stream->call == NULL) {
        return;
    }
    stream->is_finished = true;
    if (error != NULL) {
        leased_v1_error_finish(stream->call, error);
    } else {
        grpc_call_finish(stream->call, GRPC_OK, NULL);
    }
}

static void release_stream(struct renew_stream *stream) {
    if (stream->call == NULL && stream->n_batches == 0) {
        free(stream);
    }
}

/* Everything of the message is known. */
static void answer(struct renew_batch *batch) {
    struct renew_stream *stream = batch->stream;
    if (stream->call != NULL && !stream->is_finished) {
        if (batch->status != STATUS_OK) {
            finish(stream, registry_api_error_of(batch->status));
        } else {
            struct buffer *out = registry_api_answer_begin(stream->door);
            pb_append_uint64(out, 2, batch->sequence);
            pb_append_uint64(out, 3, batch->n_renewed);
            size_t mark = pb_append_begin(out, 4);
            for (size_t i = 0; i < batch->n_ended; i++) {
                buffer_put_varint(out, (uint64_t)batch->ended[i]);
            }
            pb_append_end(out, mark);
            leased_v1_answer_send(stream->call, out);
        }
    }
    if (stream->call != NULL) {
        grpc_call_release(stream->call, batch->held);
    }
    free(batch);
    stream->n_batches--;
    if (stream->is_half_closed && stream->n_batches == 0) {
        finish(stream, NULL);
    }
    release_stream(stream);
}

static void count(struct renew_batch *batch, int64_t lease_id, enum status status) {
    if (status == STATUS_OK) {
        batch->n_renewed++;
    } else if (status == STATUS_LEASE_NOT_FOUND) {
        batch->ended[batch->n_ended++] = lease_id;
    } else {
        batch->status = status;
    }
}

static void uncount(struct renew_batch *batch) {
    batch->n_waiting--;
    if (batch->n_waiting == 0) {
        answer(batch);
    }
}

static void on_renewed(struct service_renewal *service_renewal, enum status status,
                       int64_t ttl_ms) {
    (void)ttl_ms;
    struct renewal *renewal = list_entry(service_renewal, struct renewal, service);
    struct renew_batch *batch = renewal->batch;
    batch->stream->n_renewals--;
    count(batch, renewal->service.id, status);
    free(renewal);
    uncount(batch);
}

static struct renewal *take_renewal(struct registry_api *door) {
    struct renewal *renewal = NULL;
    if (door->spare_renewal != NULL) {
        renewal = list_entry(door->spare_renewal, struct renewal, service);
        door->spare_renewal = NULL;
    } else {
        renewal = malloc(sizeof *renewal);
    }
    return renewal;
}

static void renew(struct renew_batch *batch, int64_t lease_id) {
    struct renew_stream *stream = batch->stream;
    struct registry_api *door = stream->door;
    struct renewal *renewal =
        stream->n_renewals < RENEWALS_PER_STREAM_MAX ? take_renewal(door) : NULL;
    if (renewal == NULL) {
        count(batch, lease_id, STATUS_TOO_MANY_REQUESTS);
        return;
    }
    *renewal = (struct renewal){.batch = batch};
    renewal->service.id = lease_id;
    renewal->service.owner = KEY_SPACE_REGISTRY;
    renewal->service.done = on_renewed;
    int64_t ttl_ms = 0;
    enum status status =
        service_renew(door->service, grpc_call_caller(stream->call), &renewal->service, &ttl_ms);
    if (status == STATUS_PENDING) {
        batch->n_waiting++;
        stream->n_renewals++;
        return;
    }
    if (door->spare_renewal == NULL) {
        door->spare_renewal = &renewal->service;
    } else {
        free(renewal);
    }
    count(batch, lease_id, status);
}

static struct renew_batch *create_batch(struct renew_stream *stream,
                                        const struct registry_api_renewals *request) {
    size_t size = sizeof(struct renew_batch) + request->n * sizeof request->lease_ids[0];
    size_t held = size + request->n * sizeof(struct renewal);
    if (!grpc_call_hold(stream->call, held)) {
        finish(stream, registry_api_error_of(STATUS_TOO_MANY_REQUESTS));
        return NULL;
    }
    struct renew_batch *batch = malloc(size);
    if (batch == NULL) {
        grpc_call_release(stream->call, held);
        finish(stream, registry_api_error_of(STATUS_NO_MEMORY));
        return NULL;
    }
    *batch = (struct renew_batch){
        .stream = stream, .sequence = request->sequence, .n_waiting = 1, .held = held};
    stream->n_batches++;
    return batch;
}

static void on_open(struct grpc_call *call) {
    struct registry_api *door = registry_api_of(call);
    struct renew_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        leased_v1_error_finish(call, registry_api_error_of(STATUS_NO_MEMORY));
        return;
    }
    stream->call = call;
    stream->door = door;
    grpc_call_set_data(call, stream);
    door->stats.renew_streams++;
}

static void on_message(struct grpc_call *call, struct bytes message) {
    struct renew_stream *stream = grpc_call_data(call);
    struct registry_api_renewals request;
    if (stream == NULL || stream->is_finished) {
        return;
    }
    struct registry_api *door = stream->door;
    const struct leased_v1_error *error =
        registry_api_request_renewals(message, &door->arena, &request);
    if (error != NULL) {
        finish(stream, error);
        arena_reset(&door->arena);
        return;
    }
    struct renew_batch *batch = create_batch(stream, &request);
    if (batch != NULL) {
        for (size_t i = 0; i < request.n; i++) {
            renew(batch, request.lease_ids[i]);
        }
        door->stats.renewals += request.n;
        uncount(batch);
    }
    arena_reset(&door->arena);
}

static void on_half_close(struct grpc_call *call) {
    struct renew_stream *stream = grpc_call_data(call);
    if (stream != NULL) {
        stream->is_half_closed = true;
        if (stream->n_batches == 0) {
            finish(stream, NULL);
        }
    }
}

static void on_close(struct grpc_call *call) {
    struct renew_stream *stream = grpc_call_data(call);
    if (stream == NULL) {
        return;
    }
    stream->door->stats.renew_streams--;
    stream->call = NULL;
    release_stream(stream);
}

static const struct grpc_method methods[] = {
    {.path = "/leased.v1.Registry/Renew",
     .is_prompt = true,
     .answers_refused = true,
     .kind = GRPC_BIDIRECTIONAL,
     .on_open = on_open,
     .on_message = on_message,
     .on_half_close = on_half_close,
     .on_close = on_close},
};
const struct registry_api_methods registry_api_renew_methods = {methods,
                                                                sizeof methods / sizeof methods[0]};
