/*
 * The rules of the ZooKeeper API: what every replica does when a command of it is applied.
 */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_RULES_H
#define LEASED_DOORS_ZOOKEEPER_ZK_RULES_H

#include "core/rule.h"

enum {
    /* A session begins or is taken over: zk_request_model.h. */
    ZK_RULE_CONNECT = 17 * 65536 + 1,
    /* A session is closed by its client; the request is a struct zk_asker, the answer an error. */
    ZK_RULE_CLOSE = 17 * 65536 + 2,
    /* One operation or several. */
    ZK_RULE_CHANGE = 17 * 65536 + 3,
    /* Hook: the lease of a session has ended, and its ephemeral nodes with it. No request. */
    ZK_RULE_SESSION_ENDED = 17 * 65536 + 4,
    /* Hook: the time of a node with a TTL, or of an emptied container, has passed. The request:
     * czxid (zigzag) and path. */
    ZK_RULE_TIMER = 17 * 65536 + 5,
    /* As ZK_RULE_CHANGE, for deletions alone: they are done although the space is used up. */
    ZK_RULE_DELETE = 17 * 65536 + 6
};

enum { ZK_N_RULES = 6 };
extern const struct rule *const zk_rules[ZK_N_RULES];

extern const struct rule zk_rule_connect;
extern const struct rule zk_rule_close;
extern const struct rule zk_rule_change;
extern const struct rule zk_rule_session_ended;
extern const struct rule zk_rule_timer;
extern const struct rule zk_rule_delete;

#endif
