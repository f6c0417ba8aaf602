/* Sessions in the words of leased.v1 and, as leases, of etcd. */
#include "lease/lib_message.h"
#include "lease/lib_session.h"

enum { MS_IN_S = 1000 };

void lib_session_encode_plan(const struct lib_session_plan *plan, struct buffer *out_message) {
    lib_put_text(out_message, 1, plan->owner);
    lib_put_int(out_message, 2, plan->ttl_ms);
    lib_put_int(out_message, 3, plan->lease_class);
    /* NEVER is the protocol's NONE. */
    lib_put_int(out_message, 4,
                plan->strategy == LEASE_STRATEGY_NEVER ? 0 : (int64_t)plan->strategy);
    lib_put_text(out_message, 5, plan->note);
    lib_put_int(out_message, 7, plan->parent_id);
}

void lib_session_encode_create(enum lease_protocol protocol, const struct lib_session_plan *plan,
                               struct lib_request *out_request) {
    buffer_init(&out_request->message);
    out_request->is_repeatable = false;
    if (protocol == LEASE_PROTOCOL_ETCD) {
        out_request->path = "/etcdserverpb.Lease/LeaseGrant";
        lib_put_int(&out_request->message, 1,
                    plan->ttl_ms / MS_IN_S + (plan->ttl_ms % MS_IN_S > 0));
        return;
    }
    out_request->path = "/leased.v1.Sessions/Create";
    lib_session_encode_plan(plan, &out_request->message);
}

/* Session, of leased.v1. */
static bool decode_session(struct bytes message, int64_t *out_id, int64_t *out_ttl_ms) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            *out_id = pb_reader_int64(&reader);
            break;
        case 3:
            *out_ttl_ms = pb_reader_int64(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

bool lib_session_decode_create(enum lease_protocol protocol, struct bytes message, int64_t *out_id,
                               int64_t *out_ttl_ms) {
    struct pb_reader reader;
    int64_t id = 0;
    int64_t ttl = 0;
    bool is_well = true;
    bool is_etcd = protocol == LEASE_PROTOCOL_ETCD;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 2 && is_etcd) {
            id = pb_reader_int64(&reader);
        } else if (reader.field == 2) {
            is_well = decode_session(pb_reader_bytes(&reader), &id, &ttl) && is_well;
        } else if (reader.field == 3 && is_etcd) {
            ttl = pb_reader_int64(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (is_etcd && ttl > LIB_KEEPER_TTL_MS_MAX / MS_IN_S) {
        ttl = LIB_KEEPER_TTL_MS_MAX / MS_IN_S;
    }
    if (reader.failed || !is_well || id == 0 || ttl <= 0) {
        return false;
    }
    *out_id = id;
    *out_ttl_ms = is_etcd ? ttl * MS_IN_S : ttl;
    return true;
}

void lib_session_encode_end(enum lease_protocol protocol, int64_t id,
                            struct lib_request *out_request) {
    bool is_etcd = protocol == LEASE_PROTOCOL_ETCD;
    buffer_init(&out_request->message);
    out_request->is_repeatable = true;
    out_request->path = is_etcd ? "/etcdserverpb.Lease/LeaseRevoke" : "/leased.v1.Sessions/End";
    lib_put_int(&out_request->message, 1, id);
}

void lib_session_encode_renewal(enum lease_protocol protocol, int64_t id, uint64_t sequence,
                                struct buffer *out_message) {
    lib_put_int(out_message, 1, id);
    if (protocol != LEASE_PROTOCOL_ETCD) {
        lib_put_int(out_message, 2, (int64_t)sequence);
    }
}

bool lib_session_decode_renewal(enum lease_protocol protocol, struct bytes message,
                                struct lib_renewal *out_renewal) {
    bool is_etcd = protocol == LEASE_PROTOCOL_ETCD;
    struct lib_renewal renewal = {0};
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 2) {
            renewal.id = pb_reader_int64(&reader);
        } else if (reader.field == 3 && is_etcd) {
            int64_t ttl = pb_reader_int64(&reader);
            int64_t most = LIB_KEEPER_TTL_MS_MAX / MS_IN_S;
            renewal.ttl_ms = (ttl > most ? most : ttl < 0 ? 0 : ttl) * MS_IN_S;
        } else if (reader.field == 3) {
            renewal.sequence = pb_reader_uint64(&reader);
        } else if (reader.field == 4 && !is_etcd) {
            renewal.ttl_ms = pb_reader_int64(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    *out_renewal = renewal;
    return !reader.failed;
}
