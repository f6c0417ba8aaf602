#include "cli/cli_lease.h"

#include "base/duration.h"
#include "cli/cli_advice.h"
#include "cli/cli_user.h"

#include <string.h>

enum { ENDPOINTS_SIZE_MAX = 8192 };

static const char *setting(const struct cli *cli, const char *option) {
    return cli_setting(&cli->settings, &cli->arguments, option);
}

/* --insecure-transport=false without a TLS file: endpoints without a scheme get one. */
static bool add_schemes(const char *text, char room[ENDPOINTS_SIZE_MAX]) {
    size_t size = 0;
    while (*text != '\0') {
        size_t length = strcspn(text, ",");
        const char *scheme = memmem(text, length, "://", 3) != NULL ? "" : "https://";
        int added = snprintf(room + size, ENDPOINTS_SIZE_MAX - size, "%s%s%.*s",
                             size > 0 ? "," : "", scheme, (int)length, text);
        size += (size_t)added;
        if (size >= ENDPOINTS_SIZE_MAX) {
            return false;
        }
        text += length + (text[length] == ',' ? 1 : 0);
    }
    return true;
}

static enum cli_exit open_with(struct cli *cli, enum lease_protocol protocol,
                               struct lease_connection **out_connection) {
    char endpoints[ENDPOINTS_SIZE_MAX];
    struct cli_user user;
    const char *plain = setting(cli, "--insecure-transport");
    struct lease_options options = LEASE_OPTIONS_INIT;
    options.endpoints = cli->endpoints_text;
    options.ca_file = setting(cli, "--cacert");
    options.cert_file = setting(cli, "--cert");
    options.key_file = setting(cli, "--key");
    options.insecure_skip_verify =
        cli_setting_is_true(&cli->settings, &cli->arguments, "--insecure-skip-tls-verify");
    options.connect_timeout_ms = cli->timeout_ms;
    options.request_timeout_ms = cli->timeout_ms;
    options.foreign_loop = true;
    options.protocol = protocol;
    enum cli_exit result = cli_user_take(cli, &user);
    if (result != CLI_OK) {
        return result;
    }
    options.user = user.name;
    options.password = user.password;
    if (plain != NULL && strcmp(plain, "false") == 0) {
        if (!add_schemes(cli->endpoints_text, endpoints)) {
            return cli_usage(cli, "the endpoints are too long");
        }
        options.endpoints = endpoints;
    }
    enum lease_status status = lease_open(&options, out_connection);
    return status == LEASE_OK ? CLI_OK : cli_lease_failed(cli, status, NULL);
}

enum cli_exit cli_open(struct cli *cli, struct lease_connection **out_connection) {
    return open_with(cli, LEASE_PROTOCOL_ANY, out_connection);
}

struct lease_connection *cli_open_for_lease(struct cli *cli, struct lease_connection *connection,
                                            enum lease_status status) {
    struct lease_connection *other = NULL;
    bool is_no_session = status == LEASE_NOT_FOUND || status == LEASE_LOST;
    if (!is_no_session || lease_protocol_used(connection) != LEASE_PROTOCOL_NATIVE ||
        open_with(cli, LEASE_PROTOCOL_ETCD, &other) != CLI_OK) {
        return NULL;
    }
    return other;
}

enum cli_exit cli_lease_failed(const struct cli *cli, enum lease_status status,
                               const char *reason) {
    (void)cli;
    if (reason == NULL || reason[0] == '\0') {
        reason = lease_error();
    }
    cli_advice_print(reason[0] != '\0' ? reason : lease_status_text(status));
    return CLI_FAILED;
}

/* ---- options ----------------------------------------------------------------------------------
 */

bool cli_time_option(struct cli *cli, const char *name, int64_t fallback_ms, int64_t min_ms,
                     int64_t *out_ms) {
    const char *text = arguments_value(&cli->arguments, name);
    int64_t time_ms = fallback_ms;
    if (text == NULL) {
        *out_ms = fallback_ms;
        return true;
    }
    if (duration_parse(text, DURATION_BARE_SECONDS, &time_ms) != STATUS_OK) {
        cli_usage(cli, "%s %s is not a time; give 250ms, 10s, 5m or 1h30m", name, text);
        return false;
    }
    if (time_ms < min_ms) {
        char least[DURATION_TEXT_SIZE_MAX];
        cli_usage(cli, "%s %s is too short; give %s or more", name, text,
                  duration_format(min_ms, least));
        return false;
    }
    *out_ms = time_ms;
    return true;
}

static const char *const class_names[] = {
    [LEASE_CLASS_NONE] = "none",
    [LEASE_CLASS_LOCK] = "lock",
    [LEASE_CLASS_LEADER] = "leader",
    [LEASE_CLASS_SESSION] = "session",
    [LEASE_CLASS_RESERVATION] = "reservation",
    [LEASE_CLASS_CACHE] = "cache",
};
enum { N_CLASSES = sizeof class_names / sizeof class_names[0] };

bool cli_class_option(struct cli *cli, enum lease_class fallback, enum lease_class *out_class) {
    const char *text = arguments_value(&cli->arguments, "--for");
    if (text == NULL) {
        *out_class = fallback;
        return true;
    }
    for (int i = LEASE_CLASS_LOCK; i < N_CLASSES; i++) {
        if (strcmp(text, class_names[i]) == 0) {
            *out_class = (enum lease_class)i;
            return true;
        }
    }
    cli_usage(cli, "--for %s is unknown; give lock, leader, session, reservation or cache", text);
    return false;
}

const char *cli_class_text(enum lease_class purpose) {
    return (unsigned)purpose < N_CLASSES ? class_names[purpose] : "unknown";
}

const char *cli_strategy_text(enum lease_strategy strategy) {
    static const char *const names[] = {
        [LEASE_STRATEGY_DEFAULT] = "default",       [LEASE_STRATEGY_HALF] = "at half",
        [LEASE_STRATEGY_CONTINUOUS] = "continuous", [LEASE_STRATEGY_ACTIVITY] = "on activity",
        [LEASE_STRATEGY_EXPLICIT] = "explicit",     [LEASE_STRATEGY_NEVER] = "never",
    };
    return (unsigned)strategy < sizeof names / sizeof names[0] ? names[strategy] : "unknown";
}
