/* Reading an instance from a body. */
#include "doors/eureka/eureka_instance.h"

#include "doors/eureka/eureka_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PORT_DEFAULT = 7001, SECURE_PORT_DEFAULT = 7002, SECONDS_MAX = INT32_MAX };

static const char *const status_names[EUREKA_STATUSES] = {"DOWN", "OUT_OF_SERVICE", "STARTING",
                                                          "UNKNOWN", "UP"};

const char *eureka_status_name(enum eureka_status status) {
    return status_names[status];
}

bool eureka_status_read(struct bytes name, enum eureka_status *out_status) {
    for (size_t i = 0; i < EUREKA_STATUSES; i++) {
        if (name.size == strlen(status_names[i]) &&
            strncasecmp((const char *)name.data, status_names[i], name.size) == 0) {
            *out_status = (enum eureka_status)i;
            return true;
        }
    }
    return false;
}

enum registry_state eureka_status_state(enum eureka_status status) {
    static const enum registry_state states[EUREKA_STATUSES] = {
        [EUREKA_DOWN] = REGISTRY_DOWN,
        [EUREKA_OUT_OF_SERVICE] = REGISTRY_OUT_OF_SERVICE,
        [EUREKA_STARTING] = REGISTRY_STARTING,
        [EUREKA_UNKNOWN] = REGISTRY_STATE_NONE,
        [EUREKA_UP] = REGISTRY_UP,
    };
    return states[status];
}

static const char *const field_names[EUREKA_FIELDS] = {
    "hostName",
    "ipAddr",
    "sid",
    "appGroupName",
    "homePageUrl",
    "statusPageUrl",
    "healthCheckUrl",
    "secureHealthCheckUrl",
    "vipAddress",
    "secureVipAddress",
    "asgName",
    "name",
};

const char *eureka_field_name(enum eureka_field field) {
    return field_names[field];
}

/* --- Numbers. --- */

/* White space around it is left alone, as in XML that was indented. */
static struct bytes trim(struct bytes text) {
    static const char spaces[] = " \t\r\n";
    while (text.size > 0 && memchr(spaces, text.data[0], sizeof spaces - 1) != NULL) {
        text = bytes_of(text.data + 1, text.size - 1);
    }
    while (text.size > 0 && memchr(spaces, text.data[text.size - 1], sizeof spaces - 1) != NULL) {
        text.size--;
    }
    return text;
}

static bool read_number(struct bytes text, int64_t min, int64_t max, int64_t *out_number) {
    char digits[32];
    char *end;
    text = trim(text);
    if (text.size == 0 || text.size >= sizeof digits) {
        return false;
    }
    memcpy(digits, text.data, text.size);
    digits[text.size] = '\0';
    errno = 0;
    long long number = strtoll(digits, &end, 10);
    if (errno != 0 || *end != '\0' || number < min || number > max) {
        return false;
    }
    *out_number = number;
    return true;
}

/* A number that may be left out; `out_number` keeps its value then. */
static bool read_member(const struct eureka_node *node, const char *name, int64_t min, int64_t max,
                        int64_t *out_number) {
    struct bytes text = eureka_node_text(node, name);
    return text.size == 0 || read_number(text, min, max, out_number);
}

static bool is_text(struct bytes text, const char *wanted) {
    return bytes_equal(trim(text), bytes_from_text(wanted));
}

/* --- Parts of an instance. --- */

/* {"$": 80, "@enabled": "true"}, <port enabled="true">80</port>, or the number alone. */
static bool read_port(const struct eureka_node *root, const char *name, struct eureka_port *port) {
    const struct eureka_node *node = eureka_node_child(root, name);
    if (node == NULL) {
        return true;
    }
    int64_t number;
    const struct eureka_node *value = eureka_node_child(node, "$");
    if (!read_number(value == NULL ? node->text : value->text, 0, UINT16_MAX, &number)) {
        return false;
    }
    const struct eureka_node *enabled = eureka_node_child(node, "@enabled");
    port->number = (uint16_t)number;
    port->is_given = true;
    if (enabled != NULL) {
        port->is_enabled = is_text(enabled->text, "true");
    }
    return true;
}

/* The classes of Java's maps are left out. False: more than the registry takes. */
static bool read_pairs(const struct eureka_node *node, struct arena *arena, size_t *out_n,
                       const struct registry_pair **out_pairs) {
    struct registry_pair *pairs = arena_calloc(arena, REGISTRY_PAIRS_MAX, sizeof *pairs);
    size_t n = 0;
    for (const struct eureka_node *child = node == NULL ? NULL : node->first; child != NULL;
         child = child->next) {
        if (child->is_null || child->name.size == 0 || child->name.data[0] == '@') {
            continue;
        }
        size_t at = 0;
        while (at < n && !bytes_equal(pairs[at].key, child->name)) {
            at++;
        }
        if (at == REGISTRY_PAIRS_MAX) {
            return false;
        }
        n = at == n ? n + 1 : n;
        pairs[at] = (struct registry_pair){.key = child->name, .value = child->text};
    }
    *out_n = n;
    *out_pairs = pairs;
    return true;
}

static bool read_lease(const struct eureka_node *root, struct eureka_instance *instance,
                       const char **out_error) {
    const struct eureka_node *node = eureka_node_child(root, "leaseInfo");
    instance->lease.renewal_interval_s = EUREKA_RENEWAL_INTERVAL_S;
    instance->lease.duration_s = EUREKA_DURATION_S;
    if (!read_member(node, "durationInSecs", 1, SECONDS_MAX, &instance->lease.duration_s)) {
        *out_error = "leaseInfo.durationInSecs is not a whole number of seconds, at least 1";
        return false;
    }
    if (!read_member(node, "renewalIntervalInSecs", 1, SECONDS_MAX,
                     &instance->lease.renewal_interval_s)) {
        *out_error = "leaseInfo.renewalIntervalInSecs is not a whole number of seconds, at least 1";
        return false;
    }
    return true;
}

static bool read_data_center(const struct eureka_node *root, struct arena *arena,
                             struct eureka_instance *instance, const char **out_error) {
    static const char *const names[] = {"MyOwn", "Amazon", "Netflix"};
    const struct eureka_node *node = eureka_node_child(root, "dataCenterInfo");
    struct bytes name = trim(eureka_node_text(node, "name"));
    size_t i = 0;
    while (name.size > 0 && i < 3 && !bytes_equal(name, bytes_from_text(names[i]))) {
        i++;
    }
    if (i == 3) {
        *out_error = "dataCenterInfo.name is not MyOwn, Amazon or Netflix";
        return false;
    }
    instance->fields[EUREKA_FIELD_DATA_CENTER] = bytes_from_text(names[i]);
    if (!read_pairs(eureka_node_child(node, "metadata"), arena, &instance->n_data_center,
                    &instance->data_center)) {
        *out_error = "dataCenterInfo.metadata has more than 64 members";
        return false;
    }
    return true;
}

static bool read_ports(const struct eureka_node *root, struct eureka_instance *instance,
                       const char **out_error) {
    instance->port = (struct eureka_port){.number = PORT_DEFAULT, .is_enabled = true};
    instance->secure_port = (struct eureka_port){.number = SECURE_PORT_DEFAULT};
    if (!read_port(root, "port", &instance->port) ||
        !read_port(root, "securePort", &instance->secure_port)) {
        *out_error = "port or securePort is not a number between 0 and 65535";
        return false;
    }
    return true;
}

static bool read_numbers(const struct eureka_node *root, struct eureka_instance *instance,
                         const char **out_error) {
    instance->country_id = 1;
    if (!read_member(root, "countryId", INT32_MIN, INT32_MAX, &instance->country_id)) {
        *out_error = "countryId is not a number";
        return false;
    }
    if (!read_member(root, "lastDirtyTimestamp", 0, INT64_MAX, &instance->dirty_ms)) {
        *out_error = "lastDirtyTimestamp is not a number";
        return false;
    }
    return true;
}

/* What is not a status counts as UNKNOWN, as Eureka does. Both spellings of the override are in
 * use. */
static void read_statuses(const struct eureka_node *root, struct eureka_instance *instance) {
    struct bytes status = trim(eureka_node_text(root, "status"));
    struct bytes override = trim(eureka_node_text(root, "overriddenStatus"));
    if (override.size == 0) {
        override = trim(eureka_node_text(root, "overriddenstatus"));
    }
    instance->status = status.size == 0 ? EUREKA_UP : EUREKA_UNKNOWN;
    instance->override = EUREKA_UNKNOWN;
    (void)eureka_status_read(status, &instance->status);
    (void)eureka_status_read(override, &instance->override);
}

/* --- The whole. --- */

/* As Eureka finds out the id of an instance that names none. */
static struct bytes find_id(const struct eureka_node *root,
                            const struct eureka_instance *instance) {
    struct bytes id = eureka_node_text(root, "instanceId");
    for (size_t i = 0; id.size == 0 && i < instance->n_data_center; i++) {
        if (bytes_equal(instance->data_center[i].key, bytes_from_text("instance-id"))) {
            id = instance->data_center[i].value;
        }
    }
    return id.size > 0 ? id : instance->fields[EUREKA_FIELD_HOST_NAME];
}

static void read_texts(const struct eureka_node *root, struct eureka_instance *instance) {
    for (size_t i = 0; i < EUREKA_FIELD_DATA_CENTER; i++) {
        instance->fields[i] = eureka_node_text(root, field_names[i]);
    }
    struct bytes sid = instance->fields[EUREKA_FIELD_SID];
    if (is_text(sid, "na") || is_text(sid, "unknown")) {
        instance->fields[EUREKA_FIELD_SID] = bytes_of(NULL, 0);
    }
    instance->is_coordinating =
        is_text(eureka_node_text(root, "isCoordinatingDiscoveryServer"), "true");
    instance->app = trim(eureka_node_text(root, "app"));
}

bool eureka_instance_read(const struct eureka_node *root, struct arena *arena,
                          struct eureka_instance *out_instance, const char **out_error) {
    struct eureka_instance instance = {0};
    if (!bytes_equal(root->name, bytes_from_text("instance"))) {
        *out_error = "the body is not an instance";
        return false;
    }
    read_texts(root, &instance);
    read_statuses(root, &instance);
    if (!read_ports(root, &instance, out_error) || !read_numbers(root, &instance, out_error) ||
        !read_lease(root, &instance, out_error) ||
        !read_data_center(root, arena, &instance, out_error)) {
        return false;
    }
    if (!read_pairs(eureka_node_child(root, "metadata"), arena, &instance.n_metadata,
                    &instance.metadata)) {
        *out_error = "metadata has more than 64 members";
        return false;
    }
    instance.id = find_id(root, &instance);
    *out_instance = instance;
    return true;
}
