/* GET of one instance, by application and id, or by its id alone. */
#include "doors/eureka/eureka_document.h"
#include "doors/eureka/eureka_internal.h"
#include "registry/registry_keys.h"

/* In looks at a record (see service_allow_work()). */
enum { WORK_AN_INSTANCE = 16 };

static void reply(struct eureka_request *request, const struct registry_entry *entry) {
    struct eureka_instance instance;
    struct eureka_writer writer;
    struct buffer document;
    struct http_exchange *exchange = request->exchange;
    enum eureka_format format = eureka_http_format(exchange);
    eureka_instance_show(entry, &request->arena, &instance);
    buffer_init(&document);
    eureka_writer_init(&writer, &document, format);
    eureka_document_instance(&writer, &instance);
    request->door->counters[EUREKA_COUNT_INSTANCE]++;
    eureka_request_answer(request, format, bytes_of(document.data, document.size));
    buffer_clear(&document);
}

static void not_found(struct eureka_request *request) {
    eureka_request_fail(request, 404, "not registered");
}

/* --- By application and id. --- */

static void show(struct eureka_request *request, enum status status) {
    struct registry_entry entry;
    if (status != STATUS_OK) {
        eureka_request_fail_status(request, status);
    } else if (request->exchange == NULL || !eureka_request_find(request, &entry)) {
        not_found(request);
    } else {
        reply(request, &entry);
    }
}

void eureka_on_instance(struct http_exchange *exchange) {
    struct registry_entry ignored;
    struct eureka_request *request = eureka_request_create(exchange);
    if (request == NULL) {
        return;
    }
    /* Under which name it is registered decides which right is needed. */
    (void)eureka_request_find(request, &ignored);
    struct key_range range = registry_service_range(&request->arena, request->service_name);
    eureka_request_read(request, &range, show);
}

/* --- By its id alone. --- */

struct search {
    struct eureka_request *request;
    enum status status; /* of the last that was found */
    struct registry_entry entry;
};

/* The first that the caller may read. */
static bool meet(void *context, const struct registry_entry *entry) {
    struct search *search = context;
    struct eureka_request *request = search->request;
    struct key_range range = registry_service_range(&request->arena, entry->instance.service);
    search->status = service_read_local(request->door->service, &request->caller, &range, 1);
    search->entry = *entry;
    return search->status != STATUS_OK;
}

static void show_by_id(struct eureka_request *request, enum status status) {
    struct search search = {.request = request, .status = STATUS_KEY_NOT_FOUND};
    if (status != STATUS_OK) {
        eureka_request_fail_status(request, status);
        return;
    }
    const struct key_store *keys = eureka_door_keys(request->door);
    struct key_range range = registry_index_range(&request->arena, request->id);
    size_t n = key_store_count(keys, range.space, range.key, range.range_end);
    if (!service_allow_work(request->door->service, n * WORK_AN_INSTANCE)) {
        eureka_request_fail_status(request, STATUS_TOO_MANY_REQUESTS);
        return;
    }
    (void)registry_view_visit_id(keys, &request->arena, request->id, meet, &search);
    if (request->exchange == NULL || search.status == STATUS_KEY_NOT_FOUND) {
        not_found(request);
    } else if (search.status != STATUS_OK) {
        eureka_request_fail_status(request, search.status);
    } else {
        reply(request, &search.entry);
    }
}

void eureka_on_instance_by_id(struct http_exchange *exchange) {
    struct eureka_request *request = eureka_request_create(exchange);
    if (request != NULL) {
        eureka_request_read(request, NULL, show_by_id);
    }
}
