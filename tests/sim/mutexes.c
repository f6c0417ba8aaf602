/* Clients of one lock by etcd's recipe: some join its queue by the rule of the Lock service, some
 * by the plain transaction of the client libraries. Whoever is first holds it. Nobody is first
 * while another relies on the lock, and tokens grow. Waiters leave by withdrawing, join again with
 * the same lease, or are forgotten; leases are never renewed. */
#include "call.h"
#include "checks.h"
#include "clients.h"
#include "doors/etcd/etcd_queue_rules.h"
#include "faults.h"
#include "node.h"
#include "world.h"

#include "core/state_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MUTEXES_MAX = 5, TTL_MS_MIN = 1000, TTL_MS_MAX = 5000, NAME_SIZE = 1 };

static const char name[] = "m";

struct mutex {
    size_t number;
    bool is_of_library;
    struct node *node;
    int64_t ttl_ms;
    uint64_t until_us; /* it relies on its lease until then */
    struct etcd_joined joined;
};

static struct mutex mutexes[MUTEXES_MAX];
static const struct mutex *holder; /* who relies on the lock; NULL: nobody */
static uint64_t holder_until_us;
static int64_t newest_token;
static bool is_stopped;

static void next(void *data);
static void look(void *data);

static void again(struct mutex *mutex) {
    mutex->node = clients_choose_node();
    world_at(world_now_us() + random_delay(100 * WORLD_MS, 2 * WORLD_SECOND), next, mutex);
}

static struct bytes name_bytes(void) {
    return bytes_of(name, NAME_SIZE);
}

static struct call *ask(struct mutex *mutex, enum call_type type,
                        void (*answered)(struct call *call)) {
    struct call *call = call_make(type);
    call->answered = answered;
    call->data = mutex;
    call->lease_id = mutex->joined.lease_id;
    call->ttl_ms = mutex->ttl_ms;
    /* Ids that are chosen here are positive. */
    snprintf(call->key, sizeof call->key, "%s/%" PRIx64, name, (uint64_t)mutex->joined.lease_id);
    return call;
}

static void rely_from(struct mutex *mutex, const struct call *call) {
    mutex->until_us =
        call->sent_us + (uint64_t)mutex->ttl_ms * (1000 - checks_drift_allowance_permille());
}

/* --- The end. --- */

static void ended(struct call *call) {
    again(call->data);
}

/* It stops to rely on the lock before it says so. */
static void release(void *data) {
    struct mutex *mutex = data;
    if (is_stopped) {
        return;
    }
    if (holder == mutex) {
        holder = NULL;
    }
    struct call *call;
    switch (random_below(4)) {
    case 0:
        call = ask(mutex, CALL_RULE, ended);
        call->rule_number = ETCD_RULE_RELEASE;
        etcd_release_encode(
            &call->rule_request,
            &(struct etcd_release){.key = bytes_from_text(call->key), .takes_any_lock = true});
        break;
    case 1:
        call = ask(mutex, CALL_UNLOCK, ended);
        call->revision = mutex->joined.create_revision;
        break;
    case 2:
        call = ask(mutex, CALL_REVOKE, ended);
        break;
    default:
        again(mutex); /* the lease runs out */
        return;
    }
    call_send(call, mutex->node);
}

static void withdraw(struct mutex *mutex) {
    struct call *call = ask(mutex, CALL_RULE, ended);
    call->rule_number = ETCD_RULE_WITHDRAW;
    etcd_withdrawal_encode(
        &call->rule_request,
        &(struct etcd_withdrawal){.name = name_bytes(),
                                  .lease_id = mutex->joined.lease_id,
                                  .create_revision = mutex->joined.create_revision,
                                  .version = mutex->joined.version,
                                  .epoch = mutex->joined.epoch,
                                  .ends_lease = random_chance(500)});
    call_send(call, mutex->node);
}

/* --- Holding. --- */

static void hold(struct mutex *mutex) {
    uint64_t now_us = world_now_us();
    if (mutex->until_us <= now_us) {
        again(mutex); /* too late to rely on it */
        return;
    }
    if (holder != NULL && holder != mutex && holder_until_us > now_us) {
        check_failed("mutex", "client %zu is first while client %zu relies on the lock",
                     mutex->number, holder->number);
    }
    if (mutex->joined.create_revision <= newest_token) {
        check_failed("mutex", "token %" PRId64 " after token %" PRId64,
                     mutex->joined.create_revision, newest_token);
    }
    newest_token = mutex->joined.create_revision;
    holder = mutex;
    holder_until_us = mutex->until_us;
    world_at(now_us + random_below(2 * TTL_MS_MAX * WORLD_MS), release, mutex);
}

/* --- Waiting. --- */

static void join(struct mutex *mutex, int64_t lease_id);

static void looked(struct call *call) {
    struct mutex *mutex = call->data;
    if (is_stopped) {
        return;
    }
    if (call->status != STATUS_OK) {
        mutex->node = clients_choose_node();
    } else if (call->revision != mutex->joined.create_revision) {
        again(mutex); /* its key is gone */
        return;
    } else if (call->succeeded) {
        hold(mutex);
        return;
    }
    unsigned way = (unsigned)random_below(20);
    if (way == 0 && !mutex->is_of_library) {
        withdraw(mutex);
    } else if (way == 1 && !mutex->is_of_library) {
        mutex->node = clients_choose_node();
        join(mutex, mutex->joined.lease_id);
    } else if (world_now_us() > mutex->until_us + WORLD_SECOND) {
        again(mutex);
    } else {
        world_at(world_now_us() + random_delay(20 * WORLD_MS, 200 * WORLD_MS), look, mutex);
    }
}

static void look(void *data) {
    struct mutex *mutex = data;
    if (!is_stopped) {
        call_send(ask(mutex, CALL_IS_FIRST, looked), mutex->node);
    }
}

/* --- Joining. --- */

static void joined(struct call *call) {
    struct mutex *mutex = call->data;
    bool is_new = mutex->joined.lease_id == 0;
    if (is_stopped) {
        return;
    }
    if (call->status != STATUS_OK) {
        again(mutex);
        return;
    }
    struct etcd_joined answer;
    if (!etcd_joined_decode(bytes_of(call->rule_answer, call->rule_answer_size), &answer)) {
        check_failed("mutex", "client %zu cannot read its answer", mutex->number);
        return;
    }
    /* A key that is first is not written again: the epoch of the lease tells that it is shared. */
    bool is_counted = answer.version > mutex->joined.version || answer.is_first;
    if (!is_new && answer.create_revision == mutex->joined.create_revision &&
        (!is_counted || answer.epoch != 0)) {
        check_failed("mutex", "client %zu joined again and is not counted", mutex->number);
    }
    mutex->joined = answer;
    if (is_new) {
        rely_from(mutex, call);
    }
    look(mutex);
}

static void join(struct mutex *mutex, int64_t lease_id) {
    struct call *call = ask(mutex, CALL_RULE, joined);
    call->rule_number = ETCD_RULE_JOIN;
    etcd_join_encode(&call->rule_request, &(struct etcd_join){.name = name_bytes(),
                                                              .lease_id = lease_id,
                                                              .ttl_ms = mutex->ttl_ms,
                                                              .keeps_value = true});
    call_send(call, mutex->node);
}

static void put(struct call *call) {
    struct mutex *mutex = call->data;
    if (is_stopped) {
        return;
    }
    if (call->status != STATUS_OK || !call->succeeded) {
        again(mutex);
        return;
    }
    mutex->joined.create_revision = call->revision;
    look(mutex);
}

static void granted(struct call *call) {
    struct mutex *mutex = call->data;
    if (is_stopped) {
        return;
    }
    if (call->status != STATUS_OK) {
        again(mutex);
        return;
    }
    mutex->joined.lease_id = call->lease_id;
    rely_from(mutex, call);
    call_send(ask(mutex, CALL_LOCK, put), mutex->node);
}

static void next(void *data) {
    struct mutex *mutex = data;
    if (is_stopped) {
        return;
    }
    if (faults_want_quiet()) {
        again(mutex);
        return;
    }
    mutex->joined = (struct etcd_joined){0};
    mutex->ttl_ms = (int64_t)random_between(TTL_MS_MIN, TTL_MS_MAX);
    if (mutex->is_of_library) {
        call_send(ask(mutex, CALL_GRANT, granted), mutex->node);
    } else {
        join(mutex, 0);
    }
}

void mutexes_start(size_t n) {
    for (size_t i = 0; i < n; i++) {
        mutexes[i] =
            (struct mutex){.number = i, .is_of_library = i % 2 == 1, .node = clients_choose_node()};
        world_at(random_below(WORLD_SECOND), next, &mutexes[i]);
    }
}

void mutexes_stop(void) {
    is_stopped = true;
}

void mutexes_check(void) {
    for (size_t i = 0; i < nodes_count(); i++) {
        const struct node *node = node_at(i);
        if (!node->is_up || node->service == NULL) {
            continue;
        }
        const struct key_store *keys = state_view_keys(service_view(node->service));
        if (key_store_count(keys, KEY_SPACE_ETCD, bytes_from_text("m/"), bytes_from_text("m0")) >
            0) {
            check_failed("mutex", "on %s somebody waits whose lease has ended", node->name);
        }
    }
}
