/* Resources, sessions and history, as one asks for them. */
#include "lease/lib_etcd_look.h"
#include "lease/lib_message.h"
#include "lease/lib_read.h"
#include "lease/lib_result.h"
#include "lease/lib_session.h"

#include <string.h>

/* ---- resources ---- */

static bool read_resource(struct arena *arena, struct bytes message, void *out, void *context) {
    struct lease_resource *resource = out;
    struct pb_reader reader;
    int64_t revision = 0;
    bool is_well = true;
    resource->name = "";
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            is_well &= lib_read_header(pb_reader_bytes(&reader), &revision);
        } else if (reader.field == 2) {
            is_well &= lib_read_resource(arena, pb_reader_bytes(&reader), resource);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (resource->name[0] == '\0') {
        resource->name = lib_read_text(arena, bytes_from_text(context));
    }
    resource->revision = revision;
    return is_well && !reader.failed;
}

static bool read_etcd_resource(struct arena *arena, struct bytes message, void *out,
                               void *context) {
    return lib_etcd_look_decode(arena, message, context, out);
}

enum lease_status lease_resource_get(struct lease_connection *connection, const char *resource,
                                     uint32_t n_waiters,
                                     const struct lease_resource **out_resource) {
    enum lease_protocol protocol;
    enum lease_status status = lib_check_name(resource);
    if (status == LEASE_OK) {
        status = lib_know_protocol(connection, &protocol);
    }
    if (status != LEASE_OK) {
        return status;
    }
    struct lib_request request = {.path = "/leased.v1.Resources/Get", .is_repeatable = true};
    lib_result_read *read = read_resource;
    if (protocol == LEASE_PROTOCOL_ETCD) {
        lib_etcd_look_encode(resource, n_waiters, &request);
        read = read_etcd_resource;
    } else {
        lib_put_text(&request.message, 1, resource);
        lib_put_int(&request.message, 2, n_waiters);
        lib_put_int(&request.message, 3, true);
    }
    return lib_look(connection, &request, sizeof **out_resource, read, (void *)resource,
                    (const void **)out_resource);
}

static bool read_resource_item(struct arena *arena, struct bytes message, void *out) {
    return lib_read_resource(arena, message, out);
}

/* The fields that are not arrays of a list's answer: its header and whether there is more. */
static bool read_more(struct bytes message, uint32_t field, bool *out_more, int64_t *out_revision) {
    struct pb_reader reader;
    bool is_well = true;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            is_well &= lib_read_header(pb_reader_bytes(&reader), out_revision);
        } else if (reader.field == field) {
            *out_more = pb_reader_bool(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return is_well && !reader.failed;
}

static bool read_resource_list(struct arena *arena, struct bytes message, void *out,
                               void *context) {
    (void)context;
    struct lease_resource_list *list = out;
    struct lib_array array;
    int64_t revision = 0;
    if (!read_more(message, 3, &list->more, &revision) ||
        !lib_read_array(arena, message, 2, sizeof(struct lease_resource), read_resource_item,
                        &array)) {
        return false;
    }
    struct lease_resource *items = array.items;
    for (size_t i = 0; i < array.n_items; i++) {
        items[i].revision = revision;
    }
    list->items = items;
    list->n_items = array.n_items;
    return true;
}

enum lease_status lease_resource_list(struct lease_connection *connection, const char *prefix,
                                      const char *after, uint32_t limit,
                                      const struct lease_resource_list **out_list) {
    enum lease_status status =
        lib_need_native(connection, "etcd does not know which of its keys are locks");
    if (status != LEASE_OK) {
        return status;
    }
    struct lib_request request = {.path = "/leased.v1.Resources/List", .is_repeatable = true};
    lib_put_text(&request.message, 1, prefix);
    lib_put_int(&request.message, 2, limit);
    lib_put_text(&request.message, 3, after);
    return lib_look(connection, &request, sizeof **out_list, read_resource_list, NULL,
                    (const void **)out_list);
}

/* ---- sessions ---- */

static bool read_session_item(struct arena *arena, struct bytes message, void *out) {
    return lib_read_session(arena, message, out);
}

static bool read_session_list(struct arena *arena, struct bytes message, void *out, void *context) {
    (void)context;
    struct lease_session_list *list = out;
    struct lib_array array;
    int64_t revision = 0;
    if (!read_more(message, 4, &list->more, &revision) ||
        !lib_read_array(arena, message, 2, sizeof(struct lease_session_info), read_session_item,
                        &array)) {
        return false;
    }
    list->items = array.items;
    list->n_items = array.n_items;
    return lib_read_acquisitions(arena, message, 3, &list->acquisitions, &list->n_acquisitions);
}

/* LeaseTimeToLiveResponse. */
static bool read_etcd_session(struct arena *arena, struct bytes message, void *out, void *context) {
    enum { MS_IN_S = 1000 };
    (void)context;
    struct lease_session_list *list = out;
    struct lease_session_info *info = arena_calloc(arena, 1, sizeof *info);
    struct pb_reader reader;
    int64_t left_s = -1;
    int64_t ttl_s = 0;
    *info = (struct lease_session_info){
        .owner = "", .note = "", .strategy = LEASE_STRATEGY_NEVER, .remaining_ms = -1};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 2:
            info->id = pb_reader_int64(&reader);
            break;
        case 3:
            left_s = pb_reader_int64(&reader);
            break;
        case 4:
            ttl_s = pb_reader_int64(&reader);
            break;
        case 5:
            info->n_acquisitions++;
            pb_reader_skip(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    int64_t most = LIB_KEEPER_TTL_MS_MAX / MS_IN_S;
    if (reader.failed || left_s > most || ttl_s > most) {
        return false;
    }
    if (left_s >= 0) {
        info->ttl_ms = ttl_s * MS_IN_S;
        info->remaining_ms = left_s * MS_IN_S;
        list->items = info;
        list->n_items = 1;
    }
    return true;
}

enum lease_status lease_session_get(struct lease_connection *connection, int64_t session_id,
                                    const struct lease_session_list **out_list) {
    enum lease_protocol protocol;
    enum lease_status status = lib_know_protocol(connection, &protocol);
    if (status != LEASE_OK) {
        return status;
    }
    bool is_etcd = protocol == LEASE_PROTOCOL_ETCD;
    struct lib_request request = {
        .path = is_etcd ? "/etcdserverpb.Lease/LeaseTimeToLive" : "/leased.v1.Sessions/Get",
        .is_repeatable = true,
    };
    lib_put_int(&request.message, 1, session_id);
    lib_put_int(&request.message, 2, is_etcd); /* with its keys */
    const struct lease_session_list *list = NULL;
    status = lib_look(connection, &request, sizeof *list,
                      is_etcd ? read_etcd_session : read_session_list, NULL, (const void **)&list);
    if (status == LEASE_OK && list->n_items == 0) {
        lease_free(list);
        return lib_error(LEASE_NOT_FOUND, "there is no such session, or it has ended");
    }
    if (status == LEASE_OK) {
        *out_list = list;
    }
    return status;
}

enum lease_status lease_session_list(struct lease_connection *connection, const char *owner_prefix,
                                     int64_t after_id, uint32_t limit, unsigned flags,
                                     const struct lease_session_list **out_list) {
    enum lease_status status =
        lib_need_native(connection, "etcd's leases have no owners and no list of what they have");
    if (status != LEASE_OK) {
        return status;
    }
    struct lib_request request = {.path = "/leased.v1.Sessions/List", .is_repeatable = true};
    lib_put_text(&request.message, 1, owner_prefix);
    lib_put_int(&request.message, 2, limit);
    lib_put_int(&request.message, 3, after_id);
    lib_put_int(&request.message, 4, (flags & LEASE_WITH_ACQUISITIONS) != 0);
    lib_put_int(&request.message, 5, (flags & LEASE_WITH_REMAINING) != 0);
    return lib_look(connection, &request, sizeof **out_list, read_session_list, NULL,
                    (const void **)out_list);
}

/* ---- what happened ---- */

static bool read_ended_item(struct arena *arena, struct bytes message, void *out) {
    return lib_read_ended(arena, message, out);
}

static bool read_history(struct arena *arena, struct bytes message, void *out, void *context) {
    (void)context;
    struct lease_history *history = out;
    struct lib_array ended;
    struct lib_array sessions;
    if (!lib_read_array(arena, message, 2, sizeof(struct lease_ended), read_ended_item, &ended) ||
        !lib_read_acquisitions(arena, message, 3, &history->holders, &history->n_holders) ||
        !lib_read_array(arena, message, 4, sizeof(struct lease_session_info), read_session_item,
                        &sessions)) {
        return false;
    }
    history->ended = ended.items;
    history->n_ended = ended.n_items;
    history->session = sessions.n_items > 0 ? sessions.items : NULL;
    return true;
}

enum lease_status lease_why(struct lease_connection *connection,
                            const struct lease_why_query *query,
                            const struct lease_history **out_history) {
    struct lease_why_query known = {0};
    memcpy(&known, query, query->size < sizeof known ? query->size : sizeof known);
    int n_given = (known.resource != NULL) + (known.pool != NULL) + (known.session_id != 0) +
                  (known.acquisition_id != 0);
    if (n_given != 1) {
        return lib_error(LEASE_INVALID, "one of a resource, a pool, a session and an acquisition");
    }
    enum lease_status status = lib_need_native(connection, "etcd does not remember what has ended");
    if (status != LEASE_OK) {
        return status;
    }
    struct lib_request request = {.path = "/leased.v1.History/Why", .is_repeatable = true};
    lib_put_text(&request.message, 1, known.resource);
    lib_put_text(&request.message, 2, known.pool);
    lib_put_int(&request.message, 3, known.session_id);
    lib_put_int(&request.message, 4, known.acquisition_id);
    lib_put_int(&request.message, 5, known.limit);
    return lib_look(connection, &request, sizeof **out_history, read_history, NULL,
                    (const void **)out_history);
}
