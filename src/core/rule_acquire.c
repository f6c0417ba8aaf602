#include "core/rule_acquire.h"

#include "core/cluster_version.h"

static enum status need_lease(struct rule_run *run, const struct rule_lease *lease,
                              int64_t *out_id) {
    struct lease_facts facts;
    if (lease->id != 0 && rule_lease_find(run, lease->id, &facts)) {
        *out_id = lease->id;
        return STATUS_OK;
    }
    return rule_lease_grant(run, lease, out_id);
}

enum status rule_acquire(struct rule_run *run, const struct rule_acquisition *acquisition,
                         struct rule_acquired *out_acquired) {
    const struct record *holder = rule_get(run, acquisition->space, acquisition->key);
    if (holder != NULL) {
        *out_acquired = (struct rule_acquired){
            .is_acquired = holder->lease_id != 0 && holder->lease_id == acquisition->lease.id,
            .token = holder->create_revision,
            .lease_id = holder->lease_id};
        return STATUS_OK;
    }
    int64_t lease_id;
    enum status status = need_lease(run, &acquisition->lease, &lease_id);
    if (status != STATUS_OK) {
        return status;
    }
    *out_acquired = (struct rule_acquired){
        .is_acquired = true,
        .token = rule_put(run, acquisition->space, acquisition->key, acquisition->value, lease_id),
        .lease_id = lease_id};
    return STATUS_OK;
}

static enum status run_native(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct reader reader;
    reader_init(&reader, request);
    struct rule_acquisition acquisition = {.space = KEY_SPACE_NATIVE};
    acquisition.key = reader_get_bytes(&reader);
    acquisition.value = reader_get_bytes(&reader);
    acquisition.lease.id = reader_get_zigzag(&reader);
    acquisition.lease.ttl_ms = (int64_t)reader_get_varint(&reader);
    if (reader.failed || reader_left(&reader) != 0) {
        return STATUS_MALFORMED;
    }
    if (acquisition.key.size == 0) {
        return STATUS_KEY_EMPTY;
    }
    struct rule_acquired acquired;
    enum status status = rule_acquire(run, &acquisition, &acquired);
    if (status == STATUS_OK) {
        buffer_put_u8(answer, acquired.is_acquired);
        buffer_put_zigzag(answer, acquired.token);
        buffer_put_zigzag(answer, acquired.lease_id);
    }
    return status;
}

const struct rule rule_native_acquire = {.number = RULE_NATIVE_ACQUIRE,
                                         .name = "native acquire",
                                         .since_version = CLUSTER_VERSION_RULES,
                                         .spaces = {KEY_SPACE_NATIVE},
                                         .run = run_native};
