/* Processes that register instances of one service and renew them by drifting clocks. Now and then
 * one takes over an id of another, drains, leaves, or just stops, or all of them stop at once.
 * Whoever renews is never lost early and whoever stops goes in time (checks.h looks at the leases);
 * a process that was replaced can neither renew nor remove its successor; tokens grow; and on every
 * node counters are true and lost instances are listed only while the guard is on. */
#include "call.h"
#include "checks.h"
#include "clients.h"
#include "faults.h"
#include "node.h"
#include "registry/registry_keys.h"
#include "registry/registry_rules.h"
#include "registry/registry_view.h"
#include "world.h"

#include "core/state_view.h"

#include <inttypes.h>
#include <stdlib.h>

enum { IDS = 10, TTL_MS_MIN = 1000, TTL_MS_MAX = 4000, DRAIN_MS = 1000 };
enum { WINDOW_MS = 3000, HOLD_MS = 2000 }; /* of the guard */

static const char *const ids[IDS] = {"a", "a/b", "ab", "b", "c", "d", "e", "f", "g", "h"};

struct registrar {
    size_t number;
    int64_t rate_ppm;
    struct node *node;
    uint64_t round; /* answers of earlier rounds are of no interest */
    size_t id;
    int64_t ttl_ms;
    int64_t token;
    int64_t lease_id;
    bool is_registered; /* as far as it knows */
    bool is_replaced;   /* another has asked for its id */
    bool renews;
};

/* Something that one process has asked, or will do. */
struct errand {
    struct registrar *registrar;
    uint64_t round;
    int64_t newest_token; /* of its id that anybody was told, when it was sent */
    void (*act)(struct registrar *registrar);
};

static struct registrar registrars[REGISTRARS_MAX];
static size_t n_registrars;
static int64_t newest_tokens[IDS];
/* A registration of which nobody knows what came of it may come later than others. */
static bool is_haunted[IDS];
static bool is_stopped;

static void begin(struct registrar *registrar);

static struct errand *errand_of(struct registrar *registrar) {
    struct errand *errand = calloc(1, sizeof *errand);
    if (errand == NULL) {
        abort();
    }
    *errand = (struct errand){.registrar = registrar,
                              .round = registrar->round,
                              .newest_token = newest_tokens[registrar->id]};
    return errand;
}

static void errand_comes(void *data) {
    struct errand errand = *(struct errand *)data;
    free(data);
    if (errand.registrar->round == errand.round && !is_stopped) {
        errand.act(errand.registrar);
    }
}

static void later(struct registrar *registrar, uint64_t delay_us,
                  void (*act)(struct registrar *registrar)) {
    struct errand *errand = errand_of(registrar);
    errand->act = act;
    world_at(world_now_us() + delay_us, errand_comes, errand);
}

static void start_over(struct registrar *registrar) {
    registrar->round++;
    registrar->is_registered = false;
    registrar->renews = false;
    registrar->node = clients_choose_node();
    later(registrar, random_delay(50 * WORLD_MS, 2 * WORLD_SECOND), begin);
}

/* --- What must be true of every state. --- */

struct counting {
    size_t n_live;
    size_t n_kept;
};

static bool count_entry(void *context, const struct registry_entry *entry) {
    struct counting *counting = context;
    counting->n_live += !entry->is_kept;
    counting->n_kept += entry->is_kept;
    return true;
}

static void check_state(const struct node *node) {
    struct arena arena;
    struct counting counting = {0};
    struct registry_service service = {0};
    struct bytes name = bytes_from_text("web");
    if (!node->is_up || node->service == NULL) {
        return;
    }
    const struct key_store *keys = state_view_keys(service_view(node->service));
    arena_init(&arena);
    (void)registry_view_service(keys, &arena, name, &service);
    registry_view_visit(keys, &arena, name, count_entry, &counting);
    struct key_range mirror = {.key = bytes_from_text("leased/services/"),
                               .range_end = bytes_from_text("leased/services0")};
    size_t n_mirror = key_store_count(keys, KEY_SPACE_ETCD, mirror.key, mirror.range_end);
    arena_clear(&arena);
    if (counting.n_live != service.n_live || n_mirror != service.n_live ||
        counting.n_kept != (service.guard_lease_id != 0 ? service.n_lost : 0)) {
        check_failed(
            "registry", "%s counts %u live and %u lost, and lists %zu, %zu kept, %zu in the mirror",
            node->name, service.n_live, service.n_lost, counting.n_live, counting.n_kept, n_mirror);
    }
}

/* --- Renewing. --- */

static void lease_stands(struct registrar *registrar, const struct call *call, int64_t ttl_ms) {
    uint64_t local_us = (uint64_t)ttl_ms * (1000 - checks_drift_allowance_permille());
    uint64_t until_us =
        call->sent_us + local_us * 1000000 / (uint64_t)(1000000 + registrar->rate_ppm);
    if (!registrar->is_replaced) {
        checks_lease_stands(registrar->lease_id, ttl_ms, until_us);
    }
}

static void renewed(struct call *call) {
    struct errand errand = *(struct errand *)call->data;
    struct registrar *registrar = errand.registrar;
    free(call->data);
    if (call->status == STATUS_OK && errand.newest_token > registrar->token &&
        registrar->round == errand.round) {
        check_failed("registry", "process %zu renewed %" PRId64 " after %" PRId64 " was told",
                     registrar->number, registrar->token, errand.newest_token);
    }
    if (is_stopped || registrar->round != errand.round) {
        return;
    }
    if (call->status == STATUS_OK) {
        lease_stands(registrar, call, call->ttl_ms);
    } else if (call->status == STATUS_LEASE_NOT_FOUND) {
        if (!registrar->is_replaced) {
            checks_lease_not_found(registrar->lease_id);
        }
        start_over(registrar);
    } else {
        registrar->node = clients_choose_node();
    }
}

static void renew(struct registrar *registrar) {
    if (!registrar->renews) {
        return;
    }
    struct call *call = call_make(CALL_RENEW);
    call->lease_id = registrar->lease_id;
    call->lease_owner = KEY_SPACE_REGISTRY;
    call->ttl_ms = registrar->ttl_ms;
    call->answered = renewed;
    call->data = errand_of(registrar);
    call->patience_us = (uint64_t)registrar->ttl_ms * 1000;
    call_send(call, registrar->node);
    later(registrar, (uint64_t)registrar->ttl_ms * 300, renew);
}

/* --- Leaving. --- */

static void left(struct call *call) {
    struct errand errand = *(struct errand *)call->data;
    free(call->data);
    check_state(call->node);
    if (call->status == STATUS_OK && errand.newest_token > errand.registrar->token &&
        errand.registrar->round == errand.round) {
        check_failed("registry", "process %zu removed its successor", errand.registrar->number);
    }
    if (!is_stopped && errand.registrar->round == errand.round) {
        start_over(errand.registrar);
    }
}

static void leave(struct registrar *registrar) {
    uint64_t way = random_below(4);
    if (way == 0) {
        start_over(registrar); /* it just stops: its lease must end in time */
        return;
    }
    const struct registry_deregister request = {.service = bytes_from_text("web"),
                                                .id = bytes_from_text(ids[registrar->id]),
                                                .token = registrar->token,
                                                .drain_ms = way == 1 ? DRAIN_MS : 0};
    registrar->renews = false;
    if (!registrar->is_replaced) {
        checks_lease_given_up(registrar->lease_id);
    }
    struct call *call = call_make(CALL_RULE);
    call->rule_number = REGISTRY_RULE_DEREGISTER;
    call->answered = left;
    call->data = errand_of(registrar);
    registry_deregister_encode(&call->rule_request, &request);
    call_send(call, registrar->node);
}

/* --- Registering. --- */

/* Whoever has the id may lose it from now on. */
static void give_up(size_t id, const struct registrar *but) {
    for (size_t i = 0; i < n_registrars; i++) {
        struct registrar *other = &registrars[i];
        if (other == but || other->id != id) {
            continue;
        }
        if (other->is_registered && !other->is_replaced) {
            checks_lease_given_up(other->lease_id);
        }
        other->is_replaced = true;
    }
}

static void haunt(size_t id) {
    is_haunted[id] = true;
    give_up(id, NULL);
}

static void registered(struct call *call) {
    struct errand errand = *(struct errand *)call->data;
    struct registrar *registrar = errand.registrar;
    struct registry_registered answer;
    free(call->data);
    check_state(call->node);
    if (call->status != STATUS_OK) {
        if (!call->is_certain) {
            haunt(registrar->id);
        }
        if (!is_stopped) {
            start_over(registrar);
        }
        return;
    }
    if (!registry_registered_decode(bytes_of(call->rule_answer, call->rule_answer_size), &answer)) {
        check_failed("registry", "process %zu cannot read its answer", registrar->number);
    }
    if (answer.token <= errand.newest_token || answer.token <= answer.replaced_token) {
        check_failed("registry", "token %" PRId64 " was given after %" PRId64, answer.token,
                     errand.newest_token);
    }
    int64_t *newest = &newest_tokens[registrar->id];
    *newest = answer.token > *newest ? answer.token : *newest;
    if (is_stopped) {
        return;
    }
    registrar->token = answer.token;
    registrar->lease_id = answer.lease_id;
    registrar->is_registered = true;
    registrar->renews = true;
    lease_stands(registrar, call, answer.ttl_ms);
    later(registrar, (uint64_t)registrar->ttl_ms * 300, renew);
    later(registrar, random_delay(2 * WORLD_SECOND, 10 * WORLD_SECOND), leave);
}

static void begin(struct registrar *registrar) {
    if (faults_want_quiet()) {
        later(registrar, 200 * WORLD_MS, begin);
        return;
    }
    registrar->id = random_below(IDS);
    registrar->is_replaced = is_haunted[registrar->id];
    registrar->ttl_ms = (int64_t)random_between(TTL_MS_MIN, TTL_MS_MAX);
    /* It may itself be replaced by what another has asked and is still on its way. */
    for (size_t i = 0; i < n_registrars; i++) {
        registrar->is_replaced |= &registrars[i] != registrar && !registrars[i].is_registered &&
                                  registrars[i].id == registrar->id;
    }
    give_up(registrar->id, registrar);
    const struct registry_register request = {
        .instance = {.service = bytes_from_text("web"),
                     .id = bytes_from_text(ids[registrar->id]),
                     .origin = REGISTRY_ORIGIN_NATIVE,
                     .state = REGISTRY_UP,
                     .weight = 1,
                     .ttl_ms = registrar->ttl_ms}};
    struct call *call = call_make(CALL_RULE);
    call->rule_number = REGISTRY_RULE_REGISTER;
    call->answered = registered;
    call->data = errand_of(registrar);
    registry_register_encode(&call->rule_request, &request);
    call_send(call, registrar->node);
}

/* A zone vanishes: all processes stop at once, and others come some seconds later. */
static void zone_fails(void *data) {
    (void)data;
    if (is_stopped) {
        return;
    }
    for (size_t i = 0; i < n_registrars; i++) {
        if (registrars[i].is_registered) {
            start_over(&registrars[i]);
        }
    }
    world_at(world_now_us() + random_between(6, 15) * WORLD_SECOND, zone_fails, NULL);
}

/* --- Beginning and end. --- */

static void set(struct registrar *registrar);

/* Nobody registers before the guard's times are as short as the simulation is. */
static void settings_are_set(struct call *call) {
    struct registrar *registrar = call->data;
    if (call->status != STATUS_OK) {
        registrar->node = clients_choose_node();
        later(registrar, 200 * WORLD_MS, set);
        return;
    }
    for (size_t i = 0; i < n_registrars; i++) {
        later(&registrars[i], random_below(WORLD_SECOND), begin);
    }
}

static void set(struct registrar *registrar) {
    const struct registry_settings request = {
        .service = bytes_from_text("web"),
        .settings = {.guard_window_ms = WINDOW_MS, .guard_hold_ms = HOLD_MS}};
    struct call *call = call_make(CALL_RULE);
    call->rule_number = REGISTRY_RULE_SETTINGS;
    call->answered = settings_are_set;
    call->data = registrar;
    registry_settings_encode(&call->rule_request, &request);
    call_send(call, registrar->node);
}

void registrars_start(size_t n) {
    n_registrars = n;
    for (size_t i = 0; i < n; i++) {
        registrars[i] = (struct registrar){
            .number = i, .rate_ppm = nodes_random_rate_ppm(), .node = clients_choose_node()};
    }
    later(&registrars[0], random_below(WORLD_SECOND), set);
    world_at(random_between(4, 12) * WORLD_SECOND, zone_fails, NULL);
}

void registrars_stop(void) {
    is_stopped = true;
}

void registrars_check(void) {
    for (size_t i = 0; n_registrars > 0 && i < nodes_count(); i++) {
        const struct node *node = node_at(i);
        check_state(node);
        if (node->is_up && node->service != NULL) {
            struct arena arena;
            struct registry_service service = {0};
            arena_init(&arena);
            (void)registry_view_service(state_view_keys(service_view(node->service)), &arena,
                                        bytes_from_text("web"), &service);
            arena_clear(&arena);
            if (service.n_live + service.n_lost + service.n_tombstones != 0 ||
                service.guard_lease_id != 0) {
                check_failed("registry", "%s has something left without a lease", node->name);
            }
            trace("%s: the guard was on %" PRIu64 " times", node->name, service.n_guarded);
        }
    }
}
