/* Pure: run by every replica when the command is applied, with the same result. */
#include "core/cluster_version.h"
#include "core/key_work.h"
#include "doors/consul/consul_check_rules.h"
#include "doors/consul/consul_kv_work_rules.h"

/* --- Create. --- */

void consul_session_create_encode(struct buffer *out, const struct consul_session *session) {
    buffer_put_bytes(out, session->id);
    buffer_put_zigzag(out, session->lifetime_ms);
    consul_session_encode(out, session);
}

static bool decode_create(struct bytes request, struct arena *arena,
                          struct consul_session *out_session) {
    struct reader reader;
    reader_init(&reader, request);
    struct bytes id = reader_get_bytes(&reader);
    int64_t lifetime_ms = reader_get_zigzag(&reader);
    if (reader.failed || !consul_uuid_is_valid(id) ||
        !consul_session_decode(bytes_of(request.data + reader.position, reader_left(&reader)),
                               arena, out_session)) {
        return false;
    }
    out_session->id = id;
    out_session->lifetime_ms = lifetime_ms;
    return consul_session_is_valid(out_session);
}

static enum status create_session(struct rule_run *run, struct bytes request,
                                  struct buffer *answer) {
    struct arena *arena = rule_arena(run);
    struct consul_session session;
    struct consul_session existing;
    int64_t lease_id = 0;
    (void)answer;
    if (!decode_create(request, arena, &session)) {
        return STATUS_INVALID;
    }
    if (consul_work_session(run, session.id, &existing)) {
        return STATUS_LEASE_EXISTS;
    }
    session.user_id = rule_caller(run)->user_id;
    /* Whether a check passes is no secret of the service that it belongs to. */
    rule_act_for_server(run);
    enum status status = consul_checks_of_session(run, &session);
    int64_t lifetime_ms = session.lifetime_ms > 0 ? session.lifetime_ms : session.ttl_ms;
    const struct rule_lease lease = {.ttl_ms = lifetime_ms > 0 ? lifetime_ms : LEASE_TTL_FOREVER};
    if (status == STATUS_OK) {
        status = rule_lease_grant(run, &lease, &lease_id);
    }
    if (status != STATUS_OK) {
        return status;
    }
    struct buffer value;
    buffer_init(&value);
    consul_session_encode(&value, &session);
    (void)rule_put(run, KEY_SPACE_CONSUL_RECORDS, consul_key_session(arena, session.id),
                   bytes_of(value.data, value.size), lease_id);
    buffer_clear(&value);
    if (session.n_service_checks > 0) {
        (void)rule_put(run, KEY_SPACE_CONSUL_RECORDS, consul_key_bound(arena, session.id),
                       bytes_of("", 0), lease_id);
    }
    return rule_on_lease_end(run, lease_id, CONSUL_RULE_SESSION_ENDED, session.id);
}

const struct rule consul_rule_session_create = {
    .number = CONSUL_RULE_SESSION_CREATE,
    .name = "consul_session_create",
    .since_version = CLUSTER_VERSION_RULES,
    .spaces = {KEY_SPACE_CONSUL, KEY_SPACE_CONSUL_RECORDS, KEY_SPACE_REGISTRY,
               KEY_SPACE_REGISTRY_RECORDS},
    .run = create_session};

/* --- Destroy. --- */

void consul_session_destroy_encode(struct buffer *out,
                                   const struct consul_session_destroy *request) {
    buffer_put_bytes(out, request->id);
    buffer_put_u8(out, request->only_if_critical);
}

static enum status destroy_session(struct rule_run *run, struct bytes request,
                                   struct buffer *answer) {
    struct reader reader;
    struct consul_session session;
    reader_init(&reader, request);
    struct bytes id = reader_get_bytes(&reader);
    bool only_if_critical = reader_get_u8(&reader) != 0;
    (void)answer;
    if (reader.failed || reader_left(&reader) != 0 || !consul_uuid_is_valid(id)) {
        return STATUS_INVALID;
    }
    if (!consul_work_session(run, id, &session)) {
        return STATUS_OK;
    }
    if (!consul_work_may_use(run, &session)) {
        return STATUS_PERMISSION_DENIED;
    }
    rule_act_for_server(run);
    if (only_if_critical && consul_checks_of_session(run, &session) == STATUS_OK) {
        return STATUS_OK;
    }
    return rule_lease_end(run, session.lease_id,
                          only_if_critical ? LEASE_END_EXPIRED : LEASE_END_REVOKED);
}

/* What it holds is freed, or deleted, and a lock-delay begun. */
static size_t estimate_destroy(const struct key_store *keys, const struct lease_table *leases,
                               struct bytes request) {
    struct arena arena;
    struct reader reader;
    struct consul_session session;
    size_t n = 0;
    reader_init(&reader, request);
    struct bytes id = reader_get_bytes(&reader);
    arena_init(&arena);
    if (!reader.failed && consul_uuid_is_valid(id) &&
        consul_keys_session(keys, &arena, id, &session)) {
        n = lease_table_key_count(leases, session.lease_id);
    }
    arena_clear(&arena);
    return 2 * KEY_WORK_A_DELETE * n;
}

const struct rule consul_rule_session_destroy = {
    .number = CONSUL_RULE_SESSION_DESTROY,
    .name = "consul_session_destroy",
    .since_version = CLUSTER_VERSION_RULES,
    .spaces = {KEY_SPACE_CONSUL, KEY_SPACE_CONSUL_RECORDS, KEY_SPACE_REGISTRY,
               KEY_SPACE_REGISTRY_RECORDS},
    .run = destroy_session,
    .runs_when_full = true,
    .estimate = estimate_destroy};

/* --- The end, whatever caused it. --- */

struct ended {
    struct rule_run *run;
    struct bytes id;
    struct consul_session session;
    bool is_found;
    struct bytes *keys;
    size_t n_keys;
    size_t capacity;
};

static void note_key(struct ended *ended, struct bytes key) {
    if (ended->n_keys == ended->capacity) {
        size_t capacity = ended->capacity == 0 ? 16 : 2 * ended->capacity;
        struct bytes *keys = arena_calloc(rule_arena(ended->run), capacity, sizeof *keys);
        for (size_t i = 0; i < ended->n_keys; i++) {
            keys[i] = ended->keys[i];
        }
        ended->keys = keys;
        ended->capacity = capacity;
    }
    ended->keys[ended->n_keys++] = key;
}

static bool on_ended_key(void *context, const struct record *record) {
    struct ended *ended = context;
    struct bytes key = record_key(record);
    if (!key_space_equal(record_space(record), KEY_SPACE_CONSUL_RECORDS)) {
        return true;
    }
    if (key.data[0] == 's') {
        ended->is_found = consul_keys_read_session(record, rule_arena(ended->run), &ended->session);
    } else if (key.data[0] == 'm' && key.size > 1 + CONSUL_UUID_SIZE) {
        note_key(ended, bytes_of(key.data + 1 + CONSUL_UUID_SIZE, key.size - 1 - CONSUL_UUID_SIZE));
    }
    return true;
}

static void put_lock(struct rule_run *run, struct bytes key, const struct consul_lock *lock,
                     int64_t lease_id) {
    struct buffer value;
    buffer_init(&value);
    consul_lock_encode(&value, lock);
    (void)rule_put(run, KEY_SPACE_CONSUL, consul_key_lock(rule_arena(run), key),
                   bytes_of(value.data, value.size), lease_id);
    buffer_clear(&value);
}

/* The value, if it was deleted, went with the lease, and so did the lock. */
static void end_lock(struct rule_run *run, const struct ended *ended, struct bytes key,
                     int64_t delay_lease_id) {
    struct consul_lock lock = {0};
    if (ended->session.deletes) {
        lock.delay_lease_id = delay_lease_id;
        lock.previous = ended->id;
        if (delay_lease_id != 0) {
            put_lock(run, key, &lock, delay_lease_id);
        }
        return;
    }
    const struct record *record =
        rule_get(run, KEY_SPACE_CONSUL, consul_key_lock(rule_arena(run), key));
    if (record == NULL || !consul_lock_decode(record_value(record), &lock) ||
        !bytes_equal(lock.session, ended->id)) {
        return;
    }
    lock.session = bytes_of("", 0);
    lock.lease_id = 0;
    lock.delay_lease_id = delay_lease_id;
    lock.previous = delay_lease_id != 0 ? ended->id : bytes_of("", 0);
    put_lock(run, key, &lock, 0);
}

static enum status end_session(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct ended ended = {.run = run, .id = request};
    struct lease_facts facts;
    enum lease_end reason;
    int64_t delay_lease_id = 0;
    (void)answer;
    if (!rule_ended_lease(run, &facts, &reason) || !consul_uuid_is_valid(request)) {
        return STATUS_INVALID;
    }
    rule_visit_ended_keys(run, on_ended_key, &ended);
    if (!ended.is_found) {
        return STATUS_OK;
    }
    if (ended.n_keys > 0 && ended.session.lock_delay_ms > 0) {
        const struct rule_lease lease = {.ttl_ms = ended.session.lock_delay_ms};
        enum status status = rule_lease_grant(run, &lease, &delay_lease_id);
        if (status != STATUS_OK) {
            return status;
        }
    }
    for (size_t i = 0; i < ended.n_keys; i++) {
        end_lock(run, &ended, ended.keys[i], delay_lease_id);
    }
    if (ended.session.deletes && ended.n_keys > 0) {
        (void)rule_put(run, KEY_SPACE_CONSUL_RECORDS, consul_key_deleted(), bytes_of("", 0), 0);
    }
    (void)rule_put(run, KEY_SPACE_CONSUL_RECORDS, consul_key_sessions_ended(), bytes_of("", 0), 0);
    return STATUS_OK;
}

const struct rule consul_rule_session_ended = {
    .number = CONSUL_RULE_SESSION_ENDED,
    .name = "consul_session_ended",
    .since_version = CLUSTER_VERSION_RULES,
    .spaces = {KEY_SPACE_CONSUL, KEY_SPACE_CONSUL_RECORDS},
    .run = end_session,
    .runs_when_full = true};
