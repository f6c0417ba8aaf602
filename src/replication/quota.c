/* The space quota. What a request may add is counted before it is accepted, as in etcd: one that
 * would not fit is refused, and the alarm is raised. History does not count against anybody for
 * long: the leader compacts it when it takes too much memory, unless all of it is wanted. */
#include "base/clock.h"
#include "base/log.h"
#include "core/key_work.h"
#include "core/txn_estimate.h"
#include "replication/service_internal.h"

enum {
    /* Beside key and value, as etcd counts. */
    PUT_BYTES = 256,
    LEASE_BYTES = 64,
    /* Parts of the quota: history never gets more than half of it. When less than an eighth is
     * left, history of a sixteenth is worth freeing; as long as that goes on, the quota may be
     * exceeded by an eighth. */
    HISTORY_MOST_PART = 2,
    LEFT_PART = 8,
    HISTORY_LEAST_PART = 16,
    /* Large changes wait when history has grown beyond its bound by this part of it. */
    HISTORY_EXCESS_PART = 4,
    /* Values that requests write again, and long keys that they delete, in a millisecond while
     * history is too large: 16 MB a second, which are freed meanwhile. Fewer bytes of one request
     * are as little as what it brings. */
    KEPT_BYTES_A_MS = 16 * 1024,
    /* Nothing is freed while a snapshot or a scan reads the state: then a quarter of that. */
    KEPT_BYTES_A_MS_READ = KEPT_BYTES_A_MS / 4,
    KEPT_BYTES_SMALL = 256,
    KEPT_US_AHEAD = 1000,
    US_A_MS = 1000,
    /* They count so often as work, so 8 MiB of them are on their way. */
    KEPT_TIMES = 8,
    /* What one request counts at most: others find room beside it, and are not refused for long,
     * however large it is and however many members there are. */
    KEPT_WORK_MAX = PROPOSALS_WORK_MAX / 2,
    KEPT_US_MAX = 200 * 1000,
    /* A leader that would compact has done so by then. */
    PRESSURE_MS_MAX = 5000
};

struct quota_sizes {
    uint64_t all;
    uint64_t history;
};

static struct quota_sizes sizes_of(const struct service *service) {
    struct key_store_stats stats;
    key_store_stats(state_machine_keys(service->machine), &stats);
    return (struct quota_sizes){.all = stats.bytes +
                                       lease_table_bytes(state_machine_leases(service->machine)),
                                .history = stats.history_bytes};
}

/* --- Requests. --- */

/* What a command may add. */
struct quota_cost {
    uint64_t bytes; /* 0: it adds nothing, and is never refused */
    uint64_t kept;  /* of which values that are there already, and are written again */
};

static struct quota_cost cost_of_put(const struct key_store *keys, const struct put_request *put) {
    uint64_t kept = 0;
    if (put->ignore_value) {
        const struct record *current = key_store_find(keys, KEY_SPACE_ETCD, put->key);
        kept = current != NULL ? current->value_size : 0;
    }
    return (struct quota_cost){.bytes = PUT_BYTES + put->key.size + put->value.size + kept,
                               .kept = kept};
}

static struct quota_cost cost_of_txn(const struct key_store *keys, const struct txn_request *txn);

static struct quota_cost cost_of_branch(const struct key_store *keys,
                                        const struct operation *operations, size_t n) {
    struct quota_cost cost = {0};
    for (size_t i = 0; i < n; i++) {
        struct quota_cost one = {0};
        if (operations[i].type == OPERATION_PUT) {
            one = cost_of_put(keys, &operations[i].put);
        } else if (operations[i].type == OPERATION_TXN) {
            one = cost_of_txn(keys, &operations[i].txn);
        }
        cost.bytes += one.bytes;
        cost.kept += one.kept;
    }
    return cost;
}

static struct quota_cost cost_of_txn(const struct key_store *keys, const struct txn_request *txn) {
    struct quota_cost success = cost_of_branch(keys, txn->success, txn->n_success);
    struct quota_cost failure = cost_of_branch(keys, txn->failure, txn->n_failure);
    return (struct quota_cost){.bytes =
                                   success.bytes > failure.bytes ? success.bytes : failure.bytes,
                               .kept = success.kept > failure.kept ? success.kept : failure.kept};
}

static struct quota_cost cost_of(const struct key_store *keys, const struct command *command) {
    switch (command->type) {
    case COMMAND_PUT:
        return cost_of_put(keys, &command->put);
    case COMMAND_TXN:
        return cost_of_txn(keys, &command->txn);
    case COMMAND_LEASE_GRANT:
        return (struct quota_cost){.bytes = LEASE_BYTES};
    default:
        return (struct quota_cost){0};
    }
}

/* Every member of a cluster writes what the clients of all have sent: each has its share. */
static uint64_t n_sharing(const struct service *service) {
    size_t n = raft_engine_configuration(service->engine)->n;
    return n > 0 ? n : 1;
}

size_t quota_work_of_kept(const struct service *service, const struct command *command) {
    uint64_t kept = cost_of(state_machine_keys(service->machine), command).kept;
    if (kept < KEPT_BYTES_SMALL) {
        return 0;
    }
    uint64_t work = n_sharing(service) * KEPT_TIMES * kept / KEY_WORK_COPIED_BYTES;
    return work < KEPT_WORK_MAX ? (size_t)work : KEPT_WORK_MAX;
}

/* Bytes of long keys that tombstones repeat. */
static uint64_t long_keys_of(const struct service *service, const struct command *command) {
    const struct key_store *keys = state_machine_keys(service->machine);
    switch (command->type) {
    case COMMAND_DELETE:
        return delete_long_keys(keys, KEY_SPACE_ETCD, &command->delete);
    case COMMAND_TXN:
        return txn_long_keys(keys, KEY_SPACE_ETCD, &command->txn);
    case COMMAND_LEASE_REVOKE:
        return lease_table_long_keys(state_machine_leases(service->machine), command->revoke.id);
    default:
        return 0;
    }
}

/* Neither the network nor the disk slows these down: they would fill memory faster than history is
 * freed. */
static bool has_kept_too_much(struct service *service, const struct command *command,
                              uint64_t kept) {
    if (service_history_pressure(service) == HISTORY_PRESSURE_NONE) {
        return false;
    }
    kept += long_keys_of(service, command);
    if (kept < KEPT_BYTES_SMALL) {
        return false;
    }
    uint64_t now_us = clock_boottime_ms() * US_A_MS;
    uint64_t until_us = service->quota.kept_until_us;
    if (until_us > now_us + KEPT_US_AHEAD) {
        return true;
    }
    bool is_read = snapshots_are_read(service);
    uint64_t takes_us =
        n_sharing(service) * kept * US_A_MS / (is_read ? KEPT_BYTES_A_MS_READ : KEPT_BYTES_A_MS);
    if (is_read && takes_us > KEPT_US_MAX) {
        return true; /* it would stay until the snapshot is written, and so would the next */
    }
    service->quota.kept_until_us =
        (until_us > now_us ? until_us : now_us) + (takes_us < KEPT_US_MAX ? takes_us : KEPT_US_MAX);
    return false;
}

static bool has_alarm(const struct service *service) {
    struct alarm_entry alarms[STATE_MACHINE_ALARMS_MAX];
    size_t n = state_machine_alarms(service->machine, alarms);
    for (size_t i = 0; i < n; i++) {
        if (alarms[i].alarm == ALARM_NO_SPACE &&
            alarms[i].member_id == service->options.member_id) {
            return true;
        }
    }
    return false;
}

static void alarmed(struct service_request *request, const struct outcome *outcome) {
    struct quota *quota = list_entry(request, struct quota, alarm);
    quota->is_alarming = false;
    if (outcome->status == STATUS_OK) {
        log_error("a request would exceed the quota of the key store: writes are refused until "
                  "keys are deleted, history is compacted and the alarm is disarmed",
                  LOG_NUMBER("quota bytes", quota->bytes));
    }
}

static void raise_alarm(struct service *service) {
    if (service->quota.is_alarming || has_alarm(service)) {
        return;
    }
    service->quota.is_alarming = true;
    service->quota.alarm.done = alarmed;
    const struct command command = {.type = COMMAND_ALARM,
                                    .alarm = {.activate = true,
                                              .member_id = service->options.member_id,
                                              .alarm = ALARM_NO_SPACE}};
    service_submit(service, &caller_server, &service->quota.alarm, &command);
}

static bool is_history_worth_it(const struct service *service, const struct quota_sizes *sizes) {
    return service->options.compacts_history &&
           sizes->history > service->quota.bytes / HISTORY_LEAST_PART;
}

enum status quota_check(struct service *service, const struct command *command) {
    const struct key_store *keys = state_machine_keys(service->machine);
    struct quota_cost cost = cost_of(keys, command);
    if (has_kept_too_much(service, command, cost.kept)) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    if (cost.bytes == 0) {
        return STATUS_OK;
    }
    uint64_t quota = service->quota.bytes;
    uint64_t wanted = key_store_bytes(keys) +
                      lease_table_bytes(state_machine_leases(service->machine)) +
                      service->proposals.pending_bytes + cost.bytes;
    if (wanted <= quota) {
        return STATUS_OK;
    }
    struct quota_sizes sizes = sizes_of(service);
    if (is_history_worth_it(service, &sizes)) {
        /* Room is being made. */
        return wanted <= quota + quota / LEFT_PART ? STATUS_OK : STATUS_TOO_MANY_REQUESTS;
    }
    raise_alarm(service);
    return STATUS_NO_SPACE;
}

/* --- History. --- */

static bool is_tight(const struct service *service, const struct quota_sizes *sizes) {
    uint64_t quota = service->quota.bytes;
    return sizes->all > quota - quota / LEFT_PART && is_history_worth_it(service, sizes);
}

/* The newer half of the history is kept. Whoever is behind that is told so, as after any
 * compaction. */
static int64_t middle_of_history(const struct service *service) {
    const struct key_store *keys = state_machine_keys(service->machine);
    int64_t compacted_revision = key_store_compacted_revision(keys);
    int64_t newest = key_store_revision(keys);
    return newest - (newest - compacted_revision) / 2;
}

/* What is left is of the newest revision, and stays until there is another one. */
static bool is_all_compacted(const struct service *service) {
    return !service->quota.is_compacting && !service->background.is_reclaiming &&
           middle_of_history(service) <=
               key_store_compacted_revision(state_machine_keys(service->machine));
}

/* Only while quota_poll() has history compacted, or what that leaves behind is being freed: so it
 * ends. Without a leader nobody compacts. */
static enum history_pressure pressure_of(const struct service *service) {
    uint64_t quota = service->quota.bytes;
    uint64_t history_max = service->quota.history_bytes_max;
    if (!service->options.compacts_history || service->cluster.last_leader_id == 0 ||
        key_store_bytes(state_machine_keys(service->machine)) <= history_max ||
        is_all_compacted(service)) {
        return HISTORY_PRESSURE_NONE;
    }
    struct quota_sizes sizes = sizes_of(service);
    if (sizes.all > quota && is_history_worth_it(service, &sizes)) {
        return HISTORY_PRESSURE_FULL;
    }
    bool is_excessive = sizes.history > history_max + history_max / HISTORY_EXCESS_PART;
    return is_excessive || is_tight(service, &sizes) ? HISTORY_PRESSURE_HIGH
                                                     : HISTORY_PRESSURE_NONE;
}

static void note_pressure(struct service *service, uint64_t now_ms) {
    int64_t revision = key_store_compacted_revision(state_machine_keys(service->machine));
    if (revision != service->quota.pressed_revision || service->background.is_reclaiming ||
        pressure_of(service) == HISTORY_PRESSURE_NONE) {
        service->quota.pressed_revision = revision;
        service->quota.pressed_ms = now_ms;
    }
}

/* The leader compacts by its own sizes and its own quota, which may differ from this member's: then
 * nobody ends the pressure here, and nobody is to wait for that. */
enum history_pressure service_history_pressure(const struct service *service) {
    bool is_ignored =
        !lease_table_is_leading(state_machine_leases(service->machine)) &&
        clock_elapsed_ms(clock_boottime_ms(), service->quota.pressed_ms) >= PRESSURE_MS_MAX;
    return is_ignored ? HISTORY_PRESSURE_NONE : pressure_of(service);
}

static void compacted(struct service_request *request, const struct outcome *outcome) {
    struct quota *quota = list_entry(request, struct quota, compaction);
    quota->is_compacting = false;
    /* It may have freed too little, or failed: looked at again without a write. */
    quota->seen_revision = 0;
    if (outcome->status == STATUS_OK) {
        log_info("history takes too much memory: compacted",
                 LOG_NUMBER("revision", quota->compaction_revision));
    }
}

void quota_poll(struct service *service, uint64_t now_ms) {
    note_pressure(service, now_ms);
    int64_t newest = key_store_revision(state_machine_keys(service->machine));
    uint64_t lease_bytes = lease_table_bytes(state_machine_leases(service->machine));
    if (newest == service->quota.seen_revision && lease_bytes == service->quota.seen_lease_bytes) {
        return;
    }
    /* What an earlier compaction leaves behind is still being freed, and counted. */
    if (!service->options.compacts_history || service->quota.is_compacting ||
        service->background.is_reclaiming || service->closing ||
        !lease_table_is_leading(state_machine_leases(service->machine))) {
        return;
    }
    service->quota.seen_revision = newest;
    service->quota.seen_lease_bytes = lease_bytes;
    struct quota_sizes sizes = sizes_of(service);
    int64_t revision = middle_of_history(service);
    if ((sizes.history <= service->quota.history_bytes_max && !is_tight(service, &sizes)) ||
        revision <= key_store_compacted_revision(state_machine_keys(service->machine))) {
        return;
    }
    service->quota.is_compacting = true;
    service->quota.compaction_revision = revision;
    service->quota.compaction.done = compacted;
    const struct command command = {.type = COMMAND_COMPACT, .compact = {.revision = revision}};
    service_submit(service, &caller_server, &service->quota.compaction, &command);
}

static uint64_t history_bytes_max(const struct service *service) {
    uint64_t quota = service->quota.bytes;
    uint64_t wanted = service->options.history_bytes;
    if (wanted == 0) {
        uint64_t share = quota / HISTORY_LEAST_PART;
        wanted = share > HISTORY_BYTES_DEFAULT ? share : HISTORY_BYTES_DEFAULT;
    }
    uint64_t most = quota / HISTORY_MOST_PART;
    return wanted < most ? wanted : most;
}

void quota_init(struct service *service) {
    service->quota.bytes =
        service->options.quota_bytes != 0 ? service->options.quota_bytes : QUOTA_BYTES_DEFAULT;
    service->quota.history_bytes_max = history_bytes_max(service);
}
