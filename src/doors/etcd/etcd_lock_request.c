#include "doors/etcd/etcd_lock_request.h"

#include "base/pb_reader.h"

#include <stddef.h>

static const struct etcd_error leader_missing = {GRPC_UNKNOWN, "\"leader\" field must be provided"};

/* Numbers above the ones that etcd uses are ours. */
enum { UNLOCK_REVISION = 1001 };

const struct etcd_error *etcd_request_queue(struct bytes message,
                                            struct etcd_queue_request *out_request) {
    struct etcd_queue_request request = {0};
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            request.name = pb_reader_bytes(&reader);
            break;
        case 2:
            request.lease_id = pb_reader_int64(&reader);
            break;
        case 3:
            request.value = pb_reader_bytes(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return &etcd_error_malformed;
    }
    *out_request = request;
    return NULL;
}

const struct etcd_error *etcd_request_unlock(struct bytes message,
                                             struct etcd_unlock_request *out_request) {
    struct etcd_unlock_request request = {0};
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            request.key = pb_reader_bytes(&reader);
            break;
        case UNLOCK_REVISION:
            request.revision = pb_reader_int64(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return &etcd_error_malformed;
    }
    *out_request = request;
    return NULL;
}

/* Fields that come again in a second message are merged into those of the first. */
static bool read_leader(struct bytes message, struct etcd_leadership_request *request) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 2:
            request->key = pb_reader_bytes(&reader);
            break;
        case 3:
            request->revision = pb_reader_int64(&reader);
            break;
        case 4:
            request->lease_id = pb_reader_int64(&reader);
            break;
        default: /* the name is part of the key */
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

const struct etcd_error *etcd_request_leadership(struct bytes message,
                                                 struct etcd_leadership_request *out_request) {
    struct etcd_leadership_request request = {0};
    struct pb_reader reader;
    bool has_leader = false;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            has_leader = true;
            if (!read_leader(pb_reader_bytes(&reader), &request)) {
                return &etcd_error_malformed;
            }
            break;
        case 2:
            request.value = pb_reader_bytes(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return &etcd_error_malformed;
    }
    if (!has_leader) {
        return &leader_missing;
    }
    *out_request = request;
    return NULL;
}
