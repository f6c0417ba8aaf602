/* Services and instances of others: what an operator asks for. All of these wait. */
#include "lease/lib_message.h"
#include "lease/lib_read.h"
#include "lease/lib_result.h"
#include "lease/lib_service_wire.h"

static const char no_registry[] = "etcd has no registry of services";

static bool read_info_item(struct arena *arena, struct bytes message, void *out) {
    return lib_service_read_info(arena, message, out);
}

static bool read_list(struct arena *arena, struct bytes message, void *out, void *context) {
    (void)context;
    struct lease_service_list *list = out;
    struct lib_array array;
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 3) {
            list->more = pb_reader_bool(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed || !lib_read_array(arena, message, 2, sizeof(struct lease_service_info),
                                         read_info_item, &array)) {
        return false;
    }
    list->items = array.items;
    list->n_items = array.n_items;
    return true;
}

enum lease_status lease_service_list(struct lease_connection *connection, const char *prefix,
                                     const char *after, uint32_t limit,
                                     const struct lease_service_list **out_list) {
    enum lease_status status = lib_need_native(connection, no_registry);
    if (status != LEASE_OK) {
        return status;
    }
    struct lib_request request = {.path = "/leased.v1.Registry/ListServices",
                                  .is_repeatable = true};
    lib_put_text(&request.message, 1, prefix);
    lib_put_text(&request.message, 2, after);
    lib_put_int(&request.message, 3, limit);
    return lib_look(connection, &request, sizeof **out_list, read_list, NULL,
                    (const void **)out_list);
}

enum lease_status lease_service_set(struct lease_connection *connection, const char *service,
                                    const struct lease_service_settings *settings) {
    enum lease_status status = lib_service_check_name("the name of a service", service);
    if (status == LEASE_OK) {
        status = lib_need_native(connection, no_registry);
    }
    if (status != LEASE_OK) {
        return status;
    }
    struct lib_request request = {.path = "/leased.v1.Registry/SetService", .is_repeatable = true};
    struct buffer message;
    buffer_init(&message);
    lib_put_int(&message, 1, settings->grace_ms);
    lib_put_int(&message, 2, settings->guard_percent);
    lib_put_int(&message, 3, settings->guard_minimum);
    lib_put_int(&message, 4, settings->guard_window_ms);
    lib_put_int(&message, 5, settings->guard_hold_ms);
    lib_put_text(&request.message, 1, service);
    lib_put_message(&request.message, 2, &message);
    buffer_clear(&message);
    return lib_tell(connection, &request);
}

/* A request that names an instance, whichever registration of it there is. */
static enum lease_status begin(struct lease_connection *connection, const char *service,
                               const char *id, struct lib_request *request) {
    enum lease_status status = lib_service_check_name("the name of a service", service);
    if (status == LEASE_OK) {
        status = lib_service_check_name("the id of an instance", id);
    }
    if (status == LEASE_OK) {
        status = lib_need_native(connection, no_registry);
    }
    if (status == LEASE_OK) {
        lib_put_text(&request->message, 1, service);
        lib_put_text(&request->message, 2, id);
    }
    return status;
}

enum lease_status lease_instance_override(struct lease_connection *connection, const char *service,
                                          const char *id, enum lease_instance_state state) {
    struct lib_request request = {.path = "/leased.v1.Registry/SetState", .is_repeatable = true};
    enum lease_status status = begin(connection, service, id, &request);
    if (status != LEASE_OK) {
        return status;
    }
    lib_put_int(&request.message, 4, state);
    lib_put_int(&request.message, 5, true);
    return lib_tell(connection, &request);
}

enum lease_status lease_instance_deregister(struct lease_connection *connection,
                                            const char *service, const char *id, int64_t drain_ms) {
    struct lib_request request = {.path = "/leased.v1.Registry/DeregisterInstance"};
    enum lease_status status = begin(connection, service, id, &request);
    if (status != LEASE_OK) {
        return status;
    }
    lib_put_int(&request.message, 4, drain_ms);
    return lib_tell(connection, &request);
}
