/* Whether the checks that a session is bound to pass: asked when it is created, and when one of
 * them may have turned critical. */
#ifndef LEASED_DOORS_CONSUL_CONSUL_CHECK_RULES_H
#define LEASED_DOORS_CONSUL_CONSUL_CHECK_RULES_H

#include "doors/consul/consul_rules.h"

/* The check of the node itself, which always passes: a session that names it alone is bound to its
 * TTL. */
#define CONSUL_NODE_CHECK "serfHealth"

/* STATUS_OK, STATUS_KEY_NOT_FOUND (there is no such check), STATUS_FENCED (one is critical). */
enum status consul_checks_of_session(struct rule_run *run, const struct consul_session *session);

#endif
