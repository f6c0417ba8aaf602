#include "doors/etcd/etcd_call.h"

#include "doors/etcd/etcd_long_read.h"

#include <assert.h>
#include <stdlib.h>

/* Objects kept for the next calls instead of being given back to the heap. */
enum {
    FREE_CALLS_MAX = 256,
    KEPT_UNCOUNTED_MAX = 16 * 1024 /* of a message: larger ones count as held by the connection */
};

const struct key_store *etcd_keys(const struct etcd_door *door) {
    return state_view_keys(service_view(door->service));
}

const struct caller *etcd_caller(const struct grpc_call *call) {
    return grpc_call_caller(call);
}

/* --- Header. --- */

__attribute__((noinline)) static void ask_identity(struct etcd_door *door) {
    uint64_t now_ms = service_now_ms(door->service);
    door->identity_iteration = service_iteration(door->service);
    if (now_ms == door->identity_ms && door->identity.ids_size > 0) {
        return;
    }
    struct service_info info;
    service_info(door->service, &info);
    etcd_identity_init(&door->identity, info.cluster_id, info.member_id, info.term);
    door->leader_id = info.leader_id;
    door->identity_ms = now_ms;
}

/* Asked for once a millisecond at most, and the time once an iteration: every answer needs it, and
 * it hardly ever changes. */
static inline void refresh_identity(struct etcd_door *door) {
    if (service_iteration(door->service) != door->identity_iteration ||
        door->identity.ids_size == 0) {
        ask_identity(door);
    }
}

struct etcd_header etcd_header_at(struct etcd_door *door, int64_t revision) {
    refresh_identity(door);
    etcd_identity_set_revision(&door->identity, revision);
    return (struct etcd_header){.identity = &door->identity, .revision = revision};
}

struct etcd_header etcd_header_now(struct etcd_door *door) {
    return etcd_header_at(door, key_store_revision(etcd_keys(door)));
}

bool etcd_has_leader(struct etcd_door *door) {
    refresh_identity(door);
    return door->leader_id != 0;
}

bool etcd_wants_leader(struct grpc_call *call) {
    struct bytes value;
    return grpc_call_metadata(call, "hasleader", &value) &&
           bytes_equal(value, bytes_from_text("true"));
}

void etcd_count_client(struct grpc_call *call, enum etcd_client_kind kind) {
    struct bytes version = bytes_of(NULL, 0);
    (void)grpc_call_metadata(call, "client-api-version", &version);
    etcd_clients_count(&etcd_door_of(call)->clients, version, kind);
}

static bool is_refused_without_leader(struct grpc_call *call) {
    if (!etcd_has_leader(etcd_door_of(call)) && etcd_wants_leader(call)) {
        etcd_error_finish(call, etcd_error_of(STATUS_NO_LEADER));
        return true;
    }
    return false;
}

bool etcd_call_refused(struct grpc_call *call) {
    etcd_count_client(call, ETCD_CLIENT_UNARY);
    return is_refused_without_leader(call);
}

bool etcd_stream_refused(struct grpc_call *call) {
    etcd_count_client(call, ETCD_CLIENT_STREAM);
    return is_refused_without_leader(call);
}

/* --- Answers. --- */

bool etcd_answer_begin(struct grpc_call *call, size_t size, struct pb_writer *writer) {
    if (size > ETCD_ANSWER_SIZE_MAX) {
        etcd_error_finish(call, &etcd_error_answer_too_large);
        return false;
    }
    pb_writer_init(writer, grpc_call_reserve(call, size), size);
    return true;
}

bool etcd_has_room_for(struct grpc_call *call, size_t size) {
    if (size <= ETCD_SHORT_READ_BYTES_MAX || grpc_call_has_room(call)) {
        return true;
    }
    etcd_error_finish(call, etcd_error_of(STATUS_TOO_MANY_REQUESTS));
    return false;
}

void etcd_answer_end(struct grpc_call *call, struct pb_writer *writer) {
    /* What was measured has been written: the writer never passes its end. */
    assert(writer->at == writer->end);
    grpc_call_commit(call, writer->size);
}

void etcd_answer_finish(struct grpc_call *call, struct pb_writer *writer) {
    etcd_answer_end(call, writer);
    grpc_call_finish(call, GRPC_OK, NULL);
}

void etcd_answer_header(struct grpc_call *call, struct etcd_header header) {
    struct pb_writer writer;
    if (etcd_answer_begin(call, etcd_header_size(&header), &writer)) {
        etcd_header_write(&writer, &header);
        etcd_answer_finish(call, &writer);
    }
}

void etcd_answer_empty(struct grpc_call *call) {
    grpc_call_reply(call, bytes_of("", 0));
}

/* --- Unary calls. --- */

struct etcd_call *etcd_call_create(struct grpc_call *call) {
    struct etcd_door *door = etcd_door_of(call);
    struct etcd_call *waiting;
    struct list *link = list_pop_first(&door->free_calls);
    if (link != NULL) {
        waiting = list_entry(link, struct etcd_call, free_link);
        door->n_free_calls--;
    } else {
        waiting = malloc(sizeof *waiting);
        if (waiting == NULL) {
            etcd_error_finish(call, etcd_error_of(STATUS_NO_MEMORY));
            return NULL;
        }
    }
    *waiting = (struct etcd_call){.call = call, .door = door};
    arena_init(&waiting->shape_arena);
    grpc_call_set_data(call, waiting);
    door->stats.requests++;
    return waiting;
}

void etcd_call_destroy(struct etcd_call *waiting) {
    struct etcd_door *door = waiting->door;
    if (waiting->call != NULL) {
        grpc_call_set_data(waiting->call, NULL);
    }
    arena_clear(&waiting->shape_arena);
    free(waiting->message);
    door->stats.requests--;
    if (door->n_free_calls == FREE_CALLS_MAX) {
        free(waiting);
        return;
    }
    list_append(&door->free_calls, &waiting->free_link);
    door->n_free_calls++;
}

void etcd_call_closed(struct grpc_call *call) {
    struct etcd_call *waiting = grpc_call_data(call);
    if (waiting == NULL) {
        return;
    }
    waiting->call = NULL;
    free(waiting->message);
    waiting->message = NULL;
    if (waiting->long_read != NULL) {
        etcd_long_read_closed(waiting->long_read);
    } else if (waiting->cancel != NULL) {
        waiting->cancel(waiting);
        etcd_call_destroy(waiting);
    }
}

void etcd_call_writable(struct grpc_call *call) {
    struct etcd_call *waiting = grpc_call_data(call);
    if (waiting != NULL && waiting->long_read != NULL) {
        etcd_long_read_writable(waiting->long_read);
    }
}

static void command_done(struct service_request *request, const struct outcome *outcome) {
    struct etcd_call *waiting = list_entry(request, struct etcd_call, request);
    if (waiting->call != NULL) {
        const struct etcd_error *error = waiting->error_of == NULL
                                             ? etcd_error_of_command(outcome->status)
                                             : waiting->error_of(outcome->status);
        if (error != NULL) {
            etcd_error_finish(waiting->call, error);
        } else {
            waiting->reply(waiting, outcome);
        }
    }
    etcd_call_destroy(waiting);
}

struct etcd_call *etcd_call_submit(struct grpc_call *call, const struct command *command,
                                   void (*reply)(struct etcd_call *waiting,
                                                 const struct outcome *outcome)) {
    struct etcd_call *waiting = etcd_call_create(call);
    if (waiting == NULL) {
        return NULL;
    }
    waiting->reply = reply;
    waiting->request.done = command_done;
    service_submit(waiting->door->service, etcd_caller(call), &waiting->request, command);
    return waiting;
}

static void read_ready(struct service_read *read, enum status status) {
    struct etcd_call *waiting = list_entry(read, struct etcd_call, read);
    struct grpc_call *call = waiting->call;
    if (call != NULL) {
        /* What goes on from here may have an object of its own. */
        waiting->call = NULL;
        grpc_call_set_data(call, NULL);
        const struct etcd_error *error = etcd_error_of(status);
        if (error != NULL) {
            etcd_error_finish(call, error);
        } else {
            waiting->resume(call, bytes_of(waiting->message, waiting->message_size));
        }
    }
    etcd_call_destroy(waiting);
}

/* Keeps what was asked until the answer comes. */
bool etcd_call_keep(struct etcd_call *waiting, struct bytes message) {
    if (message.size > KEPT_UNCOUNTED_MAX && !grpc_call_hold(waiting->call, message.size)) {
        return false;
    }
    waiting->message = malloc(message.size > 0 ? message.size : 1);
    if (waiting->message == NULL) {
        return false;
    }
    if (message.size > 0) {
        memcpy(waiting->message, message.data, message.size);
    }
    waiting->message_size = message.size;
    return true;
}

/* The service keeps the object; its client is gone. */
static void give_up(struct etcd_call *waiting) {
    etcd_error_finish(waiting->call, etcd_error_of(STATUS_TOO_MANY_REQUESTS));
    grpc_call_set_data(waiting->call, NULL);
    waiting->call = NULL;
}

static bool may_read(struct grpc_call *call, const struct caller *caller, struct bytes message,
                     const struct key_range *ranges, size_t n_ranges,
                     void (*resume)(struct grpc_call *call, struct bytes message)) {
    struct etcd_door *door = etcd_door_of(call);
    enum status status = service_read_now(door->service, caller, ranges, n_ranges);
    if (status == STATUS_OK) {
        return true;
    }
    if (status != STATUS_PENDING) {
        etcd_error_finish(call, etcd_error_of(status));
        return false;
    }
    struct etcd_call *waiting = etcd_call_create(call);
    if (waiting == NULL) {
        return false;
    }
    waiting->read.ready = read_ready;
    status = service_read(door->service, caller, &waiting->read, ranges, n_ranges);
    if (status == STATUS_PENDING) {
        waiting->resume = resume;
        if (!etcd_call_keep(waiting, message)) {
            give_up(waiting);
        }
        return false;
    }
    etcd_call_destroy(waiting);
    const struct etcd_error *error = etcd_error_of(status);
    if (error != NULL) {
        etcd_error_finish(call, error);
        return false;
    }
    return true;
}

bool etcd_call_may_read(struct grpc_call *call, struct bytes message,
                        const struct key_range *ranges, size_t n_ranges,
                        void (*resume)(struct grpc_call *call, struct bytes message)) {
    return may_read(call, etcd_caller(call), message, ranges, n_ranges, resume);
}

bool etcd_call_may_read_local(struct grpc_call *call, const struct key_range *ranges,
                              size_t n_ranges) {
    const struct etcd_error *error = etcd_error_of(
        service_read_local(etcd_door_of(call)->service, etcd_caller(call), ranges, n_ranges));
    if (error != NULL) {
        etcd_error_finish(call, error);
    }
    return error == NULL;
}

void etcd_call_read(struct grpc_call *call, struct bytes message, const struct key_range *ranges,
                    size_t n_ranges, void (*resume)(struct grpc_call *call, struct bytes message)) {
    if (etcd_call_may_read(call, message, ranges, n_ranges, resume)) {
        resume(call, message);
    }
}

void etcd_call_read_as(struct grpc_call *call, const struct caller *caller, struct bytes message,
                       void (*resume)(struct grpc_call *call, struct bytes message)) {
    if (may_read(call, caller, message, NULL, 0, resume)) {
        resume(call, message);
    }
}

static bool is_allowed(struct grpc_call *call, enum status status) {
    if (status != STATUS_OK) {
        etcd_error_finish(call, etcd_error_of(status));
    }
    return status == STATUS_OK;
}

bool etcd_call_is_root(struct grpc_call *call, const char *what) {
    return is_allowed(call,
                      service_check_admin(etcd_door_of(call)->service, etcd_caller(call), what));
}

bool etcd_call_is_user(struct grpc_call *call, const char *what) {
    return is_allowed(call,
                      service_check_user(etcd_door_of(call)->service, etcd_caller(call), what));
}

static void tell_time_left(struct grpc_call *call, struct bytes message, enum status status,
                           int64_t remaining_ms,
                           void (*answered)(struct grpc_call *call, struct bytes message,
                                            enum status status, int64_t remaining_ms)) {
    if (status == STATUS_OK || status == STATUS_LEASE_NOT_FOUND) {
        answered(call, message, status, remaining_ms);
    } else {
        etcd_error_finish(call, etcd_error_of(status));
    }
}

static void time_left_known(struct service_renewal *question, enum status status,
                            int64_t remaining_ms) {
    struct etcd_call *waiting = list_entry(question, struct etcd_call, question);
    if (waiting->call != NULL) {
        tell_time_left(waiting->call, bytes_of(waiting->message, waiting->message_size), status,
                       remaining_ms, waiting->answered);
    }
    etcd_call_destroy(waiting);
}

void etcd_call_ask_time_left(struct grpc_call *call, struct bytes message, int64_t lease_id,
                             bool shows_keys,
                             void (*answered)(struct grpc_call *call, struct bytes message,
                                              enum status status, int64_t remaining_ms)) {
    struct etcd_call *waiting = etcd_call_create(call);
    if (waiting == NULL) {
        return;
    }
    waiting->question.id = lease_id;
    waiting->question.owner = KEY_SPACE_ETCD;
    waiting->question.shows_keys = shows_keys;
    waiting->question.done = time_left_known;
    int64_t remaining_ms = 0;
    enum status status = service_time_left(waiting->door->service, etcd_caller(call),
                                           &waiting->question, &remaining_ms);
    if (status == STATUS_PENDING) {
        waiting->answered = answered;
        if (!etcd_call_keep(waiting, message)) {
            give_up(waiting);
        }
        return;
    }
    etcd_call_destroy(waiting);
    tell_time_left(call, message, status, remaining_ms, answered);
}

static void answer_moved(struct grpc_call *call, enum status status) {
    switch (status) {
    case STATUS_OK:
        etcd_answer_empty(call);
        return;
    case STATUS_INVALID:
        etcd_error_finish(call, &etcd_error_bad_transferee);
        return;
    case STATUS_NO_LEADER:
        etcd_error_finish(call, &etcd_error_not_leader);
        return;
    default:
        etcd_error_finish(call, etcd_error_of(status));
    }
}

static void leader_moved(struct service_transfer *transfer, enum status status) {
    struct etcd_call *waiting = list_entry(transfer, struct etcd_call, transfer);
    if (waiting->call != NULL) {
        answer_moved(waiting->call, status);
    }
    etcd_call_destroy(waiting);
}

void etcd_call_move_leader(struct grpc_call *call, uint64_t member_id) {
    struct etcd_call *waiting = etcd_call_create(call);
    if (waiting == NULL) {
        return;
    }
    waiting->transfer.done = leader_moved;
    enum status status = service_move_leader(waiting->door->service, etcd_caller(call),
                                             &waiting->transfer, member_id);
    if (status != STATUS_PENDING) {
        etcd_call_destroy(waiting);
        answer_moved(call, status);
    }
}
