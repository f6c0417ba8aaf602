/* The configuration as the log says it, changes of it, and handing leadership over. */
#include "raft/raft_engine_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PROMOTE_ROUNDS_MAX = 10, PROMOTE_ROUND_MS_MAX = 30 * 1000 };

/* --- The configuration. --- */

void engine_config_set(struct engine_config *out_config, const struct raft_config *config,
                       uint64_t index) {
    out_config->index = index;
    out_config->config = *config;
    for (size_t i = 0; i < config->n; i++) {
        out_config->voter_since[i] = index;
    }
}

static uint64_t since_of(const struct engine_config *config, uint64_t id, uint64_t index) {
    for (size_t i = 0; i < config->config.n; i++) {
        const struct raft_config_server *server = &config->config.servers[i];
        if (server->id == id && server->role == CONFIG_VOTER) {
            return config->voter_since[i];
        }
    }
    return index;
}

void engine_config_advance(struct engine_config *config, const struct raft_config *next,
                           uint64_t index) {
    uint64_t since[RAFT_CONFIG_SERVERS_MAX];
    for (size_t i = 0; i < next->n; i++) {
        since[i] = since_of(config, next->servers[i].id, index);
    }
    config->index = index;
    config->config = *next;
    memcpy(config->voter_since, since, next->n * sizeof since[0]);
}

/* Its bytes were checked when it was received, loaded or made. */
static void decode(const struct log_item *item, struct raft_config *out_config) {
    enum status status = raft_config_decode(bytes_of(item->bytes, item->size), out_config);
    assert(status == STATUS_OK);
}

void engine_config_append(struct raft_engine *engine, const struct log_item *item) {
    struct raft_config config;
    decode(item, &config);
    engine_config_advance(&engine->newest, &config, item->index);
    engine->unconfirmed_index = item->index;
    engine->is_config_told = false;
}

void engine_config_truncate(struct raft_engine *engine, uint64_t from) {
    if (engine->newest.index < from) {
        return;
    }
    engine->newest = engine->committed;
    engine->unconfirmed_index = 0;
    for (uint64_t i = engine->applied_index + 1; i < from; i++) {
        const struct log_item *item = log_cache_get(&engine->log, i);
        if (item != NULL && item->type == LOG_CHANGE) {
            engine_config_append(engine, item);
        }
    }
    /* raft went back to the last one that it takes for committed. */
    engine->unconfirmed_index = 0;
    engine->is_config_told = false;
}

struct raft_configuration engine_config_export(const struct raft_config *config) {
    struct raft_configuration out;
    raft_configuration_init(&out);
    for (size_t i = 0; i < config->n; i++) {
        const struct raft_config_server *server = &config->servers[i];
        int rv = raft_configuration_add(&out, server->id, server->address, (int)server->role);
        assert(rv == 0);
    }
    return out;
}

static void confirm(struct raft_engine *engine, const struct raft_config *config, uint64_t index) {
    struct raft_event event = {.type = RAFT_CONFIGURATION};
    event.configuration.index = index;
    event.configuration.conf = engine_config_export(config);
    if (engine->unconfirmed_index == index) {
        engine->unconfirmed_index = 0;
    }
    (void)engine_step(engine, &event);
}

void engine_config_commit(struct raft_engine *engine, const struct log_item *item) {
    struct raft_config config;
    decode(item, &config);
    engine_config_advance(&engine->committed, &config, item->index);
    confirm(engine, &config, item->index);
}

/* A leader adds a change only when the one before is committed. A follower may get both before it
 * hears of that; libraft would forget the first, and go back behind it if the second is cut off. */
void engine_config_confirm(struct raft_engine *engine) {
    if (!raft_guards_is_on(GUARD_CHANGE_SPLIT) || engine->unconfirmed_index == 0) {
        return;
    }
    struct raft_config config = engine->newest.config;
    confirm(engine, &config, engine->unconfirmed_index);
}

/* --- Changes. --- */

static uint64_t match_of(const struct raft_engine *engine, uint64_t id) {
    return raft_engine_match_index(engine, id);
}

static enum status submit_config(struct raft_engine *engine, const struct raft_config *config) {
    struct buffer buffer;
    buffer_init(&buffer);
    raft_config_encode(&buffer, config);
    /* The buffer's memory is malloc()'s and goes over to the item. */
    struct log_item *item =
        log_item_create(LOG_CHANGE, raft_engine_last_index(engine) + 1,
                        raft_current_term(&engine->raft), buffer.data, buffer.size);
    int rv = engine_submit(engine, &item, 1);
    log_item_release(item);
    engine_apply(engine);
    return rv == 0 ? STATUS_OK : rv == RAFT_NOTLEADER ? STATUS_NO_LEADER : STATUS_TOO_MANY_REQUESTS;
}

/* Does every voter but this one know that it is one? */
static bool all_voters_know(const struct raft_engine *engine, uint64_t except_id) {
    const struct engine_config *newest = &engine->newest;
    for (size_t i = 0; i < newest->config.n; i++) {
        const struct raft_config_server *server = &newest->config.servers[i];
        if (server->role == CONFIG_VOTER && server->id != except_id &&
            !raft_guards_knows_its_role(match_of(engine, server->id), newest->voter_since[i])) {
            return false;
        }
    }
    return true;
}

static enum status promote_now(struct raft_engine *engine, uint64_t id) {
    if (!all_voters_know(engine, id)) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    struct raft_config config = engine->newest.config;
    for (size_t i = 0; i < config.n; i++) {
        if (config.servers[i].id == id) {
            config.servers[i].role = CONFIG_VOTER;
        }
    }
    return submit_config(engine, &config);
}

static enum status promote(struct raft_engine *engine, uint64_t id) {
    const struct raft_config_server *server = raft_config_find(&engine->newest.config, id);
    if (server == NULL || server->role == CONFIG_VOTER) {
        return STATUS_INVALID;
    }
    uint64_t last = raft_engine_last_index(engine);
    if (match_of(engine, id) == last) {
        return promote_now(engine, id);
    }
    if (!all_voters_know(engine, id)) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    engine->promote_id = id;
    engine->promote_term = raft_current_term(&engine->raft);
    engine->promote_target = last;
    engine->promote_round_ms = engine->now_ms;
    engine->n_promote_rounds = 1;
    return STATUS_OK;
}

static enum status add(struct raft_engine *engine, uint64_t id, const char *address) {
    struct raft_config config = engine->newest.config;
    if (address == NULL || !raft_config_add(&config, id, address, CONFIG_STANDBY)) {
        return STATUS_INVALID;
    }
    return submit_config(engine, &config);
}

/* Or are those that know a majority of what is left? They elect a leader without the others, of
 * which one may be dead, and to be removed next. */
static bool enough_voters_know(const struct raft_engine *engine, uint64_t except_id) {
    const struct engine_config *newest = &engine->newest;
    size_t n_voters = 0;
    size_t n_know = 0;
    for (size_t i = 0; i < newest->config.n; i++) {
        const struct raft_config_server *server = &newest->config.servers[i];
        if (server->role == CONFIG_VOTER && server->id != except_id) {
            n_voters++;
            n_know +=
                raft_guards_knows_its_role(match_of(engine, server->id), newest->voter_since[i]);
        }
    }
    return n_know >= n_voters / 2 + 1;
}

static enum status remove_server(struct raft_engine *engine, uint64_t id) {
    const struct raft_config *newest = &engine->newest.config;
    const struct raft_config_server *server = raft_config_find(newest, id);
    if (id == engine->options.self_id || server == NULL) {
        return STATUS_INVALID;
    }
    if (server->role == CONFIG_VOTER && !enough_voters_know(engine, id)) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    struct raft_config config;
    config.n = 0;
    for (size_t i = 0; i < newest->n; i++) {
        if (newest->servers[i].id != id) {
            config.servers[config.n++] = newest->servers[i];
        }
    }
    return submit_config(engine, &config);
}

enum status raft_engine_change(struct raft_engine *engine, enum raft_engine_change change,
                               uint64_t id, const char *address, uint64_t now_ms) {
    if (engine->has_failed || !engine_is_leader(engine) || engine->transfer_to_id != 0) {
        return STATUS_NO_LEADER;
    }
    engine_set_time(engine, now_ms);
    struct raft_guards_view view = engine_view(engine);
    if (raft_engine_is_changing(engine) || !raft_guards_may_change(&view)) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    switch (change) {
    case ENGINE_ADD:
        return add(engine, id, address);
    case ENGINE_PROMOTE:
        return promote(engine, id);
    case ENGINE_REMOVE:
        return remove_server(engine, id);
    }
    return STATUS_INVALID;
}

bool raft_engine_is_changing(const struct raft_engine *engine) {
    return engine->promote_id != 0 || raft_engine_has_uncommitted_change(engine);
}

/* A round ends when the member has all that was there at its beginning. It has caught up when a
 * round takes less than an election timeout, or nothing is left. */
static void poll_promotion(struct raft_engine *engine) {
    uint64_t id = engine->promote_id;
    const struct raft_config_server *server = raft_config_find(&engine->newest.config, id);
    bool is_possible = engine_is_leader(engine) &&
                       engine->promote_term == raft_current_term(&engine->raft) && server != NULL &&
                       server->role != CONFIG_VOTER && engine->transfer_to_id == 0;
    uint64_t round_ms = engine->now_ms - engine->promote_round_ms;
    if (!is_possible || round_ms > PROMOTE_ROUND_MS_MAX) {
        engine->promote_id = 0;
        return;
    }
    uint64_t match = match_of(engine, id);
    uint64_t last = raft_engine_last_index(engine);
    if (match < engine->promote_target) {
        return;
    }
    if (match == last || round_ms < engine->options.election_ms) {
        engine->promote_id = 0;
        (void)promote_now(engine, id);
        return;
    }
    if (engine->n_promote_rounds++ == PROMOTE_ROUNDS_MAX) {
        engine->promote_id = 0;
        return;
    }
    engine->promote_target = last;
    engine->promote_round_ms = engine->now_ms;
}

/* --- Transfer. --- */

static uint64_t best_successor(const struct raft_engine *engine) {
    uint64_t best_id = 0;
    uint64_t best_match = 0;
    for (size_t i = 0; i < engine->newest.config.n; i++) {
        const struct raft_config_server *server = &engine->newest.config.servers[i];
        uint64_t match = match_of(engine, server->id);
        if (server->role == CONFIG_VOTER && server->id != engine->options.self_id &&
            (best_id == 0 || match > best_match)) {
            best_id = server->id;
            best_match = match;
        }
    }
    return best_id;
}

enum status raft_engine_transfer(struct raft_engine *engine, uint64_t to_id, uint64_t now_ms) {
    if (engine->has_failed || !engine_is_leader(engine)) {
        return STATUS_NO_LEADER;
    }
    if (engine->transfer_to_id != 0) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    engine_set_time(engine, now_ms);
    if (to_id == 0) {
        to_id = best_successor(engine);
    }
    const struct raft_config_server *server = raft_config_find(&engine->newest.config, to_id);
    if (server == NULL || server->role != CONFIG_VOTER || to_id == engine->options.self_id) {
        return STATUS_INVALID;
    }
    engine->transfer_to_id = to_id;
    engine->transfer_since_ms = engine->now_ms;
    engine->is_transfer_sent = false;
    engine_members_poll(engine);
    return STATUS_OK;
}

bool raft_engine_is_transferring(const struct raft_engine *engine) {
    return engine->transfer_to_id != 0;
}

static void poll_transfer(struct raft_engine *engine) {
    if (!engine_is_leader(engine)) {
        engine->transfer_to_id = 0;
        return;
    }
    if (engine->is_transfer_sent) {
        if (raft_transferee(&engine->raft) == 0) {
            engine->transfer_to_id = 0;
        }
        return;
    }
    struct raft_guards_view view = engine_view(engine);
    if (raft_guards_may_transfer(&view, match_of(engine, engine->transfer_to_id))) {
        struct raft_event event = {.type = RAFT_TRANSFER};
        event.transfer.server_id = engine->transfer_to_id;
        engine->is_transfer_sent = true;
        if (engine_step(engine, &event) != 0) {
            engine->transfer_to_id = 0;
        }
    } else if (engine->now_ms - engine->transfer_since_ms >= engine->options.election_ms) {
        engine->transfer_to_id = 0;
    }
}

void engine_members_poll(struct raft_engine *engine) {
    if (!engine->has_failed && engine->transfer_to_id != 0) {
        poll_transfer(engine);
    }
    if (!engine->has_failed && engine->promote_id != 0) {
        poll_promotion(engine);
    }
}

uint64_t engine_members_deadline_ms(const struct raft_engine *engine, uint64_t now_ms) {
    return engine->transfer_to_id != 0 || engine->promote_id != 0
               ? now_ms + engine->options.heartbeat_ms
               : UINT64_MAX;
}
