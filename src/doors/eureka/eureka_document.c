#include "doors/eureka/eureka_document.h"

#include <inttypes.h>
#include <stdio.h>

#define CLASS_AMAZON "com.netflix.appinfo.AmazonInfo"
#define CLASS_DATA_CENTER "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo"
#define CLASS_EMPTY_MAP "java.util.Collections$EmptyMap"

void eureka_hash_code(const struct eureka_counts *counts, char out_text[EUREKA_HASH_CODE_SIZE]) {
    size_t size = 0;
    out_text[0] = '\0';
    for (size_t i = 0; i < EUREKA_STATUSES; i++) {
        if (counts->of[i] > 0) {
            size +=
                (size_t)snprintf(out_text + size, EUREKA_HASH_CODE_SIZE - size, "%s_%" PRIu64 "_",
                                 eureka_status_name((enum eureka_status)i), counts->of[i]);
        }
    }
}

/* --- An instance. --- */

static void write_pairs(struct eureka_writer *writer, const char *name,
                        const struct registry_pair *pairs, size_t n) {
    if (n == 0) {
        eureka_writer_open_class(writer, name, CLASS_EMPTY_MAP);
    } else {
        eureka_writer_open(writer, name);
    }
    for (size_t i = 0; i < n; i++) {
        eureka_writer_pair(writer, pairs[i].key, pairs[i].value);
    }
    eureka_writer_close(writer, name);
}

static void write_data_center(struct eureka_writer *writer,
                              const struct eureka_instance *instance) {
    struct bytes name = instance->fields[EUREKA_FIELD_DATA_CENTER];
    bool is_amazon = bytes_equal(name, bytes_from_text("Amazon"));
    eureka_writer_open_class(writer, "dataCenterInfo",
                             is_amazon ? CLASS_AMAZON : CLASS_DATA_CENTER);
    eureka_writer_text(writer, "name", name);
    if (is_amazon) {
        write_pairs(writer, "metadata", instance->data_center, instance->n_data_center);
    }
    eureka_writer_close(writer, "dataCenterInfo");
}

static void write_lease(struct eureka_writer *writer, const struct eureka_lease_info *lease) {
    eureka_writer_open(writer, "leaseInfo");
    eureka_writer_number(writer, "renewalIntervalInSecs", lease->renewal_interval_s);
    eureka_writer_number(writer, "durationInSecs", lease->duration_s);
    eureka_writer_number(writer, "registrationTimestamp", lease->registered_ms);
    eureka_writer_number(writer, "lastRenewalTimestamp", lease->renewed_ms);
    eureka_writer_number(writer, "evictionTimestamp", lease->evicted_ms);
    eureka_writer_number(writer, "serviceUpTimestamp", lease->up_ms);
    eureka_writer_close(writer, "leaseInfo");
}

static void write_field(struct eureka_writer *writer, const struct eureka_instance *instance,
                        enum eureka_field field) {
    if (instance->fields[field].size > 0) {
        eureka_writer_text(writer, eureka_field_name(field), instance->fields[field]);
    }
}

static void write_identity(struct eureka_writer *writer, const struct eureka_instance *instance) {
    struct bytes status = bytes_from_text(eureka_status_name(instance->status));
    struct bytes override = bytes_from_text(eureka_status_name(instance->override));
    eureka_writer_text(writer, "instanceId", instance->id);
    eureka_writer_text(writer, "hostName", instance->fields[EUREKA_FIELD_HOST_NAME]);
    eureka_writer_text(writer, "app", instance->app);
    eureka_writer_text(writer, "ipAddr", instance->fields[EUREKA_FIELD_IP_ADDRESS]);
    write_field(writer, instance, EUREKA_FIELD_SID);
    eureka_writer_text(writer, "status", status);
    /* Releases of Eureka have written one or the other, and clients look for one or the other. */
    eureka_writer_text(writer, "overriddenStatus", override);
    eureka_writer_text(writer, "overriddenstatus", override);
}

static void write_times(struct eureka_writer *writer, const struct eureka_instance *instance) {
    static const char *const actions[] = {
        [EUREKA_ADDED] = "ADDED", [EUREKA_MODIFIED] = "MODIFIED", [EUREKA_DELETED] = "DELETED"};
    eureka_writer_text(writer, "isCoordinatingDiscoveryServer",
                       bytes_from_text(instance->is_coordinating ? "true" : "false"));
    eureka_writer_number_text(writer, "lastUpdatedTimestamp", instance->updated_ms);
    eureka_writer_number_text(writer, "lastDirtyTimestamp", instance->dirty_ms);
    eureka_writer_text(writer, "actionType", bytes_from_text(actions[instance->action]));
    write_field(writer, instance, EUREKA_FIELD_ASG);
}

static void write_content(struct eureka_writer *writer, const struct eureka_instance *instance) {
    static const enum eureka_field texts[] = {
        EUREKA_FIELD_APP_GROUP,    EUREKA_FIELD_HOME_PAGE,           EUREKA_FIELD_STATUS_PAGE,
        EUREKA_FIELD_HEALTH_CHECK, EUREKA_FIELD_SECURE_HEALTH_CHECK, EUREKA_FIELD_VIP,
        EUREKA_FIELD_SECURE_VIP,
    };
    write_identity(writer, instance);
    eureka_writer_port(writer, "port", instance->port.number, instance->port.is_enabled);
    eureka_writer_port(writer, "securePort", instance->secure_port.number,
                       instance->secure_port.is_enabled);
    eureka_writer_number(writer, "countryId", instance->country_id);
    write_data_center(writer, instance);
    write_lease(writer, &instance->lease);
    write_pairs(writer, "metadata", instance->metadata, instance->n_metadata);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_field(writer, instance, texts[i]);
    }
    write_times(writer, instance);
}

void eureka_document_instance(struct eureka_writer *writer,
                              const struct eureka_instance *instance) {
    eureka_writer_open_document(writer, "instance");
    write_content(writer, instance);
    eureka_writer_close_document(writer, "instance");
}

/* --- Applications. --- */

void eureka_document_open(struct eureka_writer *writer, int64_t version,
                          const struct eureka_counts *counts) {
    char hash_code[EUREKA_HASH_CODE_SIZE];
    eureka_hash_code(counts, hash_code);
    eureka_writer_open_document(writer, "applications");
    eureka_writer_number_text(writer, "versions__delta", version);
    eureka_writer_text(writer, "apps__hashcode", bytes_from_text(hash_code));
    eureka_writer_open_array(writer, "application");
}

void eureka_document_close(struct eureka_writer *writer) {
    eureka_writer_close_array(writer);
    eureka_writer_close_document(writer, "applications");
}

static void open_instances(struct eureka_writer *writer, struct bytes name) {
    eureka_writer_text(writer, "name", name);
    eureka_writer_open_array(writer, "instance");
}

void eureka_document_open_application(struct eureka_writer *writer, struct bytes name) {
    eureka_writer_open_element(writer, "application");
    open_instances(writer, name);
}

void eureka_document_add(struct eureka_writer *writer, const struct eureka_instance *instance) {
    eureka_writer_open_element(writer, "instance");
    write_content(writer, instance);
    eureka_writer_close_element(writer, "instance");
}

void eureka_document_close_application(struct eureka_writer *writer) {
    eureka_writer_close_array(writer);
    eureka_writer_close_element(writer, "application");
}

void eureka_document_open_only(struct eureka_writer *writer, struct bytes name) {
    eureka_writer_open_document(writer, "application");
    open_instances(writer, name);
}

void eureka_document_close_only(struct eureka_writer *writer) {
    eureka_writer_close_array(writer);
    eureka_writer_close_document(writer, "application");
}
