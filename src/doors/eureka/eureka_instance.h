/*
 * An instance as Eureka knows it: read from a request's body, kept in the registry, shown again.
 * What the registry has a place for (address, port, state, metadata) is put there, so that other
 * protocols see it; all that is Eureka's alone is in the record's `extra`.
 */
#ifndef LEASED_DOORS_EUREKA_EUREKA_INSTANCE_H
#define LEASED_DOORS_EUREKA_EUREKA_INSTANCE_H

#include "doors/eureka/eureka_tree.h"
#include "registry/registry_view.h"

/* In the order of their names, which is that of the hash code. */
enum eureka_status {
    EUREKA_DOWN,
    EUREKA_OUT_OF_SERVICE,
    EUREKA_STARTING,
    EUREKA_UNKNOWN,
    EUREKA_UP,
    EUREKA_STATUSES
};
const char *eureka_status_name(enum eureka_status status);
/* False: it names none. */
bool eureka_status_read(struct bytes name, enum eureka_status *out_status);
/* REGISTRY_STATE_NONE for EUREKA_UNKNOWN. */
enum registry_state eureka_status_state(enum eureka_status status);

/* In the delta. */
enum eureka_action { EUREKA_ADDED, EUREKA_MODIFIED, EUREKA_DELETED };

/* Texts that may be left out: empty. */
enum eureka_field {
    EUREKA_FIELD_HOST_NAME,
    EUREKA_FIELD_IP_ADDRESS,
    EUREKA_FIELD_SID,
    EUREKA_FIELD_APP_GROUP,
    EUREKA_FIELD_HOME_PAGE,
    EUREKA_FIELD_STATUS_PAGE,
    EUREKA_FIELD_HEALTH_CHECK,
    EUREKA_FIELD_SECURE_HEALTH_CHECK,
    EUREKA_FIELD_VIP,
    EUREKA_FIELD_SECURE_VIP,
    EUREKA_FIELD_ASG,
    EUREKA_FIELD_DATA_CENTER,
    EUREKA_FIELDS
};
/* As JSON and XML have it; that of the data center is within "dataCenterInfo". */
const char *eureka_field_name(enum eureka_field field);

struct eureka_port {
    uint16_t number;
    bool is_enabled;
    bool is_given;
};

/* Seconds, and wall times in milliseconds. */
struct eureka_lease_info {
    int64_t renewal_interval_s;
    int64_t duration_s;
    int64_t registered_ms;
    int64_t renewed_ms;
    int64_t evicted_ms;
    int64_t up_ms;
};

struct eureka_instance {
    struct bytes id;
    struct bytes app; /* upper case when it is shown, as it came when it was read */
    struct bytes fields[EUREKA_FIELDS];
    enum eureka_status status;
    enum eureka_status override; /* EUREKA_UNKNOWN: none */
    struct eureka_port port;
    struct eureka_port secure_port;
    int64_t country_id;
    struct eureka_lease_info lease;
    size_t n_metadata;
    const struct registry_pair *metadata;
    size_t n_data_center; /* metadata of Amazon's */
    const struct registry_pair *data_center;
    bool is_coordinating;
    int64_t updated_ms;
    int64_t dirty_ms; /* 0: the client gave none */
    enum eureka_action action;
};

enum { EUREKA_RENEWAL_INTERVAL_S = 30, EUREKA_DURATION_S = 90 };

/* From a body. Arrays are arena memory, texts those of the tree. On failure `out_error` says why,
 * for people; constant. */
bool eureka_instance_read(const struct eureka_node *root, struct arena *arena,
                          struct eureka_instance *out_instance, const char **out_error);

/* As the registry keeps it: service, id, and all that it models; in arena memory. False: it is more
 * than the registry takes, for the reason in `out_error`. */
bool eureka_instance_register(const struct eureka_instance *instance, struct arena *arena,
                              struct registry_instance *out_record, const char **out_error);

/* As Eureka shows it, whichever protocol registered it; in arena memory. */
void eureka_instance_show(const struct registry_entry *entry, struct arena *arena,
                          struct eureka_instance *out_instance);
/* What of it is asked for most: counted for every instance of the registry. */
enum eureka_status eureka_instance_status(const struct registry_entry *entry);
/* Its lastDirtyTimestamp; 0: not known. */
int64_t eureka_instance_dirty_ms(const struct registry_instance *record);

/* --- eureka_extra.c: what only Eureka knows, in the registry's `extra`. --- */

void eureka_extra_encode(struct buffer *out, const struct eureka_instance *instance);
/* False: it is none of ours. Fills in what it has; arrays are arena memory. */
bool eureka_extra_decode(struct bytes extra, struct arena *arena,
                         struct eureka_instance *out_instance);
/* Its own status is UNKNOWN, which the registry has no state for. */
bool eureka_extra_is_unknown(struct bytes extra);

#endif
