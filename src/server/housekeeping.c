#include "server/housekeeping.h"

#include "base/log.h"
#include "net/net_server.h"
#include "replication/replication.h"

#include <assert.h>
#include <malloc.h>
#include <string.h>

enum {
    HOUSEKEEPING_INTERVAL_MS = 1000,
    TOKEN_EPOCHS = 24 /* in the life of a token */
};

static void compacted(struct service_request *request, const struct outcome *outcome) {
    struct housekeeping *housekeeping = list_entry(request, struct housekeeping, compaction);
    housekeeping->is_compacting = false;
    if (outcome->status == STATUS_OK) {
        log_info("compacted", LOG_NUMBER("revision", housekeeping->compaction_revision));
    } else if (outcome->status != STATUS_REVISION_COMPACTED) {
        log_warning("not compacted", LOG_NUMBER("revision", housekeeping->compaction_revision),
                    LOG_TEXT("reason", status_text(outcome->status)));
    }
}

/* Every member knows how old revisions are, so that a change of leaders keeps no history longer. */
static void compact(struct housekeeping *housekeeping, const struct key_store *keys,
                    bool is_leading) {
    if (housekeeping->is_compacting) {
        return;
    }
    int64_t revision = compactor_tick(
        &housekeeping->compactor, service_now_ms(housekeeping->service), key_store_revision(keys));
    if (!is_leading || revision <= key_store_compacted_revision(keys)) {
        return;
    }
    housekeeping->is_compacting = true;
    housekeeping->compaction_revision = revision;
    housekeeping->compaction.done = compacted;
    const struct command command = {.type = COMMAND_COMPACT, .compact = {.revision = revision}};
    service_submit(housekeeping->service, &caller_server, &housekeeping->compaction, &command);
}

static void alarmed(struct service_request *request, const struct outcome *outcome) {
    struct housekeeping *housekeeping = list_entry(request, struct housekeeping, alarm);
    housekeeping->is_alarming = false;
    if (outcome->status == STATUS_OK) {
        log_error("the key store is larger than its quota: writes are refused until keys are "
                  "deleted, history is compacted and the alarm is disarmed",
                  LOG_NUMBER("quota bytes", housekeeping->quota_bytes));
    }
}

static bool has_alarm(const struct state_view *state, uint64_t member_id) {
    struct alarm_entry alarms[STATE_MACHINE_ALARMS_MAX];
    size_t n = state_view_alarms(state, alarms);
    for (size_t i = 0; i < n; i++) {
        if (alarms[i].member_id == member_id && alarms[i].alarm == ALARM_NO_SPACE) {
            return true;
        }
    }
    return false;
}

static void watch_quota(struct housekeeping *housekeeping, const struct state_view *state) {
    struct key_store_stats stats;
    key_store_stats(state_view_keys(state), &stats);
    /* Leases without keys fill a node as well. */
    uint64_t bytes = stats.bytes + lease_table_bytes(state_view_leases(state));
    /* History that is to be compacted away is no reason. */
    if (housekeeping->compacts_history) {
        bytes -= stats.history_bytes;
    }
    if (bytes <= housekeeping->quota_bytes || housekeeping->is_alarming) {
        return;
    }
    struct service_info info;
    service_info(housekeeping->service, &info);
    if (has_alarm(state, info.member_id)) {
        return;
    }
    housekeeping->is_alarming = true;
    housekeeping->alarm.done = alarmed;
    const struct command command = {
        .type = COMMAND_ALARM,
        .alarm = {.activate = true, .member_id = info.member_id, .alarm = ALARM_NO_SPACE}};
    service_submit(housekeeping->service, &caller_server, &housekeeping->alarm, &command);
}

static void aged(struct service_request *request, const struct outcome *outcome) {
    (void)outcome; /* what failed is due again */
    list_entry(request, struct housekeeping, aging)->is_aging = false;
}

/* Time is counted by every member, so that a change of leaders does not make tokens live on. */
static void age_tokens(struct housekeeping *housekeeping, const struct state_view *state,
                       bool is_leading) {
    const struct auth *auth = state_view_auth(state);
    uint64_t now_ms = service_now_ms(housekeeping->service);
    if (!auth_is_enabled(auth) || auth_token_epoch(auth) != housekeeping->token_epoch) {
        housekeeping->token_epoch = auth_token_epoch(auth);
        housekeeping->token_epoch_ms = now_ms;
        return;
    }
    if (!is_leading || housekeeping->is_aging ||
        now_ms - housekeeping->token_epoch_ms < housekeeping->token_epoch_length_ms) {
        return;
    }
    housekeeping->is_aging = true;
    housekeeping->aging.done = aged;
    const struct command command = {.type = COMMAND_AUTH, .auth = {.action = AUTH_TOKEN_EPOCH}};
    service_submit(housekeeping->service, &caller_server, &housekeeping->aging, &command);
}

static size_t resident_bytes(void) {
    size_t bytes = 0;
    return uv_resident_set_memory(&bytes) == 0 ? bytes : 0;
}

static void give_memory_back(struct housekeeping *housekeeping, const struct state_view *state) {
    struct net_stats net;
    struct key_store_stats keys;
    net_server_stats(housekeeping->net, &net);
    key_store_stats(state_view_keys(state), &keys);
    size_t held = net.held_bytes + keys.bytes + lease_table_bytes(state_view_leases(state));
    if (spare_memory_look(&housekeeping->spare_memory, resident_bytes(), held)) {
        malloc_trim(0);
        spare_memory_note_searched(&housekeeping->spare_memory, resident_bytes(), held);
    }
}

static void tick(uv_timer_t *timer) {
    struct housekeeping *housekeeping = timer->data;
    const struct state_view *state = service_view(housekeeping->service);
    give_memory_back(housekeeping, state);
    bool is_leading = lease_table_is_leading(state_view_leases(state));
    age_tokens(housekeeping, state, is_leading);
    compact(housekeeping, state_view_keys(state), is_leading);
    if (is_leading) {
        watch_quota(housekeeping, state);
    }
}

void housekeeping_start(struct housekeeping *housekeeping, uv_loop_t *loop, struct service *service,
                        const struct net_server *net, const struct options *options) {
    memset(housekeeping, 0, sizeof *housekeeping);
    housekeeping->service = service;
    housekeeping->net = net;
    spare_memory_note_searched(&housekeeping->spare_memory, resident_bytes(), 0);
    housekeeping->quota_bytes =
        options->quota_backend_bytes != 0 ? options->quota_backend_bytes : QUOTA_BYTES_DEFAULT;
    housekeeping->token_epoch_length_ms = options->auth_token_ttl_s != 0
                                              ? options->auth_token_ttl_s * 1000 / TOKEN_EPOCHS
                                              : HOUSEKEEPING_TOKEN_EPOCH_MS;
    housekeeping->compacts_history = !options->keeps_all_history;
    compactor_init(&housekeeping->compactor, options->auto_compaction_retention_ms,
                   options->auto_compaction_revisions, service_now_ms(service));
    int result = uv_timer_init(loop, &housekeeping->timer);
    assert(result == 0);
    housekeeping->timer.data = housekeeping;
    uv_timer_start(&housekeeping->timer, tick, HOUSEKEEPING_INTERVAL_MS, HOUSEKEEPING_INTERVAL_MS);
}

void housekeeping_stop(struct housekeeping *housekeeping) {
    uv_close((uv_handle_t *)&housekeeping->timer, NULL);
}
