/* One request, one answer: the Fetch methods, and the same as JSON for Envoy's REST subscriptions,
 * POST /v3/discovery:endpoints. A client that has the newest version already waits for the next one
 * (xds_wait.h), and is told that there is none (304) when its time is over. */
#include "base/crc32.h"
#include "doors/xds/xds_endpoints.h"
#include "doors/xds/xds_request.h"
#include "doors/xds/xds_resources.h"
#include "doors/xds/xds_state.h"
#include "doors/xds/xds_wait.h"
#include "net/grpc_json_reader.h"
#include "net/http.h"
#include "net/net_scope.h"
#include "proto/xds.pb-c.h"
#include "registry/registry_keys.h"
#include "registry/registry_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BODY_MAX = 1024 * 1024,
    TIME_MS_MAX = XDS_WAIT_MS_MAX + 30 * 1000,
    VERSION_SIZE = 48,
    SERVICES_MAX = 10 * 1000,
    /* Instances and checks that one answer looks at, and what each costs (service_allow_work()). */
    RECORDS_MAX = 50 * 1000,
    WORK_A_RECORD = 32,
    WORK_A_NAME = 16,     /* that is found, with the rights to it */
    WORK_A_RESOURCE = 80, /* the same, and what is written of it: a cluster, a listener, a route */
    TEXT_SIZE = 512
};

/* The caller is one of the two. */
struct fetch {
    struct xds_door *door;
    enum xds_type type;
    struct grpc_call *call;
    struct http_exchange *exchange;
    struct service_read read;
    bool is_reading;
    struct buffer message;
    struct xds_wait wait; /* of an exchange */
    bool is_in_vain;      /* it has waited for all of its time */
};

/* The request once it may be answered. */
struct answer {
    struct xds_request request;
    struct xds_name *names; /* those that can be */
    struct bytes *texts;
    size_t n;
    size_t capacity;
    bool is_full;
    char version[VERSION_SIZE];
};

static const struct caller *caller_of(const struct fetch *fetch) {
    return fetch->call != NULL ? grpc_call_caller(fetch->call) : http_caller(fetch->exchange);
}

/* --- Refusals. --- */

static unsigned http_status_of(enum grpc_code code) {
    switch (code) {
    case GRPC_INVALID_ARGUMENT:
        return 400;
    case GRPC_UNAUTHENTICATED:
        return 401;
    case GRPC_PERMISSION_DENIED:
        return 403;
    case GRPC_RESOURCE_EXHAUSTED:
        return 429;
    default:
        return 503;
    }
}

static void refuse_exchange(struct http_exchange *exchange, enum grpc_code code, const char *text) {
    char body[TEXT_SIZE];
    snprintf(body, sizeof body, "%s\n", text);
    http_reply(exchange, http_status_of(code), "text/plain; charset=utf-8", bytes_from_text(body));
}

static void refuse(struct fetch *fetch, enum grpc_code code, const char *text) {
    if (fetch->call != NULL) {
        grpc_call_finish(fetch->call, code, text);
    } else {
        refuse_exchange(fetch->exchange, code, text);
    }
}

static void refuse_status(struct fetch *fetch, enum status status) {
    const struct xds_error *error = xds_error_of(status);
    refuse(fetch, error->code, error->text);
}

/* --- Names. --- */

static void add_name(struct xds_door *door, struct answer *answer, struct bytes text) {
    struct xds_name name;
    if (!xds_name_parse(text, &name)) {
        return;
    }
    if (answer->n == answer->capacity) {
        size_t capacity = answer->capacity == 0 ? 16 : 2 * answer->capacity;
        struct xds_name *names = arena_calloc(&door->request_arena, capacity, sizeof *names);
        struct bytes *texts = arena_calloc(&door->request_arena, capacity, sizeof *texts);
        if (answer->n > 0) {
            memcpy(names, answer->names, answer->n * sizeof *names);
            memcpy(texts, answer->texts, answer->n * sizeof *texts);
        }
        answer->names = names;
        answer->texts = texts;
        answer->capacity = capacity;
    }
    answer->names[answer->n] = name;
    answer->texts[answer->n++] = text;
}

struct listing {
    struct fetch *fetch;
    struct answer *answer;
};

static bool list_name(void *context, struct bytes name) {
    struct listing *listing = context;
    struct xds_door *door = listing->fetch->door;
    struct key_range range = registry_service_range(&door->request_arena, name);
    if (service_read_local(door->service, caller_of(listing->fetch), &range, 1) == STATUS_OK) {
        add_name(door, listing->answer, name);
    }
    listing->answer->is_full = listing->answer->n >= SERVICES_MAX;
    return !listing->answer->is_full;
}

static bool is_wildcard(const struct fetch *fetch, const struct xds_request *request) {
    return xds_type_is_whole(fetch->type) &&
           (request->n_names == 0 ||
            (request->n_names == 1 && xds_name_is_wildcard(request->names[0])));
}

static void find_names(struct fetch *fetch, struct answer *answer) {
    struct xds_door *door = fetch->door;
    if (is_wildcard(fetch, &answer->request)) {
        struct listing listing = {.fetch = fetch, .answer = answer};
        registry_view_visit_services(xds_keys(door), &door->request_arena, bytes_of("", 0),
                                     list_name, &listing);
        return;
    }
    for (size_t i = 0; i < answer->request.n_names; i++) {
        add_name(door, answer, answer->request.names[i]);
    }
}

/* Another one whenever the answer may be another: of revisions, names and the zone. */
static void find_version(const struct fetch *fetch, struct answer *answer) {
    struct xds_door *door = fetch->door;
    struct bytes zone = answer->request.node.zone;
    uint32_t crc = crc32c(0, zone.data != NULL ? zone.data : (const uint8_t *)"", zone.size);
    int64_t newest = 1;
    for (size_t i = 0; i < answer->n; i++) {
        int64_t revision = 1;
        if (fetch->type == XDS_ENDPOINTS) {
            revision =
                registry_view_revision(xds_keys(door), &door->arena, answer->names[i].service);
            arena_reset(&door->arena);
        }
        newest = revision > newest ? revision : newest;
        crc = crc32c(crc, answer->texts[i].data, answer->texts[i].size);
        crc = crc32c(crc, &revision, sizeof revision);
    }
    snprintf(answer->version, sizeof answer->version, "%" PRId64 "-%08" PRIx32, newest, crc);
}

/* --- The answer. --- */

static void write_endpoints(struct fetch *fetch, const struct answer *answer, size_t index,
                            struct xds_writer *writer) {
    struct xds_door *door = fetch->door;
    const struct registry_entry **entries = NULL;
    size_t n = 0;
    xds_endpoints_collect(xds_keys(door), &door->arena, &answer->names[index], &entries, &n);
    const struct xds_assignment assignment = {.name = answer->texts[index],
                                              .near_zone = answer->request.node.zone};
    door->stats.left_out += xds_endpoints_write(writer, &assignment, entries, n);
    door->stats.encoded++;
    arena_reset(&door->arena);
}

static void write_answer(struct fetch *fetch, const struct answer *answer,
                         struct xds_writer *writer) {
    const char *url = xds_type_url(fetch->type);
    xds_put_text(writer, 1, "version_info", bytes_from_text(answer->version));
    xds_array(writer, "resources");
    for (size_t i = 0; i < answer->n; i++) {
        struct xds_any any = xds_any(writer, 2, NULL, url);
        if (fetch->type == XDS_ENDPOINTS) {
            write_endpoints(fetch, answer, i, writer);
        } else {
            xds_resource_write(writer, fetch->type, answer->texts[i]);
        }
        xds_any_end(writer, &any);
    }
    xds_array_end(writer);
    xds_put_text(writer, 4, "type_url", bytes_from_text(url));
}

static void reply(struct fetch *fetch, const struct answer *answer) {
    struct xds_door *door = fetch->door;
    struct buffer *out = &door->scratch;
    out->size = 0;
    struct xds_writer writer = {.out = out, .is_json = fetch->exchange != NULL};
    if (fetch->call != NULL) {
        write_answer(fetch, answer, &writer);
        grpc_call_reply(fetch->call, bytes_of(out->data, out->size));
    } else {
        size_t object = xds_begin(&writer, 0, NULL);
        write_answer(fetch, answer, &writer);
        xds_end(&writer, object);
        http_reply(fetch->exchange, 200, "application/json", bytes_of(out->data, out->size));
    }
}

/* Of the names that are asked for: to find them and, but for endpoints, to write what they are. */
static size_t work_of_names(const struct fetch *fetch, const struct xds_request *request) {
    struct xds_door *door = fetch->door;
    size_t n = request->n_names;
    if (is_wildcard(fetch, request)) {
        struct key_range range = registry_names_range(&door->request_arena, bytes_of("", 0));
        n = key_store_count(xds_keys(door), range.space, range.key, range.range_end);
        n = n < SERVICES_MAX ? n : SERVICES_MAX;
    }
    return n * (fetch->type == XDS_ENDPOINTS ? WORK_A_NAME : WORK_A_RESOURCE);
}

/* Records that are looked at for an answer. Each name costs its service, however often it comes. */
static size_t work_of(const struct fetch *fetch, const struct answer *answer) {
    struct xds_door *door = fetch->door;
    size_t n = 0;
    for (size_t i = 0; i < answer->n && fetch->type == XDS_ENDPOINTS; i++) {
        struct key_range range = registry_service_range(&door->arena, answer->names[i].service);
        n += key_store_count(xds_keys(door), range.space, range.key, range.range_end);
        arena_reset(&door->arena);
    }
    return n;
}

/* --- Nothing new. --- */

/* What the answer depends on: the services, or, for a wildcard, their names. */
static struct key_range *ranges_of(struct fetch *fetch, const struct xds_request *request,
                                   size_t *out_n) {
    struct arena *arena = &fetch->door->request_arena;
    struct key_range *ranges = arena_calloc(arena, request->n_names, sizeof *ranges);
    size_t n = 0;
    for (size_t i = 0; i < request->n_names && !is_wildcard(fetch, request); i++) {
        struct xds_name name;
        if (xds_name_parse(request->names[i], &name)) {
            ranges[n++] = registry_service_range(arena, name.service);
        }
    }
    *out_n = n;
    return ranges;
}

static bool is_known(const struct fetch *fetch, const struct answer *answer) {
    return fetch->exchange != NULL &&
           bytes_equal(answer->request.version, bytes_from_text(answer->version));
}

/* Clusters, listeners and routes of a name are always the same. */
static bool wait_for_news(struct fetch *fetch, const struct answer *answer) {
    size_t n = 0;
    const struct key_range *ranges = ranges_of(fetch, &answer->request, &n);
    if (is_wildcard(fetch, &answer->request)) {
        const struct key_range names =
            registry_names_range(&fetch->door->request_arena, bytes_of("", 0));
        return xds_wait_begin(&fetch->wait, &names, 1);
    }
    return xds_wait_begin(&fetch->wait, ranges, fetch->type == XDS_ENDPOINTS ? n : 0);
}

static void reply_not_modified(struct fetch *fetch) {
    fetch->door->stats.not_modified++;
    http_reply_fields(fetch->exchange, 304, NULL, 0, bytes_of("", 0));
}

static void say_nothing_new(struct fetch *fetch, const struct answer *answer) {
    if (!wait_for_news(fetch, answer)) {
        reply_not_modified(fetch);
    }
}

static bool has_room(const struct fetch *fetch) {
    return fetch->call != NULL ? grpc_call_has_room(fetch->call) : http_has_room(fetch->exchange);
}

/* Others have had their share of this iteration of the loop. */
static void put_off(struct fetch *fetch) {
    if (fetch->is_in_vain) {
        reply_not_modified(fetch);
    } else if (fetch->exchange == NULL || !xds_wait_a_moment(&fetch->wait)) {
        refuse_status(fetch, STATUS_TOO_MANY_REQUESTS);
    }
}

static void answer_names(struct fetch *fetch, struct answer *answer) {
    struct xds_door *door = fetch->door;
    find_names(fetch, answer);
    find_version(fetch, answer);
    size_t work = work_of(fetch, answer);
    if (answer->is_full) {
        refuse(fetch, GRPC_RESOURCE_EXHAUSTED, "more services than one answer may have");
    } else if (is_known(fetch, answer)) {
        say_nothing_new(fetch, answer);
    } else if (work > RECORDS_MAX) {
        refuse(fetch, GRPC_RESOURCE_EXHAUSTED,
               "more instances than one answer may have: use a stream");
    } else if (service_allow_work(door->service, work * WORK_A_RECORD)) {
        reply(fetch, answer);
    } else {
        put_off(fetch);
    }
}

static void answer_now(struct fetch *fetch, enum status status) {
    struct xds_door *door = fetch->door;
    struct answer answer = {0};
    if (status == STATUS_OK && !has_room(fetch)) {
        status = STATUS_TOO_MANY_REQUESTS;
    }
    if (status != STATUS_OK) {
        refuse_status(fetch, status);
        return;
    }
    struct bytes message = bytes_of(fetch->message.data, fetch->message.size);
    if (xds_request_read(message, false, &door->request_arena, &answer.request) != XDS_REQUEST_OK) {
        arena_reset(&door->request_arena);
        refuse(fetch, GRPC_INVALID_ARGUMENT, "the request is malformed");
        return;
    }
    if (service_allow_work(door->service, work_of_names(fetch, &answer.request))) {
        answer_names(fetch, &answer);
    } else {
        put_off(fetch);
    }
    arena_reset(&door->request_arena);
}

/* --- The request. --- */

static void destroy(struct fetch *fetch) {
    buffer_clear(&fetch->message);
    free(fetch);
}

static void ready(struct service_read *read, enum status status) {
    struct fetch *fetch = list_entry(read, struct fetch, read);
    fetch->is_reading = false;
    if (fetch->call == NULL && fetch->exchange == NULL) {
        destroy(fetch);
    } else {
        answer_now(fetch, status);
    }
}

/* Its names are read with the rights of the caller, and those of a wildcard one by one later. */
static void begin(struct fetch *fetch) {
    struct xds_door *door = fetch->door;
    struct xds_request request;
    struct bytes message = bytes_of(fetch->message.data, fetch->message.size);
    enum xds_request_result result =
        xds_request_read(message, false, &door->request_arena, &request);
    enum xds_type type = fetch->type;
    if (result != XDS_REQUEST_OK ||
        (request.type_url.size > 0 &&
         (!xds_type_find(request.type_url, &type) || type != fetch->type))) {
        arena_reset(&door->request_arena);
        refuse(fetch, GRPC_INVALID_ARGUMENT, "the request is malformed, or of another type");
        return;
    }
    size_t n = 0;
    const struct key_range *ranges = ranges_of(fetch, &request, &n);
    enum status status = service_check_user(door->service, caller_of(fetch), "xDS resources");
    if (status == STATUS_OK) {
        fetch->read.ready = ready;
        status = service_read(door->service, caller_of(fetch), &fetch->read, ranges, n);
    }
    arena_reset(&door->request_arena);
    if (status == STATUS_PENDING) {
        fetch->is_reading = true;
    } else {
        answer_now(fetch, status);
    }
}

/* Something has changed, the client's time is over, or the server stops. Rights may have changed
 * meanwhile. */
static void look_again(struct http_exchange *exchange) {
    struct fetch *fetch = http_data(exchange);
    struct xds_door *door = fetch->door;
    struct xds_request request;
    size_t n = 0;
    if (fetch->wait.is_waiting && !fetch->wait.is_woken) {
        fetch->wait.deadline_ms = 0; /* it is over */
        fetch->is_in_vain = true;
    }
    xds_wait_end(&fetch->wait);
    struct bytes message = bytes_of(fetch->message.data, fetch->message.size);
    if (xds_request_read(message, false, &door->request_arena, &request) != XDS_REQUEST_OK) {
        abort(); /* begin() has read it */
    }
    const struct key_range *ranges = ranges_of(fetch, &request, &n);
    enum status status = service_read_local(door->service, caller_of(fetch), ranges, n);
    arena_reset(&door->request_arena);
    answer_now(fetch, status);
}

static struct fetch *create(struct xds_door *door, enum xds_type type) {
    struct fetch *fetch = calloc(1, sizeof *fetch);
    if (fetch == NULL) {
        return NULL;
    }
    fetch->door = door;
    fetch->type = type;
    buffer_init(&fetch->message);
    door->stats.fetches++;
    return fetch;
}

/* --- gRPC. --- */

static void fetch_call(struct grpc_call *call, enum xds_type type, struct bytes message) {
    struct fetch *fetch = create(grpc_call_context(call), type);
    if (fetch == NULL) {
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "the server is out of memory");
        return;
    }
    fetch->call = call;
    buffer_append(&fetch->message, message.data, message.size);
    grpc_call_set_data(call, fetch);
    begin(fetch);
}

static void forget(struct fetch *fetch) {
    if (fetch == NULL) {
        return;
    }
    xds_wait_end(&fetch->wait);
    fetch->call = NULL;
    fetch->exchange = NULL;
    if (!fetch->is_reading) {
        destroy(fetch);
    }
}

static void on_call_close(struct grpc_call *call) {
    forget(grpc_call_data(call));
}

#define FETCH(name, type)                                                                          \
    static void fetch_##name(struct grpc_call *call, struct bytes message) {                       \
        fetch_call(call, type, message);                                                           \
    }
FETCH(clusters, XDS_CLUSTERS)
FETCH(endpoints, XDS_ENDPOINTS)
FETCH(listeners, XDS_LISTENERS)
FETCH(routes, XDS_ROUTES)

#define METHOD(method_path, fetch)                                                                 \
    {                                                                                              \
        .path = method_path, .answers_refused = true, .kind = GRPC_UNARY, .on_message = fetch,     \
        .on_close = on_call_close                                                                  \
    }
static const struct grpc_method methods[] = {
    METHOD("/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters", fetch_clusters),
    METHOD("/envoy.service.endpoint.v3.EndpointDiscoveryService/FetchEndpoints", fetch_endpoints),
    METHOD("/envoy.service.listener.v3.ListenerDiscoveryService/FetchListeners", fetch_listeners),
    METHOD("/envoy.service.route.v3.RouteDiscoveryService/FetchRoutes", fetch_routes),
};
const struct xds_methods xds_fetch_methods = {methods, sizeof methods / sizeof methods[0]};

/* --- JSON. --- */

static void fetch_exchange(struct http_exchange *exchange, enum xds_type type, struct bytes body) {
    struct xds_door *door = http_context(exchange);
    struct fetch *fetch = create(door, type);
    if (fetch == NULL) {
        refuse_exchange(exchange, GRPC_RESOURCE_EXHAUSTED, "the server is out of memory");
        return;
    }
    fetch->exchange = exchange;
    xds_wait_init(&fetch->wait, door, exchange, look_again);
    http_set_data(exchange, fetch);
    char error[GRPC_JSON_ERROR_SIZE];
    if (!grpc_json_read(body, &envoy__service__discovery__v3__discovery_request__descriptor,
                        &fetch->message, error)) {
        refuse(fetch, GRPC_INVALID_ARGUMENT, error);
        return;
    }
    begin(fetch);
}

static void on_exchange_close(struct http_exchange *exchange) {
    forget(http_data(exchange));
}

/* Nobody is there any more who would take an answer that may come much later. */
static void on_input_end(struct http_exchange *exchange) {
    const struct fetch *fetch = http_data(exchange);
    if (fetch != NULL && fetch->wait.is_waiting) {
        http_abort(exchange);
    }
}

#define BODY(name, type)                                                                           \
    static void post_##name(struct http_exchange *exchange, struct bytes bytes, bool is_last) {    \
        (void)is_last;                                                                             \
        fetch_exchange(exchange, type, bytes);                                                     \
    }
BODY(clusters, XDS_CLUSTERS)
BODY(endpoints, XDS_ENDPOINTS)
BODY(listeners, XDS_LISTENERS)
BODY(routes, XDS_ROUTES)

#define ROUTE(path, post)                                                                          \
    {                                                                                              \
        .method = "POST", .pattern = path, .body_max = BODY_MAX, .time_max_ms = TIME_MS_MAX,       \
        .on_body = post, .on_input_end = on_input_end, .on_close = on_exchange_close               \
    }
static const struct http_route routes[] = {
    ROUTE("/v3/discovery:clusters", post_clusters),
    ROUTE("/v3/discovery:endpoints", post_endpoints),
    ROUTE("/v3/discovery:listeners", post_listeners),
    ROUTE("/v3/discovery:routes", post_routes),
};

void xds_fetch_register(struct net_scope *scope, void *door) {
    net_scope_add_routes(scope, routes, sizeof routes / sizeof routes[0], door);
}
