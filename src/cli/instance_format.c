#include "cli/instance_format.h"

#include "base/duration.h"
#include "base/host_port.h"
#include "cli/table.h"

#include <stdio.h>

const char *cli_instance_mark(const struct lease_instance *instance) {
    if (instance->is_kept) {
        return "kept";
    }
    if (instance->is_expired) {
        return "expired";
    }
    if (instance->state != LEASE_INSTANCE_UP) {
        return lease_instance_state_text(instance->state);
    }
    return lease_health_text(instance->health);
}

/* Tags, then metadata, with commas. */
static void join_labels(const struct lease_instance *instance, char room[CLI_TEXT_SIZE_MAX]) {
    char text[CLI_TEXT_SIZE_MAX];
    size_t size = 0;
    room[0] = '\0';
    for (size_t i = 0; i < instance->n_tags && size < CLI_TEXT_SIZE_MAX; i++) {
        size += (size_t)snprintf(room + size, CLI_TEXT_SIZE_MAX - size, "%s%s", size > 0 ? "," : "",
                                 cli_plain(instance->tags[i], text));
    }
    for (size_t i = 0; i < instance->n_metadata && size < CLI_TEXT_SIZE_MAX; i++) {
        char value[CLI_TEXT_SIZE_MAX];
        size += (size_t)snprintf(room + size, CLI_TEXT_SIZE_MAX - size, "%s%s=%s",
                                 size > 0 ? "," : "", cli_plain(instance->metadata[i].key, text),
                                 cli_plain(instance->metadata[i].value, value));
    }
}

static void add_row(struct table *table, const struct lease_instance *instance) {
    char text[CLI_TEXT_SIZE_MAX];
    char labels[CLI_TEXT_SIZE_MAX];
    char address[HOST_PORT_TEXT_SIZE_MAX];
    table_add(table, "%s", cli_plain(instance->id, text));
    host_port_format(instance->address, (uint16_t)instance->port, address);
    table_add(table, "%s", cli_plain(address, text));
    table_add(table, "%s", cli_instance_mark(instance));
    table_add(table, "%s", cli_plain(instance->zone[0] != '\0' ? instance->zone : "-", text));
    table_add(table, "%s", cli_plain(instance->version[0] != '\0' ? instance->version : "-", text));
    table_add(table, "%u", instance->weight);
    join_labels(instance, labels);
    table_add(table, "%s", labels[0] != '\0' ? labels : "-");
}

static void print_guard(const struct lease_service_info *service) {
    char since[CLI_WALL_SIZE_MAX];
    char hold[DURATION_TEXT_SIZE_MAX];
    if (service->is_guarded) {
        printf("guarded: %u of %u instances were lost at once and are kept, since %s, for at most "
               "%s\n",
               service->n_lost, service->n_lost + service->n_live,
               cli_wall_time(service->guarded_wall_ms, since),
               duration_format(service->settings.guard_hold_ms, hold));
    }
}

void cli_print_instances(const struct lease_instance_list *list) {
    static const struct table_column columns[] = {
        {"ID", false},      {"ADDRESS", false}, {"STATE", false},  {"ZONE", false},
        {"VERSION", false}, {"WEIGHT", true},   {"LABELS", false},
    };
    struct table table;
    print_guard(&list->service);
    if (list->n_items == 0) {
        puts("no instances");
        return;
    }
    table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < list->n_items; i++) {
        add_row(&table, &list->items[i]);
    }
    table_print(&table, stdout);
    table_clear(&table);
}

json_t *cli_instance_json(const struct lease_instance *instance) {
    json_t *tags = json_array();
    json_t *metadata = json_object();
    for (size_t i = 0; i < instance->n_tags; i++) {
        json_array_append_new(tags, cli_json_text(instance->tags[i]));
    }
    for (size_t i = 0; i < instance->n_metadata; i++) {
        json_object_set_new(metadata, instance->metadata[i].key,
                            cli_json_text(instance->metadata[i].value));
    }
    return json_pack(
        "{s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:i, s:s, s:s, s:b, s:b, s:b, s:b, s:I, s:I, "
        "s:I}",
        "service", cli_json_text(instance->service), "id", cli_json_text(instance->id), "address",
        cli_json_text(instance->address), "port", (int)instance->port, "tags", tags, "metadata",
        metadata, "zone", cli_json_text(instance->zone), "version",
        cli_json_text(instance->version), "weight", (int)instance->weight, "state",
        lease_instance_state_text(instance->state), "health", lease_health_text(instance->health),
        "overridden", instance->is_overridden, "serving", instance->is_serving, "kept",
        instance->is_kept, "expired", instance->is_expired, "ttl_ms", (json_int_t)instance->ttl_ms,
        "token", (json_int_t)instance->token, "revision", (json_int_t)instance->revision);
}

json_t *cli_service_json(const struct lease_service_info *service) {
    const struct lease_service_settings *settings = &service->settings;
    return json_pack("{s:o, s:i, s:i, s:b, s:I, s:I, s:{s:I, s:i, s:i, s:I, s:I}}", "service",
                     cli_json_text(service->name), "live", (int)service->n_live, "lost",
                     (int)service->n_lost, "guarded", service->is_guarded, "times_guarded",
                     (json_int_t)service->n_guarded, "revision", (json_int_t)service->revision,
                     "settings", "grace_ms", (json_int_t)settings->grace_ms, "guard_percent",
                     (int)settings->guard_percent, "guard_minimum", (int)settings->guard_minimum,
                     "guard_window_ms", (json_int_t)settings->guard_window_ms, "guard_hold_ms",
                     (json_int_t)settings->guard_hold_ms);
}
