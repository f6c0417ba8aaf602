/* The Lease service but for its stream (etcd_keepalive.c). Seconds on this side, milliseconds
 * behind. */
#include "doors/etcd/etcd_lease.h"

#include "doors/etcd/etcd_call.h"
#include "doors/etcd/etcd_lease_read.h"
#include "doors/etcd/etcd_long_read.h"
#include "doors/etcd/etcd_request.h"

#include <stdlib.h>

int64_t etcd_ttl_seconds(int64_t ttl_ms) {
    if (ttl_ms >= LEASE_TTL_MS_MAX) {
        return ETCD_TTL_SECONDS_MAX;
    }
    int64_t seconds = ttl_ms / 1000;
    return seconds < ETCD_TTL_SECONDS_MIN ? ETCD_TTL_SECONDS_MIN : seconds;
}

/* etcd cuts nanoseconds to seconds, and some have always passed. A remaining time of whole
 * milliseconds stands for anything down to the millisecond before. */
static int64_t remaining_seconds(int64_t remaining_ms) {
    if (remaining_ms >= LEASE_TTL_MS_MAX) {
        return ETCD_TTL_SECONDS_MAX;
    }
    return remaining_ms <= 0 ? 0 : (remaining_ms - 1) / 1000;
}

/* --- Grant, Revoke. --- */

static void reply_grant(struct etcd_call *waiting, const struct outcome *outcome) {
    struct etcd_header header = etcd_header_at(waiting->door, outcome->revision);
    int64_t id = outcome->grant.id;
    int64_t ttl = etcd_ttl_seconds(outcome->grant.ttl_ms);
    size_t size = etcd_header_size(&header) + pb_int64_size(2, id) + pb_int64_size(3, ttl);
    struct pb_writer writer;
    if (etcd_answer_begin(waiting->call, size, &writer)) {
        etcd_header_write(&writer, &header);
        pb_write_int64(&writer, 2, id);
        pb_write_int64(&writer, 3, ttl);
        etcd_answer_finish(waiting->call, &writer);
    }
}

static void on_grant(struct grpc_call *call, struct bytes message) {
    struct command command;
    if (etcd_call_refused(call)) {
        return;
    }
    const struct etcd_error *error = etcd_request_grant(message, &command);
    if (error != NULL) {
        etcd_error_finish(call, error);
    } else {
        (void)etcd_call_submit(call, &command, reply_grant);
    }
}

static void reply_revoke(struct etcd_call *waiting, const struct outcome *outcome) {
    etcd_answer_header(waiting->call, etcd_header_at(waiting->door, outcome->revision));
}

static void on_revoke(struct grpc_call *call, struct bytes message) {
    struct command command;
    if (etcd_call_refused(call)) {
        return;
    }
    const struct etcd_error *error = etcd_request_revoke(message, &command);
    if (error != NULL) {
        etcd_error_finish(call, error);
    } else {
        (void)etcd_call_submit(call, &command, reply_revoke);
    }
}

/* --- TimeToLive. --- */

struct time_to_live {
    struct etcd_header header;
    int64_t id;
    int64_t ttl;
    int64_t granted_ttl;
    const struct record *keys; /* linked by lease_next; some may be of other spaces */
};

static const struct record *skip_other_spaces(const struct record *key) {
    while (key != NULL && !key_space_equal(record_space(key), KEY_SPACE_ETCD)) {
        key = key->lease_next;
    }
    return key;
}

static const struct record *first_key(const struct time_to_live *answer) {
    return skip_other_spaces(answer->keys);
}

static const struct record *next_key(const struct record *key) {
    return skip_other_spaces(key->lease_next);
}

static size_t time_to_live_size(const struct time_to_live *answer) {
    size_t size = etcd_header_size(&answer->header) + pb_int64_size(2, answer->id) +
                  pb_int64_size(3, answer->ttl) + pb_int64_size(4, answer->granted_ttl);
    for (const struct record *key = first_key(answer); key != NULL; key = next_key(key)) {
        size += pb_message_size(5, record_key(key).size);
    }
    return size;
}

static void time_to_live_send(struct grpc_call *call, const struct time_to_live *answer) {
    struct pb_writer writer;
    if (!etcd_answer_begin(call, time_to_live_size(answer), &writer)) {
        return;
    }
    etcd_header_write(&writer, &answer->header);
    pb_write_int64(&writer, 2, answer->id);
    pb_write_int64(&writer, 3, answer->ttl);
    pb_write_int64(&writer, 4, answer->granted_ttl);
    for (const struct record *key = first_key(answer); key != NULL; key = next_key(key)) {
        pb_write_element(&writer, 5, record_key(key));
    }
    etcd_answer_finish(call, &writer);
}

static bool has_many_keys(const struct lease_table *leases, int64_t id) {
    const struct record *key = lease_table_first_key(leases, id);
    size_t bytes = 0;
    for (size_t n = 0; key != NULL; key = key->lease_next) {
        bytes += key->key_size;
        if (++n > ETCD_SHORT_READ_RECORDS_MAX || bytes > ETCD_SHORT_READ_BYTES_MAX) {
            return true;
        }
    }
    return false;
}

static void time_to_live_answered(struct grpc_call *call, struct bytes message, enum status status,
                                  int64_t remaining_ms) {
    struct etcd_door *door = etcd_door_of(call);
    const struct lease_table *leases = state_view_leases(service_view(door->service));
    struct etcd_time_to_live_request request;
    if (etcd_request_time_to_live(message, &request) != NULL) {
        return; /* it was readable when it came */
    }
    struct time_to_live answer = {.header = etcd_header_now(door), .id = request.id, .ttl = -1};
    struct lease_facts facts;
    if (status == STATUS_OK && lease_table_find(leases, request.id, &facts) &&
        key_space_equal(facts.owner, KEY_SPACE_ETCD)) {
        answer.ttl = remaining_seconds(remaining_ms);
        answer.granted_ttl = etcd_ttl_seconds(facts.ttl_ms);
        if (request.keys && has_many_keys(leases, request.id)) {
            etcd_lease_keys_start(
                call, &(struct etcd_lease_known){
                          .id = request.id, .ttl = answer.ttl, .granted_ttl = answer.granted_ttl});
            return;
        }
        answer.keys = request.keys ? lease_table_first_key(leases, request.id) : NULL;
    }
    time_to_live_send(call, &answer);
}

static void time_to_live_ready(struct grpc_call *call, struct bytes message) {
    struct etcd_time_to_live_request request;
    const struct etcd_error *error = etcd_request_time_to_live(message, &request);
    if (error != NULL) {
        etcd_error_finish(call, error);
        return;
    }
    etcd_call_ask_time_left(call, message, request.id, request.keys, time_to_live_answered);
}

static void on_time_to_live(struct grpc_call *call, struct bytes message) {
    if (!etcd_call_refused(call)) {
        etcd_call_read(call, message, NULL, 0, time_to_live_ready);
    }
}

/* --- Leases. --- */

struct lease_due {
    uint64_t due_ms;
    int64_t id;
};

static int compare_due(const void *a, const void *b) {
    const struct lease_due *first = a;
    const struct lease_due *second = b;
    if (first->due_ms != second->due_ms) {
        return first->due_ms < second->due_ms ? -1 : 1;
    }
    return (first->id > second->id) - (first->id < second->id);
}

/* etcd lists the leases that end first, first. */
static struct lease_due *leases_by_due(const struct lease_table *leases, size_t *out_n) {
    int64_t *ids = lease_table_ids(leases, out_n);
    struct lease_due *dues = calloc(*out_n > 0 ? *out_n : 1, sizeof *dues);
    size_t n = 0;
    for (size_t i = 0; dues != NULL && i < *out_n; i++) {
        struct lease_facts facts;
        if (lease_table_find(leases, ids[i], &facts) &&
            key_space_equal(facts.owner, KEY_SPACE_ETCD)) {
            dues[n++] = (struct lease_due){lease_table_due_ms(leases, ids[i]), ids[i]};
        }
    }
    free(ids);
    *out_n = n;
    if (dues != NULL) {
        qsort(dues, *out_n, sizeof *dues, compare_due);
    }
    return dues;
}

static void leases_ready(struct grpc_call *call, struct bytes message) {
    (void)message; /* has no fields */
    struct etcd_door *door = etcd_door_of(call);
    const struct lease_table *leases = state_view_leases(service_view(door->service));
    if (lease_table_count(leases) > ETCD_SHORT_READ_RECORDS_MAX) {
        etcd_lease_list_start(call);
        return;
    }
    size_t n;
    struct lease_due *dues = leases_by_due(leases, &n);
    if (dues == NULL) {
        etcd_error_finish(call, etcd_error_of(STATUS_NO_MEMORY));
        return;
    }
    struct etcd_header header = etcd_header_now(door);
    size_t size = etcd_header_size(&header);
    for (size_t i = 0; i < n; i++) {
        size += pb_message_size(2, pb_int64_size(1, dues[i].id));
    }
    struct pb_writer writer;
    if (etcd_answer_begin(call, size, &writer)) {
        etcd_header_write(&writer, &header);
        for (size_t i = 0; i < n; i++) {
            pb_write_message(&writer, 2, pb_int64_size(1, dues[i].id));
            pb_write_int64(&writer, 1, dues[i].id);
        }
        etcd_answer_finish(call, &writer);
    }
    free(dues);
}

static void on_leases(struct grpc_call *call, struct bytes message) {
    if (!etcd_call_refused(call)) {
        etcd_call_read(call, message, NULL, 0, leases_ready);
    }
}

static const struct grpc_method methods[] = {
    {.path = "/etcdserverpb.Lease/LeaseGrant",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_grant,
     .on_close = etcd_call_closed},
    {.path = "/etcdserverpb.Lease/LeaseRevoke",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_revoke,
     .on_close = etcd_call_closed},
    {.path = "/etcdserverpb.Lease/LeaseTimeToLive",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_time_to_live,
     .on_writable = etcd_call_writable,
     .on_close = etcd_call_closed},
    {.path = "/etcdserverpb.Lease/LeaseLeases",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_leases,
     .on_writable = etcd_call_writable,
     .on_close = etcd_call_closed},
};
const struct etcd_methods etcd_lease_methods = {methods, sizeof methods / sizeof methods[0]};
