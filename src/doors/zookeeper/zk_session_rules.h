/* Sessions as rules see them. Pure. */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_SESSION_RULES_H
#define LEASED_DOORS_ZOOKEEPER_ZK_SESSION_RULES_H

#include "core/rule.h"
#include "doors/zookeeper/zk_request_model.h"

/* Whether the asker's connection has the session: ZK_OK, ZK_SESSION_EXPIRED, ZK_SESSION_MOVED. */
enum zk_error zk_session_check(struct rule_run *run, const struct zk_asker *asker,
                               struct zk_session *out_session);

#endif
