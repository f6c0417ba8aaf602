#include "cli/render_sources.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SOURCES_MAX = 1000, /* services, and keys or prefixes, of one template */
    NUMBER_SIZE = 24,
    FIELDS_FIXED = 15,
    KEY_SIZE_MAX = 512,
    ERROR_SIZE = 512
};

struct source_service {
    char *name;
    struct lease_service *service;
};

struct source_keys {
    char *prefix;
    struct lease_directory *directory;
};

struct render_sources {
    struct lease_connection *connection;
    struct source_service services[SOURCES_MAX];
    size_t n_services;
    struct source_keys keys[SOURCES_MAX];
    size_t n_keys;
    char *list_prefix; /* of the services that a template lists; NULL: none */
    const struct lease_service_list *list;
    bool has_news;
    char error[ERROR_SIZE];
};

static char *copy(const char *text) {
    char *own = strdup(text);
    if (own == NULL) {
        abort();
    }
    return own;
}

static void take_error(struct render_sources *sources, const char *what, const char *reason) {
    snprintf(sources->error, sizeof sources->error, "%.200s: %.250s", what, reason);
    sources->has_news = true;
}

/* ---- items ---- */

struct fields {
    struct arena *arena;
    struct render_field *items;
    size_t n;
};

static void add(struct fields *fields, const char *name, const char *value) {
    fields->items[fields->n++] =
        (struct render_field){name, arena_copy(fields->arena, value, strlen(value) + 1)};
}

static void add_number(struct fields *fields, const char *name, int64_t number) {
    char text[NUMBER_SIZE];
    snprintf(text, sizeof text, "%" PRId64, number);
    add(fields, name, text);
}

static void add_flag(struct fields *fields, const char *name, bool is_set) {
    add(fields, name, is_set ? "true" : "");
}

static void add_tags(struct fields *fields, const struct lease_instance *instance) {
    size_t size = 1;
    for (size_t i = 0; i < instance->n_tags; i++) {
        size += strlen(instance->tags[i]) + 1;
    }
    char *text = arena_alloc(fields->arena, size);
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < instance->n_tags; i++) {
        at += (size_t)snprintf(text + at, size - at, "%s%s", i > 0 ? "," : "", instance->tags[i]);
    }
    fields->items[fields->n++] = (struct render_field){"tags", text};
}

static void add_metadata(struct fields *fields, const struct lease_pair *pair) {
    char name[KEY_SIZE_MAX];
    snprintf(name, sizeof name, "meta.%s", pair->key);
    add(fields, arena_copy(fields->arena, name, strlen(name) + 1), pair->value);
}

static struct render_item instance_item(struct arena *arena,
                                        const struct lease_instance *instance) {
    struct fields fields = {.arena = arena};
    fields.items = arena_calloc(arena, FIELDS_FIXED + instance->n_metadata, sizeof fields.items[0]);
    add(&fields, "service", instance->service);
    add(&fields, "id", instance->id);
    add(&fields, "address", instance->address);
    add_number(&fields, "port", instance->port);
    add(&fields, "zone", instance->zone);
    add(&fields, "version", instance->version);
    add(&fields, "node", instance->node);
    add_number(&fields, "weight", instance->weight);
    add(&fields, "state", lease_instance_state_text(instance->state));
    add(&fields, "health", lease_health_text(instance->health));
    add_flag(&fields, "serving", instance->is_serving);
    add_flag(&fields, "kept", instance->is_kept);
    add_number(&fields, "token", instance->token);
    add_tags(&fields, instance);
    for (size_t i = 0; i < instance->n_metadata; i++) {
        add_metadata(&fields, &instance->metadata[i]);
    }
    return (struct render_item){fields.items, fields.n};
}

static bool matches(const struct render_query *query, const struct lease_instance *instance) {
    if ((!query->with_all && !instance->is_serving) ||
        (query->zone != NULL && strcmp(query->zone, instance->zone) != 0)) {
        return false;
    }
    for (size_t i = 0; i < query->n_tags; i++) {
        bool has = false;
        for (size_t k = 0; k < instance->n_tags && !has; k++) {
            has = strcmp(instance->tags[k], query->tags[i]) == 0;
        }
        if (!has) {
            return false;
        }
    }
    return true;
}

/* ---- services ---- */

static void on_service(struct lease_service *service, enum lease_status status, const char *reason,
                       void *context) {
    struct render_sources *sources = context;
    (void)service;
    sources->has_news = true;
    if (status != LEASE_OK) {
        take_error(sources, "a service", reason);
    }
}

static struct lease_service *open_service(struct render_sources *sources, const char *name) {
    for (size_t i = 0; i < sources->n_services; i++) {
        if (strcmp(sources->services[i].name, name) == 0) {
            return sources->services[i].service;
        }
    }
    struct lease_service_options options = LEASE_SERVICE_OPTIONS_INIT;
    struct lease_service *service = NULL;
    options.service = name;
    options.with_unhealthy = true;
    options.callback = on_service;
    options.context = sources;
    if (sources->n_services == SOURCES_MAX) {
        take_error(sources, name, "too many services in one template");
    } else if (lease_service_open(sources->connection, &options, &service) != LEASE_OK) {
        take_error(sources, name, lease_error());
    } else {
        sources->services[sources->n_services++] = (struct source_service){copy(name), service};
    }
    return service;
}

static bool service_items(struct render_sources *sources, const struct render_query *query,
                          struct arena *arena, const struct render_item **out_items,
                          size_t *out_n) {
    const struct lease_instance_list *list = NULL;
    struct lease_service *service = open_service(sources, query->name);
    if (service == NULL || lease_service_instances(service, &list) != LEASE_OK) {
        return false;
    }
    struct render_item *items = arena_calloc(arena, list->n_items, sizeof *items);
    size_t n = 0;
    for (size_t i = 0; i < list->n_items; i++) {
        if (matches(query, &list->items[i])) {
            items[n++] = instance_item(arena, &list->items[i]);
        }
    }
    lease_free(list);
    *out_items = items;
    *out_n = n;
    return true;
}

/* ---- the list of services ---- */

void render_sources_refresh(struct render_sources *sources) {
    const struct lease_service_list *list = NULL;
    if (sources->list_prefix == NULL) {
        return;
    }
    if (lease_service_list(sources->connection, sources->list_prefix, NULL, 0, &list) != LEASE_OK) {
        return; /* asked again later; what is known stays */
    }
    bool is_same = sources->list != NULL && sources->list->n_items == list->n_items;
    for (size_t i = 0; is_same && i < list->n_items; i++) {
        is_same = strcmp(sources->list->items[i].name, list->items[i].name) == 0 &&
                  sources->list->items[i].revision == list->items[i].revision;
    }
    lease_free(sources->list);
    sources->list = list;
    sources->has_news |= !is_same;
}

static bool services_items(struct render_sources *sources, const struct render_query *query,
                           struct arena *arena, const struct render_item **out_items,
                           size_t *out_n) {
    if (sources->list_prefix == NULL) {
        sources->list_prefix = copy(query->name);
        render_sources_refresh(sources);
    } else if (strcmp(sources->list_prefix, query->name) != 0) {
        take_error(sources, query->name, "a template lists services of one prefix alone");
        return false;
    }
    if (sources->list == NULL) {
        return false;
    }
    struct render_item *items = arena_calloc(arena, sources->list->n_items, sizeof *items);
    for (size_t i = 0; i < sources->list->n_items; i++) {
        struct fields fields = {.arena = arena};
        fields.items = arena_calloc(arena, FIELDS_FIXED, sizeof fields.items[0]);
        add(&fields, "name", sources->list->items[i].name);
        add_number(&fields, "live", sources->list->items[i].n_live);
        add_flag(&fields, "guarded", sources->list->items[i].is_guarded);
        items[i] = (struct render_item){fields.items, fields.n};
    }
    *out_items = items;
    *out_n = sources->list->n_items;
    return true;
}

/* ---- keys ---- */

static void on_keys(struct lease_directory *directory, enum lease_status status, const char *reason,
                    void *context) {
    struct render_sources *sources = context;
    (void)directory;
    sources->has_news = true;
    if (status != LEASE_OK) {
        take_error(sources, "keys", reason);
    }
}

static const struct lease_entry_list *list_keys(struct render_sources *sources,
                                                const char *prefix) {
    const struct lease_entry_list *list = NULL;
    struct lease_directory *directory = NULL;
    for (size_t i = 0; i < sources->n_keys && directory == NULL; i++) {
        if (strcmp(sources->keys[i].prefix, prefix) == 0) {
            directory = sources->keys[i].directory;
        }
    }
    if (directory == NULL && sources->n_keys == SOURCES_MAX) {
        take_error(sources, prefix, "too many keys in one template");
        return NULL;
    }
    if (directory == NULL) {
        if (lease_discover(sources->connection, prefix, on_keys, sources, &directory) != LEASE_OK) {
            take_error(sources, prefix, lease_error());
            return NULL;
        }
        sources->keys[sources->n_keys++] = (struct source_keys){copy(prefix), directory};
    }
    return lease_directory_entries(directory, &list) == LEASE_OK ? list : NULL;
}

static bool keys_items(struct render_sources *sources, const struct render_query *query,
                       struct arena *arena, const struct render_item **out_items, size_t *out_n) {
    const struct lease_entry_list *list = list_keys(sources, query->name);
    if (list == NULL) {
        return false;
    }
    struct render_item *items = arena_calloc(arena, list->n_items, sizeof *items);
    for (size_t i = 0; i < list->n_items; i++) {
        const struct lease_entry *entry = &list->items[i];
        struct fields fields = {.arena = arena};
        fields.items = arena_calloc(arena, FIELDS_FIXED, sizeof fields.items[0]);
        add(&fields, "key", entry->key);
        add(&fields, "name", entry->key + strlen(query->name));
        add(&fields, "value", entry->value);
        items[i] = (struct render_item){fields.items, fields.n};
    }
    *out_items = items;
    *out_n = list->n_items;
    lease_free(list);
    return true;
}

static bool key_value(void *context, const char *name, struct arena *arena,
                      const char **out_value) {
    struct render_sources *sources = context;
    const struct lease_entry_list *list = list_keys(sources, name);
    if (list == NULL) {
        return false;
    }
    *out_value = NULL;
    for (size_t i = 0; i < list->n_items; i++) {
        if (strcmp(list->items[i].key, name) == 0) {
            const char *value = list->items[i].value;
            *out_value = arena_copy(arena, value, strlen(value) + 1);
        }
    }
    lease_free(list);
    return true;
}

/* ---- all of them ---- */

static bool items(void *context, const struct render_query *query, struct arena *arena,
                  const struct render_item **out_items, size_t *out_n) {
    switch (query->kind) {
    case RENDER_EACH_SERVICE:
        return service_items(context, query, arena, out_items, out_n);
    case RENDER_EACH_SERVICES:
        return services_items(context, query, arena, out_items, out_n);
    default:
        return keys_items(context, query, arena, out_items, out_n);
    }
}

struct render_sources *render_sources_create(struct lease_connection *connection) {
    struct render_sources *sources = calloc(1, sizeof *sources);
    if (sources == NULL) {
        abort();
    }
    sources->connection = connection;
    return sources;
}

void render_sources_destroy(struct render_sources *sources) {
    if (sources == NULL) {
        return;
    }
    for (size_t i = 0; i < sources->n_services; i++) {
        lease_service_close(sources->services[i].service);
        free(sources->services[i].name);
    }
    for (size_t i = 0; i < sources->n_keys; i++) {
        lease_directory_destroy(sources->keys[i].directory);
        free(sources->keys[i].prefix);
    }
    lease_free(sources->list);
    free(sources->list_prefix);
    free(sources);
}

struct render_source render_sources_source(struct render_sources *sources) {
    return (struct render_source){.context = sources, .items = items, .key = key_value};
}

const bool *render_sources_has_news(const struct render_sources *sources) {
    return &sources->has_news;
}

void render_sources_take_news(struct render_sources *sources) {
    sources->has_news = false;
}

const char *render_sources_error(const struct render_sources *sources) {
    return sources->error[0] != '\0' ? sources->error : NULL;
}
