/* Pure: run by every replica when the command is applied, with the same result. */
#include "doors/native/native_session_rules.h"

#include "core/cluster_version.h"
#include "core/key_work.h"

/* Of a session with more acquisitions, the ends of the rest are not told of. */
enum { ENDS_TOLD_MAX = 64 };

static bool is_read(const struct reader *reader) {
    return !reader->failed && reader_left(reader) == 0;
}

/* --- Create. --- */

void native_session_create_encode(struct buffer *out, const struct native_session_create *create) {
    buffer_put_bytes(out, create->owner);
    buffer_put_bytes(out, create->note);
    buffer_put_u8(out, create->class);
    buffer_put_u8(out, create->strategy);
    buffer_put_zigzag(out, create->id);
    buffer_put_zigzag(out, create->ttl_ms);
    buffer_put_zigzag(out, create->parent_id);
}

void native_session_create_get(struct reader *reader, struct native_session_create *out_create) {
    out_create->owner = reader_get_bytes(reader);
    out_create->note = reader_get_bytes(reader);
    out_create->class = reader_get_u8(reader);
    out_create->strategy = reader_get_u8(reader);
    out_create->id = reader_get_zigzag(reader);
    out_create->ttl_ms = reader_get_zigzag(reader);
    out_create->parent_id = reader_get_zigzag(reader);
}

bool native_session_created_decode(struct bytes answer,
                                   struct native_session_created *out_created) {
    struct reader reader;
    reader_init(&reader, answer);
    out_created->id = reader_get_zigzag(&reader);
    return is_read(&reader);
}

static enum status check_ttl(int64_t ttl_ms) {
    if (ttl_ms < NATIVE_TTL_MS_MIN) {
        return STATUS_INVALID;
    }
    return ttl_ms > LEASE_TTL_MS_MAX ? STATUS_LEASE_TTL_TOO_LARGE : STATUS_OK;
}

enum status native_session_create_check(const struct native_session_create *create) {
    if (!native_name_is_valid(create->owner, NATIVE_OWNER_SIZE_MAX) ||
        !native_text_is_valid(create->note, NATIVE_NOTE_SIZE_MAX) ||
        create->class >= NATIVE_CLASSES || create->strategy >= NATIVE_STRATEGIES) {
        return STATUS_INVALID;
    }
    return check_ttl(create->ttl_ms);
}

/* Only sessions may be parents, and not too deep: who looks whether a lease is ending goes up. */
static enum status check_parent(struct native_work *work, int64_t parent_id) {
    struct native_session ignored;
    struct lease_facts facts;
    for (unsigned depth = 0; parent_id != 0; depth++) {
        if (depth == NATIVE_SESSION_DEPTH_MAX) {
            return STATUS_INVALID;
        }
        if (!rule_lease_find(work->run, parent_id, &facts) ||
            !native_work_find_session(work, parent_id, &ignored)) {
            return STATUS_LEASE_NOT_FOUND;
        }
        parent_id = facts.parent_id;
    }
    return STATUS_OK;
}

static void put_session(struct native_work *work, int64_t id,
                        const struct native_session *session) {
    struct buffer value;
    buffer_init(&value);
    native_session_encode(&value, session);
    (void)rule_put(work->run, KEY_SPACE_NATIVE_RECORDS, native_key_session(work->arena, id),
                   bytes_of(value.data, value.size), id);
    buffer_clear(&value);
}

enum status native_session_start(struct native_work *work,
                                 const struct native_session_create *create, uint64_t user_id,
                                 int64_t *out_id) {
    const struct rule_lease lease = {.id = create->id,
                                     .ttl_ms = create->ttl_ms,
                                     .parent_id = create->parent_id,
                                     .class = create->class};
    int64_t id = 0;
    enum status status = check_parent(work, create->parent_id);
    if (status == STATUS_OK) {
        status = rule_lease_grant(work->run, &lease, &id);
    }
    if (status != STATUS_OK) {
        return status;
    }
    const struct native_session session = {.owner = create->owner,
                                           .note = create->note,
                                           .class = create->class,
                                           .strategy = create->strategy,
                                           .user_id = user_id,
                                           .created_wall_ms = rule_wall_ms(work->run),
                                           .ttl_ms = create->ttl_ms,
                                           .parent_id = create->parent_id};
    put_session(work, id, &session);
    *out_id = id;
    return rule_on_lease_end(work->run, id, NATIVE_RULE_SESSION_ENDED, bytes_of(NULL, 0));
}

static enum status run_create(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct native_work work;
    struct native_session_create create;
    struct reader reader;
    reader_init(&reader, request);
    native_session_create_get(&reader, &create);
    if (!is_read(&reader)) {
        return STATUS_MALFORMED;
    }
    int64_t id = 0;
    native_work_init(&work, run);
    enum status status = native_session_create_check(&create);
    if (status == STATUS_OK) {
        status = native_session_start(&work, &create, rule_caller(run)->user_id, &id);
    }
    buffer_put_zigzag(answer, id);
    return status;
}

const struct rule native_rule_session_create = {
    .number = NATIVE_RULE_SESSION_CREATE,
    .name = "native session create",
    .since_version = CLUSTER_VERSION_RULES,
    .spaces = {KEY_SPACE_NATIVE, KEY_SPACE_NATIVE_RECORDS},
    .run = run_create};

/* --- Change. --- */

void native_session_change_encode(struct buffer *out, const struct native_session_change *change) {
    buffer_put_zigzag(out, change->session_id);
    buffer_put_zigzag(out, change->ttl_ms);
}

static enum status run_change(struct rule_run *run, struct bytes request, struct buffer *answer) {
    (void)answer;
    struct native_work work;
    struct native_session ignored;
    struct reader reader;
    reader_init(&reader, request);
    int64_t session_id = reader_get_zigzag(&reader);
    int64_t ttl_ms = reader_get_zigzag(&reader);
    if (!is_read(&reader)) {
        return STATUS_MALFORMED;
    }
    native_work_init(&work, run);
    enum status status = check_ttl(ttl_ms);
    if (status == STATUS_OK && !native_work_find_session(&work, session_id, &ignored)) {
        status = STATUS_LEASE_NOT_FOUND;
    }
    return status == STATUS_OK ? rule_lease_set_ttl(run, session_id, ttl_ms) : status;
}

const struct rule native_rule_session_change = {
    .number = NATIVE_RULE_SESSION_CHANGE,
    .name = "native session change",
    .since_version = CLUSTER_VERSION_RULES,
    .spaces = {KEY_SPACE_NATIVE, KEY_SPACE_NATIVE_RECORDS},
    .run = run_change};

/* --- End. --- */

void native_session_end_encode(struct buffer *out, const struct native_session_end *end) {
    buffer_put_zigzag(out, end->session_id);
    buffer_put_u8(out, end->is_revoked);
}

enum status native_session_stop(struct native_work *work, int64_t session_id,
                                enum native_end_reason reason, uint64_t user_id) {
    struct native_session session;
    if (!native_work_find_session(work, session_id, &session)) {
        return STATUS_LEASE_NOT_FOUND;
    }
    session.end_reason = (uint8_t)reason;
    session.end_user_id = user_id;
    put_session(work, session_id, &session);
    return rule_lease_end(work->run, session_id, LEASE_END_REVOKED);
}

static bool read_end(struct bytes request, struct native_session_end *out_end) {
    struct reader reader;
    reader_init(&reader, request);
    out_end->session_id = reader_get_zigzag(&reader);
    out_end->is_revoked = reader_get_u8(&reader) != 0;
    return is_read(&reader);
}

static enum status run_end(struct rule_run *run, struct bytes request, struct buffer *answer) {
    (void)answer;
    struct native_work work;
    struct native_session_end end;
    if (!read_end(request, &end)) {
        return STATUS_MALFORMED;
    }
    native_work_init(&work, run);
    return native_session_stop(&work, end.session_id,
                               end.is_revoked ? NATIVE_END_REVOKED : NATIVE_END_SESSION_ENDED,
                               rule_caller(run)->user_id);
}

static size_t estimate_end(const struct key_store *keys, const struct lease_table *leases,
                           struct bytes request) {
    (void)keys;
    struct native_session_end end;
    return read_end(request, &end)
               ? 2 * KEY_WORK_A_DELETE * lease_table_key_count(leases, end.session_id)
               : 0;
}

const struct rule native_rule_session_end = {.number = NATIVE_RULE_SESSION_END,
                                             .name = "native session end",
                                             .since_version = CLUSTER_VERSION_RULES,
                                             .spaces = {KEY_SPACE_NATIVE, KEY_SPACE_NATIVE_RECORDS},
                                             .run = run_end,
                                             .runs_when_full = true,
                                             .estimate = estimate_end};

/* --- When the lease has ended, whatever ended it. --- */

void native_session_tell(struct native_work *work, int64_t session_id,
                         const struct native_session *session, int64_t session_revision,
                         enum native_end_reason reason, uint64_t user_id,
                         const struct native_acquisition *acquisition) {
    struct native_ended ended = {.reason = (uint8_t)reason,
                                 .user_id = user_id,
                                 .session_id = session_id,
                                 .session_revision = session_revision,
                                 .session_ttl_ms = session->ttl_ms,
                                 .session = *session};
    struct lease_facts facts;
    if (rule_lease_find(work->run, session_id, &facts)) {
        ended.session_ttl_ms = facts.ttl_ms;
    }
    if (acquisition != NULL) {
        ended.has_acquisition = true;
        ended.acquisition = *acquisition;
    }
    native_work_tell(work, &ended);
}

/* What went with a session. */
struct gone {
    struct native_work *work;
    struct native_session session;
    int64_t session_id;
    int64_t session_revision;
    const struct record **acquisitions;
    size_t n;
    size_t capacity;
};

static bool note_gone(void *context, const struct record *record) {
    struct gone *gone = context;
    struct native_key key = native_key_read(record);
    if (key.kind == NATIVE_KEY_SESSION) {
        (void)native_session_decode(record_value(record), &gone->session);
        gone->session_revision = record->create_revision;
    } else if (key.kind == NATIVE_KEY_ACQUISITION) {
        if (gone->n == gone->capacity) {
            size_t larger = gone->capacity == 0 ? 16 : 2 * gone->capacity;
            const struct record **copy = arena_alloc(gone->work->arena, larger * sizeof(copy[0]));
            if (gone->n > 0) {
                memcpy(copy, gone->acquisitions, gone->n * sizeof(copy[0]));
            }
            gone->acquisitions = copy;
            gone->capacity = larger;
        }
        gone->acquisitions[gone->n++] = record;
    }
    return true;
}

static enum native_end_reason reason_of(const struct native_session *session, enum lease_end end) {
    if (session->end_reason != NATIVE_END_NONE) {
        return (enum native_end_reason)session->end_reason;
    }
    switch (end) {
    case LEASE_END_EXPIRED:
        return NATIVE_END_EXPIRED;
    case LEASE_END_PARENT:
        return NATIVE_END_PARENT;
    case LEASE_END_REVOKED:
        break;
    }
    return NATIVE_END_REVOKED;
}

static enum status run_ended(struct rule_run *run, struct bytes request, struct buffer *answer) {
    (void)request;
    (void)answer;
    struct native_work work;
    struct gone gone = {.work = &work};
    struct lease_facts facts;
    enum lease_end end;
    if (!rule_ended_lease(run, &facts, &end)) {
        return STATUS_INVALID;
    }
    native_work_init(&work, run);
    rule_visit_ended_keys(run, note_gone, &gone);
    enum native_end_reason reason = reason_of(&gone.session, end);
    gone.session.ttl_ms = facts.ttl_ms;
    if (gone.n == 0) {
        native_session_tell(&work, facts.id, &gone.session, gone.session_revision, reason,
                            gone.session.end_user_id, NULL);
    }
    for (size_t i = 0; i < gone.n; i++) {
        struct native_acquisition acquisition;
        if (!native_acquisition_decode(record_value(gone.acquisitions[i]), work.arena,
                                       &acquisition)) {
            continue;
        }
        if (i < ENDS_TOLD_MAX) {
            native_session_tell(&work, facts.id, &gone.session, gone.session_revision, reason,
                                gone.session.end_user_id, &acquisition);
        }
        for (size_t j = 0; j < acquisition.n_wants; j++) {
            native_work_touch(&work, &acquisition.wants[j]);
        }
    }
    (void)native_work_finish(&work);
    return STATUS_OK;
}

const struct rule native_rule_session_ended = {
    .number = NATIVE_RULE_SESSION_ENDED,
    .name = "native session ended",
    .since_version = CLUSTER_VERSION_RULES,
    .spaces = {KEY_SPACE_NATIVE, KEY_SPACE_NATIVE_RECORDS},
    .run = run_ended};
