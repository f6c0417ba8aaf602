/* What does not follow from one option alone: defaults made from other options, and which go
 * together. */
#include "server/options.h"

#include "base/duration.h"
#include "base/host_port.h"
#include "core/command.h"
#include "server/options_tls.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { HEARTBEATS_PER_ELECTION_MIN = 5, HISTORY_BYTES_MIN = 1024 * 1024 };

__attribute__((format(printf, 2, 3))) static enum status fail(char out_error[OPTIONS_ERROR_SIZE],
                                                              const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out_error, OPTIONS_ERROR_SIZE, format, arguments);
    va_end(arguments);
    return STATUS_INVALID;
}

static enum status check_name(struct options *options, char *out_error) {
    const char *name = options->name;
    if (*name == '\0' || strlen(name) > OPTIONS_NAME_SIZE_MAX) {
        return fail(out_error, "--name: a name has 1 to %d bytes", OPTIONS_NAME_SIZE_MAX);
    }
    for (; *name != '\0'; name++) {
        if ((unsigned char)*name < ' ' || *name == 0x7f || *name == '=' || *name == ',') {
            return fail(out_error, "--name: control characters, '=' and ',' cannot be in a name");
        }
    }
    if (*options->data_dir == '\0') {
        if (strchr(options->name, '/') != NULL) {
            return fail(out_error, "--name has a slash in it, so --data-dir must be given");
        }
        size_t size = strlen(options->name) + sizeof ".leased";
        char *path = arena_alloc(&options->arena, size);
        snprintf(path, size, "%s.leased", options->name);
        options->data_dir = path;
    }
    return STATUS_OK;
}

static enum status check_tokens(struct options *options, char *out_error) {
    return options->auth_token_ttl_s == 0 || options->auth_token_ttl_s >= OPTIONS_TOKEN_TTL_S_MIN
               ? STATUS_OK
               : fail(out_error, "--auth-token-ttl: at least %d seconds, or 0 for a day",
                      OPTIONS_TOKEN_TTL_S_MIN);
}

static bool is_other(const char *path, const char *than) {
    return *path != '\0' && strcmp(path, than) != 0;
}

/* TLS between members is all or nothing: certificate and key or --peer-auto-tls, and https://
 * wherever a member is. */
static enum status check_peer_tls(struct options *options, char *out_error) {
    bool has_cert = *options->peer_cert_file != '\0';
    bool has_key = *options->peer_key_file != '\0';
    bool is_asked_for = has_cert || has_key || *options->peer_trusted_ca_file != '\0' ||
                        options->peer_client_cert_auth || *options->peer_cert_allowed_cn != '\0' ||
                        *options->peer_cert_allowed_hostname != '\0' ||
                        *options->peer_crl_file != '\0';
    if (is_asked_for && (!has_cert || !has_key)) {
        return fail(out_error,
                    "--%s is missing: TLS between members needs --peer-cert-file, --peer-key-file "
                    "and --peer-trusted-ca-file",
                    has_cert ? "peer-key-file" : "peer-cert-file");
    }
    if (is_other(options->peer_client_cert_file, options->peer_cert_file) ||
        is_other(options->peer_client_key_file, options->peer_key_file)) {
        return fail(out_error, "--peer-client-cert-file: a member shows one certificate in both "
                               "directions, that of --peer-cert-file; name the same files");
    }
    if (is_asked_for && options->peer_auto_tls) {
        options_notice(options, LOG_INFO,
                       "--peer-auto-tls has no effect: --peer-cert-file is given");
        options->peer_auto_tls = false;
    }
    options->has_peer_tls = is_asked_for || options->peer_auto_tls;
    return STATUS_OK;
}

static enum status check_peer_schemes(const struct options *options, const struct url_list *list,
                                      const char *flag, char *out_error) {
    for (size_t i = 0; i < list->n; i++) {
        if (!url_is_unix(&list->urls[i]) && list->urls[i].port == 0) {
            return fail(out_error, "--%s %s: members must know the port; it cannot be 0", flag,
                        list->texts[i]);
        }
        bool is_tls = url_is_tls(&list->urls[i]);
        if (is_tls && !options->has_peer_tls) {
            return fail(out_error,
                        "--%s %s: TLS between members needs --peer-cert-file, --peer-key-file and "
                        "--peer-trusted-ca-file, or --peer-auto-tls",
                        flag, list->texts[i]);
        }
        if (!is_tls && options->has_peer_tls) {
            return fail(out_error, "--%s %s: members speak TLS here (--%s), all of them; say %s",
                        flag, list->texts[i],
                        options->peer_auto_tls ? "peer-auto-tls" : "peer-cert-file",
                        url_is_unix(&list->urls[i]) ? "unixs://" : "https://");
        }
    }
    return STATUS_OK;
}

static enum status check_peer_urls(const struct options *options, char *out_error) {
    enum status status =
        check_peer_schemes(options, &options->listen_peer_urls, "listen-peer-urls", out_error);
    if (status == STATUS_OK) {
        status = check_peer_schemes(options, &options->initial_advertise_peer_urls,
                                    "initial-advertise-peer-urls", out_error);
    }
    for (size_t i = 0; i < options->n_members && status == STATUS_OK; i++) {
        status = check_peer_schemes(options, &options->members[i].peer_urls, "initial-cluster",
                                    out_error);
    }
    return status;
}

/* A certificate that a member made for itself proves nothing, and one of any authority that the
 * system trusts only with a name that is asked for. */
static bool certificates_prove_members(const struct options *options) {
    return !options->peer_auto_tls &&
           (*options->peer_trusted_ca_file != '\0' || *options->peer_cert_allowed_cn != '\0' ||
            *options->peer_cert_allowed_hostname != '\0');
}

static enum status check_listeners(const struct options *options, const struct url_list *list,
                                   const char *flag, char *out_error) {
    bool is_for_peers = list == &options->listen_peer_urls;
    bool is_of_door = list != &options->listen_client_urls &&
                      list != &options->listen_client_http_urls &&
                      list != &options->listen_metrics_urls;
    for (size_t i = 0; i < list->n; i++) {
        bool is_tls = url_is_tls(&list->urls[i]);
        if (is_tls && !is_for_peers && !options->has_client_tls) {
            /* Of metrics in etcd's words. */
            return fail(out_error,
                        list == &options->listen_metrics_urls
                            ? "--%s %s: client TLS key/cert (--cert-file, --key-file) must be "
                              "provided for metrics secure url, or --auto-tls for one that no "
                              "authority signed"
                            : "--%s %s: TLS needs a certificate: --cert-file and --key-file, or "
                              "--auto-tls for one that no authority signed",
                        flag, list->texts[i]);
        }
        /* Between members check_peer_urls() looks at it. */
        if (is_tls && (!is_for_peers || certificates_prove_members(options))) {
            continue;
        }
        bool is_open = !url_is_loopback(&list->urls[i]) && !options->allow_insecure;
        if (is_open && is_for_peers && *options->peer_secret_file == '\0') {
            return fail(out_error,
                        "--%s %s: whoever reaches this address could act as a member; give the "
                        "members certificates (--peer-cert-file, --peer-trusted-ca-file) or a "
                        "shared secret "
                        "(--peer-secret-file), listen on 127.0.0.1, or accept that with "
                        "--allow-insecure",
                        flag, list->texts[i]);
        }
        if (is_open && !is_for_peers) {
            return fail(
                out_error,
                "--%s %s: clients on other machines could read and write everything there, without "
                "TLS or a password; say %s and give --cert-file and --key-file, listen "
                "on 127.0.0.1, or accept that with --allow-insecure",
                flag, list->texts[i], is_of_door ? "tls://" : "https://");
        }
    }
    return STATUS_OK;
}

/* A wildcard can be listened on and not be connected to: name the loopback instead and say so. */
static void advertise_what_is_listened_on(struct options *options, const struct url_list *listened,
                                          const char *flag, struct url_list *advertised) {
    *advertised = *listened;
    for (size_t i = 0; i < advertised->n; i++) {
        struct url *url = &advertised->urls[i];
        if (url_is_wildcard(url)) {
            const char *host = strchr(url->host, ':') == NULL ? "127.0.0.1" : "::1";
            memcpy(url->host, host, strlen(host) + 1);
            advertised->texts[i] = url_text(url, &options->arena);
            options_notice(options, LOG_WARNING,
                           "other machines cannot use the advertised URL %s; give --%s",
                           advertised->texts[i], flag);
        }
    }
}

static struct options_member *member_named(struct options *options, const char *name) {
    for (size_t i = 0; i < options->n_members; i++) {
        if (strcmp(options->members[i].name, name) == 0) {
            return &options->members[i];
        }
    }
    return NULL;
}

/* One "name=URL" of --initial-cluster. */
static enum status add_member_url(struct options *options, char *text, char *out_error) {
    char *separator = strchr(text, '=');
    if (separator == NULL) {
        return fail(out_error, "--initial-cluster: \"%s\" is not of the form name=URL", text);
    }
    *separator = '\0';
    struct url url;
    char reason[OPTIONS_ERROR_SIZE / 2];
    if (url_parse(separator + 1, &url, reason, sizeof reason) != STATUS_OK) {
        return fail(out_error, "--initial-cluster: %s", reason);
    }
    struct options_member *member = member_named(options, text);
    if (member == NULL) {
        if (options->n_members == OPTIONS_MEMBERS_MAX) {
            return fail(out_error, "--initial-cluster: more than %d members", OPTIONS_MEMBERS_MAX);
        }
        member = &options->members[options->n_members++];
        memset(member, 0, sizeof *member);
        member->name = text;
    }
    if (member->peer_urls.n == URL_LIST_MAX) {
        return fail(out_error, "--initial-cluster: too many URLs");
    }
    member->peer_urls.urls[member->peer_urls.n] = url;
    member->peer_urls.texts[member->peer_urls.n++] = url_text(&url, &options->arena);
    return STATUS_OK;
}

/* Reads "name=URL,name=URL"; several URLs of one member repeat its name. */
static enum status check_initial_cluster(struct options *options, char *out_error) {
    const char *start = options->initial_cluster;
    options->n_members = 0;
    if (*start == '\0') {
        return STATUS_OK;
    }
    for (;;) {
        size_t size = strcspn(start, ",");
        char *text = arena_copy(&options->arena, start, size + 1);
        text[size] = '\0';
        enum status status = add_member_url(options, text, out_error);
        if (status != STATUS_OK) {
            return status;
        }
        if (start[size] == '\0') {
            break;
        }
        start += size + 1;
    }
    const struct options_member *self = member_named(options, options->name);
    if (self == NULL) {
        return fail(out_error, "--initial-cluster does not name this member, \"%s\" (--name)",
                    options->name);
    }
    if (options->initial_advertise_peer_urls.n == 0) {
        options->initial_advertise_peer_urls = self->peer_urls;
    }
    options->is_named_otherwise =
        !url_list_equal(&self->peer_urls, &options->initial_advertise_peer_urls);
    return STATUS_OK;
}

static enum status check_urls(struct options *options, char *out_error) {
    if (options->listen_client_urls.n == 0) {
        return fail(out_error, "--listen-client-urls is empty: give at least one URL");
    }
    if (options->listen_peer_urls.n < 1 ||
        options->listen_peer_urls.n > OPTIONS_PEER_LISTENERS_MAX) {
        return fail(out_error, "--listen-peer-urls: give 1 to %d URLs", OPTIONS_PEER_LISTENERS_MAX);
    }
    enum status status =
        check_listeners(options, &options->listen_client_urls, "listen-client-urls", out_error);
    if (status == STATUS_OK) {
        status = check_listeners(options, &options->listen_client_http_urls,
                                 "listen-client-http-urls", out_error);
    }
    if (status == STATUS_OK) {
        status = check_listeners(options, &options->listen_metrics_urls, "listen-metrics-urls",
                                 out_error);
    }
    if (status == STATUS_OK) {
        status =
            check_listeners(options, &options->listen_peer_urls, "listen-peer-urls", out_error);
    }
    if (status == STATUS_OK) {
        status = check_initial_cluster(options, out_error);
    }
    if (status == STATUS_OK) {
        status = check_peer_urls(options, out_error);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (options->advertise_client_urls.n == 0) {
        advertise_what_is_listened_on(options, &options->listen_client_urls,
                                      "advertise-client-urls", &options->advertise_client_urls);
    }
    if (options->initial_advertise_peer_urls.n == 0) {
        advertise_what_is_listened_on(options, &options->listen_peer_urls,
                                      "initial-advertise-peer-urls",
                                      &options->initial_advertise_peer_urls);
    }
    options->is_peer_port_asked_for =
        options->listen_peer_urls.n > 1 ||
        strcmp(options->listen_peer_urls.texts[0], OPTIONS_PEER_URL_DEFAULT) != 0;
    options->peer_address =
        url_address(&options->initial_advertise_peer_urls.urls[0], &options->arena);
    return STATUS_OK;
}

static enum status check_timing(const struct options *options, char *out_error) {
    if (options->election_timeout_ms <
        HEARTBEATS_PER_ELECTION_MIN * options->heartbeat_interval_ms) {
        return fail(out_error,
                    "--election-timeout %llu must be at least %d times --heartbeat-interval %llu",
                    (unsigned long long)options->election_timeout_ms, HEARTBEATS_PER_ELECTION_MIN,
                    (unsigned long long)options->heartbeat_interval_ms);
    }
    return STATUS_OK;
}

static bool is_whole_number(const char *text) {
    return *text != '\0' && strspn(text, "0123456789") == strlen(text) && strlen(text) <= 18;
}

static enum status check_compaction(struct options *options, char *out_error) {
    if (options->history_bytes != 0 && options->history_bytes < HISTORY_BYTES_MIN) {
        return fail(out_error, "--history-bytes: at least %d, or 0 for the default",
                    HISTORY_BYTES_MIN);
    }
    const char *text = options->auto_compaction_retention;
    options->is_compacting_by_revision = strcmp(options->auto_compaction_mode, "revision") == 0;
    bool is_default = strcmp(text, OPTIONS_RETENTION_DEFAULT) == 0;
    if (options->is_compacting_by_revision && is_default) {
        return STATUS_OK;
    }
    if (options->is_compacting_by_revision) {
        if (!is_whole_number(text)) {
            return fail(out_error,
                        "--auto-compaction-retention: \"%s\" is not a number of "
                        "revisions",
                        text);
        }
        options->auto_compaction_revisions = strtoull(text, NULL, 10);
        options->keeps_all_history = options->auto_compaction_revisions == 0;
        return STATUS_OK;
    }
    int64_t retention_ms = 0;
    if (duration_parse(text, DURATION_BARE_HOURS, &retention_ms) != STATUS_OK) {
        return fail(out_error,
                    "--auto-compaction-retention: \"%s\" is neither hours nor a "
                    "duration such as 30m",
                    options->auto_compaction_retention);
    }
    options->auto_compaction_retention_ms = (uint64_t)retention_ms;
    options->keeps_all_history = retention_ms == 0;
    return STATUS_OK;
}

static void check_logging(struct options *options) {
    static const struct {
        const char *name;
        enum log_level level;
    } levels[] = {
        {"debug", LOG_DEBUG},  {"info", LOG_INFO},   {"warn", LOG_WARNING}, {"error", LOG_ERROR},
        {"dpanic", LOG_ERROR}, {"panic", LOG_ERROR}, {"fatal", LOG_ERROR},
    };
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (strcmp(options->log_level_name, levels[i].name) == 0) {
            options->log_level = levels[i].level;
        }
    }
    if (options->debug) {
        options->log_level = LOG_DEBUG;
    }
    size_t first_size = strcspn(options->log_outputs, ",");
    if (options->log_outputs[first_size] != '\0') {
        char *first = arena_copy(&options->arena, options->log_outputs, first_size + 1);
        first[first_size] = '\0';
        options_notice(options, LOG_WARNING,
                       "--log-outputs: lines are written to %s alone; give one output", first);
        options->log_outputs = first;
    }
    options->log_format =
        strcmp(options->log_format_name, "json") == 0 ||
                (*options->log_format_name == '\0' && strcmp(options->logger, "zap") == 0)
            ? LOG_FORMAT_JSON
            : LOG_FORMAT_TEXT;
}

/* --doors: names with commas between them, each of a door that there is. */
static enum status check_doors(struct options *options, char *out_error) {
    const char *start = options->doors_text;
    for (;;) {
        size_t size = strcspn(start, ",");
        size_t found = 0;
        while (found < options->doors->n_doors &&
               (strlen(options->doors->doors[found]->name) != size ||
                memcmp(options->doors->doors[found]->name, start, size) != 0)) {
            found++;
        }
        if (found == options->doors->n_doors) {
            return fail(out_error,
                        "--doors: there is no protocol \"%.*s\"; leased --help lists them",
                        (int)size, start);
        }
        options->door_settings[found].is_chosen = true;
        if (start[size] == '\0') {
            break;
        }
        start += size + 1;
    }
    for (size_t i = 0; i < options->doors->n_doors; i++) {
        char flag[OPTIONS_NAME_SIZE_MAX];
        snprintf(flag, sizeof flag, "listen-%s", options->doors->doors[i]->name);
        enum status status =
            check_listeners(options, &options->door_settings[i].listen, flag, out_error);
        if (status != STATUS_OK) {
            return status;
        }
        const struct door *door = options->doors->doors[i];
        const struct options_door *settings = &options->door_settings[i];
        if (door->needs_own_port && settings->is_chosen && settings->listen.n == 0) {
            return fail(out_error,
                        "--doors: %s cannot be served on the client URLs, because nothing tells it "
                        "from other protocols; give --listen-%s HOST:PORT (its usual port is %u)",
                        door->name, door->name, door->default_port);
        }
        const char *wrong =
            door->check != NULL ? door->check(options->door_settings[i].values) : NULL;
        if (wrong != NULL) {
            return fail(out_error, "%s", wrong);
        }
    }
    return STATUS_OK;
}

enum status options_check(struct options *options, char out_error[OPTIONS_ERROR_SIZE]) {
    enum status status = check_name(options, out_error);
    if (status == STATUS_OK) {
        status = check_tokens(options, out_error);
    }
    if (status == STATUS_OK) {
        status = check_peer_tls(options, out_error);
    }
    if (status == STATUS_OK) {
        status = options_check_client_tls(options, out_error);
    }
    if (status == STATUS_OK) {
        status = check_urls(options, out_error);
    }
    if (status == STATUS_OK) {
        status = check_doors(options, out_error);
    }
    if (status == STATUS_OK) {
        status = check_timing(options, out_error);
    }
    if (status == STATUS_OK) {
        status = check_compaction(options, out_error);
    }
    if (status == STATUS_OK) {
        check_logging(options);
        if (options->max_txn_ops != COMMAND_TXN_OPERATIONS_MAX) {
            options_notice(options, LOG_WARNING, "--max-txn-ops cannot be lowered: %d are allowed",
                           COMMAND_TXN_OPERATIONS_MAX);
        }
    }
    return status;
}
