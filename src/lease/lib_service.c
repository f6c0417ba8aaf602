/*
 * A service in memory. Its instances are those of the last whole state and of the changes since;
 * each is kept as its message, with the few facts by which it is chosen. A watch of a member that
 * is cut off says nothing, so a read that a majority confirms tells the revision of the service: if
 * it is ours, nothing was missed.
 */
#include "base/clock.h"
#include "lease/lib_copy.h"
#include "lease/lib_message.h"
#include "lease/lib_read.h"
#include "lease/lib_result.h"
#include "lease/lib_service_wire.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* It is asked whether it is current when a third of the shortest TTL has passed, within: */
    CHECK_PARTS = 3,
    CHECK_MS_MIN = 1000,
    CHECK_MS_MAX = 10 * 1000,
    INSTANCES_MAX = 100 * 1000,
    TAGS_MAX = 64
};

/* What is known of an instance without reading its message again. */
struct entry {
    char *id;
    uint8_t *message;
    size_t message_size;
    int64_t ttl_ms;
    uint32_t weight;
    bool is_serving;
    bool is_kept;
    bool is_near;
    bool is_wanted; /* it has the tags */
};

struct lease_service {
    struct lib_copy copy;
    char *name;
    char *zone; /* NULL: none */
    char *tags[TAGS_MAX];
    size_t n_tags;
    bool with_unhealthy;
    bool picks_expired;
    lease_service_callback *callback; /* NULL: nobody is told */
    void *context;
    struct entry *entries; /* by id */
    size_t n_entries;
    size_t capacity;
    struct buffer info; /* ServiceInfo, as it came last */
    int64_t revision;   /* of the service, as it is here */
    uint64_t random;
};

static struct lease_service *service_of(struct lib_copy *copy) {
    return list_entry(copy, struct lease_service, copy);
}

/* ---- entries ---- */

static void clear_entry(struct entry *entry) {
    free(entry->id);
    free(entry->message);
}

static void clear_entries(struct lease_service *service) {
    for (size_t i = 0; i < service->n_entries; i++) {
        clear_entry(&service->entries[i]);
    }
    service->n_entries = 0;
}

/* Where an id is, or would be. */
static size_t place_of(const struct lease_service *service, const char *id, bool *out_is_there) {
    size_t low = 0;
    size_t high = service->n_entries;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(service->entries[middle].id, id);
        if (order == 0) {
            *out_is_there = true;
            return middle;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    *out_is_there = false;
    return low;
}

static void remove_entry(struct lease_service *service, const char *id) {
    bool is_there;
    size_t place = place_of(service, id, &is_there);
    if (is_there) {
        clear_entry(&service->entries[place]);
        memmove(&service->entries[place], &service->entries[place + 1],
                (service->n_entries - place - 1) * sizeof service->entries[0]);
        service->n_entries--;
    }
}

static bool has_tags(const struct lease_service *service, const struct lease_instance *instance) {
    for (size_t i = 0; i < service->n_tags; i++) {
        bool has = false;
        for (size_t k = 0; k < instance->n_tags && !has; k++) {
            has = strcmp(instance->tags[k], service->tags[i]) == 0;
        }
        if (!has) {
            return false;
        }
    }
    return true;
}

static struct entry make_entry(const struct lease_service *service,
                               const struct lease_instance *instance, struct bytes message) {
    struct entry entry = {
        .id = strdup(instance->id),
        .message = malloc(message.size > 0 ? message.size : 1),
        .message_size = message.size,
        .ttl_ms = instance->ttl_ms,
        .weight = instance->weight,
        .is_serving = instance->is_serving,
        .is_kept = instance->is_kept,
        .is_near = service->zone != NULL && strcmp(instance->zone, service->zone) == 0,
        .is_wanted = has_tags(service, instance),
    };
    if (entry.id == NULL || entry.message == NULL) {
        abort();
    }
    if (message.size > 0) {
        memcpy(entry.message, message.data, message.size);
    }
    return entry;
}

static bool put_entry(struct lease_service *service, struct bytes message) {
    struct lease_instance instance;
    struct arena arena;
    arena_init(&arena);
    bool is_well = lib_service_read_instance(&arena, message, &instance) &&
                   instance.id[0] != '\0' && service->n_entries < INSTANCES_MAX;
    if (is_well) {
        struct entry entry = make_entry(service, &instance, message);
        bool is_there;
        size_t place = place_of(service, entry.id, &is_there);
        if (is_there) {
            clear_entry(&service->entries[place]);
        } else {
            if (service->n_entries == service->capacity) {
                service->capacity = service->capacity == 0 ? 16 : service->capacity * 2;
                service->entries =
                    realloc(service->entries, service->capacity * sizeof service->entries[0]);
                if (service->entries == NULL) {
                    abort();
                }
            }
            memmove(&service->entries[place + 1], &service->entries[place],
                    (service->n_entries - place) * sizeof service->entries[0]);
            service->n_entries++;
        }
        service->entries[place] = entry;
    }
    arena_clear(&arena);
    return is_well;
}

/* ---- what comes ---- */

static void set_check(struct lease_service *service) {
    int64_t shortest = CHECK_MS_MAX * CHECK_PARTS;
    for (size_t i = 0; i < service->n_entries; i++) {
        int64_t ttl_ms = service->entries[i].ttl_ms;
        shortest = ttl_ms > 0 && ttl_ms < shortest ? ttl_ms : shortest;
    }
    int64_t pause = shortest / CHECK_PARTS;
    service->copy.check_ms =
        clock_boottime_ms() + (uint64_t)(pause < CHECK_MS_MIN ? CHECK_MS_MIN : pause);
}

/* The revision of a ServiceInfo. */
static bool read_revision(struct bytes info, int64_t *out_revision) {
    struct lease_service_info read;
    struct arena arena;
    arena_init(&arena);
    bool is_well = lib_service_read_info(&arena, info, &read);
    *out_revision = read.revision;
    arena_clear(&arena);
    return is_well;
}

static bool take_info(struct lease_service *service, struct bytes info) {
    service->info.size = 0;
    buffer_append(&service->info, info.data, info.size);
    return read_revision(info, &service->revision);
}

static bool take_removed(struct lease_service *service, struct bytes id) {
    char text[LIB_SERVICE_NAME_SIZE_MAX + 1];
    if (id.size > LIB_SERVICE_NAME_SIZE_MAX) {
        return false;
    }
    memcpy(text, id.data, id.size);
    text[id.size] = '\0';
    remove_entry(service, text);
    return true;
}

/* `whole` is a field before the instances, as the server writes them; looked for first, because
 * nothing says that it must be. */
static bool take_message(struct lease_service *service, struct bytes message) {
    struct pb_reader reader;
    bool is_well = true;
    bool is_whole = false;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 3) {
            is_whole = pb_reader_bool(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed || (!is_whole && !service->copy.is_filled)) {
        return false;
    }
    if (is_whole) {
        clear_entries(service);
    }
    pb_reader_init(&reader, message);
    while (is_well && pb_reader_next(&reader)) {
        if (reader.field == 2) {
            is_well = take_info(service, pb_reader_bytes(&reader));
        } else if (reader.field == 4) {
            is_well = put_entry(service, pb_reader_bytes(&reader));
        } else if (reader.field == 5) {
            is_well = take_removed(service, pb_reader_bytes(&reader));
        } else {
            pb_reader_skip(&reader);
        }
    }
    return is_well && !reader.failed;
}

static void on_message(struct lib_call *call, struct bytes message) {
    struct lease_service *service = call->context;
    if (!take_message(service, message)) {
        lib_copy_fail(&service->copy, LEASE_PROTOCOL, "the server's answer is malformed");
        return;
    }
    if (service->copy.check_ms == UINT64_MAX && service->copy.checking == NULL) {
        /* The first of a stream: a whole state, read after the call was opened. */
        lib_copy_is_current(&service->copy, call->opened_ms);
        set_check(service);
    }
    service->copy.is_filled = true;
    service->copy.is_decided = true;
    lib_copy_tell(&service->copy);
}

static void on_end(struct lib_call *call, enum lib_code code, const char *text) {
    struct lease_service *service = call->context;
    service->copy.watch = NULL;
    lib_copy_ended(&service->copy, code, text);
}

static void begin(struct lib_copy *copy) {
    struct lease_service *service = service_of(copy);
    static const struct lib_method method = {
        .path = "/leased.v1.Registry/WatchService",
        .on_message = on_message,
        .on_end = on_end,
    };
    struct buffer message;
    buffer_init(&message);
    lib_put_text(&message, 1, service->name);
    copy->watch =
        lib_call_start(copy->connection, &method, bytes_of(message.data, message.size), service, 0);
    buffer_clear(&message);
}

/* ---- is it current? ---- */

static bool read_checked(struct bytes message, int64_t *out_revision) {
    struct pb_reader reader;
    bool is_well = false;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 2) {
            is_well = read_revision(pb_reader_bytes(&reader), out_revision);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return is_well && !reader.failed;
}

static void on_checked(void *context, const struct lib_answer *answer) {
    struct lease_service *service = context;
    int64_t revision = 0;
    service->copy.checking = NULL;
    if (answer->code != LIB_CODE_OK) {
        lib_copy_ended(&service->copy, answer->code, answer->text);
        return;
    }
    if (!read_checked(answer->message, &revision)) {
        lib_copy_fail(&service->copy, LEASE_PROTOCOL, "the server's answer is malformed");
        return;
    }
    set_check(service);
    if (service->revision >= revision) {
        lib_copy_is_current(&service->copy, answer->sent_ms);
    } else if (++service->copy.n_doubts >= LIB_COPY_DOUBTS_MAX) {
        lib_copy_again(&service->copy);
    } else {
        service->copy.check_ms = clock_boottime_ms() + LIB_COPY_AGAIN_MS;
    }
}

static void check(struct lib_copy *copy) {
    struct lease_service *service = service_of(copy);
    struct lib_request request = {.path = "/leased.v1.Registry/GetService", .is_repeatable = true};
    lib_put_text(&request.message, 1, service->name);
    copy->checking = lib_ask_start(copy->connection, &request, on_checked, service);
}

static void notify(struct lib_copy *copy, enum lease_status status, const char *text) {
    struct lease_service *service = service_of(copy);
    service->callback(service, status, text, service->context);
}

/* Changes that were compacted away, or more watchers than the server has room for. */
static bool may_pass(enum lib_code code) {
    return code == LIB_CODE_OUT_OF_RANGE || code == LIB_CODE_RESOURCE_EXHAUSTED;
}

static const struct lib_copy_kind kind = {
    .unsupported = "the server does not serve the registry API",
    .begin = begin,
    .check = check,
    .may_pass = may_pass,
    .notify = notify,
};

/* ---- what users call ---- */

static char *copy_text(const char *text) {
    char *own = text == NULL ? NULL : strdup(text);
    if (own == NULL && text != NULL) {
        abort();
    }
    return own;
}

enum lease_status lease_service_open(struct lease_connection *connection,
                                     const struct lease_service_options *options,
                                     struct lease_service **out_service) {
    struct lease_service_options known = {0};
    memcpy(&known, options, options->size < sizeof known ? options->size : sizeof known);
    enum lease_status status = lib_service_check_name("the name of a service", known.service);
    if (status == LEASE_OK) {
        status = lib_check_process(connection);
    }
    if (status != LEASE_OK) {
        return status;
    }
    if (known.n_tags > TAGS_MAX) {
        return lib_error(LEASE_INVALID, "at most %d tags", TAGS_MAX);
    }
    struct lease_service *service = calloc(1, sizeof *service);
    if (service == NULL) {
        abort();
    }
    service->name = copy_text(known.service);
    service->zone = copy_text(known.zone);
    for (size_t i = 0; i < known.n_tags; i++) {
        service->tags[service->n_tags++] = copy_text(known.tags[i]);
    }
    service->with_unhealthy = known.with_unhealthy;
    service->picks_expired = known.picks_expired;
    service->callback = known.callback;
    service->context = known.context;
    service->random = clock_boottime_ms() ^ (uint64_t)(uintptr_t)service;
    buffer_init(&service->info);
    *out_service = service;
    lib_copy_open(&service->copy, connection, &kind, service->callback != NULL);
    return LEASE_OK;
}

enum lease_status lease_service_wait(struct lease_service *service, int64_t limit_ms) {
    return lib_copy_wait(&service->copy, limit_ms);
}

static bool is_expired(const struct entry *entry, int64_t age_ms) {
    return entry->ttl_ms > 0 && age_ms > entry->ttl_ms;
}

static void read_entry(struct arena *arena, const struct entry *entry, int64_t age_ms,
                       struct lease_instance *out) {
    /* It was read before. */
    (void)lib_service_read_instance(arena, bytes_of(entry->message, entry->message_size), out);
    out->is_expired = is_expired(entry, age_ms);
}

static void list_entries(const struct lease_service *service, struct arena *arena, bool near,
                         struct lease_instance_list *list, struct lease_instance *items) {
    for (size_t i = 0; i < service->n_entries; i++) {
        const struct entry *entry = &service->entries[i];
        if (entry->is_wanted && entry->is_near == near &&
            (service->with_unhealthy || entry->is_serving)) {
            read_entry(arena, entry, list->age_ms, &items[list->n_items++]);
        }
    }
}

enum lease_status lease_service_instances(struct lease_service *service,
                                          const struct lease_instance_list **out_list) {
    lib_lock(service->copy.connection);
    enum lease_status status = lib_copy_status(&service->copy);
    if (status == LEASE_OK) {
        struct lib_result *result = lib_result_create(sizeof(struct lease_instance_list));
        struct arena *arena = lib_result_arena(result);
        struct lease_instance_list *list = lib_result_value(result);
        struct lease_instance *items =
            arena_calloc(arena, service->n_entries, sizeof(struct lease_instance));
        (void)lib_service_read_info(arena, bytes_of(service->info.data, service->info.size),
                                    &list->service);
        list->age_ms = lib_copy_age(&service->copy);
        list->items = items;
        list_entries(service, arena, true, list, items);
        list_entries(service, arena, false, list, items);
        *out_list = list;
    }
    lib_unlock(service->copy.connection);
    return status;
}

/* xorshift64*: a good spread is all that is asked of it. */
static uint64_t next_random(struct lease_service *service) {
    uint64_t x = service->random == 0 ? 1 : service->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    service->random = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

static bool is_candidate(const struct lease_service *service, const struct entry *entry,
                         int64_t age_ms, bool near) {
    return entry->is_wanted && entry->is_serving && (!near || entry->is_near) &&
           (service->picks_expired || !is_expired(entry, age_ms));
}

/* One of the candidates at random by weight; NULL: there is none. */
static const struct entry *choose(struct lease_service *service, int64_t age_ms, bool near) {
    uint64_t total = 0;
    for (size_t i = 0; i < service->n_entries; i++) {
        const struct entry *entry = &service->entries[i];
        total += is_candidate(service, entry, age_ms, near) ? entry->weight : 0;
    }
    if (total == 0) {
        return NULL;
    }
    uint64_t place = next_random(service) % total;
    for (size_t i = 0; i < service->n_entries; i++) {
        const struct entry *entry = &service->entries[i];
        if (!is_candidate(service, entry, age_ms, near)) {
            continue;
        }
        if (place < entry->weight) {
            return entry;
        }
        place -= entry->weight;
    }
    return NULL;
}

static bool has_serving(const struct lease_service *service) {
    for (size_t i = 0; i < service->n_entries; i++) {
        const struct entry *entry = &service->entries[i];
        if (entry->is_wanted && entry->is_serving && entry->weight > 0) {
            return true;
        }
    }
    return false;
}

enum lease_status lease_service_pick(struct lease_service *service,
                                     const struct lease_instance **out_instance) {
    lib_lock(service->copy.connection);
    enum lease_status status = lib_copy_status(&service->copy);
    int64_t age_ms = lib_copy_age(&service->copy);
    const struct entry *entry = status == LEASE_OK ? choose(service, age_ms, true) : NULL;
    if (status == LEASE_OK && (entry == NULL || !entry->is_near)) {
        entry = choose(service, age_ms, false);
    }
    if (entry != NULL) {
        struct lib_result *result = lib_result_create(sizeof(struct lease_instance));
        struct lease_instance *instance = lib_result_value(result);
        read_entry(lib_result_arena(result), entry, age_ms, instance);
        *out_instance = instance;
    } else if (status == LEASE_OK) {
        status = has_serving(service)
                     ? lib_error(LEASE_UNAVAILABLE,
                                 "all that is known of %s is older than its leases", service->name)
                     : lib_error(LEASE_NOT_FOUND, "no instance of %s serves", service->name);
    }
    lib_unlock(service->copy.connection);
    return status;
}

int64_t lease_service_age_ms(struct lease_service *service) {
    return lib_copy_age_ms(&service->copy);
}

void lease_service_close(struct lease_service *service) {
    if (service == NULL || lib_is_inherited(service->copy.connection)) {
        return;
    }
    lib_copy_close(&service->copy);
    clear_entries(service);
    free(service->entries);
    buffer_clear(&service->info);
    for (size_t i = 0; i < service->n_tags; i++) {
        free(service->tags[i]);
    }
    free(service->zone);
    free(service->name);
    free(service);
}
