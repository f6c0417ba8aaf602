/* Pure: run by every replica when the command is applied, with the same result. */
#include "doors/consul/consul_check_rules.h"

#include "registry/registry_keys.h"
#include "registry/registry_model.h"

static enum status check_service(struct rule_run *run, struct bytes encoded) {
    struct arena *arena = rule_arena(run);
    struct consul_check_name name;
    struct registry_check check;
    if (!consul_check_name_decode(encoded, &name)) {
        return STATUS_INVALID;
    }
    const struct record *record = rule_get(
        run, KEY_SPACE_REGISTRY, registry_key_check(arena, name.service, name.id, name.check));
    if (record == NULL || !registry_check_decode(record_value(record), arena, &check)) {
        return STATUS_KEY_NOT_FOUND;
    }
    return check.health == REGISTRY_CRITICAL ? STATUS_FENCED : STATUS_OK;
}

enum status consul_checks_of_session(struct rule_run *run, const struct consul_session *session) {
    enum status status = STATUS_OK;
    for (size_t i = 0; i < session->n_node_checks && status == STATUS_OK; i++) {
        if (!bytes_equal(session->node_checks[i], bytes_from_text(CONSUL_NODE_CHECK))) {
            status = STATUS_KEY_NOT_FOUND;
        }
    }
    for (size_t i = 0; i < session->n_service_checks && status == STATUS_OK; i++) {
        status = check_service(run, session->service_checks[i]);
    }
    return status;
}
