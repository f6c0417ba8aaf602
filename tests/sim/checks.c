#include "checks.h"
#include "clients.h"

#include "core/auth.h"
#include "core/state_view.h"

#include "node.h"
#include "replication/service_internal.h"
#include "users.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

/* --- Leases. --- */

struct lease {
    struct lease *next;
    int64_t id;
    int64_t ttl_ms;
    uint64_t until_us;   /* the holder relies on it until then */
    uint64_t touched_us; /* when a leader last began to count it; 0: never */
    uint64_t given_us;   /* the same, not counting renewals that the log has yet to confirm */
    uint64_t ended_us;   /* by expiry; 0: not that we know */
    bool is_gone;
    bool is_given_up;
};

enum { LEASE_BUCKETS = 1024 };
static struct lease *leases[LEASE_BUCKETS];
static uint64_t healed_us;
static bool are_stretched;

static struct lease *lease_of(int64_t id) {
    struct lease **place = &leases[(uint64_t)id % LEASE_BUCKETS];
    while (*place != NULL && (*place)->id != id) {
        place = &(*place)->next;
    }
    if (*place == NULL) {
        *place = calloc(1, sizeof **place);
        if (*place == NULL) {
            abort();
        }
        (*place)->id = id;
    }
    return *place;
}

void checks_leases_stretch(void) {
    are_stretched = true;
}

bool checks_leases_are_stretched(void) {
    return are_stretched;
}

unsigned checks_drift_allowance_permille(void) {
    return 2 * nodes_drift_permille() + 1;
}

uint64_t checks_shortest_us(int64_t ttl_ms) {
    return (uint64_t)ttl_ms * (990 - nodes_drift_permille());
}

static void look_whether_early(const struct lease *lease) {
    if (!are_stretched && lease->ended_us != 0 && !lease->is_given_up &&
        lease->until_us > lease->ended_us) {
        check_failed("early",
                     "lease %llx of %lld ms expired at %.3f s, its holder relied on it "
                     "until %.3f s",
                     (unsigned long long)lease->id, (long long)lease->ttl_ms,
                     (double)lease->ended_us / WORLD_SECOND,
                     (double)lease->until_us / WORLD_SECOND);
    }
}

void checks_lease_stands(int64_t id, int64_t ttl_ms, uint64_t until_us) {
    struct lease *lease = lease_of(id);
    lease->ttl_ms = ttl_ms;
    if (lease->touched_us == 0) {
        lease->touched_us = world_now_us(); /* a rule has granted it, not long ago */
    }
    if (until_us > lease->until_us) {
        lease->until_us = until_us;
    }
    look_whether_early(lease);
}

void checks_lease_not_found(int64_t id) {
    const struct lease *lease = lease_of(id);
    if (!are_stretched && !lease->is_given_up && lease->until_us > world_now_us()) {
        check_failed("early",
                     "the holder of lease %llx was told that it is gone, and relied on it "
                     "until %.3f s",
                     (unsigned long long)id, (double)lease->until_us / WORLD_SECOND);
    }
}

/* Safety rule 8: what arrived in time counts, whenever it was read. */
void checks_renewal_refused(int64_t id, uint64_t arrived_us) {
    const struct lease *lease = lease_of(id);
    if (!are_stretched && !lease->is_given_up && lease->ended_us != 0 && lease->given_us != 0 &&
        arrived_us < lease->given_us + checks_shortest_us(lease->ttl_ms) &&
        lease->ended_us < arrived_us + checks_shortest_us(lease->ttl_ms)) {
        check_failed(
            "unread",
            "a renewal of lease %llx of %lld ms reached the leader at %.3f s, in time, and "
            "was refused; counted since %.3f s, it expired at %.3f s",
            (unsigned long long)id, (long long)lease->ttl_ms, (double)arrived_us / WORLD_SECOND,
            (double)lease->given_us / WORLD_SECOND, (double)lease->ended_us / WORLD_SECOND);
    }
}

uint64_t checks_lease_ended_us(int64_t id) {
    return lease_of(id)->ended_us;
}

void checks_lease_given_up(int64_t id) {
    lease_of(id)->is_given_up = true;
}

static void lease_touched(int64_t id, int64_t ttl_ms, uint64_t at_us, bool is_given) {
    struct lease *lease = lease_of(id);
    lease->ttl_ms = ttl_ms;
    if (lease->touched_us < at_us) {
        lease->touched_us = at_us;
    }
    /* The process may have been stopped since it looked whether it may: counted from before. */
    if (is_given && lease->given_us < world_now_us()) {
        lease->given_us = world_now_us();
    }
}

/* --- When there was a leader. --- */

enum { GAPS_MAX = 4096 };
static struct {
    uint64_t from_us;
    uint64_t to_us; /* UINT64_MAX: it goes on */
} gaps[GAPS_MAX] = {{0, UINT64_MAX}};
static size_t n_gaps = 1;

void checks_presence(void) {
    bool is_led = false;
    for (size_t i = 0; i < nodes_count(); i++) {
        is_led = is_led || node_is_leader(node_at(i));
    }
    bool was_led = gaps[n_gaps - 1].to_us != UINT64_MAX;
    if (is_led && !was_led) {
        gaps[n_gaps - 1].to_us = world_now_us();
    } else if (!is_led && was_led && n_gaps < GAPS_MAX) {
        gaps[n_gaps].from_us = world_now_us();
        gaps[n_gaps++].to_us = UINT64_MAX;
    }
}

/* How long nobody led between the two, leaving out what is no longer than `patience_us`. */
static uint64_t unled_us(uint64_t from_us, uint64_t to_us, uint64_t patience_us) {
    uint64_t sum_us = 0;
    for (size_t i = 0; i < n_gaps; i++) {
        uint64_t start_us = gaps[i].from_us > from_us ? gaps[i].from_us : from_us;
        uint64_t end_us = gaps[i].to_us < to_us ? gaps[i].to_us : to_us;
        if (start_us < end_us && end_us - start_us > patience_us) {
            sum_us += end_us - start_us - patience_us;
        }
    }
    return sum_us;
}

/* Safety rule 9: while nobody could renew, leases do not run out. An election is short and may
 * count; of an outage three election timeouts may, and as many again for a node that was stopped
 * and reads late what the last leader said. */
static void look_whether_led(const struct lease *lease) {
    uint64_t patience_us =
        (uint64_t)nodes_election_ms() * 6 * (1000 + 2 * nodes_drift_permille()) + 100 * WORLD_MS;
    if (are_stretched || lease->given_us == 0) {
        return;
    }
    uint64_t passed_us = lease->ended_us - lease->given_us;
    uint64_t unable_us = unled_us(lease->given_us, lease->ended_us, patience_us);
    if (passed_us < unable_us + checks_shortest_us(lease->ttl_ms)) {
        check_failed(unable_us == 0 ? "short" : "no quorum",
                     "lease %llx of %lld ms, counted since %.3f s, expired at %.3f s, though there "
                     "was no leader for %.3f s",
                     (unsigned long long)lease->id, (long long)lease->ttl_ms,
                     (double)lease->given_us / WORLD_SECOND, (double)lease->ended_us / WORLD_SECOND,
                     (double)unled_us(lease->given_us, lease->ended_us, 0) / WORLD_SECOND);
    }
}

static void lease_expired(void *data) {
    look_whether_early(data);
    look_whether_led(data);
}

void checks_healed(void) {
    healed_us = world_now_us();
}

/* Rules end leases, too, and nobody says which. */
static bool stands_somewhere(int64_t id) {
    bool stands = false;
    for (size_t i = 0; i < nodes_count() && !stands; i++) {
        const struct node *node = node_at(i);
        struct lease_facts ignored;
        stands = node->is_up && node->service != NULL &&
                 lease_table_find(state_view_leases(service_view(node->service)), id, &ignored);
    }
    return stands;
}

void checks_no_lease_is_late(unsigned percent_of_ttl, uint64_t slack_us) {
    for (size_t i = 0; i < LEASE_BUCKETS; i++) {
        for (const struct lease *lease = leases[i]; lease != NULL; lease = lease->next) {
            uint64_t since_us = lease->touched_us > healed_us ? lease->touched_us : healed_us;
            uint64_t allowed_us = (uint64_t)lease->ttl_ms * 10 * percent_of_ttl + slack_us +
                                  unled_us(since_us, world_now_us(), 0);
            if (!lease->is_gone && lease->ttl_ms != 0 && world_now_us() > since_us + allowed_us &&
                stands_somewhere(lease->id)) {
                check_failed("late",
                             "lease %llx of %lld ms has not been renewed since %.3f s and "
                             "still stands",
                             (unsigned long long)lease->id, (long long)lease->ttl_ms,
                             (double)lease->touched_us / WORLD_SECOND);
            }
        }
    }
}

void checks_no_lease_is_left(void) {
    for (size_t i = 0; i < nodes_count(); i++) {
        struct node *node = node_at(i);
        if (!node->is_in_service) {
            continue;
        }
        size_t n = lease_table_count(state_machine_leases(node->service->machine));
        if (n > 0) {
            check_failed("late", "%zu leases are left on %s after all should have ended", n,
                         node->name);
        }
    }
}

/* --- Locks. --- */

static struct {
    size_t holder; /* 0: nobody, else its number from 1 */
    uint64_t until_us;
    uint64_t token;
    uint64_t newest_token;
} locks[LOCKS_MAX];

uint64_t checks_newest_token(size_t lock) {
    return locks[lock].newest_token;
}

void checks_token(size_t lock, uint64_t token, uint64_t newest_before) {
    if (token <= newest_before) {
        check_failed("token", "lock %zu was given with token %llu after %llu", lock,
                     (unsigned long long)token, (unsigned long long)newest_before);
    }
    if (token > locks[lock].newest_token) {
        locks[lock].newest_token = token;
    }
}

void checks_lock_held(size_t lock, size_t holder, uint64_t token, uint64_t until_us) {
    uint64_t now_us = world_now_us();
    if (!are_stretched && locks[lock].holder != 0 && locks[lock].holder != holder + 1 &&
        locks[lock].until_us > now_us && until_us > now_us) {
        check_failed("two holders",
                     "client %zu (token %llu, until %.3f s) and client %zu (token %llu, until "
                     "%.3f s) hold lock %zu",
                     locks[lock].holder - 1, (unsigned long long)locks[lock].token,
                     (double)locks[lock].until_us / WORLD_SECOND, holder, (unsigned long long)token,
                     (double)until_us / WORLD_SECOND, lock);
    }
    /* A late word of an older holder changes nothing. */
    if (locks[lock].holder == 0 || locks[lock].holder == holder + 1 ||
        locks[lock].until_us <= until_us) {
        locks[lock].holder = holder + 1;
        locks[lock].until_us = until_us;
        locks[lock].token = token;
    }
}

void checks_lock_released(size_t lock, size_t holder) {
    if (locks[lock].holder == holder + 1) {
        locks[lock].holder = 0;
    }
}

/* --- What the product does. --- */

enum status __real_lease_table_renew(struct lease_table *table, int64_t id, uint64_t now_ms,
                                     int64_t *out_ttl_ms, bool *out_checkpointed);
enum status __wrap_lease_table_renew(struct lease_table *table, int64_t id, uint64_t now_ms,
                                     int64_t *out_ttl_ms, bool *out_checkpointed);
enum status __wrap_lease_table_renew(struct lease_table *table, int64_t id, uint64_t now_ms,
                                     int64_t *out_ttl_ms, bool *out_checkpointed) {
    enum status status = __real_lease_table_renew(table, id, now_ms, out_ttl_ms, out_checkpointed);
    if (status == STATUS_OK) {
        lease_touched(id, *out_ttl_ms, node_now_us(node_current()), !*out_checkpointed);
    }
    return status;
}

/* Only the time from which it may be late is moved: replicas apply this at different times. */
enum status __real_lease_table_set_ttl(struct lease_table *table, int64_t id, int64_t ttl_ms,
                                       uint64_t now_ms);
enum status __wrap_lease_table_set_ttl(struct lease_table *table, int64_t id, int64_t ttl_ms,
                                       uint64_t now_ms);
enum status __wrap_lease_table_set_ttl(struct lease_table *table, int64_t id, int64_t ttl_ms,
                                       uint64_t now_ms) {
    enum status status = __real_lease_table_set_ttl(table, id, ttl_ms, now_ms);
    if (status == STATUS_OK) {
        lease_touched(id, ttl_ms, node_now_us(node_current()), false);
    }
    return status;
}

static void after_expiry(struct node *node, const struct lease_facts *facts) {
    struct lease *lease = lease_of(facts->id);
    lease->is_gone = true;
    uint64_t now_us = node_now_us(node);
    if (lease->ended_us == 0 || now_us < lease->ended_us) {
        lease->ended_us = now_us;
        /* Answers that reach the holder until then count, too. */
        world_at(now_us, lease_expired, lease);
    }
}

void __real_state_machine_apply(struct state_machine *machine, const struct command *command,
                                const struct apply_context *context, struct arena *arena,
                                struct outcome *out_outcome);
void __wrap_state_machine_apply(struct state_machine *machine, const struct command *command,
                                const struct apply_context *context, struct arena *arena,
                                struct outcome *out_outcome);
void __wrap_state_machine_apply(struct state_machine *machine, const struct command *command,
                                const struct apply_context *context, struct arena *arena,
                                struct outcome *out_outcome) {
    struct node *node = node_current();
    struct lease_table *table = state_machine_leases(machine);
    struct lease_facts *before = NULL;
    size_t n = command->type == COMMAND_LEASE_EXPIRE ? command->expire.n : 0;
    if (n > 0) {
        before = calloc(n, sizeof *before);
        if (before == NULL) {
            abort();
        }
        for (size_t i = 0; i < n; i++) {
            (void)lease_table_find(table, command->expire.ids[i], &before[i]);
        }
    }
    bool was_enabled = auth_is_enabled(state_machine_auth(machine));
    bool might_write = users_guest_may_write(machine);
    __real_state_machine_apply(machine, command, context, arena, out_outcome);
    users_check_applied(node, command, was_enabled, might_write, out_outcome);
    for (size_t i = 0; i < n; i++) {
        struct lease_facts ignored;
        if (before[i].id != 0 && !lease_table_find(table, before[i].id, &ignored)) {
            after_expiry(node, &before[i]);
        }
    }
    free(before);
    if (out_outcome->status != STATUS_OK) {
        return;
    }
    command = command_inner(command);
    if (command->type == COMMAND_LEASE_GRANT && lease_of(command->grant.id)->touched_us == 0) {
        /* What was in the log when the process started is counted from then. */
        bool is_new = node->service != NULL && node->service->engine != NULL &&
                      context->index > raft_engine_loaded_index(node->service->engine);
        lease_touched(command->grant.id, command->grant.ttl_ms, node_now_us(node), is_new);
    } else if (command->type == COMMAND_LEASE_REVOKE) {
        lease_of(command->revoke.id)->is_gone = true;
    }
}

/* Every node applies the same entry at the same place. */
static struct {
    uint64_t *hashes; /* by index */
    size_t n;
} history;

static uint64_t hash_bytes(struct bytes bytes) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes.size; i++) {
        hash = (hash ^ bytes.data[i]) * UINT64_C(0x100000001b3);
    }
    return hash | 1;
}

void __real_apply_item(void *data, const struct log_item *item);
void __wrap_apply_item(void *data, const struct log_item *item);
void __wrap_apply_item(void *data, const struct log_item *item) {
    while (history.n <= item->index) {
        size_t n = history.n == 0 ? 4096 : history.n * 2;
        history.hashes = realloc(history.hashes, n * sizeof *history.hashes);
        if (history.hashes == NULL) {
            abort();
        }
        memset(history.hashes + history.n, 0, (n - history.n) * sizeof *history.hashes);
        history.n = n;
    }
    uint64_t hash = hash_bytes(bytes_of(item->bytes, item->size));
    uint64_t *known = &history.hashes[item->index];
    if (*known != 0 && *known != hash) {
        check_failed("agreement", "%s applies another entry at %llu than others did",
                     node_current()->name, (unsigned long long)item->index);
    }
    if (*known == 0) {
        pipelines_applied(item);
    }
    *known = hash;
    __real_apply_item(data, item);
}

/* --- Equal replicas. --- */

bool checks_nodes_are_level(void) {
    uint64_t index = 0;
    for (size_t i = 0; i < nodes_count(); i++) {
        struct node *node = node_at(i);
        if (!node->is_in_service) {
            continue;
        }
        if (!node->is_up || node->service == NULL) {
            return false;
        }
        uint64_t applied = raft_engine_applied_index(node->service->engine);
        if (index != 0 && applied != index) {
            return false;
        }
        index = applied;
    }
    return true;
}

void checks_nodes_are_equal(void) {
    struct buffer first;
    const struct node *first_node = NULL;
    for (size_t i = 0; i < nodes_count(); i++) {
        if (!node_at(i)->is_in_service) {
            continue;
        }
        struct snapshot_view *view = snapshot_view_open(node_at(i)->service->machine);
        struct buffer bytes;
        buffer_init(&bytes);
        snapshot_view_write(view, &bytes);
        snapshot_view_close(view);
        if (first_node == NULL) {
            first_node = node_at(i);
            first = bytes;
            continue;
        }
        if (!bytes_equal(bytes_of(first.data, first.size), bytes_of(bytes.data, bytes.size))) {
            check_failed("replicas", "%s and %s have applied the same log and differ",
                         first_node->name, node_at(i)->name);
        }
        buffer_clear(&bytes);
    }
    if (first_node != NULL) {
        buffer_clear(&first);
    }
}
