/* The stream of renewals. One stream carries the renewals of all leases of a client; answers keep
 * the order of the requests. A renewal that can be answered at once, as nearly all can, costs no
 * object and no wait. */
#include "doors/etcd/etcd_call.h"
#include "doors/etcd/etcd_lease.h"
#include "doors/etcd/etcd_renewal_turns.h"
#include "doors/etcd/etcd_request.h"

#include <stdlib.h>

enum {
    /* More than that hardly fit into the processor's caches, beside all else. */
    LEASES_CACHED_MAX = 128 * 1024,
    WAITING_CAPACITY_MIN = 64
};

/* Leases whose renewals wait for a turn, oldest first. */
struct waiting_ids {
    int64_t *ids;
    size_t n;
    size_t taken;
    size_t capacity;
};

struct keepalive_stream {
    struct grpc_call *call;
    struct etcd_door *door;
    struct list renewals; /* in the order of the requests, all behind one that waits */
    size_t n_renewals;
    struct waiting_ids waiting; /* behind all of these */
    struct etcd_renewal_turn turn;
    struct etcd_ticker ticker;
    bool half_closed;
    bool finished;
};

/* Waits for the service, or for those before it. Belongs to the service while it is not done. */
struct renewal {
    struct service_renewal service;  /* must be first: a spare one is kept as such */
    struct keepalive_stream *stream; /* NULL: the client went away */
    struct etcd_door *door;
    struct list link;
    bool is_done;
    enum status status;
    int64_t ttl_ms;
};

static size_t n_waiting(const struct keepalive_stream *stream) {
    return stream->waiting.n - stream->waiting.taken;
}

static void forget_waiting(struct keepalive_stream *stream) {
    etcd_renewal_turn_leave(&stream->turn);
    grpc_call_release(stream->call, stream->waiting.capacity * sizeof(int64_t));
    free(stream->waiting.ids);
    stream->waiting = (struct waiting_ids){0};
}

static void stream_finish(struct keepalive_stream *stream, const struct etcd_error *error) {
    stream->finished = true;
    forget_waiting(stream);
    if (error != NULL) {
        etcd_error_finish(stream->call, error);
    } else {
        grpc_call_finish(stream->call, GRPC_OK, NULL);
    }
}

static void answer(struct keepalive_stream *stream, int64_t id, enum status status,
                   int64_t ttl_ms) {
    if (stream->finished) {
        return;
    }
    if (status != STATUS_OK && status != STATUS_LEASE_NOT_FOUND) {
        stream_finish(stream, etcd_error_of(status));
        return;
    }
    int64_t ttl = status == STATUS_OK ? etcd_ttl_seconds(ttl_ms) : 0;
    struct etcd_header header = etcd_header_now(stream->door);
    size_t size = etcd_header_size(&header) + pb_int64_size(2, id) + pb_int64_size(3, ttl);
    struct pb_writer writer;
    if (etcd_answer_begin(stream->call, size, &writer)) {
        etcd_header_write(&writer, &header);
        pb_write_int64(&writer, 2, id);
        pb_write_int64(&writer, 3, ttl);
        etcd_answer_end(stream->call, &writer);
    }
}

/* Answers those at the head that are done. */
static void flush(struct keepalive_stream *stream) {
    while (!list_is_empty(&stream->renewals)) {
        struct renewal *renewal = list_entry(stream->renewals.next, struct renewal, link);
        if (!renewal->is_done) {
            return;
        }
        list_remove(&renewal->link);
        stream->n_renewals--;
        answer(stream, renewal->service.id, renewal->status, renewal->ttl_ms);
        free(renewal);
    }
    if (stream->half_closed && !stream->finished && n_waiting(stream) == 0) {
        stream_finish(stream, NULL);
    }
}

static void on_renewed(struct service_renewal *service_renewal, enum status status,
                       int64_t ttl_ms) {
    struct renewal *renewal = list_entry(service_renewal, struct renewal, service);
    etcd_renewal_turns_answered(renewal->door->renewal_turns);
    if (renewal->stream == NULL) {
        free(renewal);
        return;
    }
    renewal->is_done = true;
    renewal->status = status;
    renewal->ttl_ms = ttl_ms;
    flush(renewal->stream);
}

static struct renewal *take_renewal(struct keepalive_stream *stream, int64_t id) {
    struct etcd_door *door = stream->door;
    struct renewal *renewal = NULL;
    if (door->spare_renewal != NULL) {
        renewal = list_entry(door->spare_renewal, struct renewal, service);
        door->spare_renewal = NULL;
    } else {
        renewal = malloc(sizeof *renewal);
    }
    if (renewal != NULL) {
        *renewal = (struct renewal){.stream = stream, .door = door};
        renewal->service.id = id;
        renewal->service.owner = KEY_SPACE_ETCD;
        renewal->service.done = on_renewed;
        list_init(&renewal->link);
    }
    return renewal;
}

static void ask(struct keepalive_stream *stream, int64_t id) {
    struct renewal *renewal = take_renewal(stream, id);
    if (renewal == NULL) {
        stream_finish(stream, etcd_error_of(STATUS_NO_MEMORY));
        return;
    }
    int64_t ttl_ms = 0;
    enum status status =
        service_renew(stream->door->service, etcd_caller(stream->call), &renewal->service, &ttl_ms);
    if (status != STATUS_PENDING && list_is_empty(&stream->renewals)) {
        stream->door->spare_renewal = &renewal->service;
        answer(stream, id, status, ttl_ms);
        return;
    }
    renewal->is_done = status != STATUS_PENDING;
    renewal->status = status;
    renewal->ttl_ms = ttl_ms;
    list_append(&stream->renewals, &renewal->link);
    stream->n_renewals++;
    if (status == STATUS_PENDING) {
        etcd_renewal_turns_asked(stream->door->renewal_turns);
    }
}

/* The turn of this stream: one renewal. */
static bool take_turn(struct etcd_renewal_turn *turn) {
    struct keepalive_stream *stream = list_entry(turn, struct keepalive_stream, turn);
    int64_t id = stream->waiting.ids[stream->waiting.taken++];
    bool has_more = n_waiting(stream) > 0;
    if (!has_more) {
        forget_waiting(stream);
    }
    ask(stream, id);
    if (!has_more) {
        flush(stream); /* it may have been the last of all */
    }
    return has_more && !stream->finished;
}

/* Makes room for one more. STATUS_TOO_MANY_REQUESTS, _NO_MEMORY. */
static enum status grow_waiting(struct keepalive_stream *stream) {
    struct waiting_ids *waiting = &stream->waiting;
    size_t capacity = waiting->capacity > 0 ? 2 * waiting->capacity : WAITING_CAPACITY_MIN;
    size_t added = (capacity - waiting->capacity) * sizeof *waiting->ids;
    if (!grpc_call_hold(stream->call, added)) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    int64_t *ids = realloc(waiting->ids, capacity * sizeof *ids);
    if (ids == NULL) {
        grpc_call_release(stream->call, added);
        return STATUS_NO_MEMORY;
    }
    waiting->ids = ids;
    waiting->capacity = capacity;
    return STATUS_OK;
}

static void await_turn(struct keepalive_stream *stream, int64_t id) {
    struct waiting_ids *waiting = &stream->waiting;
    if (waiting->n == waiting->capacity && waiting->taken >= waiting->n / 2 && waiting->n > 0) {
        memmove(waiting->ids, waiting->ids + waiting->taken, n_waiting(stream) * sizeof(int64_t));
        waiting->n -= waiting->taken;
        waiting->taken = 0;
    }
    enum status status = waiting->n < waiting->capacity ? STATUS_OK : grow_waiting(stream);
    if (status != STATUS_OK) {
        stream_finish(stream, etcd_error_of(status));
        return;
    }
    if (n_waiting(stream) == 0) {
        etcd_renewal_turn_await(stream->door->renewal_turns, &stream->turn);
    }
    waiting->ids[waiting->n++] = id;
}

/* A stream that has nothing under way waits for nobody: most have one renewal now and then. */
static bool needs_turn(const struct keepalive_stream *stream) {
    const struct etcd_door *door = stream->door;
    return n_waiting(stream) > 0 ||
           (stream->n_renewals > 0 && (stream->n_renewals >= door->options.renewals_asked_max ||
                                       !etcd_renewal_turns_has_room(door->renewal_turns)));
}

static void renew(struct keepalive_stream *stream, int64_t id) {
    if (stream->n_renewals + n_waiting(stream) >= stream->door->options.renewals_per_stream_max) {
        stream_finish(stream, etcd_error_of(STATUS_TOO_MANY_REQUESTS));
    } else if (needs_turn(stream)) {
        await_turn(stream, id);
    } else {
        ask(stream, id);
    }
}

static void on_tick(struct etcd_ticker *ticker, uint64_t now_ms) {
    (void)now_ms;
    struct keepalive_stream *stream = list_entry(ticker, struct keepalive_stream, ticker);
    if (!stream->finished && !etcd_has_leader(stream->door)) {
        stream_finish(stream, etcd_error_of(STATUS_NO_LEADER));
    }
}

static void on_open(struct grpc_call *call) {
    struct etcd_door *door = etcd_door_of(call);
    struct keepalive_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        etcd_error_finish(call, etcd_error_of(STATUS_NO_MEMORY));
        return;
    }
    stream->call = call;
    stream->door = door;
    list_init(&stream->renewals);
    etcd_ticker_init(&stream->ticker, on_tick);
    etcd_renewal_turn_init(&stream->turn, take_turn);
    grpc_call_set_data(call, stream);
    door->stats.keepalive_streams++;
    etcd_count_client(call, ETCD_CLIENT_STREAM);
    if (etcd_wants_leader(call)) {
        etcd_ticker_start(door, &stream->ticker);
        on_tick(&stream->ticker, 0);
    }
}

static void on_message(struct grpc_call *call, struct bytes message) {
    struct keepalive_stream *stream = grpc_call_data(call);
    if (stream == NULL || stream->finished) {
        return;
    }
    uint64_t id;
    if (etcd_request_number(message, &id) != NULL) {
        stream_finish(stream, &etcd_error_malformed_stream);
        return;
    }
    renew(stream, (int64_t)id);
}

/* Where there are many leases, memory is asked for them before they are renewed. */
static bool prefetch(struct grpc_call *call, struct bytes message, bool is_near) {
    const struct lease_table *leases = state_view_leases(service_view(etcd_door_of(call)->service));
    uint64_t id;
    if (lease_table_count(leases) < LEASES_CACHED_MAX ||
        etcd_request_number(message, &id) != NULL) {
        return false;
    }
    lease_table_prefetch(leases, (int64_t)id, is_near);
    return true;
}

static void on_half_close(struct grpc_call *call) {
    struct keepalive_stream *stream = grpc_call_data(call);
    if (stream != NULL) {
        stream->half_closed = true;
        flush(stream);
    }
}

static void on_close(struct grpc_call *call) {
    struct keepalive_stream *stream = grpc_call_data(call);
    if (stream == NULL) {
        return;
    }
    forget_waiting(stream);
    struct list *link;
    while ((link = list_pop_first(&stream->renewals)) != NULL) {
        struct renewal *renewal = list_entry(link, struct renewal, link);
        if (renewal->is_done) {
            free(renewal);
        } else {
            renewal->stream = NULL;
        }
    }
    stream->door->stats.keepalive_streams--;
    etcd_ticker_stop(stream->door, &stream->ticker);
    free(stream);
}

static const struct grpc_method methods[] = {
    {.path = "/etcdserverpb.Lease/LeaseKeepAlive",
     .is_prompt = true,
     .answers_refused = true,
     .kind = GRPC_BIDIRECTIONAL,
     .on_open = on_open,
     .on_message = on_message,
     .prefetch = prefetch,
     .on_half_close = on_half_close,
     .on_close = on_close},
};
const struct etcd_methods etcd_keepalive_methods = {methods, sizeof methods / sizeof methods[0]};
