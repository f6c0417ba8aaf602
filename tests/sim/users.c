/* Users, in one seed of four: an administrator adds them and enables authentication while the
 * others work, and then takes a right away from a guest and gives it back, again and again. Whoever
 * else there is works as a user with all rights. Rights are looked at where entries are applied, by
 * what the roles say, not by the product's own check. */
#include "users.h"

#include "call.h"
#include "clients.h"
#include "core/auth.h"
#include "core/state_machine.h"
#include "node.h"
#include "world.h"

#include <stdio.h>

enum { SEEDS_A_SHARE = 4, GUESTS = 2 };

/* Users are numbered by the revision that added them, so their numbers are known beforehand,
 * whichever attempt of a step succeeds. */
static const struct caller root = {.user_id = 2, .auth_version = 2};
static const struct caller worker = {.user_id = 4, .auth_version = 4};
static const struct caller guest = {.user_id = 5, .auth_version = 5};

static const uint8_t token_key[AUTH_TOKEN_KEY_SIZE] = {1};

#define NAME(text)                                                                                 \
    { .data = (const uint8_t *)(text), .size = sizeof(text) - 1 }
#define ALL                                                                                        \
    { .data = (const uint8_t *)"", .size = 1 }

/* In this order, each until it is certain. */
static const struct auth_change steps[] = {
    {.action = AUTH_USER_ADD, .user = NAME("root")},
    {.action = AUTH_USER_GRANT_ROLE, .user = NAME("root"), .role = NAME("root")},
    {.action = AUTH_USER_ADD, .user = NAME("worker")},
    {.action = AUTH_USER_ADD, .user = NAME("guest")},
    {.action = AUTH_ROLE_ADD, .role = NAME("worker")},
    {.action = AUTH_ROLE_ADD, .role = NAME("guest")},
    {.action = AUTH_USER_GRANT_ROLE, .user = NAME("worker"), .role = NAME("worker")},
    {.action = AUTH_USER_GRANT_ROLE, .user = NAME("guest"), .role = NAME("guest")},
    {.action = AUTH_ROLE_GRANT_PERMISSION,
     .role = NAME("worker"),
     .permission = {RIGHT_READ_WRITE, {{.value = 1}, ALL, ALL}}},
    {.action = AUTH_ROLE_GRANT_PERMISSION,
     .role = NAME("worker"),
     .permission = {RIGHT_READ_WRITE, {{.value = 249}, ALL, ALL}}},
    {.action = AUTH_ROLE_GRANT_PERMISSION,
     .role = NAME("worker"),
     .permission = {RIGHT_READ_WRITE, {{.value = 250}, ALL, ALL}}},
    {.action = AUTH_ENABLE, .token_key = {.data = token_key, .size = sizeof token_key}},
};
enum { N_STEPS = sizeof steps / sizeof steps[0] };

/* Before the last of these, where clients of other protocols work as well. */
static const struct auth_change door_steps[] = {
    {.action = AUTH_ROLE_GRANT_PERMISSION,
     .role = NAME("worker"),
     .permission = {RIGHT_READ_WRITE, {{.value = 16}, ALL, ALL}}},
    {.action = AUTH_ROLE_GRANT_PERMISSION,
     .role = NAME("worker"),
     .permission = {RIGHT_READ_WRITE, {{.value = 17}, ALL, ALL}}},
    {.action = AUTH_ROLE_GRANT_PERMISSION,
     .role = NAME("worker"),
     .permission = {RIGHT_READ_WRITE, {{.value = 20}, ALL, ALL}}},
};

static const struct auth_change allow = {
    .action = AUTH_ROLE_GRANT_PERMISSION,
    .role = NAME("guest"),
    .permission = {RIGHT_WRITE, {{.value = 1}, NAME("guest"), {.size = 0}}}};
static const struct auth_change forbid = {
    .action = AUTH_ROLE_REVOKE_PERMISSION,
    .role = NAME("guest"),
    .permission = {RIGHT_READ, {{.value = 1}, NAME("guest"), {.size = 0}}}};

static size_t step;
static size_t n_door_steps;
static bool is_stopped;
/* What the guest is told when it asks between an answer to the administrator and the next change.
 */
static bool is_forbidden; /* for certain */
static bool is_in_doubt;
static uint64_t change; /* counts changes that were asked for */

static bool are_there(void) {
    return world_seed() % SEEDS_A_SHARE == SEEDS_A_SHARE - 1;
}

const struct caller *users_root(void) {
    return are_there() ? &root : &caller_anonymous;
}

const struct caller *users_worker(void) {
    return are_there() ? &worker : &caller_anonymous;
}

/* --- Applying. --- */

bool users_guest_may_write(const struct state_machine *machine) {
    struct auth_role role;
    return auth_find_role(state_machine_auth(machine), bytes_from_text("guest"), &role) &&
           role.n_permissions > 0;
}

void users_check_applied(const struct node *node, const struct command *command, bool was_enabled,
                         bool might_write, const struct outcome *outcome) {
    if (!was_enabled || outcome->status != STATUS_OK) {
        return;
    }
    bool is_put = command_inner(command)->type == COMMAND_PUT;
    if (is_put && command->type != COMMAND_AS) {
        check_failed("right", "%s applied a write of nobody", node->name);
    }
    if (is_put && command->as.caller.user_id == guest.user_id && !might_write) {
        check_failed("right", "%s applied a write of a user whose right had been taken away",
                     node->name);
    }
}

/* --- The administrator. --- */

static void next_change(void *data);

static void again(uint64_t min_ms, uint64_t max_ms) {
    world_at(world_now_us() + random_between(min_ms, max_ms) * WORLD_MS, next_change, NULL);
}

static size_t n_steps(void) {
    return N_STEPS + n_door_steps;
}

static const struct auth_change *step_at(size_t at) {
    if (at < N_STEPS - 1) {
        return &steps[at];
    }
    return at < N_STEPS - 1 + n_door_steps ? &door_steps[at - (N_STEPS - 1)] : &steps[N_STEPS - 1];
}

static void changed(struct call *call) {
    bool is_done = call->status == STATUS_OK || call->status == STATUS_USER_EXISTS ||
                   call->status == STATUS_ROLE_EXISTS ||
                   call->status == STATUS_PERMISSION_NOT_GRANTED;
    if (step < n_steps()) {
        step += is_done;
        again(1, 300);
        return;
    }
    /* A right that was perhaps given may be given at any time. */
    is_in_doubt |= !is_done && !call->is_certain && call->auth_change == &allow;
    is_forbidden = is_done && call->auth_change == &forbid && !is_in_doubt;
    again(20, 400);
}

static void next_change(void *data) {
    (void)data;
    if (is_stopped) {
        return;
    }
    const struct auth_change *wanted = step_at(step);
    if (step == n_steps()) {
        wanted = change++ % 2 == 0 ? &allow : &forbid;
    }
    is_forbidden = false;
    struct call *call = call_make(CALL_AUTH);
    call->auth_change = wanted;
    call->answered = changed;
    call_send(call, clients_choose_node());
}

/* --- The guest. --- */

struct attempt {
    uint64_t change;
    bool is_forbidden; /* when it was sent */
};

static struct attempt attempts[GUESTS];

static void next_attempt(void *data);

static void attempted(struct call *call) {
    struct attempt *attempt = call->data;
    if (call->status == STATUS_OK && attempt->is_forbidden && attempt->change == change) {
        check_failed("right", "a write was acknowledged that was asked for after the right to it "
                              "had been taken away");
    }
    world_at(world_now_us() + random_between(1, 60) * WORLD_MS, next_attempt, attempt);
}

static void next_attempt(void *data) {
    struct attempt *attempt = data;
    if (is_stopped) {
        return;
    }
    *attempt = (struct attempt){.change = change, .is_forbidden = is_forbidden};
    struct call *call = call_make(CALL_PUT);
    snprintf(call->key, sizeof call->key, "guest");
    call->caller = &guest;
    call->answered = attempted;
    call->data = attempt;
    call_send(call, clients_choose_node());
}

/* --- Beginning and end. --- */

void users_start(bool has_doors) {
    if (!are_there()) {
        return;
    }
    n_door_steps = has_doors ? sizeof door_steps / sizeof door_steps[0] : 0;
    again(0, 2000);
    for (size_t i = 0; i < GUESTS; i++) {
        world_at(random_below(WORLD_SECOND), next_attempt, &attempts[i]);
    }
}

void users_stop(void) {
    is_stopped = true;
}
