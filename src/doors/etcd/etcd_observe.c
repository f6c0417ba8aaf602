/* Observe of the Election service: who leads now, then every new leader and all that a leader
 * proclaims. */
#include "doors/etcd/etcd_lock_request.h"
#include "doors/etcd/etcd_queue_call.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { OBSERVER_BYTES = 512, OBSERVER_NAME_COPIES = 5 };

struct observer {
    struct grpc_call *call; /* NULL: the client is gone */
    struct etcd_door *door;
    struct service_read read;
    struct service_watch watch;
    struct etcd_ticker ticker; /* of one that insists on a leader, or could not look */
    bool wants_leader;         /* of the cluster */
    bool owes_look;            /* there was too much to do: at a tick */
    bool is_reading;           /* it is with the service */
    bool is_finished;
    bool is_lagging;
    int64_t seen_revision; /* the state was looked at, or told of, up to here */
    uint8_t *leader;       /* the key of the leader; NULL: there is none */
    size_t leader_size;
    size_t held;
    size_t name_size;
    uint8_t name[];
};

static struct bytes name_of(const struct observer *observer) {
    return bytes_of(observer->name, observer->name_size);
}

static void destroy(struct observer *observer) {
    assert(observer->call == NULL);
    free(observer->leader);
    free(observer);
}

static void finish(struct observer *observer, const struct etcd_error *error) {
    if (!observer->is_finished) {
        observer->is_finished = true;
        etcd_error_finish(observer->call, error);
    }
}

/* --- The leader. --- */

static void tell(struct observer *observer, const struct record *record, int64_t revision) {
    observer->seen_revision = revision;
    etcd_queue_send_leader(observer->call, etcd_header_at(observer->door, revision), record);
}

static void look(struct observer *observer) {
    free(observer->leader);
    observer->leader = NULL;
    observer->owes_look = !etcd_queue_may_look(observer->door, name_of(observer));
    if (observer->owes_look) {
        etcd_ticker_start(observer->door, &observer->ticker);
        return;
    }
    const struct record *record = etcd_queue_first(observer->door, name_of(observer));
    observer->seen_revision = key_store_revision(etcd_keys(observer->door));
    if (record == NULL) {
        return;
    }
    struct bytes key = record_key(record);
    observer->leader = malloc(key.size);
    if (observer->leader == NULL) {
        finish(observer, etcd_error_of(STATUS_NO_MEMORY));
        return;
    }
    memcpy(observer->leader, key.data, key.size);
    observer->leader_size = key.size;
    tell(observer, record, observer->seen_revision);
}

static void take(struct observer *observer, const struct record *event) {
    bool is_of_leader =
        observer->leader != NULL &&
        bytes_equal(record_key(event), bytes_of(observer->leader, observer->leader_size));
    if (is_of_leader && !record_is_tombstone(event)) {
        tell(observer, event, event->mod_revision);
    } else if (is_of_leader || observer->leader == NULL) {
        look(observer);
    }
}

static bool deliver(struct service_watch *watch, const struct watch_batch *batch) {
    struct observer *observer = list_entry(watch, struct observer, watch);
    if (observer->is_finished) {
        return true;
    }
    if (!grpc_call_is_writable(observer->call)) {
        observer->is_lagging = true;
        return false;
    }
    for (size_t i = 0; i < batch->n_events && !observer->is_finished && !observer->owes_look; i++) {
        if (batch->events[i]->mod_revision > observer->seen_revision) {
            take(observer, batch->events[i]);
        }
    }
    return true;
}

/* It did not read for so long that what it was owed is gone. */
static void compacted(struct service_watch *watch, int64_t compacted_revision) {
    static const struct etcd_error closed_early = {GRPC_UNKNOWN, "election: observe closed early"};
    (void)compacted_revision;
    finish(list_entry(watch, struct observer, watch), &closed_early);
}

static void revoked(struct service_watch *watch, enum status status) {
    finish(list_entry(watch, struct observer, watch), etcd_queue_error_of(status));
}

/* --- The stream. --- */

static void begin(struct observer *observer, enum status status) {
    struct etcd_door *door = observer->door;
    if (status == STATUS_OK) {
        const struct service_watch_options options = {
            .range = etcd_queue_range(&door->arena, name_of(observer))};
        status =
            service_watch(door->service, etcd_caller(observer->call), &observer->watch, &options);
        arena_reset(&door->arena);
    }
    if (status == STATUS_OK) {
        look(observer);
    } else {
        finish(observer, etcd_queue_error_of(status));
    }
}

static void ready(struct service_read *read, enum status status) {
    struct observer *observer = list_entry(read, struct observer, read);
    observer->is_reading = false;
    if (observer->call == NULL) {
        destroy(observer);
    } else if (!observer->is_finished) {
        begin(observer, status);
    }
}

static void on_tick(struct etcd_ticker *ticker, uint64_t now_ms) {
    struct observer *observer = list_entry(ticker, struct observer, ticker);
    (void)now_ms;
    if (observer->wants_leader && !etcd_has_leader(observer->door)) {
        finish(observer, etcd_error_of(STATUS_NO_LEADER));
    }
    if (observer->owes_look && !observer->is_finished && grpc_call_is_writable(observer->call)) {
        look(observer);
    }
}

static struct observer *observer_create(struct grpc_call *call, struct bytes name) {
    size_t cost = OBSERVER_BYTES + OBSERVER_NAME_COPIES * name.size;
    if (!grpc_call_hold(call, cost)) {
        etcd_error_finish(call, etcd_error_of(STATUS_TOO_MANY_REQUESTS));
        return NULL;
    }
    struct observer *observer = calloc(1, sizeof *observer + name.size);
    if (observer == NULL) {
        grpc_call_release(call, cost);
        etcd_error_finish(call, etcd_error_of(STATUS_NO_MEMORY));
        return NULL;
    }
    observer->call = call;
    observer->door = etcd_door_of(call);
    observer->held = cost;
    observer->name_size = name.size;
    if (name.size > 0) {
        memcpy(observer->name, name.data, name.size);
    }
    observer->watch.deliver = deliver;
    observer->watch.compacted = compacted;
    observer->watch.revoked = revoked;
    observer->read.ready = ready;
    etcd_ticker_init(&observer->ticker, on_tick);
    grpc_call_set_data(call, observer);
    return observer;
}

static void on_message(struct grpc_call *call, struct bytes message) {
    struct etcd_door *door = etcd_door_of(call);
    struct etcd_queue_request request;
    if (etcd_stream_refused(call)) {
        return;
    }
    const struct etcd_error *error = etcd_request_queue(message, &request);
    if (error != NULL) {
        etcd_error_finish(call, error);
        return;
    }
    struct observer *observer = observer_create(call, request.name);
    if (observer == NULL) {
        return;
    }
    observer->wants_leader = etcd_wants_leader(call);
    if (observer->wants_leader) {
        etcd_ticker_start(door, &observer->ticker);
    }
    struct key_range range = etcd_queue_range(&door->arena, request.name);
    enum status status = service_read(door->service, etcd_caller(call), &observer->read, &range, 1);
    arena_reset(&door->arena);
    if (status == STATUS_PENDING) {
        observer->is_reading = true;
    } else {
        begin(observer, status);
    }
}

static void on_writable(struct grpc_call *call) {
    struct observer *observer = grpc_call_data(call);
    if (observer != NULL && observer->is_lagging) {
        observer->is_lagging = false;
        service_watch_resume(observer->door->service, &observer->watch);
    }
}

static void on_close(struct grpc_call *call) {
    struct observer *observer = grpc_call_data(call);
    if (observer == NULL) {
        return;
    }
    service_unwatch(observer->door->service, &observer->watch);
    etcd_ticker_stop(observer->door, &observer->ticker);
    grpc_call_release(call, observer->held);
    observer->call = NULL;
    if (!observer->is_reading) {
        destroy(observer);
    }
}

static const struct grpc_method methods[] = {
    {.path = "/v3electionpb.Election/Observe",
     .is_prompt = true,
     .answers_refused = true,
     .kind = GRPC_SERVER_STREAM,
     .on_message = on_message,
     .on_writable = on_writable,
     .on_close = on_close},
};
const struct etcd_methods etcd_observe_methods = {methods, sizeof methods / sizeof methods[0]};
