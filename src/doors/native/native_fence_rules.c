/* Pure: run by every replica when the command is applied, with the same result. */
#include "core/cluster_version.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_rules.h"

void native_fence_check_encode(struct buffer *out, const struct native_fence_check *check) {
    buffer_put_bytes(out, check->resource);
    buffer_put_zigzag(out, check->token);
}

bool native_fence_checked_decode(struct bytes answer, struct native_fence_checked *out_checked) {
    struct reader reader;
    reader_init(&reader, answer);
    out_checked->is_accepted = reader_get_u8(&reader) != 0;
    out_checked->highest = reader_get_zigzag(&reader);
    return !reader.failed && reader_left(&reader) == 0;
}

/* A value that is no token was put by another client: what the highest one was is not known any
 * more, so nothing is accepted. */
static enum status run_fence_check(struct rule_run *run, struct bytes request,
                                   struct buffer *answer) {
    struct reader reader;
    reader_init(&reader, request);
    struct bytes resource = reader_get_bytes(&reader);
    int64_t token = reader_get_zigzag(&reader);
    if (reader.failed || reader_left(&reader) != 0) {
        return STATUS_MALFORMED;
    }
    if (!native_name_is_valid(resource, NATIVE_NAME_SIZE_MAX) || token < 1) {
        return STATUS_INVALID;
    }
    struct bytes key = native_fence_key(rule_arena(run), resource);
    const struct record *record = rule_get(run, KEY_SPACE_ETCD, key);
    int64_t highest = 0;
    if (record != NULL && !native_fence_read(record_value(record), &highest)) {
        return STATUS_CORRUPT;
    }
    if (token > highest) {
        uint8_t digits[NATIVE_FENCE_DIGITS];
        native_fence_write(token, digits);
        (void)rule_put(run, KEY_SPACE_ETCD, key, bytes_of(digits, sizeof digits),
                       record != NULL ? record->lease_id : 0);
    }
    buffer_put_u8(answer, token >= highest);
    buffer_put_zigzag(answer, token > highest ? token : highest);
    return STATUS_OK;
}

const struct rule native_rule_fence_check = {.number = NATIVE_RULE_FENCE_CHECK,
                                             .name = "native fence check",
                                             .since_version = CLUSTER_VERSION_RULES,
                                             .spaces = {KEY_SPACE_ETCD},
                                             .run = run_fence_check};
