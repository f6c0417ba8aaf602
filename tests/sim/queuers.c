/* Clients of the trial rules (tests/rules): a lock with a queue that is handed on when its holder's
 * lease ends, whatever ends it. Nobody holds it while another relies on it, tokens grow, and
 * whoever waits does not wait for nobody. The leases are never renewed, so most locks are handed on
 * by an expiry. */
#include "call.h"
#include "checks.h"
#include "clients.h"
#include "doors/consul/consul_rules.h"
#include "doors/etcd/etcd_queue_rules.h"
#include "doors/native/native_rules.h"
#include "doors/redis/redis_exec_rules.h"
#include "doors/zookeeper/zk_rules.h"
#include "faults.h"
#include "node.h"
#include "registry/registry_rules.h"
#include "sample_rules.h"
#include "trial_rules.h"
#include "world.h"

#include "core/state_view.h"

#include <inttypes.h>
#include <stdlib.h>

enum { QUEUERS_MAX = 4, LOCKS = 2, TTL_MS_MIN = 1000, TTL_MS_MAX = 5000 };

struct queuer {
    size_t number;
    struct node *node;
    size_t lock;
    int64_t lease_id;
};

/* What the clients were told of a lock. */
struct told {
    const struct queuer *holder; /* who relies on it; NULL: nobody */
    uint64_t until_us;
    int64_t token; /* the newest */
};

const struct rule_set *clients_rules(void) {
    static const struct rule *rules[TRIAL_RULES_MAX + 5 + NATIVE_N_RULES + REGISTRY_N_RULES +
                                    ZK_N_RULES + CONSUL_N_RULES];
    static struct rule_set set = {.rules = rules};
    if (set.n == 0) {
        for (size_t i = 0; i < trial_rules.n; i++) {
            rules[set.n++] = trial_rules.rules[i];
        }
        rules[set.n++] = &sample_rule_take;
        rules[set.n++] = &etcd_rule_join;
        rules[set.n++] = &etcd_rule_withdraw;
        rules[set.n++] = &etcd_rule_release;
        for (size_t i = 0; i < NATIVE_N_RULES; i++) {
            rules[set.n++] = native_rules[i];
        }
        for (size_t i = 0; i < REGISTRY_N_RULES; i++) {
            rules[set.n++] = registry_rules[i];
        }
        rules[set.n++] = &redis_rule_exec;
        for (size_t i = 0; i < ZK_N_RULES; i++) {
            rules[set.n++] = zk_rules[i];
        }
        for (size_t i = 0; i < CONSUL_N_RULES; i++) {
            rules[set.n++] = consul_rules[i];
        }
    }
    return &set;
}

static const char *const names[LOCKS] = {"x", "y"};
static struct queuer queuers[QUEUERS_MAX];
static struct told told[LOCKS];
static bool is_stopped;

static void next(void *data);

static void again(struct queuer *queuer) {
    world_at(world_now_us() + random_delay(200 * WORLD_MS, 3 * WORLD_SECOND), next, queuer);
}

/* --- What must be true of every state. --- */

static bool has_key(const struct key_store *keys, const char *kind, const char *name,
                    const char *end) {
    char from[32];
    char to[32];
    snprintf(from, sizeof from, "%s/%s", kind, name);
    snprintf(to, sizeof to, "%s/%s%s", kind, name, end);
    return key_store_count(keys, TRIAL_SPACE, bytes_from_text(from), bytes_from_text(to)) > 0;
}

static void check_state(const struct node *node) {
    if (!node->is_up || node->service == NULL) {
        return;
    }
    const struct key_store *keys = state_view_keys(service_view(node->service));
    for (size_t i = 0; i < LOCKS; i++) {
        if (has_key(keys, "queue", names[i], "0") && !has_key(keys, "holder", names[i], "0")) {
            check_failed("handover", "on %s somebody waits for lock %s, which nobody has",
                         node->name, names[i]);
        }
    }
}

/* --- Calls. --- */

static struct call *ask(struct queuer *queuer, uint32_t rule, void (*answered)(struct call *call)) {
    struct call *call = call_make(CALL_RULE);
    call->rule_number = rule;
    call->answered = answered;
    call->data = queuer;
    return call;
}

static void released(struct call *call) {
    struct queuer *queuer = call->data;
    check_state(queuer->node);
    if (call->status != STATUS_OK) {
        queuer->node = clients_choose_node();
    }
    again(queuer);
}

/* Gives the lock or the lease up, or lets the lease run out. */
static void release(void *data) {
    struct queuer *queuer = data;
    if (is_stopped) {
        return;
    }
    if (told[queuer->lock].holder == queuer) {
        told[queuer->lock].holder = NULL; /* it stops to rely on it before it says so */
    }
    unsigned way = (unsigned)random_below(3);
    if (way == 0) {
        again(queuer);
        return;
    }
    struct call *call = ask(queuer, way == 1 ? TRIAL_UNLOCK : TRIAL_END, released);
    if (way == 1) {
        trial_request_unlock(&call->rule_request, names[queuer->lock], queuer->lease_id);
    } else {
        trial_request_end(&call->rule_request, queuer->lease_id);
    }
    call_send(call, queuer->node);
}

static void held(struct queuer *queuer, const struct call *call,
                 const struct trial_locked *locked) {
    struct told *lock = &told[queuer->lock];
    uint64_t now_us = world_now_us();
    uint64_t until_us =
        call->sent_us + (uint64_t)call->ttl_ms * (1000 - checks_drift_allowance_permille());
    if (until_us <= now_us) {
        return; /* the answer came too late to rely on it */
    }
    if (lock->holder != NULL && lock->until_us > now_us) {
        check_failed("queue", "lock %s was given to client %zu while client %zu relies on it",
                     names[queuer->lock], queuer->number, lock->holder->number);
    }
    if (locked->token <= lock->token) {
        check_failed("queue", "lock %s was given by token %" PRId64 " after token %" PRId64,
                     names[queuer->lock], locked->token, lock->token);
    }
    *lock = (struct told){.holder = queuer, .until_us = until_us, .token = locked->token};
}

static void locked(struct call *call) {
    struct queuer *queuer = call->data;
    struct trial_locked answer;
    check_state(queuer->node);
    if (call->status != STATUS_OK) {
        queuer->node = clients_choose_node();
        again(queuer);
        return;
    }
    if (!trial_answer_locked(bytes_of(call->rule_answer, call->rule_answer_size), &answer)) {
        check_failed("queue", "client %zu cannot read its answer", queuer->number);
        return;
    }
    queuer->lease_id = answer.lease_id;
    if (answer.is_held) {
        held(queuer, call, &answer);
    }
    world_at(world_now_us() + random_below(2 * TTL_MS_MAX * WORLD_MS), release, queuer);
}

static void next(void *data) {
    struct queuer *queuer = data;
    if (is_stopped) {
        return;
    }
    if (faults_want_quiet()) {
        again(queuer);
        return;
    }
    struct call *call = ask(queuer, TRIAL_LOCK, locked);
    queuer->lock = random_below(LOCKS);
    call->ttl_ms = (int64_t)random_between(TTL_MS_MIN, TTL_MS_MAX);
    trial_request_lock(&call->rule_request, names[queuer->lock], 0, call->ttl_ms);
    call_send(call, queuer->node);
}

void queuers_start(size_t n) {
    for (size_t i = 0; i < n; i++) {
        queuers[i] = (struct queuer){.number = i, .node = clients_choose_node()};
        world_at(random_below(WORLD_SECOND), next, &queuers[i]);
    }
}

void queuers_stop(void) {
    is_stopped = true;
}

void queuers_check(void) {
    for (size_t i = 0; i < nodes_count(); i++) {
        const struct node *node = node_at(i);
        check_state(node);
        if (!node->is_up || node->service == NULL) {
            continue;
        }
        const struct key_store *keys = state_view_keys(service_view(node->service));
        if (key_store_count(keys, KEY_SPACE_LEASE_HOOKS, bytes_of("", 1), bytes_of("", 1)) > 0) {
            check_failed("handover", "on %s hooks are left of leases that have ended", node->name);
        }
    }
}
