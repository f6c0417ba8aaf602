/* The methods that look: instances of a service, services, what happened. */
#include "base/pb_append.h"
#include "doors/registry/registry_api_call.h"
#include "doors/registry/registry_api_request.h"
#include "doors/registry/registry_api_show.h"
#include "registry/registry_keys.h"

#include <stdlib.h>
#include <string.h>

/* --- Discover. --- */

enum { ENTRIES_FIRST = 64 };

struct gathering {
    struct arena *arena;
    const struct registry_entry **entries;
    size_t n;
    size_t capacity;
};

/* Entries are borrowed for the visit; a copy outlives it. */
static bool gather(void *context, const struct registry_entry *entry) {
    struct gathering *gathering = context;
    if (gathering->n == gathering->capacity) {
        size_t capacity = gathering->capacity == 0 ? ENTRIES_FIRST : gathering->capacity * 2;
        const struct registry_entry **grown =
            arena_alloc(gathering->arena, capacity * sizeof(struct registry_entry *));
        if (gathering->n > 0) {
            memcpy(grown, gathering->entries, gathering->n * sizeof grown[0]);
        }
        gathering->entries = grown;
        gathering->capacity = capacity;
    }
    gathering->entries[gathering->n++] = arena_copy(gathering->arena, entry, sizeof *entry);
    return true;
}

static void write_discovered(struct bytes message, const struct key_store *keys,
                             struct arena *arena, struct buffer *out) {
    struct registry_api_discover request;
    struct gathering gathering = {.arena = arena};
    /* It was read before. */
    (void)registry_api_request_discover(message, arena, &request);
    registry_view_visit(keys, arena, request.service, gather, &gathering);
    size_t n = registry_select(&request.query, gathering.entries, gathering.n);
    registry_api_show_service(out, 2, keys, arena, request.service);
    for (size_t i = 0; i < n; i++) {
        registry_api_show_instance(out, 3, gathering.entries[i], request.with_checks);
    }
    pb_append_uint64(out, 4, gathering.n);
}

static void discover(struct grpc_call *call, struct bytes message) {
    struct registry_api *door = registry_api_of(call);
    struct registry_api_discover request;
    if (!grpc_call_has_room(call)) {
        leased_v1_error_finish(call, registry_api_error_of(STATUS_TOO_MANY_REQUESTS));
        return;
    }
    (void)registry_api_request_discover(message, &door->arena, &request);
    door->stats.discoveries++;
    struct bytes service = request.service; /* of the message */
    arena_reset(&door->arena);
    registry_api_call_later(call, message, service, write_discovered);
}

static void on_discover(struct grpc_call *call, struct bytes message) {
    struct registry_api *door = registry_api_of(call);
    struct registry_api_discover request;
    const struct leased_v1_error *error =
        registry_api_request_discover(message, &door->arena, &request);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
    } else {
        struct key_range range = registry_service_range(&door->arena, request.service);
        registry_api_call_read(call, message, range, request.is_local, discover);
    }
    arena_reset(&door->arena);
}

/* --- One service. --- */

static void get_service(struct grpc_call *call, struct bytes message) {
    struct registry_api *door = registry_api_of(call);
    struct registry_api_name request;
    (void)registry_api_request_name(message, REGISTRY_API_NAME_OF_SERVICE, &request);
    struct buffer *out = registry_api_answer_begin(door);
    registry_api_show_service(out, 2, registry_api_keys(door), &door->arena, request.service);
    leased_v1_answer_finish(call, out);
    arena_reset(&door->arena);
}

static void on_get_service(struct grpc_call *call, struct bytes message) {
    struct registry_api *door = registry_api_of(call);
    struct registry_api_name request;
    const struct leased_v1_error *error =
        registry_api_request_name(message, REGISTRY_API_NAME_OF_SERVICE, &request);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
    } else {
        struct key_range range = registry_service_range(&door->arena, request.service);
        registry_api_call_read(call, message, range, false, get_service);
    }
    arena_reset(&door->arena);
}

/* --- All services. --- */

struct listing {
    struct registry_api *door;
    struct buffer *out;
    struct registry_api_name request;
    size_t n;
    bool has_more;
    struct arena arena; /* of one service */
};

static bool begins_with(struct bytes text, struct bytes prefix) {
    return text.size >= prefix.size && bytes_equal(bytes_of(text.data, prefix.size), prefix);
}

static bool list_one(void *context, struct bytes service) {
    struct listing *listing = context;
    struct bytes prefix = listing->request.service;
    if (!begins_with(service, prefix)) {
        /* Names come in order: behind the prefix there are no more of them. */
        return bytes_compare(service, prefix) < 0;
    }
    if (listing->n == listing->request.limit || listing->out->size > REGISTRY_API_ANSWER_SIZE) {
        listing->has_more = true;
        return false;
    }
    listing->n++;
    registry_api_show_service(listing->out, 2, registry_api_keys(listing->door), &listing->arena,
                              service);
    arena_reset(&listing->arena);
    return true;
}

/* The names are those after `after`; a prefix that is behind that is begun with. */
static struct bytes first_after(const struct registry_api_name *request, struct arena *arena) {
    struct bytes prefix = request->service;
    if (prefix.size == 0 || bytes_compare(request->after, prefix) >= 0) {
        return request->after;
    }
    /* The greatest text before the prefix: it with its last byte less one, and then the greatest
     * bytes there are. */
    uint8_t *before = arena_alloc(arena, REGISTRY_NAME_SIZE_MAX + 1);
    memset(before, UINT8_MAX, REGISTRY_NAME_SIZE_MAX + 1);
    memcpy(before, prefix.data, prefix.size);
    before[prefix.size - 1]--;
    return bytes_of(before, REGISTRY_NAME_SIZE_MAX + 1);
}

static void list(struct grpc_call *call, struct bytes message) {
    struct registry_api *door = registry_api_of(call);
    struct listing listing = {.door = door, .out = registry_api_answer_begin(door)};
    (void)registry_api_request_name(message, REGISTRY_API_NAME_OF_LIST, &listing.request);
    arena_init(&listing.arena);
    registry_view_visit_services(registry_api_keys(door), &door->arena,
                                 first_after(&listing.request, &door->arena), list_one, &listing);
    pb_append_bool(listing.out, 3, listing.has_more);
    leased_v1_answer_finish(call, listing.out);
    arena_clear(&listing.arena);
    arena_reset(&door->arena);
}

static void on_list(struct grpc_call *call, struct bytes message) {
    struct registry_api *door = registry_api_of(call);
    struct registry_api_name request;
    const struct leased_v1_error *error =
        registry_api_request_name(message, REGISTRY_API_NAME_OF_LIST, &request);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
    } else {
        struct key_range range = registry_prefix_range(&door->arena, request.service);
        registry_api_call_read(call, message, range, false, list);
    }
    arena_reset(&door->arena);
}

/* --- What happened. --- */

struct event_list {
    const struct registry_api_name *request;
    struct registry_event events[REGISTRY_EVENTS_MAX];
    size_t n;
};

/* Places are used in turn, so the order of keys is not that of numbers. */
static bool take_event(void *context, const struct record *record) {
    struct event_list *list = context;
    const struct registry_api_name *request = list->request;
    struct registry_event *event = &list->events[list->n];
    if (registry_event_decode(record_value(record), event) && event->number > request->number &&
        (request->service.size == 0 || bytes_equal(request->service, event->service))) {
        event->revision = record->mod_revision;
        list->n++;
    }
    return list->n < REGISTRY_EVENTS_MAX;
}

static int compare_events(const void *a, const void *b) {
    const struct registry_event *left = a;
    const struct registry_event *right = b;
    return (left->number > right->number) - (left->number < right->number);
}

static void events(struct grpc_call *call, struct bytes message) {
    struct registry_api *door = registry_api_of(call);
    struct registry_api_name request;
    (void)registry_api_request_name(message, REGISTRY_API_NAME_OF_EVENTS, &request);
    struct event_list *list = arena_alloc(&door->arena, sizeof *list);
    list->request = &request;
    list->n = 0;
    struct key_range range = registry_records('e');
    key_store_visit(registry_api_keys(door), range.space, range.key, range.range_end, take_event,
                    list);
    qsort(list->events, list->n, sizeof list->events[0], compare_events);
    struct buffer *out = registry_api_answer_begin(door);
    for (size_t i = 0; i < list->n && i < request.limit; i++) {
        registry_api_show_event(out, 2, &list->events[i]);
    }
    leased_v1_answer_finish(call, out);
    arena_reset(&door->arena);
}

static void on_events(struct grpc_call *call, struct bytes message) {
    struct registry_api *door = registry_api_of(call);
    struct registry_api_name request;
    const struct leased_v1_error *error =
        registry_api_request_name(message, REGISTRY_API_NAME_OF_EVENTS, &request);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
    } else {
        bool is_one = request.service.size > 0;
        struct key_range range = is_one ? registry_service_range(&door->arena, request.service)
                                        : registry_prefix_range(&door->arena, request.service);
        registry_api_call_read(call, message, range, false, events);
    }
    arena_reset(&door->arena);
}

#define METHOD(name, handler)                                                                      \
    {                                                                                              \
        .path = "/leased.v1.Registry/" name, .answers_refused = true, .kind = GRPC_UNARY,          \
        .on_message = (handler), .on_close = leased_v1_call_closed                                 \
    }
static const struct grpc_method methods[] = {
    METHOD("Discover", on_discover),
    METHOD("GetService", on_get_service),
    METHOD("ListServices", on_list),
    METHOD("Events", on_events),
};
const struct registry_api_methods registry_api_discover_methods = {methods, sizeof methods /
                                                                                sizeof methods[0]};
