/* Requests that were refused for want of rights: counted all, logged a few a second. The log names
 * the user and the request, never a secret. */
#include "base/clock.h"
#include "base/log.h"
#include "core/auth.h"
#include "replication/service_internal.h"

#include <stdio.h>

enum { LOG_INTERVAL_MS = 1000, LOGGED_PER_INTERVAL = 5, NAME_SHOWN_MAX = 64 };

/* Whoever chose the name may have chosen it to deceive a reader of the log. */
static void show_name(const struct service *service, const struct caller *caller,
                      char out_text[NAME_SHOWN_MAX + 1]) {
    struct auth_user user;
    if (caller->user_id == 0) {
        snprintf(out_text, NAME_SHOWN_MAX + 1, "(anonymous)");
        return;
    }
    if (!auth_find_user_id(state_machine_auth(service->machine), caller->user_id, &user)) {
        snprintf(out_text, NAME_SHOWN_MAX + 1, "(unknown)");
        return;
    }
    size_t n = user.name.size < NAME_SHOWN_MAX ? user.name.size : NAME_SHOWN_MAX;
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = user.name.data[i];
        out_text[i] = byte >= 0x20 && byte < 0x7f ? (char)byte : '?';
    }
    out_text[n] = '\0';
}

enum status refusals_note(struct service *service, const struct caller *caller, enum status status,
                          const char *what) {
    if (status == STATUS_PERMISSION_DENIED) {
        service->counters.denied++;
    } else if (status == STATUS_USER_EMPTY || status == STATUS_AUTH_TOKEN_INVALID) {
        service->counters.unauthenticated++;
    } else {
        return status;
    }
    struct refusals *refusals = &service->refusals;
    uint64_t now_ms = clock_boottime_ms();
    if (clock_elapsed_ms(now_ms, refusals->since_ms) >= LOG_INTERVAL_MS) {
        if (refusals->n > LOGGED_PER_INTERVAL) {
            log_warning("more requests were refused",
                        LOG_NUMBER("requests", refusals->n - LOGGED_PER_INTERVAL));
        }
        refusals->since_ms = now_ms;
        refusals->n = 0;
    }
    if (refusals->n++ < LOGGED_PER_INTERVAL) {
        char name[NAME_SHOWN_MAX + 1];
        show_name(service, caller, name);
        log_warning("request refused", LOG_TEXT("user", name), LOG_TEXT("request", what),
                    LOG_TEXT("reason", status_text(status)));
    }
    return status;
}

const char *refusals_name_of(const struct command *command) {
    static const char *const names[] = {[COMMAND_PUT] = "put",
                                        [COMMAND_DELETE] = "delete",
                                        [COMMAND_TXN] = "transaction",
                                        [COMMAND_COMPACT] = "compaction",
                                        [COMMAND_LEASE_GRANT] = "grant of a lease",
                                        [COMMAND_LEASE_REVOKE] = "end of a lease",
                                        [COMMAND_LEASE_SET_TTL] = "change of a lease",
                                        [COMMAND_ALARM] = "change of an alarm",
                                        [COMMAND_MEMBER] = "change of the members",
                                        [COMMAND_RULE] = "rule",
                                        [COMMAND_AUTH] = "change of users or roles"};
    size_t type = (size_t)command_inner(command)->type;
    bool is_named = type < sizeof names / sizeof names[0] && names[type] != NULL;
    return is_named ? names[type] : "command";
}

enum status service_check_user(struct service *service, const struct caller *caller,
                               const char *what) {
    return refusals_note(service, caller,
                         auth_check_user(state_machine_auth(service->machine), caller), what);
}

enum status service_check_admin(struct service *service, const struct caller *caller,
                                const char *what) {
    return refusals_note(service, caller,
                         auth_check_admin(state_machine_auth(service->machine), caller), what);
}
