#include "lease/lib_etcd_wire.h"

#include "lease/lib_message.h"
#include "lease/lib_read.h"

enum {
    SORT_BY_CREATE = 2,
    SORT_BY_MOD = 3,
    COMPARE_EQUAL = 0,
    COMPARE_LESS = 2,
    TARGET_CREATE = 1,
    TARGET_VALUE = 3
};

void lib_etcd_encode_range(const struct lib_etcd_range *range, struct buffer *out_message) {
    lib_put_bytes(out_message, 1, range->key);
    lib_put_bytes(out_message, 2, range->end);
    lib_put_int(out_message, 3, range->limit);
    if (range->order != 0) {
        lib_put_int(out_message, 5, range->order);
        lib_put_int(out_message, 6, range->is_by_mod_revision ? SORT_BY_MOD : SORT_BY_CREATE);
    }
    lib_put_int(out_message, 8, range->keys_only);
    lib_put_int(out_message, 13, range->create_revision_max);
}

/* ---- transactions ---- */

void lib_etcd_txn_if_created(struct lib_etcd_txn *txn, struct bytes key, int64_t revision) {
    struct buffer compare;
    buffer_init(&compare);
    lib_put_int(&compare, 1, COMPARE_EQUAL);
    lib_put_int(&compare, 2, TARGET_CREATE);
    lib_put_bytes(&compare, 3, key);
    /* One of a oneof is written even when it is 0. */
    buffer_put_varint(&compare, 5 << 3 | PB_VARINT);
    buffer_put_varint(&compare, (uint64_t)revision);
    lib_put_message(&txn->message, 1, &compare);
    buffer_clear(&compare);
}

void lib_etcd_txn_if_less(struct lib_etcd_txn *txn, struct bytes key, struct bytes value) {
    struct buffer compare;
    buffer_init(&compare);
    lib_put_int(&compare, 1, COMPARE_LESS);
    lib_put_int(&compare, 2, TARGET_VALUE);
    lib_put_bytes(&compare, 3, key);
    lib_put_bytes(&compare, 7, value);
    lib_put_message(&txn->message, 1, &compare);
    buffer_clear(&compare);
}

static void put_operation(struct lib_etcd_txn *txn, enum lib_etcd_branch branch, uint32_t kind,
                          struct buffer *operation) {
    struct buffer wrapped;
    buffer_init(&wrapped);
    lib_put_message(&wrapped, kind, operation);
    lib_put_message(&txn->message, branch, &wrapped);
    buffer_clear(&wrapped);
    buffer_clear(operation);
}

void lib_etcd_txn_range(struct lib_etcd_txn *txn, enum lib_etcd_branch branch,
                        const struct lib_etcd_range *range) {
    struct buffer operation;
    buffer_init(&operation);
    lib_etcd_encode_range(range, &operation);
    put_operation(txn, branch, 1, &operation);
}

void lib_etcd_txn_put(struct lib_etcd_txn *txn, enum lib_etcd_branch branch, struct bytes key,
                      struct bytes value, int64_t lease) {
    struct buffer operation;
    buffer_init(&operation);
    lib_put_bytes(&operation, 1, key);
    lib_put_bytes(&operation, 2, value);
    lib_put_int(&operation, 3, lease);
    put_operation(txn, branch, 2, &operation);
}

void lib_etcd_txn_delete(struct lib_etcd_txn *txn, enum lib_etcd_branch branch, struct bytes key) {
    struct buffer operation;
    buffer_init(&operation);
    lib_put_bytes(&operation, 1, key);
    put_operation(txn, branch, 3, &operation);
}

void lib_etcd_txn_nest(struct lib_etcd_txn *txn, enum lib_etcd_branch branch,
                       struct lib_etcd_txn *inner) {
    put_operation(txn, branch, 4, &inner->message);
}

void lib_etcd_txn_finish(struct lib_etcd_txn *txn, bool is_repeatable,
                         struct lib_request *out_request) {
    *out_request = (struct lib_request){
        .path = "/etcdserverpb.KV/Txn",
        .is_repeatable = is_repeatable,
        .message = txn->message,
    };
    buffer_init(&txn->message);
}

void lib_etcd_encode_removal(const char *key, struct lib_request *out_request) {
    struct lib_etcd_txn txn = {0};
    lib_etcd_txn_delete(&txn, LIB_ETCD_THEN, bytes_from_text(key));
    lib_etcd_txn_finish(&txn, true, out_request);
}

/* ---- answers ---- */

static bool read_key(struct arena *arena, struct bytes message, void *out) {
    (void)arena;
    struct lib_etcd_key *key = out;
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            key->key = pb_reader_bytes(&reader);
            break;
        case 2:
            key->create_revision = pb_reader_int64(&reader);
            break;
        case 3:
            key->mod_revision = pb_reader_int64(&reader);
            break;
        case 5:
            key->value = pb_reader_bytes(&reader);
            break;
        case 6:
            key->lease = pb_reader_int64(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

bool lib_etcd_decode_range(struct arena *arena, struct bytes message, struct lib_etcd_keys *out,
                           int64_t *out_revision) {
    struct lib_array keys;
    struct pb_reader reader;
    bool is_well = true;
    *out = (struct lib_etcd_keys){0};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1 && out_revision != NULL) {
            is_well &= lib_read_header(pb_reader_bytes(&reader), out_revision);
        } else if (reader.field == 4) {
            out->count = pb_reader_int64(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed || !is_well ||
        !lib_read_array(arena, message, 2, sizeof(struct lib_etcd_key), read_key, &keys)) {
        return false;
    }
    out->items = keys.items;
    out->n_items = keys.n_items;
    return true;
}

static bool read_inner(struct arena *arena, struct bytes message, struct lib_etcd_outcome *out) {
    struct pb_reader reader;
    bool is_well = true;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 2) {
            out->inner_succeeded = pb_reader_bool(&reader);
        } else if (reader.field == 3) {
            struct pb_reader response;
            pb_reader_init(&response, pb_reader_bytes(&reader));
            if (pb_reader_next(&response) && response.field == 1) {
                is_well &= lib_etcd_decode_range(arena, pb_reader_bytes(&response),
                                                 &out->inner_range, NULL);
            }
        } else {
            pb_reader_skip(&reader);
        }
    }
    return is_well && !reader.failed;
}

static bool read_response(struct arena *arena, struct bytes message, struct lib_etcd_outcome *out) {
    struct pb_reader reader;
    bool is_well = true;
    if (out->n_responses == LIB_ETCD_RESPONSES_MAX) {
        return false;
    }
    struct lib_etcd_keys *keys = &out->ranges[out->n_responses++];
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            is_well &= lib_etcd_decode_range(arena, pb_reader_bytes(&reader), keys, NULL);
        } else if (reader.field == 4) {
            is_well &= read_inner(arena, pb_reader_bytes(&reader), out);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return is_well && !reader.failed;
}

bool lib_etcd_decode_txn(struct arena *arena, struct bytes message, struct lib_etcd_outcome *out) {
    struct pb_reader reader;
    bool is_well = true;
    *out = (struct lib_etcd_outcome){0};
    pb_reader_init(&reader, message);
    while (is_well && pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            is_well = lib_read_header(pb_reader_bytes(&reader), &out->revision);
            break;
        case 2:
            out->succeeded = pb_reader_bool(&reader);
            break;
        case 3:
            is_well = read_response(arena, pb_reader_bytes(&reader), out);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    return is_well && !reader.failed;
}

/* ---- watches ---- */

void lib_etcd_encode_watch(struct bytes key, struct bytes end, int64_t start_revision,
                           bool deletes_only, struct buffer *out_message) {
    struct buffer create;
    buffer_init(&create);
    lib_put_bytes(&create, 1, key);
    lib_put_bytes(&create, 2, end);
    lib_put_int(&create, 3, start_revision);
    if (deletes_only) {
        const uint8_t no_puts = 0;
        lib_put_bytes(&create, 5, bytes_of(&no_puts, 1)); /* packed */
    }
    lib_put_message(out_message, 1, &create);
    buffer_clear(&create);
}

bool lib_etcd_decode_watch(struct bytes message, struct lib_etcd_event *out) {
    struct pb_reader reader;
    struct pb_reader event;
    *out = (struct lib_etcd_event){0};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 4) {
            out->is_canceled = pb_reader_bool(&reader);
        } else if (reader.field == 11) {
            out->has_events = true;
            pb_reader_init(&event, pb_reader_bytes(&reader));
            while (pb_reader_next(&event)) {
                if (event.field == 1) {
                    out->has_delete |= pb_reader_enum(&event) == 1;
                } else {
                    pb_reader_skip(&event);
                }
            }
            if (event.failed) {
                return false;
            }
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

static bool read_event(struct bytes message, lib_etcd_take_event *take, void *context) {
    struct lib_etcd_key key = {0};
    struct pb_reader reader;
    bool is_delete = false;
    bool is_well = true;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            is_delete = pb_reader_enum(&reader) == 1;
        } else if (reader.field == 2) {
            is_well &= read_key(NULL, pb_reader_bytes(&reader), &key);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed || !is_well) {
        return false;
    }
    take(context, is_delete, &key);
    return true;
}

bool lib_etcd_each_event(struct bytes message, lib_etcd_take_event *take, void *context) {
    struct pb_reader reader;
    bool is_well = true;
    pb_reader_init(&reader, message);
    while (is_well && pb_reader_next(&reader)) {
        if (reader.field == 11) {
            is_well = read_event(pb_reader_bytes(&reader), take, context);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return is_well && !reader.failed;
}
