/* Clients of locks by ZooKeeper's recipe: a session, an ephemeral sequential node under the lock,
 * whoever has the lowest one holds it. Sessions are kept alive by pings, move from one connection
 * to another, are closed, or just end. Nobody holds a lock while another relies on it, by its own
 * session; a session that is heard does not end (checks.h); czxid and numbers of nodes grow; a
 * connection that has lost its session changes nothing; a node with a TTL does not go before it,
 * counted from when it was last written; and zk_state.h holds on every node. */
#include "actor.h"
#include "checks.h"
#include "clients.h"
#include "doors/zookeeper/zk_jute_model.h"
#include "doors/zookeeper/zk_keys.h"
#include "doors/zookeeper/zk_request_model.h"
#include "doors/zookeeper/zk_rules.h"
#include "faults.h"
#include "node.h"
#include "world.h"
#include "zk_state.h"

#include "core/state_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TIMEOUT_MS_MIN = 1000, TIMEOUT_MS_MAX = 4000, TIMED_MS = 2500, PATH_SIZE = 32 };

struct zk_locker {
    struct actor actor;
    size_t lock;
    int64_t timeout_ms;
    int64_t session_id; /* 0: none */
    uint64_t connection;
    uint64_t next_connection; /* that it asks for */
    uint8_t password;
    uint64_t until_us; /* it relies on its session until then */
    char path[PATH_SIZE];
    char twins[ZK_STATE_TWINS][PATH_SIZE];
    uint64_t token; /* czxid of its node; 0: it has none */
    bool is_held;
    bool pings;
    bool is_changing; /* a change is on its way: no time to move */
    bool is_haunted;  /* a move of which nobody knows what came of it may come at any time */
    unsigned n_looks;
    /* A node with a TTL, which is nobody's. */
    char timed[PATH_SIZE];
    int64_t timed_lease; /* 0: it is gone, or not known */
    uint64_t timed_until_us;
};

static struct zk_locker lockers[ZK_LOCKERS_MAX];
static size_t n_lockers;
static int64_t newest_number[ZK_STATE_LOCKS]; /* of a node that anybody was told */
static uint64_t n_held;

static struct zk_locker *locker_of(struct actor *actor) {
    return list_entry(actor, struct zk_locker, actor);
}

static void begin(struct actor *actor);
static void move(struct actor *actor);

/* --- Calls. --- */

static struct call *make(uint32_t rule) {
    struct call *call = call_make(CALL_RULE);
    call->rule_number = rule;
    return call;
}

static struct call *make_change(const struct zk_locker *locker, uint64_t connection,
                                const struct zk_operation *operations, size_t n) {
    struct call *call = make(ZK_RULE_CHANGE);
    const struct zk_asker asker = {.session_id = locker->session_id, .connection = connection};
    zk_asker_encode(&call->rule_request, &asker);
    for (size_t i = 0; i < n; i++) {
        zk_operation_encode(&call->rule_request, &operations[i]);
    }
    return call;
}

struct results {
    size_t n;
    enum zk_error error; /* the first */
    struct bytes last;
};

static struct results read_results(const struct call *call) {
    struct results results = {0};
    struct reader reader;
    reader_init(&reader, bytes_of(call->rule_answer, call->rule_answer_size));
    while (reader_left(&reader) > 0 && !reader.failed) {
        enum zk_error error = (enum zk_error)reader_get_zigzag(&reader);
        results.error = results.error == ZK_OK ? error : results.error;
        results.last = reader_get_bytes(&reader);
        results.n++;
    }
    if (reader.failed || results.n == 0) {
        check_failed("zookeeper", "an answer cannot be read");
    }
    return results;
}

static void start_over(struct zk_locker *locker) {
    checks_lock_released(LOCKS_ZOOKEEPER + locker->lock, locker->actor.number);
    locker->actor.round++;
    locker->pings = false;
    actor_later(&locker->actor, random_delay(50 * WORLD_MS, 2 * WORLD_SECOND), begin);
}

/* It was told that its session is gone. */
static void lost(struct zk_locker *locker) {
    checks_lease_not_found(locker->session_id);
    if (locker->pings) {
        actor_lost(&locker->actor, "a session of ZooKeeper");
    }
    start_over(locker);
}

static void rely_from(struct zk_locker *locker, const struct call *call) {
    uint64_t until_us = actor_relies_until_us(&locker->actor, call, locker->timeout_ms);
    locker->until_us = until_us > locker->until_us ? until_us : locker->until_us;
    checks_lease_stands(locker->session_id, locker->timeout_ms, locker->until_us);
    if (locker->is_held) {
        checks_lock_held(LOCKS_ZOOKEEPER + locker->lock, locker->actor.number, locker->token,
                         locker->until_us);
    }
}

/* --- Pings. --- */

static void pinged(struct actor *actor, struct call *call) {
    struct zk_locker *locker = locker_of(actor);
    if (!locker->pings) {
        return;
    }
    if (call->status == STATUS_OK) {
        rely_from(locker, call);
    } else if (call->status == STATUS_LEASE_NOT_FOUND) {
        lost(locker);
    } else {
        actor->node = clients_choose_node();
        move(actor);
    }
}

static void ping(struct actor *actor) {
    struct zk_locker *locker = locker_of(actor);
    if (locker->pings) {
        struct call *call = call_make(CALL_RENEW);
        call->lease_id = locker->session_id;
        call->lease_owner = KEY_SPACE_ZOOKEEPER;
        call->ttl_ms = locker->timeout_ms;
        call->caller = &caller_server;
        call->patience_us = (uint64_t)locker->timeout_ms * 1000;
        actor_ask(actor, call, pinged);
        actor_later(actor, (uint64_t)locker->timeout_ms * 333, ping);
    }
}

/* --- Connections. --- */

static struct call *make_connect(struct zk_locker *locker) {
    struct zk_connect_request request = {
        .session_id = locker->session_id,
        .session = {.timeout_ms = locker->timeout_ms, .connection = locker->next_connection}};
    memset(request.session.password_hash, locker->password, ZK_PASSWORD_HASH_SIZE);
    struct call *call = make(ZK_RULE_CONNECT);
    call->caller = &caller_server;
    zk_connect_encode(&call->rule_request, &request);
    return call;
}

static int64_t read_session(const struct call *call) {
    struct reader reader;
    reader_init(&reader, bytes_of(call->rule_answer, call->rule_answer_size));
    return reader_get_zigzag(&reader);
}

/* A connection that another has taken the session from. */
static void stale_answered(struct actor *actor, struct call *call) {
    if (call->status == STATUS_OK && read_results(call).error == ZK_OK) {
        check_failed("zookeeper",
                     "client %zu changed something by a connection that has lost its "
                     "session",
                     actor->number);
    }
}

static void act_by_stale(struct zk_locker *locker, uint64_t connection) {
    const struct zk_operation operation = {.kind = ZK_OPERATION_CREATE,
                                           .create_flags = ZK_CREATE_SEQUENCE | ZK_CREATE_EPHEMERAL,
                                           .path = bytes_from_text("/x/n-")};
    actor_ask(&locker->actor, make_change(locker, connection, &operation, 1), stale_answered);
}

static void moved(struct actor *actor, struct call *call) {
    struct zk_locker *locker = locker_of(actor);
    locker->is_changing = false;
    if (!locker->pings) {
        return;
    }
    if (call->status != STATUS_OK) { /* which of the two has it is not known */
        locker->is_haunted = true;
        actor->node = clients_choose_node();
        move(actor);
        return;
    }
    if (read_session(call) == 0) {
        lost(locker);
        return;
    }
    uint64_t before = locker->connection;
    locker->connection = locker->next_connection;
    rely_from(locker, call);
    if (random_chance(300)) {
        act_by_stale(locker, before);
    }
}

static void move(struct actor *actor) {
    struct zk_locker *locker = locker_of(actor);
    if (!locker->pings || locker->is_changing) {
        return;
    }
    locker->is_changing = true;
    locker->next_connection = random_next();
    struct call *call = make_connect(locker);
    call->patience_us = (uint64_t)locker->timeout_ms * 1000;
    actor_ask(actor, call, moved);
}

static void move_now_and_then(struct actor *actor) {
    move(actor);
    actor_later(actor, random_between(1, 8) * WORLD_SECOND, move_now_and_then);
}

/* --- The end. --- */

static void ended(struct actor *actor, struct call *call) {
    (void)zk_state_check(call->node);
    start_over(locker_of(actor));
}

static void stop_relying(struct zk_locker *locker) {
    checks_lock_released(LOCKS_ZOOKEEPER + locker->lock, locker->actor.number);
    locker->is_held = false;
}

static void close_session(struct zk_locker *locker) {
    struct call *call = make(ZK_RULE_CLOSE);
    const struct zk_asker asker = {.session_id = locker->session_id,
                                   .connection = locker->connection};
    stop_relying(locker);
    checks_lease_given_up(locker->session_id);
    locker->pings = false;
    zk_asker_encode(&call->rule_request, &asker);
    actor_ask(&locker->actor, call, ended);
}

/* The session lives on until it is not heard any more. */
static void delete_node(struct zk_locker *locker) {
    const struct zk_operation operation = {
        .kind = ZK_OPERATION_DELETE, .version = -1, .path = bytes_from_text(locker->path)};
    stop_relying(locker);
    locker->pings = false;
    actor_ask(&locker->actor, make_change(locker, locker->connection, &operation, 1), ended);
}

static void release(struct actor *actor) {
    struct zk_locker *locker = locker_of(actor);
    uint64_t now_us = world_now_us();
    if (faults_want_quiet()) {
        actor_later(actor, 200 * WORLD_MS, release);
        return;
    }
    switch (random_below(3)) {
    case 0:
        close_session(locker);
        break;
    case 1:
        delete_node(locker);
        break;
    default: /* it just stops, and relies on what it has to the last moment */
        locker->pings = false;
        actor_later(
            actor, (locker->until_us > now_us ? locker->until_us - now_us : 0) + random_below(1000),
            begin);
        break;
    }
}

/* --- Holding. --- */

static void written(struct actor *actor, struct call *call) {
    struct zk_locker *locker = locker_of(actor);
    locker->is_changing = false;
    (void)zk_state_check(call->node);
    if (!locker->pings || call->status != STATUS_OK) {
        return;
    }
    enum zk_error error = read_results(call).error;
    if (error == ZK_SESSION_EXPIRED) {
        lost(locker);
    } else if (error == ZK_SESSION_MOVED && locker->is_haunted) {
        move(actor);
    } else if (error != ZK_OK) {
        check_failed("zookeeper", "client %zu cannot write to its node: %d", actor->number, error);
    }
}

static void timed_stands(struct zk_locker *locker, const struct call *call) {
    locker->timed_until_us = actor_relies_until_us(&locker->actor, call, TIMED_MS);
    checks_lease_stands(locker->timed_lease, TIMED_MS, locker->timed_until_us);
}

static void timed_written(struct actor *actor, struct call *call) {
    struct zk_locker *locker = locker_of(actor);
    locker->is_changing = false;
    if (call->status != STATUS_OK || locker->timed_lease == 0) {
        return;
    }
    enum zk_error error = read_results(call).error;
    if (error == ZK_OK) {
        timed_stands(locker, call);
    } else if (error == ZK_NO_NODE && locker->timed_until_us > world_now_us()) {
        check_failed("zookeeper", "%s should last until %.3f s, and is gone", locker->timed,
                     (double)locker->timed_until_us / WORLD_SECOND);
    } else if (error == ZK_NO_NODE) {
        locker->timed_lease = 0;
    }
}

/* What an ephemeral node says is written by its session, again and again: it stays ephemeral. */
static void write_node(struct actor *actor) {
    struct zk_locker *locker = locker_of(actor);
    bool is_timed = locker->timed_lease != 0 && random_chance(400);
    const char *path = is_timed ? locker->timed : locker->twins[random_below(ZK_STATE_TWINS)];
    const struct zk_operation operation = {.kind = ZK_OPERATION_SET_DATA,
                                           .version = -1,
                                           .path = bytes_from_text(path),
                                           .data = bytes_from_text("written")};
    if (locker->pings && !locker->is_changing && !faults_want_quiet()) {
        locker->is_changing = true;
        actor_ask(actor, make_change(locker, locker->connection, &operation, 1),
                  is_timed ? timed_written : written);
    }
    actor_later(actor, random_delay(300 * WORLD_MS, 3 * WORLD_SECOND), write_node);
}

static void hold(struct zk_locker *locker) {
    size_t lock = LOCKS_ZOOKEEPER + locker->lock;
    if (locker->until_us <= world_now_us()) {
        start_over(locker); /* too late to rely on it */
        return;
    }
    checks_token(lock, locker->token, checks_newest_token(lock));
    n_held++;
    locker->is_held = true;
    checks_lock_held(lock, locker->actor.number, locker->token, locker->until_us);
    actor_later(&locker->actor, random_delay(500 * WORLD_MS, 8 * WORLD_SECOND), release);
}

/* --- Waiting. --- */

static void look(struct actor *actor);

struct first {
    struct bytes key;
    bool is_there;
    bool is_first;
};

static bool see_node(void *context, const struct record *record) {
    struct first *first = context;
    int order = bytes_compare(record_key(record), first->key);
    first->is_there = order == 0;
    first->is_first &= order >= 0;
    return order < 0;
}

/* At the node. */
static void see_who_is_first(struct call *call) {
    struct bytes begin_key;
    struct bytes end_key;
    struct arena arena;
    arena_init(&arena);
    struct bytes path = bytes_from_text(call->key);
    struct first first = {.key = zk_key_node(&arena, path), .is_first = true};
    zk_key_children_range(&arena, zk_path_parent(path), &begin_key, &end_key);
    key_store_visit(state_view_keys(service_view(call->node->service)), KEY_SPACE_ZOOKEEPER,
                    begin_key, end_key, see_node, &first);
    call->found = first.is_there;
    call->succeeded = first.is_there && first.is_first;
    arena_clear(&arena);
}

static void looked(struct actor *actor, struct call *call) {
    struct zk_locker *locker = locker_of(actor);
    (void)zk_state_check(call->node);
    if (call->status != STATUS_OK) {
        actor->node = clients_choose_node();
    } else if (call->found == 0) {
        lost(locker);
        return;
    } else if (call->succeeded) {
        hold(locker);
        return;
    } else if (++locker->n_looks > 60) {
        close_session(locker);
        return;
    }
    actor_later(actor, random_between(10, 250) * WORLD_MS, look);
}

static void look(struct actor *actor) {
    struct zk_locker *locker = locker_of(actor);
    struct call *call = call_make(CALL_LOOK);
    call->look = see_who_is_first;
    snprintf(call->key, sizeof call->key, "%s", locker->path);
    actor_ask(actor, call, looked);
}

/* --- Joining. --- */

static void entered(struct actor *actor, struct call *call) {
    struct zk_locker *locker = locker_of(actor);
    locker->is_changing = false;
    (void)zk_state_check(call->node);
    if (call->status != STATUS_OK) {
        actor->node = clients_choose_node();
        start_over(locker);
        return;
    }
    struct results results = read_results(call);
    if (results.error == ZK_SESSION_EXPIRED) {
        lost(locker);
        return;
    }
    if (results.error == ZK_SESSION_MOVED && locker->is_haunted) {
        start_over(locker);
        return;
    }
    if (results.error != ZK_OK || results.n != ZK_STATE_TWINS + 2) {
        check_failed("zookeeper", "client %zu cannot create its nodes: %d", actor->number,
                     results.error);
    }
    struct reader reader;
    reader_init(&reader, results.last);
    struct bytes path = zk_jute_get_bytes(&reader, NULL);
    int64_t czxid = zk_jute_get_long(&reader);
    snprintf(locker->path, sizeof locker->path, "%.*s", (int)path.size, (const char *)path.data);
    int64_t number = 0;
    if (reader.failed || sscanf(locker->path + 5, "%" SCNd64, &number) != 1) {
        check_failed("zookeeper", "client %zu cannot read the name of its node", actor->number);
    }
    if (number < (int64_t)call->value || czxid != call->revision) {
        check_failed("zookeeper",
                     "%s, of revision %" PRId64 ", has czxid %" PRId64 " and follows "
                     "%" PRIu64,
                     locker->path, call->revision, czxid, call->value - 1);
    }
    newest_number[locker->lock] =
        number > newest_number[locker->lock] ? number : newest_number[locker->lock];
    locker->token = (uint64_t)czxid;
    locker->timed_lease = call->lease_id;
    if (locker->timed_lease != 0) {
        timed_stands(locker, call);
    }
    actor_later(actor, random_between(1, 8) * WORLD_SECOND, move_now_and_then);
    actor_later(actor, random_below(WORLD_SECOND), write_node);
    look(actor);
}

static struct zk_operation ephemeral(const char *path, unsigned flags) {
    return (struct zk_operation){.kind = ZK_OPERATION_CREATE,
                                 .create_flags = (uint8_t)(ZK_CREATE_EPHEMERAL | flags),
                                 .path = bytes_from_text(path)};
}

/* At the node: the lease that counts the time of the node. */
static void see_timed(struct call *call) {
    struct zk_node node;
    struct arena arena;
    arena_init(&arena);
    const struct record *record =
        key_store_find(state_view_keys(service_view(call->node->service)), KEY_SPACE_ZOOKEEPER,
                       zk_key_node(&arena, bytes_from_text(call->key)));
    call->lease_id = record != NULL && zk_node_decode(record, &node) ? node.ttl_lease : 0;
    arena_clear(&arena);
}

static void enter(struct actor *actor) {
    struct zk_locker *locker = locker_of(actor);
    char prefix[PATH_SIZE];
    if (faults_want_quiet() || locker->is_changing) {
        actor_later(actor, 200 * WORLD_MS, enter);
        return;
    }
    snprintf(prefix, sizeof prefix, "%s/n-", zk_state_parents[locker->lock]);
    for (size_t i = 0; i < ZK_STATE_TWINS; i++) {
        snprintf(locker->twins[i], PATH_SIZE, "%s/%" PRIx64, zk_state_parents[ZK_STATE_LOCKS + i],
                 (uint64_t)locker->session_id);
    }
    snprintf(locker->timed, PATH_SIZE, "%s/%" PRIx64, zk_state_parents[ZK_STATE_TIMED],
             (uint64_t)locker->session_id);
    const struct zk_operation operations[ZK_STATE_TWINS + 2] = {
        ephemeral(locker->twins[0], 0), ephemeral(locker->twins[1], 0),
        (struct zk_operation){.kind = ZK_OPERATION_CREATE,
                              .create_flags = ZK_CREATE_TTL,
                              .ttl_ms = TIMED_MS,
                              .path = bytes_from_text(locker->timed)},
        ephemeral(prefix, ZK_CREATE_SEQUENCE | ZK_CREATE_STAT)};
    struct call *call = make_change(locker, locker->connection, operations, ZK_STATE_TWINS + 2);
    call->look = see_timed;
    snprintf(call->key, sizeof call->key, "%s", locker->timed);
    /* One more than the newest number that anybody was told of. */
    call->value = (uint64_t)(newest_number[locker->lock] + 1);
    locker->is_changing = true;
    actor_ask(actor, call, entered);
}

/* All of them at once: if one is there, the others are. */
static void prepared(struct actor *actor, struct call *call) {
    struct zk_locker *locker = locker_of(actor);
    locker->is_changing = false;
    if (call->status != STATUS_OK) {
        actor->node = clients_choose_node();
        start_over(locker);
        return;
    }
    enum zk_error error = read_results(call).error;
    if (error == ZK_SESSION_EXPIRED) {
        lost(locker);
    } else if (error != ZK_OK && error != ZK_NODE_EXISTS) {
        check_failed("zookeeper", "client %zu cannot create the locks: %d", actor->number, error);
    } else {
        enter(actor);
    }
}

static void connected(struct actor *actor, struct call *call) {
    struct zk_locker *locker = locker_of(actor);
    struct zk_operation operations[ZK_STATE_PARENTS];
    if (call->status != STATUS_OK) {
        actor->node = clients_choose_node();
        start_over(locker);
        return;
    }
    locker->session_id = read_session(call);
    locker->connection = locker->next_connection;
    rely_from(locker, call);
    locker->pings = true;
    actor_later(actor, (uint64_t)locker->timeout_ms * 333, ping);
    for (size_t i = 0; i < ZK_STATE_PARENTS; i++) {
        operations[i] = (struct zk_operation){.kind = ZK_OPERATION_CREATE,
                                              .path = bytes_from_text(zk_state_parents[i])};
    }
    locker->is_changing = true;
    actor_ask(actor, make_change(locker, locker->connection, operations, ZK_STATE_PARENTS),
              prepared);
}

static void begin(struct actor *actor) {
    struct zk_locker *locker = locker_of(actor);
    if (faults_want_quiet()) {
        actor_later(actor, 200 * WORLD_MS, begin);
        return;
    }
    checks_lock_released(LOCKS_ZOOKEEPER + locker->lock, actor->number);
    *locker =
        (struct zk_locker){.actor = *actor,
                           .lock = random_below(ZK_STATE_LOCKS),
                           .timeout_ms = (int64_t)random_between(TIMEOUT_MS_MIN, TIMEOUT_MS_MAX),
                           .password = (uint8_t)random_below(256),
                           .next_connection = random_next()};
    actor->round++;
    actor_ask(actor, make_connect(locker), connected);
}

void zk_locks_start(size_t n) {
    n_lockers = n;
    for (size_t i = 0; i < ZK_STATE_LOCKS; i++) {
        newest_number[i] = -1;
    }
    for (size_t i = 0; i < n; i++) {
        actor_init(&lockers[i].actor, i);
        actor_later(&lockers[i].actor, random_below(WORLD_SECOND), begin);
    }
}

void zk_locks_check(void) {
    for (size_t i = 0; n_lockers > 0 && i < nodes_count(); i++) {
        if (zk_state_check(node_at(i)) > 0) {
            check_failed("zookeeper", "on %s ephemeral nodes are left", node_at(i)->name);
        }
    }
    if (n_lockers > 0) {
        trace("%" PRIu64 " locks of ZooKeeper", n_held);
    }
}
