/* The Maintenance service but for the snapshot (etcd_snapshot.c). */
#include "base/pb_reader.h"
#include "core/snapshot.h"
#include "doors/etcd/etcd_call.h"
#include "doors/etcd/etcd_hash.h"
#include "doors/etcd/etcd_long_read.h"
#include "doors/etcd/etcd_request.h"

#include <stdio.h>

/* --- Status. --- */

enum { STATUS_ERROR_SIZE_MAX = 128, STATUS_TIMERS_MAX = MEMBERS_MAX };

/* What is wrong, in etcd's own words where it has some. */
struct status_errors {
    size_t n;
    char texts[STATE_MACHINE_ALARMS_MAX + 1 + STATUS_TIMERS_MAX][STATUS_ERROR_SIZE_MAX];
};

static const char *alarm_name(enum alarm_type alarm) {
    switch (alarm) {
    case ALARM_NONE:
        return "NONE";
    case ALARM_NO_SPACE:
        return "NOSPACE";
    case ALARM_CORRUPT:
        return "CORRUPT";
    }
    return "UNKNOWN";
}

static void collect_errors(struct etcd_door *door, const struct service_info *info,
                           struct status_errors *errors) {
    struct alarm_entry alarms[STATE_MACHINE_ALARMS_MAX];
    size_t n_alarms = state_view_alarms(service_view(door->service), alarms);
    errors->n = 0;
    if (info->leader_id == 0) {
        snprintf(errors->texts[errors->n++], STATUS_ERROR_SIZE_MAX, "etcdserver: no leader");
    }
    for (size_t i = 0; i < n_alarms; i++) {
        /* The space at the end is etcd's. */
        snprintf(errors->texts[errors->n++], STATUS_ERROR_SIZE_MAX, "memberID:%llu alarm:%s ",
                 (unsigned long long)alarms[i].member_id, alarm_name(alarms[i].alarm));
    }
    struct service_timers timers[STATUS_TIMERS_MAX];
    size_t n_timers = service_differing_timers(door->service, timers, STATUS_TIMERS_MAX);
    for (size_t i = 0; i < n_timers; i++) {
        snprintf(errors->texts[errors->n++], STATUS_ERROR_SIZE_MAX,
                 "leased: member %llx runs with --heartbeat-interval=%u --election-timeout=%u",
                 (unsigned long long)timers[i].member_id, timers[i].heartbeat_ms,
                 timers[i].election_ms);
    }
}

/* What etcd reports of its database file, and of its pages that are in use. Here it is the memory
 * of keys, their history and leases; none of it is fragmented. */
static uint64_t size_of_state(struct etcd_door *door) {
    const struct state_view *state = service_view(door->service);
    struct key_store_stats keys;
    key_store_stats(state_view_keys(state), &keys);
    uint64_t leases = lease_table_bytes(state_view_leases(state));
    return keys.bytes + leases;
}

static void on_status(struct grpc_call *call, struct bytes message) {
    (void)message; /* has no fields */
    if (etcd_call_refused(call) || !etcd_call_is_user(call, "status")) {
        return;
    }
    struct etcd_door *door = etcd_door_of(call);
    struct etcd_header header = etcd_header_now(door);
    struct service_info info;
    service_info(door->service, &info);
    uint64_t db_size = size_of_state(door);
    struct status_errors errors;
    collect_errors(door, &info, &errors);
    struct bytes version = bytes_from_text(ETCD_VERSION);
    /* etcd's word for what all members of a cluster can read; our numbers are our own. */
    char storage[16];
    snprintf(storage, sizeof storage, "%u", info.cluster_version);
    struct bytes storage_version = bytes_from_text(storage);

    size_t size = etcd_header_size(&header) + pb_bytes_size(2, version) +
                  pb_uint64_size(3, db_size) + pb_uint64_size(4, info.leader_id) +
                  pb_uint64_size(5, info.last_index) + pb_uint64_size(6, info.term) +
                  pb_uint64_size(7, info.applied_index) + pb_uint64_size(9, db_size) +
                  pb_bool_size(10, info.is_learner) + pb_bytes_size(11, storage_version);
    for (size_t i = 0; i < errors.n; i++) {
        size += pb_bytes_size(8, bytes_from_text(errors.texts[i]));
    }
    struct pb_writer writer;
    if (!etcd_answer_begin(call, size, &writer)) {
        return;
    }
    etcd_header_write(&writer, &header);
    pb_write_bytes(&writer, 2, version);
    pb_write_uint64(&writer, 3, db_size);
    pb_write_uint64(&writer, 4, info.leader_id);
    pb_write_uint64(&writer, 5, info.last_index);
    pb_write_uint64(&writer, 6, info.term);
    pb_write_uint64(&writer, 7, info.applied_index);
    for (size_t i = 0; i < errors.n; i++) {
        pb_write_bytes(&writer, 8, bytes_from_text(errors.texts[i]));
    }
    pb_write_uint64(&writer, 9, db_size);
    pb_write_bool(&writer, 10, info.is_learner);
    pb_write_bytes(&writer, 11, storage_version);
    etcd_answer_finish(call, &writer);
}

/* --- Alarm. --- */

static size_t alarm_size(const struct alarm_entry *alarm) {
    return pb_uint64_size(1, alarm->member_id) + pb_uint64_size(2, (uint64_t)alarm->alarm);
}

static void answer_alarms(struct grpc_call *call, const struct alarm_entry *alarms, size_t n) {
    struct etcd_header header = etcd_header_now(etcd_door_of(call));
    size_t size = etcd_header_size(&header);
    for (size_t i = 0; i < n; i++) {
        size += pb_message_size(2, alarm_size(&alarms[i]));
    }
    struct pb_writer writer;
    if (!etcd_answer_begin(call, size, &writer)) {
        return;
    }
    etcd_header_write(&writer, &header);
    for (size_t i = 0; i < n; i++) {
        pb_write_message(&writer, 2, alarm_size(&alarms[i]));
        pb_write_uint64(&writer, 1, alarms[i].member_id);
        pb_write_uint64(&writer, 2, (uint64_t)alarms[i].alarm);
    }
    etcd_answer_finish(call, &writer);
}

static void reply_alarm(struct etcd_call *waiting, const struct outcome *outcome) {
    (void)outcome;
    answer_alarms(waiting->call, &waiting->alarm, waiting->alarm_changes ? 1 : 0);
}

/* ALARM_NONE stands for every type. */
static size_t matching_alarms(struct etcd_door *door, enum alarm_type alarm,
                              struct alarm_entry out_alarms[STATE_MACHINE_ALARMS_MAX]) {
    size_t n = state_view_alarms(service_view(door->service), out_alarms);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (alarm == ALARM_NONE || out_alarms[i].alarm == alarm) {
            out_alarms[kept++] = out_alarms[i];
        }
    }
    return kept;
}

static bool alarm_stands(struct etcd_door *door, const struct etcd_alarm_request *request) {
    struct alarm_entry alarms[STATE_MACHINE_ALARMS_MAX];
    size_t n = state_view_alarms(service_view(door->service), alarms);
    for (size_t i = 0; i < n; i++) {
        if (alarms[i].member_id == request->member_id && alarms[i].alarm == request->alarm) {
            return true;
        }
    }
    return false;
}

static void on_alarm(struct grpc_call *call, struct bytes message) {
    if (etcd_call_refused(call) || !etcd_call_is_user(call, "alarms")) {
        return;
    }
    struct etcd_door *door = etcd_door_of(call);
    struct etcd_alarm_request request;
    const struct etcd_error *error = etcd_request_alarm(message, &request);
    if (error != NULL) {
        etcd_error_finish(call, error);
        return;
    }
    if (request.action == ETCD_ALARM_GET) {
        struct alarm_entry alarms[STATE_MACHINE_ALARMS_MAX];
        size_t n = matching_alarms(door, request.alarm, alarms);
        answer_alarms(call, alarms, n);
        return;
    }
    bool activate = request.action == ETCD_ALARM_ACTIVATE;
    if (activate && request.alarm == ALARM_NONE) {
        answer_alarms(call, NULL, 0);
        return;
    }
    struct command command = {
        .type = COMMAND_ALARM,
        .alarm = {.activate = activate, .member_id = request.member_id, .alarm = request.alarm}};
    bool changes = activate || alarm_stands(door, &request);
    struct etcd_call *waiting = etcd_call_submit(call, &command, reply_alarm);
    if (waiting != NULL) {
        waiting->alarm = (struct alarm_entry){request.member_id, request.alarm};
        waiting->alarm_changes = changes;
    }
}

/* --- Hash, HashKV. --- */

/* It looks at everything, so a worker does it. */
struct hash_read {
    struct etcd_long_read read; /* must be first */
    int64_t revision;           /* asked for; 0: the newest */
    bool tells_revisions;
    uint32_t hash;
    int64_t compact_revision;
    int64_t hash_revision;
};

static enum status hash_measure(struct etcd_long_read *read, size_t *out_size) {
    struct hash_read *hash = list_entry(read, struct hash_read, read);
    const struct key_view *keys = snapshot_view_keys(read->scan.view);
    int64_t compacted = key_view_compacted_revision(keys);
    enum status status = etcd_hash(keys, hash->revision, &hash->hash);
    if (status != STATUS_OK) {
        return status;
    }
    if (hash->tells_revisions) {
        hash->compact_revision = compacted > 0 ? compacted : -1; /* etcd's "never" */
        hash->hash_revision = hash->revision != 0 ? hash->revision : key_view_revision(keys);
    }
    *out_size = etcd_header_size(&read->header) + pb_uint64_size(2, hash->hash) +
                pb_int64_size(3, hash->compact_revision) + pb_int64_size(4, hash->hash_revision);
    return STATUS_OK;
}

static void hash_write(struct etcd_long_read *read) {
    const struct hash_read *hash = list_entry(read, struct hash_read, read);
    struct pb_writer writer;
    etcd_long_read_reserve(read, read->size, &writer);
    etcd_header_write(&writer, &read->header);
    pb_write_uint64(&writer, 2, hash->hash);
    pb_write_int64(&writer, 3, hash->compact_revision);
    pb_write_int64(&writer, 4, hash->hash_revision);
    etcd_long_read_commit(read, &writer);
}

static const struct etcd_long_read_kind hash_kind = {
    .size = sizeof(struct hash_read), .measure = hash_measure, .write = hash_write};

static void start_hash(struct grpc_call *call, int64_t revision, bool tells_revisions) {
    struct etcd_long_read *read = etcd_long_read_create(call, &hash_kind);
    if (read != NULL) {
        struct hash_read *hash = list_entry(read, struct hash_read, read);
        hash->revision = revision;
        hash->tells_revisions = tells_revisions;
        const struct key_range everything = {KEY_SPACE_ETCD, bytes_of("", 0), bytes_of("", 1)};
        etcd_long_read_start(read, &everything, 1);
    }
}

static void on_hash(struct grpc_call *call, struct bytes message) {
    (void)message; /* has no fields */
    if (!etcd_call_refused(call) && etcd_call_is_root(call, "hash of all keys")) {
        start_hash(call, 0, false);
    }
}

static void on_hash_kv(struct grpc_call *call, struct bytes message) {
    if (etcd_call_refused(call) || !etcd_call_is_root(call, "hash of all keys")) {
        return;
    }
    uint64_t revision;
    const struct etcd_error *error = etcd_request_number(message, &revision);
    if (error != NULL) {
        etcd_error_finish(call, error);
        return;
    }
    start_hash(call, (int64_t)revision, true);
}

/* --- The rest. --- */

/* Keys are in memory and the log is cut by snapshots: there is nothing to defragment. */
static void on_defragment(struct grpc_call *call, struct bytes message) {
    (void)message; /* has no fields */
    if (!etcd_call_refused(call) && etcd_call_is_root(call, "defragmentation")) {
        etcd_answer_empty(call);
    }
}

static void on_move_leader(struct grpc_call *call, struct bytes message) {
    uint64_t target_id;
    if (etcd_call_refused(call) || !etcd_call_is_root(call, "transfer of leadership")) {
        return;
    }
    const struct etcd_error *error = etcd_request_number(message, &target_id);
    if (error != NULL) {
        etcd_error_finish(call, error);
        return;
    }
    etcd_call_move_leader(call, target_id);
}

/* "3.4" or "3.4.0". */
static bool is_version(struct bytes text) {
    size_t n_dots = 0;
    bool has_digit = false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '.') {
            n_dots += has_digit ? 1 : 3; /* two in a row are none */
            has_digit = false;
        } else if (text.data[i] >= '0' && text.data[i] <= '9') {
            has_digit = true;
        } else {
            return false;
        }
    }
    return has_digit && (n_dots == 1 || n_dots == 2);
}

/* No version of etcd's is one that this server could go down to, and none is ever under way: the
 * answers are those of an etcd that is asked for what it cannot. */
static const struct etcd_error *downgrade_error(struct bytes message) {
    enum { VALIDATE, ENABLE, CANCEL };
    int32_t action = VALIDATE;
    struct bytes version = bytes_of(NULL, 0);
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            action = pb_reader_enum(&reader);
        } else if (reader.field == 2) {
            version = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return &etcd_error_malformed;
    }
    if (action == CANCEL) {
        return &etcd_error_no_downgrade;
    }
    if (action != VALIDATE && action != ENABLE) {
        return &etcd_error_unknown_method;
    }
    return is_version(version) ? &etcd_error_downgrade_target : &etcd_error_downgrade_format;
}

static void on_downgrade(struct grpc_call *call, struct bytes message) {
    if (!etcd_call_refused(call) && etcd_call_is_root(call, "downgrade")) {
        etcd_error_finish(call, downgrade_error(message));
    }
}

static const struct grpc_method methods[] = {
    {.path = "/etcdserverpb.Maintenance/Alarm",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_alarm,
     .on_close = etcd_call_closed},
    {.path = "/etcdserverpb.Maintenance/Status",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_status},
    {.path = "/etcdserverpb.Maintenance/Defragment",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_defragment},
    {.path = "/etcdserverpb.Maintenance/Hash",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_hash,
     .on_close = etcd_call_closed},
    {.path = "/etcdserverpb.Maintenance/HashKV",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_hash_kv,
     .on_close = etcd_call_closed},
    {.path = "/etcdserverpb.Maintenance/MoveLeader",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_move_leader,
     .on_close = etcd_call_closed},
    {.path = "/etcdserverpb.Maintenance/Downgrade",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_downgrade},
};
const struct etcd_methods etcd_maintenance_methods = {methods, sizeof methods / sizeof methods[0]};
