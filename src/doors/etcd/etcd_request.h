/*
 * From the bytes of etcd's requests to what core understands. Pure: no network, no state, so that
 * a fuzzer reaches all of it. Everything returned borrows the bytes of the message.
 *
 * Each function returns NULL or the error to answer with; its output is written only on success.
 * Where a field comes twice the last one counts, as in etcd.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_REQUEST_H
#define LEASED_DOORS_ETCD_ETCD_REQUEST_H

#include "base/bytes.h"
#include "core/command.h"
#include "core/operation.h"
#include "doors/etcd/etcd_error.h"

/* The smallest TTL of this door; etcd's is 2 s. */
#define ETCD_TTL_SECONDS_MIN INT64_C(1)
#define ETCD_TTL_SECONDS_MAX INT64_C(9000000000)

struct etcd_range_request {
    struct range_request range;
    bool serializable;
};
const struct etcd_error *etcd_request_range(struct bytes message,
                                            struct etcd_range_request *out_request);

/* Commands, as they are to be submitted: command_check() is the service's. */
const struct etcd_error *etcd_request_put(struct bytes message, struct command *out_command);
const struct etcd_error *etcd_request_delete(struct bytes message, struct command *out_command);
const struct etcd_error *etcd_request_compact(struct bytes message, struct command *out_command);
const struct etcd_error *etcd_request_grant(struct bytes message, struct command *out_command);
const struct etcd_error *etcd_request_revoke(struct bytes message, struct command *out_command);

/* A request that is one number in field 1 (KeepAlive, HashKV, MoveLeader, members). */
const struct etcd_error *etcd_request_number(struct bytes message, uint64_t *out_number);

struct etcd_time_to_live_request {
    int64_t id;
    bool keys;
};
const struct etcd_error *etcd_request_time_to_live(struct bytes message,
                                                   struct etcd_time_to_live_request *out_request);

/* A change of the members: of a new one its peer URLs and its role, of another its id and, for an
 * update, its peer URLs. */
const struct etcd_error *etcd_request_member(struct bytes message, enum member_action action,
                                             struct member_facts *out_facts);

enum etcd_alarm_action { ETCD_ALARM_GET, ETCD_ALARM_ACTIVATE, ETCD_ALARM_DEACTIVATE };
struct etcd_alarm_request {
    enum etcd_alarm_action action;
    uint64_t member_id;
    enum alarm_type alarm;
};
const struct etcd_error *etcd_request_alarm(struct bytes message,
                                            struct etcd_alarm_request *out_request);

enum etcd_watch_request_type {
    ETCD_WATCH_NOTHING, /* an empty request: ignored, as etcd does */
    ETCD_WATCH_CREATE,
    ETCD_WATCH_CANCEL,
    ETCD_WATCH_PROGRESS
};
struct etcd_watch_request {
    enum etcd_watch_request_type type;
    int64_t watch_id; /* create: 0 lets the server choose */
    /* Of a creation. An empty key became one zero byte, the smallest key. */
    struct bytes key;
    struct bytes range_end;
    int64_t start_revision;
    bool progress_notify;
    bool want_previous;
    bool without_puts;
    bool without_deletes;
    bool fragment;
};
const struct etcd_error *etcd_request_watch(struct bytes message,
                                            struct etcd_watch_request *out_request);

/* For the parts of transactions. */
const struct etcd_error *etcd_request_put_body(struct bytes message, struct put_request *out_put);
const struct etcd_error *etcd_request_delete_body(struct bytes message,
                                                  struct delete_request *out_delete);

#endif
