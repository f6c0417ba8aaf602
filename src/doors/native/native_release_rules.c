/* Pure: run by every replica when the command is applied, with the same result. Release, proclaim,
 * and the end of a hold limit. */
#include "core/cluster_version.h"
#include "core/key_work.h"
#include "doors/native/native_estimate_rules.h"
#include "doors/native/native_grant_rules.h"
#include "doors/native/native_rules.h"
#include "doors/native/native_session_rules.h"

static bool is_read(const struct reader *reader) {
    return !reader->failed && reader_left(reader) == 0;
}

/* Takes it away, tells of it and hands over what it had. */
static void end_acquisition(struct native_work *work, const struct native_acquisition *acquisition,
                            enum native_end_reason reason, uint64_t user_id) {
    struct native_session session = {0};
    (void)native_work_find_session(work, acquisition->session_id, &session);
    native_grant_remove(work, acquisition);
    const struct record *record =
        rule_get(work->run, KEY_SPACE_NATIVE_RECORDS,
                 native_key_session(work->arena, acquisition->session_id));
    native_session_tell(work, acquisition->session_id, &session,
                        record != NULL ? record->create_revision : 0, reason, user_id, acquisition);
    (void)native_work_finish(work);
}

static bool find_own(struct native_work *work, int64_t id, int64_t session_id,
                     struct native_acquisition *out_acquisition) {
    return native_work_find(work, id, out_acquisition) && out_acquisition->session_id == session_id;
}

/* --- Release. --- */

void native_release_encode(struct buffer *out, const struct native_release *release) {
    buffer_put_zigzag(out, release->acquisition_id);
    buffer_put_zigzag(out, release->session_id);
    buffer_put_varint(out, release->call);
    buffer_put_u8(out, release->end_session);
}

bool native_released_decode(struct bytes answer, struct native_released *out_released) {
    struct reader reader;
    reader_init(&reader, answer);
    out_released->is_released = reader_get_u8(&reader) != 0;
    out_released->was_acquired = reader_get_u8(&reader) != 0;
    return is_read(&reader);
}

static bool read_release(struct bytes request, struct native_release *out_release) {
    struct reader reader;
    reader_init(&reader, request);
    out_release->acquisition_id = reader_get_zigzag(&reader);
    out_release->session_id = reader_get_zigzag(&reader);
    uint64_t call = reader_get_varint(&reader);
    out_release->call = (uint32_t)call;
    out_release->end_session = reader_get_u8(&reader) != 0;
    return is_read(&reader) && call <= UINT32_MAX;
}

static enum status run_release(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct native_work work;
    struct native_release release;
    struct native_acquisition acquisition;
    uint64_t user_id = rule_caller(run)->user_id;
    if (!read_release(request, &release)) {
        return STATUS_MALFORMED;
    }
    native_work_init(&work, run);
    bool is_there = rule_lease_use(run, release.session_id);
    rule_act_for_server(run);
    bool is_found =
        is_there && find_own(&work, release.acquisition_id, release.session_id, &acquisition);
    bool was_acquired = is_found && acquisition.stage == NATIVE_ACQUIRED;
    /* Of calls that share what was acquired, another one may have been told that it has it. */
    bool is_shared = is_found && release.call != 0 &&
                     (release.call != acquisition.call || (was_acquired && acquisition.call > 1));
    if (is_found && !is_shared) {
        end_acquisition(&work, &acquisition,
                        was_acquired ? NATIVE_END_RELEASED : NATIVE_END_LEFT_QUEUE, user_id);
    }
    if (is_there && release.end_session && !is_shared) {
        (void)native_session_stop(&work, release.session_id, NATIVE_END_SESSION_ENDED, user_id);
    }
    buffer_put_u8(answer, is_found && !is_shared);
    buffer_put_u8(answer, was_acquired);
    return STATUS_OK;
}

static size_t estimate_release(const struct key_store *keys, const struct lease_table *leases,
                               struct bytes request) {
    struct native_release release;
    if (!read_release(request, &release)) {
        return 0;
    }
    return native_estimate_release(keys, release.acquisition_id) +
           (release.end_session
                ? 2 * KEY_WORK_A_DELETE * lease_table_key_count(leases, release.session_id)
                : 0);
}

const struct rule native_rule_release = {.number = NATIVE_RULE_RELEASE,
                                         .name = "native release",
                                         .since_version = CLUSTER_VERSION_RULES,
                                         .spaces = {KEY_SPACE_NATIVE, KEY_SPACE_NATIVE_RECORDS},
                                         .run = run_release,
                                         .runs_when_full = true,
                                         .estimate = estimate_release};

/* --- The end of a hold limit. --- */

/* When the lease ends for another reason, whoever ended it takes care of the acquisition. */
static enum status run_hold_limit(struct rule_run *run, struct bytes request,
                                  struct buffer *answer) {
    (void)answer;
    struct native_work work;
    struct native_acquisition acquisition;
    struct lease_facts facts;
    enum lease_end reason;
    if (!rule_ended_lease(run, &facts, &reason)) {
        return STATUS_INVALID;
    }
    if (reason != LEASE_END_EXPIRED) {
        return STATUS_OK;
    }
    native_work_init(&work, run);
    const struct record *record = rule_get(run, KEY_SPACE_NATIVE_RECORDS, request);
    if (record != NULL && native_key_read(record).kind == NATIVE_KEY_ACQUISITION &&
        native_work_find(&work, native_key_read(record).id, &acquisition) &&
        acquisition.hold_lease_id == facts.id) {
        end_acquisition(&work, &acquisition, NATIVE_END_HOLD_LIMIT, 0);
    }
    return STATUS_OK;
}

const struct rule native_rule_hold_limit = {.number = NATIVE_RULE_HOLD_LIMIT,
                                            .name = "native hold limit",
                                            .since_version = CLUSTER_VERSION_RULES,
                                            .spaces = {KEY_SPACE_NATIVE, KEY_SPACE_NATIVE_RECORDS},
                                            .run = run_hold_limit};

/* --- Proclaim. --- */

void native_proclaim_encode(struct buffer *out, const struct native_proclaim *proclaim) {
    buffer_put_zigzag(out, proclaim->acquisition_id);
    buffer_put_zigzag(out, proclaim->session_id);
    buffer_put_bytes(out, proclaim->value);
}

bool native_proclaimed_decode(struct bytes answer, bool *out_is_done) {
    if (answer.size != 1) {
        return false;
    }
    *out_is_done = answer.data[0] != 0;
    return true;
}

/* The keys of its holds are written again, so that whoever watches a resource learns of it. */
static void proclaim(struct native_work *work, struct native_acquisition *acquisition,
                     struct bytes value) {
    acquisition->value = value;
    native_grant_write(work, acquisition);
    for (size_t i = 0; i < acquisition->n_wants && acquisition->stage == NATIVE_ACQUIRED; i++) {
        const struct native_want *want = &acquisition->wants[i];
        if (!want->is_pool) {
            (void)rule_put(work->run, KEY_SPACE_NATIVE,
                           native_key_holder(work->arena, want->name, want->mode, acquisition->id),
                           bytes_of(NULL, 0), acquisition->session_id);
        }
    }
}

static enum status run_proclaim(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct native_work work;
    struct native_acquisition acquisition;
    struct reader reader;
    reader_init(&reader, request);
    int64_t id = reader_get_zigzag(&reader);
    int64_t session_id = reader_get_zigzag(&reader);
    struct bytes value = reader_get_bytes(&reader);
    if (!is_read(&reader)) {
        return STATUS_MALFORMED;
    }
    if (!native_text_is_valid(value, NATIVE_VALUE_SIZE_MAX)) {
        return STATUS_INVALID;
    }
    native_work_init(&work, run);
    bool is_found =
        rule_lease_use(run, session_id) && find_own(&work, id, session_id, &acquisition);
    rule_act_for_server(run);
    if (is_found) {
        proclaim(&work, &acquisition, value);
    }
    buffer_put_u8(answer, is_found);
    return STATUS_OK;
}

static size_t estimate_proclaim(const struct key_store *keys, const struct lease_table *leases,
                                struct bytes request) {
    struct reader reader;
    (void)leases;
    reader_init(&reader, request);
    int64_t id = reader_get_zigzag(&reader);
    return reader.failed ? 0 : native_estimate_proclaim(keys, id);
}

const struct rule native_rule_proclaim = {.number = NATIVE_RULE_PROCLAIM,
                                          .name = "native proclaim",
                                          .since_version = CLUSTER_VERSION_RULES,
                                          .spaces = {KEY_SPACE_NATIVE, KEY_SPACE_NATIVE_RECORDS},
                                          .run = run_proclaim,
                                          .estimate = estimate_proclaim};
