#include "doors/etcd/etcd_request.h"

#include "base/pb_reader.h"

#include <stddef.h>

static const struct etcd_error *read_end(const struct pb_reader *reader) {
    return reader->failed ? &etcd_error_malformed : NULL;
}

/* --- KV --- */

static bool read_sort_order(int32_t number, enum sort_order *out_order) {
    static const enum sort_order orders[] = {SORT_NONE, SORT_ASCENDING, SORT_DESCENDING};
    if (number < 0 || (size_t)number >= sizeof orders / sizeof orders[0]) {
        return false;
    }
    *out_order = orders[number];
    return true;
}

static bool read_sort_target(int32_t number, enum sort_target *out_target) {
    static const enum sort_target targets[] = {SORT_BY_KEY, SORT_BY_VERSION, SORT_BY_CREATE,
                                               SORT_BY_MOD, SORT_BY_VALUE};
    if (number < 0 || (size_t)number >= sizeof targets / sizeof targets[0]) {
        return false;
    }
    *out_target = targets[number];
    return true;
}

const struct etcd_error *etcd_request_range(struct bytes message,
                                            struct etcd_range_request *out_request) {
    struct etcd_range_request request = {0};
    struct range_request *range = &request.range;
    int32_t order = 0;
    int32_t target = 0;
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            range->key = pb_reader_bytes(&reader);
            break;
        case 2:
            range->range_end = pb_reader_bytes(&reader);
            break;
        case 3:
            range->limit = pb_reader_int64(&reader);
            break;
        case 4:
            range->revision = pb_reader_int64(&reader);
            break;
        case 5:
            order = pb_reader_enum(&reader);
            break;
        case 6:
            target = pb_reader_enum(&reader);
            break;
        case 7:
            request.serializable = pb_reader_bool(&reader);
            break;
        case 8:
            range->keys_only = pb_reader_bool(&reader);
            break;
        case 9:
            range->count_only = pb_reader_bool(&reader);
            break;
        case 10:
            range->mod_revision_min = pb_reader_int64(&reader);
            break;
        case 11:
            range->mod_revision_max = pb_reader_int64(&reader);
            break;
        case 12:
            range->create_revision_min = pb_reader_int64(&reader);
            break;
        case 13:
            range->create_revision_max = pb_reader_int64(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return &etcd_error_malformed;
    }
    if (range->key.size == 0) {
        return etcd_error_of(STATUS_KEY_EMPTY);
    }
    if (!read_sort_order(order, &range->order) || !read_sort_target(target, &range->target)) {
        return &etcd_error_sort_option;
    }
    if (range->limit < 0) {
        range->limit = 0; /* etcd takes it as no limit */
    }
    *out_request = request;
    return NULL;
}

const struct etcd_error *etcd_request_put_body(struct bytes message, struct put_request *out_put) {
    struct put_request put = {0};
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            put.key = pb_reader_bytes(&reader);
            break;
        case 2:
            put.value = pb_reader_bytes(&reader);
            break;
        case 3:
            put.lease_id = pb_reader_int64(&reader);
            break;
        case 4:
            put.want_previous = pb_reader_bool(&reader);
            break;
        case 5:
            put.ignore_value = pb_reader_bool(&reader);
            break;
        case 6:
            put.ignore_lease = pb_reader_bool(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (!reader.failed) {
        *out_put = put;
    }
    return read_end(&reader);
}

const struct etcd_error *etcd_request_delete_body(struct bytes message,
                                                  struct delete_request *out_delete) {
    struct delete_request delete = {0};
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            delete.key = pb_reader_bytes(&reader);
            break;
        case 2:
            delete.range_end = pb_reader_bytes(&reader);
            break;
        case 3:
            delete.want_previous = pb_reader_bool(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (!reader.failed) {
        *out_delete = delete;
    }
    return read_end(&reader);
}

/* Gives out a command unless there is an error. */
static const struct etcd_error *end_command(const struct etcd_error *error,
                                            const struct command *command,
                                            struct command *out_command) {
    if (error == NULL) {
        *out_command = *command;
    }
    return error;
}

const struct etcd_error *etcd_request_put(struct bytes message, struct command *out_command) {
    struct command command = {.type = COMMAND_PUT};
    const struct etcd_error *error = etcd_request_put_body(message, &command.put);
    return end_command(error, &command, out_command);
}

const struct etcd_error *etcd_request_delete(struct bytes message, struct command *out_command) {
    struct command command = {.type = COMMAND_DELETE};
    const struct etcd_error *error = etcd_request_delete_body(message, &command.delete);
    return end_command(error, &command, out_command);
}

const struct etcd_error *etcd_request_number(struct bytes message, uint64_t *out_number) {
    uint64_t number = 0;
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            number = pb_reader_uint64(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (!reader.failed) {
        *out_number = number;
    }
    return read_end(&reader);
}

/* --- Members --- */

static bool has_prefix(struct bytes text, const char *prefix) {
    return text.size > strlen(prefix) && memcmp(text.data, prefix, strlen(prefix)) == 0;
}

/* "unix://PATH" with a path that a socket can have (unix(7)), or the same with TLS. A comma could
 * not be said in --initial-cluster. */
static bool is_socket_url(struct bytes url) {
    enum { PATH_SIZE_MAX = 107 };
    size_t at = has_prefix(url, "unix://")    ? strlen("unix://")
                : has_prefix(url, "unixs://") ? strlen("unixs://")
                                              : url.size;
    for (size_t i = at; i < url.size; i++) {
        if (url.data[i] <= ' ' || url.data[i] >= 0x7f || memchr(",\"\\", url.data[i], 3)) {
            return false;
        }
    }
    return at < url.size && url.size - at <= PATH_SIZE_MAX && url.size <= MEMBER_URL_SIZE_MAX;
}

/* "http://host:port", and nothing behind it: what etcd takes for a peer URL. */
static bool is_peer_url(struct bytes url) {
    if (is_socket_url(url)) {
        return true;
    }
    static const char *const schemes[] = {"http://", "https://"};
    size_t at = 0;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (has_prefix(url, schemes[i])) {
            at = strlen(schemes[i]);
        }
    }
    if (at == 0 || url.size > MEMBER_URL_SIZE_MAX) {
        return false;
    }
    size_t colon = 0;
    for (size_t i = at; i < url.size; i++) {
        /* What is neither printable nor part of a host and a port. */
        if (url.data[i] <= ' ' || url.data[i] >= 0x7f || memchr("/?#@,\"\\", url.data[i], 7)) {
            return false;
        }
        if (url.data[i] == ':') {
            colon = i;
        }
    }
    bool has_port = colon > at && colon + 1 < url.size && url.size - colon <= sizeof "65535";
    for (size_t i = colon + 1; i < url.size && has_port; i++) {
        has_port = url.data[i] >= '0' && url.data[i] <= '9';
    }
    return has_port;
}

const struct etcd_error *etcd_request_member(struct bytes message, enum member_action action,
                                             struct member_facts *out_facts) {
    bool has_urls = action == MEMBER_ADD || action == MEMBER_UPDATE;
    uint32_t urls_field = action == MEMBER_ADD ? 1 : 2;
    struct member_facts facts = {0};
    bool is_bad = false;
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (has_urls && reader.field == urls_field) {
            struct bytes url = pb_reader_bytes(&reader);
            is_bad |= facts.n_peer_urls == MEMBER_URLS_MAX || !is_peer_url(url);
            if (!is_bad) {
                facts.peer_urls[facts.n_peer_urls++] = url;
            }
        } else if (action == MEMBER_ADD && reader.field == 2) {
            facts.role = pb_reader_bool(&reader) ? MEMBER_LEARNER : MEMBER_VOTER;
        } else if (action != MEMBER_ADD && reader.field == 1) {
            facts.id = pb_reader_uint64(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return &etcd_error_malformed;
    }
    if (is_bad || (has_urls && facts.n_peer_urls == 0)) {
        return &etcd_error_member_urls;
    }
    /* No member has the id 0. */
    if (action != MEMBER_ADD && facts.id == 0) {
        return etcd_error_of(STATUS_MEMBER_NOT_FOUND);
    }
    *out_facts = facts;
    return NULL;
}

/* `physical` (field 2) says when to answer. Here memory comes back bit by bit between iterations
 * and nothing waits for it, so there is nothing to wait for. */
const struct etcd_error *etcd_request_compact(struct bytes message, struct command *out_command) {
    struct command command = {.type = COMMAND_COMPACT};
    uint64_t revision = 0;
    const struct etcd_error *error = etcd_request_number(message, &revision);
    command.compact.revision = (int64_t)revision;
    return end_command(error, &command, out_command);
}

/* --- Lease --- */

const struct etcd_error *etcd_request_grant(struct bytes message, struct command *out_command) {
    int64_t seconds = 0;
    struct command command = {.type = COMMAND_LEASE_GRANT};
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            seconds = pb_reader_int64(&reader);
            break;
        case 2:
            command.grant.id = pb_reader_int64(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return &etcd_error_malformed;
    }
    if (seconds > ETCD_TTL_SECONDS_MAX) {
        return etcd_error_of(STATUS_LEASE_TTL_TOO_LARGE);
    }
    if (seconds < ETCD_TTL_SECONDS_MIN) {
        seconds = ETCD_TTL_SECONDS_MIN;
    }
    command.grant.ttl_ms = seconds * 1000;
    *out_command = command;
    return NULL;
}

const struct etcd_error *etcd_request_revoke(struct bytes message, struct command *out_command) {
    struct command command = {.type = COMMAND_LEASE_REVOKE};
    uint64_t id = 0;
    const struct etcd_error *error = etcd_request_number(message, &id);
    command.revoke.id = (int64_t)id;
    return end_command(error, &command, out_command);
}

const struct etcd_error *etcd_request_time_to_live(struct bytes message,
                                                   struct etcd_time_to_live_request *out_request) {
    struct etcd_time_to_live_request request = {0};
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            request.id = pb_reader_int64(&reader);
            break;
        case 2:
            request.keys = pb_reader_bool(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (!reader.failed) {
        *out_request = request;
    }
    return read_end(&reader);
}

/* --- Maintenance --- */

const struct etcd_error *etcd_request_alarm(struct bytes message,
                                            struct etcd_alarm_request *out_request) {
    struct etcd_alarm_request request = {0};
    int32_t action = 0;
    int32_t alarm = 0;
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            action = pb_reader_enum(&reader);
            break;
        case 2:
            request.member_id = pb_reader_uint64(&reader);
            break;
        case 3:
            alarm = pb_reader_enum(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return &etcd_error_malformed;
    }
    bool action_is_known = action >= ETCD_ALARM_GET && action <= ETCD_ALARM_DEACTIVATE;
    bool alarm_is_known = alarm >= ALARM_NONE && alarm <= ALARM_CORRUPT;
    if (!action_is_known || !alarm_is_known) {
        return &etcd_error_alarm;
    }
    request.action = (enum etcd_alarm_action)action;
    request.alarm = (enum alarm_type)alarm;
    *out_request = request;
    return NULL;
}

/* --- Watch --- */

static void apply_filter(struct etcd_watch_request *request, int32_t filter) {
    request->without_puts |= filter == 0;
    request->without_deletes |= filter == 1;
}

/* A repeated enum comes packed (proto3) or one by one (older encoders). */
static void read_filters(struct pb_reader *reader, struct etcd_watch_request *request) {
    if (reader->wire_type != PB_BYTES) {
        apply_filter(request, pb_reader_enum(reader));
        return;
    }
    struct bytes packed = pb_reader_bytes(reader);
    struct pb_reader elements;
    pb_reader_init(&elements, packed);
    elements.wire_type = PB_VARINT;
    while (elements.at < elements.end) {
        apply_filter(request, pb_reader_enum(&elements));
    }
    reader->failed |= elements.failed;
}

static const struct etcd_error *read_create(struct bytes message,
                                            struct etcd_watch_request *request) {
    static const uint8_t smallest_key[1] = {0};
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            request->key = pb_reader_bytes(&reader);
            break;
        case 2:
            request->range_end = pb_reader_bytes(&reader);
            break;
        case 3:
            request->start_revision = pb_reader_int64(&reader);
            break;
        case 4:
            request->progress_notify = pb_reader_bool(&reader);
            break;
        case 5:
            read_filters(&reader, request);
            break;
        case 6:
            request->want_previous = pb_reader_bool(&reader);
            break;
        case 7:
            request->watch_id = pb_reader_int64(&reader);
            break;
        case 8:
            request->fragment = pb_reader_bool(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (request->key.size == 0) {
        request->key = bytes_of(smallest_key, sizeof smallest_key);
    }
    return reader.failed ? &etcd_error_malformed_stream : NULL;
}

const struct etcd_error *etcd_request_watch(struct bytes message,
                                            struct etcd_watch_request *out_request) {
    struct etcd_watch_request request = {.type = ETCD_WATCH_NOTHING};
    struct bytes body = {0};
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        /* One of the three: the last one counts. */
        if (reader.field >= 1 && reader.field <= 3) {
            request.type = (enum etcd_watch_request_type)reader.field;
            body = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return &etcd_error_malformed_stream;
    }
    const struct etcd_error *error = NULL;
    uint64_t number = 0;
    switch (request.type) {
    case ETCD_WATCH_CREATE:
        error = read_create(body, &request);
        break;
    case ETCD_WATCH_CANCEL:
        error = etcd_request_number(body, &number);
        request.watch_id = (int64_t)number;
        break;
    case ETCD_WATCH_PROGRESS:
    case ETCD_WATCH_NOTHING:
        break;
    }
    if (error != NULL) {
        return &etcd_error_malformed_stream;
    }
    *out_request = request;
    return NULL;
}
