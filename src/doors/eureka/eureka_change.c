/* What changes an instance beside its heartbeat: its end, its status, its metadata. Operators do
 * it as well as the instance, to instances of every protocol. */
#include "doors/eureka/eureka_instance.h"
#include "doors/eureka/eureka_internal.h"
#include "registry/registry_rules.h"

/* The request with its application in the registry's spelling; NULL: it is answered. */
static struct eureka_request *begin(struct http_exchange *exchange,
                                    struct registry_entry *out_entry) {
    if (eureka_http_is_replication(exchange)) {
        return NULL;
    }
    struct eureka_request *request = eureka_request_create(exchange);
    *out_entry = (struct registry_entry){0};
    if (request != NULL) {
        eureka_door_note(request->door);
        (void)eureka_request_find(request, out_entry);
    }
    return request;
}

static void changed(struct eureka_request *request, enum status status) {
    if (status != STATUS_OK) {
        eureka_request_fail_status(request, status);
        return;
    }
    eureka_request_finish(request, 200);
}

/* --- Cancel. --- */

static void canceled(struct eureka_request *request, enum status status) {
    request->door->counters[EUREKA_COUNT_CANCEL] += status == STATUS_OK;
    changed(request, status);
}

void eureka_on_cancel(struct http_exchange *exchange) {
    struct registry_entry entry;
    struct buffer body;
    struct eureka_request *request = begin(exchange, &entry);
    if (request == NULL) {
        return;
    }
    buffer_init(&body);
    registry_deregister_encode(
        &body, &(struct registry_deregister){.service = request->service_name, .id = request->id});
    eureka_request_submit(request, REGISTRY_RULE_DEREGISTER, &body, canceled);
    buffer_clear(&body);
}

/* --- Status. --- */

static void set_state(struct eureka_request *request, bool is_override, enum registry_state state,
                      void (*next)(struct eureka_request *request, enum status status)) {
    struct buffer body;
    buffer_init(&body);
    registry_set_state_encode(&body, &(struct registry_set_state){.service = request->service_name,
                                                                  .id = request->id,
                                                                  .is_override = is_override,
                                                                  .state = (uint8_t)state});
    request->door->counters[EUREKA_COUNT_STATUS]++;
    eureka_request_submit(request, REGISTRY_RULE_SET_STATE, &body, next);
    buffer_clear(&body);
}

/* False: it was answered. Left out it is EUREKA_UNKNOWN. */
static bool read_value(struct http_exchange *exchange, enum eureka_status *out_status) {
    struct bytes value;
    *out_status = EUREKA_UNKNOWN;
    if (http_query(exchange, "value", &value) && !eureka_status_read(value, out_status)) {
        eureka_http_error(exchange, 400,
                          "value is not UP, DOWN, STARTING, OUT_OF_SERVICE or UNKNOWN");
        return false;
    }
    return true;
}

void eureka_on_status(struct http_exchange *exchange) {
    struct registry_entry entry;
    enum eureka_status status;
    struct bytes ignored;
    if (!http_query(exchange, "value", &ignored)) {
        eureka_http_error(exchange, 400, "the parameter value is missing");
        return;
    }
    if (!read_value(exchange, &status)) {
        return;
    }
    struct eureka_request *request = begin(exchange, &entry);
    if (request != NULL) {
        set_state(request, true, eureka_status_state(status), changed);
    }
}

static void own_state_set(struct eureka_request *request, enum status status) {
    if (status != STATUS_OK) {
        eureka_request_fail_status(request, status);
        return;
    }
    set_state(request, true, REGISTRY_STATE_NONE, changed);
}

/* The instance's own status counts again; with a value it has that one from now on. */
void eureka_on_delete_status(struct http_exchange *exchange) {
    struct registry_entry entry;
    enum eureka_status status;
    if (!read_value(exchange, &status)) {
        return;
    }
    struct eureka_request *request = begin(exchange, &entry);
    if (request == NULL) {
        return;
    }
    enum registry_state state = eureka_status_state(status);
    if (state != REGISTRY_STATE_NONE && state != entry.instance.state) {
        set_state(request, false, state, own_state_set);
    } else {
        set_state(request, true, REGISTRY_STATE_NONE, changed);
    }
}

/* --- Metadata. --- */

void eureka_on_metadata(struct http_exchange *exchange) {
    struct registry_pair pairs[REGISTRY_PAIRS_MAX];
    struct registry_entry entry;
    struct http_field field;
    struct buffer body;
    size_t position = 0;
    size_t n = 0;
    while (http_next_query(exchange, &position, &field)) {
        if (n == REGISTRY_PAIRS_MAX) {
            eureka_http_error(exchange, 400, "more than 64 pairs");
            return;
        }
        pairs[n++] = (struct registry_pair){.key = field.name, .value = field.value};
    }
    struct eureka_request *request = begin(exchange, &entry);
    if (request == NULL) {
        return;
    }
    request->door->counters[EUREKA_COUNT_METADATA]++;
    buffer_init(&body);
    registry_set_metadata_encode(
        &body,
        &(struct registry_set_metadata){
            .service = request->service_name, .id = request->id, .n_pairs = n, .pairs = pairs});
    eureka_request_submit(request, REGISTRY_RULE_SET_METADATA, &body, changed);
    buffer_clear(&body);
}
