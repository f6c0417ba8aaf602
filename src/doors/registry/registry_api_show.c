#include "doors/registry/registry_api_show.h"

#include "base/pb_append.h"
#include "core/lease_table.h"

#include <string.h>

static void show_pairs(struct buffer *out, uint32_t field, const struct registry_pair *pairs,
                       size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t mark = pb_append_begin(out, field);
        pb_append_bytes(out, 1, pairs[i].key);
        pb_append_bytes(out, 2, pairs[i].value);
        pb_append_end(out, mark);
    }
}

/* Words with NUL between them. */
static void show_command(struct buffer *out, uint32_t field, struct bytes command) {
    while (command.size > 0) {
        const uint8_t *nul = memchr(command.data, 0, command.size);
        size_t size = nul == NULL ? command.size : (size_t)(nul - command.data);
        pb_append_element(out, field, bytes_of(command.data, size));
        size_t used = nul == NULL ? size : size + 1;
        command = bytes_of(command.data + used, command.size - used);
    }
}

static void show_check(struct buffer *out, uint32_t field, const struct registry_check *check) {
    size_t mark = pb_append_begin(out, field);
    bool is_command = check->kind == REGISTRY_CHECK_COMMAND;
    pb_append_bytes(out, 1, check->id);
    pb_append_bytes(out, 2, check->name);
    pb_append_uint64(out, 3, check->kind);
    pb_append_bytes(out, 4, check->notes);
    if (is_command) {
        show_command(out, 6, check->target);
    } else {
        pb_append_bytes(out, 5, check->target);
    }
    pb_append_bytes(out, 7, check->method);
    show_pairs(out, 8, check->headers, check->n_headers);
    pb_append_bytes(out, 9, check->body);
    pb_append_bytes(out, 10, check->body_match);
    pb_append_uint64(out, 11, check->status_min);
    pb_append_uint64(out, 12, check->status_max);
    pb_append_bytes(out, 13, check->server_name);
    pb_append_bool(out, 14, check->is_tls);
    pb_append_bool(out, 15, check->skips_verification);
    pb_append_bytes(out, 16, check->alias_service);
    pb_append_bytes(out, 17, check->alias_id);
    pb_append_int64(out, 18, check->interval_ms);
    pb_append_int64(out, 19, check->timeout_ms);
    pb_append_int64(out, 20, check->ttl_ms);
    pb_append_uint64(out, 21, check->rises);
    pb_append_uint64(out, 22, check->falls);
    pb_append_int64(out, 23, check->deregister_after_ms);
    pb_append_uint64(out, 24, check->health);
    pb_append_bytes(out, 25, check->output);
    pb_append_int64(out, 26, check->changed_wall_ms);
    pb_append_end(out, mark);
}

void registry_api_show_instance(struct buffer *out, uint32_t field,
                                const struct registry_entry *entry, bool with_checks) {
    const struct registry_instance *instance = &entry->instance;
    size_t mark = pb_append_begin(out, field);
    pb_append_bytes(out, 1, instance->service);
    pb_append_bytes(out, 2, instance->id);
    pb_append_bytes(out, 3, instance->address);
    pb_append_uint64(out, 4, instance->port);
    for (size_t i = 0; i < instance->n_tags; i++) {
        pb_append_element(out, 5, instance->tags[i]);
    }
    show_pairs(out, 6, instance->metadata, instance->n_metadata);
    pb_append_bytes(out, 7, instance->zone);
    pb_append_bytes(out, 8, instance->version);
    pb_append_int64(out, 9, instance->weight == 0 ? -1 : (int64_t)instance->weight);
    pb_append_uint64(out, 10, instance->state);
    pb_append_int64(out, 11, instance->ttl_ms == LEASE_TTL_FOREVER ? -1 : instance->ttl_ms);
    pb_append_bytes(out, 12, instance->node);
    pb_append_bytes(out, 13, instance->owner);
    for (size_t i = 0; with_checks && i < entry->n_checks; i++) {
        show_check(out, 14, &entry->checks[i]);
    }
    pb_append_uint64(out, 15, instance->override_state);
    pb_append_uint64(out, 16, entry->health);
    pb_append_bool(out, 17, entry->is_serving);
    pb_append_bool(out, 18, entry->is_kept);
    pb_append_int64(out, 19, instance->token);
    pb_append_int64(out, 20, instance->lease_id);
    pb_append_int64(out, 21, instance->revision);
    pb_append_uint64(out, 22, instance->origin);
    pb_append_int64(out, 23, instance->registered_wall_ms);
    pb_append_int64(out, 24, instance->state_wall_ms);
    pb_append_end(out, mark);
}

static void show_settings(struct buffer *out, uint32_t field,
                          const struct registry_service_settings *settings) {
    size_t mark = pb_append_begin(out, field);
    pb_append_int64(out, 1, settings->grace_ms);
    pb_append_uint64(out, 2, settings->guard_percent);
    pb_append_uint64(out, 3, settings->guard_minimum);
    pb_append_int64(out, 4, settings->guard_window_ms);
    pb_append_int64(out, 5, settings->guard_hold_ms);
    pb_append_end(out, mark);
}

void registry_api_show_service(struct buffer *out, uint32_t field, const struct key_store *keys,
                               struct arena *arena, struct bytes name) {
    struct registry_service service = {.n_live = 0};
    registry_view_service(keys, arena, name, &service);
    struct registry_service_settings settings = registry_service_settings(&service);
    size_t mark = pb_append_begin(out, field);
    pb_append_bytes(out, 1, name);
    pb_append_uint64(out, 2, service.n_live);
    pb_append_uint64(out, 3, service.n_lost);
    pb_append_bool(out, 4, service.guard_lease_id != 0);
    pb_append_int64(out, 5, service.guard_lease_id != 0 ? service.guard_wall_ms : 0);
    pb_append_uint64(out, 6, service.n_guarded);
    show_settings(out, 7, &settings);
    pb_append_int64(out, 8, registry_view_revision(keys, arena, name));
    show_settings(out, 9, &service.settings);
    pb_append_end(out, mark);
}

void registry_api_show_event(struct buffer *out, uint32_t field,
                             const struct registry_event *event) {
    size_t mark = pb_append_begin(out, field);
    pb_append_uint64(out, 1, event->number);
    pb_append_uint64(out, 2, event->kind);
    pb_append_bytes(out, 3, event->service);
    pb_append_bytes(out, 4, event->id);
    pb_append_uint64(out, 5, event->n_live);
    pb_append_uint64(out, 6, event->n_lost);
    pb_append_int64(out, 7, event->revision);
    pb_append_int64(out, 8, event->wall_ms);
    pb_append_end(out, mark);
}
