/* Fences: the highest token of a resource, remembered by the server. */
#include "lease/lib_etcd_look.h"
#include "lease/lib_message.h"
#include "lease/lib_result.h"

static bool read_fence(struct bytes message, uint32_t highest_field, bool *out_accepted,
                       int64_t *out_highest) {
    struct pb_reader reader;
    *out_accepted = false;
    *out_highest = 0;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == highest_field) {
            *out_highest = pb_reader_int64(&reader);
        } else if (reader.field == 2) {
            *out_accepted = pb_reader_bool(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

static enum lease_status know_fence(struct lease_connection *connection, const char *resource,
                                    bool *out_is_etcd) {
    enum lease_protocol protocol;
    enum lease_status status = lib_check_name(resource);
    if (status == LEASE_OK) {
        status = lib_know_protocol(connection, &protocol);
    }
    if (status == LEASE_OK) {
        *out_is_etcd = protocol == LEASE_PROTOCOL_ETCD;
    }
    return status;
}

enum lease_status lease_fence_check(struct lease_connection *connection, const char *resource,
                                    int64_t token, int64_t *out_highest) {
    bool is_etcd = false;
    enum lease_status status = know_fence(connection, resource, &is_etcd);
    if (status == LEASE_OK && (token <= 0 || token == INT64_MAX)) {
        status = lib_error(LEASE_INVALID, "a token is above 0");
    }
    if (status != LEASE_OK) {
        return status;
    }
    struct lib_request request = {.path = "/leased.v1.Fences/Check", .is_repeatable = true};
    struct buffer answer;
    if (is_etcd) {
        lib_etcd_fence_encode(resource, token, &request);
    } else {
        lib_put_text(&request.message, 1, resource);
        lib_put_int(&request.message, 2, token);
    }
    status = lib_ask(connection, &request, &answer);
    if (status != LEASE_OK) {
        return status;
    }
    bool is_accepted = false;
    int64_t highest = 0;
    struct bytes message = bytes_of(answer.data, answer.size);
    bool is_well = is_etcd ? lib_etcd_fence_decode(message, token, &is_accepted, &highest)
                           : read_fence(message, 3, &is_accepted, &highest);
    buffer_clear(&answer);
    if (!is_well) {
        return lib_error(LEASE_PROTOCOL, "the server's answer is malformed");
    }
    if (out_highest != NULL) {
        *out_highest = highest;
    }
    return is_accepted ? LEASE_OK
                       : lib_error(LEASE_STALE, "token %lld is older than %lld, which was seen",
                                   (long long)token, (long long)highest);
}

enum lease_status lease_fence_get(struct lease_connection *connection, const char *resource,
                                  int64_t *out_highest) {
    bool is_etcd = false;
    enum lease_status status = know_fence(connection, resource, &is_etcd);
    if (status != LEASE_OK) {
        return status;
    }
    struct lib_request request = {.path = "/leased.v1.Fences/Get", .is_repeatable = true};
    struct buffer answer;
    if (is_etcd) {
        lib_etcd_fence_encode_get(resource, &request);
    } else {
        lib_put_text(&request.message, 1, resource);
    }
    status = lib_ask(connection, &request, &answer);
    if (status != LEASE_OK) {
        return status;
    }
    bool ignored = false;
    int64_t highest = 0;
    struct bytes message = bytes_of(answer.data, answer.size);
    bool is_well = is_etcd ? lib_etcd_fence_decode_get(message, &highest)
                           : read_fence(message, 2, &ignored, &highest);
    buffer_clear(&answer);
    if (!is_well) {
        return lib_error(LEASE_PROTOCOL, "the server's answer is malformed");
    }
    *out_highest = highest;
    return LEASE_OK;
}
