/* Pure: run by every replica when the command is applied, with the same result. */
#include "doors/consul/consul_check_rules.h"

static enum status check_all(struct rule_run *run, const struct bytes *checks, size_t n) {
    (void)run;
    for (size_t i = 0; i < n; i++) {
        if (!bytes_equal(checks[i], bytes_from_text(CONSUL_NODE_CHECK))) {
            return STATUS_KEY_NOT_FOUND;
        }
    }
    return STATUS_OK;
}

enum status consul_checks_of_session(struct rule_run *run, const struct consul_session *session) {
    enum status status = check_all(run, session->node_checks, session->n_node_checks);
    return status != STATUS_OK ? status
                               : check_all(run, session->service_checks, session->n_service_checks);
}
