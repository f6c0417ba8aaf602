/* The Election service but for its stream (etcd_observe.c): the queue of etcd_queue.h with values.
 */
#include "doors/etcd/etcd_lock_request.h"
#include "doors/etcd/etcd_queue.h"
#include "doors/etcd/etcd_queue_call.h"

static const struct etcd_error not_leader = {GRPC_UNKNOWN, "election: not leader"};
static const struct etcd_error no_leader = {GRPC_UNKNOWN, "election: no leader"};

/* --- Campaign. --- */

static size_t leader_key_size(const struct etcd_place_facts *facts) {
    return pb_bytes_size(1, facts->name) + pb_bytes_size(2, facts->key) +
           pb_int64_size(3, facts->create_revision) + pb_int64_size(4, facts->lease_id);
}

/* The header is that of the moment in which it joined, as in etcd. */
static void answer_campaign(struct grpc_call *call, const struct etcd_place_facts *facts) {
    struct etcd_header header = etcd_header_at(etcd_door_of(call), facts->joined_revision);
    size_t leader_size = leader_key_size(facts);
    size_t size = etcd_header_size(&header) + pb_message_size(2, leader_size);
    struct pb_writer writer;
    if (etcd_answer_begin(call, size, &writer)) {
        etcd_header_write(&writer, &header);
        pb_write_message(&writer, 2, leader_size);
        pb_write_bytes(&writer, 1, facts->name);
        pb_write_bytes(&writer, 2, facts->key);
        pb_write_int64(&writer, 3, facts->create_revision);
        pb_write_int64(&writer, 4, facts->lease_id);
        etcd_answer_finish(call, &writer);
    }
}

static void on_campaign(struct grpc_call *call, struct bytes message) {
    /* etcd tells one whose lease has ended that it leads. */
    static const struct etcd_place_kind kind = {.answer = answer_campaign, .lost = &not_leader};
    struct etcd_queue_request request;
    if (etcd_call_refused(call)) {
        return;
    }
    const struct etcd_error *error = etcd_request_queue(message, &request);
    if (error != NULL) {
        etcd_error_finish(call, error);
    } else {
        etcd_queue_enter(call, &kind, request.name, request.value, request.lease_id);
    }
}

/* --- Proclaim, Resign. --- */

static void reply_proclaim(struct etcd_call *waiting, const struct outcome *outcome) {
    bool is_done = false;
    if (etcd_proclaimed_decode(outcome->rule.answer, &is_done) && is_done) {
        etcd_queue_reply_header(waiting, outcome);
    } else {
        etcd_error_finish(waiting->call, &not_leader);
    }
}

/* False: the call was refused. */
static bool read_leadership(struct grpc_call *call, struct bytes message,
                            struct etcd_leadership_request *out_request) {
    if (etcd_call_refused(call)) {
        return false;
    }
    const struct etcd_error *error = etcd_request_leadership(message, out_request);
    if (error == NULL && out_request->key.size == 0) {
        error = etcd_queue_error_of(STATUS_KEY_EMPTY);
    }
    if (error != NULL) {
        etcd_error_finish(call, error);
    }
    return error == NULL;
}

static void on_proclaim(struct grpc_call *call, struct bytes message) {
    struct etcd_leadership_request request;
    if (!read_leadership(call, message, &request)) {
        return;
    }
    const struct etcd_proclamation proclamation = {.key = request.key,
                                                   .value = request.value,
                                                   .revision = request.revision,
                                                   .lease_id = request.lease_id};
    struct buffer encoded;
    buffer_init(&encoded);
    etcd_proclamation_encode(&encoded, &proclamation);
    etcd_queue_run(call, ETCD_RULE_PROCLAIM, &encoded, reply_proclaim);
}

static void on_resign(struct grpc_call *call, struct bytes message) {
    struct etcd_leadership_request request;
    if (read_leadership(call, message, &request)) {
        etcd_queue_release(
            call, &(struct etcd_release){.key = request.key, .revision = request.revision});
    }
}

/* --- Leader. --- */

static void leader_ready(struct grpc_call *call, struct bytes message) {
    struct etcd_queue_request request;
    if (etcd_request_queue(message, &request) != NULL) {
        return; /* it was readable when it came */
    }
    if (!etcd_queue_may_look(etcd_door_of(call), request.name)) {
        etcd_error_finish(call, etcd_error_of(STATUS_TOO_MANY_REQUESTS));
        return;
    }
    const struct record *record = etcd_queue_first(etcd_door_of(call), request.name);
    if (record == NULL) {
        etcd_error_finish(call, &no_leader);
    } else if (etcd_has_room_for(call, record->key_size + (size_t)record->value_size)) {
        etcd_queue_send_leader(call, etcd_header_now(etcd_door_of(call)), record);
        grpc_call_finish(call, GRPC_OK, NULL);
    }
}

static void on_leader(struct grpc_call *call, struct bytes message) {
    struct etcd_door *door = etcd_door_of(call);
    struct etcd_queue_request request;
    if (etcd_call_refused(call)) {
        return;
    }
    const struct etcd_error *error = etcd_request_queue(message, &request);
    if (error != NULL) {
        etcd_error_finish(call, error);
        return;
    }
    struct key_range range = etcd_queue_range(&door->arena, request.name);
    bool may_read = etcd_call_may_read(call, message, &range, 1, leader_ready);
    arena_reset(&door->arena);
    if (may_read) {
        leader_ready(call, message);
    }
}

static const struct grpc_method methods[] = {
    {.path = "/v3electionpb.Election/Campaign",
     .answers_refused = true,
     .waits = true,
     .kind = GRPC_UNARY,
     .on_message = on_campaign,
     .on_close = etcd_queue_closed},
    {.path = "/v3electionpb.Election/Proclaim",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_proclaim,
     .on_close = etcd_call_closed},
    {.path = "/v3electionpb.Election/Leader",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_leader,
     .on_close = etcd_call_closed},
    {.path = "/v3electionpb.Election/Resign",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_resign,
     .on_close = etcd_call_closed},
};
const struct etcd_methods etcd_election_methods = {methods, sizeof methods / sizeof methods[0]};
